"""Imputation of missing values by restricted Boltzmann machines."""

from copy import deepcopy
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import check_is_fitted

from .._keeping import undo_if_nothing_learned
from .._parameters import Interval, check_parameters
from .._training import epochs_of
from .._validation import (
    check_choice,
    check_table,
    input_names,
    is_nan,
    random_generator,
    with_missing,
)
from ..samplers._draws import IMPUTING_METHODS
from ._columns import Columns, owners_of, part_of
from ._defaults import epochs_as_rows_allow
from ._structure import as_made
from .rbm import RBM

# Learning rates where none is given: of most columns, of real ones, and of counts,
# which as many epochs at a higher one drive to infinity.
RATES = 0.05, 0.05, 0.006
# Epochs where no number is given: at least, at most, and of how many rows these are.
EPOCHS = 100, 1500, 30
# Rows that a feature is to have for so many epochs. With fewer there are fewer epochs,
# but not fewer than the second number.
ROWS_A_FEATURE, LEAST_EPOCHS = 30, 30


class RBMImputer(TransformerMixin, BaseEstimator):
    """Imputation of missing values by a restricted Boltzmann machine.

    An `RBM` with a visible unit for each feature (or category) is fitted to the rows as
    they are, with what is missing in them as latent variables; then whatever is missing
    in a row is filled in given all that is there. It is one joint distribution of real
    features, counts, bits and categories.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units; of categorical ones, the number of columns.

    visible : str, Unit or list of (columns, str or Unit), default="gaussian"
        What the features are, as in `RBM`: all of one kind, or pairs that name every
        column once, such as ``[(slice(0, 5), "gaussian"), ([5, 6], "categorical")]``.
        Features that are categories must hold codes 0, 1, ..., as
        `sklearn.preprocessing.OrdinalEncoder` makes them (it leaves NaN alone).

    hidden : str or Unit, default="bernoulli"
        What the hidden units are, as in `RBM`.

    missing_values : int or float, default=np.nan
        What stands for a missing value. The ``pandas.NA`` of a data frame counts
        as `np.nan`.

    add_indicator : bool, default=False
        Whether to add columns that tell what was missing, as those of
        `sklearn.impute.MissingIndicator`.

    keep_empty_features : bool, default=False
        Whether features of which `fit` saw no value are kept, filled with 0, or
        dropped.

    sample_posterior : bool, default=False
        Whether to fill in a joint draw from the conditional distribution of what is
        missing in a row rather than conditional means (for categories, the likeliest
        one).

    n_gibbs_steps : int, default=200
        Gibbs steps of a chain of every row, the first half of them a warm-up, where
        sampling is needed.

    learning_rate : float or None, default=None
        Size of a step along the gradient of the mean log-likelihood (in nats) of
        a minibatch, at first; it falls linearly to 0. None means 0.05, but for counts
        ("poisson") 0.006; if one of them has a mean above 10, 0.06 divided by the
        largest mean, which counts more with more hidden units, as in `RBM`; and less
        with hidden units that have no bounds, as there.

    batch_size : int, default=10
        Number of rows in a minibatch.

    n_iter : int or None, default=None
        Number of epochs: passes over the training data. None means 100, and of fewer
        than 450 rows so many that training sees 45 000; in proportion fewer where there
        are fewer than 30 rows a feature, but no fewer than 30.

    n_chains : int or None, default=100
        Number of persistent chains of the training; None is what it means in `RBM`.

    weight_decay : float, default=0.01
        Strength of the L2 penalty on the weights.

    random_state : int, RandomState instance or None, default=None
        Seeds the fit and all sampling. An int gives the same imputation bit for
        bit, on any number of threads.

    verbose : int, default=0
        If not 0, print a line an epoch. Never changes the model.

    Attributes
    ----------
    rbm_ : RBM or None
        The fitted model of the features that are not empty; None if all are.

    indicator_ : MissingIndicator or None
        What adds the columns that tell what was missing.

    n_iter_ : int
        Number of epochs.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    See Also
    --------
    RBM : The model.
    sklearn.impute.IterativeImputer : Imputation by regressions of every feature on
        the others.

    Notes
    -----
    `transform` gives the same result at every call; `impute` gives several draws from
    one fit, for multiple imputation. Conditional means are exact, every row by itself,
    if the hidden units have at most 2^12 states (twelve Bernoulli units), or of rows
    that lack no more than eight values, all bits; otherwise they are means over a Gibbs
    chain of each row. Chains do not exchange anything, but take their random bits by
    the place of the row among those with missing values: in other company the same row
    has the same conditional distribution and another draw from it.

    Observed values are left as they are. Real features that had a single value in `fit`
    get this value, also in draws. A fit takes no `sample_weight`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import RBMImputer
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, 200)
    >>> X = np.column_stack([kind, 4 * kind + rng.normal(size=200)])
    >>> X[0, 0], X[1, 1] = np.nan, np.nan
    >>> visible = [([0], "categorical"), ([1], "gaussian")]
    >>> imputer = RBMImputer(visible=visible, random_state=0)
    >>> filled = imputer.fit_transform(X)
    >>> bool(filled[0, 0] == kind[0])
    True
    >>> bool(abs(filled[1, 1] - 4 * kind[1]) < 1)
    True
    """

    _parameter_constraints: dict = {
        **{
            name: RBM._parameter_constraints[name]
            for name in (
                "n_components",
                "visible",
                "hidden",
                "batch_size",
                "n_chains",
                "weight_decay",
                "random_state",
                "verbose",
            )
        },
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "n_iter": [Interval(Integral, 0, None, closed="left"), None],
        "missing_values": [Real],
        "add_indicator": ["boolean"],
        "keep_empty_features": ["boolean"],
        "sample_posterior": ["boolean"],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components=256,
        *,
        visible="gaussian",
        hidden="bernoulli",
        missing_values=np.nan,
        add_indicator=False,
        keep_empty_features=False,
        sample_posterior=False,
        n_gibbs_steps=200,
        learning_rate=None,
        batch_size=10,
        n_iter=None,
        n_chains=100,
        weight_decay=0.01,
        random_state=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.missing_values = missing_values
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.sample_posterior = sample_posterior
        self.n_gibbs_steps = n_gibbs_steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.n_chains = n_chains
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.verbose = verbose

    @undo_if_nothing_learned
    def fit(self, X, y=None):
        """Fit the model to the values of X that are there.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data with missing values.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : object
            The fitted imputer.

        Raises
        ------
        ValueError
            If parameters are not allowed, or do not fit each other or the data; X has
            values that are neither finite nor missing, none that are not missing
            (unless `keep_empty_features`), or others than codes in columns of codes; of
            a block of categories a part is missing; or training diverges, which leaves
            the imputer as it was.
        TypeError
            If X is sparse, or holds dates or times.

        Warns
        -----
        UserWarning
            If X has values that the visible units cannot represent, or blocks of
            categories that do not sum to 1.
        ConvergenceWarning
            If over 5 % of the hidden units, Bernoulli ones, are dead or saturated, or
            none tells rows apart; or if counts can grow without bounds.
        """
        check_parameters(self)
        X = check_table(self, X, self.missing_values, reset=True)
        names = getattr(self, "feature_names_in_", None)
        columns = Columns(self.visible, X, names)
        columns.check(self, X, quiet=True)  # the model warns of values
        missing = np.isnan(X)
        empty = missing.all(axis=0)
        if empty.all() and not self.keep_empty_features:
            raise ValueError(
                "Every value of X is missing; RBMImputer needs at least one feature "
                "with values, or keep_empty_features=True."
            )
        rng = random_generator(self.random_state)
        seeds = rng.randint(0, 2**31 - 1, size=2)
        if empty.all():
            # There is nothing to learn, and nothing that a model would fill in.
            self._store(None, columns, empty, int(seeds[1]), X)
            return self
        X_kept = np.ascontiguousarray(X[:, ~empty])
        specs = _specs(self.visible, ~empty, names)
        rbm = self._new_rbm(specs, X_kept.shape, int(seeds[0]))
        try:
            rbm.fit(X_kept)
        finally:
            # Also when interrupted: what has been learned is kept.
            if hasattr(rbm, "components_"):
                # That of clones, too, which otherwise have the rates of `RBM`; with
                # counts there is no one rate.
                if np.all(rbm._rate_shares() == 1):
                    rbm.learning_rate = rbm._rate()
                self._store(rbm, columns, empty, int(seeds[1]), X)
        return self

    def _new_rbm(self, visible, shape, seed):
        """Return the model that is to learn the features which are not empty."""
        rbm = RBM(
            self.n_components,
            visible=visible,
            hidden=self.hidden,
            learning_rate=self.learning_rate,
            learning_rate_schedule="linear",
            batch_size=self.batch_size,
            n_iter=self._n_epochs(shape),
            n_chains=self.n_chains,
            weight_decay=self.weight_decay,
            missing="latent",
            random_state=seed,
            verbose=self.verbose,
        )
        # What is said of it is said of the imputer, which has rates of its own.
        rbm._title, rbm._default_rates = type(self).__name__, RATES
        return rbm

    def _n_epochs(self, shape):
        """Epochs of the training on a table of this shape."""
        if self.n_iter is not None:
            return self.n_iter
        n_epochs = epochs_of(None, shape[0], *EPOCHS)
        return max(LEAST_EPOCHS, epochs_as_rows_allow(n_epochs, shape, ROWS_A_FEATURE))

    def _store(self, rbm, columns, empty, seed, X):
        self.n_iter_ = 0 if rbm is None else rbm.n_iter_
        self._made = {"visible": deepcopy(self.visible)}
        self._n_categories, self._empty, self._seed = columns.n_categories, empty, seed
        # A real feature that does not vary has no scale in which its noise is small.
        X_kept, first = X[:, ~empty], np.cumsum(columns.sizes) - columns.sizes
        self._constants = np.nanmin(X_kept, axis=0)
        self._still = columns.learned[first][~empty]
        self._still &= np.nanmax(X_kept, axis=0) == self._constants
        self.indicator_ = None
        if self.add_indicator:
            self.indicator_ = MissingIndicator(error_on_new=False).fit(X)
        self.rbm_ = rbm

    def transform(self, X):
        """Fill in missing values, the same ones at every call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data with missing values.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features_out)
            The data without missing values, and without features that were empty
            in `fit` (unless they are kept), and the columns of the indicator.

        Raises
        ------
        NotFittedError
            If the imputer has not been fitted.
        ValueError
            If X has other features than in `fit`, values that are neither finite nor
            missing, or other codes than in `fit`; or of a block of categories a part is
            missing.
        TypeError
            If X is sparse, or holds dates or times.

        Warns
        -----
        UserWarning
            Where values are sampled, if rows with missing ones have others that the
            visible units cannot represent.
        """
        check_is_fitted(self)
        method = "sample" if self.sample_posterior else "mean"
        X, filled = self._filled(X, method, self._seed)
        if self.indicator_ is None:
            return filled
        # (Global configuration may have it give a table.)
        told = np.asarray(self.indicator_.transform(X), X.dtype)
        return np.hstack([filled, told])

    def impute(self, X, *, mask=None, method="mean", random_state=None):
        """Fill in missing values, by draws that can be others at every call.

        So one fit gives the tables of a multiple imputation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data with missing values.

        mask : array-like of bool of shape (n_samples, n_features) or \
                (n_features,), default=None
            Further values that are taken for missing.

        method : {"mean", "sample"}, default="mean"
            "mean" fills in conditional means (for categories, the likeliest one; means
            of chains where they are not exact), "sample" a joint draw from the
            conditional distribution.

        random_state : int, RandomState instance or None, default=None
            Seeds what is sampled. None goes on with the model's own random sequence.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data without missing values, and without features that were empty
            in `fit` (unless they are kept); never with the columns of the indicator.

        Raises
        ------
        NotFittedError
            If the imputer has not been fitted.
        ValueError
            As in `transform`, or if `mask` is not of bool, of another shape or of other
            columns, or `method` or `random_state` is not allowed.
        TypeError
            If X is sparse, or holds dates or times.

        Warns
        -----
        UserWarning
            As in `transform`.
        """
        check_is_fitted(self)
        check_choice(method, "method", IMPUTING_METHODS)
        random_generator(random_state)  # refuses what is none, whether it is needed
        return self._filled(X, method, random_state, mask)[1]

    def _filled(self, X, method, random_state, mask=None):
        """The data with NaN for what is missing, and with what is filled in."""
        X = with_missing(self, check_table(self, X, self.missing_values), mask)
        missing, kept = np.isnan(X), ~self._empty
        names = getattr(self, "feature_names_in_", None)
        columns = Columns(as_made(self, "visible"), X, names, self._n_categories)
        columns.check(self, np.where(kept, X, np.nan), quiet=True)
        filled = np.where(missing, X.dtype.type(0), X)
        part = np.ascontiguousarray(X[:, kept])
        filled[:, kept] = self._fill(part, method, random_state)
        return X, filled if self.keep_empty_features else filled[:, kept]

    def _fill(self, X, method, random_state):
        """Fill in missing values of the features that the model has."""
        missing = np.isnan(X)
        rows = np.flatnonzero(missing.any(axis=1))
        if not len(rows):
            return X
        part, columns = X[rows], self.rbm_._columns()
        answer = self.rbm_._fill_in(
            columns.encode(part),
            np.repeat(missing[rows], columns.sizes, axis=1),
            self.n_gibbs_steps,
            method,
            random_state,
        )
        answer[:, self._still] = self._constants[self._still]
        filled = X.copy()
        filled[rows] = np.where(missing[rows], answer, part)
        return filled

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the features; None means those seen in `fit`, or else
            ``["x0", "x1", ...]``.

        Returns
        -------
        names : ndarray of str
            Names of the features, and for every column of the indicator the name of
            a feature after ``missingindicator_``.

        Raises
        ------
        NotFittedError
            If the imputer has not been fitted.
        ValueError
            If `input_features` are not as many as in `fit`, or have other names.
        """
        check_is_fitted(self)
        names = input_names(self, input_features)
        kept = names if self.keep_empty_features else names[~self._empty]
        if self.indicator_ is None:
            return kept
        return np.concatenate([kept, self.indicator_.get_feature_names_out(names)])

    def __sklearn_is_fitted__(self):
        return hasattr(self, "rbm_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = is_nan(self.missing_values)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _specs(visible, kept, names):
    """What the columns that are kept hold, by their new numbers."""
    if isinstance(visible, str):
        return visible
    specs, owner = owners_of(visible, len(kept), names)
    own = [owner == number for number in range(len(specs))]
    return [
        (np.flatnonzero(where[kept]).tolist(), part_of(unit, kept[where]))
        for unit, where in zip(specs, own, strict=True)
        if where[kept].any()
    ]
