# Log-densities of rows under a linear factor model, x ~ N(mean, W'W + diag(noise)).
#
# With d = (x - mean) / sqrt(noise) and L L' = I + S S', where S are the loadings over
# sqrt(noise), a row has (the Woodbury identity)
#
#   -1/2 (|d|^2 - |L^-1 S d|^2)
#
# A few rows at a time go through this while the next ones are on their way to the
# cache; a row's result does not depend on the others.
from cython.parallel cimport prange
from libc.string cimport memset

from ._openmp cimport omp_get_thread_num
from ._panels cimport address, aligned
from ._simd cimport FACTOR_ROWS, PANEL_BYTES, Leaves, select_leaves

from ._openmp import effective_n_threads

cdef enum:
    # Most elements of a vector.
    LANES = PANEL_BYTES // 8
    # Rows that a thread takes at once, a multiple of FACTOR_ROWS.
    BLOCK = 16 * FACTOR_ROWS
    # Multiplications that are worth a second thread, which may come some milliseconds
    # late where a library still keeps threads of its own awake.
    LEAST_WORK = 100000000

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
    cdef Py_ssize_t n_rows = X.shape[0], n_features = X.shape[1], block
    cdef Py_ssize_t q = loadings.shape[0]
    if mean.shape[0] != n_features or scale.shape[0] != n_features or (
        loadings.shape[1] != n_features or inverse_root.shape[0] != q
        or inverse_root.shape[1] != q or out.shape[0] != n_rows
    ):
        raise ValueError("rows and model do not fit")
    if n_rows == 0:
        return
    cdef Py_ssize_t n_blocks = (n_rows + BLOCK - 1) // BLOCK
    cdef double work = <double> n_rows * n_features * (q + 1)
    cdef int n_threads = min(n_blocks, effective_n_threads(work, LEAST_WORK))
    cdef const Leaves *leaves = select_leaves(sizeof(double))
    cdef Py_ssize_t wide = (q + LANES - 1) // LANES * LANES
    turned_memory = aligned((n_features + q) * wide * sizeof(double))
    cdef double *turned_loadings = <double *> address(turned_memory)
    cdef double *turned_root = turned_loadings + n_features * wide
    if q > 0:
        leaves.turn_factors(&loadings[0, 0], q, n_features, turned_loadings)
        leaves.turn_factors(&inverse_root[0, 0], q, q, turned_root)
    cdef Py_ssize_t room_size = FACTOR_ROWS * (n_features + 2 * wide)
    room_size = (room_size + LANES - 1) // LANES * LANES
    memory = aligned(n_threads * room_size * sizeof(double))
    cdef double *room = <double *> address(memory)
    for block in prange(
        n_blocks, nogil=True, num_threads=n_threads, schedule="dynamic"
    ):
        score_block[real](
            leaves, X, &mean[0], &scale[0], turned_loadings, turned_root, q, wide,
            block * BLOCK, min(block * BLOCK + BLOCK, n_rows),
            room + omp_get_thread_num() * room_size, &out[0],
        )


cdef void score_block(
    const Leaves *leaves, const real[:, ::1] X, const double *mean,
    const double *scale, const double *loadings, const double *root, Py_ssize_t q,
    Py_ssize_t wide, Py_ssize_t start, Py_ssize_t stop, double *explaining,
    double *out,
) noexcept nogil:
    """Rows start..stop; `explaining` begins the room of a thread."""
    cdef Py_ssize_t n_features = X.shape[1], first = start, r, j, n
    cdef double *deviations = explaining + 2 * FACTOR_ROWS * wide
    cdef double *row
    cdef double[FACTOR_ROWS] squares
    cdef const char *following
    memset(squares, 0, sizeof(squares))
    while first < stop:
        n = min(FACTOR_ROWS, stop - first)
        for r in range(n):
            row = deviations + r * n_features
            if real is double:
                squares[r] = leaves.deviate(
                    &X[first + r, 0], mean, scale, n_features, row
                )
            else:
                for j in range(n_features):
                    row[j] = X[first + r, j]
                squares[r] = leaves.deviate(row, mean, scale, n_features, row)
        if q > 0:
            # (Of rows that are too few the others are computed, and not stored.)
            following = NULL
            if first + 2 * FACTOR_ROWS <= X.shape[0]:
                following = <const char *> &X[first + FACTOR_ROWS, 0]
            leaves.explain(
                deviations, n_features, loadings, root, q, following,
                FACTOR_ROWS * sizeof(real), explaining, squares,
            )
        for r in range(n):
            out[first + r] = -0.5 * squares[r]
        first += FACTOR_ROWS
