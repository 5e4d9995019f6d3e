"""Features of any size, as a net or a classifier learns from them.

Steps of a learning rate suit features that vary by about 1 and do not lie far from 0,
as bits do and what is between them, if it varies enough. Of others the net is given
what `sklearn.preprocessing.StandardScaler` makes of them (but for those that are mostly
0), a minibatch at a time; public weights and biases are those for the features
themselves. `RBMClassifier` is given the features themselves, and takes steps of such
lengths that it learns the same.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .._machines import weighted_sums
from .._rows import Rows
from .._validation import are_shares, dense
from .._warning import warn
from ._visible_scales import column_variances

# Rows that say nothing certain of how much a feature varies: all that the first call of
# partial_fit may have. Deviations that are taken for none.
FEW, LEAST = 3, 1e-30
# Relative difference of means that rounding may make.
SAME = 1e-5
# Features in [0, 1] that vary by a smaller share than this of the variance that bits of
# their means have, in so many rows or more, are not like bits, but small numbers.
NARROW, ENOUGH = 0.01, 10
# How far from 0 features may lie, in deviations times the root of the rounding error.
ROUNDED = 0.3


@dataclass(frozen=True)
class Moments:
    """What rows say of how features vary.

    `n` rows have these means and variances (n_features,); `n_used` (n_features,) of
    them are not 0.
    """

    n: int
    mean: np.ndarray
    variance: np.ndarray
    n_used: np.ndarray

    @classmethod
    def of(cls, X):
        """Moments of the rows X; infinite variances are refused."""
        rows = Rows(X)
        variance = column_variances(X, rows.n_rows, rows.column_means)
        if not np.isfinite(variance).all():
            wrong = np.flatnonzero(~np.isfinite(variance))[0]
            raise ValueError(
                f"The variance of feature {wrong} is beyond the numbers of float64. "
                "Scale the data."
            )
        if sp.issparse(X):  # CSR
            n_used = np.bincount(X.indices, X.data != 0, X.shape[1])
        else:
            n_used = np.count_nonzero(X, axis=0)
        return cls(rows.n_rows, rows.column_means, variance, n_used)

    def with_those_of(self, other):
        """Moments of these rows and others."""
        n, share = self.n + other.n, other.n / (self.n + other.n)
        apart = other.mean - self.mean
        variance = (1 - share) * self.variance + share * other.variance
        variance += share * (1 - share) * apart**2
        mean = self.mean + share * apart
        return Moments(n, mean, variance, self.n_used + other.n_used)

    def standard(self, n_inputs):
        """Return means and deviations, as `standard_of`, whatever the features are."""
        mean, size = self.mean, np.abs(self.mean)
        deviation = np.sqrt(self.variance)
        if self.n > FEW:
            size = np.maximum(1, size)
        else:
            # What is nearly the same in two or three rows may be so by chance.
            deviation = np.hypot(deviation, mean / self.n**3)
        # A constant may vary later: it has its size.
        varies = np.sqrt(self.variance) > LEAST
        deviation = np.where(varies, deviation, np.where(size, size, 1))
        # What is mostly 0, as counts of words are, stays so, and is divided by the size
        # of what is not: by their deviations rare words would be the largest of all.
        rare = varies & (2 * self.n_used < self.n)
        square = (self.variance + mean**2) * (self.n / np.maximum(1, self.n_used))
        standard = np.array([np.zeros(n_inputs), np.ones(n_inputs)])
        standard[0, : len(mean)] = np.where(rare, 0 * mean, mean)
        standard[1, : len(mean)] = np.where(rare, np.sqrt(square), deviation)
        return standard

    def constants(self):
        """Columns that do not vary, and what they are: (2, n), or None if all vary."""
        columns = np.flatnonzero(np.sqrt(self.variance) <= LEAST)
        return np.array([columns, self.mean[columns]]) if len(columns) else None

    def vary(self, constants):
        """Whether these columns, which have not varied before, vary with these rows."""
        columns, means = constants[0].astype(int), constants[1]
        same = np.isclose(self.mean[columns], means, rtol=SAME, atol=0)
        return ~same | (np.sqrt(self.variance[columns]) > LEAST)

    def beyond_bits(self):
        """Features that cannot all lie in [0, 1]."""
        beyond = (self.mean < 0) | (self.mean > 1)
        return beyond | (self.variance > self.mean * (1 - self.mean) + SAME)


def standard_of(X, n_inputs):
    """Return the means and deviations by which inputs of a net are standardised.

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
        Means, which are subtracted, and deviations, by which the difference is
        divided; of features that are mostly 0 what takes their places (see
        `Moments.standard`). None for features that are left as they are
        (`moments_to_standardise`).

    Raises
    ------
    ValueError
        If a variance is infinite.
    """
    moments = moments_to_standardise(X)
    return None if moments is None else moments.standard(n_inputs)


def moments_to_standardise(X):
    """Moments of features that have to be standardised, or None.

    Features in [0, 1] are left as they are, unless one varies by so little that steps
    which suit bits would hardly learn from it.
    """
    shares = are_shares(Rows(X))
    if shares and X.dtype.kind != "f":  # bits
        return None
    moments = Moments.of(X)
    return None if shares and not len(_narrow(X, moments)) else moments


def warn_of_narrow(X, objective):
    """Warn of features in [0, 1] from which a model of bits learns next to nothing."""
    if X.dtype.kind != "f" or not are_shares(Rows(X)):  # (which has its own warning)
        return
    moments = Moments.of(X)
    narrow = _narrow(X, moments)
    if len(narrow):
        mean, deviation = moments.mean[narrow[0]], np.sqrt(moments.variance[narrow[0]])
        # (Scaled real features are still no bits, and a generative model would spend
        # itself on them: to it the label is only one unit more.)
        scaled = "Scale every feature to [0, 1], as MinMaxScaler does, or take"
        remedy = "Take" if objective == "generative" else scaled
        warn(
            f"{len(narrow)} of {X.shape[1]} features hardly vary in [0, 1] (feature "
            f"{narrow[0]} has mean {mean:.3g} and deviation {deviation:.2g}): the bits "
            f"that objective={objective!r} takes them for tell next to nothing of "
            f"that. {remedy} objective='discriminative', to which scales are all the "
            "same."
        )


def _narrow(X, moments):
    """Features in [0, 1] that vary by far less than bits of their means do.

    Those that are mostly 0, or mostly 1, do not count: in what is left of them there
    may be little to learn from, as in the pixels at the edge of an image.
    """
    if moments.n < ENOUGH:
        return np.empty(0, int)
    mean, variance = moments.mean, moments.variance
    rounding = np.sqrt(moments.n) * np.finfo(X.dtype).eps * mean
    narrow = (variance > rounding**2) & (variance < NARROW * mean * (1 - mean))
    narrow &= 2 * moments.n_used >= moments.n
    columns = np.flatnonzero(narrow)
    full = [2 * (X[:, [column]] == 1).sum() > moments.n for column in columns]
    return columns[~np.array(full, bool)]


def standard_for_steps(moments, dtype):
    """Means and deviations of features, as they scale the steps of a model.

    Steps are longer by the inverse squares of deviations, which have to be numbers of
    this dtype, the model's: what varies less has no say.
    """
    mean, deviation = moments.standard(len(moments.mean))
    least = 10 * np.sqrt(np.finfo(dtype).tiny)
    return np.array([mean, np.where(deviation < least, 1.0, deviation)])


def warn_of_rounding(standard, dtype):
    """Warn of features so far from 0 that rounding hides how they vary."""
    away = np.abs(standard[0]) / standard[1]
    worst = np.argmax(away)
    if away[worst] * np.sqrt(np.finfo(dtype).eps) > ROUNDED:
        remedy = " or use float64" if dtype == np.float32 else ""
        warn(
            f"The mean of feature {worst} is {away[worst]:.3g} times its deviation: in "
            f"{np.dtype(dtype)}, much of what tells rows apart is lost in rounding. "
            f"Subtract the means first, as StandardScaler does{remedy}."
        )


class Standardised:
    """Inputs of a net, standardised when they are asked for.

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
