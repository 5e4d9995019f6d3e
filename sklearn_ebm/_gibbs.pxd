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
    cdef readonly Py_ssize_t n_inputs, n_units
    cdef Py_ssize_t n_panels
    cdef bint turned
    cdef object bias_memory
    cdef char *bias
    cdef const Leaves *leaves

    cdef Py_ssize_t room(self, Py_ssize_t n_panels) noexcept nogil
    cdef const char *panels(
        self, Py_ssize_t start, Py_ssize_t stop, char *room
    ) noexcept nogil
    cdef Py_ssize_t stride(self) noexcept nogil
    cdef void fields(
        self, const ActiveRows *rows, Py_ssize_t n_rows, Py_ssize_t start,
        Py_ssize_t stop, const char *panels, char *out, Py_ssize_t stride,
    ) noexcept nogil
