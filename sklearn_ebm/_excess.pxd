# Weights between unbounded units that are too large (see _excess.pyx).
from ._simd cimport RowUpdate
from ._units cimport Units
from ._vectors cimport real


cdef class Excess:
    cdef Units hidden
    cdef Py_ssize_t n_visible, n_hidden, h_bytes
    cdef object dtype
    cdef int itemsize
    cdef dict memory
    # How many directions are followed, and may be; and along how many of them weights
    # were too large.
    cdef readonly Py_ssize_t n_directions, most_directions, n_found
    # Visible directions, and hidden vectors: directions turned by the weights.
    cdef double *directions
    cdef double *turned
    # What is to be taken away along each, by hidden unit.
    cdef char *rows
    # 1 for units of which weights between both layers must stay small, else 0.
    cdef double *visible_unbounded
    cdef double *hidden_unbounded

    cdef char *_bytes(self, str name, Py_ssize_t n_bytes) except NULL
    cdef void find(self, const char *weights, const double *variance) noexcept nogil
    cdef void take(
        self, RowUpdate *u, Py_ssize_t i, double variance, const char *offset
    ) noexcept nogil
    cdef void _find(
        self, const char *weights, const double *variance, real kind
    ) noexcept nogil
    cdef void _take(
        self, RowUpdate *u, Py_ssize_t i, double variance, const char *offset, real kind
    ) noexcept nogil
    cdef void _follow(
        self, const char *weights, const double *variance, real kind
    ) noexcept nogil
    cdef double _turn(
        self, const char *weights, const double *variance, real kind
    ) noexcept nogil
    cdef void _turn_back(
        self, const char *weights, const double *variance, real kind
    ) noexcept nogil
