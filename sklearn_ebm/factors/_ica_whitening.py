"""Principal components for ICA, and the way between data and whitened data."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from sklearn.utils import gen_batches

# Rows that are centred at a time.
N_ROWS = 4096


@dataclass(frozen=True)
class Whitening:
    """The affine map ``z = forward (x - mean)`` and what it leaves out.

    `backward` is the pseudo-inverse of `forward`, `second` the second moment of z
    about zero, `log_det` the logarithm of the factor by which `forward` changes
    volumes, `noise_variance` the variance in each direction that z leaves out.
    """

    mean: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    second: np.ndarray
    log_det: float
    noise_variance: float

    def apply(self, X):
        """Whitened X, of its dtype."""
        mean, forward = self.mean.astype(X.dtype), self.forward.astype(X.dtype)
        Z = np.empty((len(X), len(forward)), X.dtype)
        for batch in gen_batches(len(X), N_ROWS):
            np.dot(X[batch] - mean, forward.T, out=Z[batch])
        return Z

    def log_density_outside(self):
        """Mean log-density of the training data in the directions left out."""
        n_outside = len(self.mean) - len(self.forward)
        if n_outside == 0 or self.noise_variance == 0:
            return 0.0
        return -n_outside / 2 * (1 + np.log(2 * np.pi * self.noise_variance))


def principal_components(X, mean, solver):
    """Variances of the principal components, largest first, and their directions.

    Also the rank: how many variances are not rounding errors.
    """
    n, n_features = X.shape
    eps, eps_data = np.finfo(np.float64).eps, np.finfo(X.dtype).eps
    if solver == "auto":
        if n > n_features:
            found = principal_components(X, mean, "eigh")
            if found[2] == n_features:
                return found
        solver = "svd"
    floor = (max(n, n_features) * eps) ** 2
    if solver == "eigh":
        variances, vectors = linalg.eigh(second_moment(X, mean))
        variances, vectors = variances[::-1], vectors[:, ::-1].T
        floor = n_features * eps
    else:
        centred = X.astype(np.float64) - mean
        _, singular, vectors = linalg.svd(centred, full_matrices=False)
        variances = singular**2 / n
    # Features of float32 depend on one another to within their own rounding.
    if eps_data > eps:
        floor = max(floor, n_features * eps_data**2)
    rank = int((variances > floor * variances[0]).sum())
    return np.maximum(variances, 0), vectors, rank


def second_moment(X, mean):
    """Mean of ``(x - mean)(x - mean)^T`` in float64, without a copy of X."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for batch in gen_batches(len(X), N_ROWS):
        centred = X[batch].astype(np.float64) - mean
        total += centred.T @ centred
    return total / len(X)


def whitening_of(mean, variances, vectors, rank, n_components):
    """Keep the first components of a decomposition."""
    signs = np.sign(vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)])
    kept = slice(n_components)
    deviations = np.sqrt(variances[kept])[:, np.newaxis]
    directions = (vectors * signs[:, np.newaxis])[kept]
    n_outside = len(mean) - n_components
    left = variances[n_components:].sum() if rank > n_components else 0.0
    return Whitening(
        mean,
        directions / deviations,
        (directions * deviations).T,
        np.eye(n_components),
        -float(np.log(deviations).sum()),
        float(left / n_outside) if n_outside else 0.0,
    )


def no_whitening(X):
    """Take the data as they are, with mean zero."""
    n_features = X.shape[1]
    zero, identity = np.zeros(n_features), np.eye(n_features)
    second = second_moment(X, zero)
    return Whitening(zero, identity, identity, second, 0.0, 0.0)
