# A pass over the data of independent component analysis (ICA).
#
# At an unmixing matrix W every row z has sources y = W z. Of their energies E_i, the
# pass sums over rows
#
#   energies    E_i(y_i), less the constants that normalise
#   products    E_i'(y_i) y_j
#   curvatures  E_i''(y_i) y_j^2
#
# `add_own_moments` does so for i = j alone, and for sources that are given.
#
# A block of rows goes through all of this while it is in the cache. Strands take
# blocks in turn, each into sums of its own, to be added in order: neither the number
# of threads nor where the work is cut changes a bit of them.
from cython.parallel cimport prange
from libc.stdint cimport int32_t
from libc.string cimport memset

from ._openmp cimport omp_get_thread_num
from ._panels cimport address, aligned
from ._products cimport multiply
from ._simd cimport (
    HYPERBOLIC_SOURCE, STUDENT_SOURCE, TANH_SOURCE, Leaves, select_leaves,
)

from ._products import single_threaded_products

cdef enum:
    # Bytes of a block of sources; derivatives and squares take three times as many.
    BLOCK_BYTES = 98304
    # Rows that are enough for a sum over them to cost more than where it is added.
    LEAST_ROWS = 192

    # Most strands, and threads that can work.
    N_STRANDS = 16

# Kinds of densities (see _leaves_sources.h).
TANH, HYPERBOLIC, STUDENT = TANH_SOURCE, HYPERBOLIC_SOURCE, STUDENT_SOURCE

ctypedef fused real:
    float
    double


def lanes_of(dtype):
    """Columns of a panel: all of them have densities of one kind."""
    return select_leaves(dtype.itemsize).lanes


cdef Py_ssize_t rows_of_block(Py_ssize_t row_bytes) noexcept nogil:
    return max(LEAST_ROWS, BLOCK_BYTES // row_bytes)


def rounds(Py_ssize_t n_rows, Py_ssize_t row_bytes):
    """How many strands there are, and rounds in which each of them takes a block."""
    cdef Py_ssize_t n = rows_of_block(row_bytes)
    n_blocks = (n_rows + n - 1) // n
    n_strands = min(n_blocks, N_STRANDS)
    return n_strands, -(-n_blocks // n_strands)


def add_moments(
    const real[:, ::1] Z, const real[:, ::1] weights, const int32_t[::1] kinds,
    const real[:, ::1] shapes, double[:, ::1] energies, double[:, :, ::1] products,
    double[:, :, ::1] curvatures, Py_ssize_t start, Py_ssize_t stop, int n_threads,
):
    """Add what some rows have to the sums of every strand.

    Parameters
    ----------
    Z, weights : memoryviews
        IN: rows, (n_rows, k), and the unmixing matrix turned, (k, width), where
        `width` is a number of whole panels, and zero in columns of no source.

    kinds, shapes : memoryviews
        IN: kind of the densities of each panel; what it takes, (5, width).

    energies, products, curvatures : memoryviews
        IN/OUT: (n_strands, width) and twice (n_strands, width, width).

    start, stop : int
        Which rounds of blocks.

    n_threads : int
        How many threads work.
    """
    cdef const Leaves *leaves = select_leaves(sizeof(real))
    cdef Py_ssize_t width = weights.shape[1], n_strands = energies.shape[0], strand
    if weights.shape[0] != Z.shape[1] or width != kinds.shape[0] * leaves.lanes or (
        shapes.shape[0] != 5 or shapes.shape[1] != width
        or energies.shape[1] != width or products.shape[0] != n_strands
        or products.shape[1] != width or products.shape[2] != width
        or curvatures.shape[0] != n_strands or curvatures.shape[1] != width
        or curvatures.shape[2] != width
    ):
        raise ValueError("rows, weights, densities and sums do not fit")
    cdef Py_ssize_t n = rows_of_block(width * sizeof(real))
    # A thread's sources, scores, slopes and squares, and a product.
    cdef Py_ssize_t room_size = (4 * n + width) * width * sizeof(real)
    memory = aligned(n_threads * room_size)
    cdef char *room = address(memory)
    with single_threaded_products:
        for strand in prange(
            n_strands, nogil=True, num_threads=n_threads, schedule="dynamic"
        ):
            run_strand[real](
                leaves, Z, weights, kinds, shapes, &energies[strand, 0],
                &products[strand, 0, 0], &curvatures[strand, 0, 0],
                start * n_strands + strand, stop * n_strands, n_strands,
                <real *> (room + omp_get_thread_num() * room_size),
            )


def add_own_moments(
    const real[:, ::1] Y, const real[::1] scale, const Py_ssize_t[::1] places,
    const int32_t[::1] kinds, const real[:, ::1] shapes, double[:, ::1] sums,
):
    """Add, of every source by itself, what all rows have to its sums.

    Parameters
    ----------
    Y, scale : memoryviews
        IN: sources as rows, (n_rows, k), and what they are multiplied by.

    places : memoryview
        IN: the column of each source in the panels, (k,).

    kinds, shapes : memoryviews
        IN: as in `add_moments`.

    sums : memoryview
        IN/OUT: energies, E'(y) y and E''(y) y^2, (3, width).
    """
    cdef const Leaves *leaves = select_leaves(sizeof(real))
    cdef Py_ssize_t k = Y.shape[1], width = shapes.shape[1], lanes = leaves.lanes
    cdef Py_ssize_t first = 0, n, r, p, c
    if (
        scale.shape[0] != k or places.shape[0] != k or shapes.shape[0] != 5
        or width != kinds.shape[0] * lanes
        or sums.shape[0] != 3 or sums.shape[1] != width
    ):
        raise ValueError("sources, densities and sums do not fit")
    cdef Py_ssize_t most = rows_of_block(width * sizeof(real))
    memory = aligned(4 * most * width * sizeof(real))
    cdef real *y = <real *> address(memory)
    cdef real *score = y + most * width
    cdef real *slope = score + most * width
    cdef real *square = slope + most * width
    with nogil:
        memset(y, 0, most * width * sizeof(real))
        while first < Y.shape[0]:
            n = min(most, Y.shape[0] - first)
            for r in range(n):
                for c in range(k):
                    y[r * width + places[c]] = scale[c] * Y[first + r, c]
            for p in range(kinds.shape[0]):
                c = p * lanes
                leaves.sources(
                    kinds[p], <const char *> &shapes[0, c], width,
                    <const char *> (y + c), n, width * sizeof(real),
                    <char *> (score + c), <char *> (slope + c), <char *> (square + c),
                    &sums[0, c],
                )
            for r in range(n):
                p = r * width
                for c in range(width):
                    sums[1, c] += score[p + c] * y[p + c]
                    sums[2, c] += slope[p + c] * square[p + c]
            first = first + n


cdef void run_strand(
    const Leaves *leaves, const real[:, ::1] Z, const real[:, ::1] weights,
    const int32_t[::1] kinds, const real[:, ::1] shapes, double *energies,
    double *products, double *curvatures, Py_ssize_t start, Py_ssize_t stop,
    Py_ssize_t n_strands, real *y,
) noexcept nogil:
    """Every n_strands-th of the blocks start..stop."""
    cdef Py_ssize_t width = weights.shape[1], most = rows_of_block(width * sizeof(real))
    cdef Py_ssize_t first, n, p, lanes = leaves.lanes, block = start
    cdef int k = <int> weights.shape[0], w = <int> width
    cdef real *score = y + most * width
    cdef real *slope = score + most * width
    cdef real *square = slope + most * width
    cdef real *room = square + most * width
    while block < stop and block * most < Z.shape[0]:
        first = block * most
        n = min(most, Z.shape[0] - first)
        multiply(
            sizeof(real), False, False, <int> n, w, k, 1.0, &Z[first, 0], k,
            &weights[0, 0], w, 0.0, y, w,
        )
        for p in range(kinds.shape[0]):
            leaves.sources(
                kinds[p], <const char *> &shapes[0, p * lanes], width,
                <const char *> (y + p * lanes), n, width * sizeof(real),
                <char *> (score + p * lanes), <char *> (slope + p * lanes),
                <char *> (square + p * lanes), energies + p * lanes,
            )
        add_product[real](score, y, <int> n, w, room, products)
        add_product[real](slope, square, <int> n, w, room, curvatures)
        block = block + n_strands


cdef void add_product(
    const real *a, const real *b, int n_rows, int width, real *room, double *out
) noexcept nogil:
    """out += a.T b"""
    cdef Py_ssize_t i
    if real is double:
        multiply(
            8, True, False, width, width, n_rows, 1.0, a, width, b, width, 1.0, out,
            width,
        )
    else:
        multiply(
            4, True, False, width, width, n_rows, 1.0, a, width, b, width, 0.0, room,
            width,
        )
        for i in range(width * width):
            out[i] += room[i]
