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


cdef object aligned(Py_ssize_t n_bytes)
cdef char *address(object memory) except NULL
