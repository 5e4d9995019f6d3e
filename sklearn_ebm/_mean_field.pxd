# Mean-field means of the latent units of a folded machine (see _mean_field.pyx).
from ._simd cimport Leaves
from ._units cimport Units

cdef enum:
    # Rows that are worked on together.
    ROWS = 64


cdef class MeanField:
    cdef readonly Py_ssize_t n_given, n_latent, n_odd
    # Most steps, and the change of a mean below which a row has settled.
    cdef public Py_ssize_t n_steps
    cdef public double tolerance
    cdef int itemsize
    cdef const Leaves *leaves
    cdef Units latent, odd
    # Bytes of a row of latent and of odd units, in whole panels.
    cdef readonly Py_ssize_t latent_bytes, odd_bytes
    # Rows of weights by even unit, odd_bytes apart; biases in their type.
    cdef const char *weights
    cdef const char *odd_bias
    cdef const char *latent_bias
    cdef dict memory

    cdef Py_ssize_t room(self) noexcept nogil
    cdef void point(
        self, const char *weights, const char *odd_bias, const char *latent_bias
    ) noexcept nogil
    cdef void settle_block(
        self, const char *seen, Py_ssize_t seen_bytes, char *latent,
        Py_ssize_t latent_bytes, char *odd, Py_ssize_t odd_bytes, Py_ssize_t n,
        char *room,
    ) noexcept nogil
