"""Factor analysis."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_array, check_random_state

from .._keeping import undo_if_nothing_learned
from .._parameters import Interval, StrOptions, check_parameters
from .._validation import naming
from ._em import ExpectationMaximisation, Moments, collect, moments_of, step
from ._faults import warn_of_few_values, warn_of_no_noise
from ._fits import Progress, check_same_components, filled_with_means, signs_of
from ._fitted import FittedFactors
from ._gaussian import FactorGaussian
from ._profile import LEAST_NOISE, Ascent, check_variances, describe, least_noise
from ._rotations import OBLIQUE, ORTHOGONAL, rotate

# Share of a feature's variance that a fit first takes for noise.
FIRST_NOISE = 0.5
# A minibatch, the t-th of its size, has the share t^-DECAY in the running moments.
DECAY = 0.6
# Until so many rows have been seen, online training starts again from all of them.
FIRST_ROWS = 100
# Variance that factors of a start have at least, in units of the noise.
LEAST_EXCESS = 0.1


class FactorAnalysis(FittedFactors):
    """Factor analysis (FA).

    Features are linear in a few Gaussian factors, with Gaussian noise of its own on
    each feature: ``x = mean + z @ components + noise``, so that ``x ~ N(mean,
    components.T @ components + diag(noise_variance))``. Fitted by maximum likelihood.

    Takes the place of `sklearn.decomposition.FactorAnalysis`. Mostly it reaches a
    higher likelihood in less time (now and then another maximum, which may be lower:
    see Notes). It computes likelihoods without a matrix of all pairs of features, and
    adds missing values, samples, minibatches and oblique rotations.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of factors. None means as many as features. There are never more than
        rows.

    tol : float, default=1e-2
        The fit ends when an iteration increases the log-likelihood of the data by less
        than this, in nats.

    copy : bool, default=True
        Present for compatibility: X is never overwritten.

    max_iter : int, default=1000
        Largest number of iterations.

    noise_variance_init : array-like of shape (n_features,) or None, default=None
        Noise variances to start from. None starts at half the features' variances.

    svd_method : {"lapack", "randomized"}, default="randomized"
        How eigenvectors are found for data too wide for the covariance of their
        features (see Notes): "lapack" is exact, and slow if there are many rows.

    iterated_power : int, default=3
        Most power iterations of "randomized", for each set of noise variances.

    rotation : {"varimax", "quartimax", "promax", "oblimin"} or None, default=None
        Rotates the factors towards a simple structure. With "promax" and "oblimin",
        which are oblique, factors are correlated. The likelihood stays the same.
        Ctrl-C leaves factors that are not rotated: of many, that takes long.

    random_state : int, RandomState instance or None, default=0
        Seeds "randomized" and the draws of `sample` and `impute`.

    solver : {"svd", "em"}, default="svd"
        "svd" maximises the likelihood over the noise variances, with the best
        loadings for each. "em" is expectation maximisation, by which data with missing
        values are always fitted.

    missing : {"raise", "latent"}, default="raise"
        NaN in X: "raise" is an error, "latent" takes NaN for values that are missing
        at random, and uses exactly what is observed of each row.

    verbose : int, default=0
        If not 0, print a line an iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Loadings of the features on the factors.

    loglike_ : list of float
        Log-likelihood of the data at each iteration, in nats.

    noise_variance_ : ndarray of shape (n_features,)
        Noise variances of the features.

    n_iter_ : int
        Number of iterations.

    mean_ : ndarray of shape (n_features,)
        Means of the features.

    factor_correlation_ : ndarray of shape (n_components, n_components)
        Correlations of the factors. Only with an oblique rotation.

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
    sklearn.decomposition.FactorAnalysis : The model this one replaces.
    ProbabilisticPCA : The same noise variance for all features.
    select_n_components : Chooses the number of factors.

    Notes
    -----
    For given noise variances the best loadings are eigenvectors of the covariance in
    units of the noise, so the likelihood is maximised over the noise variances alone,
    by L-BFGS [1]_. The eigenvectors come from the covariance of the features where
    rows outnumber features by enough, else from the rows themselves.

    The likelihood can have several local maxima. Others may be found with
    ``solver="em"``, which climbs from the same start another way, or from another
    `noise_variance_init`; `loglike_` tells which is better. There is no maximum where
    features are copies of each other: noise variances stay above 1e-9 of a feature's
    variance (1e-6 where values are missing; 1e-12 where it has none).

    Expectation maximisation [2]_ uses parameter expansion [3]_; `partial_fit` is its
    online form [4]_, without that. A fit takes no `sample_weight`.

    References
    ----------
    .. [1] K. G. Joreskog, "Some contributions to maximum likelihood factor analysis",
       Psychometrika 32, 1967.
    .. [2] D. Rubin, D. Thayer, "EM algorithms for ML factor analysis", Psychometrika
       47, 1982.
    .. [3] C. Liu, D. Rubin, Y. N. Wu, "Parameter expansion to accelerate EM: the PX-EM
       algorithm", Biometrika 85, 1998.
    .. [4] O. Cappe, E. Moulines, "On-line expectation-maximization algorithm for latent
       data models", Journal of the Royal Statistical Society B 71, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_ebm import FactorAnalysis
    >>> X, _ = load_digits(return_X_y=True)
    >>> FactorAnalysis(n_components=7).fit_transform(X).shape
    (1797, 7)
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 0, None, closed="left"), None],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "copy": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "noise_variance_init": ["array-like", None],
        "svd_method": [StrOptions({"randomized", "lapack"})],
        "iterated_power": [Interval(Integral, 0, None, closed="left")],
        "rotation": [StrOptions({*ORTHOGONAL, *OBLIQUE}), None],
        "random_state": ["random_state"],
        "solver": [StrOptions({"svd", "em"})],
        "missing": [StrOptions({"raise", "latent"})],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components=None,
        *,
        tol=1e-2,
        copy=True,
        max_iter=1000,
        noise_variance_init=None,
        svd_method="randomized",
        iterated_power=3,
        rotation=None,
        random_state=0,
        solver="svd",
        missing="raise",
        verbose=0,
    ):
        self.n_components = n_components
        self.tol = tol
        self.copy = copy
        self.max_iter = max_iter
        self.noise_variance_init = noise_variance_init
        self.svd_method = svd_method
        self.iterated_power = iterated_power
        self.rotation = rotation
        self.random_state = random_state
        self.solver = solver
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
        self : FactorAnalysis
            The fitted model.

        Raises
        ------
        ValueError
            If X holds NaN (with ``missing="raise"``) or infinity, or has fewer than two
            rows, a feature without an observed value, or variances beyond the numbers
            of its dtype; if a parameter is not allowed, `noise_variance_init` is not a
            number above 0 for each feature, or `rotation` finds factors that are copies
            of one another.

        TypeError
            If X is sparse, or holds dates or times.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` iterations were not enough; or if there are as many components
            as rows, less one, and more features: the likelihood has no bound; or if
            values are missing and features are left next to no noise, or so few values
            are observed that factors are learned from chance.
        """
        check_parameters(self)
        X = self._check_data(X, reset=True, ensure_min_samples=2)
        missing = self._has_holes(X)
        progress = Progress(type(self).__name__, self.tol, self.verbose)
        most = self._most_components(X)
        n_components = min(most, len(X))
        if missing or self.solver == "em":
            start = self._start(X, n_components)
            climb = ExpectationMaximisation(X, start, missing, progress)
        else:
            data = self._describe(X, n_components, X.dtype)
            noise = self._first_noise(data.variances)
            climb = Ascent(data, n_components, noise, progress)
        rotation = None
        try:
            climb.run(self.max_iter)
            rotation = self.rotation
        finally:
            # Also when interrupted: a model that can be used, not rotated then, since
            # that may take longer than all else.
            if climb.gaussian is not None:
                self._begin_draws()
                self._state = {"n_seen": len(X), "n_components": most}
                self._store(climb.gaussian, X.dtype, progress.loglike, rotation)
        if not progress.converged and self.n_iter_ >= self.max_iter:
            progress.warn_unconverged(self.max_iter)
        warn_of_no_noise(type(self).__name__, n_components, X.shape)
        if missing:
            name, observed = type(self).__name__, ~np.isnan(X)
            warn_of_few_values(name, climb.gaussian, observed)
        return self

    @undo_if_nothing_learned
    def partial_fit(self, X, y=None):
        """Take a step of online expectation maximisation.

        X counts as one minibatch: its moments enter a running mean with the share
        ``(n_seen / n_samples) ** -0.6`` of all rows seen so far. Until there have been
        100 rows, all of them so far are one minibatch, so that where training starts
        does not depend on a few. A model that has been fitted goes on from there.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data, any number of rows; with ``missing="latent"`` NaN where a
            value is missing.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : FactorAnalysis
            The fitted model.

        Raises
        ------
        ValueError
            As in `fit`, but one row is enough, and only the first call needs an
            observed value of every feature. Also if X has other features than before
            (their number or their names), or `n_components` does not fit the model that
            there is.

        TypeError
            If X is sparse, or holds dates or times.
        """
        check_parameters(self)
        first = not hasattr(self, "components_")
        X = self._check_data(X, reset=first)
        missing, most = self.missing == "latent", self._most_components(X)
        dtype, loglike, first_rows = X.dtype, [], X
        if first:
            self._begin_draws()
        else:
            check_same_components(self, most, self._state["n_components"])
            dtype, loglike = self.components_.dtype, self.loglike_
            first_rows = self._state.get("first_rows")
            if first_rows is not None:
                X = first_rows = np.vstack([first_rows, X])
                # (These may have been taken when NaN was.)
                missing = missing or bool(np.isnan(X).any())
        if first_rows is not None:
            # What the first step starts from counts as a row.
            gaussian, n_seen = self._start(X), 1
            moments = moments_of(gaussian, missing)
        else:
            gaussian, moments = self._running(missing)
            n_seen = self._state["n_seen"]
        batch, batch_loglike = collect(gaussian, X, moments.centre, missing)
        n_seen += len(X)
        share = (n_seen / len(X)) ** -DECAY
        moments = moments.mixed(batch.scaled(1 / len(X)), share)
        check_variances(moments.variances, dtype)
        gaussian = step(moments)
        self._state = {
            "n_seen": n_seen,
            "n_components": most,
            "model": gaussian.parameters(),
            "moments": vars(moments),
        }
        if first_rows is not None and len(X) < FIRST_ROWS:
            self._state["first_rows"] = first_rows.copy()
        self._store(gaussian, dtype, [*loglike, float(batch_loglike)], self.rotation)
        return self

    def _running(self, missing):
        """Return the model and the moments that online training goes on from.

        Their factors are in one basis, which is not always that of `components_`.
        """
        if "moments" in self._state:
            gaussian = FactorGaussian(**self._state["model"])
            return gaussian, Moments(**self._state["moments"])
        gaussian = self._gaussian()
        return gaussian, moments_of(gaussian, missing)

    def _most_components(self, X):
        """Return how many components there are if there are rows enough."""
        if self.n_components is None:
            return X.shape[1]
        return min(self.n_components, X.shape[1])

    def _describe(self, X, n_components, dtype):
        return describe(
            X,
            n_components,
            dtype=dtype,
            own_noise=True,
            exact=self.svd_method == "lapack",
            n_power=self.iterated_power,
            accuracy=0.1 * self.tol / len(X),
            rng=check_random_state(self.random_state),
        )

    def _first_noise(self, variances):
        """Return the noise variances that a fit starts from."""
        given = self.noise_variance_init
        if given is None:
            return np.maximum(FIRST_NOISE * variances, least_noise(variances))
        name = "noise_variance_init"
        with naming(name):
            given = check_array(
                given, dtype=np.float64, ensure_2d=False, input_name=name
            )
        if given.shape != variances.shape or (given <= 0).any():
            raise ValueError(
                "noise_variance_init must be a number above 0 for each of the "
                f"{len(variances)} features, got {self.noise_variance_init!r}."
            )
        return given

    def _start(self, X, n_components=None):
        """Return a model to start expectation maximisation from."""
        filled = filled_with_means(X)
        if n_components is None:
            n_components = self._most_components(X)
        found = min(n_components, len(X))
        data = self._describe(filled, found, X.dtype)
        noise = self._first_noise(_never_zero(data.variances))
        values, vectors = data.leading(noise, found)
        # Factors without any loadings would never get some.
        loadings = (
            np.sqrt(np.maximum(values - 1, LEAST_EXCESS))[:, np.newaxis] * vectors
        )
        rng = check_random_state(self.random_state)
        more = rng.normal(size=(n_components - found, X.shape[1]))
        loadings = np.vstack([loadings, np.sqrt(LEAST_EXCESS / X.shape[1]) * more])
        return FactorGaussian(data.mean, loadings * np.sqrt(noise), noise)

    def _store(self, gaussian, dtype, loglike, rotation):
        """Keep a model, in a basis that does not depend on how the model was found."""
        components, correlations = gaussian.canonical_loadings(), None
        if rotation is not None:
            try:
                components, correlations = rotate(components, rotation)
            except KeyboardInterrupt:
                # Only the rotation is given up.
                self._store(gaussian, dtype, loglike, None)
                raise
        signs = signs_of(components)
        components = components * signs[:, np.newaxis]
        # (Online, that of a constant feature dwindles.)
        low = gaussian.noise < np.finfo(dtype).tiny
        fitted = {
            "components_": components.astype(dtype),
            "noise_variance_": np.where(low, LEAST_NOISE, gaussian.noise).astype(dtype),
            "mean_": gaussian.mean.astype(dtype),
            "loglike_": loglike,
            "n_iter_": len(loglike),
        }
        self.__dict__.pop("factor_correlation_", None)
        if correlations is not None:
            correlations = correlations * signs * signs[:, np.newaxis]
            fitted["factor_correlation_"] = correlations.astype(dtype)
        self.__dict__.update(fitted)


def _never_zero(variances):
    """Variances, those of 0 in a small first minibatch replaced by what is usual."""
    positive = variances[variances > 0]
    usual = positive.mean() if len(positive) else 1.0
    return np.where(variances > 0, variances, usual)
