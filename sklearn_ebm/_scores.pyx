# Free energy and pseudo-likelihood of a restricted Boltzmann machine over rows.
#
# Both are deterministic and treat every row by itself; sums are in float64.
import numpy as np

from cython.parallel cimport parallel
from libc.math cimport exp, fabs, log1p
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from ._gibbs cimport Layer
from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport address, aligned
from ._rows cimport RowBlock, Rows
from ._simd cimport PANEL_BYTES, ActiveRows

from ._openmp import effective_n_threads

# Rows scored together: their means share one reading of the weights.
cdef Py_ssize_t BLOCK = 16
# Weights up to this size leave room for the product of four factors exp(|W|).
cdef double LARGEST_TABULATED = 20.0


cdef inline double softplus(double x) noexcept nogil:
    return max(x, 0.0) + log1p(exp(-fabs(x)))


def score_rows(Rows rows, Layer up, intercept_visible, components=None):
    """Free energy of each row or, given `components`, its pseudo-likelihood.

    Returns float64 (n_rows,): F(v) = -b.v - sum_j softplus(c_j + (v W)_j), or
    sum_i v_i log p_i + (1 - v_i) log(1 - p_i) with p_i = p(v_i = 1 | others).
    """
    cdef Py_ssize_t n_rows = rows.n_rows, n_panels = up.n_panels
    cdef Py_ssize_t n_features = rows.n_columns
    cdef const char *weights = up.panels(0, up.n_panels, NULL)
    cdef Py_ssize_t n_blocks = (n_rows + BLOCK - 1) // BLOCK
    cdef bint pseudo = components is not None
    cdef double work = n_rows * n_panels * n_features * (rows.density + pseudo)
    cdef int n_threads = min(n_blocks, effective_n_threads(work, 1e5))
    cdef RowBlock room = RowBlock(rows, n_threads * BLOCK, n_threads)
    cdef Py_ssize_t stride = BLOCK * PANEL_BYTES
    field_memory = aligned(n_threads * n_panels * stride)
    value_memory = aligned(n_threads * BLOCK * n_features * 8 if pseudo else 1)
    cdef char *fields = address(field_memory)
    cdef char *values = address(value_memory)
    cdef double[:, ::1] logits = np.empty(
        (n_threads * BLOCK, n_features if pseudo else 1)
    )
    cdef const double[::1] bias = np.ascontiguousarray(intercept_visible, np.float64)
    tables = _tables(rows, up, components)
    cdef const char *table_up = address(tables[0])
    cdef const char *table_down = address(tables[1])
    cdef bint flip = tables[2]
    scores = np.empty(n_rows)
    cdef double[::1] scores_ = scores
    cdef Py_ssize_t block, start, stop, first, n, r, p
    cdef int thread, team
    cdef ActiveRows active
    cdef char *my_fields
    cdef char *my_values
    with nogil, parallel(num_threads=n_threads):
        thread = omp_get_thread_num()
        team = omp_get_num_threads()
        start = bound(n_blocks, thread, team)
        stop = bound(n_blocks, thread + 1, team)
        my_fields = fields + thread * n_panels * stride
        my_values = values + thread * BLOCK * n_features * 8
        active = room.at(thread * BLOCK)
        for block in range(start, stop):
            first = block * BLOCK
            n = min(BLOCK, n_rows - first)
            for r in range(n):
                room.read(rows, thread * BLOCK + r, first + r, thread)
            up.fields(
                &active, n, 0, n_panels, weights, my_fields, n * PANEL_BYTES
            )
            if not pseudo:
                for r in range(n):
                    scores_[first + r] = -_linear(
                        room, thread * BLOCK + r, &bias[0]
                    ) - up.leaves.softplus_sum(
                        my_fields + r * PANEL_BYTES, n * PANEL_BYTES, n_panels
                    )
                continue
            if flip:
                for p in range(n_panels):
                    up.leaves.logistic(my_fields + p * n * PANEL_BYTES, n)
                up.leaves.flip_logits(
                    my_fields, n, table_up, table_down, n_features,
                    room.bits + thread * BLOCK * rows.n_words, n_panels,
                    &logits[thread * BLOCK, 0],
                )
            else:
                for r in range(n):
                    _scatter(room, thread * BLOCK + r, n_features,
                             my_values + r * n_features * room.itemsize)
                up.leaves.shift_logits(
                    my_fields, n, table_up, n_features, my_values, n_panels,
                    &logits[thread * BLOCK, 0],
                )
            for r in range(n):
                scores_[first + r] = _cross_entropy(
                    room, thread * BLOCK + r, n_features, &bias[0],
                    &logits[thread * BLOCK + r, 0],
                )
    return scores


def _tables(Rows rows, Layer up, components):
    """What the logits need of the weights, and whether they are tabulated.

    Panel rows (n_features, n_panels): expm1(W) and expm1(-W) for data of zeros
    and ones and weights that are not huge, otherwise W itself.
    """
    if components is None:
        return aligned(PANEL_BYTES), aligned(PANEL_BYTES), False
    columns = up.n_panels * up.leaves.lanes
    weights = np.zeros((rows.n_columns, columns), dtype=rows.dtype)
    weights[:, : up.n_units] = components.T
    flip = rows.binary and np.abs(weights).max() <= LARGEST_TABULATED
    tables = (np.expm1(weights), np.expm1(-weights)) if flip else (weights, weights)
    packed = []
    for table in tables:
        memory = aligned(table.nbytes)
        memory.view(rows.dtype)[:] = table.ravel()
        packed.append(memory)
    return packed[0], packed[1], flip


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
    const double *logits,
) noexcept nogil:
    """sum of v_i x_i - softplus(x_i), x_i = bias_i + logits_i"""
    cdef ActiveRows row = room.at(slot)
    cdef double total = 0
    cdef Py_ssize_t k, i
    for i in range(n_features):
        total -= softplus(bias[i] + logits[i])
    for k in range(row.length[0]):
        i = row.index[k]
        total += _value(room, slot, k) * (bias[i] + logits[i])
    return total
