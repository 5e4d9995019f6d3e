"""Expectation maximisation of x = mean + zW + noise, with missing values or without.

A step is the least squares of every feature on the factors, whose moments the E-step
sums: each feature over the rows in which it is observed. Nothing is imputed, so that a
step is as long as the missing values allow.

.. [1] C. Liu, D. Rubin, Y. N. Wu, "Parameter expansion to accelerate EM: the PX-EM
   algorithm", Biometrika 85, 1998.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ._gaussian import PRODUCT_BLOCK, FactorGaussian, row_blocks
from ._profile import least_noise, least_shared_noise


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


def collect(gaussian, X, centre, missing):
    """The E-step: moments of the rows under a model, and their log-likelihood."""
    return (_collect_observed if missing else _collect_complete)(gaussian, X, centre)


def _collect_complete(gaussian, X, centre):
    n_rows, n_features = X.shape
    k = gaussian.n_components + 1
    xx, xz, zz = np.zeros(n_features), np.zeros((n_features, k)), np.zeros((k, k))
    for rows in row_blocks(n_rows, n_features, PRODUCT_BLOCK):
        part = np.asarray(X[rows], dtype=np.float64)
        regressors = _with_ones(gaussian.factor_means(part))
        deviation = part - centre
        xx += np.einsum("ij,ij->j", deviation, deviation)
        xz += deviation.T @ regressors
        zz += regressors.T @ regressors
    zz[:-1, :-1] += n_rows * gaussian.factor_covariance()
    n = np.full(n_features, float(n_rows))
    return Moments(centre, n, xx, xz, zz, zz), gaussian.log_density(X).sum()


def _collect_observed(gaussian, X, centre):
    n_features, k = gaussian.n_features, gaussian.n_components + 1
    n, xx = np.zeros(n_features), np.zeros(n_features)
    xz, zz = np.zeros((n_features, k)), np.zeros((n_features, k * k))
    whole = np.zeros((k, k))
    loglike = 0.0
    for part in gaussian.given_observed(X):
        regressors = _with_ones(part.means)
        products = regressors[:, :, np.newaxis] * regressors[:, np.newaxis]
        products[:, :-1, :-1] += part.of_rows()
        observed = part.observed.astype(np.float64)
        deviation = np.where(part.observed, X[part.rows] - centre, 0.0)
        n += observed.sum(axis=0)
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
        self.X, self.gaussian, self.missing = X, start, missing
        self.report, self.m_step = report, m_step

    def run(self, max_iter):
        """Take at most max_iter iterations."""
        centre = self.gaussian.mean
        moments, loglike = collect(self.gaussian, self.X, centre, self.missing)
        for _ in range(max_iter):
            if self.report(loglike):
                return
            self.gaussian = self.m_step(moments, self.gaussian)
            moments, loglike = collect(self.gaussian, self.X, centre, self.missing)


def _with_ones(factors):
    return np.hstack([factors, np.ones((len(factors), 1))])
