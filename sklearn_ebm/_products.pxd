# Products of matrices (see _products.pyx).


cdef void multiply(
    int itemsize, bint a_turned, bint b_turned, int m, int n, int k, double alpha,
    const void *a, int a_stride, const void *b, int b_stride, double beta, void *c,
    int c_stride,
) noexcept nogil
