"""The classification restricted Boltzmann machine."""

from numbers import Integral, Real

from .._parameters import Interval, StrOptions
from .._stopping import STOPPING_CONSTRAINTS
from .._training import SCHEDULES
from ._trainable_rbm_classifier import TrainableRBMClassifier


class RBMClassifier(TrainableRBMClassifier):
    """Classification restricted Boltzmann machine.

    A joint model of binary visible units v, a label y and binary hidden units h,
    with energy ``E(v, y, h) = - b.v - d_y - c.h - v.W.h - h.U_y``. What it says of
    the label is exact and cheap: ``p(y|v)`` is proportional to
    ``exp(d_y + sum_j softplus(c_j + U_jy + (v.W)_j))``. It can be trained for that
    alone, as a model of data and labels together, or as a blend of both, which may
    also learn from rows without a label [1]_ [2]_.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units.

    objective : {"discriminative", "generative", "hybrid"}, \
            default="discriminative"
        What training increases: "discriminative" the mean of ``log p(y|v)``, along
        its exact gradient; "generative" that of ``log p(v, y)``, by contrastive
        divergence; "hybrid" the first plus `alpha` times the second.

    alpha : float or None, default=None
        Weight of the generative part of the hybrid objective. None means 0.01 times
        the number of rows for each label, but 1 at most: as if every row counted, in
        sums in place of means. The other objectives have no use for it.

    learning_rate : float or None, default=None
        Size of a step along the gradient of the objective (in nats a row), which
        `momentum` makes ``1 / (1 - momentum)`` times as long in the end. None means
        0.1 for the discriminative objective and 0.2 for the generative one. For the
        hybrid one it means ``0.1 / sqrt(r)``, where r is the number of rows for each
        label, but `batch_size` at most; and never more than ``0.2 * (1 - momentum) /
        alpha``.

    batch_size : int, default=10
        Number of rows in a minibatch. The last minibatch of an epoch may be
        shorter; its gradient is a mean over its own rows.

    n_iter : int, default=50
        Number of epochs: passes over the training data.

    verbose : int, default=0
        If not 0, print a line an epoch. Never changes the model.

    random_state : int, RandomState instance or None, default=None
        Seeds the initial weights, the order of the rows and all sampling. An int
        gives the same model bit for bit, on any number of threads.

    n_gibbs_steps : int, default=1
        Gibbs sweeps of the chains for each minibatch, where the objective has a
        generative part.

    persistent : bool, default=False
        Whether those chains go on from where the last minibatch left them (PCD) or
        start at the rows of the minibatch and their labels (CD).

    momentum : float or None, default=None
        Share of the last step's velocity in the next one, in [0, 1). None means 0 for
        the generative objective and 0.9 for the others.

    weight_decay : float, default=0.0
        Strength of the L2 penalty ``weight_decay / 2 * (||components_||^2 +
        ||label_components_||^2)``, subtracted from the objective.

    learning_rate_schedule : {"constant", "linear"}, default="constant"
        "linear" lets the learning rate fall linearly to zero over the `n_iter`
        epochs of `fit`. `partial_fit` always uses `learning_rate`.

    average : bool, default=True
        Whether the fitted parameters are the mean over the minibatches of the
        last epoch (for `partial_fit`, of the call) instead of the last ones.
        Training goes on from the last ones.

    warm_start : bool, default=False
        Whether `fit` goes on from the current parameters and chains.

    unlabeled : int, float, str or None, default=None
        The value of y that marks a row whose label is not known. Such rows take part in
        the generative part of the objective, with ``log p(v)`` in place of
        ``log p(v, y)``; with "discriminative" they change nothing. None means that all
        labels are known.

    early_stopping : bool, default=False
        Whether `fit` holds some rows out, watches the `monitor` on them, and stops when
        it has not improved for `n_iter_no_change` epochs. The fitted parameters are
        then those of the best epoch of the call; with `warm_start`, training goes on
        from those of the last one, for a best epoch of its own. `partial_fit` does not
        support it.

    validation_fraction : float, default=0.1
        Share of the labelled rows, and of those of each class, that `early_stopping`
        holds out, by a permutation drawn from `random_state`; the same ones when `fit`
        goes on with the same data.

    n_iter_no_change : int, default=10
        Number of epochs in a row without progress after which an early-stopped fit
        ends.

    tol : float, default=1e-4
        By how much an epoch has to beat the best one to count as progress.

    monitor : {"accuracy", "log_likelihood"}, default="accuracy"
        What `early_stopping` watches on the rows held out: the share of them that is
        classified correctly (where epochs have the same, the other too), or the mean
        of ``log p(y|v)`` in nats.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.

    components_ : ndarray of shape (n_components, n_features)
        Weights between hidden and visible units.

    label_components_ : ndarray of shape (n_components, n_classes)
        Weights between hidden units and labels.

    intercept_hidden_ : ndarray of shape (n_components,)
        Biases of the hidden units.

    intercept_visible_ : ndarray of shape (n_features,)
        Biases of the visible units. The discriminative objective says nothing of
        them: they stay at the log-odds of the features.

    intercept_label_ : ndarray of shape (n_classes,)
        Biases of the labels.

    visible_mean_ : ndarray of shape (n_features,)
        Mean of the training data.

    h_samples_ : ndarray of shape (batch_size, n_components)
        States (0 or 1) of the hidden units of the persistent chains. Only with
        ``persistent=True`` and a generative part of the objective.

    n_iter_ : int
        Number of epochs since the parameters were initialised.

    history_ : dict of list
        For every epoch: "learning_rate" (of its first minibatch), "seconds" of
        training, "weight_norm" (Frobenius norm of the weights of the features, not
        averaged), "log_likelihood" (mean ``log p(y|v)``, nats) and "accuracy", both of
        the labelled training rows, each as it was just before the step that it
        contributed to. With `early_stopping` also "validation_log_likelihood" and
        "validation_accuracy", of the rows held out. NaN where there was no labelled
        row.

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
    BernoulliRBM : The model without labels.
    sklearn.neural_network.MLPClassifier : A discriminative net with one hidden
        layer.

    Notes
    -----
    Values between 0 and 1 are probabilities. The discriminative objective takes any
    features: where not all of its first data are in [0, 1], or a feature hardly varies
    there (by less than a tenth of the standard deviation of a bit of its mean), it
    learns as if they were standardised, those that are mostly 0 only divided by their
    size (`weight_decay` is a penalty on the weights of such features, then). Fitted
    attributes are those for the features themselves.

    bool, uint8 and CSR data are used as they are, and made dense a minibatch at a time.
    A fit takes no `sample_weight`, since stochastic steps on a weighted row are not the
    same as a repeated row. Missing values (NaN) of features are an error.

    For a row without a label the positive phase weighs the hidden units under every
    label with ``p(y|v)``, rather than drawing a label: the same gradient on average,
    with less noise and at no cost, since all of it is at hand. Its chain starts at a
    label drawn from ``p(y|v)``. If a minibatch holds less than one label on average,
    steps of the hybrid objective are multiplied by that average: make minibatches so
    large that most of them hold a label.

    Steps are those of a model whose features are centred at `visible_mean_`, as those
    of `BernoulliRBM` are: what is learned does not depend on which of two values is
    called 1, and features that never vary change nothing.

    References
    ----------
    .. [1] H. Larochelle, Y. Bengio, "Classification using discriminative restricted
       Boltzmann machines", ICML 2008.
    .. [2] H. Larochelle, M. Mandel, R. Pascanu, Y. Bengio, "Learning algorithms for
       the classification restricted Boltzmann machine", JMLR 13, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_ebm import RBMClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RBMClassifier(50, n_iter=30, random_state=0)
    >>> model.fit(X[:1500] / 16, y[:1500]).predict_proba(X[1500:] / 16).shape
    (297, 10)
    >>> model.score(X[1500:] / 16, y[1500:]) > 0.85
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions({"discriminative", "generative", "hybrid"})],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
        "persistent": ["boolean"],
        "momentum": [Interval(Real, 0, 1, closed="left"), None],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "learning_rate_schedule": [StrOptions(set(SCHEDULES))],
        "average": ["boolean"],
        "warm_start": ["boolean"],
        "unlabeled": [Real, str, None],
        **STOPPING_CONSTRAINTS,
        "monitor": [StrOptions({"accuracy", "log_likelihood"})],
    }

    def __init__(
        self,
        n_components=256,
        *,
        objective="discriminative",
        alpha=None,
        learning_rate=None,
        batch_size=10,
        n_iter=50,
        verbose=0,
        random_state=None,
        n_gibbs_steps=1,
        persistent=False,
        momentum=None,
        weight_decay=0.0,
        learning_rate_schedule="constant",
        average=True,
        warm_start=False,
        unlabeled=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
        monitor="accuracy",
    ):
        self.n_components = n_components
        self.objective = objective
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.n_gibbs_steps = n_gibbs_steps
        self.persistent = persistent
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.learning_rate_schedule = learning_rate_schedule
        self.average = average
        self.warm_start = warm_start
        self.unlabeled = unlabeled
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.monitor = monitor
