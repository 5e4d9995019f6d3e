"""Deep belief nets that are fine-tuned to predict numbers."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, column_or_1d

from .._network import Linear
from .._validation import check_given, naming, or_more_digits, refuse_times_and_masks
from ..boltzmann._visible_scales import FEW_ROWS, beyond_rounding
from ._trainable_net import TrainableNet, partial_fit_available


class DBNRegressor(RegressorMixin, TrainableNet):
    """Deep belief net, fine-tuned by back-propagation to predict numbers.

    A net of logistic hidden layers with linear outputs. Its hidden layers start from a
    stack of restricted Boltzmann machines, of which the first learns the features and
    each of the others the hidden units of the one below, without targets [1]_ [2]_.
    Then all of the net is trained to least squared error.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(256, 256)
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
        Number of rows in a minibatch of the pretraining.

    pretrain_n_iter : int, tuple of int or None, default=None
        Number of epochs of the pretraining; in a tuple one number for every hidden
        layer. None takes 60 for 1 000 rows or fewer, and for more rows fewer, but at
        least 10.

    solver : {"sgd", "adam", "lbfgs"}, default="adam"
        How the net is fine-tuned: by stochastic gradient descent with momentum; by
        Adam [3]_; or by L-BFGS on all rows at once, for small data.

    learning_rate : float or None, default=None
        Size of a step. None takes 0.01 for "sgd", or 2.5 divided by the units of the
        widest hidden layer where that is less, and 0.003 for "adam".

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

    weight_decay : float, default=0.0
        Strength of the penalty ``weight_decay / 2 * sum w^2`` over all weights, which
        is added to the loss. Features that are not all in [0, 1], or one of which
        hardly varies there, are standardised for the net: it is their weights that
        this penalty and `max_norm` are of.

    input_dropout : float, default=0.0
        Share of the features that are dropped, at random for every row and step [4]_;
        the others are scaled up, so that nothing needs to be scaled afterwards.

    dropout : float, default=0.0
        The same for the units of each hidden layer.

    max_norm : float or None, default=None
        Largest Euclidean norm of the weights that lead to a unit: after each step,
        longer ones are scaled back to it. None sets no limit.

    early_stopping : bool, default=False
        Whether `fit` holds some rows out, watches the R² score on them after every
        epoch of the fine-tuning, and stops when it has not improved for
        `n_iter_no_change` epochs. The fitted parameters are then those of the best
        epoch of the call; with `warm_start`, training goes on from those of the last
        one, for a best epoch of its own. The pretraining sees the features of all
        rows. `partial_fit` does not support it.

    validation_fraction : float, default=0.1
        Share of the rows that `early_stopping` holds out, by a
        permutation drawn from `random_state`; the same ones when `fit` goes on with
        the same data.

    n_iter_no_change : int, default=10
        Number of epochs in a row without progress after which an early-stopped fit
        ends.

    tol : float, default=1e-4
        By how much an epoch has to beat the best one to count as progress. "lbfgs"
        stops where no derivative of the objective is larger.

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
        What the outputs are: "identity".

    n_iter_ : int
        Number of epochs (for "lbfgs", of iterations) of fine-tuning since the
        parameters were initialised.

    history_ : dict of list
        For every epoch: "learning_rate" (of its first minibatch; not for "lbfgs"),
        "seconds" of training, "loss" (half the squared error of targets with mean 0
        and variance 1, summed over the outputs, and the penalty; the mean over the
        training rows, each as it was just before the step that it contributed to). With
        `early_stopping` also "validation_r2", of the rows held out. NaN where there is
        no such number.

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
    DBNClassifier : The same for labels.
    sklearn.neural_network.MLPRegressor : A net without pretraining.

    Notes
    -----
    Targets are standardised for the training, and the last layer of the fitted net
    undoes it. Calls of `partial_fit` find mean and variance anew, of the first 100 rows
    and those of the call, until there are 100 that vary; then, and after a `fit`, both
    stay as they are. bool, uint8 and CSR data are used as they are, and made dense a
    minibatch at a time. A fit takes no `sample_weight`, since stochastic steps on a
    weighted row are not the same as a repeated row.

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
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import minmax_scale
    >>> from sklearn_ebm import DBNRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DBNRegressor((20,), random_state=0).fit(minmax_scale(X), y)
    >>> model.predict(minmax_scale(X)).shape
    (442,)
    """

    _watched = "r2"
    _learning_rates = {"sgd": 0.01, "adam": 0.003}
    # Longer steps against what all units of a wide layer share would overshoot.
    _wide = 2.5

    def __init__(
        self,
        hidden_layer_sizes=(256, 256),
        *,
        visible="bernoulli",
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
        weight_decay=0.0,
        input_dropout=0.0,
        dropout=0.0,
        max_norm=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
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
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @partial_fit_available
    def partial_fit(self, X, y):
        """Train the net on one pass over the rows of X, in minibatches.

        The first call pretrains the net on the rows that it is given.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, any number of rows.

        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.

        Returns
        -------
        self : DBNRegressor
            The fitted model.

        Raises
        ------
        AttributeError
            If `solver` is "lbfgs", which does not learn from minibatches.
        ValueError
            As in `fit`; X, `y` and parameters have to fit the model so far in any case,
            and ``early_stopping=True`` is an error.
        TypeError
            As in `fit`.

        Warns
        -----
        UserWarning, ConvergenceWarning, DataConversionWarning
            As in `fit`.
        """
        return self._one_pass(X, y)

    # ---- Use ----

    def predict(self, X):
        """Predict the targets of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions, in one dimension if the targets were.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.
        """
        found = self._outputs(X)
        return found[:, 0] if self._state["one_column"] else found

    # ---- Targets ----

    def _check_targets(self, y):
        check_given(self, y)
        refuse_times_and_masks(y, "y")
        with naming("y"):
            if not sp.issparse(y) and np.asarray(y).ndim == 0:
                raise ValueError(f"y should be a 1d or 2d array, got {y!r} instead.")
            y = check_array(
                y, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y"
            )
        return column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y

    def _first_targets(self, y, classes):
        """Return the part of the state that says what the targets are."""
        values = y.reshape(len(y), -1).astype(np.float64)
        return _scale_of(values) | {
            "one_column": y.ndim == 1,
            "n_outputs": values.shape[1],
        }

    def _first_params(self, rows, state, rng):
        params = super()._first_params(rows, state, rng)
        # Of a target that does not vary the net says the mean, exactly.
        params[-2][:, np.ptp(state["first_targets"], axis=0) == 0] = 0
        return params

    def _settle(self):
        state = self._state
        varied = np.ptp(state["first_targets"], axis=0) > 0
        self._state = state | {"y_known": state["y_known"] | varied}

    def _take_in(self, targets):
        """Return targets in the scale that they and the first rows together have.

        One row, or a few, do not say it; a `fit` settles it, unless its targets were
        constant. Parameters are those of standardised targets, and stay what they are.
        """
        state = self._state
        mean, scale, known = (state[k] for k in ("y_mean", "y_scale", "y_known"))
        if known.all():
            return targets
        values = targets.astype(np.float64) * scale + mean
        found = _scale_of(np.concatenate([state["first_targets"], values]))
        mean = np.where(known, mean, found["y_mean"])
        scale = np.where(known, scale, found["y_scale"])
        known = known | found["y_known"]
        found |= {"y_mean": mean, "y_scale": scale, "y_known": known}
        self._state = state | found
        return ((values - mean) / scale).astype(targets.dtype)

    def _check_range(self, y, targets, dtype):
        largest, most = np.abs(y).max(), np.finfo(dtype).max
        if largest > most:
            raise ValueError(
                f"y holds values up to {largest:.3g} in size, but those of {dtype} are "
                f"at most {most:.3g}. Scale y{or_more_digits('X', dtype)}."
            )
        largest = np.abs(targets).max()
        if largest > most:
            raise ValueError(
                f"y holds values up to {largest:.3g} in size in the scale of the first "
                f"targets, by which the net standardises all, but those of {dtype} are "
                f"at most {most:.3g}. Scale y, or fit a new model."
            )

    def _targets(self, y, state):
        """Standardised targets of all rows, and that they are known."""
        values = y.reshape(len(y), -1).astype(np.float64)
        if values.shape[1] != state["n_outputs"]:
            raise ValueError(
                f"y has {values.shape[1]} outputs, but the model that training goes on "
                f"from has {state['n_outputs']}."
            )
        with np.errstate(over="ignore"):  # `_check_range` says so
            values = (values - state["y_mean"]) / state["y_scale"]
        return values, np.ones(len(y), bool)

    def _divide(self, known, key, targets):
        division = super()._divide(known, key)
        if len(division.held_out) == 1:
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} holds out one of "
                f"{len(known)} rows, but R^2 needs at least two held-out rows."
            )
        return division

    def _public(self, params, state):
        """Attributes of the net whose outputs are not standardised."""
        public = super()._public(params, state)
        weights, bias = params[-2], params[-1]
        mean, scale = state["y_mean"], state["y_scale"]
        public["coefs_"][-1] = (weights * scale).astype(weights.dtype)
        public["intercepts_"][-1] = (bias * scale + mean).astype(bias.dtype)
        return public

    def _output(self, state):
        return Linear()

    def _validation(self, fields, targets):
        return {"validation_r2": float(r2_score(targets, fields))}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _scale_of(values):
    """Mean and standard deviation of the first targets, and whether they are known."""
    # In a unit, a power of two, in which no square overflows or is lost.
    unit = np.ldexp(1.0, np.frexp(np.abs(values).max(axis=0))[1] - 1)
    mean, variance = (values / unit).mean(axis=0), (values / unit).var(axis=0)
    scale = np.sqrt(beyond_rounding(variance, len(values), mean)) * unit
    constant = np.ptp(values, axis=0) == 0
    return {
        "y_mean": np.where(constant, values[0], mean * unit),
        "y_scale": np.where(scale > 0, scale, 1.0),
        "y_known": (len(values) >= FEW_ROWS) & (scale > 0),
        "first_targets": values[:FEW_ROWS].copy(),
    }
