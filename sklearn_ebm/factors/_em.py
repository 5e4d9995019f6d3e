"""Expectation maximisation of x = mean + zW + noise, with missing values or without.

A step is the least squares of every feature on the factors, whose moments the E-step
sums: each feature over the rows in which it is observed. Nothing is imputed, so that a
step is as long as the missing values allow. Of rows that lack the same values, many are
no more work than a few (`condensed`).

.. [1] C. Liu, D. Rubin, Y. N. Wu, "Parameter expansion to accelerate EM: the PX-EM
   algorithm", Biometrika 85, 1998.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from .._products import single_threaded_blas
from ._gaussian import (
    PRODUCT_BLOCK,
    FactorGaussian,
    one_thread_if_small,
    patterns_of,
    row_blocks,
)
from ._profile import least_noise, least_shared_noise

# Rows with more values than this for each regressor are left as they are: a fit of few
# iterations is done before they are condensed.
WIDEST = 200


@dataclass(frozen=True)
class Moments:
    """What a step needs of the data: sums, or their running means.

    With the k = n_components + 1 regressors (z, 1), and features less `centre`:

    - n (D,): number of observed values;
    - xx (D,): sum of squares;
    - xz (D, k): sum of products with the regressors;
    - zz (k, k), or (D, k, k) where values are missing: sum of the regressors' products,
      over the rows in which the feature is observed;
    - whole (k, k): sum of the regressors' products over all rows.
    """

    centre: np.ndarray
    n: np.ndarray
    xx: np.ndarray
    xz: np.ndarray
    zz: np.ndarray
    whole: np.ndarray

    def mixed(self, other, share):
        """These moments, a share of them replaced by others with the same centre."""
        mix = {
            name: (1 - share) * getattr(self, name) + share * getattr(other, name)
            for name in ("n", "xx", "xz", "zz", "whole")
        }
        return Moments(self.centre, **mix)

    def scaled(self, factor):
        """All sums times a number."""
        sums = (factor * s for s in (self.n, self.xx, self.xz, self.zz, self.whole))
        return Moments(self.centre, *sums)

    @property
    def variances(self):
        """Variances of the features."""
        return np.maximum(self.xx / self.n - (self.xz[:, -1] / self.n) ** 2, 0)


def condensed(X, n_regressors):
    """Fewer rows with the same moments as X, and what each of them has for a 1.

    Within a pattern of missing values all that a step sums is quadratic in the rows
    (1, x). Where a pattern has many, one row of their number and mean, sqrt(n) (1, m),
    and as many rows (0, r) as values are observed, those of a triangular factor of the
    rows less their mean, have the same sums: but for rounding, which is that of
    deviations and not of their squares.
    """
    observed = ~np.isnan(X)
    first, pattern = patterns_of(observed)
    observed, counts = observed[first], np.bincount(pattern)
    n_observed = observed.sum(axis=1)
    many = (counts >= 2 * (n_observed + 1)) & (n_observed <= WIDEST * n_regressors)
    if not many.any():
        return X, np.ones(len(X))
    others = X[~many[pattern]]
    parts, ones = [others.astype(np.float64)], [np.ones(len(others))]
    order, ends = np.argsort(pattern, kind="stable"), np.cumsum(counts)
    # (BLAS on more threads has other bits.)
    with single_threaded_blas:
        for i in np.flatnonzero(many):
            rows = order[ends[i] - counts[i] : ends[i]]
            mean, factor = _mean_and_factor(X, rows, observed[i])
            root = np.sqrt(counts[i])
            part = np.full((1 + len(factor), X.shape[1]), np.nan)
            part[:, observed[i]] = np.vstack([root * mean, factor])
            parts.append(part)
            ones.append(np.append(root, np.zeros(len(factor))))
    return np.vstack(parts), np.concatenate(ones)


def _mean_and_factor(X, rows, features):
    """Mean of a part of X, and R with R' R = its scatter."""
    # (Less one of them, rows far from 0 keep their digits and a constant has no
    # variance.)
    origin = X[rows[0], features].astype(np.float64)
    blocks = list(row_blocks(len(rows), len(features), PRODUCT_BLOCK))
    mean, factor = np.zeros(len(origin)), np.empty((0, len(origin)))
    for block in blocks:
        mean += (X[rows[block]][:, features] - origin).sum(axis=0) / len(rows)
    for block in blocks:
        part = X[rows[block]][:, features] - origin - mean
        factor = np.linalg.qr(np.vstack([factor, part]), mode="r")
    return origin + mean, factor


def collect(gaussian, X, centre, missing, ones=None):
    """The E-step: moments of the rows under a model, and their log-likelihood.

    Where values are missing, the rows may be `condensed`, and have `ones` for a 1.
    """
    if missing:
        return _collect_observed(gaussian, X, centre, ones)
    return _collect_complete(gaussian, X, centre)


def _collect_complete(gaussian, X, centre):
    n_rows, n_features = X.shape
    k = gaussian.n_components + 1
    xx, xz, zz = np.zeros(n_features), np.zeros((n_features, k)), np.zeros((k, k))
    for rows in row_blocks(n_rows, n_features, PRODUCT_BLOCK):
        part = np.asarray(X[rows], dtype=np.float64)
        factors = gaussian.factor_means(part)
        regressors = np.hstack([factors, np.ones((len(part), 1))])
        deviation = part - centre
        xx += np.einsum("ij,ij->j", deviation, deviation)
        xz += deviation.T @ regressors
        zz += regressors.T @ regressors
    zz[:-1, :-1] += n_rows * gaussian.factor_covariance()
    n = np.full(n_features, float(n_rows))
    return Moments(centre, n, xx, xz, zz, zz), gaussian.log_density(X).sum()


def _collect_observed(gaussian, X, centre, ones):
    n_features, k = gaussian.n_features, gaussian.n_components + 1
    n, xx = np.zeros(n_features), np.zeros(n_features)
    xz, zz = np.zeros((n_features, k)), np.zeros((n_features, k * k))
    whole = np.zeros((k, k))
    loglike = 0.0
    for part in gaussian.given_observed(X, ones):
        regressors = np.column_stack([part.means, part.ones])
        products = regressors[:, :, np.newaxis] * regressors[:, np.newaxis]
        products[:, :-1, :-1] += part.of_rows()
        observed = part.observed.astype(np.float64)
        deviation = X[part.rows] - np.outer(part.ones, centre)
        deviation[~part.observed] = 0
        n += part.ones**2 @ observed
        xx += np.einsum("ij,ij->j", deviation, deviation)
        xz += deviation.T @ regressors
        zz += observed.T @ products.reshape(len(products), -1)
        whole += products.sum(axis=0)
        loglike += part.log_density().sum()
    return Moments(centre, n, xx, xz, zz.reshape(-1, k, k), whole), loglike


def moments_of(gaussian, missing):
    """Means of the moments of rows that are distributed as the model says."""
    k = gaussian.n_components + 1
    D = gaussian.n_features
    xz = np.hstack([gaussian.loadings.T, np.zeros((D, 1))])
    variances = gaussian.noise + (gaussian.loadings**2).sum(axis=0)
    zz = np.broadcast_to(np.eye(k), (D, k, k)).copy() if missing else np.eye(k)
    return Moments(gaussian.mean, np.ones(D), variances, xz, zz, np.eye(k))


def step(moments, *, shared_noise=False, ridge=None, expand=False):
    """The M-step: the model that fits the moments best.

    With `shared_noise` all features have the same noise variance. `ridge`
    (n_components,) is added to the factors' sums of squares. With `expand` the step
    also fits the mean and covariance of the factors, which the loadings then take over:
    it changes the basis of the factors, and may be far longer [1]_.
    """
    products = moments.zz
    if ridge is not None:
        products = products + np.diag(np.append(ridge, 0.0))
    if products.ndim == 2:
        weights = linalg.solve(products, moments.xz.T, assume_a="pos").T
        fitted = weights @ moments.zz
    else:
        weights = np.linalg.solve(products, moments.xz[:, :, np.newaxis])[:, :, 0]
        fitted = np.einsum("ji,jik->jk", weights, moments.zz)
    residual = moments.xx - 2 * np.einsum("ij,ij->i", weights, moments.xz)
    residual += np.einsum("ij,ij->i", weights, fitted)
    if shared_noise:
        noise = np.full(len(residual), residual.sum() / moments.n.sum())
        least = least_shared_noise(moments.variances.mean())
    else:
        noise, missing = residual / moments.n, moments.zz.ndim == 3
        least = least_noise(moments.variances, missing)
    mean, loadings = moments.centre + weights[:, -1], weights[:, :-1].T
    if expand:
        n_rows, sums = moments.whole[-1, -1], moments.whole[-1, :-1]
        factor_mean = sums / n_rows
        spread = moments.whole[:-1, :-1] / n_rows - np.outer(factor_mean, factor_mean)
        mean = mean + factor_mean @ loadings
        loadings = np.linalg.cholesky(spread).T @ loadings
    return FactorGaussian(mean, loadings, np.maximum(noise, least))


def expanded_step(moments, _):
    """The step that a fit takes."""
    return step(moments, expand=True)


class ExpectationMaximisation:
    """Climbs the likelihood by expectation maximisation.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    start : FactorGaussian
    missing : bool
        Whether there may be NaN in X.
    report : callable
        Called with the log-likelihood after every iteration; returns whether that is
        enough.
    m_step : callable
        Makes a model of `Moments` and of the last model.

    Attributes
    ----------
    gaussian : FactorGaussian
        The last model, whenever the climb is interrupted.
    """

    def __init__(self, X, start, missing, report, m_step=expanded_step):
        self.gaussian, self.missing = start, missing
        self.report, self.m_step = report, m_step
        self.X, self.ones = X, None
        if missing:
            self.X, self.ones = condensed(X, start.n_components + 1)

    def run(self, max_iter):
        """Take at most max_iter iterations."""
        with one_thread_if_small(self.X.size * (self.gaussian.n_components + 1)):
            self._run(max_iter)

    def _run(self, max_iter):
        data = self.X, self.gaussian.mean, self.missing, self.ones
        for _ in range(max_iter):
            moments, loglike = collect(self.gaussian, *data)
            if self.report(loglike):
                return
            self.gaussian = self.m_step(moments, self.gaussian)
