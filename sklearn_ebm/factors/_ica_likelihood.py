"""Maximum likelihood of ICA by a preconditioned L-BFGS method (Picard).

With y = W z the loss is the mean of ``sum_i energy_i(y_i) - log|det W|``, in nats.
Steps are relative, W <- (I + step) W, so that what happens does not depend on how the
sources were mixed. See P. Ablin, J.-F. Cardoso, A. Gramfort, "Faster independent
component analysis by preconditioning with Hessian approximations", IEEE TSP 66, 2018.
"""

import warnings
from collections import deque
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from .._ica import add_moments, add_own_moments, rounds
from .._openmp import effective_n_threads
from .._pacer import Pacer
from ._ica_densities import ADAPTIVE, DENSITIES, PEAKED, Sources

# What the densities at one value cost, in multiplications of a product.
VALUE_WORK = 20
# Multiplications that are worth a second thread, which on a busy machine comes late.
LEAST_WORK = 5e7
# And that are done in less than PATIENCE: a first piece, often the whole pass.
FIRST_PIECE = 1e9
# Steps that L-BFGS remembers.
MEMORY = 7
# Least eigenvalue of the approximate Hessian. Smaller ones cost more iterations where
# sources are far from independent, as those of photographs are.
LEAST_CURVATURE = 0.1
# How often a step is halved before it is given up.
MAX_HALVINGS = 10
# Sizes of steps that may lead away from a saddle, and what one has to gain, in nats.
SADDLE_STEPS, LEAST_GAIN = (0.5, -0.5, 0.2, -0.2), 1e-4
# Rows for each source that are enough to come near the maximum; half of them are, too.
ROWS_A_SOURCE = 250
# Iterations of FastICA on them.
GUESSES = 20
# Least variance of a direction that a part of whitened data is made white in.
LEAST_VARIANCE = 0.01
# Rows that are enough to find the scale of a source, and to see whether another
# density may suit it better.
SCALE_ROWS = 2000
# Largest slope (a number without a unit) of a search that may be near a maximum. Where
# none exists it becomes 100 and more.
DIVERGED = 1.0
# From so small a slope one step of Newton's method leaves an error of its square.
NEAR = 1e-3


@dataclass(frozen=True)
class SourceMoments:
    """What a pass over the data finds at one unmixing matrix.

    `energies` are the means of the sources' and `loss` is in nats a row, `gradient`
    the relative gradient, and ``curvature[i, j] = E[energy_i''(y_i) y_j^2]``.
    """

    energies: np.ndarray
    loss: float
    gradient: np.ndarray
    curvature: np.ndarray

    @property
    def slope(self):
        """Largest entry of the gradient."""
        return float(np.abs(self.gradient).max())


def moments(Z, W, sources):
    """Loss, relative gradient and curvature at W."""
    n, k = Z.shape
    layout = sources.layout(Z.dtype)
    places, width = layout.places, len(layout.shapes.T)
    weights = np.zeros((k, width), Z.dtype)
    weights[:, places] = W.T
    n_strands, n_rounds = rounds(n, width * Z.itemsize)
    energies = np.zeros((n_strands, width))
    products, curvatures = (np.zeros((n_strands, width, width)) for _ in range(2))
    kernel = partial(
        add_moments,
        *(Z, weights, layout.kinds, layout.shapes, energies, products, curvatures),
    )
    work = n * width * (3.0 * width + VALUE_WORK)
    pacer = Pacer(effective_n_threads(work, LEAST_WORK))
    pacer.size = max(1, int(n_rounds * min(1.0, FIRST_PIECE / work)))
    pacer.run(kernel, n_rounds)
    inside = np.ix_(places, places)
    energies = energies.sum(axis=0)[places] / n + sources.log_norms()
    return SourceMoments(
        energies,
        float(energies.sum() - np.linalg.slogdet(W)[1]),
        products.sum(axis=0)[inside] / n - np.eye(k),
        curvatures.sum(axis=0)[inside] / n,
    )


def own_moments(Y, scale, sources):
    """Of each source: mean energy, diagonals of the gradient and of the curvature."""
    layout = sources.layout(Y.dtype)
    sums = np.zeros((3, len(layout.shapes.T)))
    scale = scale.astype(Y.dtype)
    add_own_moments(Y, scale, layout.places, layout.kinds, layout.shapes, sums)
    energies, slopes, curvatures = sums[:, layout.places] / len(Y)
    return energies + sources.log_norms(), slopes - 1, curvatures


def least_eigenvalues(curvature):
    """Of the blocks of the approximate relative Hessian, of every pair of sources."""
    a, b = curvature, curvature.T
    return (a + b) / 2 - np.sqrt(((a - b) / 2) ** 2 + 1)


def precondition(gradient, curvature):
    """Solve the approximate relative Hessian for a step.

    For independent sources the Hessian couples only the entries (i, j) and (j, i) of
    a step: the block [[a_ij, 1], [1, a_ji]]; a_ii + 1 on the diagonal. Blocks are
    shifted to be positive definite.
    """
    shift = np.maximum(LEAST_CURVATURE - least_eigenvalues(curvature), 0)
    a, b = curvature + shift, curvature.T + shift
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
    # (A start far too large asks for more than its own size: it would change signs.)
    size = 1 / max(1.0, np.abs(direction).max())
    for _ in range(MAX_HALVINGS):
        step = size * direction
        moved = W + step @ W
        found = moments(Z, moved, sources)
        if found.loss <= now.loss + slack:
            return step, moved, found
        size /= 2
    return None


def leave_saddle(Z, W, sources, now):
    """Mix the pair of sources along which the loss curves downwards most.

    Two that are mixed half and half have no gradient. Returns the unmixing matrix and
    its moments; None where there is no such pair, or nothing is gained.
    """
    least = least_eigenvalues(now.curvature)
    np.fill_diagonal(least, 0)
    i, j = np.unravel_index(np.argmin(least), least.shape)
    if least[i, j] >= 0:
        return None
    direction = np.zeros_like(W)
    direction[i, j], direction[j, i] = 1, least[i, j] - now.curvature[i, j]
    direction /= linalg.norm(direction)
    for size in SADDLE_STEPS:
        moved = W + size * direction @ W
        found = moments(Z, moved, sources)
        if found.loss < now.loss - LEAST_GAIN:
            return moved, found
    return None


def way_on(Z, W, sources, now, adaptive):
    """Say where to go on from where the optimiser would stop, or None.

    Returns an unmixing matrix, its sources and moments, and whether these sources have
    got `PEAKED` densities. In order of preference it is where other densities fit
    better (with `adaptive`), beside a saddle, or where more peaked densities do.
    """
    if adaptive:
        moved, chosen = choose(Z, W, sources)
        if chosen is not None:
            return moved, chosen, moments(Z, moved, chosen), False
    left = leave_saddle(Z, W, sources, now)
    if left is not None:
        return left[0], sources, left[1], False
    if adaptive:
        moved, chosen = choose(Z, W, sources, PEAKED)
        if chosen is not None:
            return moved, chosen, moments(Z, moved, chosen), True
    return None


def maximise(Z, W, names, *, adaptive, max_iter, tol):
    """Generate the states of the optimiser, one an iteration.

    Z are the data (rows), W the first unmixing matrix, `names` the densities of the
    sources. With `adaptive` they are chosen anew where the optimiser would stop. The
    loss never rises, with one exception: if peaked densities turn out to have no
    maximum, the last state is the one that was found without them.
    """
    sources = Sources(names)
    now, memory, found_before = moments(Z, W, sources), Memory(), None
    for n_left in reversed(range(max_iter)):
        # One more step from there is worth its time: it squares the distance.
        converged = now.slope < tol
        found = search(Z, W, sources, now, memory.direction(now))
        if found is None and memory:
            memory = Memory()
            found = search(Z, W, sources, now, memory.direction(now))
        if found is not None:
            step, W, after = found
            memory.add(step, after.gradient - now.gradient)
            now = after
        stop = converged or found is None
        if stop and (better := way_on(Z, W, sources, now, adaptive)) is not None:
            before = State(W, sources.names, now.loss, now.slope, now.slope < tol)
            (W, sources, now, are_peaked), memory = better, Memory()
            converged = stop = False
            if are_peaked and found_before is None:
                found_before = before
        there = converged or now.slope < tol  # (a last iteration may have come there)
        state = State(W, sources.names, now.loss, now.slope, there)
        if (stop or not n_left) and found_before and now.slope > DIVERGED:
            state = found_before
        yield state
        if stop:
            return


def part_of(Z):
    """Some rows of Z, evenly spaced: enough to come near the maximum."""
    n_rows = max(len(Z) // 8, ROWS_A_SOURCE * Z.shape[1])
    return np.ascontiguousarray(Z[:: -(-len(Z) // n_rows)])


def first_guess(Z, rotation, names, adaptive):
    """Come near the maximum with a part of the rows of whitened data.

    Where sources are independent, the fixed-point iterations of FastICA converge at
    once, in fewer steps than L-BFGS. Then every source gets its scale and, with
    `adaptive`, its density. Returns the unmixing matrix and the densities.
    """
    few = part_of(Z)
    # On a part that is not quite white they would converge far more slowly.
    variances, directions = linalg.eigh(few.T @ few / len(few))
    deviations = np.sqrt(np.maximum(variances, LEAST_VARIANCE))
    white = (directions / deviations) @ directions.T
    start = rotation.astype(few.dtype)
    fast = FastICA(whiten=False, w_init=start, max_iter=GUESSES, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = fast.fit(few @ white).components_.astype(np.float64) @ white
    Y = sources_of(some_of(few), W)
    if not adaptive:
        return W * fitted(Y, names)[0][:, np.newaxis], names
    scale, _, names = best_densities(Y)
    return grouped(W * scale[:, np.newaxis], names)


def some_of(Z):
    """Rows of Z, evenly spaced, that are enough for scales and densities."""
    return Z[:: -(-len(Z) // SCALE_ROWS)]


def sources_of(Z, W):
    """Sources of rows, of the dtype of these."""
    return Z @ W.T.astype(Z.dtype)


def grouped(W, names):
    """Bring sources of one density side by side, where they are computed faster."""
    order = np.argsort(names, kind="stable")
    return W[order], [names[n] for n in order]


def fitted(Y, names):
    """Best scales of sources of these densities; what each then adds to the loss."""
    scale = best_scale(Y, names)
    energies, _, _ = own_moments(Y, scale, Sources(names))
    return scale, energies - np.log(scale)


def best_densities(Y, among=ADAPTIVE):
    """The densities that make sources most probable, and what `fitted` says of them.

    Returns scales, energies and names.
    """
    # (Every source with each of them, side by side.)
    tiled = np.hstack([Y] * len(among))
    found = fitted(tiled, [name for name in among for _ in Y.T])
    scales, energies = (each.reshape(len(among), -1) for each in found)
    best = np.argmin(energies, axis=0)
    names = [among[choice] for choice in best]
    return np.choose(best, scales), energies.min(axis=0), names


def choose(Z, W, sources, among=ADAPTIVE):
    """Give a source another density where that makes its values more probable.

    Among `PEAKED` densities only sources choose that have one of them. Returns the
    unmixing matrix, with new scales for sources that change, and the new sources; or
    the old matrix and None where nothing changes.
    """
    names, Y = sources.names, sources_of(some_of(Z), W)
    scale, energies, others = best_densities(Y, among)
    better = np.array(others) != names
    if among == PEAKED:
        better &= np.isin(names, PEAKED)
    better &= energies < own_moments(Y, np.ones(len(W)), sources)[0]
    if better.any():
        # All rows have the last word.
        scale, others = mixed(better, scale, others, names)
        W_other = W * scale[:, np.newaxis]
        energies = moments(Z, W_other, Sources(others)).energies - np.log(scale)
        better &= energies < moments(Z, W, sources).energies
    if not better.any():
        return W, None
    scale, others = mixed(better, scale, others, names)
    W, names = grouped(W * scale[:, np.newaxis], others)
    return W, Sources(names)


def mixed(chosen, scale, others, names):
    """Other scales and densities where they are chosen, what was there elsewhere."""
    return np.where(chosen, scale, 1.0), np.where(chosen, others, names).tolist()


def best_scale(Y, names):
    """The factor for each source that makes its values most probable.

    Solves ``E[s y energy'(s y)] = 1`` by a few steps of Newton's method in log s.
    """
    variances = np.array([DENSITIES[name].variance for name in names])
    scale = np.sqrt(variances / np.maximum(np.mean(Y * Y, axis=0), 1e-30))
    sources = Sources(names)
    for _ in range(5):
        _, first, curvature = own_moments(Y, scale, sources)
        second = 1 + first + curvature
        scale = scale * np.exp(np.clip(-first / np.maximum(second, 0.1), -1, 1))
        if np.abs(first).max() < NEAR:
            break
    return scale
