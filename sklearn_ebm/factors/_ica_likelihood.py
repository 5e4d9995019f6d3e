"""Maximum likelihood of ICA by a preconditioned L-BFGS method (Picard).

With y = W z the loss is the mean of ``sum_i energy_i(y_i) - log|det W|``, in nats.
Steps are relative, W <- (I + step) W, so that what happens does not depend on how the
sources were mixed. See P. Ablin, J.-F. Cardoso, A. Gramfort, "Faster independent
component analysis by preconditioning with Hessian approximations", IEEE TSP 66, 2018.
"""

import warnings
from collections import deque
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from ._ica_densities import ADAPTIVE, DENSITIES, Sources

# Numbers in a block of rows: what is computed from it stays in the cache.
BLOCK_SIZE = 2**16
# Steps that L-BFGS remembers.
MEMORY = 7
# Least eigenvalue of the approximate Hessian. Smaller ones cost more iterations where
# sources are far from independent, as those of photographs are.
LEAST_CURVATURE = 0.1
# How often a step is halved before it is given up.
MAX_HALVINGS = 10
# Rows for each source that are enough to come near the maximum.
ROWS_A_SOURCE = 250
# Iterations of FastICA on them.
GUESSES = 20
# Rows that are enough to find the scale of a source, and to see whether another
# density may suit it better.
SCALE_ROWS = 2000


def blocks(Z, width):
    """Slices of the rows of Z, for results of this width."""
    n_rows = max(1, BLOCK_SIZE // width)
    for start in range(0, len(Z), n_rows):
        yield Z[start : start + n_rows]


@dataclass(frozen=True)
class Moments:
    """What a pass over the data finds at one unmixing matrix.

    `loss` is in nats a row, `gradient` the relative gradient, and
    ``curvature[i, j] = E[energy_i''(y_i) y_j^2]``.
    """

    loss: float
    gradient: np.ndarray
    curvature: np.ndarray

    @property
    def slope(self):
        """Largest entry of the gradient."""
        return float(np.abs(self.gradient).max())


def moments(Z, W, sources):
    """Loss, relative gradient and curvature at W."""
    k = len(W)
    loss, gradient, curvature = 0.0, np.zeros((k, k)), np.zeros((k, k))
    weights = W.T.astype(Z.dtype)
    for block in blocks(Z, k):
        Y = block @ weights
        energy, score, slope = sources.evaluate(Y)
        loss += energy.sum(dtype=np.float64)
        gradient += score.T @ Y
        curvature += slope.T @ (Y * Y)
    n = len(Z)
    loss = loss / n - np.linalg.slogdet(W)[1]
    return Moments(loss, gradient / n - np.eye(k), curvature / n)


def precondition(gradient, curvature):
    """Solve the approximate relative Hessian for a step.

    For independent sources the Hessian couples only the entries (i, j) and (j, i) of
    a step: the block [[a_ij, 1], [1, a_ji]]; a_ii + 1 on the diagonal. Blocks are
    shifted to be positive definite.
    """
    a, b = curvature, curvature.T
    least = (a + b) / 2 - np.sqrt(((a - b) / 2) ** 2 + 1)
    shift = np.maximum(LEAST_CURVATURE - least, 0)
    a, b = a + shift, b + shift
    determinant = a * b - 1
    np.fill_diagonal(determinant, 1)
    step = (b * gradient - gradient.T) / determinant
    diagonal = np.maximum(np.diag(curvature) + 1, LEAST_CURVATURE)
    np.fill_diagonal(step, np.diag(gradient) / diagonal)
    return step


class Memory:
    """Past steps and changes of the gradient, as L-BFGS uses them."""

    def __init__(self):
        self._pairs = deque(maxlen=MEMORY)

    def __bool__(self):
        return bool(self._pairs)

    def add(self, step, change):
        """Remember a step, unless the loss curves downwards along it."""
        curved = np.vdot(step, change)
        if curved > 0:
            self._pairs.append((step, change, 1 / curved))

    def direction(self, moments):
        """Descent direction: the two-loop recursion around `precondition`."""
        q = moments.gradient
        shares = []
        for step, change, rho in reversed(self._pairs):
            shares.append(rho * np.vdot(step, q))
            q = q - shares[-1] * change
        r = precondition(q, moments.curvature)
        for (step, change, rho), share in zip(
            self._pairs, reversed(shares), strict=True
        ):
            r = r + (share - rho * np.vdot(change, r)) * step
        return -r


@dataclass(frozen=True)
class State:
    """Where the optimiser is after an iteration."""

    W: np.ndarray
    names: list
    loss: float
    slope: float
    converged: bool


def search(Z, W, sources, now, direction):
    """Halve a step until the loss does not rise; None where it always does."""
    slack = np.finfo(Z.dtype).eps * abs(now.loss)  # what rounding makes of the loss
    size = 1.0
    for _ in range(MAX_HALVINGS):
        step = size * direction
        moved = W + step @ W
        found = moments(Z, moved, sources)
        if found.loss <= now.loss + slack:
            return step, moved, found
        size /= 2
    return None


def maximise(Z, W, names, *, adaptive, max_iter, tol):
    """Generate the states of the optimiser, one an iteration.

    Z are the data (rows), W the first unmixing matrix, `names` the densities of the
    sources. With `adaptive` they are chosen anew where the optimiser would stop. The
    loss never rises.
    """
    sources = Sources(names)
    now, memory = moments(Z, W, sources), Memory()
    for _ in range(max_iter):
        found = search(Z, W, sources, now, memory.direction(now))
        if found is None and memory:
            memory = Memory()
            found = search(Z, W, sources, now, memory.direction(now))
        if found is not None:
            step, W, after = found
            memory.add(step, after.gradient - now.gradient)
            now = after
        converged = found is None or now.slope < tol
        if adaptive and converged:
            W, chosen = choose(Z, W, sources)
            if chosen is not None:
                sources, memory, converged = chosen, Memory(), False
                now = moments(Z, W, sources)
        yield State(W, sources.names, now.loss, now.slope, converged)
        if converged:
            return


def part_of(Z):
    """Some rows of Z, evenly spaced: enough to come near the maximum."""
    n_rows = max(len(Z) // 8, ROWS_A_SOURCE * Z.shape[1])
    return np.ascontiguousarray(Z[:: max(1, len(Z) // n_rows)])


def first_guess(Z, rotation, names, adaptive):
    """Come near the maximum with a part of the rows of whitened data.

    Where sources are independent, the fixed-point iterations of FastICA converge at
    once, in fewer steps than L-BFGS. Then every source gets its scale and, with
    `adaptive`, its density. Returns the unmixing matrix and the densities.
    """
    few = part_of(Z)
    fast = FastICA(whiten=False, w_init=rotation, max_iter=GUESSES, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = fast.fit(few).components_.astype(np.float64)
    Y = few[:: -(-len(few) // SCALE_ROWS)] @ W.T.astype(Z.dtype)
    if not adaptive:
        return W * fitted(Y, names[0])[0][:, np.newaxis], names
    scales, losses = zip(*(fitted(Y, name) for name in ADAPTIVE), strict=True)
    best = np.argmin(losses, axis=0)
    scale = np.choose(best, scales)
    return grouped(W * scale[:, np.newaxis], [ADAPTIVE[choice] for choice in best])


def grouped(W, names):
    """Bring sources of one density side by side, where they are computed faster."""
    order = np.argsort(names, kind="stable")
    return W[order], [names[n] for n in order]


def fitted(Y, name):
    """Best scale of a density for each source, and the loss there, a mean over rows."""
    scale = best_scale(Y, DENSITIES[name])
    energy = DENSITIES[name].evaluate(Y * scale.astype(Y.dtype))[0]
    return scale, energy.mean(axis=0, dtype=np.float64) - np.log(scale)


def choose(Z, W, sources):
    """Give a source the other density where that makes its values more probable.

    Returns the unmixing matrix, with new scales for sources that change, and the
    new sources; or the old matrix and None where nothing changes.
    """
    weights = W.T.astype(Z.dtype)
    Y = Z[:: -(-len(Z) // SCALE_ROWS)] @ weights
    losses = sources.evaluate(Y)[0].mean(axis=0, dtype=np.float64)
    names, scale = list(sources.names), np.ones(len(W))
    for name in ADAPTIVE:
        found, loss = fitted(Y, name)
        for n in np.flatnonzero(loss < losses):
            if name != sources.names[n]:
                names[n], scale[n] = name, found[n]
    if names == sources.names:
        return W, None
    # All rows have the last word.
    gains, other = np.log(scale) * len(Z), Sources(names)
    for block in blocks(Z, len(W)):
        Y = block @ weights
        gains += sources.evaluate(Y)[0].sum(axis=0, dtype=np.float64)
        energy = other.evaluate(Y * scale.astype(Y.dtype))[0]
        gains -= energy.sum(axis=0, dtype=np.float64)
    for n in np.flatnonzero(gains <= 0):
        names[n], scale[n] = sources.names[n], 1.0
    if names == sources.names:
        return W, None
    W, names = grouped(W * scale[:, np.newaxis], names)
    return W, Sources(names)


def best_scale(Y, density):
    """The factor for each source that makes its values most probable.

    Solves ``E[s y energy'(s y)] = 1`` by a few steps of Newton's method in log s.
    """
    scale = np.sqrt(density.variance / np.maximum(np.mean(Y * Y, axis=0), 1e-30))
    for _ in range(5):
        scaled = Y * scale.astype(Y.dtype)
        _, score, slope = density.evaluate(scaled)
        first = np.mean(scaled * score, axis=0, dtype=np.float64) - 1
        second = 1 + first + np.mean(scaled * scaled * slope, axis=0, dtype=np.float64)
        scale = scale * np.exp(np.clip(-first / np.maximum(second, 0.1), -1, 1))
    return scale
