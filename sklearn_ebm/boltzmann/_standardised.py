"""Features of any size, as a net is given them while it is fine-tuned.

Steps of a learning rate suit features that vary by about 1 and do not lie far from 0.
Of others the net is given what `sklearn.preprocessing.StandardScaler` makes of them
(but for those that are mostly 0), a minibatch at a time; public weights and biases are
those for the features themselves.
"""

import numpy as np
import scipy.sparse as sp

from .._machines import weighted_sums
from .._rows import Rows
from .._validation import are_shares, dense
from ._visible_scales import column_variances

# Rows that say nothing certain of how much a feature varies: all that the first call of
# partial_fit may have. Deviations that are taken for none.
FEW, LEAST = 3, 1e-30


def standard_of(X, n_inputs):
    """Return what inputs of a net are to be less, and divided by.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        The features.

    n_inputs : int
        Number of the net's inputs: the features and, after them, others that lie
        between 0 and 1.

    Returns
    -------
    standard : ndarray of shape (2, n_inputs) or None
        Means and deviations, of features that are mostly 0 what takes their places;
        None for features in [0, 1], which are left as they are.

    Raises
    ------
    ValueError
        If a variance is infinite.
    """
    rows = Rows(X)
    if are_shares(rows):
        return None
    n_rows, mean = rows.n_rows, rows.column_means
    variance = column_variances(X, n_rows, mean)
    if not np.isfinite(variance).all():
        wrong = np.flatnonzero(~np.isfinite(variance))[0]
        raise ValueError(
            f"The variance of feature {wrong} is beyond the numbers of float64. Scale "
            "the data."
        )
    deviation, size = np.sqrt(variance), np.abs(mean)
    if n_rows > FEW:
        size = np.maximum(1, size)
    else:
        # What is nearly the same in two or three rows may be so by chance.
        deviation = np.hypot(deviation, mean / n_rows**3)
    # A constant may vary later: it has its size.
    deviation = np.where(np.sqrt(variance) > LEAST, deviation, np.where(size, size, 1))
    # What is mostly 0, as counts of words are, stays so, and is divided by the size of
    # what is not: by their deviations rare words would be the largest features of all.
    if sp.issparse(X):  # CSR
        count = np.bincount(X.indices, X.data != 0, X.shape[1])
    else:
        count = np.count_nonzero(X, axis=0)
    rare = (count > 0) & (2 * count < n_rows)
    square = (variance + mean**2) * (n_rows / np.maximum(1, count))
    mean, deviation = np.where(rare, [0 * mean, np.sqrt(square)], [mean, deviation])
    standard = np.array([np.zeros(n_inputs), np.ones(n_inputs)])
    standard[:, : len(mean)] = mean, deviation
    return standard


class Standardised:
    """Inputs of a net less their means, by their deviations, when they are asked for.

    Parameters
    ----------
    inputs : {ndarray, sparse matrix, Augmented} of shape (n_rows, n_inputs)
        The inputs.

    standard : ndarray of shape (2, n_inputs)
        Means and deviations.
    """

    def __init__(self, inputs, standard):
        self.inputs, self.shape = inputs, inputs.shape
        self.mean, self.factors = standard[0], 1 / standard[1]

    def __getitem__(self, rows):
        found = self.inputs[rows]
        dtype = found.dtype if found.dtype.kind == "f" else np.float64
        found = dense(found, dtype) - self.mean.astype(dtype)
        found *= self.factors.astype(dtype)
        return found


def for_standardised(weights, bias, standard):
    """Return weights and biases of a layer, given those for the inputs themselves."""
    mean, deviation = standard
    fields = bias + weighted_sums(weights.T, mean)
    weights = weights * deviation[:, np.newaxis]
    return weights.astype(bias.dtype), fields.astype(bias.dtype)


def for_inputs(weights, bias, standard):
    """Return weights and biases for inputs, given those for standardised ones."""
    mean, deviation = standard
    weights = weights / deviation[:, np.newaxis]
    fields = bias - weighted_sums(weights.T, mean)
    return weights.astype(bias.dtype), fields.astype(bias.dtype)
