"""Starts of nets that are to tell labels or numbers."""

import math
from itertools import pairwise

import numpy as np
from scipy.special import expit

from .._machines import dense_chunks
from .._passes import activate
from .._products import product

# The spread of a layer is the standard deviation of the fields of its hidden units (by
# the mean of their variances).
# With as much as this, units need nothing but what they have learned to tell labels.
ENOUGH_SPREAD = 2.0
# As much as this all layers are to have, if random weights that are so many times as
# large are enough for it.
LEAST_SPREAD, MOST_GAIN = 0.5, 1000.0
# With more than this, nothing but steps is left of the units.
LOST_SPREAD = 50.0
# The same of units that learned from numbers outside [0, 1], taken for bits: bits make
# no such numbers, and so weights grow with every step. (Of bits, and values between
# them, it has been 5. Units that know that features are real have had 12.)
LOST_SPREAD_OF_REALS = 6.0
# The same of activities below which units are off, or on, for all rows, although their
# fields vary. (Of layers that have learned anything it has been 0.09 or more.)
DULL = 0.01
# Largest standard deviation of random fields of numbers outside [0, 1]. (By wider ones
# nets learn more of the noise, but less where features are more than rows.)
SPREAD_OF_REALS = LEAST_SPREAD


def random_params(sizes, dtype, rng):
    """Weights and biases of a net with layers of these sizes, to start from.

    Parameters
    ----------
    sizes : list of int
        Numbers of units, the inputs' first.

    dtype : dtype
        Of the parameters.

    rng : RandomState
        Draws the weights.

    Returns
    -------
    params : list of ndarray
        ``[weights, bias, weights, bias, ...]``.
    """
    params = []
    for layer, (below, size) in enumerate(pairwise(sizes)):
        # Four times as far for logistic units (Glorot & Bengio 2010).
        gain = 4 if layer < len(sizes) - 2 else 1
        bound = gain * math.sqrt(6 / (below + size))
        params.append(rng.uniform(-bound, bound, (below, size)).astype(dtype))
        params.append(np.zeros(size, dtype))
    return params


def hold_fields(params, inputs):
    """Make first weights smaller where fields would vary more than they need to.

    Random weights suit features in [0, 1]. Of standardised ones they make fields that
    are far out for most rows: units that are nearly steps of random directions.

    Parameters
    ----------
    params : list of ndarray
        Random weights and biases, for standardised features; the weights of the first
        layer change.

    inputs : ndarray of shape (n_rows, n_inputs)
        Some rows of such features.
    """
    W = params[0]
    # (What features have in common widens some fields and narrows others. Of a single
    # row, and of constants, variances are not known.)
    each = inputs.var(axis=0, dtype=np.float64)
    each[each == 0] = 1
    variance = (each @ np.square(W, dtype=np.float64)).mean()
    W *= SPREAD_OF_REALS / max(SPREAD_OF_REALS, math.sqrt(variance))


def spread_fields(params, first, X, reals_as_bits=False):
    """Make hidden layers of a net vary from row to row, in place.

    A machine that explains its data by units that hardly vary, as those of small
    tables are explained best, is a net on a plateau: all gradients are small. And its
    units are copies of each other, so that larger weights would be of little use. Where
    fields vary less than enough, random weights are added: those of a net that is not
    pretrained, or smaller ones where these do, and larger ones where even with them
    fields would vary too little. Biases see to it that fields keep their means. But
    where they hardly vary, these say no more than how often units are on, and are in
    the way: then every unit is half on at a row of its own, so that units bend where
    there are rows. Where fields vary so much that units are no more than steps, or so
    far from 0 that units are on or off for all rows, nothing of them is kept, either,
    nor of the layers above, which learned from these.

    Parameters
    ----------
    params : list of ndarray
        Weights and biases, those of the output last.

    first : list of ndarray
        Those of the same net before it has learned anything.

    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Some rows of inputs.

    reals_as_bits : bool, default=False
        Whether the first layer has learned from numbers outside [0, 1] as if they were
        bits.

    Returns
    -------
    found : bool
        Whether the first layer needed nothing but what it had learned.
    """
    lost, found = False, True
    for layer in range(0, len(params) - 2, 2):
        W, b = params[layer : layer + 2]
        parts = dense_chunks(X, W.dtype) if layer == 0 else [X]
        both = [(product(part, W), product(part, first[layer])) for part in parts]
        fields, added = map(np.concatenate, zip(*both, strict=True))
        learned, random = _mean_variance(fields), _mean_variance(added)
        most = LOST_SPREAD_OF_REALS if reals_as_bits and layer == 0 else LOST_SPREAD
        lost = lost or learned > most**2
        if not lost and learned >= LEAST_SPREAD**2:
            # (Where they vary less, biases change anyway.)
            lost = _mean_variance(expit(fields + b)) < DULL**2
        if lost:
            W[:], fields, learned = 0, np.zeros_like(fields), 0.0
        if learned < ENOUGH_SPREAD**2 and random:
            enough, least = (
                math.sqrt(max(0, spread**2 - learned) / random)
                for spread in (ENOUGH_SPREAD, LEAST_SPREAD)
            )
            gain = max(min(enough, 1), min(least, MOST_GAIN))
            W += gain * first[layer]
            found = found and layer > 0
            fields += gain * added
            if learned < LEAST_SPREAD**2:
                # (The means of random fields differ by more than the fields vary, as
                # inputs have much in common: most units would be on or off for all.)
                units = np.arange(len(b))
                b[:] = -fields[units * len(fields) // len(b), units]
            else:
                b -= gain * added.mean(axis=0, dtype=np.float64)
        X = fields
        activate(X, b, None, 0)
    return found


def _mean_variance(fields):
    return fields.var(axis=0, dtype=np.float64).mean()
