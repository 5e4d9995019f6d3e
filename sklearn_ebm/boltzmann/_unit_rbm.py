"""Restricted machines of units of any kind: where they differ from those of bits."""

from functools import wraps
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._machines import SOME, Machine
from .._parameters import Interval, StrOptions
from .._unit_trainer import UnitTrainer
from .._units import Kind
from .._validation import check_states, naming
from ..layered import Layered
from ..units import (
    BY_NAME,
    Unit,
    any_unbounded,
    are,
    are_bits,
    as_unit,
    check_pair,
    in_words,
    kinds_of,
)
from ._columns import all_bits, range_of
from ._defaults import (
    CHAINS,
    CLIP,
    EpochRule,
    largest_variance,
    n_directions,
    n_told,
    rate_of_counts,
    rate_shares,
    steady_rate,
)
from ._faults import warn_of_excess_probability, warn_of_full_weights
from ._normaliser import kept_log_z
from ._snapshot import UnitSnapshot
from ._starts import first_draws, start_of_some_bits, training_rows
from ._structure import as_made, visible_in_words
from ._trainable import PARAMETERS
from ._trainable_rbm import TrainableRBM
from ._unit_columns import UnitColumns
from ._visible_scales import (
    SCALES,
    first_units,
    kernel_scales,
    scaled_offset,
    unscaled,
    varied_features,
)
from ._wide_starts import wide_rates, wide_start, within_reach

# Epochs where no number is given: least, most, rows that are few, rows for a feature.
# Real features are learned slowly, and so are others without bounds: counts, rectified
# ones.
EPOCHS = EpochRule(30, 100, 1000, 30)
EPOCHS_OF_UNBOUNDED = EpochRule(10, 60, 1000, 10)
EPOCHS_OF_REALS = EpochRule(10, 400, 300, 30)
# Of real features, with the directions in which they vary in place of the features; and
# the number of epochs after which no data were far from their best.
EPOCHS_VARIED, ENOUGH = EpochRule(10, 400, 300, 100), 100

# Attributes that only machines with other units than two layers of bits have.
NOT_OF_BITS = "n_categories_", "variance_", "visible_scale_", "_normaliser"


def unless_bits(method):
    """Decorate a method that leaves two layers of bits to the one it overrides."""

    @wraps(method)
    def chosen(self, *args, **kwargs):
        if self._bits:
            return getattr(super(UnitsRBM, self), method.__name__)(*args, **kwargs)
        return method(self, *args, **kwargs)

    return chosen


class UnitsRBM(UnitColumns, TrainableRBM):
    """What `RBM` and its named variants share.

    Two Bernoulli layers are bits, and do what they do in `BernoulliRBM`. An estimator
    that derives from this class has `visible`, `hidden` and `standardize`.
    """

    _parameter_constraints: dict = {
        **TrainableRBM._parameter_constraints,
        "n_iter": [*TrainableRBM._parameter_constraints["n_iter"], None],
        "hidden": [StrOptions(set(BY_NAME)), Unit],
        "sparsity_target": [Real, None],
        "standardize": ["boolean"],
    }

    # Learning rates where none is given: of machines of bits, spins and categories; of
    # those that see real values, too; and of counts, whose means are exponentials:
    # steps that serve other units drive them to infinity.
    _default_rates = 0.1, 0.03, 0.01
    # What only Bernoulli units have kernels for.
    n_temperatures = 1
    fast_learning_rate = 0.0
    # The only number on held-out rows that units of all kinds have.
    monitor = "free_energy_gap"
    # What only `GaussianRBM` offers.
    langevin_time = None

    _kept = "visible", "hidden"

    @property
    def _bits(self):
        """Whether the model has two layers of bits."""
        return all_bits(as_made(self, "visible")) and are_bits(as_made(self, "hidden"))

    @property
    def _asks_for_bits(self):
        """Whether a model that is fitted now will have two layers of bits."""
        return all_bits(self.visible) and are_bits(self.hidden)

    # ---- Use ----

    def transform(self, X):
        """Compute the means of the hidden units, given the visible ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data to be transformed.

        Returns
        -------
        h : ndarray of shape (n_samples, n_components)
            Means of the hidden units.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, has other features than in `fit`, or
            in columns of codes others than 0, 1, ... up to the largest in `fit`. NaN is
            taken with ``missing="latent"``, in a dense array; of a block of categories,
            in all columns or none.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If X has values that the visible units cannot represent, or blocks of
            categories that do not sum to 1.
        """
        return self._transform(X)

    @unless_bits
    def _transform(self, X, quiet=False):
        X, machine = self._check_use(X, quiet=quiet)
        return machine.up.means_in_chunks(X)

    @unless_bits
    def inverse_transform(self, X):
        """Compute the means of the visible units, given the hidden ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_components)
            States or means of the hidden units.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            Means of the visible units; the likeliest category where a column holds
            codes of categories.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, a column for every hidden unit.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If both layers are Bernoulli units and values of X lie outside [0, 1].
        """
        check_is_fitted(self)
        X, rows = check_states(self, X, self.components_.shape[0], "X", quiet=True)
        means = self._machine(rows.dtype).down.means_in_chunks(X)
        return self._columns().decode(means)

    @unless_bits
    def free_energy(self, X):
        """Compute the free energy F(v) = -log sum_h exp(-E(v, h)).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        Returns
        -------
        free_energy : ndarray of shape (n_samples,)
            Free energies in nats, so that ``log p(v) = -F(v) - log Z``.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`; with two layers of Bernoulli units NaN is an error
            whatever `missing` is.

        Warns
        -----
        UserWarning
            As in `transform`.
        """
        X, machine = self._check_use(X, exact=True)
        return machine.free_energy(X)

    @unless_bits
    def score_samples(self, X):
        """Compute the log-likelihood of X; of two Bernoulli layers, the pseudo-one.

        The normaliser, log Z, is found when it is first needed, and kept: exactly
        if a layer has at most 2^14 states, otherwise by the larger of two estimates
        with a fixed seed, annealed importance sampling (see
        `sklearn_ebm.likelihood.log_partition`, which also tells its error) and the
        weights of states near rows of the training. Where values are missing,
        mean-field values take their place: this is the log-likelihood of the row so
        filled in, not that of what is known of it. Where all units are Bernoulli,
        however they are named, it is the pseudo-log-likelihood of `BernoulliRBM`,
        which needs no log Z; compare it with no other machine's.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            Log-likelihoods in nats; of columns of counts and categories those of
            probabilities, of real ones those of densities.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.

        Warns
        -----
        UserWarning
            As in `transform`. Or if scores cannot be right, since different rows of
            bits, categories or counts had more than all probability together.
        """
        X, machine = self._check_use(X, exact=True)
        scores = -machine.free_energy(X) - kept_log_z(self)
        warn_of_excess_probability(self, self._columns().kinds, X, scores)
        return scores

    @unless_bits
    def gibbs(self, v):
        """Perform one Gibbs sampling step.

        Parameters
        ----------
        v : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units to start from.

        Returns
        -------
        v_new : ndarray of shape (n_samples, n_features)
            Values of the visible units after one step.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `free_energy`, of `v`.

        Warns
        -----
        UserWarning
            As in `free_energy`, of `v`.

        Notes
        -----
        Successive calls use fresh random bits; the sequence of calls is
        reproducible from the `random_state` of the fit.
        """
        check_is_fitted(self)
        with naming("v"):
            X, machine = self._check_use(v)
        key, step = self._draws()
        self._use_draws(1)
        return self._columns().decode(machine.sweep(X, key, step)[1])

    @unless_bits
    def _encode_missing(self, X, missing):
        return self._encode_missing_columns(X, missing)

    @unless_bits
    def _decode(self, V):
        return self._columns().decode(super()._decode(V))

    def _check_use(self, X, **how):
        """Validate data to use the model on: visible units, and a machine for them."""
        X, dtype = self._read(X, **how)
        return X, self._machine(dtype)

    @unless_bits
    def _encode_init(self, init):
        return self._encode_init_columns(init)[0]

    @unless_bits
    def _encode(self, X):
        return self._encode_columns(X)

    def _machine(self, dtype):
        return Machine(self._layered(), dtype if dtype == np.float32 else np.float64)

    @unless_bits
    def _layered(self):
        check_is_fitted(self)
        unit, weights, bias = self._visible_layer(
            self.components_.T, self.intercept_visible_.astype(float)
        )
        hidden = as_unit(as_made(self, "hidden"))
        return Layered((unit, hidden), (weights,), (bias, self.intercept_hidden_))

    # ---- Training ----

    def _structure(self):
        structure = super()._structure() | {
            "visible": visible_in_words(self),
            "hidden": in_words(self.hidden),
        }
        if not self._asks_for_bits:
            structure["standardize"] = repr(bool(self.standardize))
        return structure

    def _check_parameters(self):
        super()._check_parameters()
        hidden = as_unit(self.hidden)
        try:
            hidden.kernel(self.n_components)  # refuses parts of blocks
        except ValueError as error:
            raise ValueError(
                f"n_components={self.n_components} does not suit "
                f"hidden={self.hidden!r}: {error}"
            ) from error
        means = Interval(Real, *range_of(hidden), closed="neither")
        target = self.sparsity_target
        if target is not None and not means.is_satisfied_by(target):
            raise ValueError(
                f"The 'sparsity_target' parameter of {type(self).__name__} must be "
                f"{means} or None with hidden={self.hidden!r}. Got {target!r} instead."
            )

    def _n_epochs(self, X, rows):
        if self.n_iter is not None:
            return self.n_iter
        if self._sees(Kind.GAUSSIAN):
            found = EPOCHS_OF_REALS.n_epochs(rows.n_rows, rows.n_columns)
            if found >= ENOUGH:
                return found
            # (Many real features may say the same.)
            varied = EPOCHS_VARIED.n_epochs(rows.n_rows, n_directions(X))
            return max(found, min(varied, ENOUGH))
        if any_unbounded(self._columns().unit):
            n_features = n_told(self._columns().kinds, rows.column_means)
            return EPOCHS_OF_UNBOUNDED.n_epochs(rows.n_rows, n_features)
        return EPOCHS.n_epochs(rows.n_rows, rows.n_columns)

    def _n_chains(self):
        return self.n_chains or max(self.batch_size, CHAINS)

    def _schedule(self):
        if self.learning_rate_schedule is not None:
            return self.learning_rate_schedule
        if self._sees(Kind.GAUSSIAN):
            return "linear"
        # (Over the few epochs that a user may ask for, it would fall too soon.)
        falls = self.n_iter is None and not any_unbounded(self._columns().unit)
        return "linear" if falls else "constant"

    def _rate(self):
        if self.learning_rate is not None:
            return float(self.learning_rate)
        of_bits, of_reals, _ = self._default_rates
        if self._bits:
            return of_bits
        rate = of_reals if self._sees(Kind.GAUSSIAN) else of_bits
        hidden = as_unit(self.hidden)
        if Kind.POISSON in kinds_of(hidden):
            rate = self._rate_of_counts()
        if any_unbounded(hidden):
            rate = steady_rate(rate, self._state["largest_variance"])
        return rate

    def _rate_of_counts(self):
        kinds, means = self._columns().kinds, self._state["visible_offset"]
        return rate_of_counts(self._default_rates[2], kinds, means, self.n_components)

    def _rate_shares(self):
        if self.learning_rate is not None:
            return super()._rate_shares()
        kinds = self._columns().kinds
        return rate_shares(self._rate(), self._rate_of_counts(), kinds)

    def _go_on(self, X, rows, n_seen):
        division = super()._go_on(X, rows, n_seen)
        if any_unbounded(as_unit(self.hidden)):
            # (That of all rows is no larger than the mean of that of parts.)
            state = self._state
            now = self._largest_variance(X, division, state)
            share = division.n_rows / state["n_seen"] if n_seen else 1.0
            before = state["largest_variance"]
            largest = before + share * (now - before)
            self._state = state | {"largest_variance": largest}
        return division

    def _largest_variance(self, X, division, state):
        rows, kinds = training_rows(X, division, SOME), self._columns().kinds
        mean, scale = state["visible_offset"], state["visible_scale"]
        return largest_variance(kinds, rows, mean, scale)

    def _check_training(self, X, drawn, goes_on):
        if self._asks_for_bits:
            checked = super()._check_training(X, drawn, goes_on)
            for name in NOT_OF_BITS:  # that a fit with other units may have left
                self.__dict__.pop(name, None)
            return checked
        return self._read_training(X, drawn, goes_on, as_unit(self.hidden))

    @unless_bits
    def _first_state(self, components, X, dtype, division):
        columns = self._columns()
        start = first_units(columns, X, division, self.standardize, dtype)
        bias, variance = start["bias"], start["variance"]
        nothing = np.zeros((1, self.n_components))
        hidden, unit = nothing[0], as_unit(self.hidden)
        rate = unit.mean(nothing)[0]
        if columns.learned.any() and unit.kind == Kind.BERNOULLI:
            learned = varied_features(start, columns)
            rate = wide_rates(components, X, division, start, learned)
            components, hidden, bias, variance = wide_start(
                components, bias, variance, learned, rate
            )
            bits = columns.binary
            if self.centering and bits.any():
                # (Where all features are of few values, small weights end higher.)
                means = columns.unit.mean(start["bias"][np.newaxis])[0], rate
                bias, hidden = start_of_some_bits(
                    bits, components.T, means, (bias, hidden)
                )
        if check_pair(columns.unit, unit):
            components = within_reach(components, columns, variance, unit)
        parameters = {
            "components": components,
            "intercept_hidden": hidden,
            "intercept_visible": bias,
            "log_variance": np.where(columns.gaussian, np.log(variance), 0),
            "hidden_offset": rate,
        }
        kept = {name: start[name] for name in SCALES}
        if any_unbounded(unit):
            state = kept | {"visible_offset": division.column_means}
            kept["largest_variance"] = self._largest_variance(X, division, state)
        return {name: x.astype(dtype) for name, x in parameters.items()} | kept

    @unless_bits
    def _kernel(self, rows, **settings):
        state, columns = self._state, self._columns()
        offset = scaled_offset(state)
        hidden = as_unit(self.hidden)
        trainer = UnitTrainer(
            rows,
            columns.unit.kernel(len(offset)),
            hidden.kernel(self.n_components),
            *(state[name] for name in PARAMETERS),
            visible_offset=self._subtracted(offset, are(columns.kinds, Kind.BERNOULLI)),
            rate_shares=self._rate_shares(),
            **kernel_scales(state, columns),
            **settings,
        )
        if any_unbounded(columns.unit, hidden):
            trainer.clip = CLIP
        trainer.unbounded = check_pair(columns.unit, hidden)
        if self.langevin_time is not None:
            trainer.keep = np.exp(-self.langevin_time)
            h, v = settings["chains"], state.get("visible_chains")
            if h is not None and v is not None and len(h) == len(v):
                trainer.set_chains(h, v)
        if self.persistent and not trainer.keep and not trainer.unbounded:
            # (Two layers of real units do not make modes, but tails, into which rows do
            # not reach and out of which chains would not jump.)
            trainer.start_jumps(state.get("jumps"))
        return trainer

    def _state_after(self, run):
        state = super()._state_after(run)
        if self.langevin_time is not None and self.persistent:
            # (Of other chains hidden states say all: visible ones are drawn from them.)
            state["visible_chains"] = run.trainer.visible_chains()
        return state

    @unless_bits
    def _first_chains(self, n_chains, key, step):
        units = as_unit(self.hidden).kernel(self.n_components)
        return first_draws(units, self._state, n_chains, key, step)

    @unless_bits
    def _public(self, parameters):
        state, dtype = self._state, parameters[0].dtype
        components, hidden, visible, variance = unscaled(
            state, self._columns(), *(x.astype(float) for x in parameters)
        )
        fitted = {
            "components_": components,
            "intercept_hidden_": hidden,
            "intercept_visible_": visible,
            "variance_": variance,
            "visible_mean_": state["visible_offset"],
            "visible_scale_": state["visible_scale"],
        }
        return {name: value.astype(dtype) for name, value in fitted.items()}

    @unless_bits
    def _view(self, parameters):
        return UnitSnapshot(self, self._public(parameters))

    def _warn_of_faults(self, X, run, drawn):
        super()._warn_of_faults(X, run, drawn)
        if as_unit(self.hidden).kind == Kind.BERNOULLI:
            self._warn_of_endless_counts(self.components_, self.intercept_visible_)
        if self._stands_alone:
            warn_of_full_weights(self, self._columns().kinds)

    def _check_restored(self):
        super()._check_restored()
        if hasattr(self, "variance_"):
            self._columns()
