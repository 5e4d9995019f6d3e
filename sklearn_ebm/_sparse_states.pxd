# Rows of states that are mostly zero (see _sparse_states.pyx).
from libc.stdint cimport int32_t, uint32_t

from ._simd cimport Leaves


cdef class SparseStates:
    cdef Py_ssize_t n_columns, most, stride
    cdef int itemsize
    cdef const Leaves *leaves
    cdef uint32_t *index
    cdef char *value
    cdef int32_t *length
    cdef list memory

    cdef Py_ssize_t room(self, Py_ssize_t n_rows, Py_ssize_t n_columns)
    cdef bint list_row(self, Py_ssize_t r, const char *row) noexcept nogil
    cdef bint has(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void multiply(
        self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t n, const char *b,
        Py_ssize_t b_stride, char *c, Py_ssize_t c_stride,
    ) noexcept nogil
    cdef void multiply_turned(
        self, Py_ssize_t n_rows, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n,
        const char *b, Py_ssize_t b_stride, char *c, Py_ssize_t c_stride, char *room,
    ) noexcept nogil
    cdef void add(
        self, Py_ssize_t r, Py_ssize_t start, Py_ssize_t stop, double part, double *sums
    ) noexcept nogil
