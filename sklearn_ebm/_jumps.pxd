# Jumps of persistent chains between the modes of a machine (see _jumps.pyx).
from libc.stdint cimport uint64_t

from ._simd cimport Leaves
from ._units cimport Units

cdef enum:
    # Rows of data whose hidden units jumps are to.
    POOL = 128


cdef class Jumps:
    cdef Units visible, hidden
    cdef Py_ssize_t n_chains, v_bytes, h_bytes
    cdef int itemsize
    cdef const Leaves *leaves
    cdef dict memory
    # Fields of hidden units given the last rows, in a ring; their log partitions, and
    # how many of these are not known yet.
    cdef char *fields
    cdef double *log_partitions
    cdef double *unknown
    cdef readonly Py_ssize_t n_rows, at
    # By chain: a hidden state proposed, fields of the visible units given it, products
    # of the chain's state and of it with the fields, and whether it was accepted.
    cdef char *proposed
    cdef char *visible_fields
    cdef char *products
    cdef double *accepted
    # Minibatches between two jumps, and the step of the training of the next one.
    cdef readonly uint64_t wait, due

    cdef char *_bytes(self, str name, Py_ssize_t n_bytes) except NULL
    cdef void keep(self, Py_ssize_t r, const char *fields) noexcept nogil
    cdef void end_minibatch(self, Py_ssize_t n) noexcept nogil
    cdef bint is_due(self, uint64_t step) noexcept nogil
    cdef void propose(
        self, uint64_t key, uint64_t step, int thread, int team, char *room
    ) noexcept nogil
    cdef void take_products(
        self, const char *states, int thread, int team
    ) noexcept nogil
    cdef void choose(
        self, char *states, char *fields, const char *precision,
        const char *visible_bias, const char *hidden_bias, uint64_t key, uint64_t step,
        int thread, int team, char *room
    ) noexcept nogil
    cdef double _log_weight(
        self, const char *state, const char *fields, char *products,
        const char *precision, const char *visible_bias, const char *hidden_bias,
        char *room
    ) noexcept nogil
    cdef void end_jump(self, uint64_t step, Py_ssize_t n_steps) noexcept nogil
