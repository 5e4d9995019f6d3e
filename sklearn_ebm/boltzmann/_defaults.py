"""Rates, epochs and chains where none are given, by what the units and the data are."""

from dataclasses import dataclass

import numpy as np

from .._machines import some_rows, weighted_sums
from .._products import product
from .._training import epochs_of
from .._units import Kind
from .._validation import dense
from ..units import UNBOUNDED, are

# Mean of counts from which on learning rates fall in proportion: the variance of a
# count is its mean, and so is the slope of its mean by its field.
MANY = 10.0
# A field moves by as many steps as there are hidden units. From this number on,
# learning rates of counts fall in proportion.
WIDE = 50
# Bound on the gradient of a weight between real values or counts and hidden units:
# a row far out moves a weight by no more than learning_rate.
CLIP = 1.0
# Variance of bits, spins or categories below hidden units without bounds from which on
# learning rates fall in proportion. That of a real feature counts as much.
STEADY = 0.3
# Steps of the power iteration that finds the largest variance.
N_POWERS = 30
# Least number of chains, where none is given. With ten, as many as rows of a minibatch,
# modes of a large model are visited too rarely to keep them small; and where modes are
# the combinations of many choices, few chains tell too little of the shares of each.
CHAINS = 100
# Mean of a count from which on it is a whole feature, where rows are counted for each.
WHOLE = 1 / 3


def n_told(kinds, means):
    """Return how many features a row tells of: a rare count is a part of one.

    `kinds` and `means` are those of the visible units. The least number is one.
    """
    rare = np.minimum(1.0, means / WHOLE)
    return max(1.0, np.where(are(kinds, Kind.POISSON), rare, 1.0).sum())


@dataclass(frozen=True)
class EpochRule:
    """How many epochs fits of some kind take where no number is given.

    They take `most` of `few_rows` rows or fewer and as many steps of more rows, but
    `least` at least. `most` is less where there are fewer than `rows_a_feature` rows
    for each feature (see `epochs_as_rows_allow`).
    """

    least: int
    most: int
    few_rows: int
    rows_a_feature: int

    def n_epochs(self, n_rows, n_features):
        """Return the number of epochs of data of this shape."""
        shape = n_rows, n_features
        most = epochs_as_rows_allow(self.most, shape, self.rows_a_feature)
        return epochs_of(None, n_rows, self.least, most, self.few_rows)


def epochs_as_rows_allow(n_epochs, shape, rows_a_feature):
    """Return so many epochs, or in proportion fewer where a feature has fewer rows.

    `shape` is that of the data. Where rows are few for their features, a long training
    learns the noise.
    """
    n_rows, n_features = shape
    share = min(1, n_rows / (rows_a_feature * n_features))
    return int(share * n_epochs)


def n_directions(X):
    """Return in about how many directions standardised rows vary.

    With eigenvalues ``l`` of the correlations of the features that is
    ``sum(l)^2 / sum(l^2)``: the number of features if they have none to each other, and
    1 if all are the same one.
    """
    rows = dense(some_rows(X), np.float64)
    rows = rows - rows.mean(axis=0)
    deviation = rows.std(axis=0)
    rows /= np.where(deviation > 0, deviation, 1)
    n_rows, n_features = len(rows), (deviation > 0).sum()
    if n_features == 0:
        return 1.0
    # The sum of the squares is that of the mean product of two rows, squared; with
    # themselves rows agree in any case.
    agreement = np.square(product(rows, rows, b_turned=True))
    total = agreement.sum() - np.trace(agreement)
    found = n_features**2 / max(n_features, total / (n_rows * (n_rows - 1)))
    return max(1.0, found)


def rate_of_counts(rate, kinds, means, n_hidden):
    """Return what a learning rate for small counts is for large ones.

    Parameters
    ----------
    rate : float
        Learning rate.

    kinds, means : ndarray of shape (n_visible,)
        Kinds of the visible units, and means of the data. Only those of counts matter.

    n_hidden : int
        Number of hidden units that the counts are connected to.

    Returns
    -------
    rate : float
        The same one, or a lower one.
    """
    largest = np.max(means[are(kinds, Kind.POISSON)], initial=0.0)
    return rate * MANY / max(MANY, largest * max(1, n_hidden / WIDE))


def rate_shares(rate, of_counts, kinds):
    """Return what share of a learning rate visible units learn with.

    Large counts want short steps. They hold nothing else up: neither other features nor
    hidden biases, which would then have to wait for what the counts say.

    Parameters
    ----------
    rate, of_counts : float
        Learning rate, and the one for counts.

    kinds : ndarray of shape (n_visible,)
        Kinds of the visible units.

    Returns
    -------
    shares : ndarray of shape (n_visible,)
        At most 1.
    """
    counts = are(kinds, Kind.POISSON)
    return np.where(counts & (of_counts < rate), of_counts / rate, 1.0)


def steady_rate(rate, variance):
    """Return a learning rate at which hidden units without bounds are steady.

    Their means grow with their fields, and so the gradient of a weight with the weight:
    in a minibatch, weights grow by a share of themselves, `rate` times the variance of
    the data along them, or shrink by one, `rate` times that of the model. Where a share
    is not small they leap, and with them all units that hear them.

    Parameters
    ----------
    rate : float
        Learning rate.

    variance : float
        What `largest_variance` says of the visible units.

    Returns
    -------
    rate : float
        The same one, or a lower one.
    """
    return rate * STEADY / max(STEADY, variance)


def largest_variance(kinds, rows, mean, scale):
    """Return how much visible units vary together, where they vary most.

    Parameters
    ----------
    kinds : ndarray of int of shape (n_visible,)
        Kinds of visible units. Counts and rectified ones do not matter.

    rows, mean : ndarray of shape (n_rows, n_visible) and (n_visible,)
        Rows of a data set, and the mean of all of it.

    scale : ndarray of shape (n_visible,)
        Standard deviations of real features.

    Returns
    -------
    variance : float
        Mean square of the rows less the mean along a unit vector, the one with the
        largest.

    Raises
    ------
    ValueError
        If its square is beyond the numbers of float64.
    """
    real = are(kinds, Kind.GAUSSIAN)
    known = real | ~are(kinds, *UNBOUNDED)
    unit = np.where(real, np.sqrt(STEADY) / scale, 1.0)
    rows = (rows[:, known] - mean[known]) * unit[known]
    with np.errstate(over="ignore", invalid="ignore"):
        variance = _mean_square_along(rows)
    if not np.isfinite(variance):
        raise ValueError(
            "The visible units vary too much below hidden units without bounds: the "
            "square of a variance is beyond the numbers of float64. Scale the data."
        )
    return variance


def _mean_square_along(rows):
    """Return the mean square of rows along the unit vector with the largest."""
    along, variance = rows[np.square(rows).sum(axis=1).argmax()], 0.0
    # (Not by LAPACK, whose sums depend on the number of threads.)
    for _ in range(N_POWERS):
        if not along.any():  # or it has squares that are no numbers but 0
            break
        along = along / np.abs(along).max()  # the squares of which may be nothing
        along = along / np.sqrt(np.square(along).sum())
        along = weighted_sums(rows.T, weighted_sums(rows, along)) / len(rows)
        variance = float(np.sqrt(np.square(along).sum()))
    return variance
