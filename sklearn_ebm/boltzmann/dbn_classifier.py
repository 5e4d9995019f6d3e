"""Deep belief nets that are fine-tuned to classify."""

from ._fine_tuned_classifier import FineTunedClassifier


class DBNClassifier(FineTunedClassifier):
    """Deep belief net, fine-tuned by back-propagation to classify.

    A net of logistic hidden layers with softmax outputs. Its hidden layers start from
    a stack of restricted Boltzmann machines, of which the first learns the features
    and every other one the hidden units of the one below, without labels [1]_ [2]_;
    rows whose label is not known take part in that. Then all of the net is trained
    to give the labels of the rows that have one.

    Parameters
    ----------
    hidden_layer_sizes : int or tuple of int, default=(256, 256)
        Numbers of units of the hidden layers, from the bottom up.

    visible : {"bernoulli", "gaussian"}, default="bernoulli"
        What the features are to the RBM that learns them: values in [0, 1], or real
        values. Only for the pretraining.

    pretrain : bool, default=True
        Whether the hidden layers start from RBMs that were trained without the
        targets. If not, they start from random weights: a plain multilayer
        perceptron.

    pretrain_learning_rate : float or tuple of float, default=0.1
        Learning rate of the RBMs; in a tuple one for every hidden layer.

    pretrain_batch_size : int, default=10
        Rows in a minibatch of theirs.

    pretrain_n_iter : int or tuple of int, default=10
        Epochs of theirs; in a tuple one number for every hidden layer.

    solver : {"sgd", "adam", "lbfgs"}, default="sgd"
        How the net is fine-tuned: by stochastic gradient descent with momentum; by
        Adam [3]_; or by L-BFGS on all rows at once, for small data.

    learning_rate : float, default=None
        Size of a step. None takes 0.1 for "sgd", or 25 divided by the units of the
        widest hidden layer where that is less, and 0.003 for "adam".

    learning_rate_schedule : {"constant", "linear"}, default="linear"
        "linear" lets the learning rate fall linearly to zero over the `n_iter`
        epochs of `fit`. `partial_fit` always uses `learning_rate`.

    batch_size : int, default=20
        Rows in a minibatch of the fine-tuning. The last one of an epoch may be
        shorter; its gradient is a mean over its own rows.

    n_iter : int, default=30
        Epochs of the fine-tuning; for "lbfgs" the most iterations.

    momentum : float, default=0.9
        Share of the last step in the next one, in [0, 1). Only for "sgd".

    nesterov : bool, default=True
        Whether the momentum is Nesterov's.

    weight_decay : float, default=0.0
        Strength of the penalty ``weight_decay / 2 * sum w^2`` over all weights, which
        is added to the loss.

    input_dropout : float, default=0.0
        Share of the features that every row lacks in every step [4]_; the others
        are scaled up, so that nothing needs to be scaled afterwards.

    dropout : float, default=0.0
        The same for the units of each hidden layer.

    max_norm : float or None, default=None
        Largest Euclidean norm that the weights which lead to a unit may have: after
        each step, longer ones are scaled back to it. None means any.

    early_stopping : bool, default=False
        Whether `fit` holds some rows out, watches the accuracy on them after every
        epoch of the fine-tuning, and stops when it has got no better for
        `n_iter_no_change` epochs. The fitted parameters are then those of the best
        epoch of the call; training that goes on (`warm_start`) goes on from the last
        one. The pretraining sees the features of all rows. `partial_fit` does not
        support it.

    validation_fraction : float, default=0.1
        Share of the rows with labels that `early_stopping` holds out, by a
        permutation drawn from `random_state`; the same ones when `fit` goes on with
        the same data.

    n_iter_no_change : int, default=10
        So many epochs in a row without progress end an early-stopped fit.

    tol : float, default=1e-4
        What an epoch has to gain on the best one to count as progress. "lbfgs" stops
        where no derivative of the objective is larger.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss, by label (1 where none is given), or
        inversely proportional to how often they come in `y`. Only their ratios
        matter: they are scaled so that the training rows weigh 1 in the mean.
        `partial_fit` goes on with those of its first call and takes no "balanced".

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

    coefs_ : list of ndarray
        Weights of the layers, from the bottom up, each of shape (n_units_below,
        n_units). The first are those of the features.

    intercepts_ : list of ndarray of shape (n_units,)
        Biases of the same layers.

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
        "seconds" of training, "loss" (cross-entropy in nats, and the penalty; the mean
        over the training rows, each as it was just before the step that it contributed
        to). With `early_stopping` also "validation_log_likelihood" (nats a row) and
        "validation_accuracy", of the rows held out. NaN where there is no such number.

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
    RBMClassifier : One hidden layer, with a model of the data.
    sklearn.neural_network.MLPClassifier : A net without pretraining.

    Notes
    -----
    bool, uint8 and CSR data are used as they are, and made dense a minibatch at a time.
    A fit takes no `sample_weight`, since stochastic steps on a weighted row are not the
    same as a repeated row.

    References
    ----------
    .. [1] G. E. Hinton, S. Osindero, Y.-W. Teh, "A fast learning algorithm for deep
       belief nets", Neural Computation 18, 2006.
    .. [2] Y. Bengio, P. Lamblin, D. Popovici, H. Larochelle, "Greedy layer-wise
       training of deep networks", NIPS 2006.
    .. [3] D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR
       2015.
    .. [4] N. Srivastava, G. E. Hinton, A. Krizhevsky, I. Sutskever, R. Salakhutdinov,
       "Dropout: a simple way to prevent neural networks from overfitting", JMLR 15,
       2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_ebm import DBNClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DBNClassifier((50, 50), random_state=0)
    >>> model.fit(X[:1200] / 16, y[:1200]).predict_proba(X[1200:] / 16).shape
    (597, 10)
    >>> model.score(X[1200:] / 16, y[1200:]) > 0.88
    True
    """

    _parameter_constraints: dict = FineTunedClassifier._parameter_constraints

    def __init__(
        self,
        hidden_layer_sizes=(256, 256),
        *,
        visible="bernoulli",
        pretrain=True,
        pretrain_learning_rate=0.1,
        pretrain_batch_size=10,
        pretrain_n_iter=10,
        solver="sgd",
        learning_rate=None,
        learning_rate_schedule="linear",
        batch_size=20,
        n_iter=30,
        momentum=0.9,
        nesterov=True,
        weight_decay=0.0,
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
        self.visible = visible
        self.pretrain = pretrain
        self.pretrain_learning_rate = pretrain_learning_rate
        self.pretrain_batch_size = pretrain_batch_size
        self.pretrain_n_iter = pretrain_n_iter
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
