# Declarations of the block-Gibbs kernels that other kernels build on.
from ._panels cimport Panels
from ._simd cimport ActiveRows, Leaves


# What a draw is for; part of the random counter (see _simd.h).
cpdef enum Purpose:
    DRAW_HIDDEN = 0
    DRAW_VISIBLE = 1
    DRAW_DATA = 2
    DRAW_START = 3
    NO_DRAW = 127


cdef class Layer:
    cdef Panels weights
    cdef object bias_memory
    cdef char *bias
    cdef const Leaves *leaves

    cdef void fields(
        self, const ActiveRows *rows, Py_ssize_t n_rows, Py_ssize_t start,
        Py_ssize_t stop, char *out, Py_ssize_t stride,
    ) noexcept nogil
