"""Deep Boltzmann machines that are trained to classify."""

from numbers import Integral, Real

from .._parameters import Interval, PairOf, StrOptions
from . import _multi_prediction, _unrolled
from ._net_classifier import NetClassifier

# What a model has with objective="fine_tuning" only.
OF_NETS = "dbm_variance_", "coefs_", "intercepts_"


class DBMClassifier(NetClassifier):
    """Deep Boltzmann machine, trained to classify.

    With ``objective="fine_tuning"`` a deep Boltzmann machine first learns the features
    without labels; rows whose label is not known take part in that. Its mean field is
    then unrolled into a net of logistic hidden layers with softmax outputs, and that is
    trained by back-propagation to predict the labels [1]_. The net is given the
    features with the mean-field means of the even hidden layers beside them; its first
    hidden layer starts as the odd layers of the machine, its second one (with two
    hidden layers or more) as the even ones.

    With ``objective="multi_prediction"`` the label is a group of units of the machine
    itself, beside the features. In every minibatch half of the rows with a label
    observe all of their features and are asked for the label; each of the other rows
    observes a random share of its features, between none and all, and its label or not.
    Mean field predicts the rest in a few steps, and back-propagation through these
    steps makes the predictions better [2]_. Such a model takes features that are
    missing (NaN), in training and afterwards.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(256, 256)
        Numbers of units of the hidden layers, from the bottom up.

    objective : {"fine_tuning", "multi_prediction"}, default="fine_tuning"
        How the machine learns to classify.

    visible : {"bernoulli", "gaussian"}, default="bernoulli"
        What the features are to the machine: values in [0, 1], or real values.
        "multi_prediction" takes only the first.

    n_mean_field_steps : int, default=10
        Number of mean-field steps: at most this many for "fine_tuning", exactly this
        many for "multi_prediction".

    pretrain_learning_rate : float, default=0.01
        Learning rate of the training without labels (see `DBMTransformer`); this and
        the other ``pretrain_`` parameters are only for "fine_tuning".

    pretrain_batch_size : int, default=10
        Rows in a minibatch of that training, and number of its chains.

    pretrain_n_iter : int or None, default=None
        Epochs of that training. None takes 30 for 1 000 rows or fewer, and for more
        rows fewer, but at least 10.

    pretrain_greedy_n_iter : int or None, default=None
        Epochs of the greedy training of every layer before that. None takes 60 for
        1 000 rows or fewer, and for more rows fewer, but at least 20.

    pretrain_n_gibbs_steps : int or tuple of two int, default=1
        Gibbs sweeps of the chains for each minibatch; a pair lets them grow.

    pretrain_weight_decay : float, default=0.0
        Factor of the L2 penalty in that training.

    solver : {"auto", "sgd", "adam", "lbfgs"}, default="auto"
        How the net is fine-tuned: by stochastic gradient descent with momentum; by
        Adam [3]_; or by L-BFGS on all rows at once, for small data. "auto" is "adam"
        for "fine_tuning" and "sgd" for "multi_prediction", which does not take "lbfgs".

    learning_rate : float or None, default=None
        Size of a step. None takes 0.1 for "sgd", or 25 divided by the units of the
        widest hidden layer where that is less, and 0.005 for "adam".

    learning_rate_schedule : {"constant", "linear"}, default="linear"
        "linear" lets the learning rate fall linearly to zero over the `n_iter`
        epochs of `fit`. `partial_fit` always uses `learning_rate`.

    batch_size : int, default=20
        Rows in a minibatch of the fine-tuning. The last one of an epoch may be
        shorter; its gradient is a mean over its own rows.

    n_iter : int or None, default=None
        Epochs of the fine-tuning; for "lbfgs" the most iterations. None takes 100 for
        7 000 rows or fewer, and for more rows fewer, but at least 20; for "lbfgs" it
        always takes 100.

    momentum : float, default=0.9
        Share of the last step in the next one, in [0, 1). Only for "sgd".

    nesterov : bool, default=True
        Whether the momentum is Nesterov's.

    weight_decay : float or None, default=None
        Strength of the penalty ``weight_decay / 2 * sum w^2`` over all weights, which
        is added to the loss. Features that are not all in [0, 1], or one of which
        hardly varies there, are standardised for the net: it is their weights that
        this penalty and `max_norm` are of. None takes 0, but with "adam", where
        the pretraining has found little (fields of the first hidden layer deviate by
        less than 2), 1 divided by the number of rows that `fit` trains the net on, of
        the weights of the outputs alone: the penalty of a logistic regression on the
        last hidden layer.

    input_dropout : float, default=0.0
        Share of the features that are dropped, at random for every row and step [4]_;
        the others are scaled up, so that nothing needs to be scaled afterwards. This,
        `dropout` and `max_norm` are only for "fine_tuning".

    dropout : float, default=0.0
        The same for the units of each hidden layer.

    max_norm : float or None, default=None
        Largest Euclidean norm of the weights that lead to a unit: after each step,
        longer ones are scaled back to it. None sets no limit.

    early_stopping : bool, default=False
        Whether `fit` holds some rows out, watches the accuracy on them (where it is the
        same, the log-likelihood) after every epoch of the fine-tuning, and stops when
        it has not improved for `n_iter_no_change` epochs. The fitted parameters are
        then those of the best epoch of the call; with `warm_start`, training goes on
        from those of the last one, for a best epoch of its own. The pretraining sees
        the features of all rows. `partial_fit` does not support it.

    validation_fraction : float, default=0.1
        Share of the rows with labels, and of those of each class, that
        `early_stopping` holds out, by a permutation drawn from `random_state`; the
        same ones when `fit` goes on with the same data.

    n_iter_no_change : int, default=10
        Number of epochs in a row without progress after which an early-stopped fit
        ends.

    tol : float, default=1e-4
        By how much an epoch has to beat the best one to count as progress. "lbfgs"
        stops where no derivative of the objective is larger.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss, by label (1 where none is given), or
        inversely proportional to how often they occur in `y`. Only their ratios matter:
        they are scaled so that the mean weight of rows with a label is 1. `partial_fit`
        goes on with those of its first call and takes no "balanced".

    unlabeled : int, float, str or None, default=None
        The value of y that marks a row whose label is not known. Such rows take part
        in the pretraining and are left out of the fine-tuning. None means that all
        labels are known.

    warm_start : bool, default=False
        Whether `fit` goes on from the current parameters, without a pretraining.

    verbose : int, default=0
        If not 0, print a line an epoch, of the pretraining too. Never changes the
        model.

    random_state : int, RandomState instance or None, default=None
        Seeds the initial weights, the pretraining, the order of the rows and what is
        dropped. An int gives the same model bit for bit, on any number of threads.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.

    components_ : list of ndarray of shape (n_units_above, n_units_below)
        Weights of the Boltzmann machine between neighbouring layers, from the bottom
        up. With "multi_prediction" the lowest layer is made of the features and,
        after them, the classes.

    dbm_intercepts_ : list of ndarray of shape (n_units,)
        Biases of its layers, the visible one first.

    dbm_variance_ : ndarray of shape (n_features,)
        Variances of Gaussian features given the hidden units; 1 for others. Only with
        "fine_tuning".

    coefs_ : list of ndarray
        Weights of the layers of the net, from the bottom up, each of shape
        (n_units_below, n_units). The first are those of the features and of the even
        hidden layers. Only with "fine_tuning".

    intercepts_ : list of ndarray of shape (n_units,)
        Biases of the same layers. Only with "fine_tuning".

    n_layers_ : int
        Number of layers, with the features and the outputs.

    n_outputs_ : int
        Number of outputs.

    out_activation_ : str
        What the outputs are: "softmax".

    n_iter_ : int
        Number of epochs (for "lbfgs", of iterations) of fine-tuning since the
        parameters were initialised.

    history_ : dict of list
        For every epoch: "learning_rate" (of its first minibatch; not for "lbfgs"),
        "seconds" of training, "loss" (the objective in nats), the mean over
        the training rows, each as it was just before the step that it contributed
        to. With `early_stopping` also "validation_log_likelihood"
        (nats a row) and "validation_accuracy", of the rows held out, each with the
        weight of its class. NaN where there is no such number.

    loss_curve_ : list of float
        The same as ``history_["loss"]``.

    best_n_iter_ : int
        `n_iter_` after the epoch whose parameters were kept. Only with
        `early_stopping`.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    See Also
    --------
    DBMTransformer : The machine without labels.
    DBNClassifier : Pretrained as a stack of machines of one hidden layer.

    Notes
    -----
    bool, uint8 and CSR data are used as they are, and made dense a minibatch at a time.
    "fine_tuning" keeps the means of the even hidden layers of the rows with labels
    during a fit. With three hidden layers or more its net also has weights between
    layers that are not neighbours, which start from zero.

    "multi_prediction" scales the gradient of a minibatch back to a norm of 1 where it
    is longer: what goes back through many steps can explode.

    A fit takes no `sample_weight`, since stochastic steps on a weighted row are not the
    same as a repeated row.

    References
    ----------
    .. [1] R. Salakhutdinov, G. E. Hinton, "Deep Boltzmann machines", AISTATS 2009.
    .. [2] I. J. Goodfellow, M. Mirza, A. Courville, Y. Bengio, "Multi-prediction deep
       Boltzmann machines", NIPS 2013.
    .. [3] D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR
       2015.
    .. [4] N. Srivastava, G. E. Hinton, A. Krizhevsky, I. Sutskever, R. Salakhutdinov,
       "Dropout: a simple way to prevent neural networks from overfitting", JMLR 15,
       2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_ebm import DBMClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DBMClassifier((50, 50), random_state=0)
    >>> model.fit(X[:1200] / 16, y[:1200]).predict_proba(X[1200:] / 16).shape
    (597, 10)
    >>> model.score(X[1200:] / 16, y[1200:]) > 0.8
    True
    """

    _parameter_constraints: dict = {
        name: constraint
        for name, constraint in NetClassifier._parameter_constraints.items()
        if name != "pretrain"
    } | {
        "objective": [StrOptions({"fine_tuning", "multi_prediction"})],
        "solver": [StrOptions({"auto", "sgd", "adam", "lbfgs"})],
        "n_mean_field_steps": [Interval(Integral, 1, None, closed="left")],
        "pretrain_learning_rate": [Interval(Real, 0, None, closed="neither")],
        "pretrain_n_iter": [Interval(Integral, 0, None, closed="left"), None],
        "pretrain_greedy_n_iter": [Interval(Integral, 0, None, closed="left"), None],
        "pretrain_n_gibbs_steps": [
            Interval(Integral, 1, None, closed="left"),
            PairOf(Integral, 1, None, closed="left"),
        ],
        "pretrain_weight_decay": [Interval(Real, 0, None, closed="left")],
    }
    # What `TrainableNet` knows and this does not offer.
    pretrain = True

    def __init__(
        self,
        hidden_layer_sizes=(256, 256),
        *,
        objective="fine_tuning",
        visible="bernoulli",
        n_mean_field_steps=10,
        pretrain_learning_rate=0.01,
        pretrain_batch_size=10,
        pretrain_n_iter=None,
        pretrain_greedy_n_iter=None,
        pretrain_n_gibbs_steps=1,
        pretrain_weight_decay=0.0,
        solver="auto",
        learning_rate=None,
        learning_rate_schedule="linear",
        batch_size=20,
        n_iter=None,
        momentum=0.9,
        nesterov=True,
        weight_decay=None,
        input_dropout=0.0,
        dropout=0.0,
        max_norm=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
        class_weight=None,
        unlabeled=None,
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.objective = objective
        self.visible = visible
        self.n_mean_field_steps = n_mean_field_steps
        self.pretrain_learning_rate = pretrain_learning_rate
        self.pretrain_batch_size = pretrain_batch_size
        self.pretrain_n_iter = pretrain_n_iter
        self.pretrain_greedy_n_iter = pretrain_greedy_n_iter
        self.pretrain_n_gibbs_steps = pretrain_n_gibbs_steps
        self.pretrain_weight_decay = pretrain_weight_decay
        self.solver = solver
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.momentum = momentum
        self.nesterov = nesterov
        self.weight_decay = weight_decay
        self.input_dropout = input_dropout
        self.dropout = dropout
        self.max_norm = max_norm
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    # ---- The net: the machine itself if it predicts, otherwise an unrolled one ----

    @property
    def _predicts(self):
        """Whether the machine itself is what predicts labels."""
        # A fitted model stays what it was fitted to be.
        if hasattr(self, "_state"):
            return "dbm" not in self._state
        return str(self.objective) == "multi_prediction"  # (of any type until checked)

    @property
    def _solver(self):
        if self.solver != "auto":
            return self.solver
        return "adam" if self.objective == "fine_tuning" else "sgd"

    def _check_parameters(self):
        super()._check_parameters()
        if self.objective == "fine_tuning":
            return
        for name in _multi_prediction.REFUSED:
            if getattr(self, name):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs objective='fine_tuning'."
                )
        if self.solver == "lbfgs":
            raise ValueError(
                "objective='multi_prediction' needs solver='sgd' or 'adam': what is "
                "observed changes from step to step."
            )
        if self.visible != "bernoulli":
            raise ValueError(f"visible={self.visible!r} needs objective='fine_tuning'.")

    def _structure(self):
        return {"objective": repr(self.objective)} | super()._structure()

    @property
    def _trains_on_all(self):
        return self.objective == "multi_prediction"

    @property
    def _n_machines_before(self):
        return 1 if self.objective == "fine_tuning" else 0

    def _initialise(self, *given):
        self.__dict__.pop("_state", None)  # which says what the net was fitted to be
        super()._initialise(*given)

    def _publish(self):
        super()._publish()
        if self._predicts:
            for name in OF_NETS:  # that an earlier fit may have left
                self.__dict__.pop(name, None)

    def _first_params(self, rows, state, rng):
        way = _multi_prediction if self._predicts else _unrolled
        return way.first_params(self, rows, state, rng)

    def _pretrain(self, X, tasks):
        if not self._predicts:  # (else it is trained with the labels from the first)
            _unrolled.pretrain(self, X, tasks)

    def _standard(self, X):
        # (Units of a machine are bits, and its inputs what they are.)
        return None if self._predicts else super()._standard(X)

    def _first_constants(self, X):
        return None if self._predicts else super()._first_constants(X)

    def _spread(self, X, first):
        if not self._predicts:
            super()._spread(X, first)

    def _warn_of_faults(self, X):
        if self._predicts:
            _multi_prediction.warn_of_faults(self, X)
        else:
            super()._warn_of_faults(X)

    @property
    def _centred(self):
        # (By mean field, all fields change with all inputs, whatever takes the steps.)
        return self._predicts or super()._centred

    def _offsets(self, inputs):
        if self._predicts:
            return _multi_prediction.offsets(self, inputs)
        return super()._offsets(inputs)

    def _read(self, X, reset=False):
        predicts = self.objective == "multi_prediction" if reset else self._predicts
        if predicts:
            return _multi_prediction.read(self, X, reset)
        return super()._read(X, reset)

    def _inputs(self, X, training=False):
        return X if self._predicts else _unrolled.inputs(self, X, training)

    def _network(self, state, decays=(0.0, 0.0)):
        if self._predicts:
            return _multi_prediction.network(self, state, decays[0])
        return super()._network(state, decays)

    def _dropout(self, state):
        if self._predicts:
            return _multi_prediction.masks(self, state)
        return super()._dropout(state)

    def _public(self, params, state):
        if self._predicts:
            public = _multi_prediction.public(self, params, state)
            return public | {"classes_": state["classes"]}
        return state["dbm"] | super()._public(params, state)

    def _params(self):
        return _multi_prediction.params(self) if self._predicts else super()._params()

    @property
    def _n_features_out(self):
        if self._predicts:
            return _multi_prediction.n_features_out(self)
        return super()._n_features_out

    def __sklearn_is_fitted__(self):
        return hasattr(self, "components_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._predicts
        return tags

    def _damage(self):
        way = _multi_prediction if self._predicts else _unrolled
        return way.damage(self)
