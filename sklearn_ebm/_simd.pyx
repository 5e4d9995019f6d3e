# The vector leaves and the random bits (see _simd.h), compiled once for all kernels.
import numpy as np

from libc.stdint cimport uint32_t, uint64_t


cdef extern from "_leaves_all.h" nogil:
    const Leaves *best_leaves(int itemsize)


cdef const Leaves *select_leaves(int itemsize) noexcept nogil:
    return best_leaves(itemsize)


cdef double *doubles_room(char *memory) noexcept nogil:
    """Where in DOUBLES_BYTES bytes the leaves want MOST_DOUBLES numbers."""
    return <double *> ((<size_t> memory + PANEL_BYTES - 1) // PANEL_BYTES * PANEL_BYTES)


cdef double softplus_of(const Leaves *leaves, double *x, int n) noexcept nogil:
    """Sum of log(1 + exp(x)) over n numbers, by the leaves of double precision.

    x has room for MOST_DOUBLES; those of the last panel are made so low that they
    add nothing.
    """
    cdef Py_ssize_t n_panels = n_panels_of(n, leaves), k
    for k in range(n, n_panels * leaves.lanes):
        x[k] = -1e300
    return leaves.softplus_sum(<const char *> x, PANEL_BYTES, n_panels)


def instruction_set():
    """Name of the instruction set the kernels run on."""
    return (<bytes> select_leaves(4).name).decode()


def philox(counter, key, int rounds=PHILOX_ROUNDS):
    """Four 32-bit words of Philox4x32 for a counter (4 words) and a 64-bit key."""
    cdef uint32_t[::1] x = np.array(counter, dtype=np.uint32)
    philox4x32(&x[0], <uint64_t> key, rounds)
    return np.asarray(x)
