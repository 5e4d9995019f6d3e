# Sparse codes of rows, and what a dictionary is learned from.
#
# Rows are lasso problems that share the Gram matrix of the atoms:
#
#   min over h of |x - h D|^2 / 2 + alpha |h|_1,    G = D D',  q = x D'
#
# Few atoms are used by a row, so coordinates are descended on a small working set,
# whose part of the Gram matrix is gathered and stays in the first cache:
#
#   1. c = q - h G, the correlations of the residual with all atoms; stop if the
#      duality gap is small enough;
#   2. working set: atoms with h != 0, and the worst of those with |c| > alpha;
#   3. sweeps over the working set, and exact steps (see _leaves_codes.h), until
#      its own gap is a fraction of the whole.
#
# Every round lowers the objective, from whatever codes it starts at. Sums over
# rows (`add_moments`) and over atoms (`update_atoms`) run in a fixed order: results
# do not depend on the number of threads.
import numpy as np

from cython.parallel cimport parallel, prange
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport address, aligned
from ._simd cimport (
    PANEL_BYTES,
    ActiveRows,
    Descent,
    Leaves,
    RowSums,
    n_panels_of,
    select_leaves,
)

ctypedef fused real:
    float
    double

# A round's sweeps end at this share of the gap that it began with.
cdef double PROGRESS = 0.1
# And at this share of the gap to stop at: the atoms outside have theirs as well.
cdef double LAST = 0.3
# Atoms join if |c| - alpha is at least this share of the largest such excess.
cdef double LEAST_EXCESS = 0.6
# Systems of so many equations are solved; the time grows with the third power.
cdef Py_ssize_t MOST_EXACT = 128
# Rows that a thread takes at a time.
cdef Py_ssize_t BLOCK = 16


cdef class Matrix:
    """A matrix by rows, each padded with zeros to whole panels."""

    cdef readonly object values
    cdef const Leaves *leaves
    cdef Py_ssize_t n_rows, n_columns, n_panels
    cdef object memory
    cdef char *data

    def __cinit__(self, rows):
        self.leaves = select_leaves(rows.dtype.itemsize)
        self.n_rows, self.n_columns = rows.shape
        self.n_panels = n_panels_of(self.n_columns, self.leaves)
        self.memory = aligned(self.n_rows * self.n_panels * PANEL_BYTES)
        self.data = address(self.memory)
        padded = self.memory.view(rows.dtype).reshape(self.n_rows, -1)
        self.values = padded[:, : self.n_columns]
        self.values[:] = rows

    cdef char *row(self, Py_ssize_t i) noexcept nogil:
        return self.data + i * self.n_panels * PANEL_BYTES

    cdef void add_rows(
        self, const ActiveRows *weights, const char *start, char *out
    ) noexcept nogil:
        """out = start + the sum of weighted rows; indices count panels."""
        cdef RowSums sums
        sums.rows, sums.n_rows = weights[0], 1
        sums.out, sums.out_stride = out, PANEL_BYTES
        self.leaves.sum_active(
            &sums, 1, self.data, PANEL_BYTES, <int> self.n_panels, start, 0
        )


cdef struct Room:
    # What a thread needs to code a row: its values, the atoms that its code uses,
    # correlations of the row and of its residual with all atoms, the working set.
    ActiveRows values
    int32_t n_values
    ActiveRows used
    int32_t n_used
    double *correlation
    double *residual
    double *code
    uint32_t *members
    Descent small


cdef class Rooms:
    """A room for each of some threads."""

    cdef Room *of_thread
    cdef list memory

    def __cinit__(
        self, Matrix gram, Matrix columns, double alpha, bint positive, int n_threads
    ):
        cdef Room *room
        self.memory = []
        self.of_thread = <Room *> self._bytes(n_threads * sizeof(Room))
        cdef Py_ssize_t n = gram.n_rows, row = gram.n_panels * PANEL_BYTES
        for thread in range(n_threads):
            room = self.of_thread + <int> thread
            room.values.index = <uint32_t *> self._bytes(4 * columns.n_rows)
            room.values.value = <void *> self._bytes(8 * columns.n_rows)
            room.values.length = &room.n_values
            room.used.index = <uint32_t *> self._bytes(4 * n)
            room.used.value = <void *> self._bytes(row)
            room.used.length = &room.n_used
            room.correlation = <double *> self._bytes(row)
            room.residual = <double *> self._bytes(row)
            room.code = <double *> self._bytes(row)
            room.members = <uint32_t *> self._bytes(4 * n)
            room.small.diagonal = <double *> self._bytes(row)
            room.small.correlation = <double *> self._bytes(row)
            room.small.residual = <double *> self._bytes(row)
            room.small.code = <double *> self._bytes(row)
            # Of which hardly ever more than a corner is touched.
            room.small.gram = <double *> self._bytes(n * row)
            room.small.alpha, room.small.positive = alpha, positive
            most = min(n, MOST_EXACT)
            room.small.most = most
            room.small.factor = <double *> self._bytes(8 * most * (most + 1))
            room.small.solution = <double *> self._bytes(8 * most)
            room.small.support = <uint32_t *> self._bytes(4 * most)

    cdef char *_bytes(self, Py_ssize_t n) except NULL:
        memory = aligned(n)
        self.memory.append(memory)
        return address(memory)


cdef void set_residual(Matrix gram, Room *room) noexcept nogil:
    """residual = correlation - code G"""
    cdef Py_ssize_t j
    cdef int32_t n = 0
    for j in range(gram.n_rows):
        if room.code[j] != 0:
            room.used.index[n] = <uint32_t> (j * gram.n_panels)
            (<double *> room.used.value)[n] = -room.code[j]
            n += 1
    room.n_used = n
    gram.add_rows(&room.used, <char *> room.correlation, <char *> room.residual)


cdef void choose(Matrix gram, Room *room) noexcept nogil:
    """The working set: atoms that are used, and the worst of those to be used."""
    cdef Py_ssize_t j, n = 0
    cdef double size, worst = 0, level, alpha = room.small.alpha
    cdef bint positive = room.small.positive
    for j in range(gram.n_rows):
        if room.code[j] == 0:
            size = room.residual[j] if positive else fabs(room.residual[j])
            worst = max(worst, size)
    level = alpha + LEAST_EXCESS * max(worst - alpha, 0.0)
    for j in range(gram.n_rows):
        size = room.residual[j] if positive else fabs(room.residual[j])
        if room.code[j] != 0 or (size >= level and size > alpha):
            room.members[n] = <uint32_t> j
            n += 1
    room.small.n = n


cdef void gather(Matrix gram, Room *room) noexcept nogil:
    """The problem of the working set alone."""
    cdef Descent *small = &room.small
    cdef Py_ssize_t lanes = gram.leaves.lanes, n = small.n, i, j, a, width
    cdef const double *row
    cdef double *to
    small.n_panels = n_panels_of(n, gram.leaves)
    width = small.n_panels * lanes
    for i in range(n):
        a = room.members[i]
        row = <const double *> gram.row(a)
        to = small.gram + i * width
        for j in range(n):
            to[j] = row[room.members[j]]
        for j in range(n, width):
            to[j] = 0
        small.diagonal[i], small.code[i] = row[a], room.code[a]
        small.residual[i] = room.residual[a]
        small.correlation[i] = room.correlation[a]
    for j in range(n, width):
        small.residual[j] = 0


cdef bint encode_row(
    Matrix gram, Room *room, double squared_norm, double tol, int max_iter
) noexcept nogil:
    """Lower the objective of room.code until its gap is at most tol |x|^2.

    Or as far as rounding allows; whether this took at most max_iter sweeps.
    """
    cdef Py_ssize_t i
    cdef int sweeps = 0
    cdef bint stalled = False
    cdef double gap, before = 0, goal = tol * squared_norm
    room.small.squared_norm = squared_norm
    while True:
        set_residual(gram, room)
        gap = gram.leaves.gap(
            room.correlation, room.residual, room.code, gram.n_rows, squared_norm,
            room.small.alpha, room.small.positive,
        )
        if gap <= goal or (stalled and gap > 0.5 * before):
            return True
        if sweeps >= max_iter:
            return False
        before = gap
        choose(gram, room)
        gather(gram, room)
        sweeps += gram.leaves.descend(
            &room.small, max(PROGRESS * gap, LAST * goal), max_iter - sweeps, &stalled
        )
        for i in range(room.small.n):
            room.code[room.members[i]] = room.small.code[i]


cdef void multiply_row(
    const real *x, Matrix by, ActiveRows *room, char *out
) noexcept nogil:
    """out = x times a matrix, by whole panels; sums in order, zeros left out."""
    cdef Py_ssize_t i
    cdef int32_t n = 0
    for i in range(by.n_rows):
        if x[i] != 0:
            room.index[n] = <uint32_t> (i * by.n_panels)
            (<double *> room.value)[n] = x[i]
            n += 1
    room.length[0] = n
    memset(out, 0, by.n_panels * PANEL_BYTES)
    by.add_rows(room, out, out)


def multiply(
    const real[:, ::1] rows, Matrix by, real[:, ::1] out, Py_ssize_t start,
    Py_ssize_t stop, int n_threads,
):
    """Rows start..stop of out = rows times a matrix of float64.

    Unlike those of BLAS, its sums do not depend on the number of threads.
    """
    if not 0 <= start <= stop <= rows.shape[0] or by.values.itemsize != 8 or (
        rows.shape[1] != by.n_rows or out.shape[0] != rows.shape[0]
        or out.shape[1] != by.n_columns
    ):
        raise ValueError("rows and matrix do not fit")
    # A product, values and indices, in whole cache lines.
    cdef Py_ssize_t lines = by.n_panels + (12 * by.n_rows + 63) // 64, r
    room = aligned(n_threads * lines * 64)
    cdef char *room_ = address(room)
    with nogil, parallel(num_threads=n_threads):
        for r in prange(start, stop, schedule="static"):
            multiply_into[real](
                &rows[r, 0], by, room_ + 64 * lines * omp_get_thread_num(), &out[r, 0]
            )


cdef void multiply_into(
    const real *x, Matrix by, char *room, real *out
) noexcept nogil:
    """A row of `multiply`; room begins with that for the product."""
    cdef double *product = <double *> room
    cdef ActiveRows values
    cdef int32_t n
    cdef Py_ssize_t j
    memset(&values, 0, sizeof(values))
    values.value = <void *> (room + by.n_panels * PANEL_BYTES)
    values.index = <uint32_t *> (<double *> values.value + by.n_rows)
    values.length = &n
    multiply_row[real](x, by, &values, room)
    for j in range(by.n_columns):
        out[j] = <real> product[j]


cdef bint encode_real(
    Matrix gram, Matrix columns, Room *room, const real *x, real *code, double tol,
    int max_iter,
) noexcept nogil:
    """`encode_row` for a row and a code of either type."""
    cdef Py_ssize_t i
    cdef double squared_norm = 0
    cdef bint done
    for i in range(columns.n_rows):
        squared_norm += <double> x[i] * x[i]
    multiply_row[real](x, columns, &room.values, <char *> room.correlation)
    for i in range(gram.n_rows):
        room.code[i] = code[i]
    done = encode_row(gram, room, squared_norm, tol, max_iter)
    for i in range(gram.n_rows):
        code[i] = <real> room.code[i]
    return done


def encode(
    Matrix gram, Matrix columns, const real[:, ::1] X, real[:, ::1] codes,
    double alpha, double tol, int max_iter, bint positive, int n_threads,
):
    """Sparse codes of rows, from the codes that are there.

    Parameters
    ----------
    gram, columns : Matrix
        IN: products of the atoms, (n_atoms, n_atoms), and the atoms as columns,
        (n_features, n_atoms), float64.

    X, codes : memoryviews
        IN: rows, (n_rows, n_features). IN/OUT: codes, (n_rows, n_atoms).

    alpha, tol, max_iter, positive
        Penalty; duality gap to stop at, relative to the squared norm of a row; most
        sweeps of a row; whether codes are not negative.

    n_threads : int
        How many threads work.

    Returns
    -------
    n_left : int
        Number of rows that `max_iter` sweeps did not bring to `tol`.
    """
    cdef Py_ssize_t n_rows = codes.shape[0], n_atoms = codes.shape[1], block, r
    cdef Py_ssize_t n_blocks = (n_rows + BLOCK - 1) // BLOCK
    if gram.values.itemsize != 8 or columns.values.itemsize != 8 or (
        gram.n_rows != n_atoms or gram.n_columns != n_atoms
        or columns.n_rows != X.shape[1] or columns.n_columns != n_atoms
        or X.shape[0] != n_rows
    ):
        raise ValueError("rows, codes and atoms do not fit")
    cdef Rooms rooms = Rooms(gram, columns, alpha, positive, n_threads)
    done = np.empty(n_rows, dtype=np.uint8)
    cdef uint8_t[::1] done_ = done
    with nogil, parallel(num_threads=n_threads):
        for block in prange(n_blocks, schedule="dynamic"):
            for r in range(block * BLOCK, min(n_rows, (block + 1) * BLOCK)):
                done_[r] = encode_real[real](
                    gram, columns, rooms.of_thread + omp_get_thread_num(), &X[r, 0],
                    &codes[r, 0], tol, max_iter,
                )
    return n_rows - np.count_nonzero(done)


def add_moments(
    const real[:, ::1] codes, const real[:, ::1] X, double[:, ::1] squares,
    double[:, ::1] products, int n_threads,
):
    """Add the sums over rows of h'h to `squares` and of h'x to `products`.

    Every thread has some of the atoms and goes through the rows in order.

    Parameters
    ----------
    codes, X : memoryviews
        IN: (n_rows, n_atoms) codes h and (n_rows, n_features) rows x.

    squares, products : memoryviews
        IN/OUT: (n_atoms, n_atoms) and (n_atoms, n_features).

    n_threads : int
        How many threads work.
    """
    cdef Py_ssize_t n_rows = codes.shape[0], n_atoms = codes.shape[1]
    if X.shape[0] != n_rows or squares.shape[0] != n_atoms or (
        squares.shape[1] != n_atoms or products.shape[0] != n_atoms
        or products.shape[1] != X.shape[1]
    ):
        raise ValueError("codes, rows and moments do not fit")
    cdef uint32_t[:, ::1] used = np.empty((n_threads, n_atoms), dtype=np.uint32)
    with nogil, parallel(num_threads=n_threads):
        add_moments_of[real](
            codes, X, squares, products, &used[omp_get_thread_num(), 0],
            bound(n_atoms, omp_get_thread_num(), omp_get_num_threads()),
            bound(n_atoms, omp_get_thread_num() + 1, omp_get_num_threads()),
        )


cdef void add_moments_of(
    const real[:, ::1] codes, const real[:, ::1] X, double[:, ::1] squares,
    double[:, ::1] products, uint32_t *used, Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    """Add what atoms start..stop have a part in; used is room for n_atoms."""
    cdef Py_ssize_t r, i, a, b, n
    for r in range(codes.shape[0]):
        n = 0
        for i in range(codes.shape[1]):
            if codes[r, i] != 0:
                used[n] = <uint32_t> i
                n += 1
        for a in range(n):
            i = used[a]
            if not start <= i < stop:
                continue
            for b in range(n):
                squares[i, used[b]] += <double> codes[r, i] * codes[r, used[b]]
            add_row[real](&products[i, 0], codes[r, i], &X[r, 0], X.shape[1])


cdef inline void add_row(
    double *to, double by, const real *row, Py_ssize_t n
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        to[i] += by * row[i]


def update_atoms(
    Matrix atoms, const double[:, ::1] squares, const double[:, ::1] products,
    bint positive, Py_ssize_t start, Py_ssize_t stop,
):
    """Move atoms start..stop to their best place given the codes and each other.

    On the unit sphere the squared error of the rows is least in the direction of

        products_k - sum over j != k of squares_kj atom_j,

    without its negative part if atoms are `positive`. An atom for which this is
    zero, or that has no codes, stays where it is.

    Parameters
    ----------
    atoms : Matrix
        IN/OUT: float64, (n_atoms, n_features).

    squares, products : memoryviews
        IN: see `add_moments`.

    positive, start, stop
        Whether atoms are not negative; which of them move.
    """
    cdef Py_ssize_t n_atoms = atoms.n_rows, n_features = atoms.n_columns, i, j, k
    if atoms.values.itemsize != 8 or squares.shape[0] != n_atoms or (
        squares.shape[1] != n_atoms or products.shape[0] != n_atoms
        or products.shape[1] != n_features or not 0 <= start <= stop <= n_atoms
    ):
        raise ValueError("atoms and moments do not fit")
    row_memory = aligned(atoms.n_panels * PANEL_BYTES)
    index_memory, value_memory = aligned(4 * n_atoms), aligned(8 * n_atoms)
    cdef double *row = <double *> address(row_memory)
    cdef uint32_t *index = <uint32_t *> address(index_memory)
    cdef double *value = <double *> address(value_memory)
    cdef ActiveRows others
    cdef int32_t n
    cdef double norm
    memset(&others, 0, sizeof(others))
    others.index, others.value, others.length = index, value, &n
    with nogil:
        for k in range(start, stop):
            if squares[k, k] == 0:
                continue
            n = 0
            for j in range(n_atoms):
                if j != k and squares[k, j] != 0:
                    index[n] = <uint32_t> (j * atoms.n_panels)
                    value[n] = -squares[k, j]
                    n += 1
            memcpy(row, &products[k, 0], n_features * sizeof(double))
            atoms.add_rows(&others, <char *> row, <char *> row)
            norm = 0
            for i in range(n_features):
                if positive:
                    row[i] = max(row[i], 0.0)
                norm += row[i] * row[i]
            if norm > 0:
                norm = sqrt(norm)
                for i in range(n_features):
                    row[i] /= norm
                memcpy(atoms.row(k), row, n_features * sizeof(double))
