# What units of a layer are, and the one set of formulas for them (see _units.pyx).
from libc.stdint cimport uint32_t, uint64_t

from ._simd cimport Leaves


cpdef enum Kind:
    BERNOULLI = 0
    SPIN = 1
    CATEGORICAL = 2
    GAUSSIAN = 3
    RELU = 4
    POISSON = 5


cdef struct Group:
    # Columns start..stop hold units of a kind; categorical ones in blocks of `size`.
    Kind kind
    Py_ssize_t start
    Py_ssize_t stop
    Py_ssize_t size


cdef struct Noise:
    # Counter of the random numbers of a row (see _simd.h).
    uint64_t key
    uint64_t step
    uint32_t row
    uint32_t purpose


cdef class Units:
    cdef readonly Py_ssize_t n_units
    cdef int n_groups
    cdef Group *groups
    cdef bint draws_uniforms, draws_normals
    # Of every column; those of no Gaussian unit mean nothing.
    cdef double *mean
    cdef double *variance
    cdef double *deviation
    cdef dict memory

    cdef double *_column(self, str name) except NULL
    cdef Py_ssize_t n_panels(self, const Leaves *leaves) noexcept nogil
    cdef Py_ssize_t room(self, const Leaves *leaves) noexcept nogil
    cdef double log_volume(self) noexcept nogil


# For one row of fields, aligned and padded to whole panels; `room` has room for
# Units.room bytes.
cdef void row_means(
    Units units, const Leaves *leaves, char *row, char *room
) noexcept nogil
cdef void row_draws(
    Units units, const Leaves *leaves, char *row, const Noise *noise, char *room
) noexcept nogil

# Less the `log_volume` of the units, which is the same for all rows.
cdef double row_log_partition(
    Units units, const Leaves *leaves, const char *row
) noexcept nogil
