"""Sparse coding: a dictionary whose atoms rows are made of, a few at a time."""

import time
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted

from .._callbacks import CallbackSupportMixin, begin_fit, with_callbacks
from .._keeping import undo_if_nothing_learned
from .._parameters import Interval, StrOptions, check_parameters
from .._transformer import Transformer
from .._validation import (
    FLOATS,
    check_floats,
    check_latent,
    check_restored,
    naming,
    random_key,
    refuse_too_large,
)
from .._warning import warn
from ..monitoring import print_iteration
from ._dictionary import (
    Coder,
    Coding,
    Learner,
    calls_for,
    codes_times,
    first_atoms,
    learn_from_all,
    learn_from_part,
    learn_in_batches,
    unit_rows,
)
from ._fits import check_same_components

# With batch_size="auto" all rows are coded before atoms move, if there are no more than
# so many, with no more than so many numbers in their codes. (Codes then begin as they
# were in the pass before, which pursuits cannot do.)
MOST_AT_ONCE, MOST_NUMBERS = 50_000, 10_000_000
# Otherwise minibatches have so many rows.
MINIBATCH = 256

# Codes, or sums of the squares (in float64) of larger numbers, may be infinite.
LARGEST = {"float64": 1e140, "float32": 1e30}

# Passes over minibatches in a row that a fit without progress goes on for.
PATIENCE = 3


class SparseCoding(CallbackSupportMixin, Transformer):
    """Sparse coding with a learned dictionary.

    The model: a row is a sum of atoms with sparse weights, and noise::

        x = h D + noise,  noise ~ N(0, I / (2 beta)),  p(h_j) ∝ exp(-alpha |h_j|),

    with atoms (rows of D, `components_`) of unit length. The code of a row is its
    most probable h, which minimises the objective (in nats, up to a constant)::

        alpha |h|_1 + beta |x - h D|^2,

    and the dictionary is learned by minimising the mean of that over codes and atoms
    in turn. With the default ``beta=0.5`` this is the problem of
    `sklearn.decomposition.DictionaryLearning` and `MiniBatchDictionaryLearning`,
    with the same `alpha`; in general their `alpha` is ``alpha / (2 * beta)``.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of atoms. None means as many as there are features.

    alpha : float, default=1.0
        Rate of the Laplace distribution of the codes (often called lambda): the
        weight of the L1 norm.

    beta : float, default=0.5
        Half the precision of the Gaussian noise: the weight of the squared error.

    max_iter : int, default=1000
        Largest number of passes over the data.

    algorithm : {"lasso_cd", "omp"}, default="lasso_cd"
        How rows are coded, in `fit` and in `transform`:

        - "lasso_cd": the minimum of the objective, by coordinate descent;
        - "omp": at most `n_nonzero_coefs` atoms, chosen by orthogonal matching
          pursuit (`sklearn.linear_model.orthogonal_mp_gram`). The objective is
          then the squared error alone, times beta.

    n_nonzero_coefs : int or None, default=None
        Atoms of a row with ``algorithm="omp"``. None means a tenth of the number of
        features, at least 1.

    batch_size : int, None or "auto", default="auto"
        Rows in each minibatch. None means all rows: the codes of all rows are kept,
        and the objective falls with every pass. "auto" means None for up to 50 000
        rows with up to 10 million numbers in their codes, and ``algorithm="lasso_cd"``:
        of ten thousand rows it takes less than half the time. Otherwise, and in
        `partial_fit`, it means 256.

    dict_init : array-like of shape (n_components, n_features) or None, default=None
        Atoms to start from; they are brought to unit length. None means rows of
        the data, chosen at random.

    positive_code : bool, default=False
        Whether codes are not negative. Not with ``algorithm="omp"``.

    positive_dict : bool, default=False
        Whether atoms have no negative entries.

    transform_max_iter : int, default=1000
        Largest number of sweeps of coordinate descent for a row.

    transform_tol : float, default=1e-8
        Coordinate descent stops when the duality gap of a row's objective is less
        than this times the objective of a code of zeros, doubled: the meaning (and
        value) of `tol` in `sklearn.decomposition.sparse_encode`.

    tol : float, default=1e-4
        `fit` stops when a pass lowers the objective by less than this, relative to
        the objective; with minibatches, whose objectives go up and down, when the best
        of three passes does not lower that of all before by more. 0 means that it never
        does.

    verbose : int, default=0
        If not 0, print a line a pass. Never changes the model.

    random_state : int, RandomState instance or None, default=None
        Determines the first atoms, the order of the rows and which rows take the
        place of atoms that nothing uses.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The dictionary: atoms of unit length.

    n_iter_ : int
        Number of passes over the data (or calls of `partial_fit`) since the atoms
        were initialised.

    history_ : dict of list
        For every pass: "objective" (mean of a row, in nats, coded by the dictionary
        as it was when the row's turn came), "n_nonzero" (mean number of atoms of a
        row), "seconds".

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    See Also
    --------
    sklearn.decomposition.DictionaryLearning : The same objective, all rows at once.
    sklearn.decomposition.MiniBatchDictionaryLearning : The same, by minibatches.

    Notes
    -----
    Data are not centred. The likelihood of a row is an integral over all codes that
    has no closed form, so there is no `score_samples`; `objective` belongs to the
    most probable code alone. It compares dictionaries, but says nothing of which
    `alpha` or `beta` is better.

    Codes and dictionary are the same for any number of threads, bit for bit, with
    ``algorithm="lasso_cd"``. Sparse data give the same result as the dense array; they
    are made dense a few rows at a time. A fit takes no `sample_weight`.

    References
    ----------
    .. [1] B. A. Olshausen, D. J. Field, "Emergence of simple-cell receptive field
       properties by learning a sparse code for natural images", Nature 381, 1996.
    .. [2] J. Mairal, F. Bach, J. Ponce, G. Sapiro, "Online learning for matrix
       factorization and sparse coding", JMLR 11, 2010.
    .. [3] H. Lee, A. Battle, R. Raina, A. Y. Ng, "Efficient sparse coding
       algorithms", NIPS 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_ebm import SparseCoding
    >>> X = load_digits().data / 16
    >>> model = SparseCoding(100, alpha=0.5, max_iter=5, random_state=0).fit(X)
    >>> codes = model.transform(X)
    >>> codes.shape
    (1797, 100)
    >>> bool((codes != 0).mean() < 0.2)
    True
    """

    _takes_sparse = True
    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "algorithm": [StrOptions({"lasso_cd", "omp"})],
        "n_nonzero_coefs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "dict_init": ["array-like", None],
        "positive_code": ["boolean"],
        "positive_dict": ["boolean"],
        "transform_max_iter": [Interval(Integral, 1, None, closed="left")],
        "transform_tol": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=None,
        *,
        alpha=1.0,
        beta=0.5,
        max_iter=1000,
        algorithm="lasso_cd",
        n_nonzero_coefs=None,
        batch_size="auto",
        dict_init=None,
        positive_code=False,
        positive_dict=False,
        transform_max_iter=1000,
        transform_tol=1e-8,
        tol=1e-4,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.alpha = alpha
        self.beta = beta
        self.max_iter = max_iter
        self.algorithm = algorithm
        self.n_nonzero_coefs = n_nonzero_coefs
        self.batch_size = batch_size
        self.dict_init = dict_init
        self.positive_code = positive_code
        self.positive_dict = positive_dict
        self.transform_max_iter = transform_max_iter
        self.transform_tol = transform_tol
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state

    # ---- Training ----

    @undo_if_nothing_learned
    @with_callbacks
    def fit(self, X, y=None):
        """Learn a dictionary from the data X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : SparseCoding
            The fitted model.

        Raises
        ------
        ValueError
            If X holds NaN, infinity or values beyond 1e140 (float32: 1e30); if a
            parameter is not allowed, `positive_code` or more `n_nonzero_coefs` than
            atoms meet ``algorithm="omp"``, or `dict_init` has another shape than it
            should, atoms of zeros or, with `positive_dict`, negative entries.

        TypeError
            If X holds dates or times.

        Warns
        -----
        ConvergenceWarning
            If in the end no row uses any atom: `alpha` is too large for rows as short
            as those of X, as a rule.
        """
        given = X, y
        X = self._check(X, reset=True)
        n_rows = X.shape[0]
        task = begin_fit(self, self.max_iter, *given)
        self._initialise(X)
        learner = self._learner(n_rows)
        batch_size, passes = self._rows_at_once(n_rows), []
        if batch_size is None:
            codes, patience = np.zeros((n_rows, len(self.components_)), X.dtype), 1
        else:
            patience = PATIENCE
        try:
            for _ in range(self.max_iter):
                part = task.part("pass")
                begin = time.perf_counter()
                if batch_size is None:
                    sums = learn_from_all(learner, X, codes)
                else:
                    sums = learn_in_batches(learner, X, batch_size)
                self._enter(passes, sums / n_rows, time.perf_counter() - begin)
                if part.end(lambda: _fitted(learner, passes)):
                    break
                if _has_settled(passes, self.tol, patience):
                    break
        finally:
            # Also when interrupted: what has been learned is kept.
            self._store(learner, passes)
        self._warn_of_unused_atoms(passes)
        task.end(dict)
        return self

    @undo_if_nothing_learned
    def partial_fit(self, X, y=None):
        """Learn from minibatches of a part of the data.

        Rows seen earlier count less, as the atoms have moved since they were coded:
        after n rows the first m of them weigh about (m / n)^3 of all.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, any number of rows; with ``batch_size=None`` they are one
            minibatch.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : SparseCoding
            The fitted model.

        Raises
        ------
        ValueError
            As in `fit`; or if X has other features than before (their number or their
            names), or `n_components` does not fit the dictionary that there is.

        TypeError
            If X holds dates or times.
        """
        first = not hasattr(self, "_state")
        X = self._check(X, reset=first)
        if first:
            self._initialise(X)
        X = X.astype(self.components_.dtype, copy=False)
        n_rows = X.shape[0]
        batch_size = MINIBATCH if self.batch_size == "auto" else self.batch_size
        batch_size = batch_size or n_rows
        learner = self._learner(min(batch_size, n_rows))
        passes = list(zip(*self.history_.values(), strict=True))
        begin = time.perf_counter()
        try:
            sums = learn_from_part(learner, X, batch_size)
            self._enter(passes, sums / n_rows, time.perf_counter() - begin)
        finally:
            self._store(learner, passes)
        return self

    def _check(self, X, reset):
        """Parameters and data of a fit."""
        check_parameters(self)
        if self.positive_code and self.algorithm == "omp":
            raise ValueError("positive_code=True does not go with algorithm='omp'.")
        X = self._check_rows(X, reset, None if reset else self.components_.dtype)
        n_atoms = self.n_components or X.shape[1]
        if not reset:
            check_same_components(self, n_atoms, len(self.components_))
        if self.algorithm == "omp" and (self.n_nonzero_coefs or 1) > n_atoms:
            raise ValueError(
                f"n_nonzero_coefs={self.n_nonzero_coefs} is more than there are "
                f"atoms, n_components={n_atoms}."
            )
        return X

    def _check_rows(self, X, reset, dtype=None):
        """Validate data, to be computed in a dtype: contiguous rows, or CSR."""
        X = check_floats(self, X, reset=reset, order="C", accept_sparse="csr")
        largest = float(max(X.max(), -X.min()))
        dtype = dtype or X.dtype
        refuse_too_large(largest, dtype, LARGEST[dtype.name])
        return X

    def _initialise(self, X):
        """First atoms, and no moments of the codes yet."""
        shape = (self.n_components or X.shape[1], X.shape[1])
        key = random_key(self.random_state)
        if self.dict_init is None:
            atoms = first_atoms(X, shape[0], key, self.positive_dict)
        else:
            atoms = self._given_atoms(shape)
        self._state = {
            "key": key,
            "n_steps": 0,
            "n_seen": 0,
            "squares": np.zeros((shape[0], shape[0])),
            "products": np.zeros(shape),
        }
        self.n_iter_, self.history_ = 0, _history([])
        self.components_ = atoms.astype(X.dtype)

    def _given_atoms(self, shape):
        """`dict_init` as atoms."""
        with naming("dict_init"):
            given = check_array(self.dict_init, dtype=FLOATS, input_name="dict_init")
        if given.shape != shape:
            raise ValueError(
                f"dict_init must be of shape (n_components, n_features) = {shape}, "
                f"got {given.shape}."
            )
        if self.positive_dict and (given < 0).any():
            raise ValueError("dict_init has negative entries, but positive_dict=True.")
        atoms = unit_rows(given)
        if len(atoms) < len(given):
            raise ValueError("dict_init has atoms of zeros.")
        return atoms

    def _rows_at_once(self, n_rows):
        """Rows in each minibatch of a fit; None if they are all."""
        if self.batch_size != "auto":
            return self.batch_size
        n_numbers = n_rows * len(self.components_)
        few = n_rows <= MOST_AT_ONCE and n_numbers <= MOST_NUMBERS
        return None if few and self.algorithm == "lasso_cd" else MINIBATCH

    def _learner(self, n_rows):
        return Learner(
            self.components_, self._state, self._coding(), self.positive_dict, n_rows
        )

    def _enter(self, passes, means, seconds):
        """Take note of a pass."""
        passes.append((*means.tolist(), seconds))
        if self.verbose:
            text = (
                f"objective = {means[0]:.6g}, atoms a row = {means[1]:.2f}, "
                f"time = {seconds:.2f}s"
            )
            print_iteration(type(self).__name__, len(passes), text)

    def _store(self, learner, passes):
        vars(self).update(_fitted(learner, passes))

    def _warn_of_unused_atoms(self, passes):
        """Warn if no row used an atom in the last pass."""
        objective, n_used, _ = passes[-1] if passes else (0, 0, 0)
        if n_used == 0 < objective:
            why = ""
            if self.positive_code:
                why = ", or they all point away from the rows (positive_code=True)"
            warn(
                f"No row uses an atom: alpha={self.alpha:g} is more than atoms are "
                f"worth to rows as short as those of X{why}. Lower alpha, or scale X.",
                ConvergenceWarning,
            )

    # ---- Use ----

    def transform(self, X):
        """Code rows by the dictionary.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to code.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_components)
            Weights of the atoms, most of them 0.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        ValueError
            If X has other features than in the fit (their number or their names), or
            holds NaN, infinity or values beyond 1e140 (float32: 1e30).

        TypeError
            If X holds dates or times.

        Warns
        -----
        ConvergenceWarning
            If `transform_max_iter` sweeps were not enough for some rows.

        RuntimeWarning
            With ``algorithm="omp"``, if the atoms of a row depend on one another, or it
            needs fewer than it may have.
        """
        return self._encode(X)[1]

    def inverse_transform(self, X):
        """Add up the atoms that codes name.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_components)
            Codes.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            ``X @ components_``.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        ValueError
            If X has another number of columns than there are atoms, or holds NaN or
            infinity.

        TypeError
            If X holds dates or times.
        """
        check_is_fitted(self)
        n_atoms = len(self.components_)
        codes = check_latent(X, n_atoms, "atoms", accept_sparse="csr", order="C")
        if sp.issparse(codes):
            return codes @ self.components_.astype(codes.dtype, copy=False)
        return codes_times(codes, self.components_)

    def objective(self, X):
        """Compute the objective of rows with their codes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to code.

        Returns
        -------
        objective : ndarray of shape (n_samples,)
            ``alpha |h|_1 + beta |x - h D|^2`` in nats, float64, for the code h that
            `transform` finds; with ``algorithm="omp"`` the second term alone. It
            is the negative log-density of row and code together, less the constant
            ``n_features / 2 log(pi / beta) + n_components log(2 / alpha)`` (with
            `positive_code`, ``log(1 / alpha)``): not a likelihood of the row.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.

        Warns
        -----
        ConvergenceWarning, RuntimeWarning
            As in `transform`.
        """
        X, codes = self._encode(X)
        components = self.components_.astype(X.dtype, copy=False)
        return self._coding().objectives(X, codes, components)

    def score(self, X, y=None):
        """Compute the negative mean of the objective.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to code.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        score : float
            ``-objective(X).mean()``. Compare models with the same `alpha`, `beta`
            and `algorithm` only: smaller penalties always have smaller objectives.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.

        Warns
        -----
        ConvergenceWarning, RuntimeWarning
            As in `transform`.
        """
        return -float(self.objective(X).mean())

    def _encode(self, X):
        """Return X, validated, and its codes."""
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        components = self.components_.astype(X.dtype, copy=False)
        n_rows = X.shape[0]
        coder = Coder(components, self._coding(), calls_for(n_rows))
        codes = coder.encode(X, np.zeros((n_rows, len(components)), dtype=X.dtype))
        if coder.n_left and self.algorithm == "omp":
            warn(
                f"Orthogonal matching pursuit ended prematurely for {coder.n_left} of "
                f"{n_rows} rows: they need no more atoms, or others depend on those "
                "that they have.",
                RuntimeWarning,
            )
        elif coder.n_left:
            warn(
                f"The codes of {coder.n_left} of {n_rows} rows have not converged: "
                f"increase transform_max_iter={self.transform_max_iter} or "
                f"transform_tol={self.transform_tol}.",
                ConvergenceWarning,
            )
        return X, codes

    def _coding(self):
        """Return how rows are coded."""
        n_nonzero = None
        if self.algorithm == "omp":
            n_nonzero = self.n_nonzero_coefs or max(1, self.n_features_in_ // 10)
            n_nonzero = min(n_nonzero, len(self.components_))
        return Coding(
            self.alpha,
            self.beta,
            self.positive_code,
            self.transform_tol,
            self.transform_max_iter,
            n_nonzero,
        )

    def _check_restored(self):
        n_atoms, n_features = self._state["products"].shape
        check_restored(self, {"components_": (n_atoms, n_features)})


def _history(passes):
    columns = zip(*passes, strict=True) if passes else [[]] * 3
    names = "objective", "n_nonzero", "seconds"
    return dict(zip(names, map(list, columns), strict=True))


def _fitted(learner, passes):
    """Return the attributes that a fit leaves after these passes."""
    return {
        "components_": learner.components(),
        "n_iter_": len(passes),
        "history_": _history(passes),
        "_state": learner.state(),
    }


def _has_settled(passes, tol, patience):
    """Whether the last passes lowered the objective by no more than tol, relatively."""
    if tol == 0 or len(passes) <= patience:
        return False
    objectives = [objective for objective, *_ in passes]
    before, now = min(objectives[:-patience]), min(objectives[-patience:])
    # (Also when there is nothing left to lower.)
    return before - now <= tol * now
