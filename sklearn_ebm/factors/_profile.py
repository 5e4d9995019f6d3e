"""Maximum likelihood of factor analysis over the noise variances alone.

For given noise variances the best loadings are known: with data in units of the noise,
they are the leading eigenvectors of the covariance. What remains is a smooth function
of the noise variances [1]_, whose gradient comes with the loadings. Three classes find
these eigenvectors, by the shape of the data.

.. [1] K. G. Joreskog, "Some contributions to maximum likelihood factor analysis",
   Psychometrika 32, 1967.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from .._validation import or_more_digits
from ._gaussian import (
    LOG_2_PI,
    PRODUCT_BLOCK,
    FactorGaussian,
    one_thread_if_small,
    row_blocks,
)

# Eigenvectors are found exactly where a matrix of this size is enough.
EXACT = 1000
# Noise variances stay above this share of a feature's variance, whatever its unit. (Of
# likelihoods that leaves six digits.)
LEAST_SHARE = 1e-9
# The same where values are missing: few that are observed may have no noise by chance.
LEAST_SHARE_OBSERVED = 1e-6
# Noise variance of a feature that has no variance at all.
LEAST_NOISE = 1e-12
# A feature whose deviation is this share of its mean is constant but for rounding.
CONSTANT = 1e-14
# The simple fixed point takes at least so many steps, which set the scale for L-BFGS.
N_FIRST_STEPS = 3
# It goes on while each step gains less than this share of what the last one gained.
FAST = 0.1
EPSILON, TINY = np.finfo(float).eps, np.finfo(float).tiny
# Directions that a randomised search follows beyond those asked for.
OVERSAMPLING = 10


@dataclass(frozen=True)
class Solution:
    """The best loadings (q, D) for some noise variances (D,).

    `loglike` is the log-likelihood in nats a row, `gradient` that of -2 `loglike` with
    respect to the logarithms of the noise variances.
    """

    loadings: np.ndarray
    noise: np.ndarray
    loglike: float
    gradient: np.ndarray


def loadings_at(data, noise, n_components):
    """The best loadings for these noise variances, as a `Solution`."""
    values, vectors = data.leading(noise, n_components)
    excess = np.maximum(values - 1, 0)
    # Directions with less variance than the noise get no loadings.
    kept = values[values > 1]
    deviance = len(noise) * LOG_2_PI + np.log(noise).sum()
    deviance += (data.variances / noise).sum() + np.sum(np.log(kept) + 1 - kept)
    loadings = np.sqrt(excess)[:, np.newaxis] * vectors * np.sqrt(noise)
    explained = (loadings**2).sum(axis=0)
    gradient = (noise + explained - data.variances) / noise
    return Solution(loadings, noise, -0.5 * deviance, gradient)


def least_noise(variances, missing=False):
    """Lower bounds of the noise variances of features with these variances."""
    least = (LEAST_SHARE_OBSERVED if missing else LEAST_SHARE) * variances
    return np.where(least > TINY, least, LEAST_NOISE)


def least_shared_noise(variance):
    """Lower bound of the noise variance of features with this mean variance.

    The features need not be of one scale: it bounds no more than rounding asks for.
    """
    return 1e-12 * variance or LEAST_NOISE


class Ascent:
    """Maximises the likelihood over the noise variances.

    Parameters
    ----------
    data : Covariance, CentredRows or SketchedRows
    n_components : int
    noise : ndarray of shape (n_features,)
        Noise variances to start from.
    report : callable
        Called with the log-likelihood of the data after every iteration; returns
        whether that is enough.

    Attributes
    ----------
    best : Solution or None
        The best so far, whenever the ascent is interrupted.
    """

    def __init__(self, data, n_components, noise, report):
        self.data, self.n_components, self.report = data, n_components, report
        self.noise, self.best = noise, None

    @property
    def gaussian(self):
        """The best model so far, or None."""
        best = self.best
        return best and FactorGaussian(self.data.mean, best.loadings, best.noise)

    def run(self, max_iter):
        """Take at most max_iter iterations."""
        # L-BFGS does its own small sums by BLAS and LAPACK as well, many an iteration:
        # where each wakes a thread, most of the time of a small fit is spent on that.
        with one_thread_if_small(self.data.work):
            self._run(max_iter)

    def _run(self, max_iter):
        lower = least_noise(self.data.variances)
        upper = np.maximum(lower, self.data.variances)
        noise = np.clip(self.noise, lower, upper)
        n_steps = self._fixed_point(noise, lower, upper, max_iter)
        if n_steps is None or n_steps == max_iter:
            return
        noise = np.clip(self._residual(self.best), lower, upper)
        self.data.thorough = True

        def deviance(log_noise):
            solution = self._at(np.exp(log_noise))
            return -2 * solution.loglike, solution.gradient

        def callback(intermediate_result):
            if self.report(-0.5 * intermediate_result.fun * self.data.n_rows):
                raise StopIteration

        optimize.minimize(
            deviance,
            np.log(noise),
            jac=True,
            method="L-BFGS-B",
            bounds=np.log(np.stack([lower, upper], axis=1)),
            callback=callback,
            options={
                "maxiter": max_iter - n_steps,
                "maxcor": 20,
                "ftol": 0.0,
                "gtol": 1e-10,
            },
        )

    def _fixed_point(self, noise, lower, upper, max_iter):
        """Steps of noise = what the loadings leave, as long as they converge fast.

        Returns how many were taken, or None if that was enough.
        """
        last, gain = -np.inf, np.inf
        for n_steps in range(1, max_iter + 1):
            solution = self._at(noise)
            if self.report(solution.loglike * self.data.n_rows):
                return None
            last_gain, gain, last = gain, solution.loglike - last, solution.loglike
            if n_steps >= N_FIRST_STEPS and gain > FAST * last_gain:
                break
            noise = np.clip(self._residual(solution), lower, upper)
        return n_steps

    def _residual(self, solution):
        return self.data.variances - (solution.loadings**2).sum(axis=0)

    def _at(self, noise):
        solution = loadings_at(self.data, noise, self.n_components)
        if self.best is None or solution.loglike > self.best.loglike:
            self.best = solution
        return solution


# ---- Leading eigenvectors of the covariance in units of the noise ----


def describe(X, n_components=0, *, dtype, own_noise=False, **how):
    """Data (rows without missing values) in the form that suits their shape.

    `dtype` is that of the model, `how` what `_described` takes. Variances beyond its
    numbers are refused, and with `own_noise`, where it has to hold noise variances of
    single features, those below them (without: below those of float64).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        data = _described(X, n_components, **how)
    check_variances(data.variances, dtype)
    share = LEAST_SHARE if own_noise else LEAST_SHARE_OBSERVED
    _refuse_tiny(data, X, np.dtype(dtype if own_noise else np.float64), share)
    return data


def _refuse_tiny(data, X, dtype, share):
    """Refuse features that vary, but too little for the numbers of the model."""
    least = np.finfo(dtype).tiny / share
    low = np.flatnonzero((data.variances > 0) & (data.variances < least))
    if not data.variances.any():
        # (All of them may be too small for float64.)
        low = np.flatnonzero(np.ptp(X, axis=0) > 2 * CONSTANT * np.abs(data.mean))
    if len(low):
        raise ValueError(
            f"Feature {low[0]} of X varies too little for the numbers of {dtype}: its "
            f"variance is {data.variances[low[0]]:.3g}, and a noise variance may be "
            f"{share:g} of that. Scale X{or_more_digits('it', dtype)}."
        )


def check_variances(variances, dtype):
    """Refuse variances of features whose sum, which bounds all others, is too large."""
    total = variances.sum()
    if not total <= np.finfo(dtype).max:  # nor NaN, where float64 did not suffice
        found = "take sums of squares that are"
        if np.isfinite(total):
            found = f"sum to {total:.3g}, which is"
        raise ValueError(
            f"The variances of the features {found} beyond the numbers of "
            f"{np.dtype(dtype)}. Scale X{or_more_digits('it', dtype)}."
        )


def _described(X, n_components, *, exact, n_power=0, accuracy=0.0, rng=None):
    n_rows, n_features = X.shape
    mean = np.mean(X, axis=0, dtype=np.float64)
    # (The mean of a large number many times over is another: what that leaves must not
    # be taken for variance.)
    mean = np.where(X.min(axis=0) == X.max(axis=0), X[0], mean)
    small = n_features <= EXACT or n_features**2 <= 4 * n_rows * n_components
    if n_features <= n_rows and (exact or small):
        return Covariance(X, mean)
    if exact or n_rows <= EXACT // 2 or n_components + OVERSAMPLING >= n_rows:
        return CentredRows(X, mean)
    return SketchedRows(X, mean, n_components, n_power, accuracy, rng)


# Of each, `work` is about how many multiplications its eigenvectors take.


class Covariance:
    """Data as their covariance, which is enough where rows outnumber features."""

    def __init__(self, X, mean):
        self.mean, (self.n_rows, n_features) = mean, X.shape
        self.work = n_features**3
        total = np.zeros((n_features, n_features))
        for rows in row_blocks(self.n_rows, n_features, PRODUCT_BLOCK):
            deviation = X[rows] - mean
            total += deviation.T @ deviation
        self.covariance = total / self.n_rows
        self.variances = _but_for_rounding(np.diag(self.covariance), mean)

    def leading(self, noise, n_components):
        """Eigenvalues, largest first, and eigenvectors as rows."""
        scale = 1 / np.sqrt(noise)
        scaled = self.covariance * scale * scale[:, np.newaxis]
        values, vectors = _leading(scaled, n_components)
        return values, vectors.T


class CentredRows:
    """Centred rows, fewer than features: exact, by their products with each other."""

    def __init__(self, X, mean):
        self.mean, self.X, self.n_rows = mean, X - mean, len(X)
        self.work = len(X) * X.size
        variances = np.einsum("ij,ij->j", self.X, self.X) / len(X)
        self.variances = _but_for_rounding(variances, mean)

    def leading(self, noise, n_components):
        """Eigenvalues, largest first, and eigenvectors as rows."""
        scaled = self.X / np.sqrt(noise * self.n_rows)
        values, vectors = _leading(scaled @ scaled.T, n_components)
        vectors = vectors.T @ scaled
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return values, vectors / np.where(norms > 0, norms, 1)


class SketchedRows(CentredRows):
    """Centred rows, too many for `CentredRows`: by subspace iteration.

    The search goes on from the loadings found for the last noise variances, so that
    few products are needed once these change little. Until it is to be `thorough`,
    one pass is all.
    """

    def __init__(self, X, mean, n_components, n_power, accuracy, rng):
        super().__init__(X, mean)
        self.work = X.size * (n_components + OVERSAMPLING)
        self.n_power, self.accuracy, self.rng = n_power, accuracy, rng
        self.thorough, self.directions = False, None

    def leading(self, noise, n_components):
        """Eigenvalues, largest first, and eigenvectors as rows."""
        scale = np.sqrt(noise)[:, np.newaxis]
        n_passes = self.n_power + 1 if self.thorough else 1
        if self.directions is None:
            shape = self.X.shape[1], n_components + OVERSAMPLING
            self.directions = scale * self.rng.normal(size=shape)
            n_passes = min(2, self.n_power + 1)
        basis, gain = self.directions / scale, -np.inf
        for _ in range(n_passes):
            sketch, _ = linalg.qr(self.X @ (basis / scale), mode="economic")
            projected = (self.X.T @ sketch) / (scale * np.sqrt(self.n_rows))
            values, rotation = linalg.eigh(projected.T @ projected)
            # Directions without any variance stay small.
            values = np.maximum(values[::-1], EPSILON * values[-1] + TINY)
            basis = projected @ (rotation[:, ::-1] / np.sqrt(values))
            kept = values[:n_components][values[:n_components] > 1]
            last, gain = gain, 0.5 * np.sum(kept - 1 - np.log(kept))
            if gain - last < self.accuracy:
                break
        self.directions = basis * scale
        return values[:n_components], basis[:, :n_components].T


def _but_for_rounding(variances, mean):
    """Variances of features with these means, 0 where all that varies is rounding."""
    return np.where(np.sqrt(variances) > CONSTANT * np.abs(mean), variances, 0.0)


def _leading(matrix, n_components):
    """The largest eigenvalues of a symmetric matrix, and eigenvectors as columns."""
    n = len(matrix)
    if n_components == 0:
        return np.empty(0), np.empty((n, 0))
    values, vectors = linalg.eigh(matrix, subset_by_index=[n - n_components, n - 1])
    return values[::-1], vectors[:, ::-1]
