"""Coding rows by a dictionary, and moving its atoms: what `SparseCoding` does.

`Coder` holds a dictionary still and codes rows by it. `Learner` alternates: code
rows, add what the codes say of the atoms to two sums, move the atoms. Rows are a dense
array or a CSR matrix, of which a few are made dense at a time.
"""

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import orthogonal_mp_gram

from .._openmp import effective_n_threads
from .._pacer import Pacer
from .._sparse_codes import Matrix, add_moments, encode, multiply, update_atoms
from .._training import epoch_order

# Rows that are worth a second thread: to code them, to add their moments.
LEAST_ROWS, LEAST_ROWS_ADDED = 32, 2000
# Multiplications (zeros included) of a product that are.
LEAST_PRODUCTS = 3e8
# Short calls between two trials of another number of threads.
PROBE_EVERY = 30
# Numbers, zeros included, of the rows of a CSR matrix that are dense at a time.
DENSE_SIZE = 2**18
# Exponent of how earlier rows are forgotten (see `Learner.step`).
FORGETTING = 2


def dense_parts(X, start, stop):
    """Rows start..stop as dense arrays: slices of range(len), and what they hold."""
    if not sp.issparse(X):
        yield slice(start, stop), X[start:stop]
        return
    step = max(1, DENSE_SIZE // X.shape[1])
    for first in range(start, stop, step):
        part = slice(first, min(stop, first + step))
        yield part, X[part].toarray()


@dataclass(frozen=True)
class Coding:
    """How a row is coded: parameters of `SparseCoding`.

    `n_nonzero` is None unless codes come from orthogonal matching pursuit.
    """

    alpha: float
    beta: float
    positive: bool
    tol: float
    max_iter: int
    n_nonzero: int | None

    def objectives(self, X, codes, atoms):
        """Objective of every row, float64, exact for these codes."""
        values = np.empty(len(codes))
        for part, rows in dense_parts(X, 0, len(codes)):
            errors = rows.astype(np.float64) - codes_times(codes[part], atoms)
            values[part] = self.beta * np.square(errors).sum(axis=1)
        if self.n_nonzero is None:
            values += self.alpha * np.abs(codes).sum(axis=1, dtype=np.float64)
        return values


def codes_times(rows, matrix):
    """``rows @ matrix``, by sums in a fixed order; zeros in rows cost nothing."""
    matrix = Matrix(matrix.astype(np.float64))
    out = np.empty((len(rows), matrix.values.shape[1]), dtype=rows.dtype)
    calls = ShortCalls(effective_n_threads(rows.size * out.shape[1], LEAST_PRODUCTS))
    calls.run(partial(multiply, rows, matrix, out), len(rows))
    return out


class Coder:
    """Codes rows by a dictionary.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        The dictionary.

    coding : Coding
        How to code.

    calls : ShortCalls
        What cuts the work in pieces.

    Attributes
    ----------
    n_left : int
        Rows so far that the allowed number of sweeps did not bring to `tol`, or whose
        pursuit found no further atom that would change anything.
    """

    def __init__(self, atoms, coding, calls):
        self.coding, self.calls, self.n_left = coding, calls, 0
        atoms = atoms.astype(np.float64)
        # Sums in a fixed order, unlike those of BLAS.
        self.gram = codes_times(np.ascontiguousarray(atoms), atoms.T)
        self.gram_rows, self.columns = Matrix(self.gram), Matrix(atoms.T)

    def encode(self, X, codes):
        """Bring codes, from what they are, to what they should be."""

        def piece(start, stop, n_threads):
            for part, rows in dense_parts(X, start, stop):
                if self.coding.n_nonzero is None:
                    self._descend(rows, codes[part], n_threads)
                else:
                    self._pursue(rows, codes[part])

        self.calls.run(piece, len(codes))
        return codes

    def _descend(self, X, codes, n_threads):
        coding = self.coding
        self.n_left += encode(
            self.gram_rows,
            self.columns,
            X,
            codes,
            coding.alpha / (2 * coding.beta),
            coding.tol,
            coding.max_iter,
            coding.positive,
            n_threads,
        )

    def _pursue(self, X, codes):
        codes[:] = 0
        # scikit-learn warns of rows of zeros, which need no atoms.
        some = X.any(axis=1)
        if not some.any():
            return
        products = codes_times(X[some].astype(np.float64), self.columns.values)
        # (It warns of each such row, at a line of ours.)
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", "Orthogonal matching pursuit ended")
            found = orthogonal_mp_gram(
                self.gram, products.T, n_nonzero_coefs=self.coding.n_nonzero
            )
        self.n_left += len(caught)
        codes[some] = found.T.reshape(-1, codes.shape[1])


class ShortCalls:
    """Calls of a kernel for some rows at a time, cut by a `Pacer`.

    In long calls a `Pacer` tries now and then whether another number of threads is
    faster. In many short ones, this does.

    Parameters
    ----------
    n_threads : int
        Largest number of threads.
    """

    def __init__(self, n_threads=1):
        self.pacer, self.n_calls = Pacer(n_threads), 0

    def run(self, kernel, n):
        """Call ``kernel(start, stop, n_threads)`` over ``range(n)`` in pieces."""
        self.n_calls += 1
        if self.n_calls % PROBE_EVERY == 0:
            self.pacer.until_probe = 0
        self.pacer.run(kernel, n)
        self.pacer.size = min(self.pacer.size, n)


def calls_for(n_rows):
    """Calls that code so many rows."""
    return ShortCalls(effective_n_threads(n_rows, LEAST_ROWS))


class Learner:
    """A dictionary that learns.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Where it starts.

    state : dict
        What is known of the atoms from the codes so far (see `state`).

    coding : Coding
        How rows are coded.

    positive : bool
        Whether atoms are not negative.

    n_rows : int
        About how many rows come at a time.
    """

    def __init__(self, atoms, state, coding, positive, n_rows):
        self.dtype, self.coding, self.positive = atoms.dtype, coding, positive
        self.atoms = Matrix(atoms.astype(np.float64))
        self.key, self.n_steps = state["key"], state["n_steps"]
        self.n_seen = state["n_seen"]
        self.squares, self.products = state["squares"].copy(), state["products"].copy()
        self.coding_calls, self.moving_calls = calls_for(n_rows), ShortCalls()
        self.adding_calls = ShortCalls(effective_n_threads(n_rows, LEAST_ROWS_ADDED))

    def state(self):
        """What to go on from, beside the atoms."""
        return {
            "key": self.key,
            "n_steps": self.n_steps,
            "n_seen": self.n_seen,
            "squares": self.squares.copy(),
            "products": self.products.copy(),
        }

    def components(self):
        """Return the dictionary as an array of the dtype of the rows."""
        return self.atoms.values.astype(self.dtype)

    def step(self, X, codes):
        """Code rows (from what `codes` are) and move the atoms.

        Returns the sums over the rows of the objective, by the atoms as they were,
        and of the number of atoms used. The rows before are forgotten in proportion
        to (1 - n_rows / n_seen)^2, where n_seen counts these as well.
        """
        atoms = self.components()
        Coder(atoms, self.coding, self.coding_calls).encode(X, codes)
        n_rows = len(codes)
        self.n_seen += n_rows
        kept = (1 - n_rows / self.n_seen) ** FORGETTING
        self.squares *= kept
        self.products *= kept
        self.adding_calls.run(self._add_moments(X, codes), n_rows)
        self.moving_calls.run(self._move, len(atoms))
        self.n_steps += 1
        objective = self.coding.objectives(X, codes, atoms).sum()
        return np.array([objective, np.count_nonzero(codes)])

    def _add_moments(self, X, codes):
        def piece(start, stop, n_threads):
            for part, rows in dense_parts(X, start, stop):
                add_moments(codes[part], rows, self.squares, self.products, n_threads)

        return piece

    def _move(self, start, stop, _):
        update_atoms(
            self.atoms, self.squares, self.products, self.positive, start, stop
        )

    def replace(self, unused, X):
        """Let rows of X, chosen at random, take the place of unused atoms."""
        unused = np.flatnonzero(unused)
        if not len(unused):
            return
        rng = np.random.default_rng([self.key, self.n_steps, 1])
        rows = random_rows(X, len(unused), rng, self.positive)
        unused = unused[: len(rows)]
        self.squares[unused] = self.squares[:, unused] = self.products[unused] = 0
        self.atoms.values[unused] = rows


def learn_in_batches(learner, X, batch_size):
    """A pass over the rows in random order, in minibatches.

    What earlier passes have seen of the same rows counts as one pass at most.
    """
    n_rows = X.shape[0]
    learner.n_seen = min(learner.n_seen, n_rows)
    order = epoch_order(n_rows, learner.key, learner.n_steps)
    used = np.zeros(learner.atoms.values.shape[0], dtype=bool)
    sums = np.zeros(2)
    for start in range(0, n_rows, batch_size):
        rows = X[order[start : start + batch_size]]
        codes = np.zeros((rows.shape[0], len(used)), dtype=X.dtype)
        sums += learner.step(rows, codes)
        used |= codes.any(axis=0)
    learner.replace(~used, X)
    return sums


def learn_from_all(learner, X, codes):
    """A pass over all rows at once, from their codes of the pass before."""
    learner.n_seen = 0
    sums = learner.step(X, codes)
    learner.replace(learner.squares.diagonal() == 0, X)
    return sums


def learn_from_part(learner, X, batch_size):
    """Minibatches of rows in the order in which they come."""
    sums = np.zeros(2)
    for start in range(0, X.shape[0], batch_size):
        rows = X[start : start + batch_size]
        codes = np.zeros((rows.shape[0], len(learner.squares)), dtype=X.dtype)
        sums += learner.step(rows, codes)
    learner.replace(learner.squares.diagonal() == 0, X)
    return sums


# ---- First atoms ----


def unit_rows(rows):
    """Rows brought to unit length, those of zeros left out."""
    rows = np.asarray(rows, dtype=np.float64)
    rows = rows / np.abs(rows).max(axis=1, initial=np.finfo(float).tiny)[:, None]
    norms = np.sqrt(np.square(rows).sum(axis=1))
    return rows[norms > 0] / norms[norms > 0, None]


def random_rows(X, n, rng, positive):
    """Up to n different rows of X as atoms."""
    rows = X[rng.permutation(X.shape[0])[:n]]
    if sp.issparse(rows):
        rows = rows.toarray()
    return unit_rows(np.maximum(rows, 0) if positive else rows)


def first_atoms(X, n_atoms, key, positive):
    """Rows of X; where there are not enough of them, random directions."""
    rng = np.random.default_rng([key, 0, 0])
    atoms = random_rows(X, n_atoms, rng, positive)
    others = rng.standard_normal((n_atoms - len(atoms), X.shape[1]))
    return np.vstack([atoms, unit_rows(np.abs(others) if positive else others)])
