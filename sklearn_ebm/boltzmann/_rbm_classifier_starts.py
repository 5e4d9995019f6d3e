"""Starts of classification machines, by what they are to learn."""

import numpy as np
from scipy.special import expit, logit

from .._machines import weighted_sums
from ._standardised import for_inputs
from ._starts import BITS_RATE, SMALL, log_odds, start_of_bits

# Standard deviation of the fields of hidden units at first.
SPREAD = 1.0
# The same where most rows have no label, and features are most of what is learned: wide
# fields model them poorly.
SPREAD_OF_FEATURES = 0.5
# It is never more than so many times the root of the rows for each feature: where these
# are few, wide fields tell each row apart by what it has in common with no other.
SPREAD_BY_ROWS = 0.5


def start_of_joint(weights, label_weights, mean, n_rows, shares):
    """Start a model of features and labels as `start_of_bits` does.

    Parameters
    ----------
    weights, label_weights : ndarray of shape (n_hidden, n_features or n_classes)
        Small random weights.

    mean : ndarray of shape (n_features,)
        Of the features in the data.

    n_rows : int
        Number of rows that say so.

    shares : ndarray of shape (n_classes,)
        Shares of the labels in them.

    Returns
    -------
    parameters : tuple of ndarray
        Weights of features and of labels; biases of hidden units, features and labels.
    """
    n, odds = len(mean), log_odds(mean, n_rows)
    rate = np.full(len(weights), BITS_RATE)
    joint = np.vstack([weights.T, label_weights.T])
    seen, hidden = start_of_bits(
        [joint],
        [np.append(expit(odds), shares), rate],
        [np.append(odds, np.log(shares)), logit(rate)],
    )
    return joint[:n].T, joint[n:].T, hidden, seen[:n], seen[n:]


def start_for_labels(weights, mean, variance, n_rows, standard, spread):
    """Start hidden units that tell rows apart, to be trained to tell labels.

    From small weights a net has to leave the plateau of what is linear in the inputs,
    which labels that are not linear at all do not show a way out of.

    Parameters
    ----------
    weights : ndarray of shape (n_hidden, n_features)
        Small random weights, for standardised features.

    mean, variance : ndarray of shape (n_features,)
        Of the features in the data.

    n_rows : int
        Number of rows that say so.

    standard : pair of ndarray of shape (n_features,)
        Means and deviations by which they are standardised.

    spread : float
        Standard deviation that the fields are to have.

    Returns
    -------
    weights : ndarray of shape (n_hidden, n_features)
        Weights of such a size that they do, for the features themselves.

    hidden : ndarray of shape (n_hidden,)
        Biases with which they are on for about `BITS_RATE` of the rows.

    visible : ndarray of shape (n_features,)
        Biases with which features have their means where hidden units are at theirs.
    """
    visible = log_odds(mean, n_rows)
    mean, variance = (mean - standard[0]) / standard[1], variance / standard[1] ** 2
    # (As if one row more had been as uncertain as a bit is: few rows vary by chance.)
    share = (n_rows * np.clip(mean, 0, 1) + 1) / (n_rows + 2)
    variance = (n_rows * variance + share * (1 - share)) / (n_rows + 1)
    weights = weights * (spread / SMALL / np.sqrt(variance.sum()))
    hidden = logit(BITS_RATE) - weighted_sums(weights, mean)
    weights, hidden = for_inputs(weights.T, hidden, standard)
    rate = np.full(len(hidden), BITS_RATE)
    return weights.T, hidden, visible - weighted_sums(weights, rate)


def spread_of_fields(n_features, n_rows, mostly_unlabelled):
    """Standard deviation that fields are to have where labels are learned."""
    spread = SPREAD_OF_FEATURES if mostly_unlabelled else SPREAD
    return min(spread, SPREAD_BY_ROWS * np.sqrt(n_rows / n_features))
