"""The training of deep Boltzmann machines."""

from numbers import Integral, Real

import numpy as np
from scipy.special import logit

from .._mean_field import MeanField
from .._parameters import Interval, StrOptions
from .._unit_trainer import UnitTrainer
from .._units import Kind
from ..layered import blocks, connections, unfolded
from ..units import any_unbounded, are, as_unit
from ._dbm_pretraining import pretrain
from ._defaults import CHAINS, CLIP, EpochRule, rate_of_counts, rate_shares
from ._faults import warn_of_constant_top
from ._fitted_dbm import FittedDBM, beside
from ._snapshot import DeepSnapshot
from ._starts import BITS_RATE, first_draws, start_of_bits, start_of_some_bits
from ._structure import layer_sizes, sizes_in_words, visible_in_words
from ._trainable import PARAMETERS, Trainable
from ._visible_scales import (
    SCALES,
    first_units,
    kernel_scales,
    scaled_offset,
    unscaled,
    varied_features,
)
from ._wide_starts import wide_rates, wide_start

BERNOULLI = as_unit("bernoulli")
# Learning rates where none is given: of most machines, and with real columns.
RATE, RATE_OF_REALS = 0.01, 0.03
# Epochs of either training where no number is given: always 30, and with real columns
# up to 120 of few rows.
EPOCHS = EpochRule(30, 30, 1000, 10)
EPOCHS_OF_REALS = EpochRule(30, 120, 1000, 10)


class TrainableDBM(Trainable, FittedDBM):
    """The training of a deep Boltzmann machine, folded (see `Layered.folded`).

    The state of the training is that of a machine of two layers: `components` are
    those of the odd layers over the even ones, zero where layers are not neighbours.
    """

    _parameter_constraints: dict = {
        **Trainable._parameter_constraints,
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "n_iter": [*Trainable._parameter_constraints["n_iter"], None],
        "n_mean_field_steps": [Interval(Integral, 1, None, closed="left")],
        "mean_field_tol": [Interval(Real, 0, None, closed="left")],
        "pretrain_n_iter": [Interval(Integral, 0, None, closed="left"), None],
        "pretrain_learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "standardize": ["boolean"],
        "output": [StrOptions({"top", "all"})],
    }
    # What `Trainable` knows and these machines do not offer.
    persistent = True
    nesterov = False
    l1_decay = 0.0
    sparsity_target = None
    max_norm = None
    n_temperatures = 1
    fast_learning_rate = 0.0
    early_stopping = False
    _kept = ("visible",)
    _default_rates = RATE, RATE_OF_REALS

    @property
    def _hidden_sizes(self):
        return layer_sizes(self.hidden_layer_sizes)

    def _sizes(self, n_visible):
        return [n_visible, *self._hidden_sizes]

    def _shape(self, n_visible):
        sizes = self._sizes(n_visible)
        return sum(sizes[1::2]), sum(sizes[::2])

    def _structure(self):
        return {
            "hidden_layer_sizes": sizes_in_words(self.hidden_layer_sizes),
            "visible": visible_in_words(self),
            "standardize": repr(bool(self.standardize)),
        }

    def _check_training(self, X, drawn, goes_on):
        return self._read_training(X, drawn, goes_on, BERNOULLI)

    def _connected(self, n_visible):
        """Which even units (rows) and odd units (columns) are connected."""
        return connections(self._sizes(n_visible))

    def _alone(self):
        """Which visible units have hidden units to themselves; None if none has."""

    def _of_centred_bits(self):
        """Whether the start is that of `start_of_bits`: of bits, and blocks of them."""
        return self.centering and self._columns().binary.all()

    def _first_state(self, components, X, dtype, division):
        columns = self._columns()
        n_visible, centred = len(columns.kinds), self._of_centred_bits()
        start = first_units(columns, X, division, self.standardize, dtype)
        sizes, connected = self._sizes(n_visible), self._connected(n_visible)
        components = np.where(connected.T, components, 0)
        rate = BITS_RATE if centred else 0.5
        rates = [np.full(size, rate) for size in sizes[1:]]
        weights, linked = blocks(components.T, sizes), blocks(connected, sizes)
        learned, alone = varied_features(start, columns), self._alone()
        if learned.any():
            sees_real = linked[0][learned].any(axis=0)
            found = wide_rates(weights[0].T, X, division, start, learned)
            rates[0] = np.where(sees_real, found, BITS_RATE)
        biases, variance = [start["bias"], *map(logit, rates)], start["variance"]
        means = [columns.unit.mean(biases[:1])[0], *rates]
        if centred:
            biases = start_of_bits(weights, means, biases, linked, alone)
        elif self.centering and columns.binary.any():
            # Beside other features bits start so, too, but not the layers above.
            biases[:2] = start_of_some_bits(
                columns.binary, weights[0], means[:2], biases[:2], linked[0], alone
            )
        if learned.any():
            part, hidden, biases[0], variance = wide_start(
                np.array(weights[0].T), biases[0], variance, learned, rates[0]
            )
            weights[0][...] = part.T
            biases[1] = biases[1] + hidden - logit(rates[0])
        latent = np.concatenate([[], *rates[1::2]])
        log_variance = np.where(columns.gaussian, np.log(variance), 0)
        parameters = {
            "components": components,
            "intercept_hidden": np.concatenate(biases[1::2]),
            "intercept_visible": np.concatenate(biases[::2]),
            "log_variance": np.pad(log_variance, (0, len(latent))),
            "hidden_offset": np.concatenate(rates[::2]),
            "latent_offset": latent,
        }
        scales = {name: start[name] for name in SCALES}
        return {name: x.astype(dtype) for name, x in parameters.items()} | scales

    def _kernel(self, rows, **settings):
        state, columns = self._state, self._columns()
        n_latent = len(state["latent_offset"])
        n_odd, _ = state["components"].shape
        bits = are(columns.kinds, Kind.BERNOULLI)
        offset = np.zeros(len(bits) + n_latent)
        offset[: len(bits)] = self._subtracted(scaled_offset(state), bits)
        if self.centering:
            offset[len(bits) :] = state["latent_offset"]
        field = None
        if n_latent:
            field = MeanField(
                BERNOULLI.kernel(n_latent),
                BERNOULLI.kernel(n_odd),
                rows.dtype,
                rows.n_columns,
                n_steps=self.n_mean_field_steps,
                tolerance=self.mean_field_tol,
            )
        trainer = UnitTrainer(
            rows,
            as_unit(beside(columns.unit, rows.n_columns, n_latent)).kernel(
                rows.n_columns + n_latent
            ),
            BERNOULLI.kernel(n_odd),
            *(state[name] for name in PARAMETERS),
            visible_offset=offset,
            rate_shares=self._rate_shares(),
            field=field,
            connected=self._connected(rows.n_columns),
            **kernel_scales(state, columns),
            **settings,
        )
        if any_unbounded(columns.unit):
            trainer.clip = CLIP
        trainer.start_jumps(state.get("jumps"))
        return trainer

    def _rate(self):
        if self.learning_rate is not None:
            return float(self.learning_rate)
        # (Units that vary the more the larger they are need short steps in any case.)
        steep = are(self._columns().kinds, Kind.RELU).any()
        return RATE if steep else self._default_rates[self._sees(Kind.GAUSSIAN)]

    def _rate_shares(self):
        kinds, means = self._columns().kinds, self._state["visible_offset"]
        if self.learning_rate is not None:
            return np.ones(len(kinds))
        of_counts = rate_of_counts(RATE, kinds, means, self._hidden_sizes[0])
        return rate_shares(self._rate(), of_counts, kinds)

    @property
    def _n_pretrained_layers(self):
        """How many layers the greedy pretraining trains."""
        return len(self._hidden_sizes)

    def _epochs_of(self, n_iter, rows):
        """Return n_iter or, if it is None, how many epochs these rows take."""
        if n_iter is not None:
            return n_iter
        rule = EPOCHS_OF_REALS if self._sees(Kind.GAUSSIAN) else EPOCHS
        return rule.n_epochs(rows.n_rows, rows.n_columns)

    def _n_epochs(self, X, rows):
        return self._epochs_of(self.n_iter, rows)

    def _n_epochs_before(self, rows):
        a_layer = self._epochs_of(self.pretrain_n_iter, rows)
        return a_layer * self._n_pretrained_layers

    def _prepare(self, run, X, rows, task):
        """Pretrain the layers one by one; when interrupted, keep what there is."""
        n_epochs = self._n_epochs_before(rows)
        if not n_epochs:
            return
        epochs = task.parts("pretraining epoch", n_epochs)
        a_layer = self._epochs_of(self.pretrain_n_iter, rows)
        try:
            pretrain(self, X, rows, run.division, epochs, a_layer)
            next(epochs, None)  # the last one has ended
        finally:
            run.trainer = self._trainer(rows)

    def _n_chains(self):
        return self.n_chains or max(self.batch_size, CHAINS)

    def _first_chains(self, n_chains, key, step):
        """Odd states given the means of the even layers."""
        units = BERNOULLI.kernel(len(self._state["components"]))
        return first_draws(units, self._state, n_chains, key, step)

    def _public(self, parameters):
        components, odd, even, log_variance = (x.astype(float) for x in parameters)
        state, dtype = self._state, parameters[0].dtype
        n = len(state["shift"])
        sizes = self._sizes(n)
        first = slice(sizes[1])
        components[first, :n], odd[first], even[:n], variance = unscaled(
            state,
            self._columns(),
            components[first, :n],
            odd[first],
            even[:n],
            log_variance[:n],
        )
        intercepts = unfolded(even, odd, sizes)
        weights = [block.T for block in blocks(components.T, sizes)]
        return {
            "components_": [np.ascontiguousarray(w, dtype) for w in weights],
            "intercepts_": [bias.astype(dtype) for bias in intercepts],
            "variance_": variance.astype(dtype),
            "visible_mean_": state["visible_offset"].astype(dtype),
            "visible_scale_": state["visible_scale"].astype(dtype),
        }

    def _view(self, parameters):
        return DeepSnapshot(self, self._public(parameters))

    def _warn_of_faults(self, X, run, drawn):
        """Warn if the top says the same of every row; layers below it may."""
        self._warn_of_endless_counts(self.components_[0], self.intercepts_[0])
        # (What belongs to a net is spread there.)
        if self.n_iter != 0 and self._stands_alone:
            warn_of_constant_top(self, X)

    def _state_after(self, run):
        state = super()._state_after(run)
        if self.centering:
            offset = run.trainer.visible_offset()[len(state["shift"]) :]
            state["latent_offset"] = offset
        return state
