"""Starts of machines of bits, and of Markov chains."""

import numpy as np
from scipy.special import expit

from .._gibbs import Purpose
from .._machines import some_rows, weighted_sums
from .._units import Wanted, evaluate
from .._validation import dense
from ._visible_scales import scaled_offset

# How often hidden units are on at first where `start_of_bits` is the start. Those of
# centred machines stay near to that, and those that are seldom on are better features
# (benchmarks/results/defaults.md).
BITS_RATE = 0.2
# Deviation of the fields of features that have hidden units to themselves: of a label,
# above all. Where it is small, these units have nothing to tell the joint layer; where
# it is large, chains do not get from one label to another.
ALONE_FIELD = 2.5
# Standard deviation of weights that start small.
SMALL = 0.01


def training_rows(X, division, n):
    """Return n of the rows that are trained on, dense, spread over all of them."""
    numbers = np.arange(X.shape[0])
    if np.ndim(division.training):
        numbers = division.training
    return dense(X[some_rows(numbers, n)], np.float64)


def log_odds(mean, n_rows):
    """Biases of bits that were on in these shares of so many rows.

    Smoothed: a feature that was never on may still be.
    """
    # (Clipped: a warning has been given if these are not means of probabilities.)
    mean = np.clip(mean, 0, 1)
    return np.log((n_rows * mean + 0.5) / (n_rows * (1 - mean) + 0.5))


def start_of_bits(weights, means, fields, connected=None, alone=None):
    """Parameters of machines of bits that say something from the first.

    Parameters
    ----------
    weights : list of ndarray of shape (n_units_below, n_units_above)
        Small random weights between neighbouring layers, from the bottom up; changed
        in place. They become proportional to the deviation of the unit below, and of
        such a size that no field deviates by more than 1, heard twice where layers
        have two neighbours: from small ones, training is long in leaving the plateau
        where hidden units say nothing, at low rates or in few minibatches.

    means : list of ndarray of shape (n_units,)
        Means of the units of the layers: of the features in the data, and how often
        hidden units are to be on.

    fields : list of ndarray of shape (n_units,)
        Fields that give the units these means.

    connected : list of ndarray of bool or None, default=None
        Which units are connected, as `weights`; None means all.

    alone : ndarray of bool of shape (n_features,), default=None
        Features that hidden units have nothing to say of but for what others tell them
        from above. Their weights get such a size that their own fields deviate by
        `ALONE_FIELD`; None means that there are none.

    Returns
    -------
    biases : list of ndarray of shape (n_units,)
        Biases with which the fields are these where the neighbours of a layer are
        at their means.
    """
    biases = [*fields]
    n_heard = 1 if len(weights) == 1 else 2
    for k, weight in enumerate(weights):
        variance, above = (mean * (1 - mean) for mean in means[k : k + 2])
        heard = [(4 * variance**2).sum(), above.sum()]
        if connected is not None:
            heard = [
                weighted_sums(connected[k].T, 4 * variance**2).max(),
                weighted_sums(connected[k], above).max(),
            ]
        weight *= np.sqrt(4 * variance / max(heard))[:, np.newaxis] / (n_heard * SMALL)
        if k == 0 and alone is not None:
            found = np.sqrt(weighted_sums(np.square(weight[alone]), above))
            found = np.where(found > 0, found, 1.0)
            weight[alone] *= ALONE_FIELD / found[:, np.newaxis]
        biases[k] = biases[k] - weighted_sums(weight, means[k + 1])
        biases[k + 1] = biases[k + 1] - weighted_sums(weight.T, means[k])
    return biases


def start_of_some_bits(bits, weights, means, fields, linked=None, alone=None):
    """Start those features that are bits, beside others, as `start_of_bits` does.

    Parameters
    ----------
    bits : ndarray of bool of shape (n_features,)
        Which features are bits, or belong to blocks of categories.

    weights, linked : ndarray of shape (n_features, n_hidden)
        Small random weights, those of bits changed in place; and where there are any.

    means, fields : pairs of ndarray of shape (n_features,) and (n_hidden,)
        As there.

    alone : ndarray of bool of shape (n_features,), default=None
        As there.

    Returns
    -------
    biases : list of ndarray of shape (n_features,) and (n_hidden,)
        As there; those of other features are their fields.
    """
    part, visible = np.array(weights[bits]), np.array(fields[0])
    visible[bits], hidden = start_of_bits(
        [part],
        [means[0][bits], means[1]],
        [visible[bits], fields[1]],
        None if linked is None else [linked[bits]],
        None if alone is None else alone[bits],
    )
    weights[bits] = part
    return [visible, hidden]


def last_chains(model, n_chains):
    """Hidden states in which a model left n_chains persistent chains, or None."""
    chains = getattr(model, "h_samples_", None)
    return None if chains is None or len(chains) != n_chains else chains


def first_chains(components, intercept, mean, n_chains, key, step):
    """Draw the hidden bits of new chains, given the means of the visible units."""
    fields = intercept + weighted_sums(components, mean)
    return bits_of(np.tile(fields, (n_chains, 1)), key, step)


def bits_of(fields, key, step):
    """Draw the hidden bits of new chains with these fields."""
    return np.random.default_rng([key, step, 1]).random(fields.shape) < expit(fields)


def first_draws(units, state, n_chains, key, step):
    """Draw hidden units of any kind of new chains, from the state of the training.

    The even layers of a deep machine enter with their running means.
    """
    seen = scaled_offset(state)
    seen = np.concatenate([seen, state.get("latent_offset", ())])
    seen = seen / np.exp(state["log_variance"].astype(float))
    fields = weighted_sums(state["components"].astype(float), seen)
    fields += state["intercept_hidden"]
    return evaluate(
        units,
        np.tile(fields, (n_chains, 1)),
        Wanted.DRAWS,
        key=key,
        step=step,
        purpose=int(Purpose.DRAW_START),
    )
