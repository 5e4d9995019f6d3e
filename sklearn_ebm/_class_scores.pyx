# Scores of the classes of a classification RBM: log p(row, class), up to what all
# classes share.
#
# A row adds up what its hidden units would make under each label: the sum of
# log(1 + exp(field + weight of the label)). Rows of every matrix are padded to whole
# panels of 64 bytes; padding units have fields so low that they are always off.
import numpy as np

from cython.parallel cimport parallel
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport Panels, address, aligned
from ._simd cimport (
    LARGEST_TABULATED,
    PANEL_BYTES,
    SCORED_ROWS,
    Leaves,
    n_panels_of,
    select_leaves,
)
from ._vectors cimport softmax

from ._openmp import effective_n_threads

# Multiplications that are worth a second thread.
cdef double LEAST_WORK = 4e6
# The field of padding units.
cdef double OFF = -1e4
# Classes from which on the tables save time.
cdef Py_ssize_t FEWEST_TABULATED = 4


def class_scores(fields, labels, intercepts, hidden=None):
    """log p(v, y) of every class, up to what all classes share.

    fields : (n_rows, n_hidden), of the hidden units without a label.
    labels : (n_hidden, n_classes), their weights; intercepts : (n_classes,).
    hidden : (n_rows, n_hidden), becomes the means of the hidden units given the
        row alone.

    Returns a float64 array (n_rows, n_classes). Each row by itself.
    """
    largest = np.abs(labels).max(initial=0)
    small = largest <= LARGEST_TABULATED
    if hidden is None and small and labels.shape[1] >= FEWEST_TABULATED:
        return _tabulated_scores(fields, labels, intercepts, largest)
    dtype = fields.dtype
    cdef const Leaves *leaves = select_leaves(dtype.itemsize)
    cdef Py_ssize_t n_rows = fields.shape[0], n_hidden = fields.shape[1]
    cdef Py_ssize_t n_classes = labels.shape[1]
    cdef Py_ssize_t n_panels = n_panels_of(n_hidden, leaves)
    cdef Py_ssize_t stride = n_panels * PANEL_BYTES, size = n_hidden * dtype.itemsize
    cdef int n_threads = effective_n_threads(
        <double> n_rows * n_classes * n_hidden, LEAST_WORK
    )
    scores = np.empty((n_rows, n_classes))
    label_memory = aligned(n_classes * stride)
    padded = label_memory.view(dtype).reshape(n_classes, -1)
    padded[:, :n_hidden] = labels.T
    # Of a thread: a row's fields, means under every class and without a label.
    memory = aligned(n_threads * (n_classes * (stride + 64) + 2 * stride))
    rows = memory.reshape(n_threads, -1)[:, :stride].view(dtype)
    rows[:, n_hidden:] = OFF
    cdef const uint8_t[:, ::1] fields_ = np.ascontiguousarray(fields).view(np.uint8)
    cdef uint8_t[:, ::1] hidden_ = (fields if hidden is None else hidden).view(np.uint8)
    cdef bint wanted = hidden is not None
    cdef const double[::1] intercepts_ = np.asarray(intercepts, dtype=np.float64)
    cdef double[:, ::1] scores_ = scores
    cdef char *of_label = address(label_memory)
    cdef char *room = address(memory)
    cdef char *row
    cdef char *means
    cdef double *p
    cdef Py_ssize_t r, y
    cdef int thread, team
    with nogil, parallel(num_threads=n_threads):
        thread = omp_get_thread_num()
        team = omp_get_num_threads()
        row = room + thread * (n_classes * (stride + 64) + 2 * stride)
        means = row + 2 * stride
        p = <double *> (means + n_classes * stride)
        for r in range(bound(n_rows, thread, team), bound(n_rows, thread + 1, team)):
            memcpy(row, &fields_[r, 0], size)
            for y in range(n_classes):
                p[y] = intercepts_[y] + leaves.class_means(
                    row, of_label + y * stride, n_panels, means + y * stride
                )
                scores_[r, y] = p[y]
            if not wanted:
                continue
            softmax(p, n_classes)
            memset(row + stride, 0, stride)
            for y in range(n_classes):
                leaves.add_scaled(means + y * stride, p[y], n_panels, row + stride)
            memcpy(&hidden_[r, 0], row + stride, size)
    return scores


def _tabulated_scores(fields, labels, intercepts, double largest):
    """The same where exp(weights) are tables: no exponentials for units under classes.

    Weights are of size `largest` at most.

    A label multiplies what a hidden unit adds up to, 1 + exp(field), by
    p(off) + p(on) exp(weight), both given the row alone.
    """
    dtype = fields.dtype
    cdef const Leaves *leaves = select_leaves(dtype.itemsize)
    cdef Py_ssize_t n_rows = fields.shape[0], n_hidden = fields.shape[1]
    cdef Py_ssize_t n_classes = labels.shape[1], most = SCORED_ROWS
    cdef Py_ssize_t n_panels = n_panels_of(n_hidden, leaves)
    cdef Py_ssize_t stride = n_panels * PANEL_BYTES, size = n_hidden * dtype.itemsize
    cdef Py_ssize_t n_blocks = (n_rows + most - 1) // most
    cdef int n_threads = min(n_blocks, effective_n_threads(
        <double> n_rows * n_classes * n_hidden, LEAST_WORK
    ))
    cdef Panels factors = Panels.from_rows(labels.astype(dtype, copy=False))
    np.exp(factors.view(), out=factors.view())
    # Of a thread: fields, p(on) and p(off) of a block, panel by panel.
    memory = aligned(3 * n_threads * most * stride)
    memory.view(dtype)[:] = OFF
    scores, changes = np.empty((n_rows, n_classes)), np.empty(
        (n_threads, most * n_classes)
    )
    cdef const uint8_t[:, ::1] fields_ = np.ascontiguousarray(fields).view(np.uint8)
    cdef const double[::1] intercepts_ = np.asarray(intercepts, dtype=np.float64)
    # (No class is on.)
    cdef const uint64_t[::1] bits = np.zeros(most * ((n_classes + 63) // 64), np.uint64)
    cdef double[:, ::1] scores_ = scores, changes_ = changes
    cdef char *room = address(memory)
    cdef char *block
    cdef double total
    cdef Py_ssize_t b, n, p, r, y, at
    cdef int thread, team
    with nogil, parallel(num_threads=n_threads):
        thread = omp_get_thread_num()
        team = omp_get_num_threads()
        block = room + 3 * thread * most * stride
        for b in range(
            bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
        ):
            n = min(most, n_rows - b * most)
            for r in range(n):
                for p in range(n_panels):
                    at = p * PANEL_BYTES
                    memcpy(
                        block + (p * most + r) * PANEL_BYTES,
                        &fields_[b * most + r, at], min(PANEL_BYTES, size - at),
                    )
            leaves.both_means(
                block, block + most * stride, block + 2 * most * stride,
                n_panels * most,
            )
            leaves.flip_logits(
                block + most * stride, block + 2 * most * stride, most, factors.data,
                factors.data, factors.stride, n_classes, &bits[0], NULL, n_hidden,
                largest, &changes_[thread, 0],
            )
            for r in range(n):
                total = leaves.softplus_sum(
                    block + r * PANEL_BYTES, most * PANEL_BYTES, n_panels
                )
                for y in range(n_classes):
                    scores_[b * most + r, y] = (
                        total + intercepts_[y] + changes_[thread, r * n_classes + y]
                    )
    return scores
