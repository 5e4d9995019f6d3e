# The vector leaves (see _simd.h), compiled once for all kernels.
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
