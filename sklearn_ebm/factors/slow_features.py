"""Slow feature analysis of sequences."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._keeping import undo_if_nothing_learned
from .._parameters import Interval, StrOptions, check_parameters
from .._transformer import Transformer
from .._validation import (
    check_floats,
    check_latent,
    check_restored,
    naming,
    or_more_digits,
)
from .._warning import warn
from ._profile import check_variances
from ._slowness import (
    BLOCK_SIZE,
    LEAST_VARIANCE,
    described,
    deviations_of,
    expand,
    first_state,
    slowest,
    with_frames,
)


def _is_linear(estimator):
    """Say why there is no inverse_transform otherwise."""
    if estimator._expansion != "linear":
        raise AttributeError(
            "inverse_transform exists for expansion='linear' only: products of "
            "features cannot be undone."
        )
    return True


class SlowFeatureAnalysis(Transformer):
    """Slow feature analysis (SFA).

    Finds the functions of the data that vary most slowly along the sequences: among
    all linear functions, or polynomials of degree 2, of zero mean and unit variance
    and uncorrelated with one another, those whose mean squared difference between
    successive frames is least [1]_. This is a generalised eigenproblem, solved in
    closed form.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of slow features. None means as many as the data have directions.

    expansion : {"linear", "quadratic"}, default="linear"
        What the slow features are linear in: the features, or the features less
        `origin_` and all products of these, in the order of
        `sklearn.preprocessing.PolynomialFeatures` without a constant.

    tol : float, default=1e-10
        Directions are left out if their variance, with the (expanded) features
        scaled to unit variance, is no more than this share of the largest. They are
        rounding errors of features that depend on one another, and whatever is slow
        in them means nothing.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_expanded)
        Maps centred, expanded data to the slow features, slowest first. The sign is
        that which makes the largest entry positive, features scaled to unit variance.

    slowness_ : ndarray of shape (n_components,)
        Mean squared difference of each slow feature between successive frames
        (Delta-value), ascending. A feature without memory has 2; a sine of period
        T frames about ``(2 pi / T)^2``.

    mean_ : ndarray of shape (n_expanded,)
        Mean of the expanded training data.

    origin_ : ndarray of shape (n_features,)
        What is subtracted from the features before they are multiplied: the mean of
        the data in `fit`, or in the first call of `partial_fit`. Which one does not
        matter, but for rounding. Only with ``expansion="quadratic"``.

    mixing_ : ndarray of shape (n_features, n_components)
        Maps slow features back to centred data. Only with ``expansion="linear"``.

    n_frames_ : int
        Number of frames seen.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    See Also
    --------
    ICA : Unmixes by independence rather than by slowness.
    sklearn.decomposition.PCA : Directions of large variance, whatever their order
        in time.

    Notes
    -----
    Sequences are rows one after another, `lengths` long; no difference is taken
    across their ends. In a pipeline with metadata routing, `lengths` is asked for by
    ``set_fit_request(lengths=True)``. (A search cannot: what it divides among
    folds has a value for every row.)

    Only moments are kept, so memory does not grow with the number of frames:
    (n_expanded, n_expanded) numbers, where a quadratic expansion has
    ``n_features * (n_features + 3) / 2`` features. (While there are fewer frames than
    expanded features, the frames are kept instead, and a fit takes time with the square
    of their number.) A fit takes no `sample_weight`.

    References
    ----------
    .. [1] L. Wiskott, T. J. Sejnowski, "Slow feature analysis: unsupervised learning
       of invariances", Neural Computation 14, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import SlowFeatureAnalysis
    >>> t = np.linspace(0, 4 * np.pi, 1000)
    >>> slow, fast = np.sin(t), np.sin(29 * t)
    >>> X = np.column_stack([slow + fast, slow - 2 * fast])
    >>> sfa = SlowFeatureAnalysis(n_components=1).fit(X)
    >>> y = sfa.transform(X)[:, 0]
    >>> bool(abs(np.corrcoef(y, slow)[0, 1]) > 0.99)
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "expansion": [StrOptions({"linear", "quadratic"})],
        "tol": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(self, n_components=None, *, expansion="linear", tol=1e-10):
        self.n_components = n_components
        self.expansion = expansion
        self.tol = tol

    # ---- Training ----

    @undo_if_nothing_learned
    def fit(self, X, y=None, *, lengths=None):
        """Fit the model to sequences.

        Parameters
        ----------
        X : array-like of shape (n_frames, n_features)
            Frames, sequences one after another.

        y : Ignored
            Not used, present for API consistency.

        lengths : array-like of int of shape (n_sequences,), default=None
            Lengths of the sequences, which sum to the number of frames. None means
            one sequence.

        Returns
        -------
        self : SlowFeatureAnalysis
            The fitted model.

        Raises
        ------
        ValueError
            If X holds NaN or infinity, has fewer than two frames, does not vary, or
            varies too much or too little for its dtype; if `lengths` are not positive
            integers that sum to the number of frames, or all of them are 1; or if a
            parameter is not allowed.

        TypeError
            If X is sparse, or holds dates or times.

        Warns
        -----
        UserWarning
            If `n_components` is more than the directions in which the data vary.
        """
        check_parameters(self)
        X = check_floats(self, X, reset=True, ensure_min_samples=2)
        lengths = check_lengths(lengths, len(X))
        rank = self._learn(None, X, lengths)
        if (self.n_components or 0) > rank:
            warn(
                f"n_components={self.n_components} is more than the {rank} directions "
                f"in which the data vary; there will be {rank} slow features.",
            )
        return self

    @undo_if_nothing_learned
    def partial_fit(self, X, y=None, *, lengths=None):
        """Go on with more sequences.

        The model is that of a `fit` to all sequences so far. Sequences do not go on
        from one call to the next: the last frame of a call and the first of the next
        one are not compared. While there are too few frames for `n_components`
        directions, there are fewer slow features.

        Parameters
        ----------
        X : array-like of shape (n_frames, n_features)
            Frames, sequences one after another.

        y : Ignored
            Not used, present for API consistency.

        lengths : array-like of int of shape (n_sequences,), default=None
            Lengths of the sequences, which sum to the number of frames. None means
            one sequence.

        Returns
        -------
        self : SlowFeatureAnalysis
            The fitted model.

        Raises
        ------
        ValueError
            As in `fit`, where it is all frames so far that have to be enough and to
            vary; or if X has other features than before (their number or their names),
            or `expansion` has changed.

        TypeError
            If X is sparse, or holds dates or times.
        """
        check_parameters(self)
        state = getattr(self, "_state", None)
        X = check_floats(self, X, reset=state is None)
        lengths = check_lengths(lengths, len(X))
        if state is not None and state["expansion"] != self.expansion:
            raise ValueError(
                f"partial_fit began with expansion={state['expansion']!r} and cannot "
                f"go on with {self.expansion!r}."
            )
        self._learn(state, X, lengths)
        return self

    def _learn(self, state, X, lengths):
        """Add frames to the state and solve; nothing changes if that fails."""
        if state is None:
            state = first_state(X, self.expansion)
        with np.errstate(over="ignore", invalid="ignore"):
            state = with_frames(state, X, lengths)
            data = described(state)
        if data.n_differences == 0:
            raise ValueError(
                "Slow features need a sequence of at least two frames, but all of "
                "lengths are 1."
            )
        check_variances(data.variances, np.float64)
        deviations = deviations_of(data, state["origin"])
        if not deviations.any():
            raise ValueError(
                "Slow features need data that vary, but all frames are equal, or so "
                f"close that no feature has a variance of {LEAST_VARIANCE:.1g}."
            )
        components, slowness, rank = slowest(
            data, deviations, self.n_components, self.tol
        )
        dtype = state["dtype"]
        with np.errstate(over="ignore"):
            weights, mean = components.astype(dtype), data.mean.astype(dtype)
        if not (np.isfinite(weights).all() and np.isfinite(mean).all()):
            raise ValueError(
                "Weights or means of slow features of X are beyond the numbers of "
                f"{dtype}. Scale X{or_more_digits('it', dtype)}."
            )
        self._state = state
        self.mean_, self.slowness_ = mean, slowness.astype(dtype)
        self.n_frames_ = data.n_frames
        for name in ("mixing_", "origin_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if state["expansion"] == "linear":
            self.mixing_ = data.covariances_with(components).astype(dtype)
        else:
            self.origin_ = state["origin"]
        self.components_ = weights
        return rank

    # ---- Use ----

    def transform(self, X):
        """Compute the slow features of frames.

        Parameters
        ----------
        X : array-like of shape (n_frames, n_features)
            Frames; each is transformed by itself.

        Returns
        -------
        Y : ndarray of shape (n_frames, n_components)
            Slow features, slowest first.

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
        mean, weights = self.mean_.astype(X.dtype), self.components_.T.astype(X.dtype)
        Y = np.empty((len(X), weights.shape[1]), X.dtype)
        for batch in gen_batches(len(X), max(1, BLOCK_SIZE // len(mean))):
            expanded = expand(X[batch], self._state["origin"]).astype(X.dtype)
            Y[batch] = (expanded - mean) @ weights
        return Y

    @available_if(_is_linear)
    def inverse_transform(self, X):
        """Map slow features to data.

        Parameters
        ----------
        X : array-like of shape (n_frames, n_components)
            Slow features.

        Returns
        -------
        X_original : ndarray of shape (n_frames, n_features)
            The best linear estimate of the data, in the sense of squared error; the
            data themselves if all slow features are kept.

        Raises
        ------
        AttributeError
            If `expansion` is not "linear": then there is no such method.

        NotFittedError
            If the model is not fitted.

        ValueError
            If X has another number of columns than there are slow features, or holds
            NaN or infinity.

        TypeError
            If X is sparse, or holds dates or times.
        """
        check_is_fitted(self)
        X = check_latent(X, len(self.components_), "slow features")
        return X @ self.mixing_.T.astype(X.dtype) + self.mean_.astype(X.dtype)

    @property
    def _expansion(self):
        # A fitted model stays what it was fitted to be.
        state = getattr(self, "_state", None)
        return self.expansion if state is None else state["expansion"]

    def _check_restored(self):
        wanted = (len(self.slowness_), len(self.mean_))
        check_restored(self, {"components_": wanted})


def check_lengths(lengths, n_frames):
    """Lengths of sequences as an array of int."""
    if lengths is None:
        return np.array([n_frames])
    with naming("lengths"):
        found = np.asarray(lengths)
    if found.ndim != 1 or found.dtype.kind not in "iu" or (found < 1).any():
        raise ValueError(
            f"lengths must be a list of positive integers, got {lengths!r}."
        )
    total = sum(found.tolist())  # of Python's integers, which do not overflow
    if total != n_frames:
        raise ValueError(
            f"lengths must sum to the number of frames, {n_frames}, but sum to {total}."
        )
    return found
