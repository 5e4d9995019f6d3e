"""Features of any size, as a net is given them while it is fine-tuned.

Steps of a learning rate suit features that vary by about 1 and do not lie far from 0.
Of others the net is given what `sklearn.preprocessing.StandardScaler` makes of them, a
minibatch at a time; public weights and biases are those for the features themselves.
"""

import numpy as np

from .._machines import weighted_sums
from .._rows import Rows
from .._validation import ROUNDING, dense
from ._visible_scales import column_variances


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
        Means and deviations; None for features in [0, 1], which are left as they are.

    Raises
    ------
    ValueError
        If a variance is infinite.
    """
    if X.min() >= -ROUNDING and X.max() <= 1 + ROUNDING:
        return None
    n_rows, mean = X.shape[0], Rows(X).column_means
    deviation = np.sqrt(column_variances(X, n_rows, mean))
    if not np.isfinite(deviation).all():
        wrong = np.flatnonzero(~np.isfinite(deviation))[0]
        raise ValueError(
            f"The variance of feature {wrong} is beyond the numbers of float64. Scale "
            "the data."
        )
    # Of a constant its size is known. So it is of what is the same in two or three rows
    # by chance, which may be all that the first call of partial_fit has.
    size = np.where(mean == 0, 1, np.abs(mean))
    deviation = np.where(deviation > 0, np.hypot(deviation, mean / n_rows**3), size)
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
        self.inputs, self.standard, self.shape = inputs, standard, inputs.shape

    def __getitem__(self, rows):
        found = self.inputs[rows]
        dtype = found.dtype if found.dtype.kind == "f" else np.float64
        mean, deviation = self.standard.astype(dtype)
        return (dense(found, dtype) - mean) / deviation


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
