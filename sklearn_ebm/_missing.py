"""Missing values of visible units as latent variables of the model.

Training draws them: they are part of what the positive phase takes an expectation
over, and a draw from p(missing | observed) in place of every missing value makes the
gradient of a row an unbiased estimate of the gradient of log p(observed). The draws
come from a Gibbs chain a row, observed values clamped, that goes on from epoch to
epoch while the model changes slowly. (Mean-field values would follow a lower bound
of it instead, in which missing values are independent of each other.)

Methods that must be deterministic put mean-field values in place instead, or exact
conditional means where all states of the hidden units can be summed.
"""

from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from ._enumeration import binary_digits, enumerate_states, state_counts
from ._gibbs import half_sweep
from ._machines import Machine, unit_normalisers, weighted_sums
from ._products import product
from ._rows import Rows
from ._units import Kind, Wanted, evaluate
from ._validation import dense, refuse_unseen
from .samplers import Chains, Gibbs
from .samplers._models import base_layer
from .units import are, as_unit, kinds_by_column

# Mean-field steps; a fixed number, so that rows do not depend on each other.
N_MEAN_FIELD = 30
# Sweeps of new chains before a model that is not new is trained on their values.
N_FIRST_SWEEPS = 20
# Hidden layers of at most so many states are summed, not sampled, if states times
# visible units are no more than the second number.
MOST_STATES, MOST_FIELDS = 2**12, 2**20
# Rows that are filled in at a time.
N_ROWS = 1024
# So many missing bits of a row are summed: as much work as a hundred sweeps of a chain.
FEW_BITS = 8


class DrawnValues:
    """Values drawn in place of missing ones, and drawn again.

    Parameters
    ----------
    key : int
        Random key, used for nothing else.

    step : int
        First step of the random counter.

    layers : Layered or None, default=None
        The model that training goes on from, which knows of features of which nothing
        is observed.
    """

    def __init__(self, key, step=0, layers=None):
        self.key, self.n_steps, self.layers = key, step + 1, layers
        self.rows = ()

    def fill(self, X, others=None):
        """Return a copy of X with bits drawn by the columns' means in place of NaN.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Data, NaN where a value is missing.

        others : ndarray of bool of shape (n_features,), default=None
            Columns that do not hold bits: missing values start at values that other
            rows have there, so that mean and variance of the column stay.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            X itself if nothing is missing.
        """
        missing = missing_values(X)
        if missing is None:
            return X
        if self.layers is None:
            refuse_unseen(missing)
        self.rows = np.flatnonzero(missing.any(axis=1))
        mean = observed_means(X, missing)
        self.X, self.missing = np.array(X), missing[self.rows]
        rng = np.random.default_rng([self.key, self.n_steps])
        values = (rng.random(self.missing.shape) < mean).astype(X.dtype)
        for column in np.flatnonzero(others if others is not None else []):
            found = X[~missing[:, column], column]
            if len(found):
                values[:, column] = rng.choice(found, len(values))
        unseen = missing.all(axis=0)
        if unseen.any():
            values[:, unseen] = self._new_rows(len(values), rng)[:, unseen]
        self._put(values)
        return self.X

    def _new_rows(self, n_rows, rng):
        """Draw rows from the model that training goes on from."""
        machine, key = Machine(self.layers), int(rng.integers(2**63))
        rows = machine.independent(n_rows, key, 0, base_layer(self.layers, self.layers))
        machine.run(rows, N_FIRST_SWEEPS, key, 1)
        return rows

    def sweep(self, layers, n_sweeps=1):
        """Draw the values again, in place, from chains of a layered model.

        Parameters
        ----------
        layers : Layered
            The model as it is now.

        n_sweeps : int, default=1
            Sweeps of every chain.
        """
        if not len(self.rows):
            return
        sampler = Gibbs(layers)
        for _ in range(n_sweeps):
            # Observed values may lie between 0 and 1: one sweep at a time.
            chains = Chains(self.X[self.rows], None, self.key, self.n_steps)
            self._put(sampler.means(chains, self.n_steps)[1])
            self.n_steps += 1

    def missing_in(self, numbers):
        """Return which values are missing in some rows, or None if none is.

        Parameters
        ----------
        numbers : ndarray of int
            Numbers of the rows.

        Returns
        -------
        missing : ndarray of bool of shape (len(numbers), n_features) or None
            Which values were NaN.
        """
        _, found, places = np.intersect1d(numbers, self.rows, return_indices=True)
        if not len(found):
            return None
        missing = np.zeros((len(numbers), self.missing.shape[1]), bool)
        missing[found] = self.missing[places]
        return missing

    def _put(self, values):
        part = self.X[self.rows]
        part[self.missing] = values[self.missing]
        self.X[self.rows] = part


def observed_means(X, missing):
    """Means of what is not missing in columns of probabilities."""
    n_observed = (~missing).sum(axis=0)
    mean = np.where(missing, 0, X).sum(axis=0) / np.maximum(1, n_observed)
    mean[n_observed == 0] = 0.5  # nobody knows
    return mean


def has_missing(X):
    """Whether any value of data, dense or sparse, is NaN."""
    values = X.data if sp.issparse(X) else X
    if values.dtype.kind != "f" or np.isfinite(values.sum(dtype=float)):
        return False
    return bool(np.isnan(values).any())


def missing_values(X):
    """Return which values are NaN, or None if none is.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Data; zeros that a sparse matrix does not store are not missing.

    Returns
    -------
    missing : ndarray of bool of shape (n_samples, n_features) or None
        Which values are NaN.
    """
    if not has_missing(X):
        return None
    if sp.issparse(X):
        raise ValueError(
            "Missing values in a sparse matrix are not supported; use a dense array."
        )
    return np.isnan(X)


def _mean_field(sampler, visible):
    """Means of visible units, given those of hidden ones."""
    machine, dtype = sampler.machine, sampler.dtype
    if machine is not None:
        return machine.down.means(machine.up.means(visible))
    hidden = np.empty((len(visible), sampler.up.n_units), dtype)
    means = np.empty(visible.shape, dtype)
    half_sweep(Rows(visible, dtype), sampler.up, means=hidden)
    half_sweep(Rows(hidden), sampler.down, means=means)
    return means


def fill_mean_field(layers, X, mean):
    """Put mean-field values in place of missing ones.

    Parameters
    ----------
    layers : Layered
        A model of two layers.

    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Data, NaN where a value is missing.

    mean : ndarray of shape (n_features,)
        Values to start from.

    Returns
    -------
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        X itself if nothing is missing.
    """
    return fill_in_rounds(X, mean, lambda: partial(_mean_field, Gibbs(layers)))


def fill_in_rounds(X, mean, begin):
    """Put means in place of missing values, each given the others, round by round.

    `begin()`, called only if something is missing, returns a function of rows: the
    means of visible units. The other parameters are those of `fill_mean_field`.
    """
    missing = missing_values(X)
    if missing is None:
        return X
    rows = np.flatnonzero(missing.any(axis=1))
    part, missing = X[rows], missing[rows]
    part[missing] = np.broadcast_to(mean, part.shape)[missing]
    means = begin()
    for _ in range(N_MEAN_FIELD):
        part[missing] = means(part)[missing]
    filled = np.array(X)
    filled[rows] = part
    return filled


def can_fill_exactly(layers):
    """Whether `fill_exactly` takes this model, and takes it little time."""
    n_states = state_counts(layers)[1]
    n_fields = n_states * len(layers.biases[0])
    return n_states <= MOST_STATES and n_fields <= MOST_FIELDS


def fill_exactly(layers, X, missing):
    """Put conditional means in place of missing values, by summing hidden states.

    Missing visible units are independent of each other given the hidden ones, so
    that ``p(h | observed)`` is proportional to ``exp(c.h + observed.W.h)`` times the
    normalisers of the missing units given h. Every row by itself.

    Parameters
    ----------
    layers : Layered
        A model of two layers, or folded into two, the hidden one of finitely many
        states.

    X : ndarray of shape (n_samples, n_features)
        Values of the visible units; what it holds where they are missing does not
        matter.

    missing : ndarray of bool of shape (n_samples, n_features)
        Which are missing; of a block of columns that makes one unit, all or none.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        A copy in float64, missing values filled in.
    """
    visible, hidden = (as_unit(unit) for unit in layers.units)
    bias, hidden_bias = (np.asarray(b, float) for b in layers.biases)
    weights = np.asarray(layers.weights[0], float)
    states = np.concatenate(list(enumerate_states(hidden, len(hidden_bias))))
    linear = product(states, np.ascontiguousarray(weights.T))
    fields = linear + bias
    starts, normalisers = unit_normalisers(visible, fields)
    means = evaluate(visible.kernel(len(bias)), fields, Wanted.MEANS)
    linear, normalisers = np.ascontiguousarray(linear.T), normalisers.copy()
    of_states = weighted_sums(states, hidden_bias)
    filled = dense(np.where(missing, 0, X), float)
    units = dense(np.logical_or.reduceat(missing, starts, axis=1), float)
    for first in range(0, len(filled), N_ROWS):
        part = slice(first, first + N_ROWS)
        logs = product(filled[part], linear) + product(units[part], normalisers)
        weight = softmax(logs + of_states, axis=1)
        filled[part][missing[part]] = product(weight, means)[missing[part]]
    return filled


def few_bits_missing(layers, missing):
    """Rows that `fill_bits_exactly` takes: what they lack are bits, and few."""
    kinds = kinds_by_column(as_unit(layers.units[0]), missing.shape[1])
    others = missing[:, ~are(kinds, Kind.BERNOULLI)].any(axis=1)
    return ~others & (missing.sum(axis=1) <= FEW_BITS)


def fill_bits_exactly(layers, X, missing):
    """Put conditional means in place of missing bits, by summing all their states.

    Parameters and result are those of `fill_exactly`, but that hidden units may be of
    any kind and number, and missing are few bits.
    """
    machine = Machine(layers, np.float64)
    filled, n_missing = dense(np.where(missing, 0, X), float), missing.sum(axis=1)
    for n in np.unique(n_missing[n_missing > 0]):
        states = binary_digits(np.arange(2**n), n).astype(float)
        rows = np.flatnonzero(n_missing == n)
        for part in np.array_split(rows, -(-len(rows) * len(states) // N_ROWS)):
            given, free = filled[part], missing[part]
            tried = np.repeat(given, len(states), axis=0)
            every = np.tile(states, (len(part), 1))
            tried[np.repeat(free, len(states), axis=0)] = every.ravel()
            energies = machine.free_energy(tried).reshape(len(part), -1)
            given[free] = product(softmax(-energies, axis=1), states).ravel()
            filled[part] = given
    return filled
