# Products of matrices, the same bits on any number of threads, and of dense and sparse.
#
# Our threads share blocks of the product. A leaf computes them (_leaves_products.h) or,
# where the processor has no instructions that make one worth while, BLAS: on one
# thread, because its products on two differ in the last bits, which would move samples.
import threading

import numpy as np
import scipy.sparse as sp

from cython.parallel cimport parallel, prange
from scipy.linalg.cython_blas cimport dgemm, sgemm
from threadpoolctl import ThreadpoolController  # comes with scikit-learn

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._rows cimport RowBlock, Rows
from ._simd cimport ActiveRows, Leaves, select_leaves

from ._openmp import effective_n_threads


cdef enum:
    # Largest shape of a block: large enough for BLAS to work at its full speed.
    ROWS = 256
    COLUMNS = 256
    # Blocks are as even as they can be in multiples of this.
    GRAIN = 16
    # Bytes of a row of a tile of any leaf; and how many tiles a thread must have beside
    # each other for threads to share columns about evenly.
    TILE = 192
    MANY_TILES = 4
    # Multiplications that are worth a second thread (some ten microseconds), and those
    # that are where nobody times it: on a busy machine it comes ten milliseconds late.
    LEAST_WORK = 1000000
    LEAST_UNTIMED_WORK = 20000000

# Rows of which a smaller share is not zero are multiplied by lists. (From 784 columns
# and 50 units to 20000 and 200 these take less time than a dense copy and its product,
# and up to twice that share mostly.)
cdef double FEW = 0.05

ctypedef fused real:
    float
    double


cdef void multiply(
    int itemsize, bint a_turned, bint b_turned, int m, int n, int k, double alpha,
    const void *a, int a_stride, const void *b, int b_stride, double beta, void *c,
    int c_stride,
) noexcept nogil:
    """c (m, n) = alpha a b + beta c, with a (m, k) and b (k, n) as they are or turned.

    Rows are `stride` elements apart. Where there is no leaf for it, BLAS is better; it
    wants columns, and is given c.T = b.T a.T.
    """
    cdef const Leaves *leaves = select_leaves(itemsize)
    if leaves.multiply != NULL:
        leaves.multiply(
            a_turned, b_turned, m, n, k, alpha, a, a_stride, b, b_stride, beta, c,
            c_stride,
        )
        return
    cdef char ta = c"T" if a_turned else c"N"
    cdef char tb = c"T" if b_turned else c"N"
    cdef float alpha32 = <float> alpha, beta32 = <float> beta
    if m == 0 or n == 0:
        return
    if itemsize == 4:
        sgemm(
            &tb, &ta, &n, &m, &k, &alpha32, <float *> b, &b_stride, <float *> a,
            &a_stride, &beta32, <float *> c, &c_stride,
        )
    else:
        dgemm(
            &tb, &ta, &n, &m, &k, &alpha, <double *> b, &b_stride, <double *> a,
            &a_stride, &beta, <double *> c, &c_stride,
        )


cdef void multiply_shared(
    int thread, int team, int itemsize, bint b_turned, int m, int n, int k,
    double alpha, const char *a, int a_stride, const char *b, int b_stride, char *c,
    int c_stride,
) noexcept nogil:
    """c = alpha a b like `multiply`: the part of it that is this thread's of a team.

    Leaves give the same bits whatever the parts: rows of c, or columns if these are
    many, as then no two threads pack the same of b. Those of BLAS are the same blocks
    of columns for any team.
    """
    cdef int width = TILE // itemsize, first = 0, last = m, n_parts, part, start
    if select_leaves(itemsize).multiply == NULL:
        width = COLUMNS
    elif n < MANY_TILES * width * team:
        first, last = bound(m, thread, team), bound(m, thread + 1, team)
        width, thread, team = n, 0, 1
    n_parts = (n + width - 1) // width
    for part in range(
        bound(n_parts, thread, team), bound(n_parts, thread + 1, team)
    ):
        start = part * width
        multiply(
            itemsize, False, b_turned, last - first, min(width, n - start), k, alpha,
            a + <Py_ssize_t> first * a_stride * itemsize, a_stride,
            b + <Py_ssize_t> start * (b_stride if b_turned else 1) * itemsize,
            b_stride, 0.0,
            c + (<Py_ssize_t> first * c_stride + start) * itemsize, c_stride,
        )


cdef int even_share(int n, int most) noexcept nogil:
    """Size of the blocks of n rows or columns, of which none is larger than `most`."""
    cdef int share = (n - 1) // ((n + most - 1) // most) + 1
    return (share + GRAIN - 1) // GRAIN * GRAIN


def product(
    const real[:, ::1] a, const real[:, ::1] b, *, bint a_turned=False,
    bint b_turned=False, out=None, double beta=0.0, int n_threads=0,
):
    """a b + beta out, in blocks; either factor as it is or turned.

    The sum replaces `out`, or is a new matrix. n_threads is what
    `effective_n_threads` has said, for who calls often; 0 asks it.
    """
    cdef int m, n, k, k_of_b
    m, k = <int> a.shape[0], <int> a.shape[1]
    if a_turned:
        m, k = k, m
    k_of_b, n = <int> b.shape[0], <int> b.shape[1]
    if b_turned:
        k_of_b, n = n, k_of_b
    if k_of_b != k:
        raise ValueError(f"cannot multiply (., {k}) with ({k_of_b}, .)")
    if out is None:
        out, beta = np.zeros((m, n), np.float32 if real is float else np.float64), 0
    cdef real[:, ::1] c = out
    if c.shape[0] != m or c.shape[1] != n:
        raise ValueError(f"a product of shape ({m}, {n}) does not go into {out.shape}")
    if m == 0 or n == 0:
        return out
    if k == 0:
        out *= beta
        return out
    cdef int tall = even_share(m, ROWS), wide = even_share(n, COLUMNS)
    cdef int n_across = (n + wide - 1) // wide
    cdef int n_blocks = (m + tall - 1) // tall * n_across
    cdef double work = <double> m * n * k
    if n_threads == 0:
        n_threads = effective_n_threads(work, LEAST_UNTIMED_WORK)
    elif work < LEAST_WORK:
        n_threads = 1
    cdef int block, i, j
    with single_threaded_products:
        for block in prange(
            n_blocks, nogil=True, num_threads=n_threads, schedule="static"
        ):
            i = block // n_across * tall
            j = block % n_across * wide
            multiply(
                sizeof(real), a_turned, b_turned, min(tall, m - i),
                min(wide, n - j), k, 1.0,
                &a[0, i] if a_turned else &a[i, 0], <int> a.shape[1],
                &b[j, 0] if b_turned else &b[0, j], <int> b.shape[1],
                beta, &c[i, j], n,
            )
    return out


def goes_by_lists(X):
    """Whether X is sparse, and so much so that `sparse_product` needs less time.

    Not where BLAS makes products of dense rows: its bits are others.
    """
    return (
        sp.issparse(X) and select_leaves(4).multiply_list != NULL
        and X.nnz < FEW * X.shape[0] * X.shape[1]
    )


def sparse_product(X, const real[:, ::1] b, *, out=None):
    """X b for a CSR matrix X, the bits that `product` gives for a dense one."""
    cdef const Leaves *leaves = select_leaves(sizeof(real))
    dtype = np.float32 if real is float else np.float64
    cdef Rows rows = Rows(X, dtype, False)  # refuses entries outside X
    if leaves.multiply_list == NULL:
        return product(X.toarray().astype(dtype), b, out=out)
    cdef Py_ssize_t m = rows.n_rows, n = b.shape[1], row
    if rows.n_columns != b.shape[0]:
        raise ValueError(f"cannot multiply (., {X.shape[1]}) with ({b.shape[0]}, .)")
    if out is None:
        out = np.empty((m, n), dtype)
    cdef real[:, ::1] c = out
    if c.shape[0] != m or c.shape[1] != n:
        raise ValueError(f"a product of shape ({m}, {n}) does not go into {out.shape}")
    if m == 0 or n == 0 or b.shape[0] == 0:
        out[...] = 0
        return out
    cdef int n_threads = effective_n_threads(<double> X.nnz * n, LEAST_UNTIMED_WORK)
    cdef int thread, team
    cdef RowBlock room = RowBlock(rows, n_threads, n_threads)
    cdef ActiveRows active
    with nogil, parallel(num_threads=n_threads):
        thread = omp_get_thread_num()
        team = omp_get_num_threads()
        active = room.at(thread)
        for row in range(bound(m, thread, team), bound(m, thread + 1, team)):
            room.read(rows, thread, row, thread)
            leaves.multiply_list(
                active.index, active.value, active.length[0], n, &b[0, 0], n, &c[row, 0]
            )
    return out


class _SingleThreaded:
    """Context in which BLAS works on one thread, from whatever thread of Python.

    With `for_products` it does nothing where products of the house do without BLAS.
    """

    def __init__(self, for_products=False):
        self.for_products = for_products
        self.lock, self.depth = threading.Lock(), 0
        self.controller = None

    def _idle(self):
        return self.for_products and select_leaves(4).multiply != NULL

    def __enter__(self):
        if self._idle():
            return
        with self.lock:
            if self.depth == 0:
                if self.controller is None:
                    self.controller = ThreadpoolController()
                self.limit = self.controller.limit(limits=1, user_api="blas")
            self.depth += 1

    def __exit__(self, *_):
        if self._idle():
            return
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.limit.restore_original_limits()


# Around products of our own, and around sums that NumPy or SciPy leave to BLAS.
single_threaded_products = _SingleThreaded(for_products=True)
single_threaded_blas = _SingleThreaded()
