"""Deep belief nets that classify: fine-tuned, or with the labels at their top."""

from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._callbacks import begin_fit, with_callbacks
from .._parameters import StrOptions, check_parameters
from .._training import refuse_early_stopping
from .._validation import check_rows
from ..boltzmann._labels import check_classes
from . import _label_top
from ._net_classifier import NetClassifier
from ._trainable_net import partial_fit_available


def _generative(estimator):
    # A fitted model stays what it was fitted to be.
    asked = estimator.objective == "generative"
    fitted = hasattr(estimator, "_state")
    if not (_label_top.is_generative(estimator) if fitted else asked):
        raise AttributeError(
            "sample needs objective='generative': nets that are fine-tuned are no "
            "model of the features."
        )
    return True


class DBNClassifier(NetClassifier):
    """Deep belief net that classifies: fine-tuned, or a model of labels and features.

    A net of logistic hidden layers with softmax outputs. Its hidden layers start from a
    stack of restricted Boltzmann machines, of which the first learns the features and
    each of the others the hidden units of the one below, without labels [1]_ [2]_; rows
    whose label is not known take part in that. Then all of the net is trained by
    back-propagation to predict the labels of the rows that have one.

    Or, with ``objective="generative"``, there is no fine-tuning: the two layers at
    the top are a machine that learns the label together with the means of the layer
    below [1]_, an `RBMClassifier`. Its probabilities of the labels are exact, and it
    draws examples of a class.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(256, 256)
        Numbers of units of the hidden layers, from the bottom up.

    visible : {"bernoulli", "gaussian"}, default="bernoulli"
        What the features are to the RBM that learns them: values in [0, 1], or real
        values. Only for the pretraining.

    objective : {"discriminative", "generative"}, default="discriminative"
        "discriminative" fine-tunes the net to the labels; "generative" trains the
        machine at the top by contrastive divergence (CD-1) to increase the mean of
        ``log p(h, y)``, where h are means of the layer below (with one hidden layer,
        the features). Of the parameters below it uses `learning_rate`,
        `learning_rate_schedule`, `batch_size`, `n_iter`, `weight_decay` and those of
        early stopping for that machine, and ignores `solver`, `momentum`,
        `nesterov`, `input_dropout`, `dropout` and `max_norm`.

    pretrain : bool, default=True
        Whether the hidden layers start from RBMs that were trained without the
        targets. If not, they start from random weights: a plain multilayer
        perceptron. Must be True with "generative".

    pretrain_learning_rate : float or tuple of float, default=0.1
        Learning rate of the RBMs; in a tuple one for every hidden layer, of which
        "generative" does not use the last.

    pretrain_batch_size : int, default=10
        Number of rows in a minibatch of the pretraining.

    pretrain_n_iter : int, tuple of int or None, default=None
        Number of epochs of the pretraining; in a tuple one number for every hidden
        layer, of which "generative" does not use the last. None takes 60 for 1 000 rows
        or fewer, and for more rows fewer, but at least 10.

    solver : {"sgd", "adam", "lbfgs"}, default="adam"
        How the net is fine-tuned: by stochastic gradient descent with momentum; by
        Adam [3]_; or by L-BFGS on all rows at once, for small data.

    learning_rate : float or None, default=None
        Size of a step. None takes 0.1 for "sgd", or 25 divided by the units of the
        widest hidden layer where that is less, and 0.005 for "adam"; with
        "generative" it takes 0.4.

    learning_rate_schedule : {"constant", "linear"}, default="linear"
        "linear" lets the learning rate fall linearly to zero over the `n_iter`
        epochs of `fit`. `partial_fit` always uses `learning_rate`.

    batch_size : int, default=20
        Rows in a minibatch of the fine-tuning. The last one of an epoch may be
        shorter; its gradient is a mean over its own rows.

    n_iter : int or None, default=None
        Epochs of the fine-tuning; for "lbfgs" the most iterations. None takes 100 for
        7 000 rows or fewer, and for more rows fewer, but at least 20; for "lbfgs" and
        "generative" it always takes 100.

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
        the others are scaled up, so that nothing needs to be scaled afterwards.

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
        goes on with those of its first call and takes no "balanced". With "generative"
        the logarithm of a class's weight is added to the bias of its label, after the
        training; `early_stopping` does not see it.

    unlabeled : int, float, str or None, default=None
        The value of y that marks a row whose label is not known. Such rows take part
        in the pretraining and are left out of the fine-tuning; with "generative" the
        top learns ``log p(h)`` of them. None means that all labels are known.

    warm_start : bool, default=False
        Whether `fit` goes on from the current parameters, without a pretraining; with
        "generative" the layers below the top stay what they are.

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
        n_units). The first are those of the features, the last those of the outputs
        or, with "generative", of the top hidden layer.

    intercepts_ : list of ndarray of shape (n_units,)
        Biases of the same layers.

    generative_intercepts_ : list of ndarray of shape (n_units_below,)
        Biases on the way down, from the features to the layer below the top. Only
        with "generative".

    label_components_ : ndarray of shape (n_units, n_classes)
        Weights between the top layer and the labels. Only with "generative".

    intercept_label_ : ndarray of shape (n_classes,)
        Biases of the labels. Only with "generative".

    variance_ : ndarray of shape (n_features,)
        Variances of Gaussian features given the layer above, by which the first of
        `coefs_` are divided. Only with "generative" and ``visible="gaussian"``.

    n_layers_ : int
        Number of layers, with the features and, unless "generative", the outputs.

    n_outputs_ : int
        Number of outputs. Not with "generative".

    out_activation_ : str
        What the outputs are: "softmax". Not with "generative".

    n_iter_ : int
        Number of epochs (for "lbfgs", of iterations) of fine-tuning, or of training
        the top, since the parameters were initialised.

    history_ : dict of list
        For every epoch: "learning_rate" (of its first minibatch; not for "lbfgs"),
        "seconds" of training, "loss" (cross-entropy in nats, and the penalty; the mean
        over the training rows, each as it was just before the step that it contributed
        to). With `early_stopping` also "validation_log_likelihood" (nats a row) and
        "validation_accuracy", of the rows held out, each with the weight of its class.
        NaN where there is no such number.
        With "generative" it is that of the top: the `history_` of `RBMClassifier`.

    loss_curve_ : list of float
        The same as ``history_["loss"]``. Not with "generative".

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

    _parameter_constraints: dict = {
        **NetClassifier._parameter_constraints,
        "objective": [StrOptions({"discriminative", "generative"})],
    }

    def __init__(
        self,
        hidden_layer_sizes=(256, 256),
        *,
        visible="bernoulli",
        objective="discriminative",
        pretrain=True,
        pretrain_learning_rate=0.1,
        pretrain_batch_size=10,
        pretrain_n_iter=None,
        solver="adam",
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
        self.visible = visible
        self.objective = objective
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

    def fit(self, X, y):
        """Pretrain the net with the data X, and train it with the labels y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.

        y : array-like of shape (n_samples,)
            Labels; `unlabeled` where they are not known.

        Returns
        -------
        self : DBNClassifier
            The fitted model.

        Raises
        ------
        ValueError
            If parameters are not allowed, or do not fit each other; X is not a matrix
            of finite numbers; `y` is of another length, holds no labels (but real
            numbers or NaN) or none where one is needed; `validation_fraction` leaves
            nothing to train on; with `warm_start`, X, `y` or parameters do not fit the
            model so far; or training diverges, which leaves the estimator as it was.
        TypeError
            If X holds dates or times, or `y` is sparse.

        Warns
        -----
        UserWarning
            If X has values outside [0, 1], and machines of Bernoulli units learn from
            them.
        ConvergenceWarning
            If over 5 % of the units of a pretrained layer are dead or saturated, or no
            unit of the last hidden layer tells rows apart, or the labels of a
            generative top hardly depend on the row.
        DataConversionWarning
            If `y` is a matrix of one column.
        """
        if self.objective == "generative":
            return self._fit_generative(X, y)
        return super().fit(X, y)

    @with_callbacks
    def _fit_generative(self, X, y):
        self._check_parameters()
        goes_on = self.warm_start and hasattr(self, "_state")
        task = begin_fit(self, 1 if goes_on else len(self._hidden_sizes), X, y)
        _label_top.train(self, X, y, task=task)
        task.end(dict)
        return self

    @partial_fit_available
    def partial_fit(self, X, y, classes=None):
        """Train the net on one pass over the rows of X, in minibatches.

        The first call pretrains the net on the rows that it is given. With
        ``objective="generative"`` later ones train the top only; otherwise rows
        without a label change nothing else.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, any number of rows.

        y : array-like of shape (n_samples,)
            Labels; `unlabeled` where they are not known.

        classes : array-like of shape (n_classes,), default=None
            All labels there will be. Needed in the first call of a model that has
            not been fitted; later calls may repeat it.

        Returns
        -------
        self : DBNClassifier
            The fitted model.

        Raises
        ------
        AttributeError
            If `solver` is "lbfgs", which does not learn from minibatches; not with
            ``objective="generative"``.
        ValueError
            As in `fit`; if `classes` are missing in the first call, are no labels or
            others than before, or lack labels of `y`; or with ``early_stopping=True``
            or ``class_weight="balanced"``.
        TypeError
            As in `fit`.

        Warns
        -----
        UserWarning, ConvergenceWarning, DataConversionWarning
            As in `fit`, but for the labels of a generative top.
        """
        if self.objective != "generative":
            return super().partial_fit(X, y, classes)
        self._check_parameters()
        self._check_partial_fit()
        refuse_early_stopping(self)
        classes = check_classes(self, classes, hasattr(self, "_state"))
        _label_top.train(self, X, y, classes)
        return self

    def transform(self, X):
        """Compute the activities of the last hidden layer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data to be transformed.

        Returns
        -------
        h : ndarray of shape (n_samples, n_units)
            Activities, between 0 and 1. With ``objective="generative"`` those of the
            top layer without knowledge of the label: the means of its units under
            each label, weighted by the probabilities of the labels.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, or has other features than in `fit`.
        TypeError
            If X holds dates or times.
        """
        return super().transform(X)

    @available_if(_generative)
    def sample(self, n_samples=None, *, y=None, n_gibbs_steps=1000, random_state=None):
        """Draw samples from the model, for given labels or any.

        Each from a Gibbs chain of its own in the machine at the top, followed by one
        pass down. Only with ``objective="generative"``.

        Parameters
        ----------
        n_samples : int, default=None
            Number of samples. None means one for each label in `y`, or else 1.

        y : label or array-like of shape (n_samples,), default=None
            Labels that the chains keep, so that the samples come from ``p(x|y)``.
            None draws labels too.

        n_gibbs_steps : int, default=1000
            Gibbs steps of every chain, from independent units with the means that
            the training data gave.

        random_state : int, RandomState instance or None, default=None
            Seeds the draws. None goes on with a sequence of the model's own, which
            the `random_state` of the fit determines.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Values of the features: 0 or 1 for ``visible="bernoulli"``.

        Raises
        ------
        AttributeError
            If the net is not generative: one that is fine-tuned is no model of the
            features.
        NotFittedError
            If the model has not been fitted.
        ValueError
            If `n_samples` is less than 1, or `n_gibbs_steps` than 0; or `y` has other
            than `n_samples` rows, or labels that are not in `classes_`.
        TypeError
            If a number is no integer.
        """
        check_is_fitted(self, "generative_intercepts_")
        return _label_top.sample(self, n_samples, y, n_gibbs_steps, random_state)

    def _outputs(self, X, hidden=False):
        if not _label_top.is_generative(self):
            return super()._outputs(X, hidden)
        X, rows = check_rows(self, X, quiet=True)
        return _label_top.outputs_of(self, X, rows, hidden)

    def _check_parameters(self):
        if self.objective != "generative":
            super()._check_parameters()
            return
        check_parameters(self)
        self._check_layers()
        _label_top.check_generative(self)

    @property
    def _takes_minibatches(self):
        # (A net whose top knows the labels has no solver.)
        return self.objective == "generative" or super()._takes_minibatches

    def _structure(self):
        return {"objective": repr(self.objective)} | super()._structure()

    @property
    def _n_features_out(self):
        return len(self.intercepts_[-1 if _label_top.is_generative(self) else -2])

    def _check_restored(self):
        super()._check_restored()
        if _label_top.is_generative(self):
            _label_top.check_shapes(self)

    def _initialise(self, *given):
        for name in _label_top.ATTRIBUTES:
            self.__dict__.pop(name, None)
        super()._initialise(*given)
