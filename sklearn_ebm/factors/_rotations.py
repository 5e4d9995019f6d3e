"""Rotations of factor loadings, orthogonal and oblique.

References
----------
.. [1] R. I. Jennrich, "A simple general procedure for orthogonal rotation",
   Psychometrika 66, 2001.
.. [2] R. I. Jennrich, "A simple general method for oblique rotation", Psychometrika 67,
   2002.
.. [3] A. E. Hendrickson, P. O. White, "Promax: a quick method for rotation to oblique
   simple structure", British Journal of Statistical Psychology 17, 1964.
"""

from itertools import combinations

import numpy as np
from scipy import linalg, optimize

from ._gaussian import one_thread_if_small

ORTHOGONAL = ("varimax", "quartimax")
OBLIQUE = ("promax", "oblimin")
MAX_ITER = 1000
# Relative precision of the criterion.
TOL = 1e-12
# Power of varimax loadings that promax aims at, as is usual.
PROMAX_POWER = 4
# A factor whose loadings are all below this share of their feature's has none.
LEAST_LOADING = 1e-6


def rotate(components, method):
    """Rotate loadings (q, D); returns them and the factors' correlations.

    The correlations are None if the rotation is orthogonal. Loadings L with
    correlations C make the covariance L'CL of the features, the same as before.
    """
    rotated, correlations = components.copy(), np.eye(len(components))
    # Factors with next to no loadings have nothing to be rotated: oblique axes of
    # theirs would be those of others but for rounding.
    lengths = np.linalg.norm(components, axis=0)
    share = np.abs(components) / np.where(lengths > 0, lengths, 1)
    used = np.flatnonzero(share.max(axis=1, initial=0) > LEAST_LOADING)
    loadings = components[used].T
    # What counts as small in these methods has no unit, nor must loadings have.
    plain = loadings / np.abs(loadings).max(initial=np.finfo(float).tiny)
    if method in ORTHOGONAL:
        if len(used) > 1:
            rotated[used] = (loadings @ _orthogonal(plain, method)).T
        return rotated, None
    if len(used) > 1:
        axes = _promax(plain) if method == "promax" else _oblimin(plain)
        # Loadings A (T')^-1 go with factors of unit variance and correlations T'T.
        angles = axes.T @ axes
        if np.linalg.matrix_rank(angles, hermitian=True) < len(used):
            raise ValueError(
                f"rotation={method!r} finds factors that are copies of one another, "
                "but for rounding, where features have scales as different as here: "
                "scale X, for instance with StandardScaler."
            )
        rotated[used] = linalg.solve(axes, loadings.T)
        correlations[np.ix_(used, used)] = angles
    return rotated, correlations


def _orthogonal(loadings, method):
    """Orthogonal rotation (q, q) of loadings (D, q), plane by plane.

    In the plane of two factors the criterion is a cosine of four times the angle, whose
    maximum is known: no step is too short, and none stays where it is smallest.
    """
    rotated, rotation = loadings.copy(), np.eye(loadings.shape[1])
    share = 1 / len(loadings) if method == "varimax" else 0.0
    for _ in range(MAX_ITER):
        settled = True
        for pair in combinations(range(len(rotation)), 2):
            x, y = rotated[:, pair].T
            u, v = x**2 - y**2, 2 * x * y
            sine = 2 * (u @ v - share * u.sum() * v.sum())
            cosine = u @ u - v @ v - share * (u.sum() ** 2 - v.sum() ** 2)
            gain = np.hypot(sine, cosine) - cosine
            if gain > TOL * (u @ u + v @ v):
                angle = np.arctan2(sine, cosine) / 4
                turn = np.array(
                    [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
                )
                rotated[:, pair] = rotated[:, pair] @ turn
                rotation[:, pair] = rotation[:, pair] @ turn
                settled = False
        if settled:
            break
    return rotation


def _promax(loadings):
    """Oblique axes T (q, q) that bring varimax loadings near their fourth powers."""
    varimax = _orthogonal(loadings, "varimax")
    rotated = loadings @ varimax
    # Loadings in units of their factor's largest: small ones get lost in the powers.
    peaks = np.abs(rotated).max(axis=0)
    rotated /= peaks
    target = rotated * np.abs(rotated) ** (PROMAX_POWER - 1)
    to_target = linalg.lstsq(rotated, target)[0]
    # Unit variance of the factors: unit columns of the inverse's transpose. (Where it
    # has none, the axes will depend on one another.)
    axes = peaks[:, np.newaxis] * np.linalg.pinv(to_target).T
    return varimax @ (axes / np.linalg.norm(axes, axis=0))


def _oblimin(loadings):
    """Oblique axes T (q, q) of the smallest sum of products of squared loadings.

    Direct quartimin, oblimin with gamma 0 [2], by L-BFGS: gradient projection may creep
    for thousands of steps. Axes are of any length on the way; their directions count.
    """
    # (Factors as they come may be a stationary point that is no minimum.)
    axes = _orthogonal(loadings, "quartimax")
    unit = _quartimin(loadings, axes)[0] or 1.0

    def criterion(flat):
        lengths = np.linalg.norm(flat.reshape(axes.shape), axis=0)
        directions = flat.reshape(axes.shape) / lengths
        value, gradient = _quartimin(loadings, directions)
        gradient = gradient - directions * (directions * gradient).sum(axis=0)
        return value / unit, (gradient / lengths).ravel() / unit

    options = {"maxiter": MAX_ITER, "ftol": TOL, "gtol": 1e-8}
    # (Waking threads for its many small sums would take most of the time.)
    with one_thread_if_small(loadings.size * len(axes)):
        found = optimize.minimize(
            criterion, axes.ravel(), jac=True, method="L-BFGS-B", options=options
        )
    axes = found.x.reshape(axes.shape)
    return axes / np.linalg.norm(axes, axis=0)


def _quartimin(loadings, axes):
    """The criterion, and its gradient with respect to the axes."""
    rotated = linalg.solve(axes, loadings.T).T
    squares = rotated**2
    others = squares.sum(axis=1, keepdims=True) - squares
    gradient = -linalg.solve(axes.T, (rotated * others).T @ rotated)
    return 0.25 * (squares * others).sum(), gradient
