"""Deep belief networks."""

import time
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from .._callbacks import CallbackSupportMixin, begin_fit, with_callbacks
from .._keeping import check_finite, undo_if_nothing_learned, until_checked
from .._parameters import Interval, StrOptions, TupleOf, check_parameters
from .._training import SCHEDULES, epoch_order, minibatch_rates
from .._validation import check_rows
from ..monitoring import enter_epoch, machine_in_words
from ._columns import all_bits
from ._faults import warn_of_constant_top
from ._fitted_dbn import FittedDBN
from ._sampling import UP_DOWN_KEY
from ._stack import (
    LayerTasks,
    encoder,
    joined_history,
    new_stack,
    pretrain,
    restore,
    states_of,
)
from ._structure import (
    LAYER_SIZES,
    check_structure,
    layer_sizes,
    sizes_in_words,
    visible_in_words,
)
from ._unit_columns import VISIBLE
from ._up_down import UpDown
from ._upper_rbm import UpperRBM


class DBNTransformer(CallbackSupportMixin, FittedDBN):
    """Deep belief network (DBN).

    Layers of binary hidden units h1, h2, ... above the visible units v. The two
    layers at the top are a restricted Boltzmann machine, from which the others follow
    downwards: ``p(v, h1, ..., hL) = p(v | h1) p(h1 | h2) ... p(h(L-1), hL)``, where
    units of a layer are independent given the layer above. Trained greedily [1]_:
    a machine learns the data, the next one the states of its hidden units, which are
    drawn anew in every epoch, and so on up. The layers are found from data by one pass
    up, along recognition weights, which are those of the machines unless
    `up_down_n_iter` unties them.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(256, 256)
        Numbers of hidden units, from the bottom up.

    visible : str, Unit or list of (columns, str or Unit), default="bernoulli"
        What the features are, as in `RBM`: "bernoulli" (values in [0, 1]),
        "gaussian" (real, with a variance that is learned for each), and others.

    learning_rate : float, tuple of float or None, default=None
        Size of a step along the gradient of the mean log-likelihood (in nats) of
        a minibatch; in a tuple one for every layer, from the bottom up. None is what
        it is in `RBM` (0.1 for hidden layers), and 0.003 (in `partial_fit` 0.01) for
        machines that start as the one below turned upside down.

    batch_size : int, default=10
        Number of rows in a minibatch.

    n_iter : int, tuple of int or None, default=None
        Number of epochs of every layer; in a tuple one for every layer. None is what it
        is in `RBM` for the first layer, and for those above 60 of 1 000 rows or fewer,
        ``60 000 / n_samples`` of more, but at least 10.

    n_gibbs_steps : int, default=1
        Gibbs sweeps of the chains for each minibatch.

    persistent : bool, default=True
        Whether the chains go on from where the last minibatch left them (PCD) or
        start at the rows of the minibatch (CD).

    momentum : float, default=0.0
        Share of the last step's velocity in the next one, in [0, 1).

    weight_decay : float, default=0.0
        Strength of the L2 penalty on the weights.

    centering : bool, default=True
        Whether to follow the centred gradient.

    init : {"auto", "random", "transposed"}, default="auto"
        What the machines above the first one start from: random weights, or the machine
        below turned upside down, its weights transposed and its biases exchanged. That
        leaves the model of the data as it is, and the bound on its likelihood tight
        [2]_; what the second machine learns from there on raises the bound (what those
        further up learn need not). It takes hidden layers with at least as many units
        as the layer two below has (surplus units start almost independent of the
        others), and Bernoulli visible units. "auto" is "transposed" for the
        layers of which that is true, and "random" for others. A layer that begins
        turned upside down says at first what the one two below says: for features,
        "random", or `output` "all", may be much better.

    learning_rate_schedule : {"constant", "linear"} or None, default=None
        "linear" lets learning rates fall to zero over the epochs of every layer
        and over those of the up-down algorithm. None is what it is in `RBM` for the
        first layer, "linear" for those above, and "constant" for the up-down algorithm.

    output : {"top", "all"}, default="top"
        Whether `transform` returns the means of the top layer or of all hidden
        layers, side by side from the bottom up.

    up_down_n_iter : int, default=0
        Number of epochs of the up-down algorithm [2]_ after the greedy ones in
        `fit`: contrastive wake-sleep, which trains all layers together.

    up_down_learning_rate : float, default=0.01
        Size of its steps.

    warm_start : bool, default=False
        Whether `fit` goes on from the last fit: `n_iter` more epochs of every layer,
        from the bottom up, and then the up-down algorithm; or, of a model that it has
        trained before, which has left the machines behind, that alone.

    verbose : int, default=0
        If not 0, print a line an epoch. Never changes the model.

    random_state : int, RandomState instance or None, default=None
        Seeds the initial weights, the order of the rows and all sampling. An int
        gives the same model bit for bit, on any number of threads.

    Attributes
    ----------
    components_ : list of ndarray of shape (n_units_above, n_units_below)
        Generative weights from the bottom up; the last are those of the machine
        at the top.

    intercepts_ : list of ndarray of shape (n_units,)
        Biases of every layer on the way down, the visible layer first; the last
        are those of the top layer.

    recognition_components_ : list of ndarray of shape (n_units_above, n_units_below)
        Weights of the way up: equal to `components_` unless untied.

    recognition_intercepts_ : list of ndarray of shape (n_units,)
        Biases of the hidden layers on the way up. The last is that of the top layer,
        whose machine it belongs to: the same array as the last of `intercepts_`, in
        place of which it is used.

    variance_ : ndarray of shape (n_visible,)
        Variances of Gaussian visible units given the layer above; 1 for others. Not
        with Bernoulli visible units. On the way up Gaussian values are divided by
        their variance.

    n_categories_ : ndarray of int of shape (n_features,)
        Numbers of categories of features that hold codes, 0 for others. Not with
        Bernoulli visible units.

    visible_mean_ : ndarray of shape (n_visible,)
        Mean of the training data.

    n_iter_ : int
        Number of epochs since the parameters were initialised, over all layers.

    history_ : dict of list
        For every epoch, in the order of training: "layer" (from 1; 0 stands for the
        up-down algorithm, which trains all), "learning_rate", "seconds",
        "weight_norm" of that layer's weights, and more if `verbose` asks for it.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    See Also
    --------
    BernoulliRBM : One layer, with more options of training.
    RBM : One layer, of features of any kind.

    Notes
    -----
    With one hidden layer this is an `RBM`; with more, `score_samples` is a lower bound
    on the log-likelihood, by an estimate of the partition function [3]_. bool, uint8
    and CSR data are used as they are. Training keeps, for all rows, the means of two
    hidden layers at a time and the states of one. A fit takes no `sample_weight`.

    References
    ----------
    .. [1] G. E. Hinton, R. Salakhutdinov, "Reducing the dimensionality of data with
       neural networks", Science 313, 2006.
    .. [2] G. E. Hinton, S. Osindero, Y.-W. Teh, "A fast learning algorithm for deep
       belief nets", Neural Computation 18, 2006.
    .. [3] R. Salakhutdinov, I. Murray, "On the quantitative analysis of deep belief
       networks", ICML 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_ebm import DBNTransformer
    >>> X = load_digits().data / 16
    >>> dbn = DBNTransformer((40, 20), n_iter=3, random_state=0).fit(X)
    >>> dbn.transform(X).shape
    (1797, 20)
    >>> [weights.shape for weights in dbn.components_]
    [(40, 64), (20, 40)]
    """

    _parameter_constraints: dict = {
        "hidden_layer_sizes": LAYER_SIZES,
        "visible": VISIBLE,
        "learning_rate": [
            Interval(Real, 0, None, closed="neither"),
            TupleOf(Real, 0, None, closed="neither"),
            None,
        ],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [
            Interval(Integral, 0, None, closed="left"),
            TupleOf(Integral, 0, None, closed="left"),
            None,
        ],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
        "persistent": ["boolean"],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "centering": ["boolean"],
        "init": [StrOptions({"auto", "random", "transposed"})],
        "learning_rate_schedule": [StrOptions(set(SCHEDULES)), None],
        "output": [StrOptions({"top", "all"})],
        "up_down_n_iter": [Interval(Integral, 0, None, closed="left")],
        "up_down_learning_rate": [Interval(Real, 0, None, closed="neither")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        hidden_layer_sizes=(256, 256),
        *,
        visible="bernoulli",
        learning_rate=None,
        batch_size=10,
        n_iter=None,
        n_gibbs_steps=1,
        persistent=True,
        momentum=0.0,
        weight_decay=0.0,
        centering=True,
        init="auto",
        learning_rate_schedule=None,
        output="top",
        up_down_n_iter=0,
        up_down_learning_rate=0.01,
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.visible = visible
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.n_gibbs_steps = n_gibbs_steps
        self.persistent = persistent
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.centering = centering
        self.init = init
        self.learning_rate_schedule = learning_rate_schedule
        self.output = output
        self.up_down_n_iter = up_down_n_iter
        self.up_down_learning_rate = up_down_learning_rate
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    # ---- Training ----

    @undo_if_nothing_learned
    @with_callbacks
    def fit(self, X, y=None):
        """Fit the model to the data X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError
            If parameters are not allowed, or do not fit each other or the data (tuples:
            a number for every hidden layer); X is not a matrix of finite numbers; with
            `warm_start`, X or parameters do not fit the model so far; or training
            diverges, which leaves the estimator as it was.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If X has values that the visible units cannot represent: those of Bernoulli
            units lie in [0, 1].
        ConvergenceWarning
            If over 5 % of the units of a hidden layer are dead or saturated after its
            training (unless it began as the one below turned upside down), or in the
            end none of the top layer tells rows apart; or if counts can grow without
            bounds.
        """
        self._check_parameters()
        goes_on = self.warm_start and hasattr(self, "_stack")
        together = goes_on and self._untied
        if together and not self.up_down_n_iter:
            raise ValueError(
                "up_down_n_iter=0 does not fit the model that training goes on from: "
                "the up-down algorithm has untied its weights, and only that goes on."
            )
        given = X, y
        rbms, X = self._begin(X, goes_on, together)
        task = begin_fit(self, len(rbms) + bool(self.up_down_n_iter), *given)
        tasks = LayerTasks(task)
        self._train_layers(rbms, X, goes_on, tasks)
        if self.up_down_n_iter and not tasks.stopped:
            n_epochs = self.up_down_n_iter
            part = task.part("up-down", n_epochs)
            self._train_up_down(X, n_epochs, part.parts("up-down epoch", n_epochs))
            part.end()
        if self.n_iter is None or np.any(self.n_iter):
            warn_of_constant_top(self, X)
        task.end(dict)
        return self

    @undo_if_nothing_learned
    def partial_fit(self, X, y=None):
        """Train every layer on one pass over the minibatches of a part of the data.

        The layers take their turns from the bottom up, each on states that are drawn
        from the layers below it as they are by then. If `up_down_n_iter` is not 0, that
        is what the first call does, and later ones do a pass of the up-down algorithm,
        which trains all layers together; and so do calls after a `fit` that used it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, any number of rows.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError, TypeError
            As in `fit`; X and parameters have to fit the model so far in any case.

        Warns
        -----
        UserWarning
            As in `fit`.
        """
        self._check_parameters()
        goes_on = hasattr(self, "_stack")
        together = goes_on and (self.up_down_n_iter or self._untied)
        rbms, X = self._begin(X, goes_on, together)
        if together:
            self._train_up_down(X, 1, range(1))
        else:
            self._train_layers(rbms, X, goes_on, LayerTasks(), "partial_fit")
        return self

    def fit_transform(self, X, y=None):
        """Fit the model to the data X and transform it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        h : ndarray of shape (n_samples, n_features_out)
            What `transform` returns.

        Raises
        ------
        ValueError, TypeError
            As in `fit`.
        """
        return self.fit(X)._transform(X, quiet=True)

    @property
    def _hidden_sizes(self):
        return layer_sizes(self.hidden_layer_sizes)

    def _check_parameters(self):
        check_parameters(self)
        if self.up_down_n_iter and len(self._hidden_sizes) == 1:
            raise ValueError(
                f"up_down_n_iter={self.up_down_n_iter!r} takes at least two hidden "
                f"layers, got hidden_layer_sizes={self.hidden_layer_sizes!r}."
            )
        if self.init == "transposed" and not all_bits(self.visible):
            raise ValueError(
                "init='transposed' takes visible='bernoulli', got "
                f"visible={self.visible!r}."
            )

    @property
    def _untied(self):
        """Whether the up-down algorithm has left the machines behind."""
        # (Also in an epoch that was interrupted, which is not in the history.)
        return self._up_down_step > 0

    def _begin(self, X, goes_on, together):
        """Check the data; the machines to train, none if all are trained `together`."""
        if goes_on:
            check_structure(self, self._fitted_structure())
        if together:
            X, _ = self._check_use(X)
            return [], X
        rbms = self._new_stack()
        # The machine of the first layer will warn of values out of range.
        X, _ = check_rows(self, X, reset=not goes_on, quiet=True)
        # (It gets an array, which has no names.)
        rbms[0].visible = self._numbered_visible()
        if goes_on:
            restore(rbms, self._stack)
        elif self.init == "transposed":
            self._check_room(X.shape[1])
        if self.init != "random":
            sizes = [X.shape[1], *self._hidden_sizes]
            for k in range(1, len(rbms)):
                bits = k > 1 or all_bits(self.visible)
                if bits and sizes[k + 1] >= sizes[k - 1]:
                    rbms[k].below = rbms[k - 1]
        return rbms, X

    def _check_room(self, n_visible):
        """Refuse layers that are too small for the weights from below, transposed."""
        sizes = self._hidden_sizes
        for number, (least, size) in enumerate(
            zip([n_visible, *sizes], sizes[1:], strict=False), start=2
        ):
            if size < least:
                raise ValueError(
                    "init='transposed' takes hidden layers with at least as many units "
                    f"as the layer two below; in hidden_layer_sizes="
                    f"{self.hidden_layer_sizes!r} layer {number} has {size}, and that "
                    f"one has {least}."
                )

    def _train_layers(self, rbms, X, goes_on, tasks, method="fit"):
        """Train machines one by one, if there are any, and keep what they learn."""
        try:
            pretrain(rbms, X, tasks, method)
        finally:
            if rbms and rbms[-1].__sklearn_is_fitted__():
                # Also when interrupted: what has been learned is kept.
                self._store(rbms, goes_on)

    def _new_stack(self):
        return new_stack(
            self,
            self._hidden_sizes,
            check_random_state(self.random_state),
            learning_rate=self.learning_rate,
            n_iter=self.n_iter,
            upper=UpperRBM,
            batch_size=self.batch_size,
            n_gibbs_steps=self.n_gibbs_steps,
            persistent=self.persistent,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            centering=self.centering,
            learning_rate_schedule=self.learning_rate_schedule,
            warm_start=self.warm_start,
        )

    def _structure(self):
        """What the model is made of (see `check_structure`)."""
        return {
            "hidden_layer_sizes": sizes_in_words(self.hidden_layer_sizes),
            "visible": visible_in_words(self),
        }

    def _fitted_structure(self):
        sizes = [len(weights) for weights in self.components_]
        first = self._stack[0]["_state"]["structure"]
        return {
            "hidden_layer_sizes": sizes_in_words(sizes),
            "visible": first["visible"],
        }

    def _store(self, rbms, goes_on):
        """Keep what machines have learned, and what they need to go on."""
        first, top = rbms[0], rbms[-1]
        history = joined_history(self.history_ if goes_on else {}, rbms)
        fitted = {
            "components_": [rbm.components_ for rbm in rbms],
            "intercepts_": [
                *(rbm.intercept_visible_ for rbm in rbms),
                top.intercept_hidden_,
            ],
            "recognition_components_": [rbm.components_ for rbm in rbms],
            "recognition_intercepts_": [rbm.intercept_hidden_ for rbm in rbms],
            "visible_mean_": first.visible_mean_,
            "n_iter_": len(history["layer"]),
            "history_": history,
            "_stack": states_of(rbms),
            "_sampling_key": top._sampling_key,
        }
        if not goes_on:
            fitted |= {"_sampling_step": 0, "_up_down_step": 0}
        for name in ("variance_", "n_categories_"):
            self.__dict__.pop(name, None)
        if not first._bits:
            fitted["variance_"] = first.variance_
            fitted["n_categories_"] = first.n_categories_
        self.__dict__.update(fitted)

    def _train_up_down(self, X, n_epochs, epochs):
        """Train all layers together, and keep what they have come to."""
        first, key = self._rbm(0), self._stack[-1]["_state"]["key"] ^ UP_DOWN_KEY
        run = UpDown.of(first, self, key, self._up_down_step)
        encode, n_rows = encoder(first), X.shape[0]
        n_batches = -(-n_rows // self.batch_size)
        # (Within a single epoch, a pass of `partial_fit` say, no rate is to fall.)
        schedule = self.learning_rate_schedule if n_epochs > 1 else None
        schedule = schedule or "constant"
        try:
            for epoch in epochs:
                begin, error = time.perf_counter(), 0.0
                rates = minibatch_rates(
                    self.up_down_learning_rate, schedule, epoch, n_epochs, n_batches
                )
                order = epoch_order(n_rows, key, run.step)
                batches = np.array_split(order, n_batches)
                with until_checked():
                    for rate, rows in zip(rates, batches, strict=True):
                        loss = run.minibatch(encode(X[rows]), rate)
                        error += loss * len(rows) / n_rows
                    norms = run.weight_norms()
                check_finite(sum(norms), rates[0])
                entry = {
                    "layer": 0,
                    "learning_rate": float(rates[0]),
                    "seconds": time.perf_counter() - begin,
                    "weight_norm": norms[0],
                }
                if self.verbose:
                    entry["reconstruction_error"] = error
                enter_epoch(self, entry, machine_in_words)
        finally:
            # Also when interrupted: what has been learned is kept.
            self.__dict__.update(run.fitted(), _up_down_step=run.step)
