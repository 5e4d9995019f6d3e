"""Principal components for ICA, and the way between data and whitened data."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from sklearn.utils import gen_batches

from .._validation import refuse_too_large
from .._warning import warn
from ._fits import signs_of
from ._ica_densities import MIRRORED

# Rows that are centred at a time.
N_ROWS = 4096
# Data that spread over less, by their dtype, or over more than the inverse of it, have
# variances (in float64) or filters that no number can hold. Nor may numbers be larger
# than that, however little they vary: they have squares, too.
LEAST_SPREAD = {"float64": 1e-140, "float32": 1e-30}
# What rounding does, in spacings of floats: by so many a feature that does not vary may
# seem to,
N_EPS = 100
# by so many features that depend on one another may seem not to, as data are rounded,
N_EPS_OF_DATA = 2
# and by so many of the largest variance those found from second moments are wrong.
N_EPS_OF_MOMENTS = 100


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

    @property
    def unit(self):
        """Root mean square of z: 1, unless data are taken as they are."""
        return float(np.sqrt(np.trace(self.second) / len(self.second)))

    def log_density_outside(self):
        """Mean log-density of the training data in the directions left out."""
        n_outside = len(self.mean) - len(self.forward)
        if n_outside == 0 or self.noise_variance == 0:
            return 0.0
        return -n_outside / 2 * (1 + np.log(2 * np.pi * self.noise_variance))


def principal_components(X, mean, solver, scale=1.0):
    """Variances of the principal components, largest first, and their directions.

    Also the rank: how many variances are not rounding errors, neither those of the
    solver nor those that the numbers in X have along the same direction. With the
    solver "svd", those of features divided by `scale`.
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
        second = second_moment(X, mean)
        variances, vectors = linalg.eigh(second)
        variances, vectors = variances[::-1], vectors[:, ::-1].T
        squares = np.diag(second)
        floor = N_EPS_OF_MOMENTS * n_features * eps
    else:
        centred = (X.astype(np.float64) - mean) / scale
        # (The rounding of the mean would be a direction that all rows share.)
        centred -= centred.mean(axis=0)
        _, singular, vectors = linalg.svd(centred, full_matrices=False)
        variances = singular**2 / n
        squares = np.square(centred).mean(axis=0)
    # Features of float32 depend on one another to within their own rounding.
    if eps_data > eps:
        floor = max(floor, n_features * eps_data**2)
    rounding = (N_EPS_OF_DATA * eps_data) ** 2 * (squares + np.square(mean / scale))
    varies = variances > np.maximum(floor * variances[0], vectors**2 @ rounding)
    # Features of other sizes have other rounding: the directions kept come first.
    order = np.argsort(~varies, kind="stable")
    return np.where(varies, variances, 0)[order], vectors[order], int(varies.sum())


def _scale(X, mean):
    """Standard deviations of features, infinity where they are only rounding."""
    scale = np.sqrt(np.diag(second_moment(X, mean)))
    rounding = N_EPS * np.finfo(X.dtype).eps * np.abs(mean)
    return np.where(scale > rounding, scale, np.inf)


def second_moment(X, mean):
    """Mean of ``(x - mean)(x - mean)^T`` in float64, without a copy of X."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for batch in gen_batches(len(X), N_ROWS):
        centred = X[batch] - mean
        total += centred.T @ centred
    return total / len(X)


def check_spread(X):
    """Refuse data that do not vary, or by so little or so much that numbers fail."""
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore"):
        spread = float((high - low).max())
    if spread == 0:
        raise ValueError("ICA needs data that vary, but all rows of X are equal.")
    least = LEAST_SPREAD[X.dtype.name]
    if not least <= spread <= 1 / least:
        raise ValueError(
            f"Features of X spread over up to {spread:.3g}, but ICA of {X.dtype} data "
            f"needs that between {least:g} and {1 / least:g}: scale X, for instance "
            "with StandardScaler."
        )
    largest = float(max(high.max(), -low.min()))
    refuse_too_large(largest, X.dtype, 1 / LEAST_SPREAD["float64"])


def whitening_of(X, n_components, solver, many):
    """Whiten X by its first principal components.

    Returns the whitening and the number of components of ICA: more than there are
    principal components only if `many`, otherwise with a warning that there are fewer.
    """
    n_features = X.shape[1]
    mean, scale = X.mean(axis=0, dtype=np.float64), np.ones(n_features)
    variances, vectors, rank = principal_components(X, mean, solver)
    if rank < n_features <= (n_components or n_features):
        # Where no direction is to be left out, those of small features count as well.
        standard = _scale(X, mean)
        found = principal_components(X, mean, "svd", standard)
        if found[2] == n_features:
            (variances, vectors, rank), scale = found, standard
    if rank == 0:
        raise ValueError(
            f"ICA needs data that vary, but numbers of {X.dtype} as large as those "
            "of X are rounded by as much as rows differ: give it in more digits, or "
            "take the mean off before it is rounded."
        )
    n_components = n_components or rank
    if n_components > rank and not many:
        warn(
            f"n_components is too large: it will be set to {rank}. More components "
            "than the data have directions need objective='score_matching'.",
        )
        n_components = rank
    n_kept = min(n_components, rank)
    deviations = np.sqrt(variances[:n_kept, np.newaxis])
    directions = vectors[:n_kept]
    directions = directions * signs_of(directions)[:, np.newaxis]
    n_outside = len(mean) - n_kept
    outside = variances[n_kept:].sum() if rank > n_kept else 0.0
    whitening = Whitening(
        mean,
        directions / deviations / scale,
        (directions * deviations * scale).T,
        np.eye(n_kept),
        -float(np.log(deviations).sum() + np.log(scale).sum()),
        float(outside / n_outside) if n_outside else 0.0,
    )
    return whitening, n_components


def no_whitening(X, n_components, many):
    """Take X as it is, with mean zero; otherwise as `whitening_of`."""
    n_features = X.shape[1]
    zero, identity = np.zeros(n_features), np.eye(n_features)
    second = second_moment(X, zero)
    if np.linalg.matrix_rank(second, hermitian=True) < n_features:
        raise ValueError(
            "whiten=False needs data that vary in all directions, but X of shape "
            f"{X.shape} does not have full rank."
        )
    n_components = n_components or n_features
    if n_components < n_features or n_components > n_features and not many:
        warn("Ignoring n_components with whiten=False.")
        n_components = n_features
    return Whitening(zero, identity, identity, second, 0.0, 0.0), n_components


def in_order(W, names, whitening):
    """Bring the rows of an unmixing matrix in their definite order, with their signs.

    The source that brings most variance to the data comes first; the largest entry
    of each column of the mixing matrix is positive. Also returns the densities of the
    sources in that order (`names` are those of the rows of W; a source whose sign
    changes leans the other way), and their standard deviations.
    """
    deviations = np.sqrt(np.einsum("ij,jk,ik->i", W, whitening.second, W))
    mixing = whitening.backward @ linalg.pinv(W)
    order = np.argsort(-linalg.norm(mixing * deviations, axis=0), kind="stable")
    signs = signs_of(mixing.T[order])
    names = [names[n] for n in order]
    names = [
        MIRRORED.get(name, name) if sign < 0 else name
        for name, sign in zip(names, signs, strict=True)
    ]
    return W[order] * signs[:, np.newaxis], names, deviations[order]
