"""Block Gibbs sampling: the state of some chains, and the sweeps that advance it."""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from numbers import Real

import numpy as np

from .._gibbs import Layer, Purpose, half_sweep, run_chains
from .._machines import Machine
from .._pacer import Pacer
from .._panels import Panels
from .._rows import Rows
from .._units import Kind
from .._validation import (
    check_count,
    check_fixed,
    check_names,
    check_states,
    dense,
    random_key,
)
from ..layered import BITS
from ..units import as_unit, check_blocks
from ._jumps import jumps_of
from ._models import base_layer, base_rates, components_of, layers_of

# What values units of a kind can have: in words, and as a test. Every kind needs an
# entry, as nothing else refuses wrong conditions.
STATES = {
    Kind.BERNOULLI: ("0 or 1", lambda x: (x == 0) | (x == 1)),
    Kind.CATEGORICAL: ("0 or 1", lambda x: (x == 0) | (x == 1)),
    Kind.SPIN: ("-1 or 1", lambda x: np.abs(x) == 1),
    Kind.GAUSSIAN: ("finite", np.isfinite),
    Kind.POISSON: ("counts", lambda x: (x >= 0) & (x == np.floor(x))),
    Kind.RELU: (">= 0", lambda x: x >= 0),
}


@dataclass(frozen=True, eq=False)
class Chains:
    """State of chains of visible units.

    Parameters
    ----------
    visible : ndarray of shape (n_chains, n_features)
        Values of the visible units; of Bernoulli units bits (bool) after the first
        step.

    fixed : ndarray of bool of shape (n_chains, n_features) or None
        Units that keep their values.

    key : int
        Random key.

    n_steps : int
        Random steps used up.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.samplers import Gibbs
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> sampler = Gibbs(layers)
    >>> chains = sampler.step(sampler.init(5, random_state=0), 100)
    >>> chains.visible.shape, chains.n_steps
    ((5, 2), 101)
    """

    visible: np.ndarray
    fixed: np.ndarray
    key: int
    n_steps: int


class Gibbs:
    """Block Gibbs sampling: all hidden units, then all visible units.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine; or a deep one, all of whose even layers,
        side by side from the bottom up, are visible units here.

    langevin_time : float or None, default=None
        If a number, Gaussian visible units are not drawn afresh given the hidden
        ones, but follow Langevin dynamics from where they are for this time
        (Gibbs-Langevin sampling [1]_), which leaves a share ``exp(-langevin_time)``
        of their distance from their means. The model is left exactly as it is with
        any time; chains forget their past the faster the longer it is.

    Raises
    ------
    NotFittedError
        If the model is an estimator that is not fitted.

    TypeError
        If the model is neither a Boltzmann machine nor a `Layered`, but a classifier, a
        deep belief net or a class, for instance.

    ValueError
        If the model has no distribution (weights or biases that are too large or not
        finite, of a `Layered` also units that there are not or that do not go
        together), or a single layer; or if `langevin_time` is no positive number, or
        there are no Gaussian visible units.

    References
    ----------
    .. [1] R. Liao, S. Kornblith, M. Ren, D. J. Fleet, G. Hinton, "Gaussian-Bernoulli
       RBMs without tears", arXiv:2210.10318, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.samplers import Gibbs
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> rbm = BernoulliRBM(n_components=2, random_state=0).fit(X)
    >>> sampler = Gibbs(rbm)
    >>> chains = sampler.init(5, random_state=0)
    >>> sampler.step(chains, 100).visible.shape
    (5, 3)
    """

    def __init__(self, model, langevin_time=None):
        self.model, self.langevin_time = model, langevin_time
        layers = layers_of(model)
        self.n_features, self.unit = len(layers.biases[0]), layers.units[0]
        if layers.units == BITS:
            # These have kernels of their own.
            components = components_of(layers)
            self.machine, self.dtype = None, components.dtype
            self.up = Layer(Panels.from_columns(components, True), layers.biases[1])
            self.down = Layer(Panels.from_rows(components), layers.biases[0])
        else:
            self.machine = Machine(layers)
            self.dtype = self.machine.dtype
        self.keep = 0.0 if langevin_time is None else self._share_kept(langevin_time)

    @cached_property
    def _jumps(self):
        """What lets chains jump, or None; made when it is first asked for."""
        return jumps_of(self.model)

    def init(self, n_chains=None, *, init=None, conditions=None, random_state=None):
        """Begin chains.

        Parameters
        ----------
        n_chains : int, default=None
            Number of chains; None means the rows of `init` or `conditions`, or 1.

        init : array-like of shape (n_chains, n_features), default=None
            Values to start from. None, and no `conditions`, draws values near rows of
            the data, if the model is an estimator whose training has kept some (as
            with persistent chains, by default); or else, independent units with the
            means of the data (of a `Layered`, those that its biases alone give), real
            ones at these means.

        conditions : array-like of shape (n_features,) or (n_chains, n_features), \
                default=None
            Values for units that keep them (0 or 1 for Bernoulli units), NaN for the
            others.

        random_state : int, RandomState instance or None, default=None
            Seeds the chains.

        Returns
        -------
        chains : Chains
            The state before the first step.

        Raises
        ------
        ValueError
            If the shape of `init` or `conditions` does not fit the visible units or the
            number of chains; `init` holds NaN or infinity; `conditions` hold what units
            cannot be, or a part of a block of categories; or if `n_chains` is less than
            1, or `random_state` is not allowed.

        TypeError
            If `n_chains` is no integer, `conditions` are sparse, or they or `init` hold
            dates or times.

        Warns
        -----
        UserWarning
            If all units are Bernoulli units, and `init` has values outside [0, 1].
        """
        quiet, key = self.machine is not None, random_key(random_state)
        return self.begin(n_chains, init, conditions, key, 0, quiet)

    def begin(self, n_chains, init, conditions, key, step, quiet=True):
        """Begin chains like `init`, at a step of a random sequence.

        Parameters
        ----------
        n_chains, init, conditions : int, array-like, array-like
            As for `init`.

        key, step : int
            Random key and first random step.

        quiet : bool, default=True
            Whether to say nothing of values of `init` outside [0, 1]. An estimator that
            begins chains has warned of its columns, which may not be the units.

        Returns
        -------
        chains : Chains
            The state before the first step.

        Raises
        ------
        ValueError, TypeError
            As in `init`.

        Warns
        -----
        UserWarning
            As in `init`, unless `quiet`.
        """
        n_features, bits = self.n_features, self.machine is None
        values = None
        if n_chains is not None:
            n_chains = check_count(n_chains, "n_chains", least=1)
        check_names(self.model, init, "init")
        check_names(self.model, conditions, "conditions")
        if init is not None:
            init, rows = check_states(self.model, init, n_features, "init", quiet=quiet)
            n_chains = same_rows(n_chains, rows.n_rows, "init")
            init = as_values(init)
        if conditions is not None:
            values = check_fixed(conditions, n_features, binary=bits)
            self._check_conditions(values)
            if len(values) > 1:
                n_chains = same_rows(n_chains, len(values), "conditions")
        n_chains = n_chains or 1
        if init is None:
            near = values is None and self._jumps is not None
            init = (self._jumps if near else self).start(n_chains, key, step)
            init = init.astype(bool if bits else self.dtype, copy=False)
        elif not bits:
            init = np.array(dense(init), self.dtype)
        fixed = None
        if values is not None:
            init = np.array(dense(init))
            fixed = np.broadcast_to(~np.isnan(values), init.shape).copy()
            init[fixed] = np.broadcast_to(values, init.shape)[fixed]
        return Chains(init, fixed, key, step + 1)

    def _check_conditions(self, values):
        """Refuse values that the units cannot have."""
        if self.machine is None:
            return
        start, unit = 0, as_unit(self.unit)
        check_blocks(unit, np.isnan(values), "conditions")
        for kind, n_units, size in unit._groups(self.n_features):
            part, start = values[:, start : start + n_units], start + n_units
            words, can_be = STATES[kind]
            wrong = part[~np.isnan(part) & ~can_be(part)]
            if len(wrong):
                raise ValueError(
                    f"conditions of {Kind(kind).name.lower()} units must be {words}, "
                    f"or NaN for units that are free, got {wrong[0]:.6g}."
                )
            ones = part.reshape(-1, size).sum(axis=1)
            if kind == Kind.CATEGORICAL and (ones[~np.isnan(ones)] != 1).any():
                raise ValueError(
                    "conditions of categorical units must have one 1 in each block "
                    "of columns, or NaN in all of them."
                )

    def start(self, n_chains, key, step):
        """Begin with independent visible units at a step of a random sequence.

        Parameters
        ----------
        n_chains, key, step : int, int, int
            Number of rows, random key and step.

        Returns
        -------
        visible : ndarray of shape (n_chains, n_features)
            Draws with the means of the training data or, of a `Layered`, by the biases
            alone; real units are at these means.
        """
        if self.machine is not None:
            base = base_layer(self.model, layers_of(self.model))
            return self.machine.independent(n_chains, key, step, base)
        rng = np.random.default_rng([key, step])
        return rng.random((n_chains, self.n_features)) < base_rates(self.model)

    def step(self, chains, n_steps=1):
        """Advance chains.

        Parameters
        ----------
        chains : Chains
            State to start from.

        n_steps : int, default=1
            Number of sweeps.

        Returns
        -------
        chains : Chains
            State after these sweeps.

        Raises
        ------
        TypeError
            If `chains` are no `Chains`, or `n_steps` is no integer.

        ValueError
            If `chains` are of a model with another number of visible units, or
            `n_steps` is negative.
        """
        self._check(chains)
        n_steps = check_count(n_steps, "n_steps", least=0)
        if n_steps == 0:
            return chains
        states, first = chains.visible, chains.n_steps
        stop = first + n_steps
        if self.machine is not None:
            states = np.array(states)
            self.machine.run(
                states, n_steps, chains.key, first, chains.fixed, self.keep
            )
            return replace(chains, visible=states, n_steps=stop)
        if states.dtype == np.bool_:
            states = np.array(states)
        else:
            _, states = self.means(chains, first)
            first += 1
        Pacer().run(
            lambda start, end, _: run_chains(
                self.up,
                self.down,
                states,
                end - start,
                chains.key,
                first + start,
                chains.fixed,
            ),
            stop - first,
        )
        return replace(chains, visible=states, n_steps=stop)

    def jump(self, chains):
        """Propose to every chain a jump to a place near a row of the training.

        Sweeps do not carry chains from mode to mode where these lie far apart. Jumps
        are accepted with a probability that leaves the distribution of the model as it
        is, so that modes get their shares; in large machines nearly always none is.
        Where units keep their values, that is the distribution given these, and half of
        the proposals are near rows that are drawn by how likely they make these values.
        Chains stay if the model is no estimator whose training has kept rows.

        Parameters
        ----------
        chains : Chains
            State to start from; its Bernoulli units are bits.

        Returns
        -------
        chains : Chains
            State a random step later.

        Raises
        ------
        TypeError
            If `chains` are no `Chains`.

        ValueError
            If `chains` are of a model with another number of visible units.
        """
        return self.jumping(chains)(chains)

    def jumping(self, chains):
        """Return `jump` for these chains, in whatever state they will be.

        Parameters
        ----------
        chains : Chains
            Any state of theirs. Which rows go with the units that keep their values is
            found once, for all jumps.

        Returns
        -------
        jump : callable
            From a state to the next.

        Raises
        ------
        TypeError, ValueError
            As in `jump`.
        """
        self._check(chains)
        if self._jumps is None:
            return lambda chains: chains
        # (No sooner than there is a jump: it takes as long as some sweeps.)
        given = cache(lambda: self._jumps.given(chains.visible, chains.fixed))

        def jump(chains):
            visible, n_steps = chains.visible, chains.n_steps
            visible = self._jumps.jump(visible, chains.key, n_steps, given())
            return replace(chains, visible=visible, n_steps=n_steps + 1)

        return jump

    def means(self, chains, step):
        """One sweep at a random step, with the means it draws with.

        Parameters
        ----------
        chains : Chains
            State to start from; its values need not be bits.

        step : int
            Random step.

        Returns
        -------
        means : ndarray of shape (n_chains, n_features)
            Means of the visible units, given the hidden units drawn; the values of
            fixed ones.

        visible : ndarray of shape (n_chains, n_features)
            Drawn with these means.

        Raises
        ------
        TypeError
            If `chains` are no `Chains`.

        ValueError
            If `chains` are of a model with another number of visible units.
        """
        self._check(chains)
        if self.machine is not None:
            fields, visible = self.machine.sweep(
                chains.visible, chains.key, step, self.keep
            )
            means = self.machine.down.means_at(fields)
            return self._with_fixed(chains, means), self._with_fixed(chains, visible)
        rows = Rows(chains.visible, self.dtype)
        hidden = np.empty((rows.n_rows, self.up.n_units), dtype=bool)
        visible = np.empty((rows.n_rows, self.down.n_units), dtype=bool)
        means = np.empty(visible.shape, self.dtype)
        draw = {"key": chains.key, "step": step}
        half_sweep(rows, self.up, samples=hidden, purpose=Purpose.DRAW_HIDDEN, **draw)
        half_sweep(
            Rows(hidden, self.dtype),
            self.down,
            means=means,
            samples=visible,
            purpose=Purpose.DRAW_VISIBLE,
            **draw,
        )
        return self._with_fixed(chains, means), self._with_fixed(chains, visible)

    def _share_kept(self, time):
        """Share of their distance from their means that Gaussian units keep."""
        if not (isinstance(time, Real) and 0 < time < np.inf):
            raise ValueError(f"langevin_time must be a positive number, got {time!r}.")
        if self.machine is None or not self.machine.gaussian.any():
            raise ValueError(
                "Langevin dynamics are for Gaussian visible units, of which this "
                "model has none."
            )
        return float(np.exp(-time))

    def _check(self, chains):
        check_state(chains, Chains, ("n_chains", self.n_features))

    @staticmethod
    def _with_fixed(chains, values):
        """Put the values of fixed units into these, in place."""
        if chains.fixed is not None:
            # (Several times faster than by an index, which makes a list of places.)
            np.copyto(values, chains.visible, "unsafe", where=chains.fixed)
        return values


def as_values(X):
    """Return values from outside, which are never to be bool.

    bool marks bits that a sampler has drawn, which take another kernel: so chains that
    begin at the same values are the same, whatever dtype these have.
    """
    return X.astype(np.uint8) if X.dtype == np.bool_ else X


def check_state(state, kind, shape=None):
    """Refuse what is no state of a sampler, or of another model.

    Parameters
    ----------
    state : Chains or Replicas
        What a sampler is to go on from.

    kind : type
        What it has to be.

    shape : tuple of (str, ..., int) or None, default=None
        Shape of its visible units, of which only the last number is known.
    """
    if not isinstance(state, kind):
        raise TypeError(
            f"A state must be {kind.__name__}, as init and step return them, got "
            f"{state!r}."
        )
    found = np.shape(state.visible)
    if shape is not None and (len(found) != len(shape) or found[-1] != shape[-1]):
        wanted = ", ".join(map(str, shape))
        raise ValueError(
            f"visible of {kind.__name__} must be of shape ({wanted}), got {found}."
        )


def same_rows(n_chains, n_rows, name, chains="chains"):
    """Return the number of rows of an argument, which has to be that of the chains."""
    if n_chains not in (None, n_rows):
        raise ValueError(f"{name} has {n_rows} rows for {n_chains} {chains}.")
    return n_rows
