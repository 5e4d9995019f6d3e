# Products of matrices (see _products.pyx).

# Share of what is not zero up to which lists are faster.
cdef double FEW


cdef void multiply(
    int itemsize, bint a_turned, bint b_turned, int m, int n, int k, double alpha,
    const void *a, int a_stride, const void *b, int b_stride, double beta, void *c,
    int c_stride,
) noexcept nogil

cdef void multiply_shared(
    int thread, int team, int itemsize, bint b_turned, int m, int n, int k,
    double alpha, const char *a, int a_stride, const char *b, int b_stride, char *c,
    int c_stride,
) noexcept nogil
