"""Plain NumPy twins of deep Boltzmann machines: mean field, bounds, all states."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
from scipy.special import entr, expit, logsumexp

from reference import all_states, state_numbers
from sklearn_ebm.layered import Layered, blocks

# ---- Mean field in a folded machine ----


def half_steps(seen, weights, odd_bias, latent_bias):
    """What a mean-field step does, as functions.

    seen : (n_rows, n_given), what is given; weights : (n_even, n_odd).

    Returns the latent means to begin with, odd means given latent ones, and latent
    means given odd ones.
    """
    given, above = np.split(np.float64(weights), [seen.shape[1]])
    from_below = np.float64(seen) @ given

    def odd_means(latent):
        return expit(from_below + latent @ above + odd_bias)

    def latent_means(odd):
        return expit(odd @ above.T + latent_bias)

    # To begin with, the layers above say what those below say.
    return latent_means(expit(2 * from_below + odd_bias)), odd_means, latent_means


def mean_field(seen, weights, odd_bias, latent_bias, n_steps, tolerance=0.0):
    """Means of latent and of odd units; a row that has settled stays as it is.

    Fields follow what the other side has told: changes of means that are larger than
    1/8 of the tolerance and, with a tolerance, than 1/8 of the largest before (at
    first, of 1). This does not hold what odd units say back in the step before a row
    stops.
    """
    given, above = np.split(np.float64(weights), [seen.shape[1]])
    from_below = np.float64(seen) @ given
    n, n_odd = from_below.shape
    moving = np.ones(n, bool)
    odd = SimpleNamespace(told=np.zeros((n, n_odd)), weights=above.T)
    latent = SimpleNamespace(told=np.zeros((n, len(above))), weights=above)
    odd.largest, latent.largest = np.ones((2, n))

    def tell(side, means, fields):
        changes = means - side.told
        side.least = np.maximum(tolerance / 8, side.largest / 8 * (tolerance > 0))
        told = (np.abs(changes) > side.least[:, np.newaxis]) & moving[:, np.newaxis]
        side.told = np.where(told, means, side.told)
        side.largest = np.abs(changes).max(axis=1, initial=0)
        return fields + np.where(told, changes, 0) @ side.weights

    fields = tell(odd, expit(2 * from_below + odd_bias), latent_bias)
    means = expit(fields)
    odd_fields = tell(latent, means, from_below + odd_bias)
    for _ in range(n_steps):
        fields = tell(odd, expit(odd_fields), fields)
        means = np.where(moving[:, np.newaxis], expit(fields), means)
        odd_fields = tell(latent, means, odd_fields)
        still = latent.largest <= tolerance
        odd.largest[still] = 0
        moving &= ~still | (odd.least > tolerance / 8)
        if not moving.any():
            break
    return means, expit(odd_fields)


# ---- Deep machines ----


def minus_energy(layers, *states):
    """Minus the energy of rows of states, without what belongs to units alone."""
    total = sum(s @ b for s, b in zip(states, layers.biases, strict=True))
    for (below, above), weight in zip(pairwise(states), layers.weights, strict=True):
        total = total + ((below @ weight) * above).sum(axis=1)
    return total


def sides(parts):
    """What belongs to the even and to the odd layers, each next to each other."""
    return np.hstack(parts[::2]), np.hstack(parts[1::2])


def unfolded(machine, sizes):
    """A folded machine (weights, odd and even biases, ...) as layers."""
    weights, c, b, *_ = machine
    odd, even = np.split(c, np.cumsum(sizes[1::2])), np.split(b, np.cumsum(sizes[::2]))
    biases = [(even, odd)[k % 2][k // 2] for k in range(len(sizes))]
    return Layered(
        ("bernoulli",) * len(sizes), tuple(blocks(weights, sizes)), tuple(biases)
    )


def enumerate_layers(layers):
    """Everything about a machine of Bernoulli units from all its states, unfolded.

    states: of every layer, a row for each state of the machine; p: their
    probabilities; log_p_v: of `all_states` of the visible layer; p_even and p_odd:
    of `all_states` of the even and the odd layers.
    """
    sizes = [len(bias) for bias in layers.biases]
    rows = all_states(sum(sizes)).astype(float)
    states = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    log_p = minus_energy(layers, *states)
    log_z = logsumexp(log_p)
    log_p = log_p - log_z
    even, odd = sides(states)
    p = np.exp(log_p)
    return SimpleNamespace(
        states=states,
        log_z=log_z,
        p=p,
        even=even,
        odd=odd,
        log_p_v=logsumexp(log_p.reshape(-1, 2 ** sizes[0]), axis=0),
        p_even=np.bincount(state_numbers(even), p),
        p_odd=np.bincount(state_numbers(odd), p),
    )


def bound(layers, v, hidden):
    """Lower bound of log p(v) + log Z with independent hidden units of these means."""
    entropy = sum((entr(q) + entr(1 - q)).sum(axis=1) for q in hidden)
    return minus_energy(layers, v, *hidden) + entropy
