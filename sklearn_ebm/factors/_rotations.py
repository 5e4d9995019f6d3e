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
    maximum is known: no step is too short, and none stays where it is smallest. Planes
    that have no factor in common are turned together.
    """
    n_features, n_factors = loadings.shape
    # Rows: loadings on a factor, and the factor's column of the rotation.
    factors = np.vstack([loadings, np.eye(n_factors)]).T.copy()
    share = 1 / n_features if method == "varimax" else 0.0
    rounds = _disjoint_planes(n_factors)
    for _ in range(MAX_ITER):
        settled = True
        for first, second in rounds:
            one, other = factors[first], factors[second]
            x, y = one[:, :n_features], other[:, :n_features]
            u, v = x * x - y * y, 2 * x * y
            uu, vv, uv = (np.vecdot(a, b) for a, b in [(u, u), (v, v), (u, v)])
            u, v = u.sum(axis=1), v.sum(axis=1)
            sine = 2 * (uv - share * u * v)
            cosine = uu - vv - share * (u * u - v * v)
            gain = np.hypot(sine, cosine) - cosine
            worth = gain > TOL * (uu + vv)
            if not worth.any():
                continue
            angle = np.where(worth, np.arctan2(sine, cosine) / 4, 0.0)[:, np.newaxis]
            factors[first] = np.cos(angle) * one + np.sin(angle) * other
            factors[second] = np.cos(angle) * other - np.sin(angle) * one
            settled = False
        if settled:
            break
    return factors[:, n_features:].T


def _disjoint_planes(n):
    """All pairs of n numbers, in rounds in which each number is in one pair at most.

    As in a tournament: all but the first move on by one place from round to round. (An
    odd number has a guest, whose pairs are left out.)
    """
    places, rounds = np.arange(n + n % 2), []
    for _ in range(len(places) - 1):
        pairs = np.sort([places, places[::-1]], axis=0)[:, : len(places) // 2]
        rounds.append(pairs[:, pairs[1] < n])
        places[1:] = np.roll(places[1:], 1)
    return rounds


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
