# Free energy and pseudo-likelihood of a restricted Boltzmann machine over rows.
#
# Both are deterministic and treat every row by itself; sums are in float64.
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport parallel
from libc.math cimport exp, fabs, log1p
from libc.stdint cimport uint8_t
from libc.string cimport memset

from ._gibbs cimport Layer
from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport Panels, address, aligned
from ._rows cimport RowBlock, Rows
from ._simd cimport (
    LARGEST_TABULATED,
    PANEL_BYTES,
    SCORED_ROWS,
    DOUBLES_BYTES,
    MOST_DOUBLES,
    ActiveRows,
    Leaves,
    select_leaves,
    softplus_of,
    doubles_room,
)

from ._openmp import effective_n_threads

# Rows scored together: their means share one reading of the weights and, with 500
# hidden units, just fit the nearest cache.
cdef Py_ssize_t BLOCK = SCORED_ROWS
# Fewer panel rows than this are not worth a second thread.
cdef double LEAST_WORK = 1e5
# As many of them take less than a tenth of a second: then Ctrl-C is heard.
cdef double PIECE = 1e7


cdef inline double softplus(double x) noexcept nogil:
    return max(x, 0.0) + log1p(exp(-fabs(x)))


cdef exp_panels(matrix, dtype):
    """exp(matrix) and exp(-matrix) as panels."""
    up = Panels.from_rows(matrix.astype(dtype, copy=False))
    down = Panels(*matrix.shape, dtype)
    np.exp(up.view(), out=up.view())
    np.reciprocal(up.view(), out=down.view())
    return up, down


cdef class Scorer:
    """What scoring a block of rows needs, for each of some threads."""

    cdef Rows rows
    cdef Layer up
    cdef RowBlock room
    cdef bint pseudo, ratio, tabulated
    # Of the weights.
    cdef double largest
    cdef const double[::1] bias
    # Sites that do not count, or an empty array.
    cdef const uint8_t[:, ::1] skipped
    cdef double[:, ::1] logits
    cdef object memory
    # Rows are hidden units: the features that are looked at together are side by side.
    cdef Panels exp_weights, exp_minus
    cdef char *scratch
    cdef Py_ssize_t scratch_size, field_size

    def __cinit__(
        self, Rows rows, Layer up, intercept_visible, components, int n_threads
    ):
        self.rows, self.up, self.pseudo = rows, up, components is not None
        self.room = RowBlock(rows, n_threads * BLOCK, n_threads)
        self.bias = np.ascontiguousarray(intercept_visible, np.float64)
        # Fields, means of on and off units; values as they are.
        self.field_size = up.n_panels * BLOCK * PANEL_BYTES
        self.scratch_size = 3 * self.field_size + (
            BLOCK * (rows.n_columns + 8) * rows.dtype.itemsize + 63
        ) // 64 * 64
        self.memory = aligned(n_threads * self.scratch_size)
        self.scratch = address(self.memory)
        if not self.pseudo:
            return
        self.logits = np.empty((n_threads * BLOCK, rows.n_columns))
        self.largest = np.abs(components).max()
        self.tabulated = self.largest <= LARGEST_TABULATED
        if self.tabulated:
            self.exp_weights, self.exp_minus = exp_panels(components, rows.dtype)

    cdef void block(
        self, Py_ssize_t first, Py_ssize_t n, int thread, double *scores
    ) noexcept nogil:
        """Score the rows first..first + n."""
        cdef Py_ssize_t slot = thread * BLOCK, r
        cdef Py_ssize_t n_panels = self.up.n_panels
        cdef char *fields = self.scratch + thread * self.scratch_size
        cdef ActiveRows active = self.room.at(slot)
        for r in range(n):
            self.room.read(self.rows, slot + r, first + r, thread)
        self.up.fields(
            &active, n, 0, n_panels, self.up.panels(0, n_panels, NULL), fields,
            n * PANEL_BYTES,
        )
        if self.pseudo:
            self._logits(slot, n, fields)
        for r in range(n):
            if self.ratio:
                scores[r] = _ratio_matching(
                    self.room, slot + r, self.rows.n_columns, &self.bias[0],
                    &self.logits[slot + r, 0],
                )
            elif self.pseudo:
                scores[r] = _cross_entropy(
                    self.room, slot + r, self.rows.n_columns, &self.bias[0],
                    &self.logits[slot + r, 0],
                    &self.skipped[first + r, 0] if self.skipped.shape[0] else NULL,
                )
            else:
                scores[r] = -_linear(
                    self.room, slot + r, &self.bias[0]
                ) - self.up.leaves.softplus_sum(
                    fields + r * PANEL_BYTES, n * PANEL_BYTES, n_panels
                )

    cdef void _logits(self, Py_ssize_t slot, Py_ssize_t n, char *fields) noexcept nogil:
        """Log-odds of every feature given the others, less their biases.

        Values of 0 and 1 take the short way if the weights allow it, whatever
        the other values are: rows do not depend on each other.
        """
        cdef Py_ssize_t n_features = self.rows.n_columns, r
        cdef Py_ssize_t n_panels = self.up.n_panels
        cdef char *on = fields + self.field_size
        cdef char *off = on + self.field_size
        cdef char *values = off + self.field_size
        cdef bint rest = not self.rows.binary
        if rest or not self.tabulated:
            for r in range(n):
                _scatter(self.room, slot + r, n_features,
                         values + r * n_features * self.room.itemsize)
            self.up.leaves.shift_logits(
                fields, n, self.up.panels(0, n_panels, NULL), self.up.stride(),
                n_features, values, self.tabulated, n_panels, &self.logits[slot, 0],
            )
        if self.tabulated:
            self.up.leaves.both_means(fields, on, off, n_panels * n)
            self.up.leaves.flip_logits(
                on, off, n, self.exp_weights.data, self.exp_minus.data,
                self.exp_weights.stride, n_features,
                self.room.bits + slot * self.rows.n_words, values if rest else NULL,
                self.up.n_units, self.largest, &self.logits[slot, 0],
            )


def score_rows(
    Rows rows, Layer up, intercept_visible, components=None, bint ratio=False,
    skipped=None,
):
    """Free energy of each row or, given `components`, its pseudo-likelihood.

    Returns float64 (n_rows,): F(v) = -b.v - sum_j softplus(c_j + (v W)_j), or
    sum_i v_i log p_i + (1 - v_i) log(1 - p_i) with p_i = p(v_i = 1 | others); with
    `ratio` its ratio matching objective, sum_i v_i (1 - p_i)^2 + (1 - v_i) p_i^2.
    Sites where `skipped` (uint8, like the rows) is not 0 are left out of a
    pseudo-likelihood.
    """
    if not rows.n_columns == up.n_inputs == len(intercept_visible):
        raise ValueError("rows and layers do not fit")
    cdef Py_ssize_t n_rows = rows.n_rows
    cdef Py_ssize_t n_blocks = (n_rows + BLOCK - 1) // BLOCK
    cdef double work = <double> n_rows * up.n_panels * rows.n_columns * (
        rows.density + (components is not None)
    )
    cdef int n_threads = min(n_blocks, effective_n_threads(work, LEAST_WORK))
    cdef Scorer scorer = Scorer(rows, up, intercept_visible, components, n_threads)
    scorer.ratio = ratio
    scorer.skipped = np.empty((0, 1), np.uint8) if skipped is None else skipped
    scores = np.empty(n_rows)
    cdef double[::1] scores_ = scores
    cdef Py_ssize_t n_pieces = 1 + <Py_ssize_t> (work / PIECE)
    cdef Py_ssize_t piece, first, n, block
    cdef int thread, team
    for piece in range(n_pieces):
        first = bound(n_blocks, piece, n_pieces)
        n = bound(n_blocks, piece + 1, n_pieces) - first
        with nogil, parallel(num_threads=n_threads):
            thread = omp_get_thread_num()
            team = omp_get_num_threads()
            for block in range(
                first + bound(n, thread, team), first + bound(n, thread + 1, team)
            ):
                scorer.block(
                    block * BLOCK, min(BLOCK, n_rows - block * BLOCK), thread,
                    &scores_[block * BLOCK],
                )
        PyErr_CheckSignals()
    return scores


cdef double _value(RowBlock room, Py_ssize_t slot, Py_ssize_t k) noexcept nogil:
    """k-th active value of a row that has been read."""
    cdef ActiveRows row = room.at(slot)
    if row.value == NULL:
        return 1.0
    if room.itemsize == 4:
        return (<float *> row.value)[k]
    return (<double *> row.value)[k]


cdef double _linear(RowBlock room, Py_ssize_t slot, const double *bias) noexcept nogil:
    """bias . row"""
    cdef ActiveRows row = room.at(slot)
    cdef double total = 0
    cdef Py_ssize_t k
    for k in range(row.length[0]):
        total += bias[row.index[k]] * _value(room, slot, k)
    return total


cdef void _scatter(
    RowBlock room, Py_ssize_t slot, Py_ssize_t n_features, char *out
) noexcept nogil:
    """A row that has been read, as plain values."""
    cdef ActiveRows row = room.at(slot)
    cdef Py_ssize_t k
    memset(out, 0, n_features * room.itemsize)
    for k in range(row.length[0]):
        if room.itemsize == 4:
            (<float *> out)[row.index[k]] = <float> _value(room, slot, k)
        else:
            (<double *> out)[row.index[k]] = _value(room, slot, k)


cdef double _cross_entropy(
    RowBlock room, Py_ssize_t slot, Py_ssize_t n_features, const double *bias,
    const double *logits, const uint8_t *skipped,
) noexcept nogil:
    """sum of v_i x_i - softplus(x_i), x_i = bias_i + logits_i; not over skipped i"""
    cdef ActiveRows row = room.at(slot)
    cdef const Leaves *doubles = select_leaves(sizeof(double))
    cdef char memory[DOUBLES_BYTES]
    cdef double *x = doubles_room(memory)
    cdef double total = 0
    cdef Py_ssize_t k, i
    cdef int n = 0
    for i in range(n_features):
        if skipped == NULL or not skipped[i]:
            x[n] = bias[i] + logits[i]
            n += 1
        if n == MOST_DOUBLES or i == n_features - 1:
            total -= softplus_of(doubles, x, n)
            n = 0
    for k in range(row.length[0]):
        i = row.index[k]
        if skipped != NULL and skipped[i]:
            continue
        total += _value(room, slot, k) * (bias[i] + logits[i])
    return total


cdef double _ratio_matching(
    RowBlock room, Py_ssize_t slot, Py_ssize_t n_features, const double *bias,
    const double *logits,
) noexcept nogil:
    """sum of v_i (1 - p_i)^2 + (1 - v_i) p_i^2, p_i = logistic(bias_i + logits_i)"""
    cdef ActiveRows row = room.at(slot)
    cdef double total = 0, v, on, off
    cdef Py_ssize_t k, i
    for i in range(n_features):
        on = exp(-softplus(-bias[i] - logits[i]))
        total += on * on
    for k in range(row.length[0]):
        i, v = row.index[k], _value(room, slot, k)
        on = exp(-softplus(-bias[i] - logits[i]))
        off = exp(-softplus(bias[i] + logits[i]))
        total += v * (off * off - on * on)
    return total
