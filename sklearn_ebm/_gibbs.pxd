# Declarations of the block-Gibbs kernels that other kernels build on.
from libc.stdint cimport uint16_t, uint32_t, uint64_t

from ._panels cimport Panels
from ._simd cimport ActiveRows, Leaves, RowSums


cdef enum:
    # Rows that are worked on together. Also the largest piece of a minibatch: the
    # tables of its update (4 panels x 2 phases x 512 rows of 64 bytes) still fit
    # a cache.
    BLOCK = 128
    # From this many rows on, sums of pairs of neighbouring visible units, which are
    # often on together, pay for themselves (in images: 5 % less time for a minibatch
    # of 100).
    LEAST_PAIR_ROWS = 48
    # Sums of fewer panel rows than this (about 40 microseconds) are not worth a
    # second thread.
    LEAST_WORK = 100000
    # Nor are sweeps of fewer, in which threads wait for each other four times.
    LEAST_SWEEP = 30000


# What a draw is for; part of the random counter (see _simd.h).
cpdef enum Purpose:
    DRAW_HIDDEN = 0
    DRAW_VISIBLE = 1
    DRAW_DATA = 2
    DRAW_SWAP = 3
    DRAW_JUMP = 4
    DRAW_CHOICE = 5
    # Numbers that others have, too: nothing draws for both with the same key.
    DRAW_START = 3
    DRAW_LABEL = 4
    DRAW_ROW_LABEL = 5
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
    cdef void fields_of(
        self, const RowSums *sets, int n_sets, Py_ssize_t start, Py_ssize_t stop,
        const char *panels,
    ) noexcept nogil


cdef class Bits:
    cdef Py_ssize_t n_rows, n_words
    cdef uint64_t *words
    cdef ActiveRows active
    # Of the panels that the lists are for.
    cdef uint32_t first_pair
    cdef const Leaves *leaves
    cdef list memory

    cdef void list_row(self, Py_ssize_t r) noexcept nogil
    cdef void clamp_row(self, Bits mask, Bits values, Py_ssize_t r) noexcept nogil
    cdef ActiveRows at(self, Py_ssize_t r) noexcept nogil


cdef struct Draw:
    # The random bits of a sweep: key, counter, and room for 16-bit draws.
    uint64_t key
    uint64_t step
    uint32_t row0
    Purpose purpose
    uint16_t *room


cdef struct Sweep:
    # Rows that go through a layer: what is on in the layer before, where the means go
    # (or, without `keep_fields`, room for those of GROUP panels), and the first of the
    # rows of bits that are drawn (unless draw.purpose is NO_DRAW). If base is not NULL,
    # row r is drawn at the inverse temperature betas[r] of the path that begins at
    # these biases.
    Py_ssize_t n
    ActiveRows given
    const char *base
    const double *betas
    char *fields
    bint keep_fields
    Draw draw
    char *bits
    Py_ssize_t bits_stride


cdef void sample_panels(
    Layer layer, const Sweep *sweeps, int n_sweeps, Py_ssize_t start,
    Py_ssize_t stop, char *room,
) noexcept nogil

cdef Sweep bits_sweep(
    Bits given, Py_ssize_t first_given, Bits out, Py_ssize_t first_out,
    Py_ssize_t n, char *fields, Draw draw,
) noexcept nogil
