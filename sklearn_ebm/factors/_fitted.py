"""The use of a fitted linear model with Gaussian factors and noise."""

import numpy as np
from scipy import linalg
from sklearn.utils.validation import check_is_fitted

from .._transformer import Transformer
from .._validation import (
    check_choice,
    check_count,
    check_floats,
    check_latent,
    check_restored,
    random_generator,
    refuse_not_finite,
    with_missing,
)
from .._warning import warn
from ._gaussian import FactorGaussian
from ._generator import OwnGenerator
from ._profile import LEAST_NOISE

# A log-density below which something is wrong with the row.
ABSURD = -1e6
# Share of the largest variance below which a feature was constant in the training.
CONSTANT = 1e-9
# Square of a deviation that no row has by chance.
FAR = 1e6


class FittedFactors(OwnGenerator, Transformer):
    """The use of a model x = mean + z components + noise, all of them Gaussian.

    An estimator that derives from it sets `mean_`, `components_` and
    `noise_variance_`, and has the parameters `missing` and `random_state`. If its
    factors are correlated it also sets `factor_correlation_`.
    """

    def transform(self, X):
        """Compute the means of the factors given X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data; with ``missing="latent"`` NaN where a value is missing.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
            Means of the factors given what is observed of each row.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        ValueError
            If X has other features than in the fit (their number or their names), or
            holds NaN (with ``missing="raise"``) or infinity.

        TypeError
            If X is sparse, or holds dates or times.
        """
        check_is_fitted(self)
        X = self._check_data(X)
        gaussian = self._gaussian()
        if self._has_holes(X):
            factors = gaussian.factor_means_observed(X)
        else:
            factors = gaussian.factor_means(X)
        return self._own_factors(factors).astype(X.dtype, copy=False)

    def inverse_transform(self, X):
        """Compute the means of the features given factors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Values of the factors, such as `transform` returns.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            Their part in the features, ``mean_ + X @ components_``.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        ValueError
            If X has another number of columns than there are components, or holds NaN
            or infinity.

        TypeError
            If X is sparse, or holds dates or times.
        """
        check_is_fitted(self)
        # A model may be left without components. (scikit-learn does not take a data
        # frame without columns, which has no dtype.)
        if hasattr(X, "columns") and not len(X.columns):
            X = np.asarray(X, float)
        n_components = len(self.components_)
        X = check_latent(X, n_components, "components", ensure_min_features=0)
        found = self.mean_ + X @ self.components_
        return found.astype(X.dtype, copy=False)

    def score_samples(self, X):
        """Compute the log-likelihood of every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data; with ``missing="latent"`` NaN where a value is missing.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            Log-density of what is observed of each row, in nats; -inf where it is
            below all numbers of float64.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.

        Warns
        -----
        UserWarning
            If rows differ in features that were constant in the training, or nearly
            so beside others, and that decides their scores.
        """
        check_is_fitted(self)
        # X is not searched for NaN first, which would take a good part of the time: any
        # there is shows in the densities.
        latent = self.missing == "latent"
        X, gaussian = self._check_data(X, scan=latent), self._gaussian()
        with np.errstate(over="ignore", invalid="ignore"):
            if self._has_holes(X):
                found = gaussian.log_density_observed(X)
            else:
                found = gaussian.log_density(X)
        if not latent and not np.isfinite(found).all():
            refuse_not_finite(self, X)
        # (Infinite squares, less infinite ones that the factors explain, are NaN.)
        found[np.isnan(found)] = -np.inf
        if found.min() < ABSURD:
            self._warn_of_constant_features(X[found < ABSURD], gaussian)
        return found

    @staticmethod
    def _warn_of_constant_features(X, gaussian):
        """Warn of features in which rows differ, but those of the training did not."""
        explained = np.square(gaussian.loadings).sum(axis=0)
        variances = gaussian.noise + explained
        # (In factor analysis what is constant has a noise of its own.)
        at_floor = np.isclose(gaussian.noise, LEAST_NOISE, rtol=1e-6, atol=0)
        alone = at_floor & (explained < LEAST_NOISE)
        constant = np.flatnonzero(alone | (variances <= CONSTANT * variances.max()))
        with np.errstate(over="ignore"):
            squares = np.square(X[:, constant] - gaussian.mean[constant])
        far = squares > FAR * variances[constant]
        features = constant[far.any(axis=0)]
        if len(features):
            named = ", ".join(map(str, features[:5]))
            named += " and others" if len(features) > 5 else ""
            n_rows = np.count_nonzero(far.any(axis=1))
            warn(
                "Features that did not vary in the training, or next to nothing "
                f"beside others, do so here, so that the log-densities of {n_rows} of "
                f"the rows are below {ABSURD:.0f}: number {named}. Leave such features "
                "out, as sklearn.feature_selection.VarianceThreshold does."
            )

    def score(self, X, y=None):
        """Compute the mean log-likelihood of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data; with ``missing="latent"`` NaN where a value is missing.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        score : float
            Mean of `score_samples`, in nats a row.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.
        """
        return float(self.score_samples(X).mean())

    def sample(self, n_samples=1, *, random_state=None):
        """Draw samples from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of samples.

        random_state : int, RandomState instance or None, default=None
            Seeds the draws. None goes on with a sequence that the `random_state` of
            the fit determines.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Independent samples.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        ValueError
            If `n_samples` is less than 1, or `random_state` is not allowed.

        TypeError
            If `n_samples` is no integer.
        """
        check_is_fitted(self)
        n_samples = check_count(n_samples, "n_samples", least=1)
        draws = self._gaussian().sample(n_samples, self._generator(random_state))
        return draws.astype(self.components_.dtype, copy=False)

    def impute(self, X, *, mask=None, method="mean", random_state=None):
        """Fill in missing values, given the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data; NaN where a value is missing.

        mask : array-like of bool of shape (n_samples, n_features) or \
                (n_features,), default=None
            Further values that are taken for missing.

        method : {"mean", "sample"}, default="mean"
            "mean" fills in conditional means, "sample" a joint draw from the
            conditional distribution.

        random_state : int, RandomState instance or None, default=None
            Seeds the draws. None goes on with the sequence of `sample`.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data, missing values filled in.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        ValueError
            If X has other features than in the fit (their number or their names) or
            holds infinity, `mask` is not bool or has another shape, or `method` or
            `random_state` is not allowed.

        TypeError
            If X is sparse, or holds dates or times.
        """
        check_is_fitted(self)
        X = with_missing(self, self._check_data(X, allow_nan=True), mask)
        check_choice(method, "method", ("mean", "sample"))
        random_generator(random_state)  # refuses what is none, whether it is needed
        rng = self._generator(random_state) if method == "sample" else None
        return self._gaussian().fill(X, rng).astype(X.dtype, copy=False)

    def get_covariance(self):
        """Compute the covariance of the features under the model.

        Returns
        -------
        covariance : ndarray of shape (n_features, n_features)
            The covariance.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(self)
        return self._gaussian().covariance()

    def get_precision(self):
        """Compute the inverse of the covariance of the features.

        Returns
        -------
        precision : ndarray of shape (n_features, n_features)
            The precision matrix.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(self)
        return self._gaussian().precision()

    def _check_data(self, X, *, reset=False, allow_nan=None, scan=True, **kwargs):
        """Validate data of the estimator's features, float32 or float64.

        What is not finite is left to the caller unless `scan`.
        """
        if allow_nan is None:
            allow_nan = self.missing == "latent"
        finite = "allow-nan" if scan and allow_nan else False
        X = check_floats(self, X, reset=reset, ensure_all_finite=finite, **kwargs)
        if scan and not allow_nan:
            with np.errstate(over="ignore", invalid="ignore"):
                suspect = not np.isfinite(X.sum())
            if suspect:
                refuse_not_finite(self, X)
        return X

    def _has_holes(self, X):
        return self.missing == "latent" and bool(np.isnan(X).any())

    def _gaussian(self):
        """Return the fitted model as a value, with uncorrelated factors."""
        components = np.asarray(self.components_, dtype=np.float64)
        root = self._factor_root()
        if root is not None:
            components = root.T @ components
        return FactorGaussian(self.mean_, components, self.noise_variance_)

    def _factor_root(self):
        """Return what makes uncorrelated factors the model's own, if it takes that."""
        correlations = getattr(self, "factor_correlation_", None)
        if correlations is None:
            return None
        return linalg.cholesky(np.asarray(correlations, dtype=np.float64), lower=True)

    def _own_factors(self, factors):
        """Return uncorrelated factors as the model's own."""
        root = self._factor_root()
        return factors if root is None else factors @ root.T

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "latent"
        return tags

    def _check_restored(self):
        q, n_features = self.components_.shape
        shapes = {"mean_": (n_features,)}
        if np.ndim(self.noise_variance_):  # not one for all features
            shapes["noise_variance_"] = (n_features,)
        if hasattr(self, "factor_correlation_"):
            shapes["factor_correlation_"] = (q, q)
        check_restored(self, shapes)
