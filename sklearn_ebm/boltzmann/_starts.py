"""Where the training of Boltzmann machines, and of nets, starts."""

import math
from itertools import pairwise

import numpy as np
from scipy.special import expit, logit

from .._gibbs import Purpose
from .._machines import GLANCE, chunks, some_rows, weighted_sums
from .._passes import activate
from .._products import product, single_threaded_blas
from .._units import Kind, Wanted, evaluate
from .._validation import dense, or_more_digits
from .._warning import warn
from ..units import UNBOUNDED, are, kinds_by_column

# Gaussian features start as sums of wide steps: from small weights training would
# have to find its way off a plateau, because independent normal variables, as which it
# begins to see the data, give them nothing to do. How often a hidden unit is on, where
# the data have longer tails along its step than a normal variable, and where they have
# shorter ones, as those of clusters are (and as a sum of steps has: rare ones make long
# tails, frequent ones short tails); the share of the variance that hidden units
# explain, and the largest norm of their weights in standard deviations of the features.
RARE, FREQUENT, START_SHARE, START_NORM = 0.1, 0.5, 0.5, 2.0
# Rows that say which it is.
TAIL_ROWS = 1000
# How often hidden units are on at first where `start_of_bits` is the start. Those of
# centred machines stay near to that, and those that are seldom on are better features
# (benchmarks/README.md).
BITS_RATE = 0.2
# Deviation of the fields of features that have hidden units to themselves: of a label,
# above all. Where it is small, these units have nothing to tell the joint layer; where
# it is large, chains do not get from one label to another.
ALONE_FIELD = 2.5
# Standard deviation of weights that start small.
SMALL = 0.01
# Least standard deviation of the fields of hidden units that are to tell labels, in the
# mean of their variances, and how much larger weights are made for it at most.
LEAST_SPREAD, MOST_GAIN = 1.0, 1000.0
# Rows from which on it is known what numbers are standardised by, if they vary: fewer
# do not say it, and calls of `partial_fit` find it anew.
FEW_ROWS = 100
# Standard deviations that rectified units, of variance 1 but for that, can well have.
RELU_DEVIATIONS = 0.1, 10.0
# Largest singular value of the weights between units without bounds, in both layers'
# deviations: from 1 on there is no distribution. (As kernels keep it.)
MOST_NORM = 0.95
# What the state of the training has of visible units that may be real, by its names.
SCALES = "shift", "scale", "visible_variance", "visible_scale"


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


def start_of_features(weights, mean, variance, n_rows):
    """Hidden units that tell rows apart from the first, to be trained to tell labels.

    From small weights a net has to leave the plateau of what is linear in the inputs,
    which labels that are not linear at all do not show a way out of.

    Parameters
    ----------
    weights : ndarray of shape (n_hidden, n_features)
        Small random weights.

    mean, variance : ndarray of shape (n_features,)
        Of the features in the data.

    n_rows : int
        Number of rows that say so.

    Returns
    -------
    weights : ndarray of shape (n_hidden, n_features)
        Weights of such a size that the fields deviate by `LEAST_SPREAD`.

    hidden : ndarray of shape (n_hidden,)
        Biases with which they are on for about `BITS_RATE` of the rows.
    """
    # (As if one row more had been as uncertain as a bit is: few rows vary by chance.)
    share = (n_rows * np.clip(mean, 0, 1) + 1) / (n_rows + 2)
    variance = (n_rows * variance + share * (1 - share)) / (n_rows + 1)
    weights = weights * (LEAST_SPREAD / SMALL / np.sqrt(variance.sum()))
    return weights, logit(BITS_RATE) - weighted_sums(weights, mean)


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


def first_chains(components, intercept, mean, n_chains, key, step):
    """Draw the hidden bits of new chains, given the means of the visible units."""
    chance = expit(intercept + weighted_sums(components, mean))
    return (
        np.random.default_rng([key, step, 1]).random((n_chains, len(chance))) < chance
    )


def first_draws(units, state, n_chains, key, step):
    """Draw hidden units of any kinds of new chains, from the state of the training.

    The even layers of a deep machine enter with their running means.
    """
    seen = (state["visible_offset"] - state["shift"]) / state["scale"]
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
        purpose=int(Purpose.DRAW_SWAP),
    )


def wide_rates(components, X, division, start, learned):
    """How often hidden units are to be on where `wide_start` is the start.

    Parameters
    ----------
    components : ndarray of shape (n_hidden, n_visible)
        Random weights: those of standardised features say where a step leads.

    X, division : {ndarray, sparse matrix}, Division
        Data, and which rows are trained on.

    start : dict
        What `first_units` has returned of the data.

    learned : ndarray of bool of shape (n_visible,)
        Features whose variance is learned.

    Returns
    -------
    rates : ndarray of shape (n_hidden,)
        FREQUENT where the kurtosis of the data along the step is smaller than that
        of as many normal numbers would be, otherwise RARE.
    """
    rows = training_rows(X, division, TAIL_ROWS)[:, learned]
    rows -= division.column_means[learned]
    rows /= start["visible_scale"][learned]
    steps = np.ascontiguousarray(components[:, learned].T, dtype=np.float64)
    along = product(np.ascontiguousarray(rows), steps)
    squares = np.square(along - along.mean(axis=0))
    variance = squares.mean(axis=0)
    kurtosis = np.square(squares / np.where(variance > 0, variance, 1)).mean(axis=0)
    n = len(rows)
    # (Two or three rows have that kurtosis in any direction, but for rounding.)
    of_normal = (1 - 1e-9) * 3 * (n - 1) / (n + 1)
    short = (variance > 0) & (kurtosis < of_normal)
    return np.where(short, FREQUENT, RARE)


def wide_start(components, mean, variance, learned, rates):
    """Parameters to start from, where variances are learned.

    Parameters
    ----------
    components : ndarray of shape (n_hidden, n_visible)
        Small random weights.

    mean, variance : ndarray of shape (n_visible,)
        Means and variances of the features.

    learned : ndarray of bool of shape (n_visible,)
        Features whose variance is learned; nothing changes for the others.

    rates : ndarray of shape (n_hidden,)
        How often hidden units are to be on.

    Returns
    -------
    components : ndarray of shape (n_hidden, n_visible)
        Weights.

    hidden : ndarray of shape (n_hidden,)
        Biases of hidden Bernoulli units, which are then on at about these rates.

    visible, variance : ndarray of shape (n_visible,)
        Means without hidden units and variances given them, so that both are right
        in all.

    Notes
    -----
    Hidden units with a shake (variance) r each would add r W W' to the variance s of
    the features given them, if nothing coupled them. But visible units do, by W' W / s:
    in a linear response the variance is s / (1 - r W W' / s) in all, which is V where
    s (1 - s / V) = r W W'.
    """
    shake, n_learned = rates * (1 - rates), learned.sum()
    share = START_SHARE * (1 - START_SHARE)
    norm = np.sqrt(share * n_learned / shake.sum())
    size = min(START_NORM, norm) / np.sqrt(n_learned) / SMALL
    steps = np.where(learned, components * size * np.sqrt(variance), 0.0)
    # (Not by BLAS, whose sums depend on the number of threads.)
    added = weighted_sums(np.square(steps).T, shake)
    inside = np.maximum(variance * (variance - 4 * added), 0.0)
    given = (variance + np.sqrt(inside)) / 2
    hidden = logit(rates) - (steps / given * (mean + steps / 2)).sum(axis=1)
    return (
        np.where(learned, steps, components),
        hidden,
        np.where(learned, mean - weighted_sums(steps.T, rates), mean),
        np.where(learned, given, variance),
    )


def within_reach(components, columns, variance, hidden):
    """Make weights smaller where units without bounds would have no distribution.

    Parameters
    ----------
    components : ndarray of shape (n_hidden, n_visible)
        Weights.

    columns : Columns
        What the columns of the data hold.

    variance : ndarray of shape (n_visible,)
        Variances of the visible units given the hidden ones.

    hidden : Unit
        What the hidden units are.

    Returns
    -------
    components : ndarray of shape (n_hidden, n_visible)
        The same weights, or smaller ones by a factor.
    """
    n_hidden = len(components)
    _, above = hidden._gaussian(n_hidden)
    free = are(kinds_by_column(hidden, n_hidden), *UNBOUNDED)
    seen = are(columns.kinds, *UNBOUNDED) / np.sqrt(variance)
    coupling = (free * np.sqrt(above))[:, np.newaxis] * components * seen
    with single_threaded_blas:
        norm = np.linalg.norm(coupling, 2)
    return components * (MOST_NORM / max(MOST_NORM, norm))


def bias_for(kinds, mean, little):
    """Biases of independent units with these means, kept `little` from the extremes."""
    near = np.clip(mean, 0, 1)
    bernoulli = np.log((near + little) / (1 - near + little))
    spins = np.clip((mean + 1) / 2, 0, 1)
    choices = [
        (Kind.BERNOULLI, bernoulli),
        (Kind.SPIN, np.log((spins + little) / (1 - spins + little)) / 2),
        (Kind.CATEGORICAL, np.log(near + little)),
        (Kind.POISSON, np.log(np.maximum(mean, 0) + little)),
        (Kind.RELU, mean),
    ]
    return np.select([are(kinds, kind) for kind, _ in choices], [x for _, x in choices])


def column_variances(X, numbers, mean):
    """Variances of columns over some rows (their numbers, or how many)."""
    total, n_rows = np.zeros(len(mean)), np.size(numbers)
    if np.ndim(numbers) == 0:
        n_rows, numbers = numbers, None
    with np.errstate(over="ignore"):  # infinite variances are refused
        for chunk in chunks(X, np.float64, numbers=numbers, size=GLANCE):
            total += np.square(chunk - mean).sum(axis=0)
    return beyond_rounding(total / n_rows, n_rows, mean)


def beyond_rounding(variance, n_rows, mean):
    """Return variances, exactly 0 where values differ by no more than means round.

    Parameters
    ----------
    variance, mean : ndarray of shape (n_columns,)
        Variances and means of columns.

    n_rows : int
        Number of rows that both are of.

    Returns
    -------
    variance : ndarray of shape (n_columns,)
        Variances.
    """
    rounding = n_rows * np.finfo(float).eps * np.abs(mean)
    return np.where(np.sqrt(variance) > rounding, variance, 0.0)


def _check_variances(variance, dtype):
    """Refuse variances that are 0 or infinite in the dtype of the model."""
    with np.errstate(over="ignore", under="ignore"):
        kept = variance.astype(dtype)
    wrong = np.flatnonzero((kept == 0) | np.isinf(kept))
    if len(wrong):
        raise ValueError(
            f"The variance of visible unit {wrong[0]} is {variance[wrong[0]]:.3g}, "
            f"which is beyond the numbers of {np.dtype(dtype)}. Scale the data"
            f"{or_more_digits('them', dtype)}."
        )


def _warn_of_scale(kinds, deviations):
    """Warn of rectified units whose standard deviations are far from 1."""
    least, most = RELU_DEVIATIONS
    odd = (deviations > 0) & ~((deviations >= least) & (deviations <= most))
    odd &= are(kinds, Kind.RELU)
    if odd.any():
        unit = np.flatnonzero(odd)[0]
        warn(
            f"Rectified units vary by about 1, whatever the data: visible unit {unit} "
            f"has a standard deviation of {deviations[unit]:.3g}, which the model "
            "cannot say well. Scale such features, for instance with "
            "StandardScaler(with_mean=False)."
        )


def first_units(columns, X, division, standardize, dtype):
    """Return where the visible units start.

    Parameters
    ----------
    columns : Columns
        What the columns hold.

    X : {ndarray, sparse matrix} of shape (n_samples, n_visible)
        Visible units.

    division : Division
        Which rows are trained on.

    standardize : bool
        Whether Gaussian units are trained in standard deviations from their mean, not
        only less their mean.

    dtype : dtype
        That of the model, which has to hold the variances.

    Returns
    -------
    start : dict of ndarray of shape (n_visible,)
        "shift" and "scale" (what is subtracted from units, and what they are divided
        by then); "bias" and "variance", so shifted and scaled; "visible_variance" (0
        of constant columns) and "visible_scale", the standard deviations (1 of these).
    """
    mean = division.column_means
    variance = column_variances(X, division.training, mean)
    spread = np.where(variance > 0, variance, 1.0)
    # Far from 0, averages and velocities of hidden biases would not fit those of the
    # weights while variances change, and their fields would be rounded.
    shift, scale = np.where(columns.gaussian, mean, 0.0), np.ones(len(mean))
    if standardize:
        scale = np.where(columns.gaussian, np.sqrt(spread), 1.0)
    if division.n_rows >= FEW_ROWS:
        _warn_of_scale(columns.kinds, np.sqrt(variance))
    _, first = columns.unit._gaussian(len(mean))
    bias = bias_for(columns.kinds, mean, 0.5 / division.n_rows)
    first = np.where(columns.learned, spread, first)
    _check_variances(first, dtype)
    return {
        "shift": shift,
        "scale": scale,
        "bias": np.where(columns.gaussian, (mean - shift) / scale, bias),
        "variance": first / np.square(scale),
        "visible_variance": variance,
        "visible_scale": np.sqrt(spread),
    }


def more_units(state, columns, X, division, standardize):
    """Return what changes in what units are divided by when there are more rows.

    One row, or a few, do not say by what units are to be standardised; a `fit` settles
    it, but for columns that have not varied. The parameters are those of standardised
    units and stay what they are, but for variances that are given in the units of the
    data. Without `standardize` units stay less the mean of the first rows.

    Parameters
    ----------
    state : dict
        The state of the training, before these rows.

    columns, X, division, standardize : see `first_units`
        As there.

    Returns
    -------
    changed : dict of ndarray
        What takes the place of entries of the state.
    """
    before = state["visible_variance"]
    few = state["n_seen"] < FEW_ROWS and not state.get("settled")
    new = few | (before == 0)
    if not new.any():
        return {}
    n_rows = state["n_seen"] + division.n_rows
    share = division.n_rows / n_rows
    change = division.column_means - state["visible_offset"]
    mean = state["visible_offset"] + share * change
    inside = column_variances(X, division.training, division.column_means)
    variance = (1 - share) * (before + share * np.square(change)) + share * inside
    variance = np.where(new, beyond_rounding(variance, n_rows, mean), before)
    spread = np.where(variance > 0, variance, 1.0)
    _check_variances(np.where(columns.learned, spread, 1.0), state["components"].dtype)
    changed = {"visible_variance": variance, "visible_scale": np.sqrt(spread)}
    if standardize:
        new &= columns.gaussian
        scale = np.where(new, np.sqrt(spread), state["scale"])
        log_variance, given = state["log_variance"].copy(), ~columns.learned
        larger = np.where(given, np.log(scale / state["scale"]), 0.0)
        log_variance[: len(larger)] -= (2 * larger).astype(log_variance.dtype)
        changed |= {
            "shift": np.where(new, mean, state["shift"]),
            "scale": scale,
            "log_variance": log_variance,
        }
    return changed


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


def spread_fields(params, X):
    """Make hidden layers of a net vary from row to row, in place.

    A machine that explains its data by units that hardly vary, as those of small
    tables are explained best, is a net on a plateau: all gradients are small. Where
    fields vary little, the weights of a layer are multiplied by what is missing, and
    biases see to it that the fields keep their means.

    Parameters
    ----------
    params : list of ndarray
        Weights and biases, those of the output last.

    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Some rows of inputs.
    """
    for layer in range(0, len(params) - 2, 2):
        W, b = params[layer : layer + 2]
        if layer == 0:
            fields = np.concatenate([product(rows, W) for rows in chunks(X, W.dtype)])
        else:
            fields = product(X, W)
        spread = math.sqrt(fields.var(axis=0, dtype=np.float64).mean())
        if 0 < spread < LEAST_SPREAD:
            gain = min(LEAST_SPREAD / spread, MOST_GAIN)
            b -= (gain - 1) * fields.mean(axis=0, dtype=np.float64)
            W *= gain
            fields *= gain
        X = fields
        activate(X, b, None, 0)
