"""Samplers of layered models as init and step on a small state, and diagnostics.

A sampler holds the model; the state that `init` returns and `step` advances holds
everything else, the random key and counter among it, so that a step from the same
state gives the same result. Steps return a new state and leave the old one alone.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from ._ais import Path, exchange
from ._gibbs import Layer, Purpose, half_sweep, run_chains
from ._panels import Panels
from ._rows import Rows
from ._training import Pacer
from ._validation import (
    check_choice,
    check_count,
    check_fixed,
    check_mask,
    check_states,
    random_key,
)
from .layered import Layered

# Least probability of either state of a unit where a path begins, so that what the
# model allows can be reached.
LEAST_RATE = 1e-3
SAMPLING_METHODS = "gibbs", "tempering"
IMPUTING_METHODS = "mean", "sample"


def two_layers(model):
    """Return the layered value of a model with two layers of Bernoulli units.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    Returns
    -------
    layers : Layered
        Its layers, the visible one first.
    """
    layers = model if isinstance(model, Layered) else model._layered()
    if layers.units != ("bernoulli", "bernoulli"):
        raise ValueError(
            f"This takes two layers of Bernoulli units, got {layers.units!r}."
        )
    return layers


def base_rates(model):
    """Return the means of independent visible units that are near the model's.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine. An estimator's means are those of
        its training data, a `Layered`'s those its biases alone would give.

    Returns
    -------
    means : ndarray of shape (n_features,)
        Means.
    """
    means = getattr(model, "visible_mean_", None)
    if means is None:
        means = expit(np.asarray(two_layers(model).biases[0], dtype=np.float64))
    return np.asarray(means, np.float64)


def annealing_path(model):
    """Return the path from a base-rate model to a model, and where it begins.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    Returns
    -------
    path : Path
        Machines at the inverse temperatures from 0 (independent units; the
        visible ones with `base_rates`) to 1 (the model).

    log_z : float
        Logarithm of the partition function at inverse temperature 0.
    """
    layers = two_layers(model)
    base = logit(np.clip(base_rates(model), LEAST_RATE, 1 - LEAST_RATE))
    n_hidden = len(layers.biases[1])
    path = Path(
        _components(layers),
        layers.biases,
        (base, np.zeros(n_hidden)),
    )
    return path, float(np.logaddexp(0, base).sum() + n_hidden * np.log(2))


def _components(layers):
    """Weights (n_hidden, n_visible), in a dtype that kernels compute in."""
    weights = np.asarray(layers.weights[0])
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    return np.ascontiguousarray(weights.T, dtype=dtype)


# ---- Block Gibbs sampling ----


@dataclass(frozen=True, eq=False)
class Chains:
    """State of chains of visible units.

    Parameters
    ----------
    visible : ndarray of shape (n_chains, n_features)
        Values of the visible units; bits (bool) after the first step.

    fixed : ndarray of bool of shape (n_chains, n_features) or None
        Units that keep their values.

    key : int
        Random key.

    n_steps : int
        Random steps used up.
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
        A fitted restricted Boltzmann machine.

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

    def __init__(self, model):
        self.model = model
        layers = two_layers(model)
        components = _components(layers)
        self.dtype = components.dtype
        self.up = Layer(Panels.from_columns(components, True), layers.biases[1])
        self.down = Layer(Panels.from_rows(components), layers.biases[0])

    def init(self, n_chains=None, *, init=None, conditions=None, random_state=None):
        """Begin chains.

        Parameters
        ----------
        n_chains : int, default=None
            Number of chains; None means the rows of `init` or `conditions`, or 1.

        init : array-like of shape (n_chains, n_features), default=None
            Values to start from; None draws independent units with the means of
            the training data.

        conditions : array-like of shape (n_features,) or (n_chains, n_features), \
                default=None
            0 or 1 for units that keep this value, NaN for the others.

        random_state : int, RandomState instance or None, default=None
            Seeds the chains.

        Returns
        -------
        chains : Chains
            The state before the first step.
        """
        return self.begin(n_chains, init, conditions, random_key(random_state), 0)

    def begin(self, n_chains, init, conditions, key, step):
        """Begin chains like `init`, at a step of a random sequence.

        Parameters
        ----------
        n_chains, init, conditions : int, array-like, array-like
            As for `init`.

        key, step : int
            Random key and first random step.

        Returns
        -------
        chains : Chains
            The state before the first step.
        """
        n_features = self.down.n_units
        values = None
        if n_chains is not None:
            n_chains = check_count(n_chains, "n_chains", least=1)
        if init is not None:
            init, rows = check_states(self.model, init, n_features, "init")
            n_chains = _same_rows(n_chains, rows.n_rows, "init")
            init = given(init)
        if conditions is not None:
            values = check_fixed(conditions, n_features)
            if len(values) > 1:
                n_chains = _same_rows(n_chains, len(values), "conditions")
        n_chains = n_chains or 1
        if init is None:
            rng = np.random.default_rng([key, step])
            init = rng.random((n_chains, n_features)) < base_rates(self.model)
        fixed = None
        if values is not None:
            init = np.array(_dense(init))
            fixed = np.broadcast_to(~np.isnan(values), init.shape).copy()
            init[fixed] = np.broadcast_to(values, init.shape)[fixed]
        return Chains(init, fixed, key, step + 1)

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
        """
        n_steps = check_count(n_steps, "n_steps", least=0)
        if n_steps == 0:
            return chains
        states, first = chains.visible, chains.n_steps
        stop = first + n_steps
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

    def means(self, chains, step):
        """One sweep at a random step, with the probabilities it draws from.

        Parameters
        ----------
        chains : Chains
            State to start from; its values need not be bits.

        step : int
            Random step.

        Returns
        -------
        means : ndarray of shape (n_chains, n_features)
            Probabilities of the visible units, given the hidden units drawn; the
            values of fixed ones.

        visible : ndarray of shape (n_chains, n_features)
            Bits drawn with these probabilities.
        """
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
        if chains.fixed is not None:
            for array in (means, visible):
                array[chains.fixed] = chains.visible[chains.fixed]
        return means, visible


def given(X):
    """Return values that come from outside as what chains start from.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_chains, n_features)
        Values of visible units.

    Returns
    -------
    X : ndarray or sparse matrix of shape (n_chains, n_features)
        The same, never of bool: only bits that a sampler has drawn are, and so it
        sums the same numbers in the same order whatever the type of given ones.
    """
    return X.astype(np.uint8) if X.dtype == np.bool_ else X


def _dense(X):
    return X.toarray() if sp.issparse(X) else X


def _same_rows(n_chains, n_rows, name):
    if n_chains not in (None, n_rows):
        raise ValueError(f"{name} has {n_rows} rows for {n_chains} chains.")
    return n_rows


# ---- Replica exchange ----


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
        A fitted restricted Boltzmann machine.
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
        """
        n_ensembles = check_count(n_ensembles, "n_ensembles", least=1)
        betas = check_betas(betas)
        key = random_key(random_state)
        shape = (n_ensembles, len(betas), self._path.down.n_units)
        rng = np.random.default_rng([key, 0])
        if init is None:
            visible = rng.random(shape) < base_rates(self.model)
        else:
            init, rows = check_states(self.model, init, shape[2], "init")
            _same_rows(n_ensembles, rows.n_rows, "init")
            if not rows.binary:
                raise ValueError("init must hold nothing but 0 and 1.")
            init = _dense(init) != 0
            visible = np.broadcast_to(init[:, np.newaxis], shape).copy()
        if fixed is not None:
            fixed = check_mask(fixed, shape[::2], "fixed")
            fixed = np.broadcast_to(fixed[:, np.newaxis], shape).copy()
        levels = np.tile(np.arange(len(betas), dtype=np.int32), (n_ensembles, 1))
        empty = np.empty((0, n_ensembles, len(betas)))
        rates = np.full(len(betas) - 1, np.nan)
        return Replicas(
            visible, levels, betas, fixed, key, 1, rates, empty, empty.astype(np.int32)
        )

    def step(self, replicas, n_steps=1):
        """Advance ensembles.

        Parameters
        ----------
        replicas : Replicas
            State to start from.

        n_steps : int, default=1
            Number of sweeps.

        Returns
        -------
        replicas : Replicas
            State after these sweeps, with the statistics of their swaps.
        """
        n_steps = check_count(n_steps, "n_steps", least=0)
        n_ensembles, n_temperatures, n_features = replicas.visible.shape
        flat = (n_ensembles * n_temperatures, n_features)
        visible = replicas.visible.reshape(flat).copy()
        fixed = None if replicas.fixed is None else replicas.fixed.reshape(flat)
        levels = replicas.levels.copy()
        gains = np.empty((n_steps, n_ensembles, n_temperatures))
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
                0,
                fixed,
                gains[start:stop],
                visits[start:stop],
            )

        Pacer().run(kernel, n_steps)
        after = np.concatenate([visits[1:], levels[np.newaxis]])
        return replace(
            replicas,
            visible=visible.reshape(replicas.visible.shape),
            levels=levels,
            n_steps=first + n_steps,
            swap_rates=_swap_rates(visits, after, first, n_temperatures),
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
        """
        for _ in range(n_rounds):
            replicas = self.step(replicas, max(2, n_steps // n_rounds))
            replicas = replace(replicas, betas=_evened(replicas))
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
        """
        at = np.argmax(replicas.levels, axis=1)
        return replicas.visible[np.arange(len(at)), at]


def check_betas(betas):
    """Return inverse temperatures as an array, after a check.

    Parameters
    ----------
    betas : int, "classic" or array-like of shape (n_temperatures,)
        Inverse temperatures ascending from 0 to 1, or how many, evenly spaced.
        "classic" are 14 501, dense near 1 [1]_.

    Returns
    -------
    betas : ndarray of shape (n_temperatures,)
        Inverse temperatures.

    References
    ----------
    .. [1] R. Salakhutdinov, I. Murray, "On the quantitative analysis of deep belief
       networks", ICML 2008.
    """
    if isinstance(betas, str) and betas == "classic":
        parts = [(0, 0.5, 500), (0.5, 0.9, 4000), (0.9, 1, 10_000)]
        spaced = [np.linspace(a, b, n, endpoint=False) for a, b, n in parts]
        return np.concatenate([*spaced, [1.0]])
    if np.ndim(betas) == 0 and not isinstance(betas, str):
        return np.linspace(0, 1, check_count(betas, "betas", least=2))
    try:
        array = np.asarray(betas, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if (
        array.ndim != 1
        or len(array) < 2
        or array[0] != 0
        or array[-1] != 1
        or not (np.diff(array) > 0).all()
    ):
        raise ValueError(
            "betas must be a number of temperatures, 'classic' or numbers that "
            f"ascend from 0 to 1, got {betas!r}."
        )
    return array


def _swap_rates(before, after, first, n_temperatures):
    """Share of accepted swaps between each level and the next."""
    rates = np.full(n_temperatures - 1, np.nan)
    steps = first + np.arange(len(before))
    for level in range(n_temperatures - 1):
        tried = (steps - level) % 2 == 0
        if tried.any():
            low = before[tried] == level
            rates[level] = (after[tried][low] == level + 1).mean()
    return rates


def _evened(replicas):
    """Inverse temperatures between which swaps are about as likely everywhere.

    The gain of the lower chain plus that of the upper one, on average, is the
    symmetric divergence of two neighbours; its square root adds up along the path
    like a length, of which every interval gets the same part.
    """
    betas, steps = replicas.betas, replicas.n_steps + np.arange(-len(replicas.gains), 0)
    lengths = np.empty(len(betas) - 1)
    for level in range(len(lengths)):
        tried = (steps - level) % 2 == 0
        gains, visits = replicas.gains[tried], replicas.visits[tried]
        up, down = gains[visits == level].mean(), gains[visits == level + 1].mean()
        lengths[level] = np.sqrt(max(-(up + down), 1e-12))
    total = np.concatenate([[0], np.cumsum(lengths)])
    # Half of the way, lest noise drive temperatures back and forth.
    even = np.interp(np.linspace(0, total[-1], len(betas)), total, betas)
    mixed = (betas + even) / 2
    mixed[0], mixed[-1] = 0, 1
    return mixed


# ---- Many samples, and samples of what is missing ----


def sample_chains(
    model,
    n_draws,
    n_chains=None,
    *,
    warm_up=1000,
    thinning=1,
    method="gibbs",
    init=None,
    conditions=None,
    random_state=None,
):
    """Draw from several chains, keeping apart what comes from each.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    n_draws : int
        Number of draws from every chain.

    n_chains : int, default=None
        Number of chains; None means the rows of `init` or `conditions`, or 1.

    warm_up : int, default=1000
        Sweeps before the first draw.

    thinning : int, default=1
        Sweeps from a draw to the next.

    method : {"gibbs", "tempering"}, default="gibbs"
        "tempering" draws from the model's end of `ReplicaExchange` with ten
        temperatures, which adapt during the first half of the warm-up and stay as
        they are from then on. It takes ten times as long a sweep, and crosses
        between modes where Gibbs sampling hardly does.

    init : array-like of shape (n_chains, n_features), default=None
        Values to start from; None draws independent units with the means of the
        training data.

    conditions : array-like of shape (n_features,) or (n_chains, n_features), \
            default=None
        0 or 1 for units that keep this value, NaN for the others.

    random_state : int, RandomState instance or None, default=None
        Seeds the draws.

    Returns
    -------
    v : ndarray of bool of shape (n_draws, n_chains, n_features)
        Visible units.
    """
    chains = Gibbs(model).init(
        n_chains, init=init, conditions=conditions, random_state=random_state
    )
    return draw(model, chains, n_draws, warm_up, thinning, method)


def draw(model, chains, n_draws, warm_up, thinning, method):
    """Draw from chains that have been begun.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    chains : Chains
        The state before the warm-up.

    n_draws, warm_up, thinning, method : int, int, int, str
        As for `sample_chains`.

    Returns
    -------
    v : ndarray of bool of shape (n_draws, n_chains, n_features)
        Visible units.
    """
    n_draws = check_count(n_draws, "n_draws", least=1)
    warm_up = check_count(warm_up, "warm_up", least=0)
    thinning = check_count(thinning, "thinning", least=1)
    check_choice(method, "method", SAMPLING_METHODS)
    if method == "gibbs":
        sampler, look = Gibbs(model), lambda chains: _dense(chains.visible)
    else:
        sampler = ReplicaExchange(model)
        look = sampler.samples
        # Values between 0 and 1 become bits.
        bits = chains if chains.visible.dtype == bool else Gibbs(model).step(chains)
        chains = sampler.init(
            len(bits.visible), init=bits.visible, fixed=bits.fixed, random_state=0
        )
        # Not from that seed, which only keeps NumPy's generator out of it.
        chains = replace(chains, key=bits.key, n_steps=bits.n_steps)
        chains = sampler.adapt(chains, warm_up // 2)
        warm_up -= warm_up // 2
    chains = sampler.step(chains, warm_up)
    draws = [look(chains)]
    for _ in range(n_draws - 1):
        chains = sampler.step(chains, thinning)
        draws.append(look(chains))
    return np.stack(draws)


def impute(model, X, missing, *, n_gibbs_steps=100, method="mean", random_state=None):
    """Fill in missing visible units, given the others.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    X : array-like of shape (n_samples, n_features)
        Values of the visible units; what it holds where they are missing does not
        matter.

    missing : array-like of bool of shape (n_samples, n_features) or (n_features,)
        Which of them are missing.

    n_gibbs_steps : int, default=100
        Sweeps of a chain of every row; the first half is a warm-up.

    method : {"mean", "sample"}, default="mean"
        "mean" estimates the conditional mean of every missing unit, as the mean of
        its probabilities given the hidden units in the second half of the sweeps.
        "sample" draws missing units jointly from their conditional distribution.

    random_state : int, RandomState instance or None, default=None
        Seeds the chains.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        A copy in the dtype of the model, missing values filled in.
    """
    n_steps = check_count(n_gibbs_steps, "n_gibbs_steps", least=1)
    check_choice(method, "method", IMPUTING_METHODS)
    missing = check_mask(missing, np.shape(X), "missing")
    n_features = len(two_layers(model).biases[0])
    X, _ = check_states(model, np.where(missing, 0, X), n_features, "X")
    return fill_in(model, X, missing, n_steps, method, random_key(random_state), 0)


def fill_in(model, X, missing, n_steps, method, key, step):
    """Fill in missing visible units like `impute`, at a step of a random sequence.

    Parameters
    ----------
    model, X, missing, n_steps, method : see `impute`
        As there, but X is an array and `n_steps` are the sweeps.

    key, step : int
        Random key and first random step.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        A copy in the dtype of the model, missing values filled in.
    """
    sampler = Gibbs(model)
    start = np.random.default_rng([key, step]).random(X.shape) < base_rates(model)
    visible = np.where(missing, start, X).astype(sampler.dtype)
    chains = Chains(visible, ~missing, key, step + 1)
    total, n_kept = np.zeros(X.shape), 0
    for k in range(n_steps):
        # A sweep at a time, because observed values may lie between 0 and 1.
        means, drawn = sampler.means(chains, step + 1 + k)
        chains = replace(chains, visible=np.where(missing, drawn, visible))
        if k >= n_steps // 2:
            total, n_kept = total + means, n_kept + 1
    filled = total / n_kept if method == "mean" else chains.visible
    return np.where(missing, filled, visible).astype(sampler.dtype)


# ---- Diagnostics ----


def autocorrelation_time(x):
    """Estimate the integrated autocorrelation time of chains.

    Parameters
    ----------
    x : array-like of shape (n_draws,) or (n_draws, n_chains)
        Successive values of one quantity.

    Returns
    -------
    time : float
        ``1 + 2 * sum of autocorrelations`` in draws, summed over pairs of lags
        while these pairs are positive and fall (Geyer's initial monotone sequence
        [1]_), with the variance between chains counted. 1 if all values are the
        same, and at least ``1 / log10(n_draws * n_chains)``.

    References
    ----------
    .. [1] C. J. Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7,
       1992.
    """
    x = _draws(x)
    n, m = x.shape
    centred = x - x.mean(axis=0)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, size, axis=0)[:n].mean(axis=1) / n
    within = covariance[0] * n / (n - 1)
    variance = within * (n - 1) / n + (x.mean(axis=0).var(ddof=1) if m > 1 else 0)
    if variance == 0:
        return 1.0
    rho = 1 - (within - covariance * n / (n - 1)) / variance
    rho[0] = 1
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = np.argmax(pairs <= 0) if (pairs <= 0).any() else len(pairs)
    time = -1 + 2 * np.minimum.accumulate(pairs[:stop]).sum()
    return float(max(time, 1 / np.log10(max(n * m, 10))))


def effective_sample_size(x):
    """Estimate how many independent draws chains are worth.

    Parameters
    ----------
    x : array-like of shape (n_draws,) or (n_draws, n_chains)
        Successive values of one quantity.

    Returns
    -------
    size : float
        Number of draws divided by `autocorrelation_time`.
    """
    x = _draws(x)
    return x.size / autocorrelation_time(x)


def r_hat(x):
    """Compute the potential scale reduction of chains, each split in halves.

    Parameters
    ----------
    x : array-like of shape (n_draws, n_chains)
        Successive values of one quantity.

    Returns
    -------
    r_hat : float
        Square root of the variance of all draws over that within half-chains [1]_;
        near 1 (say below 1.01) if the chains have come to agree.

    References
    ----------
    .. [1] A. Gelman et al., "Bayesian Data Analysis", 3rd edition, section 11.4.
    """
    x = _draws(x)
    half = len(x) // 2
    if half < 2:
        raise ValueError(f"r_hat needs at least 4 draws a chain, got {len(x)}.")
    halves = np.concatenate([x[:half], x[-half:]], axis=1)
    within = halves.var(axis=0, ddof=1).mean()
    between = halves.mean(axis=0).var(ddof=1)
    if within == 0:
        return 1.0 if between == 0 else np.inf
    return float(np.sqrt((half - 1) / half + between / within))


def _draws(x):
    """Draws (n_draws, n_chains), less the first, so that constants are 0 exactly."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 1:
        x = x[:, np.newaxis]
    if x.ndim != 2 or len(x) < 2:
        raise ValueError(f"Draws of shape {x.shape} are not (n_draws, n_chains).")
    return x - x[0, 0]
