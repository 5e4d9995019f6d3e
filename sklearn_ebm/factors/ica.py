"""Independent component analysis by maximum likelihood or score matching."""

from contextlib import nullcontext
from numbers import Integral, Real

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from .._keeping import undo_if_nothing_learned
from .._parameters import Interval, Options, StrOptions, check_parameters
from .._products import single_threaded_blas
from .._transformer import Transformer
from .._validation import (
    check_count,
    check_floats,
    check_latent,
    check_restored,
    naming,
    random_generator,
)
from .._warning import warn
from ..monitoring import print_iteration
from ._gaussian import row_blocks
from ._generator import OwnGenerator
from ._ica_densities import ADAPTIVE, DENSITIES, Sources
from ._ica_likelihood import DIVERGED, State, choose, first_guess, maximise
from ._ica_score_matching import minimise
from ._ica_whitening import check_spread, in_order, no_whitening, whitening_of

# Rows that score_samples works on at a time.
N_ROWS = 4096
# Multiplications of a covariance that are worth the other threads of BLAS: awake for
# long after their work, they are in the way of ours.
LEAST_WORK = 1e9
# Densities that score matching can do with: it takes second derivatives.
SMOOTH = ("logistic", "student")
# How far the first unmixing matrix is from the principal components.
FIRST_TURN = 0.1


def _is_normalised(estimator):
    """Whether there is a likelihood; if not, the error that says why."""
    n_components = len(getattr(estimator, "components_", ()))
    if n_components and n_components > estimator._n_directions:
        raise AttributeError(
            f"This ICA is an energy model of {n_components} components for data with "
            f"{estimator._n_directions} directions, whose density has no known "
            "normaliser; use energy, or fewer components."
        )
    return True


class ICA(OwnGenerator, Transformer):
    """Independent component analysis (ICA) by maximum likelihood.

    Data are linear mixtures of independent non-Gaussian sources, ``x - mean = A s``.
    The unmixing matrix maximises the likelihood ``sum_i log p_i(w_i.x) + log|det W|``
    by a preconditioned L-BFGS method with relative gradients (Picard [1]_), or
    minimises the objective of score matching [2]_, which also fits more components
    than features: an energy model.

    Fitted attributes are those of `sklearn.decomposition.FastICA`; here they come
    with a density of the data.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components. None means as many as there are directions in which
        the data vary, at most `n_features`. Fewer are sought in the space of the
        first principal components. More than `n_features` need
        ``objective="score_matching"``.

    density : {"auto", "adaptive", "logistic", "laplace", "student"}, default="auto"
        Density of the sources: "logistic"; "laplace" is the hyperbolic density, a
        Laplace density with a rounded tip; "student" has 3 degrees of freedom.
        "adaptive" chooses for every source what makes it most probable, of these,
        "subgaussian" (an equal mixture of two Gaussians, two standard deviations
        apart), "right-skewed" and "left-skewed" (an unequal one, with no excess
        kurtosis). "auto" is "adaptive" for the likelihood and "logistic" for score
        matching.

    objective : {"likelihood", "score_matching"}, default="likelihood"
        What is optimised. Score matching takes the density "logistic" or "student".

    whiten : {"unit-variance", "arbitrary-variance"} or False, \
            default="unit-variance"
        With a string, data are centred and whitened, which the maximum of the
        likelihood does not depend on. "unit-variance" scales the sources to unit
        variance; "arbitrary-variance" leaves them at the scale where their density is
        the standard one. False takes the data as they are, with mean zero, and
        ignores `n_components` below `n_features`.

    whiten_solver : {"auto", "eigh", "svd"}, default="auto"
        "eigh" finds principal components from the covariance matrix, "svd" from the
        data: slower, and exact where features are nearly dependent. "auto" is "svd"
        if there are fewer rows than features, or if the covariance matrix does not
        have full rank.

    max_iter : int, default=200
        Largest number of iterations.

    tol : float, default=5e-3
        Convergence: largest entry of the gradient, which for the likelihood is
        ``E[energy'(y) y^T] - I``, a matrix without units; the step from there is the
        last one. Of n samples, chance alone makes its entries about ``1 / sqrt(n)``.
        For score matching it is that of data with a mean square of 1.
        FastICA stops at changes of about 0.01 radian.

    w_init : array-like of shape (n_components, n_components) or None, default=None
        Unmixing matrix of the whitened data to start from; of shape (n_components,
        n_features) if that is fewer. None starts at a random rotation close to the
        principal components. For the likelihood it is made a rotation, and brought near
        the maximum by a few iterations of FastICA on a part of the rows: elsewhere the
        likelihood may have other maxima and saddles. Without whitening, a matrix that
        is given is taken as it is.

    random_state : int, RandomState instance or None, default=None
        Seeds the start and, unless that gets its own, `sample`.

    verbose : int, default=0
        If not 0, print a line an iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Maps centred data to sources. Sources are in the order of the variance that
        they bring to the data, largest first, and have the sign that makes the
        largest entry of their column of `mixing_` positive.

    mixing_ : ndarray of shape (n_features, n_components)
        Maps sources to centred data: the pseudo-inverse of `components_`.

    mean_ : ndarray of shape (n_features,)
        Mean of the training data. Only if `whiten` is not False.

    whitening_ : ndarray of shape (n_components, n_features)
        Maps centred data to their first principal components, scaled to unit
        variance. With more components than features its shape is (n_features,
        n_features). Only if `whiten` is not False.

    noise_variance_ : float
        Variance of the data in each direction that has no component, 0 where there
        is none.

    densities_ : list of str
        Density of each source.

    source_scale_ : ndarray of shape (n_components,)
        The density of source i is that of `densities_[i]`, stretched by this.

    n_iter_ : int
        Number of iterations.

    history_ : dict of list
        For every iteration: "log_likelihood" of the training data (mean, in nats a
        row, as `score` gives it; of their first `n_components` principal components
        only where `noise_variance_` is 0) or "score_matching", the objective on
        whitened data; and "gradient", its largest entry.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations do not reach `tol`.

    See Also
    --------
    sklearn.decomposition.FastICA : Contrast functions and fixed-point iterations.
    SlowFeatureAnalysis : Unmixes by slowness rather than by independence.

    Notes
    -----
    Sources are recovered up to order, sign and scale, and at most one of them may be
    Gaussian. Fixed densities need not be the true ones. "logistic", "laplace" and
    "student" separate super-Gaussian sources, whose densities have peaks and tails, and
    mislead for sub-Gaussian ones, such as uniform noise or a sine, and for skewed ones
    without excess kurtosis; "adaptive" separates all of these.

    With fewer components than features, the density of `score_samples` and `sample`
    is that of the sources in the space of the first principal components, times an
    independent Gaussian of variance `noise_variance_` in the directions left over, as
    in probabilistic PCA. With more, ``exp(-energy)`` has no normaliser in closed form.

    Ctrl-C leaves the model of the last iteration. A fit takes no `sample_weight`.

    References
    ----------
    .. [1] P. Ablin, J.-F. Cardoso, A. Gramfort, "Faster independent component
       analysis by preconditioning with Hessian approximations", IEEE Transactions on
       Signal Processing 66, 2018.
    .. [2] A. Hyvarinen, "Estimation of non-normalized statistical models by score
       matching", JMLR 6, 2005.
    .. [3] T.-W. Lee, M. Girolami, T. J. Sejnowski, "Independent component analysis
       using an extended infomax algorithm for mixed subgaussian and supergaussian
       sources", Neural Computation 11, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import ICA
    >>> rng = np.random.default_rng(0)
    >>> S = np.column_stack([rng.laplace(size=2000), rng.uniform(size=2000)])
    >>> X = S @ [[1.0, 2.0], [1.0, -0.5]]
    >>> ica = ICA(random_state=0).fit(X)
    >>> ica.densities_
    ['laplace', 'subgaussian']
    >>> correlation = np.corrcoef(ica.transform(X).T, S.T)[:2, 2:]
    >>> bool((np.abs(np.diag(correlation)) > 0.99).all())
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "density": [StrOptions({"auto", "adaptive", "logistic", "laplace", "student"})],
        "objective": [StrOptions({"likelihood", "score_matching"})],
        "whiten": [
            StrOptions({"unit-variance", "arbitrary-variance"}),
            Options(bool, {False}),
        ],
        "whiten_solver": [StrOptions({"auto", "eigh", "svd"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "w_init": ["array-like", None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components=None,
        *,
        density="auto",
        objective="likelihood",
        whiten="unit-variance",
        whiten_solver="auto",
        max_iter=200,
        tol=5e-3,
        w_init=None,
        random_state=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.density = density
        self.objective = objective
        self.whiten = whiten
        self.whiten_solver = whiten_solver
        self.max_iter = max_iter
        self.tol = tol
        self.w_init = w_init
        self.random_state = random_state
        self.verbose = verbose

    # ---- Training ----

    @undo_if_nothing_learned
    def fit(self, X, y=None):
        """Fit the model to the data X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : ICA
            The fitted model.

        Raises
        ------
        ValueError
            If X holds NaN or infinity, has fewer than two rows, does not vary, spreads
            too little or too much for its dtype or, with ``whiten=False``, does not
            have full rank; if a parameter is not allowed, or `density` does not go with
            `objective`; or if `w_init` has another shape than it should, or not full
            rank.

        TypeError
            If X is sparse, or holds dates or times.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` iterations do not reach `tol`.

        UserWarning
            If `n_components` is more than the data have directions, and set to their
            number, or ignored because of ``whiten=False``.
        """
        check_parameters(self)
        many = self.objective == "score_matching"
        if many and self._density() not in SMOOTH:
            raise ValueError(
                "objective='score_matching' takes density='logistic' or 'student', got "
                f"{self.density!r}: 'adaptive' needs a likelihood to choose by, and "
                "'laplace' has too sharp a tip."
            )
        X = check_floats(self, X, reset=True, ensure_min_samples=2)
        check_spread(X)
        work = len(X) * X.shape[1] ** 2
        with single_threaded_blas if work < LEAST_WORK else nullcontext():
            converged = self._fit(X, many)
        if not converged:
            warn(self._why_not_converged(many), ConvergenceWarning)
        return self

    def _why_not_converged(self, many):
        gradient = self.history_["gradient"][-1]
        ran_out = self.n_iter_ >= self.max_iter
        text = f"ICA did not converge in {self.n_iter_} iterations"
        if not ran_out:
            text = (
                f"ICA stopped after {self.n_iter_} iterations, as no step from there "
                f"gains anything, with a gradient of {gradient:.3g}"
            )
        # (Which is a number without a unit.)
        if many and gradient > DIVERGED and not ran_out:
            return text + (
                ". The objective of score matching has no lower bound where many "
                "values of a source are the same, for instance 0: take "
                "objective='likelihood'."
            )
        if not many and gradient > DIVERGED and "student" in self.densities_:
            return text + (
                ". The Student density has no maximum where most values of a source "
                "are the same, as where many rows are: take density='logistic'."
            )
        if ran_out:
            return text + "; increase max_iter or tol."
        return text + f" (tol={self.tol:g}): increase tol."

    def _fit(self, X, many):
        """Whiten X and find the sources; returns whether that converged."""
        if self.whiten is False:
            whitening, n_components = no_whitening(X, self.n_components, many)
        else:
            whitening, n_components = whitening_of(
                X, self.n_components, self.whiten_solver, many
            )
        Z = np.ascontiguousarray(X) if self.whiten is False else whitening.apply(X)
        W, names = self._start(n_components, Z.shape[1], whitening.unit)
        latest = State(W, names, np.nan, np.inf, False)
        history = {self._objective_name(): [], "gradient": []}

        def report(state):
            nonlocal latest
            latest = state
            self._note(history, state, whitening)

        try:
            self._optimise(Z, W, names, whitening, report)
        finally:  # Ctrl-C as well
            self._store(X.dtype, whitening, latest, history)
        return latest.converged

    def _density(self):
        """Return what "auto" stands for."""
        if self.density != "auto":
            return self.density
        return "adaptive" if self.objective == "likelihood" else "logistic"

    def _start(self, n_components, n_directions, unit):
        """Return the first unmixing matrix of data in this unit, and densities."""
        density = self._density()
        names = [ADAPTIVE[0] if density == "adaptive" else density] * n_components
        shape = (n_components, n_directions)
        if self.w_init is not None:
            with naming("w_init"):
                W = check_array(self.w_init, dtype=np.float64, input_name="w_init")
            if W.shape != shape:
                raise ValueError(
                    f"w_init has invalid shape {W.shape} -- should be {shape}."
                )
            if np.linalg.matrix_rank(W) < min(shape):
                raise ValueError("w_init must have full rank.")
            return W, names
        W = random_generator(self.random_state).normal(size=shape)
        if n_components == n_directions:
            W = np.eye(n_components) + FIRST_TURN * W
            rotation, triangle = linalg.qr(W)
            W = rotation * np.sign(np.diag(triangle))
        else:
            W /= linalg.norm(W, axis=1, keepdims=True)
        return W * (np.sqrt(DENSITIES[names[0]].variance) / unit), names

    def _optimise(self, Z, W, names, whitening, report):
        """Run the method for the objective."""
        how = {"max_iter": self.max_iter, "tol": self.tol}
        if self.objective == "score_matching":
            Z = Z.astype(np.float64, copy=False)  # line searches need the digits
            unit = whitening.unit
            minimise(Z, W, Sources(names), unit=unit, report=report, **how)
            return
        adaptive = self._density() == "adaptive"
        if self.whiten is not False:
            W, names = first_guess(Z, W, names, adaptive)
        elif self.w_init is None:
            white = linalg.inv(linalg.sqrtm(whitening.second))
            rows = Z @ white.astype(Z.dtype)
            W, names = first_guess(rows, W, names, adaptive)
            W = W @ white
        elif adaptive:
            W, chosen = choose(Z, W, Sources(names))
            names = names if chosen is None else chosen.names
        for state in maximise(Z, W, names, adaptive=adaptive, **how):
            report(state)

    def _objective_name(self):
        likelihood = self.objective == "likelihood"
        return "log_likelihood" if likelihood else "score_matching"

    def _note(self, history, state, whitening):
        """Add an iteration to the history, and print it if asked to."""
        name, title, value = self._objective_name(), "score matching", state.loss
        if self.objective == "likelihood":
            title = "log-likelihood"
            value = whitening.log_det + whitening.log_density_outside() - state.loss
        history[name].append(float(value))
        history["gradient"].append(state.slope)
        if self.verbose:
            text = f"{title} = {value:.6f}, gradient = {state.slope:.2e}"
            print_iteration(type(self).__name__, len(history[name]), text)

    def _store(self, dtype, whitening, state, history):
        """Set the fitted attributes: order, signs and scales are made definite."""
        W, names, deviations = in_order(state.W, state.names, whitening)
        scale = np.ones(len(W))
        if self.whiten == "unit-variance":
            scale = 1 / deviations
        components = scale[:, np.newaxis] * W @ whitening.forward
        # (Of more components than features, scales decide what is nearest.)
        mixing = whitening.backward @ np.linalg.pinv(scale[:, np.newaxis] * W)
        self.mixing_ = mixing.astype(dtype)
        self.source_scale_ = scale.astype(dtype)
        self.densities_ = names
        self.noise_variance_ = whitening.noise_variance
        for name, value in [
            ("mean_", whitening.mean),
            ("whitening_", whitening.forward),
        ]:
            if self.whiten is not False:
                setattr(self, name, value.astype(dtype))
            elif hasattr(self, name):  # of an earlier fit
                delattr(self, name)
        # An interrupt may fall between two entries.
        self.n_iter_ = min(map(len, history.values()))
        self.history_ = {name: v[: self.n_iter_] for name, v in history.items()}
        self._n_directions = len(whitening.forward)
        # Every fit begins the sequence of draws anew.
        self._begin_draws()
        self.components_ = components.astype(dtype)

    # ---- Use ----

    def transform(self, X):
        """Recover the sources from X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        S : ndarray of shape (n_samples, n_components)
            Sources, ``(X - mean_) @ components_.T``. With more components than
            features these are responses of filters, which depend on one another.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        ValueError
            If X has other features than in the fit (their number or their names), or
            holds NaN or infinity.

        TypeError
            If X is sparse, or holds dates or times.
        """
        check_is_fitted(self)
        X = check_floats(self, X)
        return (X - self._mean(X.dtype)) @ self.components_.T.astype(X.dtype)

    def inverse_transform(self, X):
        """Mix sources to data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Sources.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            Data, ``X @ mixing_.T + mean_``. With fewer components than features this
            is the mean of the data with these sources; with more, the data whose
            `transform` is nearest to X in the sense of least squares.

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
        X = check_latent(X, len(self.components_), "components")
        return X @ self.mixing_.T.astype(X.dtype) + self._mean(X.dtype)

    def energy(self, X):
        """Compute the energy of X, its negative log-density without the normaliser.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        energy : ndarray of shape (n_samples,)
            ``-sum_i log p_i(y_i)`` in nats, of sources y at the standard scale of
            their densities; and ``|r|^2 / (2 noise_variance_)`` of what is left over
            where there are fewer components than features.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.
        """
        check_is_fitted(self)
        X = check_floats(self, X)
        sources, filters = Sources(self.densities_), self._filters()
        mean, mixing = self._mean(np.float64), self.mixing_.astype(np.float64)
        energy = np.empty(len(X))
        for batch in gen_batches(len(X), N_ROWS):
            centred = X[batch].astype(np.float64) - mean
            Y = centred @ filters.T
            energy[batch] = sources.evaluate(Y)[0].sum(axis=1)
            if self.noise_variance_ > 0:
                rest = centred - (Y * self.source_scale_) @ mixing.T
                square = np.einsum("ij,ij->i", rest, rest)
                energy[batch] += square / (2 * self.noise_variance_)
        return energy

    @available_if(_is_normalised)
    def score_samples(self, X):
        """Compute the log-likelihood of each row of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            ``log p(x)`` in nats, of data on their original scale.

        Raises
        ------
        AttributeError
            If there are more components than the data of the fit had directions: then
            there is no such method, since the density has no known normaliser.

        ValueError
            As in `transform`; or if there are fewer components than features, and the
            data of the fit had no variance outside their space: then there is no
            density.

        NotFittedError, TypeError
            As in `transform`.
        """
        check_is_fitted(self)
        log_norm = self._log_norm()
        return -self.energy(X) - log_norm

    @available_if(_is_normalised)
    def score(self, X, y=None):
        """Compute the mean log-likelihood of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        score : float
            Mean of `score_samples`, in nats a row.

        Raises
        ------
        AttributeError, ValueError, NotFittedError, TypeError
            As in `score_samples`.
        """
        return float(self.score_samples(X).mean())

    @available_if(_is_normalised)
    def sample(self, n_samples=1, random_state=None):
        """Draw samples from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of samples.

        random_state : int, RandomState instance or None, default=None
            Seeds the draws. None goes on with a sequence that the `random_state` of
            the estimator determines.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Independent draws.

        Raises
        ------
        AttributeError
            As in `score_samples`.

        NotFittedError
            If the model is not fitted.

        ValueError
            If `n_samples` is less than 1, or `random_state` is not allowed.

        TypeError
            If `n_samples` is no integer.
        """
        check_is_fitted(self)
        n_samples = check_count(n_samples, "n_samples", least=1)
        rng = self._generator(random_state)
        sources = Sources(self.densities_).draw(n_samples, rng) * self.source_scale_
        mixing, mean = self.mixing_.astype(np.float64), self._mean(np.float64)
        components = self.components_.astype(np.float64)
        X = np.empty((n_samples, len(mixing)), self.components_.dtype)
        for rows in row_blocks(*X.shape):  # Ctrl-C is heard between them
            part = sources[rows] @ mixing.T + mean
            if self.noise_variance_ > 0:
                noise = rng.normal(scale=np.sqrt(self.noise_variance_), size=part.shape)
                part += noise - noise @ components.T @ mixing.T
            X[rows] = part
        return X

    def _mean(self, dtype):
        """Mean of the data as the model takes it."""
        mean = getattr(self, "mean_", None)
        return np.zeros(1, dtype) if mean is None else mean.astype(dtype)

    def _filters(self):
        """Maps data to sources at the standard scale of their densities."""
        return self.components_.astype(np.float64) / self.source_scale_[:, np.newaxis]

    def _log_norm(self):
        """Return the log of the integral of exp(-energy)."""
        n_outside = self.n_features_in_ - len(self.components_)
        if n_outside and not self.noise_variance_ > 0:
            raise ValueError(
                "The data had no variance outside the space of their "
                f"{len(self.components_)} components, so that no density of all "
                f"{self.n_features_in_} features exists; choose fewer components, or "
                "leave out features that depend on the others."
            )
        volume = -np.log(linalg.svdvals(self._filters())).sum()
        return volume + n_outside / 2 * np.log(
            2 * np.pi * (self.noise_variance_ or 1.0)
        )

    def _check_restored(self):
        k, n_features = len(self.components_), self.n_features_in_
        wanted = {"components_": (k, n_features), "mixing_": (n_features, k)}
        wanted |= {"source_scale_": (k,), "densities_": (k,)}
        if hasattr(self, "mean_"):
            wanted["mean_"] = (n_features,)
        check_restored(self, wanted)
