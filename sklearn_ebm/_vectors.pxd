# A few vectors of double precision: products, right angles, rotations, probabilities.
from libc.math cimport exp, fabs, log, sqrt
from libc.string cimport memset

ctypedef fused real:
    float
    double

cdef enum:
    # Rotations of every pair of vectors, at most.
    MOST_ROTATIONS = 20


cdef inline double product(const double *x, const real *y, Py_ssize_t n) noexcept nogil:
    """Return the dot product of two vectors."""
    cdef double sums[4]
    cdef Py_ssize_t i, k
    memset(sums, 0, sizeof(sums))
    for k in range(0, n - 3, 4):  # (additions that do not wait for each other)
        for i in range(4):
            sums[i] += x[k + i] * y[k + i]
    for k in range(n - n % 4, n):
        sums[0] += x[k] * y[k]
    return sums[0] + sums[1] + sums[2] + sums[3]


cdef inline double length(const double *x, Py_ssize_t n) noexcept nogil:
    """Return the Euclidean norm of a vector."""
    return sqrt(product(x, x, n))


cdef inline void make_orthogonal(
    double *vectors, Py_ssize_t n_vectors, Py_ssize_t n
) noexcept nogil:
    """Give vectors length 1 and right angles, from the first to the last."""
    cdef Py_ssize_t i, k, m
    cdef double along
    cdef double *x
    cdef double *y
    cdef int _k
    for k in range(n_vectors):
        x = vectors + k * n
        # Twice: of a vector along the others the first time leaves rounding errors.
        for _k in range(2):
            for m in range(k):
                y = vectors + m * n
                along = product(x, y, n)
                for i in range(n):
                    x[i] -= along * y[i]
            along = length(x, n)
            for i in range(n):
                if along > 0:
                    x[i] /= along


cdef inline void turn_plane(
    double *x, double *y, Py_ssize_t n, double cosine, double sine
) noexcept nogil:
    """Rotate two vectors in the plane of both."""
    cdef Py_ssize_t i
    cdef double last
    for i in range(n):
        last = x[i]
        x[i] = cosine * last - sine * y[i]
        y[i] = sine * last + cosine * y[i]


cdef inline void separate(
    double *vectors, Py_ssize_t n, double *others, Py_ssize_t n_others, Py_ssize_t m
) noexcept nogil:
    """Rotate m vectors until they are orthogonal, and m others along with them.

    By Jacobi's rotations of pairs, as for a singular value decomposition.
    """
    cdef Py_ssize_t i, k
    cdef double both, difference, tangent, cosine
    cdef double *x
    cdef double *y
    cdef bint done
    cdef int _k
    for _k in range(MOST_ROTATIONS):
        done = True
        for k in range(m):
            for i in range(k):
                x, y = vectors + i * n, vectors + k * n
                both = product(x, y, n)
                if fabs(both) <= 1e-4 * length(x, n) * length(y, n):
                    continue
                done = False
                difference = product(y, y, n) - product(x, x, n)
                tangent = difference / (2 * both)
                tangent = (1 if tangent >= 0 else -1) / (
                    fabs(tangent) + sqrt(1 + tangent * tangent)
                )
                cosine = 1 / sqrt(1 + tangent * tangent)
                turn_plane(x, y, n, cosine, cosine * tangent)
                x, y = others + i * n_others, others + k * n_others
                turn_plane(x, y, n_others, cosine, cosine * tangent)
        if done:
            break


cdef inline double softmax(double *x, Py_ssize_t n) noexcept nogil:
    """Make x exp(x) / sum exp(x); return the logarithm of the sum."""
    cdef Py_ssize_t k
    cdef double most = x[0], total = 0
    for k in range(1, n):
        most = max(most, x[k])
    for k in range(n):
        x[k] = exp(x[k] - most)
        total += x[k]
    for k in range(n):
        x[k] /= total
    return most + log(total)
