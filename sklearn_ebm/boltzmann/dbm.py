"""Deep Boltzmann machines as transformers."""

from .._units import Kind
from ..units import are
from ._structure import LAYER_SIZES
from ._trainable_dbm import TrainableDBM
from ._unit_columns import VISIBLE

# Counts with larger means are large.
LARGE = 20


class DBMTransformer(TrainableDBM):
    """Deep Boltzmann machine (DBM).

    A layer of visible units v and layers of binary hidden units h1, h2, ..., each
    connected to its neighbours by undirected weights:
    ``E(v, h1, h2) = - b.v - c1.h1 - c2.h2 - v.W1.h1 - h1.W2.h2`` with two of them.
    All layers are trained together [1]_: the statistics of the data come from a
    mean-field approximation of the hidden units given each row, those of the model
    from persistent Gibbs chains over all layers, by default along the centred
    gradient [2]_ and after a greedy pretraining of the layers [1]_.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(256, 256)
        Numbers of units of the hidden layers, from the bottom up.

    visible : str, Unit or list of (columns, str or Unit), default="bernoulli"
        What the columns of the data hold, as for `RBM`.

    learning_rate : float or None, default=None
        Size of a step along the gradient of the mean bound on the log-likelihood
        (in nats) of a minibatch. Long steps make the layers independent of each
        other, from which training does not come back. None means 0.01,
        0.03 if there are "gaussian" columns, and for large counts less than 0.01, as
        for `RBM`.

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
        lowest from below, the highest from above). If a column of counts has a mean
        above 20, only the lowest layer is pretrained, as a machine of its own; the
        means of the top layer vary little then (``output="all"``, or a
        `StandardScaler`, helps).

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

    Attributes
    ----------
    components_ : list of ndarray of shape (n_units_above, n_units_below)
        Weights between neighbouring layers, from the bottom up.

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
    BernoulliRBM : A single hidden layer, whose inference is exact.

    Notes
    -----
    `score_samples` is a lower bound of the log-likelihood if log Z is exact; an
    estimate of one otherwise. A fit takes no `sample_weight`. Missing values (NaN)
    are for `impute` only, and an error elsewhere.

    References
    ----------
    .. [1] R. Salakhutdinov, G. E. Hinton, "Deep Boltzmann machines", AISTATS 2009;
       "An efficient learning procedure for deep Boltzmann machines", Neural
       Computation 24, 2012.
    .. [2] J. Melchior, A. Fischer, L. Wiskott, "How to center deep Boltzmann
       machines", JMLR 17, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import DBMTransformer
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> dbm = DBMTransformer((4, 2), random_state=0).fit(X)
    >>> dbm.transform(X).shape
    (4, 2)
    >>> [w.shape for w in dbm.components_]
    [(4, 3), (2, 4)]
    """

    _parameter_constraints: dict = {
        **TrainableDBM._parameter_constraints,
        "hidden_layer_sizes": LAYER_SIZES,
        "visible": VISIBLE,
    }

    def __init__(
        self,
        hidden_layer_sizes=(256, 256),
        *,
        visible="bernoulli",
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
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.visible = visible
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

    @property
    def _n_pretrained_layers(self):
        # Trained with its input heard twice, a hidden unit relies on the layer above
        # for half of its field. With counts that half is in proportion to the counts,
        # and bits above cannot supply it: the machine begins far from the rows, and
        # training does not bring it back.
        counts = are(self._columns().kinds, Kind.POISSON)
        large = self._state["visible_offset"][counts].max(initial=0) > LARGE
        return 1 if large else super()._n_pretrained_layers
