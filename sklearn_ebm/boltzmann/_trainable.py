"""The training that restricted and deep machines share: `fit` and `partial_fit`."""

from copy import deepcopy
from numbers import Integral, Real

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state

from .._callbacks import (
    CallbackSupportMixin,
    begin_fit,
    wants_history,
    with_callbacks,
)
from .._keeping import keeping, undo_if_nothing_learned
from .._missing import N_FIRST_SWEEPS, DrawnValues
from .._parameters import Interval, PairOf, StrOptions, check_parameters
from .._stopping import Stopping
from .._tempering import TemperedChains
from .._training import (
    ENTRIES,
    SCHEDULES,
    Division,
    Run,
    gibbs_steps,
    mean_with,
    refuse_early_stopping,
    share_held_out,
)
from .._validation import check_rows, random_key
from ..monitoring import Monitor, machine_in_words, train_epoch
from ._sampling import MISSING_KEY, TEMPERING_KEY
from ._starts import SMALL, last_chains
from ._structure import check_structure
from ._visible_scales import more_units

# Share of a minibatch's mean in the running mean of the hidden units, which
# `centering` subtracts from them.
OFFSET_RATE = 0.01
# What a kernel trains, by its names in the state of the training; variances only
# where there may be Gaussian units.
PARAMETERS = "components", "intercept_hidden", "intercept_visible", "log_variance"
# What a run remembers for the next one. A run that makes no use of one of these drops
# it: afterwards it is out of date.
OF_ONE_RUN = "velocity", "fast", "jumps", "visible_chains"


class Trainable(CallbackSupportMixin, TransformerMixin):
    """Epochs over minibatches, for an estimator whose parameters a kernel trains.

    An estimator that derives from it has the parameters of `BernoulliRBM`, or class
    attributes in place of those it does not offer, and says what it is made of
    (`_structure`, `_shape`), what to begin with (`_first_state`, `_first_chains`), what
    its kernel is (`_kernel`), how parameters become fitted attributes (`_public`), what
    a monitor sees (`_view`) and what to warn of in the end (`_warn_of_faults`); where
    values may be missing, also which model draws them (`_layers_of`). `TrainableRBM`
    and `TrainableDBM` do.

    Training goes on from the dict `_state`, which is replaced as a whole, never changed
    in place (except during the pretraining of a deep machine, when nothing else refers
    to it). It holds

    - `PARAMETERS`, and `SCALES` of features where these may be real,
    - running means of the units that the kernel sees: "visible_offset", in the units of
      the data, "hidden_offset", and "latent_offset" of deep machines,
    - "key" and "step", which say what random numbers come next,
    - "n_seen", the rows so far, and "structure",
    - what steps and chains remember (`OF_ONE_RUN`, "tempered").
    """

    _parameter_constraints: dict = {
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "n_gibbs_steps": [
            Interval(Integral, 1, None, closed="left"),
            PairOf(Integral, 1, None, closed="left"),
        ],
        "n_chains": [Interval(Integral, 1, None, closed="left"), None],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "centering": ["boolean"],
        "learning_rate_schedule": [StrOptions(set(SCHEDULES))],
        "average": ["boolean"],
        "warm_start": ["boolean"],
    }

    # Parameters that a fitted model is used with as they were when it was new, whatever
    # has been set since (see `as_made`).
    _kept = ()
    # `as_part` sets these where a machine is a part of another estimator. Then it need
    # not be a good model by itself; and a net may be going to start from it.
    _stands_alone = True
    _pretrains_net = False

    def _n_epochs_before(self, rows):
        """Return how many epochs of pretraining come before those of a new machine."""
        return 0

    def _n_epochs(self, X, rows):
        """Return the number of epochs of a fit of these data."""
        return self.n_iter

    @undo_if_nothing_learned
    @with_callbacks
    def fit(self, X, y=None):
        """Fit the model to the data X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data: for Bernoulli visible units values in [0, 1], for others
            what the parameters of the class say.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError
            If parameters are not allowed, or do not fit each other or the data; X is
            not a matrix of finite numbers (restricted machines take NaN with
            ``missing="latent"``, in a dense array, but need values of every feature,
            unless training goes on from a model); with `warm_start`, X or parameters
            do not fit the model so far; or training diverges, which leaves the
            estimator as it was.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If X has values that the visible units cannot represent: those of Bernoulli
            units lie in [0, 1], counts are whole numbers.
        ConvergenceWarning
            If more than 5 % of the hidden units of a restricted machine are dead or
            saturated; if no hidden unit (of a deep machine, none at the top) tells rows
            apart; if counts can grow without bound; or if a restricted machine without
            rectified features is certainly worse than independent features.
        """
        self._check_parameters()
        goes_on = self.warm_start and hasattr(self, "_state")
        data, rows, drawn = self._begin(X, goes_on)
        if goes_on and self.n_iter == 0:
            return self
        if goes_on:
            division = self._go_on(data, rows, n_seen=0)
        else:
            division = self._initialise(data, rows)
            # (A `fit` settles the scale of the features: see `more_units`.)
            self._state = self._state | {"settled": True}
        n_before = 0 if goes_on else self._n_epochs_before(rows)
        n_iter = self._n_epochs(data, rows)
        task = begin_fit(self, n_before + n_iter, X, y)
        monitor = stopping = None
        if self.verbose or self.early_stopping or wants_history(self):
            monitor = self._monitor(data, division, drawn)
        if self.early_stopping:
            stopping = Stopping(self.monitor, self.tol, self.n_iter_no_change)
        run = Run(self._trainer(rows), division, monitor, stopping, self._tempered())
        with keeping(self, run):
            if not goes_on:
                self._prepare(run, data, rows, task)
            for epoch, rates, averaging in run.epochs(
                self, n_iter, self._rate(), self._schedule(), task
            ):
                run.trainer.n_gibbs_steps = gibbs_steps(
                    self.n_gibbs_steps, epoch, n_iter
                )
                if drawn:
                    # New chains of a model that is not new have to find it first.
                    n_sweeps = N_FIRST_SWEEPS if goes_on and epoch == 0 else 1
                    drawn.sweep(self._layers_of(run.trainer.parameters()), n_sweeps)
                train_epoch(self, run, rates, averaging, machine_in_words)
        self._warn_of_faults(data, run, drawn)
        task.end(dict)
        return self

    @undo_if_nothing_learned
    def partial_fit(self, X, y=None):
        """Train on one pass over the minibatches of a part of the data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data as in `fit`, any number of rows.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError
            As in `fit`; X and parameters have to fit the model so far in any case, and
            ``early_stopping=True`` is an error.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            As in `fit`.
        """
        self._check_parameters()
        refuse_early_stopping(self)
        goes_on = hasattr(self, "_state")
        X, rows, drawn = self._begin(X, goes_on)
        if goes_on:
            division = self._go_on(X, rows, n_seen=self._state["n_seen"])
        else:
            division = self._initialise(X, rows)
        run = Run(self._trainer(rows), division, tempered=self._tempered())
        if drawn:
            drawn.sweep(self._layers_of(run.trainer.parameters()), N_FIRST_SWEEPS)
        rates = np.full(run.n_batches, self._rate_of_a_pass())
        with keeping(self, run):
            train_epoch(self, run, rates, self.average, machine_in_words)
        return self

    def fit_transform(self, X, y=None, **fit_params):
        """Fit the model to the data X and transform it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data: for Bernoulli visible units values in [0, 1], for others
            what the parameters of the class say.

        y : Ignored
            Not used, present for API consistency.

        **fit_params : dict
            Further arguments of `fit`.

        Returns
        -------
        h : ndarray of shape (n_samples, n_features_out)
            What `transform` returns.

        Raises
        ------
        ValueError, TypeError
            As in `fit`.
        """
        # (Values out of range have had their warning.)
        return self.fit(X, y, **fit_params)._transform(X, quiet=True)

    def _check_parameters(self):
        check_parameters(self)

    def _rate_of_a_pass(self):
        """Learning rate of `partial_fit`."""
        return self._rate()

    def _rate(self):
        """Learning rate that training begins with."""
        return float(self.learning_rate)

    def _schedule(self):
        """How the learning rate goes on in a fit."""
        return self.learning_rate_schedule

    def _rate_shares(self):
        """Shares of the learning rate for the visible units."""
        return 1.0

    def _lowest_rate(self):
        """Learning rate of the visible units that learn most slowly."""
        return self._rate() * float(np.min(self._rate_shares()))

    def _begin(self, X, goes_on):
        """Validate data to train on: they, their `Rows`, what draws missing values."""
        if goes_on:
            check_structure(self, self._state["structure"])
        drawn = self._drawn_values(goes_on)
        return *self._check_training(X, drawn, goes_on), drawn

    def _check_training(self, X, drawn, goes_on):
        """Validate data to train on; the data and their `Rows`."""
        return check_rows(
            self,
            X,
            reset=not goes_on,
            dtype=self._dtype() if goes_on else None,
            fill=drawn and drawn.fill,
        )

    def _prepare(self, run, X, rows, task):
        """Do what comes before the first epoch, if anything does."""

    def _drawn_values(self, goes_on):
        """What draws missing values in training, if there may be any."""
        if self.missing == "raise":
            return None
        if goes_on:
            # There is a step of the training for every sweep of missing values but
            # the first ones: so they never draw the same twice.
            n_drawn = self._state["step"] * N_FIRST_SWEEPS
            key = self._state["key"] ^ MISSING_KEY
            return DrawnValues(key, n_drawn, self._layered())
        # (From a copy, so that a RandomState does not move: it and its seed give the
        # same first parameters.)
        return DrawnValues(random_key(deepcopy(check_random_state(self.random_state))))

    def _dtype(self):
        """Dtype of the model that training goes on from."""
        return self._state["components"].dtype

    def _initialise(self, X, rows):
        """Parameters, offsets and random keys before the first epoch.

        Returns which rows are trained on.
        """
        # (Copies: a list may be changed in place.)
        self._made = {name: deepcopy(getattr(self, name)) for name in self._kept}
        rng = check_random_state(self.random_state)
        components = rng.normal(0, SMALL, self._shape(rows.n_columns))
        key = random_key(rng)
        division = self._divide(X, rows, key)
        self._state = {
            **self._first_state(components, X, rows.dtype, division),
            "visible_offset": division.column_means,
            "n_seen": division.n_rows,
            "key": key,
            "step": 0,
            "structure": self._structure(),
        }
        self._sampling_key, self._sampling_step = random_key(rng), 0
        self.n_iter_ = 0
        self.history_ = {name: [] for name in ENTRIES}
        self.__dict__.pop("h_samples_", None)
        return division

    def _subtracted(self, means, bits=True):
        """What the kernel subtracts from visible units of these means.

        `bits` says which of them are bits.
        """
        if self.centering:
            return means
        # A net learns features that are mostly on as if 0 and 1 were exchanged.
        return np.where(bits & (means > 0.5), 1.0, 0.0) if self._pretrains_net else 0.0

    def _go_on(self, X, rows, n_seen):
        """Take rows into the mean of the n_seen rows before them.

        Returns which of them are trained on.
        """
        state = self._state
        division = self._divide(X, rows, state["key"])
        if "shift" in state:
            # (A `fit` leaves the scales of what has varied as they are.)
            kept = n_seen == 0
            state = state | more_units(
                state, self._columns(), X, division, self.standardize, kept
            )
        mean, n_seen = mean_with(
            state["visible_offset"], n_seen, division.column_means, division.n_rows
        )
        self._state = state | {"visible_offset": mean, "n_seen": n_seen}
        return division

    def _divide(self, X, rows, key):
        """Return which rows are trained on and which held out."""
        return Division(X, rows, share_held_out(self), key)

    def _trainer(self, rows):
        """Return a kernel that goes on from the state of the training."""
        state = self._state
        trainer = self._kernel(
            rows,
            batch_size=self.batch_size,
            chains=self._chains() if self.persistent else None,
            key=state["key"],
            step=state["step"],
            n_gibbs_steps=np.ravel(self.n_gibbs_steps)[-1],
            hidden_offset=state["hidden_offset"] if self.centering else 0.0,
        )
        set_steps(trainer, self, state.get("velocity"))
        if self.fast_learning_rate and self.persistent:
            trainer.fast_learning_rate = self.fast_learning_rate
            trainer.start_fast(state.get("fast"))
        return trainer

    def _tempered(self):
        """Return what makes the chains exchange temperatures, if they are to."""
        if self.n_temperatures == 1:
            return None
        state = self._state
        return TemperedChains(
            self._n_chains(),
            self.n_temperatures,
            state["visible_offset"],
            state["key"] ^ TEMPERING_KEY,
            state.get("tempered"),
        )

    def _n_chains(self):
        """Return the number of persistent chains."""
        return self.n_chains or self.batch_size

    def _chains(self):
        """Hidden states to start from: the last ones, or new ones."""
        state, n_chains = self._state, self._n_chains()
        chains = last_chains(self, n_chains)
        if chains is None:
            chains = self._first_chains(n_chains, state["key"], state["step"])
        return chains

    def _monitor(self, X, division, drawn):
        """Return what watches the training on a fixed sample of the rows."""
        return Monitor(
            X,
            division,
            self._state["key"],
            self._dtype(),
            self._view,
            drawn and drawn.missing_in,
        )

    def _fitted(self, run):
        """Return the attributes that a run has arrived at."""
        fitted = self._public(run.parameters()) | {"_state": self._state_after(run)}
        fitted |= run.stopping.fitted(self.n_iter_)
        if self.persistent:
            fitted["h_samples_"] = run.trainer.chains()
        return fitted

    def _state_after(self, run):
        """Return what training goes on from after a run."""
        trainer = run.trainer
        state = {k: v for k, v in self._state.items() if k not in OF_ONE_RUN}
        state["step"] = int(trainer.next_step)
        state |= zip(PARAMETERS, trainer.parameters(), strict=False)
        if self.centering:
            state["hidden_offset"] = trainer.hidden_offset()
        if self.momentum:
            state["velocity"] = trainer.velocities()
        if run.tempered is not None:
            state["tempered"] = run.tempered.state()
        if self.fast_learning_rate and self.persistent:
            state["fast"] = trainer.fast_parameters()
        jumps = trainer.jumps_state()
        if jumps is not None:
            state["jumps"] = jumps
        return state


def set_steps(trainer, estimator, velocity=None):
    """Let a kernel take the steps that the parameters of an estimator say.

    With momentum they go on from this velocity, or from rest.
    """
    trainer.momentum = estimator.momentum
    trainer.weight_decay = estimator.weight_decay
    trainer.nesterov = estimator.nesterov
    trainer.l1_decay = estimator.l1_decay
    if estimator.sparsity_target is not None:
        trainer.sparsity_target = estimator.sparsity_target
        trainer.sparsity_cost = estimator.sparsity_cost
    trainer.max_norm = estimator.max_norm or 0.0
    trainer.offset_rate = OFFSET_RATE if estimator.centering else 0.0
    if estimator.momentum:
        trainer.start_velocity(velocity)
