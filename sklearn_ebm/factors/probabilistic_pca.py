"""Probabilistic principal component analysis."""

from copy import copy
from numbers import Integral, Real

import numpy as np
from scipy.optimize import brentq
from sklearn.decomposition import PCA

from .._keeping import undo_if_nothing_learned
from .._parameters import Interval, StrOptions, check_parameters
from ._em import ExpectationMaximisation, step
from ._faults import warn_of_few_values, warn_of_no_noise
from ._fits import Progress, filled_with_means, signs_of
from ._fitted import FittedFactors
from ._gaussian import LOG_2_PI, FactorGaussian
from ._profile import describe, least_shared_noise

# Variance that components of a start have at least, in units of the noise.
LEAST_EXCESS = 0.1
# Components to begin with under automatic relevance and missing values, beside twice as
# many as there would be without such values.
SPARE = 5
# A component whose variance is below this share of the least that relevance
# determination can keep is on its way out.
PRUNED = 0.1
# Relative change of the noise at which relevance determination has converged.
ARD_TOL = 1e-10
ARD_MAX_ITER = 10_000


class ProbabilisticPCA(FittedFactors):
    """Probabilistic principal component analysis (PPCA).

    Features are linear in a few Gaussian factors, with the same Gaussian noise on every
    feature: ``x ~ N(mean, components.T @ components + noise_variance * I)``. Maximum
    likelihood has a closed form: the leading principal components, and for the noise
    the mean variance of all others. With missing values it is reached by expectation
    maximisation.

    Parameters
    ----------
    n_components : int, "mle", "ard" or None, default=None
        Number of components. None means as many as there are features or rows. "mle"
        chooses it by Minka's approximation of the evidence, "ard" by automatic
        relevance determination (Bayesian PCA): every component has a prior of its own,
        whose precision is learned, and those that the data do not ask for are dropped.

    tol : float, default=1e-4
        Expectation maximisation ends when an iteration increases the log-likelihood of
        the data by less than this, in nats.

    max_iter : int, default=1000
        Largest number of iterations of expectation maximisation.

    random_state : int, RandomState instance or None, default=None
        Seeds the draws of `sample` and `impute`.

    missing : {"raise", "latent"}, default="raise"
        NaN in X: "raise" is an error, "latent" takes NaN for values that are missing
        at random, and uses exactly what is observed of each row.

    verbose : int, default=0
        If not 0, print a line an iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Loadings of the features on the factors: principal axes, each times the root
        of its variance beyond the noise.

    explained_variance_ : ndarray of shape (n_components,)
        Variance along each of these axes.

    noise_variance_ : float
        Variance of the noise of every feature.

    mean_ : ndarray of shape (n_features,)
        Means of the features.

    n_components_ : int
        Number of components.

    loglike_ : list of float
        Log-likelihood of the data at each iteration, in nats; one entry where the
        solution has a closed form.

    n_iter_ : int
        Number of iterations.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations were not enough, or too few values are observed.

    See Also
    --------
    FactorAnalysis : A noise variance for every feature.
    sklearn.decomposition.PCA : The same axes; its likelihood takes the covariance with
        1 / (n_samples - 1), where maximum likelihood has 1 / n_samples.

    Notes
    -----
    `transform` computes the means of the factors given the data, which are shrunk
    towards 0, and are not the projections of `sklearn.decomposition.PCA`. A fit takes
    no `sample_weight`. "ard" starts from all components that leave some noise, and can
    keep too many where rows do not outnumber features by far.

    References
    ----------
    .. [1] M. E. Tipping, C. M. Bishop, "Probabilistic principal component analysis",
       Journal of the Royal Statistical Society B 61, 1999.
    .. [2] T. P. Minka, "Automatic choice of dimensionality for PCA", NIPS 2000.
    .. [3] C. M. Bishop, "Bayesian PCA", NIPS 1998.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_ebm import ProbabilisticPCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> ProbabilisticPCA(n_components=7).fit_transform(X).shape
    (1797, 7)
    """

    _parameter_constraints: dict = {
        "n_components": [
            Interval(Integral, 0, None, closed="left"),
            StrOptions({"mle", "ard"}),
            None,
        ],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "missing": [StrOptions({"raise", "latent"})],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components=None,
        *,
        tol=1e-4,
        max_iter=1000,
        random_state=None,
        missing="raise",
        verbose=0,
    ):
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.missing = missing
        self.verbose = verbose

    @undo_if_nothing_learned
    def fit(self, X, y=None):
        """Fit the model to the data X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data; with ``missing="latent"`` NaN where a value is missing.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : ProbabilisticPCA
            The fitted model.

        Raises
        ------
        ValueError
            If X holds NaN (with ``missing="raise"``) or infinity, or has fewer than two
            rows, a feature without an observed value, or variances beyond the numbers
            of its dtype; if a parameter is not allowed; or if there are, for
            ``n_components="mle"``, fewer rows than features or missing values.

        TypeError
            If X is sparse, or holds dates or times.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` iterations were not enough; or if there are as many components
            as rows, less one, and more features: the likelihood has no bound; or if
            so few values are observed that components are learned from chance.
        """
        check_parameters(self)
        X = self._check_data(X, reset=True, ensure_min_samples=2)
        progress = Progress(type(self).__name__, self.tol, self.verbose)
        if not self._has_holes(X):
            gaussian, loglike = self._closed_form(
                X, describe(X, dtype=X.dtype, exact=True)
            )
            progress(len(X) * loglike)
            self._store(gaussian, X.dtype, progress.loglike)
            warn_of_no_noise(type(self).__name__, self.n_components_, X.shape)
            return self
        start, m_step = self._climb(X)
        climb = ExpectationMaximisation(X, start, True, progress, m_step)
        try:
            climb.run(self.max_iter)
        finally:
            # Also when interrupted: a model that can be used.
            if progress.loglike:
                self._store(climb.gaussian, X.dtype, progress.loglike)
        if not progress.converged:
            progress.warn_unconverged(self.max_iter)
        name = type(self).__name__
        warn_of_no_noise(name, self.n_components_, X.shape)
        warn_of_few_values(name, climb.gaussian, ~np.isnan(X), shared_noise=True)
        return self

    def _most_components(self, X, data):
        """Return the number of components, or the most there may be."""
        most = min(X.shape)
        if self.n_components == "ard":
            return most - 1
        if self.n_components == "mle":
            if X.shape[0] < X.shape[1] or np.isnan(X).any():
                raise ValueError(
                    "n_components='mle' needs as many rows as features and no missing "
                    "values; n_components='ard' does not."
                )
            # (scikit-learn takes any eigenvalue below 1e-15 for 0, in whatever unit.)
            unit = np.sqrt(data.variances.max())
            if unit == 0:
                return 0
            pca = PCA("mle", svd_solver="covariance_eigh")
            return int(pca.fit((X - data.mean) / unit).n_components_)
        return most if self.n_components is None else min(self.n_components, most)

    def _closed_form(self, X, data):
        """Return the model of most likelihood, and its log-likelihood a row."""
        spectrum = Spectrum(data, self._most_components(X, data))
        if self.n_components == "ard":
            excess, noise = _relevant(spectrum, len(X))
        else:
            noise = spectrum.noise()
            excess = np.maximum(spectrum.values - noise, 0)
        kept = slice(None) if self.n_components != "ard" else excess > 0
        loadings = np.sqrt(excess)[:, np.newaxis] * spectrum.vectors
        gaussian = FactorGaussian(data.mean, loadings[kept], noise)
        return gaussian, spectrum.loglike(excess, noise)

    def _climb(self, X):
        """Return what expectation maximisation starts from, and its M-step."""
        filled = filled_with_means(X)
        data = describe(filled, dtype=X.dtype, exact=True)
        spectrum = Spectrum(data, self._most_components(X, data))
        # (The means that fill X vary less than what is observed, which bounds steps.)
        observed = np.nanvar(X.astype(np.float64), axis=0).mean()
        noise, n_components = spectrum.noise(), len(spectrum.values)
        m_step = _shared_step
        if self.n_components == "ard":
            # (Steps only drop components: more of them than filled-in data speak for.)
            m_step = _relevance_step
            excess, noise = _relevant(spectrum, len(X))
            n_components = min(n_components, 2 * np.count_nonzero(excess) + SPARE)
        noise = max(noise, least_shared_noise(observed))
        # A component without any loadings would never get some.
        excess = np.maximum(
            spectrum.values[:n_components] - noise, LEAST_EXCESS * noise
        )
        loadings = np.sqrt(excess)[:, np.newaxis] * spectrum.vectors[:n_components]
        return FactorGaussian(data.mean, loadings, noise), m_step

    def _store(self, gaussian, dtype, loglike):
        """Keep a model, its components sorted by variance."""
        components = gaussian.canonical_loadings()
        components = components * signs_of(components)[:, np.newaxis]
        noise = float(gaussian.noise[0])
        self._begin_draws()
        self.__dict__.update(
            components_=components.astype(dtype),
            explained_variance_=((components**2).sum(axis=1) + noise).astype(dtype),
            noise_variance_=noise,
            mean_=gaussian.mean.astype(dtype),
            n_components_=len(components),
            loglike_=loglike,
            n_iter_=len(loglike),
        )


class Spectrum:
    """Leading eigenvalues of the covariance of data, with 1 / n_samples.

    Parameters
    ----------
    data : Covariance or CentredRows
    n_components : int
    """

    def __init__(self, data, n_components):
        self.n_features, self.total = len(data.variances), data.variances.sum()
        values, self.vectors = data.leading(np.ones(self.n_features), n_components)
        self.values = np.maximum(values, 0)
        self.least = least_shared_noise(self.total / self.n_features)

    def in_units_of(self, variance):
        """The same spectrum, in units of a variance."""
        quotient = copy(self)
        for name in ("total", "values", "least"):
            setattr(quotient, name, getattr(self, name) / variance)
        return quotient

    def noise(self):
        """The mean of the other eigenvalues; the last one if there is no other."""
        n_others = self.n_features - len(self.values)
        if n_others:
            noise = (self.total - self.values.sum()) / n_others
        else:
            noise = self.values[-1]
        return max(noise, self.least)

    def loglike(self, excess, noise):
        """Log-likelihood in nats a row, with so much variance beyond the noise."""
        n_others = self.n_features - len(self.values)
        deviance = self.n_features * LOG_2_PI + n_others * np.log(noise)
        deviance += (self.total - self.values.sum()) / noise
        deviance += np.sum(np.log(excess + noise) + self.values / (excess + noise))
        return -0.5 * deviance


def _relevant(spectrum, n_rows):
    """Variances beyond the noise, and the noise, under automatic relevance.

    The prior precision of a component's loadings w is n_features / |w|^2, re-estimated
    until it agrees with them. Then |w|^2 solves a quadratic equation, whose larger
    root is a maximum; without a root the component is dropped.
    """
    # (Squares of variances may be beyond the numbers of float64. A unit that is a power
    # of two rounds nothing.)
    unit = 2.0 ** (np.frexp(spectrum.noise())[1] - 1)
    spectrum = spectrum.in_units_of(unit)
    values, n_features = spectrum.values, spectrum.n_features
    noise = spectrum.noise()
    if n_rows - 1 <= len(values):
        # Components that are all the rows have leave no noise, which would keep them.
        noise = max(spectrum.total / n_features, spectrum.least)
    for _ in range(ARD_MAX_ITER):
        half = n_rows * (values - noise) - 2 * n_features * noise
        roots = half**2 - 4 * (n_rows + n_features) * n_features * noise**2
        excess = (half + np.sqrt(np.maximum(roots, 0))) / (2 * (n_rows + n_features))
        excess[(half <= 0) | (roots < 0)] = 0
        last, noise = noise, _noise_beside(excess, spectrum)
        if abs(noise - last) <= ARD_TOL * noise:
            break
    return excess * unit, noise * unit


def _noise_beside(excess, spectrum):
    """The noise variance of most likelihood, beside this variance of components."""
    excess, values = excess[excess > 0], spectrum.values[excess > 0]
    rest = spectrum.total - values.sum()
    n_rest = spectrum.n_features - len(values)

    def slope(noise):
        of_kept = np.sum((values - excess - noise) / (excess + noise) ** 2)
        return of_kept + (rest - n_rest * noise) / noise**2

    least = spectrum.least
    if slope(least) <= 0:
        return least
    return brentq(slope, least, max(spectrum.total, 2 * least), xtol=1e-300, rtol=1e-14)


def _shared_step(moments, _):
    return step(moments, shared_noise=True, expand=True)


def _relevance_step(moments, gaussian):
    """A step with automatic relevance; components on their way out are dropped."""
    n_features, noise = gaussian.n_features, gaussian.noise[0]
    # (Loadings may be exactly 0, and are to stay so.)
    squares = np.maximum(
        (gaussian.loadings**2).sum(axis=1), noise * np.finfo(float).eps
    )
    new = step(moments, shared_noise=True, ridge=noise * n_features / squares)
    least = new.noise[0] * np.sqrt(n_features / (moments.n.mean() + n_features))
    kept = (new.loadings**2).sum(axis=1) > PRUNED * least
    return FactorGaussian(new.mean, new.loadings[kept], new.noise)
