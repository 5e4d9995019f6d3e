"""Machines of two layers with units of any kind, ready to compute with.

The twin for such units of the kernels of Bernoulli units: half sweeps, sweeps and
free energies of a `Layered` value. Products and draws are compiled, and give the
same bits on any number of threads.
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ._gibbs import Purpose
from ._products import goes_by_lists, product, sparse_product
from ._units import Kind, Units, Wanted, evaluate
from ._validation import dense
from .units import are, as_unit, kinds_by_column

# Rows that are worked on at a time where a dense copy of them is needed, and numbers:
# of wide data, fewer rows.
CHUNK = 4096
CHUNK_SIZE = 2**20
# Numbers in a chunk that is looked at without a product, which gains nothing by more.
GLANCE = 2**17
# Rows that say how much units vary.
SOME = 300


class Way:
    """One way between two layers: units, given the states of the other layer.

    Parameters
    ----------
    unit : Unit
        What the units are.

    weights : ndarray of shape (n_inputs, n_units)
        Weights, in the dtype to compute in.

    bias : ndarray of shape (n_units,)
        Biases.
    """

    def __init__(self, unit, weights, bias):
        self.units = unit.kernel(len(bias))
        self.given = weights
        self.dtype = weights.dtype
        self.bias = np.asarray(bias, self.dtype)

    @cached_property
    def weights(self):
        """The weights in one piece, made when needed: many ways are never used."""
        return np.ascontiguousarray(self.given)

    def fields(self, X):
        """Fields of the units, of shape (n_rows, n_units)."""
        if sp.issparse(X):
            return sparse_product(X, self.weights) + self.bias
        return product(dense(X, self.dtype), self.weights) + self.bias

    def means(self, X):
        """Means of the units."""
        return self.means_at(self.fields(X))

    def means_at(self, fields):
        """Means of units with these fields."""
        return evaluate(self.units, fields, Wanted.MEANS)

    def means_in_chunks(self, X):
        """Means of the units for any number of rows, some of them at a time."""
        rows = chunks_to_multiply(X, self.dtype, len(self.bias))
        return np.vstack([self.means(chunk) for chunk in rows])

    def draw(self, X, key, step, purpose, row0=0):
        """Draws of the units; row r draws as row row0 + r."""
        return self.draw_at(self.fields(X), key, step, purpose, row0)

    def draw_at(self, fields, key, step, purpose, row0=0):
        """Draws of units with these fields."""
        return evaluate(self.units, fields, Wanted.DRAWS, key, step, int(purpose), row0)

    def log_partition(self, X):
        """Logarithm of the sum over the units, a number a row."""
        return evaluate(self.units, self.fields(X), Wanted.LOG_PARTITIONS)


class Machine:
    """A layered model of two layers.

    Parameters
    ----------
    layers : Layered
        The model.

    dtype : dtype or None, default=None
        What to compute in; None is that of the weights.
    """

    def __init__(self, layers, dtype=None):
        weights = np.asarray(layers.weights[0], dtype)
        if weights.dtype != np.float32:
            weights = weights.astype(np.float64, copy=False)
        visible, hidden = (as_unit(unit) for unit in layers.units)
        self.dtype = weights.dtype
        self.bias = np.asarray(layers.biases[0], np.float64)
        self.up = Way(hidden, weights, layers.biases[1])
        self.down = Way(visible, weights.T, layers.biases[0])
        self.gaussian = are(kinds_by_column(visible, len(self.bias)), Kind.GAUSSIAN)

    def free_energy(self, X):
        """Free energy of rows of visible units."""
        return np.concatenate(
            [self._free_energy(chunk) for chunk in dense_chunks(X, self.dtype)]
        )

    def _free_energy(self, X):
        energy = evaluate(self.down.units, X, Wanted.ENERGIES)
        linear = weighted_sums(X, self.bias)
        return energy - linear - self.up.log_partition(X)

    def independent(self, n_rows, key, step, base):
        """Draw visible units by biases alone; Gaussian ones are at their means.

        `base` is the unit that they are, and the biases.
        """
        unit, bias = base
        units = unit.kernel(len(bias))
        fields = np.tile(np.asarray(bias, self.dtype), (n_rows, 1))
        purpose = int(Purpose.DRAW_DATA)
        drawn = evaluate(units, fields, Wanted.DRAWS, key, step, purpose)
        # (Chains may stay for long in the mode that they start in. Noise of the size of
        # the data leads them to one that has nothing to do with what is known.)
        means = evaluate(units, fields, Wanted.MEANS)
        return np.where(self.gaussian, means, drawn)

    def sweep(self, X, key, step, keep=0.0):
        """Fields of visible units after a sweep from X, and draws.

        Gaussian units keep that share of their distance from their means. Independent
        draws being normal around them, what follows is the exact solution of the
        Langevin equation ``dv = -(v - mean) dt + sqrt(2) deviation dB`` at the time
        ``-log(keep)``, and leaves that normal distribution as it is.
        """
        hidden = self.up.draw(X, key, step, Purpose.DRAW_HIDDEN)
        fields = self.down.fields(hidden)
        drawn = self.down.draw_at(fields, key, step, Purpose.DRAW_VISIBLE)
        if keep:
            means = self.down.means_at(fields)
            near = keep * (X - means) + (1 - keep**2) ** 0.5 * (drawn - means)
            drawn = np.where(self.gaussian, means + near, drawn)
        return fields, drawn

    def run(self, X, n_steps, key, step, fixed=None, keep=0.0):
        """Advance chains by some sweeps, in place; fixed units keep their values."""
        kept = None if fixed is None else X[fixed]
        for k in range(n_steps):
            X[...] = self.sweep(X, key, step + k, keep)[1]
            if fixed is not None:
                X[fixed] = kept


def unit_normalisers(unit, fields):
    """First columns of all units of a layer, and normalisers given rows of fields.

    The second is of shape (n_units, n_rows).
    """
    mean, variance = unit._gaussian(fields.shape[1])
    starts, logs, first = [], [], 0
    for kind, n, size in unit._groups(fields.shape[1]):
        for start in range(first, first + n, size):
            columns = slice(start, start + size)
            one = Units([(kind, size, size)], mean[columns], variance[columns])
            part = np.ascontiguousarray(fields[:, columns])
            starts.append(start)
            logs.append(evaluate(one, part, Wanted.LOG_PARTITIONS))
        first += n
    return starts, np.array(logs)


def some_rows(X, n=SOME):
    """Return n rows that stand for all of X, spread over it evenly."""
    n_rows = X.shape[0]
    return X[np.linspace(0, n_rows - 1, min(n_rows, n)).astype(int)]


def weighted_sums(matrix, vector):
    """Return ``matrix @ vector``."""
    # Not by BLAS, whose sums depend on the number of threads.
    return np.einsum("ij,j->i", matrix, vector)


def chunks(X, width, numbers=None, size=CHUNK_SIZE):
    """Yield rows some at a time, as they are, in which `width` numbers a row matter.

    All rows, or those with these numbers; no more than `size` numbers at a time.
    """
    n_rows = X.shape[0] if numbers is None else len(numbers)
    step = max(1, min(CHUNK, size // max(1, width)))
    for start in range(0, max(1, n_rows), step):
        part = slice(start, start + step)
        yield X[part if numbers is None else numbers[part]]


def dense_chunks(X, dtype, change=lambda X: X, numbers=None, size=CHUNK_SIZE):
    """Yield `chunks`, as `dense`; `change` may encode them."""
    for chunk in chunks(X, X.shape[1], numbers, size):
        yield dense(change(chunk), dtype)


def chunks_to_multiply(X, dtype, width):
    """Yield chunks for a product with `width` columns: dense, or lists if faster."""
    if goes_by_lists(X):
        yield from chunks(X, max(X.nnz // X.shape[0], width))
    else:
        yield from dense_chunks(X, dtype)
