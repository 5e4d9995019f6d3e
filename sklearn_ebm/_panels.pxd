# A matrix packed in panels of 64 bytes of columns (see _simd.h).
from libc.stdint cimport uint32_t

from ._simd cimport Leaves


cdef class Panels:
    cdef readonly Py_ssize_t n_rows, n_columns
    cdef readonly object dtype
    cdef object memory
    cdef const Leaves *leaves
    cdef Py_ssize_t n_panels, padded_rows, stride
    cdef char *data
    # The row of a panel at which sums of pairs of its rows begin; 0 without.
    cdef uint32_t first_pair

    cdef Py_ssize_t whole_squares(self, Py_ssize_t panel) noexcept nogil
    cdef void sum_pairs(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil


cdef class Slabs:
    cdef readonly Py_ssize_t n_rows, n_columns, n_slabs
    # Panels of the matrix, and of a slab but the last one.
    cdef Py_ssize_t n_panels, widest
    cdef object memory
    cdef const Leaves *leaves
    cdef char *data

    cdef Py_ssize_t width(self, Py_ssize_t slab) noexcept nogil
    cdef char *row(self, Py_ssize_t slab, Py_ssize_t i) noexcept nogil
    cdef void take_rows(
        self, const char *rows, Py_ssize_t n_bytes, Py_ssize_t start, Py_ssize_t stop
    ) noexcept nogil
    cdef void take_columns(
        self, const char *columns, Py_ssize_t n_bytes, Py_ssize_t start, Py_ssize_t stop
    ) noexcept nogil


cdef object aligned(Py_ssize_t n_bytes)
cdef char *address(object memory) except NULL
