# What the trainers share (see _minibatches.pyx).
from libc.stdint cimport int64_t, uint64_t

from ._rows cimport Rows
from ._simd cimport Leaves


cdef struct Place:
    # Which sweep of its pass, and whether the last; of which pass of which minibatch.
    Py_ssize_t number
    bint last
    Py_ssize_t part, batch
    # Of this minibatch: where it begins in the order, how many rows and chains it has.
    Py_ssize_t first, n_rows, n_chains


cdef inline double share_in_average(Py_ssize_t n, Py_ssize_t spacing) noexcept nogil:
    """Weight of the parameters after n minibatches in their running average.

    1 / m for those that are averaged as the m-th, after m * spacing minibatches, so
    that all of these count the same in the end; 0 for the others.
    """
    return <double> spacing / n if n % spacing == 0 else 0.0


cdef class Minibatches:
    cdef readonly Py_ssize_t n_visible, n_hidden, n_chains, batch_size, n_passes
    cdef readonly uint64_t step
    cdef readonly int n_threads
    # Each may change between minibatches.
    cdef public Py_ssize_t n_gibbs_steps
    cdef public double momentum, weight_decay
    cdef readonly bint persistent
    cdef bint unfinished
    cdef Py_ssize_t n_passed, spacing  # minibatches since start_average; see there
    cdef uint64_t key
    cdef object dtype
    cdef const Leaves *leaves
    cdef Rows rows
    cdef const int64_t[::1] order
    cdef const double[::1] rates
    # The bytes behind every pointer of a trainer, by name.
    cdef dict memory

    cdef char *_bytes(self, str name, Py_ssize_t n_bytes) except NULL
    cdef Place _place(self, Py_ssize_t s) noexcept nogil
    cdef void _sweep(self, Place now, int thread, int team) noexcept nogil
