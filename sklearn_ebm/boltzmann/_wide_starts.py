"""Starts of machines with real units: wide steps, and what has a distribution."""

import numpy as np
from scipy.special import logit

from .._excess import LARGEST_NORM
from .._machines import weighted_sums
from .._products import product, single_threaded_blas
from ..units import UNBOUNDED, are, kinds_by_column
from ._starts import SMALL, training_rows

# Gaussian features start as sums of wide steps. From small weights training would have
# to find its way off a plateau: independent normal variables, as which it begins to see
# the data, give such weights nothing to do.
# How often a hidden unit is on where the data have longer tails along its step than a
# normal variable, and where they have shorter ones, as clusters do. (Rare steps make
# sums with long tails, frequent ones sums with short tails.)
RARE, FREQUENT = 0.1, 0.5
# Share of the variance that hidden units explain at first.
START_SHARE = 0.5
# Largest norm of their weights, in standard deviations of the features.
START_NORM = 2.0
# Hidden units that have such a step, for each feature. The others keep small weights:
# a sum of many small steps is a normal variable again.
STEPS_A_FEATURE = 32
# Rows that say whether tails are long or short.
TAIL_ROWS = 1000


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


def wide_start(components, bias, variance, learned, rates):
    """Parameters to start from, where variances are learned.

    Parameters
    ----------
    components : ndarray of shape (n_hidden, n_visible)
        Small random weights.

    bias, variance : ndarray of shape (n_visible,)
        Biases and variances of independent visible units; where the variance is
        learned, they are the mean and the variance of the feature.

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
        Biases, which are means without hidden units, and variances given them, so that
        both are right in all.

    Notes
    -----
    Hidden units with a shake (variance) r each would add r W W' to the variance s of
    the features given them, if nothing coupled them. But visible units do, by W' W / s:
    in a linear response the variance is s / (1 - r W W' / s) in all, which is V where
    s (1 - s / V) = r W W'.
    """
    shake, n_learned = rates * (1 - rates), learned.sum()
    share = START_SHARE * (1 - START_SHARE)
    wide = np.arange(len(rates)) < STEPS_A_FEATURE * n_learned
    norm = np.sqrt(share * n_learned / shake[wide].sum())
    size = np.where(wide, min(START_NORM, norm) / np.sqrt(n_learned) / SMALL, 1.0)
    steps = np.where(learned, components * np.sqrt(variance), 0.0) * size[:, np.newaxis]
    # (Not by BLAS, whose sums depend on the number of threads.)
    added = weighted_sums(np.square(steps).T, shake)
    inside = np.maximum(variance * (variance - 4 * added), 0.0)
    given = (variance + np.sqrt(inside)) / 2
    hidden = logit(rates) - (steps / given * (bias + steps / 2)).sum(axis=1)
    return (
        np.where(learned, steps, components),
        hidden,
        np.where(learned, bias - weighted_sums(steps.T, rates), bias),
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
    return components * (LARGEST_NORM / max(LARGEST_NORM, norm))
