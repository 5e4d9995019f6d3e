# Mean-field means of the latent units of a folded machine (see _mean_field.pyx).
from libc.stdint cimport int32_t

from ._panels cimport Slabs
from ._rows cimport Rows
from ._simd cimport Changes, Leaves
from ._units cimport Units

cdef enum:
    # Rows that are worked on together (no more than MOST_LISTS, see _simd.h).
    ROWS = 128


cdef struct Side:
    Py_ssize_t n_units
    # Of a row of them, in whole panels.
    Py_ssize_t n_bytes
    # By row of data: means as the other side knows them, and fields.
    char *told
    char *fields
    # Of every row the largest change of a mean in the last step.
    double *moved
    # And the change that was enough to be told.
    double *least


cdef struct Block:
    # Rows that are worked on together, and which of them are done.
    Py_ssize_t n_rows
    int32_t *done
    # What has changed, by row.
    Changes changes
    # A row of means, and one of zeros; fields of odd units to begin with; for Units.
    char *row
    char *blank
    char *start
    char *room


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
    # Weights, by even and (of latent units) by odd unit; biases in their type.
    cdef Slabs even_rows, odd_rows
    cdef const char *odd_bias
    cdef const char *latent_bias
    cdef dict memory

    cdef Py_ssize_t room(self) noexcept nogil
    cdef void point(
        self, const char *odd_bias, const char *latent_bias
    ) noexcept nogil
    cdef void take_weights(
        self, const char *weights, Py_ssize_t n_bytes, int thread, int team
    ) noexcept nogil
    cdef char *lay_out(
        self, Block *block, Side *odd, Side *latent, char *room
    ) noexcept nogil
    cdef void settle_block(
        self, const char *seen, Py_ssize_t seen_bytes, char *latent_means,
        Py_ssize_t latent_bytes, char *odd_means, Py_ssize_t odd_bytes, Py_ssize_t n,
        char *room
    ) noexcept nogil
    cdef void _settle_rows(
        self, Rows rows, Py_ssize_t first, Py_ssize_t n, char *latent_means,
        char *odd_means, char *room
    ) noexcept nogil
    cdef void _read_block(
        self, Block *block, Rows rows, Py_ssize_t first
    ) noexcept nogil
    cdef void _list_row(self, Block *block, Py_ssize_t r) noexcept nogil
    cdef void _settle(
        self, Block *block, Side *odd, Side *latent, char *latent_means,
        Py_ssize_t latent_bytes, char *odd_means, Py_ssize_t odd_bytes
    ) noexcept nogil
    cdef void _begin(self, Block *block, Side *odd, Side *latent) noexcept nogil
    cdef void _count_twice(self, Block *block, const Side *odd) noexcept nogil
    cdef void _exchange(
        self, Block *block, const Side *says, const Side *odd, const Side *latent,
        char *latent_means, Py_ssize_t latent_bytes
    ) noexcept nogil
    cdef bint _all_done(
        self, Block *block, const Side *odd, const Side *latent
    ) noexcept nogil
    cdef void tell(
        self, const Side *side, Units units, Block *block, char *out,
        Py_ssize_t out_bytes
    ) noexcept nogil
    cdef void hear(
        self, const Side *side, const Block *block, Slabs weights, Py_ssize_t first
    ) noexcept nogil
