"""The slowest directions of sequences, from what is kept of their frames.

Moments are kept of many frames, and the frames themselves while they are fewer than
their (expanded) features: all there is of them then is in their products with each
other.
"""

from contextlib import nullcontext

import numpy as np
from scipy import linalg
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils import gen_batches

from .._products import single_threaded_blas
from ._fits import signs_of

# Numbers in a block of expanded frames.
BLOCK_SIZE = 2**18
# A feature whose deviation is this little beside its mean is constant but for rounding,
# and so is one whose variance has lost its digits, or has no inverse, in float64.
CONSTANT = 1e-12
EPSILON, LEAST_VARIANCE = np.finfo(np.float64).eps, np.finfo(np.float64).tiny


def expand(X, origin):
    """Frames, or these less an origin and all products of that."""
    if origin is None:
        return X
    # (Global configuration may have transformers give tables.)
    products = PolynomialFeatures(include_bias=False).set_output(transform="default")
    return products.fit_transform(X - origin)


def first_state(X, expansion):
    """What is kept before there are frames, of features like those of X."""
    origin = None
    if expansion == "quadratic":
        # Far from zero, products are nearly linear in the features, and what is not
        # would be lost in rounding.
        origin = X.mean(axis=0, dtype=np.float64)
    return {
        "expansion": expansion,
        "origin": origin,
        "dtype": X.dtype.name,
        "frames": X[:0],
        "lengths": np.empty(0, int),
    }


def _width(state):
    """Number of expanded features of frames that are kept."""
    n_features = state["frames"].shape[1]
    return expand(np.zeros((1, n_features)), state["origin"]).shape[1]


def without_frames(state):
    """Moments before there are frames, in place of the frames."""
    width = _width(state)
    return {
        "expansion": state["expansion"],
        "origin": state["origin"],
        "dtype": state["dtype"],
        "n_frames": 0,
        "mean": np.zeros(width),
        "scatter": np.zeros((width, width)),
        "n_differences": 0,
        "differences": np.zeros((width, width)),
    }


def with_frames(state, X, lengths):
    """A new state with more frames in it."""
    if "frames" not in state:
        return _with_moments(state, X, lengths)
    if len(state["frames"]):
        X = np.vstack([state["frames"], X])
        lengths = np.concatenate([state["lengths"], lengths])
    if len(X) < _width(state):
        return {**state, "frames": np.array(X), "lengths": lengths}
    return _with_moments(without_frames(state), X, lengths)


def _with_moments(state, X, lengths):
    """Moments with more frames in them: a new state, in memory for one block."""
    state = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}
    firsts = np.cumsum(lengths)[:-1]  # frames that do not follow the one before
    n_rows = max(1, BLOCK_SIZE // len(state["mean"]))
    for batch in gen_batches(len(X), n_rows):
        n = batch.stop - batch.start
        # One frame of the next block, for the last difference of this one.
        frames = X[batch.start : batch.stop + 1].astype(np.float64)
        frames = expand(frames, state["origin"])
        differences = np.diff(frames, axis=0)
        low, high = np.searchsorted(firsts, [batch.start, batch.stop], side="right")
        differences[firsts[low:high] - 1 - batch.start] = 0
        state["differences"] += differences.T @ differences
        frames = frames[:n]
        mean = frames.mean(axis=0)
        frames -= mean
        state["scatter"] += frames.T @ frames
        # Both means become that of all frames so far.
        shift = mean - state["mean"]
        total = state["n_frames"] + n
        state["scatter"] += np.outer(shift, shift) * (state["n_frames"] * n / total)
        state["mean"] += shift * (n / total)
        state["n_frames"] = total
    state["n_differences"] += len(X) - len(lengths)
    return state


def described(state):
    """What is kept of the frames, in the form that suits their number."""
    return (FewFrames if "frames" in state else Moments)(state)


class Moments:
    """Covariances of the features, and of their differences between frames."""

    blas = nullcontext()

    def __init__(self, state):
        self.n_frames, self.n_differences = state["n_frames"], state["n_differences"]
        self.mean = state["mean"]
        self.covariance = state["scatter"] / self.n_frames
        self.differences = state["differences"]
        self.variances = np.diag(self.covariance)

    def sphered(self, scale, least):
        """What makes scaled features uncorrelated, and products of its differences.

        Directions are left out that have no more than a share of the largest variance.
        """
        scales = np.outer(scale, scale)
        variances, directions = linalg.eigh(self.covariance * scales)
        kept = variances > least * variances[-1]
        sphere = directions[:, kept] / np.sqrt(variances[kept])
        differences = self.differences * scales / self.n_differences
        return sphere, sphere.T @ differences @ sphere

    def covariances_with(self, components):
        """Covariances of the features with components of them."""
        return self.covariance @ components.T


class FewFrames:
    """Centred frames, fewer than features: by their products with each other."""

    # (Of several short sequences, functions that are constant within each are equally
    # slow. Which combinations of these are found is a matter of rounding, which on more
    # threads is another.)
    blas = single_threaded_blas

    def __init__(self, state):
        lengths = state["lengths"]
        self.n_frames = len(state["frames"])
        self.n_differences = self.n_frames - len(lengths)
        self.firsts = np.cumsum(lengths)[:-1]
        frames = expand(state["frames"].astype(np.float64), state["origin"])
        self.mean = frames.mean(axis=0)
        self.centred = frames - self.mean
        self.variances = np.einsum("ij,ij->j", self.centred, self.centred)
        self.variances /= self.n_frames

    def sphered(self, scale, least):
        """As that of `Moments`."""
        frames = self.centred * scale
        variances, directions = linalg.eigh(frames @ frames.T / self.n_frames)
        kept = variances > least * variances[-1]
        variances = variances[kept]
        # (Frames made uncorrelated are known before what makes them so.)
        white = np.sqrt(self.n_frames) * directions[:, kept]
        differences = np.delete(np.diff(white, axis=0), self.firsts - 1, axis=0)
        sphere = frames.T @ (white / (self.n_frames * variances))
        return sphere, differences.T @ differences / self.n_differences

    def covariances_with(self, components):
        """Covariances of the features with components of them."""
        return self.centred.T @ (self.centred @ components.T) / self.n_frames


def deviations_of(data, origin):
    """Standard deviations of features, 0 where all that varies is rounding."""
    deviations, size = np.sqrt(data.variances), np.abs(data.mean)
    if origin is not None:
        # What was subtracted has left rounding errors, and products have those of both.
        origin = np.abs(origin)
        i, j = np.triu_indices(len(origin))
        errors = origin[i] * deviations[j] + origin[j] * deviations[i]
        size = size + np.concatenate([origin, errors])
    constant = deviations <= CONSTANT * size
    return np.where(constant | (data.variances < LEAST_VARIANCE), 0.0, deviations)


def slowest(data, deviations, n_components, tol):
    """Solve the generalised eigenproblem on the directions in which the data vary.

    Returns the components, their eigenvalues (ascending), and the number of
    directions.
    """
    # Unit variances first, so that the tolerance has no unit.
    scale = np.divide(
        1, deviations, out=np.zeros_like(deviations), where=deviations > 0
    )
    with data.blas:
        # (Beyond rounding, whatever the tolerance.)
        sphere, differences = data.sphered(scale, max(tol, len(scale) * EPSILON))
        rank = sphere.shape[1]
        n_components = min(n_components or rank, rank)
        slowness, rotation = linalg.eigh(
            differences, subset_by_index=[0, n_components - 1]
        )
        weights = (sphere @ rotation).T
    weights *= signs_of(weights)[:, np.newaxis]
    # Rounding may leave a constant feature's eigenvalue below zero.
    return weights * scale, np.maximum(slowness, 0), rank
