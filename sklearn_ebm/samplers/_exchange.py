"""Replica exchange: ensembles of chains at several temperatures that swap them."""

from dataclasses import dataclass, replace

import numpy as np

from .._ais import exchange
from .._pacer import Pacer
from .._validation import (
    check_count,
    check_mask,
    check_names,
    check_states,
    dense,
    random_key,
)
from ._chains import check_state, same_rows
from ._models import base_rates
from ._paths import annealing_path, check_betas
from ._swaps import evened, swap_rates, swap_sums


@dataclass(frozen=True, eq=False)
class Replicas:
    """State of ensembles of chains at different inverse temperatures.

    Parameters
    ----------
    visible : ndarray of bool of shape (n_ensembles, n_temperatures, n_features)
        Visible units of every chain.

    levels : ndarray of int32 of shape (n_ensembles, n_temperatures)
        Which of `betas` each chain is at.

    betas : ndarray of shape (n_temperatures,)
        Inverse temperatures, ascending, from 0 to 1.

    fixed : ndarray of bool like `visible` or None
        Units that keep their values.

    key : int
        Random key.

    n_steps : int
        Random steps used up.

    swap_rates : ndarray of shape (n_temperatures - 1,)
        In the last call of `step`, the share of swaps between neighbouring
        temperatures that were accepted; NaN if none was tried.

    gains : ndarray of shape (n_steps, n_ensembles, n_temperatures)
        In the last call of `step`, for every chain the log-probability
        (unnormalised) at its partner's temperature less that at its own; 0
        without a partner.

    visits : ndarray of int32 of shape (n_steps, n_ensembles, n_temperatures)
        In the last call of `step`, the levels at which these gains were found.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.samplers import ReplicaExchange
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> replicas = ReplicaExchange(layers).init(3, betas=4, random_state=0)
    >>> replicas.visible.shape, replicas.levels[0]
    ((3, 4, 2), array([0, 1, 2, 3], dtype=int32))
    """

    visible: np.ndarray
    levels: np.ndarray
    betas: np.ndarray
    fixed: np.ndarray
    key: int
    n_steps: int
    swap_rates: np.ndarray
    gains: np.ndarray
    visits: np.ndarray


class ReplicaExchange:
    """Parallel tempering: chains at several temperatures that swap them.

    Every ensemble has a chain at each inverse temperature of a path from
    independent units to the model. Before each sweep neighbours swap their
    temperatures with probability ``min(1, p_1(v_2) p_2(v_1) / (p_1(v_1) p_2(v_2)))``,
    hidden units summed out, which leaves the joint distribution as it is. Chains that
    have been at the other end bring samples of other modes.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine; or a deep one, all of whose even layers,
        side by side from the bottom up, are visible units here.

    Raises
    ------
    NotFittedError, TypeError
        As in `Gibbs`.

    ValueError
        As in `Gibbs`; or if not all units are Bernoulli units.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.samplers import ReplicaExchange
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> sampler = ReplicaExchange(layers)
    >>> replicas = sampler.step(sampler.init(3, betas=4, random_state=0), 100)
    >>> sampler.samples(replicas).shape
    (3, 2)
    """

    def __init__(self, model):
        self.model = model
        self._path, self.log_z_base = annealing_path(model)

    def init(
        self, n_ensembles=1, *, betas=10, init=None, fixed=None, random_state=None
    ):
        """Begin ensembles of chains.

        Parameters
        ----------
        n_ensembles : int, default=1
            Number of independent ensembles.

        betas : int or array-like of shape (n_temperatures,), default=10
            Inverse temperatures, ascending from 0 to 1, or how many, evenly spaced.

        init : array-like of shape (n_ensembles, n_features), default=None
            Bits that all chains of an ensemble start from; None draws independent
            units with the means of the training data.

        fixed : array-like of bool like `init`, default=None
            Units of `init` that keep their values.

        random_state : int, RandomState instance or None, default=None
            Seeds the chains.

        Returns
        -------
        replicas : Replicas
            The state before the first step.

        Raises
        ------
        ValueError
            If `init` has another shape, or holds anything but 0 and 1; `fixed` is not
            bool, has another shape or comes without `init`; `betas` are fewer than two
            or do not ascend from 0 to 1; `n_ensembles` is less than 1; or
            `random_state` is not allowed.

        TypeError
            If `n_ensembles` or a single number `betas` is no integer, or `init` holds
            dates or times.
        """
        n_ensembles = check_count(n_ensembles, "n_ensembles", least=1)
        betas = check_betas(betas)
        key = random_key(random_state)
        shape = (n_ensembles, len(betas), self._path.down.n_units)
        rng = np.random.default_rng([key, 0])
        if init is None:
            visible = rng.random(shape) < base_rates(self.model)
        else:
            check_names(self.model, init, "init")
            init, rows = check_states(self.model, init, shape[2], "init")
            same_rows(n_ensembles, rows.n_rows, "init", "ensembles")
            if not rows.binary:
                raise ValueError("init must hold nothing but 0 and 1.")
            init = dense(init) != 0
            visible = np.broadcast_to(init[:, np.newaxis], shape).copy()
        if fixed is not None:
            check_names(self.model, fixed, "fixed")
            fixed = check_mask(fixed, shape[::2], "fixed")
            if init is None:
                raise ValueError("fixed says which units of init stay: it needs init.")
            fixed = np.broadcast_to(fixed[:, np.newaxis], shape).copy()
        levels = np.tile(np.arange(len(betas), dtype=np.int32), (n_ensembles, 1))
        empty = np.empty((0, n_ensembles, len(betas)))
        rates = np.full(len(betas) - 1, np.nan)
        return Replicas(
            visible, levels, betas, fixed, key, 1, rates, empty, empty.astype(np.int32)
        )

    def step(self, replicas, n_steps=1, *, record=True):
        """Advance ensembles.

        Parameters
        ----------
        replicas : Replicas
            State to start from.

        n_steps : int, default=1
            Number of sweeps.

        record : bool, default=True
            Whether to keep the gains and visits of every sweep, 12 bytes for each
            chain, and the swap rates found from them.

        Returns
        -------
        replicas : Replicas
            State after these sweeps, with the statistics of their swaps.

        Raises
        ------
        TypeError
            If `replicas` are no `Replicas`, or `n_steps` is no integer.

        ValueError
            If `replicas` are of a model with another number of visible units, or
            `n_steps` is negative.
        """
        n_features = self._path.down.n_units
        check_state(replicas, Replicas, ("n_ensembles", "n_temperatures", n_features))
        n_steps = check_count(n_steps, "n_steps", least=0)
        n_ensembles, n_temperatures, _ = replicas.visible.shape
        flat = (n_ensembles * n_temperatures, n_features)
        visible = replicas.visible.reshape(flat).copy()
        fixed = None if replicas.fixed is None else replicas.fixed.reshape(flat)
        levels = replicas.levels.copy()
        n_kept = n_steps if record else 0
        gains = np.empty((n_kept, n_ensembles, n_temperatures))
        visits = np.empty(gains.shape, dtype=np.int32)
        first = replicas.n_steps

        def kernel(start, stop, _):
            exchange(
                self._path,
                visible,
                levels,
                replicas.betas,
                first + start,
                first + stop,
                replicas.key,
                clamped=fixed,
                gains=gains[start:stop] if record else None,
                visits=visits[start:stop] if record else None,
            )

        Pacer().run(kernel, n_steps)
        return replace(
            replicas,
            visible=visible.reshape(replicas.visible.shape),
            levels=levels,
            n_steps=first + n_steps,
            swap_rates=swap_rates(swap_sums(gains, visits, levels, first)),
            gains=gains,
            visits=visits,
        )

    def adapt(self, replicas, n_steps=200, n_rounds=5):
        """Advance ensembles and move their temperatures to even out the swaps.

        For the warm-up: afterwards the temperatures stay as they are. Between two
        rounds the temperatures are spaced so that, going by the gains of the last
        round, a swap is about as likely anywhere.

        Parameters
        ----------
        replicas : Replicas
            State to start from.

        n_steps : int, default=200
            Number of sweeps in all; cut down to a multiple of `n_rounds`, and at
            least two a round.

        n_rounds : int, default=5
            How often the temperatures move.

        Returns
        -------
        replicas : Replicas
            State after these sweeps.

        Raises
        ------
        TypeError
            If `replicas` are no `Replicas`, or a number is no integer.

        ValueError
            If `replicas` are of a model with another number of visible units, `n_steps`
            is negative, or `n_rounds` is less than 1.
        """
        n_steps = check_count(n_steps, "n_steps", least=0)
        n_rounds = check_count(n_rounds, "n_rounds", least=1)
        for _ in range(n_rounds):
            after = self.step(replicas, max(2, n_steps // n_rounds))
            sums = swap_sums(after.gains, after.visits, after.levels, replicas.n_steps)
            replicas = replace(after, betas=evened(after.betas, sums))
        return replicas

    @staticmethod
    def samples(replicas):
        """Return the chains that are at the model itself.

        Parameters
        ----------
        replicas : Replicas
            State of the ensembles.

        Returns
        -------
        v : ndarray of bool of shape (n_ensembles, n_features)
            Their visible units.

        Raises
        ------
        TypeError
            If `replicas` are no `Replicas`.
        """
        check_state(replicas, Replicas)
        at = np.argmax(replicas.levels, axis=1)
        return replicas.visible[np.arange(len(at)), at]
