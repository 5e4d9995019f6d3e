"""Deep Boltzmann machines of several modalities."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._missing import fill_in_rounds, has_missing
from .._parameters import Interval, StrOptions
from .._validation import check_choice, check_rows, in_dense
from ..layered import blocks
from ..units import Mixed, Unit, in_words
from ._columns import all_bits, column_indices, places_of
from ._structure import as_made, sizes_in_words
from ._trainable_dbm import TrainableDBM


class MultimodalDBM(TrainableDBM):
    """Deep Boltzmann machine of several modalities, joined at the top.

    Every modality (the pixels of a picture and its tags, say) has a pathway of its
    own: some columns of the data as visible units, and hidden layers above them. A
    joint layer above the last layer of all pathways learns what they have in common
    [1]_. It is a `DBMTransformer` in which units of different pathways are not
    connected, and is trained like one.

    Parameters
    ----------
    modalities : list of (name, columns, unit, hidden_layer_sizes)
        One entry for every modality: its name; its columns (indices, a slice, a mask
        or names, as for `sklearn.compose.ColumnTransformer`); what they hold (as
        parameter `visible` of `RBM`, a str or Unit); and the numbers of units of the
        hidden layers of its pathway, from the bottom up, an int or a tuple, as many for
        every modality. Together they name all columns, each once.

    n_joint : int, default=256
        Number of units of the joint layer.

    learning_rate : float or None, default=None
        Size of a step along the gradient of the mean bound on the log-likelihood
        (in nats) of a minibatch. Long steps make the layers independent of each
        other, from which training does not come back. None means 0.05, 0.01
        with rectified features; and for counts 0.01, or less for large ones: as for
        `RBM`.

    batch_size : int, default=10
        Number of rows in a minibatch.

    n_iter : int or None, default=None
        Number of epochs: passes over the training data. None is 30 or, if there are
        "gaussian" columns, 120 of up to 1 000 rows, 120 000 / n of more, but at least
        30; and in proportion fewer, down to 30, below 10 rows a feature.

    verbose : int, default=0
        If not 0, print a line an epoch. Never changes the model.

    random_state : int, RandomState instance or None, default=None
        Seeds the initial weights, the order of the rows and all sampling. An int
        gives the same model bit for bit, on any number of threads.

    n_gibbs_steps : int or tuple of two int, default=1
        Gibbs sweeps of the chains, over all layers, for each minibatch. A pair
        ``(first, last)`` lets them grow evenly over the epochs of `fit`.

    n_chains : int or None, default=None
        Number of persistent chains; None means `batch_size`, but at least 100.

    n_mean_field_steps : int, default=25
        Mean-field steps, at most: each sets every hidden layer once.

    mean_field_tol : float, default=1e-3
        The steps end for a row when none of its means moves by more.

    pretrain_n_iter : int or None, default=None
        Epochs of greedy pretraining of each layer [1]_, which precedes the first epoch
        of `fit`; 0 leaves it out, and None is as for `n_iter`. As a layer of a deep
        machine has neighbours on both sides, its machine sees its inputs twice (the
        lowest from below, the highest from above).

    pretrain_learning_rate : float or None, default=None
        Learning rate of the pretraining, which can be larger. None means 0.1, but for
        the lowest layer 0.03 if there are "gaussian" columns, 0.01 if there are
        rectified ones and for counts, or less for large ones: means of units without
        an upper bound may grow without end at 0.1.

    momentum : float, default=0.0
        Share of the last step that is added to each step.

    weight_decay : float, default=0.0
        Factor of the L2 penalty ``weight_decay / 2 * sum(W ** 2)``.

    centering : bool, default=True
        Whether every layer is centred on its running mean in the gradient. The
        parameters stay those of the plain model.

    learning_rate_schedule : {"constant", "linear"}, default="linear"
        "linear" lets the learning rate fall to nothing over the epochs of `fit`.

    average : bool, default=True
        Whether the fitted parameters are the mean over the last epoch's minibatches.

    warm_start : bool, default=False
        Whether `fit` goes on from the last fit.

    standardize : bool, default=True
        Whether Gaussian columns are trained in standard deviations from their mean,
        not only less their mean.

    output : {"top", "all"}, default="top"
        Whether `transform` returns the means of the highest hidden layer or of all
        of them, from the bottom up.

    missing : {"raise", "latent"}, default="raise"
        Whether NaN in what is transformed is an error, or stands for a value that is
        not known. Training takes whole rows only.

    Attributes
    ----------
    components_ : list of ndarray of shape (n_units_above, n_units_below)
        Weights between neighbouring layers, from the bottom up, with those of all
        pathways side by side: 0 between different ones.

    intercepts_ : list of ndarray of shape (n_units,)
        Biases of the layers, the visible one first (of Gaussian columns: means
        without hidden units).

    variance_ : ndarray of shape (n_visible,)
        Variances of Gaussian visible units given the hidden ones; 1 for others.

    visible_mean_ : ndarray of shape (n_visible,)
        Means of the training data.

    visible_scale_ : ndarray of shape (n_visible,)
        Standard deviations of the training data (with `partial_fit`, of those of the
        first calls, until there are 100 rows that vary), 1 where they are 0.

    h_samples_ : ndarray of shape (n_chains, n_odd)
        States of the odd hidden layers of the persistent chains, side by side.

    n_categories_ : ndarray of shape (n_features,)
        Numbers of categories of columns of codes, 0 for others.

    n_iter_ : int
        Number of epochs trained.

    history_ : dict of list
        For every epoch: "learning_rate" (of its first minibatch), "seconds" of training
        and "weight_norm" (Frobenius norm of all weights), and more if `verbose` asks
        for it.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    See Also
    --------
    DBMTransformer : One pathway.

    Notes
    -----
    The hidden layers of the pathways come one after the other, in the order of
    `modalities`, within the layers of `components_`.

    `score_samples` is a lower bound of the log-likelihood if log Z is exact; an
    estimate of one otherwise. A fit takes no `sample_weight`, and no missing values.

    References
    ----------
    .. [1] N. Srivastava, R. Salakhutdinov, "Multimodal learning with deep Boltzmann
       machines", JMLR 15, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import MultimodalDBM
    >>> rng = np.random.default_rng(0)
    >>> bit = rng.random((500, 1)) < 0.5
    >>> X = np.repeat(bit, 6, axis=1) ^ (rng.random((500, 6)) < 0.05)
    >>> modalities = [
    ...     ("left", slice(0, 3), "bernoulli", 4),
    ...     ("right", slice(3, 6), "bernoulli", 4),
    ... ]
    >>> dbm = MultimodalDBM(
    ...     modalities, n_joint=2, batch_size=10, n_iter=100, random_state=0
    ... ).fit(X)
    >>> left = [[0, 0, 0, np.nan, np.nan, np.nan], [1, 1, 1, np.nan, np.nan, np.nan]]
    >>> dbm.infer(left, "right", random_state=0).round().astype(int)
    array([[0, 0, 0],
           [1, 1, 1]])
    """

    _parameter_constraints: dict = {
        **TrainableDBM._parameter_constraints,
        "modalities": [list],
        "n_joint": [Interval(Integral, 1, None, closed="left")],
        "missing": [StrOptions({"raise", "latent"})],
    }

    _kept = "visible", "modalities"
    # Methods other than `transform` take whole rows, whatever `missing` says.
    _fills_missing = False
    # From shorter steps pathways are long in finding each other.
    _default_rates = 0.05, 0.05

    def __init__(
        self,
        modalities,
        n_joint=256,
        *,
        learning_rate=None,
        batch_size=10,
        n_iter=None,
        verbose=0,
        random_state=None,
        n_gibbs_steps=1,
        n_chains=None,
        n_mean_field_steps=25,
        mean_field_tol=1e-3,
        pretrain_n_iter=None,
        pretrain_learning_rate=None,
        momentum=0.0,
        weight_decay=0.0,
        centering=True,
        learning_rate_schedule="linear",
        average=True,
        warm_start=False,
        standardize=True,
        output="top",
        missing="raise",
    ):
        self.modalities = modalities
        self.n_joint = n_joint
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.n_gibbs_steps = n_gibbs_steps
        self.n_chains = n_chains
        self.n_mean_field_steps = n_mean_field_steps
        self.mean_field_tol = mean_field_tol
        self.pretrain_n_iter = pretrain_n_iter
        self.pretrain_learning_rate = pretrain_learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.centering = centering
        self.learning_rate_schedule = learning_rate_schedule
        self.average = average
        self.warm_start = warm_start
        self.standardize = standardize
        self.output = output
        self.missing = missing

    # ---- Use ----

    def transform(self, X):
        """Compute mean-field means of the hidden units, given the visible ones.

        With ``missing="latent"``, features that are missing (NaN), of a whole modality
        perhaps, are units of the mean-field distribution like hidden ones: they start
        from the means of the training data, and in 30 rounds take their means given
        those of the first hidden layer, which follow.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data to be transformed.

        Returns
        -------
        h : ndarray of shape (n_samples, n_hidden)
            Means of the joint layer or, with ``output="all"``, of all hidden layers
            from the bottom up.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, has other features than in `fit`, or
            in columns of codes others than 0, 1, ... up to the largest in `fit`. NaN is
            taken with ``missing="latent"``, in a dense array; of a block of categories,
            in all columns or none.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If X has values that the visible units cannot represent, or blocks of
            categories that do not sum to 1.
        """
        if self.missing == "raise":
            return super().transform(X)
        check_is_fitted(self)
        columns = self._columns()

        def fill(X):
            columns.check(self, X)
            return self._fill(columns.encode(X))

        X, rows = check_rows(self, X, fill=fill, quiet=True)
        return self._output(X, rows.dtype)

    def _refuse_missing(self, X):
        if has_missing(X):
            raise ValueError(
                "Input X contains NaN. Missing values are for transform (with "
                f"missing='latent'), impute and infer{in_dense(X)}; "
                f"{type(self).__name__} trains on whole rows: leave the others out or "
                "fill them in, for instance with RBMImputer."
            )

    def _fill(self, X):
        """Put mean-field means in place of missing visible units."""

        def begin():
            machine = self._deep(X.dtype)
            return lambda rows: machine.visible_means(machine.means(rows)[0])

        return fill_in_rounds(X, self.visible_mean_, begin)

    def infer(
        self, X, modality, *, n_gibbs_steps=1000, method="mean", random_state=None
    ):
        """Fill in the columns of one modality, given the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Values of all columns. Those of the modality are not looked at, but for
            their type; others may be missing, too (NaN).

        modality : str
            Name of the modality.

        n_gibbs_steps : int, default=1000
            Gibbs steps of a chain of every row, the first half of them a warm-up.
            Chains take long to cross from one modality to another.

        method : {"mean", "sample"}, default="mean"
            "mean" fills in conditional means (the likeliest category where a column
            holds codes), "sample" a joint draw from the conditional distribution.

        random_state : int, RandomState instance or None, default=None
            Seeds the chains. None goes on with the model's own random sequence.

        Returns
        -------
        values : ndarray of shape (n_samples, n_columns)
            Values of the columns of the modality, in their order in X.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `impute`; ValueError also if `modality` is not the name of one.
        """
        check_is_fitted(self)
        modalities = as_made(self, "modalities")
        names = [name for name, *_ in modalities]
        check_choice(modality, "modality", names)
        mask = self._owners(modalities) == names.index(modality)
        filled = self.impute(
            X,
            mask=mask,
            n_gibbs_steps=n_gibbs_steps,
            method=method,
            random_state=random_state,
        )
        return filled[:, mask]

    # ---- Pathways ----

    @property
    def _pathways(self):
        """Sizes of the hidden layers of every pathway."""
        return [np.atleast_1d(sizes).tolist() for *_, sizes in self.modalities]

    @property
    def hidden_layer_sizes(self):
        """Numbers of units of the hidden layers, those of all pathways together.

        Raises
        ------
        AttributeError
            If `modalities` do not make one machine.
        """
        try:
            sizes = [*map(sum, zip(*self._pathways, strict=True))]
        except (TypeError, ValueError) as error:
            raise AttributeError("modalities do not make one machine.") from error
        return (*sizes, self.n_joint)

    @property
    def visible(self):
        """What the columns hold, as parameter `visible` of `RBM`.

        Raises
        ------
        AttributeError
            Before `fit`, which tells how many columns there are.
        ValueError
            If `modalities` do not name every column once.
        """
        self._owners(self.modalities)  # refuses columns that are no modalities
        pairs = [(columns, unit) for _, columns, unit, _ in self.modalities]
        return "bernoulli" if all_bits(pairs) else pairs

    def _owners(self, modalities):
        """Number of the modality of every column of the data."""
        n_features, lists = self.n_features_in_, []
        names = getattr(self, "feature_names_in_", None)
        for name, columns, *_ in modalities:
            lists.append(column_indices(columns, n_features, names))
            if len(lists[-1]) == 0:
                raise ValueError(
                    f"The modality {name!r} has none of the columns: X has "
                    f"n_features={n_features}."
                )
        return places_of(lists, n_features, "modalities", names)

    def _connected(self, n_visible):
        """Which even units (rows) and odd units (columns) are connected."""
        pathways, depth = self._pathways, len(self._pathways[0])
        owners = [np.repeat(self._owners(self.modalities), self._columns().sizes)]
        for layer in range(depth):
            sizes = [pathway[layer] for pathway in pathways]
            owners.append(np.repeat(np.arange(len(sizes)), sizes))
        n_odd, n_even = self._shape(n_visible)
        connected = np.zeros((n_even, n_odd), bool)
        for layer, block in enumerate(blocks(connected, self._sizes(n_visible))):
            joint = layer == depth
            block[...] = joint or owners[layer][:, np.newaxis] == owners[layer + 1]
        return connected

    def _alone(self):
        """Visible units of modalities of a single feature, such as a label."""
        columns = self._columns()
        owners = np.repeat(self._owners(self.modalities), columns.sizes)
        groups = columns.unit._groups(len(owners))
        sizes = np.concatenate([np.full(n, size) for _, n, size in groups])
        return np.isclose(np.bincount(owners, 1 / sizes), 1)[owners]

    def _check_parameters(self):
        # (`check_parameters` refuses what is not a list.)
        if isinstance(self.modalities, list):
            for modality in self.modalities:
                _check_modality(modality)
            self._check_pathways()
        super()._check_parameters()

    def _drawn_values(self, goes_on):
        """No values are drawn in training: it takes whole rows."""

    def _check_pathways(self):
        """Refuse modalities that do not make one machine."""
        names = [name for name, *_ in self.modalities]
        depths = [len(pathway) for pathway in self._pathways]
        if len(names) < 1 or len(set(names)) < len(names):
            raise ValueError(
                f"modalities must be one or more with different names, got {names}."
            )
        if len(set(depths)) > 1:
            raise ValueError(
                "All modalities must have as many hidden layers, got "
                f"{dict(zip(names, depths, strict=True))}."
            )

    def _structure(self):
        owners = self._owners(self.modalities)
        modalities = [
            f"({name!r}, {np.flatnonzero(owners == number).tolist()}, "
            f"{in_words(unit)}, {sizes_in_words(sizes)})"
            for number, (name, _, unit, sizes) in enumerate(self.modalities)
        ]
        return {
            "modalities": f"[{', '.join(modalities)}]",
            "n_joint": repr(int(self.n_joint)),
            "standardize": repr(bool(self.standardize)),
        }


def _check_modality(modality):
    """Refuse an entry of the parameter `modalities` that is not of its form."""
    if (
        not isinstance(modality, (tuple, list))
        or len(modality) != 4
        or not isinstance(modality[0], str)
    ):
        raise ValueError(
            "modalities must hold tuples (name, columns, unit, hidden_layer_sizes), "
            f"got {modality!r}."
        )
    name, _, unit, given = modality
    if not isinstance(unit, (str, Unit)) or isinstance(unit, Mixed):
        raise ValueError(
            f"The unit of the modality {name!r} must be a str or Unit, of one kind for "
            f"all of its columns, got {unit!r}."
        )
    sizes = np.atleast_1d(np.asarray(given, dtype=object))
    counts = [isinstance(n, Integral) and n >= 1 for n in sizes.ravel()]
    if sizes.ndim != 1 or not counts or not all(counts):
        raise ValueError(
            f"hidden_layer_sizes of the modality {name!r} must be integers of at "
            f"least 1, got {given!r}."
        )
