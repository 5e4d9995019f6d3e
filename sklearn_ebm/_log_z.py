"""Log Z, the logarithm of a partition function, estimated: annealed, tempered."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from ._ais import anneal
from ._machines import Machine
from ._pacer import Pacer
from ._unit_paths import UnitPath
from ._validation import random_key
from .layered import BITS
from .samplers import Gibbs, ReplicaExchange
from .samplers._draws import WARM_UP_JUMPS
from .samplers._models import base_layer, layers_of
from .samplers._paths import annealing_path

# Temperatures of an ensemble that exchanges them: enough for 500 hidden units.
N_TEMPERATURES = 20
# Sweeps before a reverse run, as a share of its length and at least.
TEMPERED_SHARE, LEAST_TEMPERED = 0.1, 100
# Stretches of a tempered run that its standard error is found from; every other sweep
# tries to swap, so that a stretch needs several.
N_STRETCHES, LEAST_SWEEPS = 10, 40


# ---- Annealed importance sampling ----


def annealed(model, betas, n_runs, reverse, rng):
    """Estimate log Z of a model along a path of inverse temperatures.

    Returns what a `LogPartition` says of it, by name.
    """
    ais = _ais if layers_of(model).units == BITS else _ais_of_units
    return ais(model, betas, n_runs, reverse, rng)


def _ais(model, betas, n_runs, reverse, rng):
    """Annealed importance sampling for Bernoulli units."""
    path, log_z = annealing_path(model)
    start_key, key, back_key = (random_key(rng) for _ in range(3))
    # Where the path begins, its units are independent.
    shape = n_runs, len(path.base)
    states = np.random.default_rng(start_key).random(shape) < expit(path.base)
    forward = _anneal(path, states, betas, key)
    if not reverse:
        return _estimates(log_z, betas, forward)
    n_sweeps = _sweeps_before_reverse(betas)
    starts = _jumped(model, _drawn_again(states, forward, rng), rng)
    starts = _tempered_samples(model, starts, n_sweeps, rng)
    back = _anneal(path, starts, np.ascontiguousarray(betas[::-1]), back_key)
    return _estimates(log_z, betas, forward, back, n_tempered_sweeps=n_sweeps)


def _ais_of_units(model, betas, n_runs, reverse, rng):
    """Annealed importance sampling for units of any kind."""
    layers = layers_of(model)
    path = UnitPath(layers, base_layer(model, layers))
    start_key, key, back_key, gibbs_key = (random_key(rng) for _ in range(4))
    states = path.start(n_runs, start_key)
    forward, states = path.anneal(states, betas, key)
    if not reverse:
        return _estimates(path.log_z_base, betas, forward)
    n_sweeps = _sweeps_before_reverse(betas)
    starts = _jumped(model, _drawn_again(states, forward, rng), rng)
    Machine(layers).run(starts, n_sweeps, gibbs_key, 0)
    back = path.anneal_back(starts, betas, back_key)
    return _estimates(path.log_z_base, betas, forward, back, n_gibbs_sweeps=n_sweeps)


def _estimates(log_z_base, betas, forward, back=None, **settings):
    """Return the estimates of runs forward and back, from the logs of their weights."""
    gain, error, size = _mean_weight(forward)
    reverse = {}
    if back is not None:
        loss, back_error, _ = _mean_weight(back)
        reverse = {"reverse": log_z_base - loss, "reverse_standard_error": back_error}
    return {
        "value": log_z_base + gain,
        "standard_error": error,
        "forward": log_z_base + gain,
        "effective_sample_size": size,
        "settings": {"n_betas": len(betas), "n_runs": len(forward), **settings},
        **reverse,
    }


def _sweeps_before_reverse(betas):
    """Number of sweeps that take the ends of forward runs nearer to the model."""
    return max(LEAST_TEMPERED, round(TEMPERED_SHARE * len(betas)))


def _drawn_again(states, log_weights, rng):
    """Draw as many of the states, in proportion to their weights."""
    weights = np.exp(log_weights - log_weights.max())
    return states[rng.choice(len(states), len(states), p=weights / weights.sum())]


def _jumped(model, states, rng):
    """States of chains that have jumped to places near rows, if any have been kept.

    So the reverse estimate may tell that annealing has missed modes of the data.
    """
    sampler = Gibbs(model)
    chains = sampler.init(init=states, random_state=rng)
    for _ in range(WARM_UP_JUMPS):
        chains = sampler.jump(chains)
    return chains.visible


def _anneal(path, states, betas, key):
    """Take states along a path, in place; the logarithms of their weights."""
    log_weights = np.zeros(len(states))
    Pacer().run(
        lambda start, stop, _: anneal(
            path, states, betas, log_weights, start, stop, key
        ),
        len(betas) - 1,
    )
    return log_weights


def _mean_weight(log_weights):
    """Logarithm of the mean weight, its standard error, effective sample size."""
    n = len(log_weights)
    log_mean = logsumexp(log_weights) - np.log(n)
    weights = np.exp(log_weights - log_mean)
    error = weights.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return float(log_mean), float(error), float(n**2 / (weights**2).sum())


def _tempered_samples(model, states, n_sweeps, rng):
    """Samples of a model, from ensembles of chains that start at these states."""
    sampler = ReplicaExchange(model)
    replicas = sampler.init(len(states), init=states, random_state=rng)
    replicas = sampler.adapt(replicas, n_sweeps // 2)
    return sampler.samples(sampler.step(replicas, n_sweeps - n_sweeps // 2))


# ---- Tempering ----


def tempered(model, n_sweeps, n_runs, rng):
    """Estimate log Z of a model of bits from chains that exchange temperatures.

    Returns what a `LogPartition` says of it, by name.
    """
    sampler = ReplicaExchange(model)
    n_ensembles = max(1, n_runs // N_TEMPERATURES)
    replicas = sampler.init(n_ensembles, betas=N_TEMPERATURES, random_state=rng)
    replicas = sampler.adapt(replicas, n_sweeps // 4)
    replicas = sampler.step(replicas, n_sweeps - n_sweeps // 4)
    n_kept = len(replicas.gains)
    stretches = np.array_split(np.arange(n_kept), N_STRETCHES)
    values = [_bennett(replicas, steps) for steps in stretches]
    return {
        "value": sampler.log_z_base + _bennett(replicas, np.arange(n_kept)),
        "standard_error": float(np.std(values, ddof=1) / np.sqrt(N_STRETCHES)),
        "settings": {
            "betas": replicas.betas,
            "n_ensembles": n_ensembles,
            "n_sweeps": n_kept,
            "swap_rates": replicas.swap_rates,
        },
    }


def _bennett(replicas, steps):
    """Logarithm of the ratio of both ends' partition functions, from some steps.

    Between neighbours it is the x for which the mean of ``expit(gain - x)`` below
    equals that of ``expit(gain + x)`` above.
    """
    parity = (replicas.n_steps - len(replicas.gains) + steps) % 2
    total = 0.0
    for level in range(len(replicas.betas) - 1):
        tried = steps[parity == level % 2]
        gains, visits = replicas.gains[tried], replicas.visits[tried]
        up, down = gains[visits == level], gains[visits == level + 1]
        total += brentq(
            lambda x, up=up, down=down: expit(up - x).mean() - expit(down + x).mean(),
            min(up.min(), -down.max()) - 1,
            max(up.max(), -down.min()) + 1,
        )
    return total
