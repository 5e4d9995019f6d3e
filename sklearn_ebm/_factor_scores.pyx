# Log-densities of rows under a linear factor model, x ~ N(mean, W'W + diag(noise)).
#
# With d = (x - mean) / sqrt(noise) and L L' = I + S S', where S are the loadings over
# sqrt(noise), a row has (the Woodbury identity)
#
#   -1/2 (|d|^2 - |L^-1 S d|^2)
#
# A block of rows goes through this while it is in the cache. Where products are our own
# (_products.pyx), a row's result does not depend on the other rows.
from cython.parallel cimport prange

from ._openmp cimport omp_get_thread_num
from ._panels cimport address, aligned
from ._products cimport multiply
from ._simd cimport Leaves, select_leaves

from ._openmp import effective_n_threads
from ._products import single_threaded_products

cdef enum:
    # Numbers in a block of rows, and the rows that fill a tile of a product.
    BLOCK = 65536
    TILE = 24
    # Most rows of a block: few features make small rows.
    MOST_ROWS = 20 * TILE
    # Multiplications that are worth a second thread (some hundred microseconds).
    LEAST_WORK = 10000000

ctypedef fused real:
    float
    double


def exponents(
    const real[:, ::1] X, const double[::1] mean, const double[::1] scale,
    const double[:, ::1] loadings, const double[:, ::1] inverse_root, double[::1] out,
):
    """Log-density of every row, less that of the mean.

    Parameters
    ----------
    X : memoryview
        IN: rows, (n_rows, n_features), float32 or float64.

    mean, scale, loadings, inverse_root : memoryviews
        IN: the mean, 1 / sqrt(noise), S (n_components, n_features) and L^-1.

    out : memoryview
        OUT: (n_rows,).
    """
    cdef Py_ssize_t n_rows = X.shape[0], n_features = X.shape[1], block, n, n_blocks
    cdef Py_ssize_t q = loadings.shape[0]
    if mean.shape[0] != n_features or scale.shape[0] != n_features or (
        loadings.shape[1] != n_features or inverse_root.shape[0] != q
        or inverse_root.shape[1] != q or out.shape[0] != n_rows
    ):
        raise ValueError("rows and model do not fit")
    if n_rows == 0:
        return
    n = min(MOST_ROWS, max(1, BLOCK // n_features // TILE) * TILE, n_rows)
    n_blocks = (n_rows + n - 1) // n
    cdef double work = <double> n_rows * n_features * (q + 1)
    cdef int n_threads = min(n_blocks, effective_n_threads(work, LEAST_WORK))
    cdef Py_ssize_t room_size = n * (n_features + 2 * q)
    memory = aligned(n_threads * room_size * sizeof(double))
    cdef double *room = <double *> address(memory)
    cdef const Leaves *leaves = select_leaves(sizeof(double))
    with single_threaded_products:
        for block in prange(
            n_blocks, nogil=True, num_threads=n_threads, schedule="static"
        ):
            score_block[real](
                leaves, X, &mean[0], &scale[0], &loadings[0, 0] if q else NULL,
                &inverse_root[0, 0] if q else NULL, <int> q, block * n,
                <int> min(n, n_rows - block * n),
                room + omp_get_thread_num() * room_size, &out[block * n],
            )


cdef void score_block(
    const Leaves *leaves, const real[:, ::1] X, const double *mean,
    const double *scale, const double *loadings, const double *inverse_root, int q,
    Py_ssize_t first, int n, double *deviations, double *out,
) noexcept nogil:
    """Rows first..first + n; deviations begin the room of a thread."""
    cdef int n_features = <int> X.shape[1], r, i, j
    cdef double *evidence = deviations + n * n_features
    cdef double *explained = evidence + n * q
    cdef double *row
    for r in range(n):
        row = deviations + r * n_features
        if real is double:
            out[r] = leaves.deviate(&X[first + r, 0], mean, scale, n_features, row)
        else:
            for j in range(n_features):
                row[j] = X[first + r, j]
            out[r] = leaves.deviate(row, mean, scale, n_features, row)
    if q > 0:
        # Rows are the columns of these: they fill whole tiles.
        multiply(
            8, False, True, q, n, n_features, 1.0, loadings, n_features, deviations,
            n_features, 0.0, evidence, n,
        )
        multiply(
            8, False, False, q, n, q, 1.0, inverse_root, q, evidence, n, 0.0,
            explained, n,
        )
    for i in range(q):
        row = explained + i * n
        for r in range(n):
            out[r] = out[r] - row[r] * row[r]
    for r in range(n):
        out[r] = -0.5 * out[r]
