# Rows of data, read as they are (see _rows.pyx).
cimport cython
from libc.stdint cimport int32_t, uint32_t, uint64_t

from ._simd cimport ActiveRows, Leaves


@cython.final
cdef class Rows:
    cdef readonly Py_ssize_t n_rows, n_columns, n_words
    cdef readonly object dtype
    cdef readonly bint binary, finite, scanned, fixed
    cdef readonly double minimum, maximum, density
    cdef public object column_means
    cdef object source
    cdef const Leaves *leaves
    cdef const char *data
    cdef const char *indices
    cdef const char *indptr
    cdef int value_size, index_size
    cdef bint is_double
    cdef Py_ssize_t row_stride, column_stride
    # Of dense data that are all 0 or 1 (see _scan), or NULL.
    cdef object bits_memory
    cdef uint64_t *bits

    cdef int32_t read(
        self, Py_ssize_t row, uint64_t *bits, uint32_t *index, void *value,
        char *scratch,
    ) noexcept nogil
    cdef int32_t _read_sparse(
        self, Py_ssize_t row, uint64_t *bits, uint32_t *index, void *value
    ) noexcept nogil
    cdef void write(self, Py_ssize_t row, char *to) noexcept nogil
    cdef bint is_dense(self, double least)
    cdef void prefetch(self, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t _index(self, const char *x, Py_ssize_t k) noexcept nogil
    cdef double _value(self, const char *x, Py_ssize_t k) noexcept nogil
    cdef void _store(
        self, void *value, Py_ssize_t n, const char *x, Py_ssize_t k
    ) noexcept nogil
    cdef void _scan_block(
        self, Py_ssize_t block, RowBlock room, int thread, double *found, double *sums,
        uint64_t *bits,
    ) noexcept nogil


cdef struct Range:
    # Of values that have been read: the least, the greatest, whether all are finite.
    double minimum
    double maximum
    bint finite


@cython.final
cdef class RowBlock:
    # Room for some rows that have been read: bits, lists and their values, or all
    # values in their places.
    cdef ActiveRows active
    cdef char *dense
    cdef uint64_t *bits
    cdef uint32_t first_pair
    cdef Py_ssize_t n_words
    cdef int itemsize
    cdef const Leaves *leaves
    cdef char *scratch
    cdef Py_ssize_t scratch_size
    cdef list memory

    cdef ActiveRows at(self, Py_ssize_t slot) noexcept nogil
    cdef void read(
        self, Rows rows, Py_ssize_t slot, Py_ssize_t row, int thread
    ) noexcept nogil
    cdef bint note(self, Py_ssize_t slot, Py_ssize_t n, Range *found) noexcept nogil


cdef inline int32_t lower_bound(
    const uint32_t *x, int32_t n, uint32_t least
) noexcept nogil:
    """First place in an ascending list whose entry is not below `least`."""
    cdef int32_t low = 0, middle
    while low < n:
        middle = (low + n) // 2
        if x[middle] < least:
            low = middle + 1
        else:
            n = middle
    return low
