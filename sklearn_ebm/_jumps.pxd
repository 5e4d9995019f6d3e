# Jumps of persistent chains between the modes of a machine (see _jumps.pyx).
from libc.stdint cimport int64_t, uint64_t

from ._simd cimport Leaves
from ._units cimport Units

cdef enum:
    # Rows of data whose hidden units jumps are to: whole tiles of products, whatever
    # the instruction set (see _leaves_products.h).
    POOL = 48
    # Rows whose fields are kept for samples of the fitted machine, in which no mode is
    # to be missing.
    ARCHIVE = 256
    # One in so many of them may give way to another place (see _jumps.pyx).
    SPACING = 8


cdef class Jumps:
    cdef Units hidden
    cdef Py_ssize_t n_chains, h_bytes
    cdef object dtype
    cdef int itemsize
    cdef bint bits  # whether the hidden units are
    cdef bint elsewhere  # whether some rows give way to places where no row is
    # Which visible units are counts; and hidden states that drive one up.
    cdef Py_ssize_t n_counts
    cdef int64_t *counts
    cdef char *driving
    cdef const Leaves *leaves
    cdef dict memory
    # Fields of hidden units given the last rows, in a ring; their log partitions, and
    # which of these are not known yet.
    cdef char *fields
    cdef double *log_partitions
    cdef double *unknown
    cdef readonly Py_ssize_t n_rows, at
    # A longer ring of fields alone, which the training does not use.
    cdef char *archive
    cdef readonly Py_ssize_t n_archived, archive_at
    # Hidden states of the chains, and after them what is proposed to each; products of
    # all of these with the fields; log partitions of the visible units given either;
    # what log w would gain, and whether the proposal was accepted.
    cdef char *states
    cdef char *proposed
    cdef char *products
    cdef double *visible_now
    cdef double *visible_then
    cdef double *gains
    cdef double *accepted
    # Minibatches between two jumps, and the step of the training of the next one.
    cdef readonly uint64_t wait, due
    # As long as some chains are accepted; and, no longer than that, where shares have
    # gone far.
    cdef uint64_t usual_wait, short_wait

    cdef char *_bytes(self, str name, Py_ssize_t n_bytes) except NULL
    cdef void store(self, Py_ssize_t r, const char *fields) noexcept nogil
    cdef void end_minibatch(self, Py_ssize_t n) noexcept nogil
    cdef bint _is_elsewhere(self, Py_ssize_t k) noexcept nogil
    cdef bint _is_driven(self, Py_ssize_t k) noexcept nogil
    cdef void drive_counts(
        self, Py_ssize_t n, const char *weights, const double *visible_bias,
        const char *hidden_bias, double up_scale, double down_scale, uint64_t key,
        uint64_t step,
    ) noexcept nogil
    cdef void _go_between(self, Py_ssize_t k) noexcept nogil
    cdef bint is_due(self, uint64_t step, Py_ssize_t n_steps) noexcept nogil
    cdef void propose(
        self, uint64_t key, uint64_t step, int thread, int team, char *room
    ) noexcept nogil
    cdef double _log_partition(self, const char *fields) noexcept nogil
    cdef void take_products(self, int thread, int team) noexcept nogil
    cdef void choose(
        self, const char *hidden_bias, uint64_t key, uint64_t step, int thread, int team
    ) noexcept nogil
    cdef double _log_weight(
        self, const char *state, double visible, char *products, const char *hidden_bias
    ) noexcept nogil
    cdef void end_jump(self, uint64_t step, Py_ssize_t n_steps) noexcept nogil
