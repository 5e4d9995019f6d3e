# A matrix packed in panels of 64 bytes of columns (see _simd.h).
from ._simd cimport Leaves


cdef class Panels:
    cdef readonly Py_ssize_t n_rows, n_columns
    cdef readonly object dtype
    cdef object memory
    cdef const Leaves *leaves
    cdef Py_ssize_t n_panels, padded_rows, stride
    cdef char *data


cdef object aligned(Py_ssize_t n_bytes)
cdef char *address(object memory) except NULL
