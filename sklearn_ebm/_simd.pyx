# The vector leaves (see _simd.h), compiled once for all kernels.
cdef extern from "_leaves_all.h" nogil:
    const Leaves *best_leaves(int itemsize)


cdef const Leaves *select_leaves(int itemsize) noexcept nogil:
    return best_leaves(itemsize)
