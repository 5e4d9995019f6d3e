"""Nets that are pretrained as a stack of RBMs and fine-tuned by back-propagation."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length

from .._callbacks import CallbackSupportMixin, begin_fit, with_callbacks
from .._descent import Adam, Descent, Momentum
from .._keeping import keeping, undo_if_nothing_learned
from .._machines import some_rows, weighted_sums
from .._network import Dropout, outputs
from .._parameters import Interval, StrOptions, TupleOf, check_parameters
from .._rows import Rows
from .._stopping import STOPPING_CONSTRAINTS, Stopping
from .._training import (
    SCHEDULES,
    KnownDivision,
    epochs_of,
    minibatch_rates,
    refuse_early_stopping,
    share_held_out,
)
from .._validation import are_shares, dense, random_key, title
from ..boltzmann._faults import REAL_FEATURES, warn_of_constant_units
from ..boltzmann._labels import no_label
from ..boltzmann._stack import (
    STACK_EPOCHS,
    LayerTasks,
    new_stack,
    one_a_layer,
    pretrain,
    recognition,
)
from ..boltzmann._standardised import (
    Moments,
    Standardised,
    for_inputs,
    for_standardised,
    standard_of,
)
from ..boltzmann._structure import (
    LAYER_SIZES,
    check_structure,
    layer_sizes,
    sizes_in_words,
)
from ..boltzmann._visible_scales import column_variances
from ..monitoring import enter_epoch
from ._fine_tuning_run import FineTuning
from ._fitted_net import FittedNet
from ._net_starts import hold_fields, random_params, spread_fields

# How the stack is trained, beside what the user says. Without centering, hidden units
# are sparser where features are mostly off. Contrastive divergence gives features that
# say more of the rows than persistent chains do. Both lower the error that a net makes
# from the same labels.
PRETRAINING = {
    "centering": False,
    "persistent": False,
    "learning_rate_schedule": "constant",
}
# But they are centred where variances of inputs are less than this share of their
# squared means: they would learn little but the means, and their units may die of it.
# (A bit that is mostly on counts as flipped, so that bits never are such inputs.)
MOSTLY_MEAN = 0.4
# Epochs of the fine-tuning, where no number is given: the least, the most, and of how
# many rows at most these are (see `epochs_of`). More of many rows make nets too sure.
EPOCHS = 20, 100, 7000
# Standard deviation of the activities of units below which training has lost a net. (A
# net that works may have small ones, and large weights above.)
DEAD = 1e-4


def _centre_if_mostly_mean(rbm, X):
    """Centre a machine whose inputs vary little beside their means."""
    if rbm.visible != "bernoulli":  # others have a scale and an origin of their own
        return
    means = Rows(X).column_means
    rarer = np.minimum(means, 1 - means)
    variances = column_variances(X, X.shape[0], means)
    rbm.centering = bool(variances.sum() < MOSTLY_MEAN * np.square(rarer).sum())


def _takes_steps(estimator):
    """Whether there is a `partial_fit`; if not, the error that says why."""
    if not estimator._takes_minibatches:
        raise AttributeError(
            "partial_fit needs a solver that learns from minibatches, not 'lbfgs'."
        )
    return True


partial_fit_available = available_if(_takes_steps)


class TrainableNet(CallbackSupportMixin, FittedNet):
    """The training of a pretrained net.

    An estimator that derives from it has the parameters below and says what its
    targets are: `_check_targets`, and `_first_targets` and `_targets`, which take what
    that returns; `_output`, `_validation`; `_watched`, the number that early stopping
    watches; and `_learning_rates`, by solver, where none is given, with `_wide`, by
    which that of "sgd" falls with the units of a layer. What becomes of targets as
    training goes on it may say, too (see "Targets" below).

    Training goes on from the dict `_state`, which is replaced as a whole, never changed
    in place once a net has started. It holds

    - "params" (of a `Network` ``[weights, bias, weights, bias, ...]``), for inputs and
      targets as the net is given them; "found", whether the pretraining has found
      what the first layer needs (`spread_fields`); "standard", by which inputs are
      standardised, or None; and "constants", features that have not varied so far
      and their values, or None,
    - what `_first_targets` says of the targets, among it "n_outputs",
    - "key" and "step", which say what random numbers come next, "stack_seed", from
      which those of the pretraining come, and "structure",
    - what steps remember: "adam" or "velocity", and "offsets" (`_centred`).
    """

    _parameter_constraints: dict = {
        "hidden_layer_sizes": LAYER_SIZES,
        "visible": [StrOptions({"bernoulli", "gaussian"})],
        "pretrain": ["boolean"],
        "pretrain_learning_rate": [
            Interval(Real, 0, None, closed="neither"),
            TupleOf(Real, 0, None, closed="neither"),
        ],
        "pretrain_batch_size": [Interval(Integral, 1, None, closed="left")],
        "pretrain_n_iter": [
            Interval(Integral, 0, None, closed="left"),
            TupleOf(Integral, 0, None, closed="left"),
            None,
        ],
        "solver": [StrOptions({"sgd", "adam", "lbfgs"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "learning_rate_schedule": [StrOptions(set(SCHEDULES))],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 0, None, closed="left"), None],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "nesterov": ["boolean"],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "input_dropout": [Interval(Real, 0, 1, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "max_norm": [Interval(Real, 0, None, closed="neither"), None],
        **STOPPING_CONSTRAINTS,
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    # Whether rows without a target are trained on, too.
    _trains_on_all = False

    # ---- Training ----

    @undo_if_nothing_learned
    @with_callbacks
    def fit(self, X, y):
        """Pretrain the net with the data X, and fine-tune it to the targets y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.

        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets: labels for a classifier, numbers for a regressor.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError
            If parameters are not allowed, or do not fit each other; X is not a matrix
            of finite numbers (``objective="multi_prediction"`` takes NaN, in a dense
            array); `y` is of another length, or not of labels of one type or of finite
            numbers that the net can hold; too few rows are held out or left to train
            on; with `warm_start`, X, `y` or parameters do not fit the model so far; or
            training diverges, which leaves the estimator as it was.
        TypeError
            If X, or numbers in `y`, are dates or times, or `y` is sparse.

        Warns
        -----
        UserWarning
            If X has values outside [0, 1], and a new model trains Bernoulli units with
            them; or if no label is the mark `unlabeled` of a classifier.
        ConvergenceWarning
            If over 5 % of the units of a layer of a pretrained stack are dead or
            saturated, or in the end no unit of the last hidden layer tells rows apart.
        DataConversionWarning
            If `y` is a matrix of one column.
        """
        self._check_parameters()
        goes_on = self.warm_start and hasattr(self, "_state")
        given = X, y
        X, targets, division = self._begin(X, y, None, goes_on)
        if len(division.training) == 0:
            name = type(self).__name__
            raise no_label(self, f", from which {name} cannot learn anything more")
        if goes_on and self.n_iter == 0:
            return self
        if goes_on:
            self._wake(X, division)
            self._reweigh(targets)
        n_rows = len(division.training)
        n_epochs = self._n_epochs(n_rows)
        n_parts = n_epochs if goes_on else self._n_machines_before + n_epochs
        task = begin_fit(self, n_parts, *given)
        if not goes_on:
            self._start(X, division, task)
            self._settle()
        run = self._run(X, targets, division, self._decays(n_rows))
        with keeping(self, run):
            self._fine_tune(run, task, n_epochs)
        if n_epochs:
            self._warn_of_faults(X)
        task.end(dict)
        return self

    @undo_if_nothing_learned
    def _one_pass(self, X, y, classes=None):
        """Train on one pass over minibatches, as `partial_fit`."""
        self._check_parameters()
        refuse_early_stopping(self)
        goes_on = hasattr(self, "_state")
        X, targets, division = self._begin(X, y, classes, goes_on)
        if goes_on:
            self._wake(X, division)
            targets = self._take_in(targets)
        else:
            self._start(X, division)
        if len(division.training) == 0:
            # An epoch without a minibatch leaves the net as it is.
            rate = float(self._rate())
            entry = {"learning_rate": rate, "seconds": 0.0, "loss": np.nan}
            enter_epoch(self, entry, _in_words)
            return self
        # (How many rows there will be, a call does not know.)
        run = self._run(X, targets, division, self._decays(np.inf))
        with keeping(self, run):
            entry = run.epoch(np.full(run.n_batches, self._rate()))
            enter_epoch(self, entry, _in_words)
        return self

    def _check_parameters(self):
        check_parameters(self)
        self._check_layers()
        for name in ("dropout", "input_dropout", "max_norm"):
            if self._solver == "lbfgs" and getattr(self, name):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs solver='sgd' or 'adam': "
                    "'lbfgs' minimises a function that stays the same."
                )

    def _check_layers(self):
        """Refuse tuples of other lengths than there are hidden layers."""
        for name in ("pretrain_learning_rate", "pretrain_n_iter"):
            one_a_layer(getattr(self, name), len(self._hidden_sizes), name)

    def _structure(self):
        """What the net is made of (see `check_structure`)."""
        return {
            "hidden_layer_sizes": sizes_in_words(self.hidden_layer_sizes),
            "visible": repr(self.visible),
        }

    @property
    def _hidden_sizes(self):
        return layer_sizes(self.hidden_layer_sizes)

    def _entries(self):
        """Names of what is known of every epoch."""
        steps = [] if self._solver == "lbfgs" else ["learning_rate"]
        return [*steps, "seconds", "loss"]

    @property
    def _solver(self):
        return self.solver

    @property
    def _takes_minibatches(self):
        return self._solver != "lbfgs"

    def _rate(self):
        if self.learning_rate is None:
            rate = self._learning_rates[self._solver]
            if self._solver == "sgd":
                rate = min(rate, self._wide / max(self._hidden_sizes))
            return rate
        return float(self.learning_rate)

    def _begin(self, X, y, classes, goes_on):
        """Check the data; begin with new parameters, or go on with those there are.

        Returns X, the targets of all rows, and which rows are trained on.
        """
        checked = self._check_targets(y)
        if goes_on:
            check_structure(self, self._state["structure"])
        X, rows = self._read(X, reset=not goes_on)
        check_consistent_length(X, y)
        rng = check_random_state(self.random_state)
        key = self._state["key"] if goes_on else random_key(rng)
        state = self._state if goes_on else self._first_targets(checked, classes)
        targets, known = self._targets(checked, state)
        division = self._divide(known, key, targets)
        if not goes_on:
            self._initialise(rows, state, key, rng)
        dtype = self._state["params"][0].dtype
        self._check_range(checked, targets, dtype)
        # (Classes have numbers.)
        targets = targets if targets.dtype == np.int32 else targets.astype(dtype)
        return X, targets, division

    def _initialise(self, rows, state, key, rng):
        """Parameters and random keys before the first epoch, not public yet."""
        state |= {"structure": self._structure(), "key": key, "step": 0}
        state["params"] = self._first_params(rows, state, rng)
        state["stack_seed"] = int(rng.randint(np.iinfo(np.int32).max))
        self.__dict__.pop("best_n_iter_", None)
        self.__dict__.update(
            _state=state,
            n_iter_=0,
            history_={name: [] for name in self._entries()},
            n_layers_=len(self._hidden_sizes) + 2,
            n_outputs_=state["n_outputs"],
            out_activation_=self._output(state).name,
        )

    def _divide(self, known, key, classes=None):
        """Return which rows are trained on and which held out: a share of each class.

        Targets of which none is a class are None.
        """
        fraction, others = share_held_out(self), self._trains_on_all
        return KnownDivision(known, fraction, key, "targets", others, classes)

    def _first_params(self, rows, state, rng):
        """Return the parameters of a new net, before the pretraining."""
        sizes = [rows.n_columns, *self._hidden_sizes, state["n_outputs"]]
        return random_params(sizes, rows.dtype, rng)

    @property
    def _n_machines_before(self):
        """How many machines are trained before the net."""
        return len(self._hidden_sizes) if self.pretrain else 0

    def _start(self, X, division, task=None):
        """Pretrain a new net, if it is to be, and make it the public one.

        Only then: data that the pretraining refuses leave the net that there was.
        """
        first = self._state["params"]
        standard = self._standard(X)
        try:
            if self.pretrain:
                self._pretrain(X, LayerTasks(task))
        finally:
            # (Also after an interrupt: training goes on with standardised inputs.)
            params = list(self._state["params"])
            if standard is not None and self.pretrain:
                params[:2] = for_standardised(*params[:2], standard)
            self._state |= {"standard": standard, "params": params}
        self._state["constants"] = self._first_constants(division.rows_of(X))
        self._spread(X, first)
        self._publish()

    def _wake(self, X, division):
        """Standardise features that vary for the first time, if that is needed.

        So far they were constants to the net, whose weights for them are as they began,
        and fit what they are from now on.
        """
        constants, standard = self._state.get("constants"), self._state.get("standard")
        if constants is None or not len(division.training):
            return
        rows = division.rows_of(X)
        if standard is None and are_shares(Rows(rows)):  # (as it began)
            return
        params, now = self._state["params"], Moments.of(rows)
        vary = now.vary(constants)
        if standard is None:
            standard = np.array([np.zeros(len(params[0])), np.ones(len(params[0]))])
            vary &= now.beyond_bits()[constants[0].astype(int)]
        if not vary.any():
            return
        woken, means = constants[0, vary].astype(int), constants[1, vary]
        # What they were stays in the fields, where it was not 0.
        inputs = (means - standard[0, woken]) / standard[1, woken]
        bias = params[1] + weighted_sums(params[0][woken].T, inputs)
        standard = standard.copy()
        standard[:, woken] = now.standard(len(params[0]))[:, woken]
        self._state = self._state | {
            "params": [params[0], bias.astype(params[1].dtype), *params[2:]],
            "standard": standard,
            "constants": constants[:, ~vary] if not vary.all() else None,
        }

    def _publish(self):
        """Make the parameters in the state the public ones."""
        self.__dict__.update(self._public(self._state["params"], self._state))

    def _pretrain(self, X, tasks):
        """Put what a stack of RBMs learns from X in place of the hidden layers."""
        rbms = new_stack(
            self,
            self._hidden_sizes,
            check_random_state(self._state["stack_seed"]),
            learning_rate=self.pretrain_learning_rate,
            n_iter=epochs_of(self.pretrain_n_iter, X.shape[0], *STACK_EPOCHS),
            batch_size=self.pretrain_batch_size,
            pretrains_net=True,
            **PRETRAINING,
        )
        try:
            pretrain(rbms, X, tasks, prepare=_centre_if_mostly_mean)
        finally:
            # An interrupted stack is as far as it got.
            if all(hasattr(rbm, "components_") for rbm in rbms):
                params = list(self._state["params"])
                params[:-2:2], params[1:-2:2] = recognition(rbms)
                dtype = params[-1].dtype
                params = [np.array(each, dtype, order="C") for each in params]
                self._state["params"] = params
                self._publish()

    def _warn_of_faults(self, X):
        """Warn if the last hidden layer hardly tells rows of the training apart."""
        network, params = self._network(self._state), self._params()
        warn_of_constant_units(
            f"last hidden layer of {title(self)}",
            lambda rows: outputs(network, params, self._inputs(rows), hidden=True),
            X,
            ["more epochs", REAL_FEATURES],
            DEAD,
        )

    def _spread(self, X, first):
        """Let hidden layers vary as those of a net must to learn, and no more."""
        inputs = some_rows(self._training_inputs(X))
        if self._state["standard"] is not None:
            hold_fields(first, inputs)
        if self.pretrain:
            reals_as_bits = self.visible == "bernoulli" and not are_shares(Rows(X))
            self._state["found"] = spread_fields(
                self._state["params"], first, inputs, reals_as_bits
            )

    @property
    def _centred(self):
        """Whether steps are those of a net whose units enter less their means.

        Adam moves all weights of a unit about equally far. What the inputs have in
        common moves the unit's field with all of these steps together, many times as
        far as what tells rows apart.
        """
        return self._solver == "adam"

    def _offsets(self, inputs):
        """Means of some inputs and of what hidden layers make of them now."""
        params = self._state["params"]
        inputs = dense(inputs, params[0].dtype)
        activities = self._network(self._state).forward(params, inputs)
        return [layer.mean(axis=0) for layer in activities[:-1]]

    def _standard(self, X):
        """Return means and deviations to standardise the inputs of a new net, or None.

        (See `standard_of`.)
        """
        return standard_of(X, len(self._state["params"][0]))

    def _first_constants(self, X):
        """Features of a new net that do not vary, which may be anything later."""
        known = X.dtype.kind == "f" and X.shape[0] > 0
        return Moments.of(X).constants() if known else None

    def _training_inputs(self, X):
        """Return what the net of the state, not the public one, is given."""
        inputs, standard = self._inputs(X, True), self._state.get("standard")
        return inputs if standard is None else Standardised(inputs, standard)

    def _dropout(self, state):
        """Return what draws masks for the inputs and the hidden layers."""
        params = state["params"]
        rates = [self.input_dropout] + [self.dropout] * (len(params) // 2 - 1)
        sizes = [len(weights) for weights in params[::2]]
        return Dropout(rates, sizes, state["key"], params[0].dtype)

    def _run(self, X, targets, division, decays):
        """Return a fine-tuning that goes on from the state of the training."""
        state, inputs = self._state, self._training_inputs(X)
        params, offsets = [p.copy() for p in state["params"]], ()
        if self._centred:
            offsets = state.get("offsets")
            if offsets is None:
                offsets = self._offsets(inputs[some_rows(division.training)])
        descent = Descent(
            self._network(state, decays),
            self._optimiser(params),
            params,
            inputs,
            targets,
            self._dropout(state),
            self.batch_size,
            self.max_norm,
            state["step"],
            offsets,
        )
        if not self.early_stopping:
            return FineTuning(descent, division, state["key"])
        stopping = Stopping(self._watched, self.tol, self.n_iter_no_change)
        unseen = division.held_out

        def validate(params):
            found = outputs(self._network(state), params, inputs, numbers=unseen)
            return self._validation(found, targets[unseen])

        return FineTuning(descent, division, state["key"], stopping, validate)

    def _decays(self, n_rows):
        """Penalties on all weights and on the output's, where so many rows train."""
        return float(self.weight_decay), None

    def _optimiser(self, params):
        """Return what takes the steps, unless the solver does that itself."""
        if self._solver == "lbfgs":
            return None
        if self._solver == "adam":
            return Adam(params, self._state.get("adam"))
        velocity = self._state.get("velocity")
        return Momentum(params, self.momentum, self.nesterov, velocity)

    def _n_epochs(self, n_rows):
        """Return how many epochs so many rows take; for "lbfgs" the most iterations."""
        least, most, few_rows = EPOCHS
        if self.solver == "lbfgs":
            return most if self.n_iter is None else self.n_iter
        return epochs_of(self.n_iter, n_rows, least, most, few_rows)

    def _fine_tune(self, run, task, n_epochs):
        """Train for n_epochs, or until a callback or early stopping ends it."""

        def ended(part, entry):
            entry |= run.measure()
            enter_epoch(self, entry, _in_words)
            run.see(entry, self.n_iter_)
            return part.end(lambda: self._fitted(run)) or run.stopping.done

        if self._solver == "lbfgs":
            if n_epochs:
                run.minimise(
                    n_epochs,
                    self.tol,
                    lambda entry: ended(task.part("epoch"), entry),
                )
            return
        for epoch in range(n_epochs):
            part = task.part("epoch")
            rates = minibatch_rates(
                self._rate(),
                self.learning_rate_schedule,
                epoch,
                n_epochs,
                run.n_batches,
            )
            if ended(part, run.epoch(rates)):
                break

    def _fitted(self, run):
        """Return the attributes that a run has arrived at."""
        fitted = {"_state": self._state | run.state()}
        best = run.stopping.best
        params = [p.copy() for p in (best["parameters"] if best else run.params)]
        fitted |= run.stopping.fitted(self.n_iter_)
        return fitted | self._public(params, self._state)

    def _public(self, params, state):
        """Return the public attributes of a net with these parameters."""
        weights, biases = list(params[::2]), list(params[1::2])
        if state.get("standard") is not None:
            weights[0], biases[0] = for_inputs(weights[0], biases[0], state["standard"])
        return {"coefs_": weights, "intercepts_": biases}

    # ---- Targets: those of another kind say other things here ----

    def _check_range(self, y, targets, dtype):
        """Refuse targets that are too large for the dtype of the net.

        They must be able to be what y is, and what the net is trained on.
        """

    def _reweigh(self, targets):
        """Take up what parameters say now of the targets of a fit that goes on."""

    def _settle(self):
        """Let the scale of the targets be that of a new fit from now on."""

    def _take_in(self, targets):
        """Return the targets of rows that `partial_fit` adds, in their scale."""
        return targets


def _in_words(entry):
    """Return what the line of an epoch says."""
    text = f"loss = {entry['loss']:.4f}"
    for name, value in entry.items():
        if name.startswith("validation_"):
            text += f", {name.replace('_', ' ')} = {value:.4f}"
    return text
