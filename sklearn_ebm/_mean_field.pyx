# Mean-field means of the latent units of deep machines.
#
# Folded (see layered.py), a deep machine has two sides: its even layers, the first
# of which is given, and its odd layers. Units of a side are independent given the
# other side, so that each half step below is the best there is for its side, and the
# bound on the log-likelihood never falls:
#
#   odd     means given  given.W + latent.W + c
#   latent  means given  odd.W' + b
#
# A row is done when no mean of its latent units moves by more than a tolerance; what
# follows is worked on with the other rows alone.
import numpy as np

from cython.parallel cimport parallel
from libc.string cimport memcpy, memset

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport address, aligned
from ._products cimport multiply
from ._simd cimport PANEL_BYTES, select_leaves
from ._units cimport Units, row_means

from ._openmp import effective_n_threads
from ._products import single_threaded_products

ctypedef fused real:
    float
    double

cdef enum:
    # Multiplications worth a second thread, which on a busy machine comes late.
    LEAST_WORK = 20000000


cdef class MeanField:
    """Mean-field inference in a folded machine whose first n_given units are given.

    latent, odd : Units; the even units after those given, and the odd units.
    """

    def __init__(
        self, Units latent, Units odd, dtype, Py_ssize_t n_given, *,
        Py_ssize_t n_steps, double tolerance,
    ):
        self.itemsize = np.dtype(dtype).itemsize
        self.leaves = select_leaves(self.itemsize)
        self.latent, self.odd = latent, odd
        self.n_given, self.n_latent = n_given, latent.n_units
        self.n_odd = odd.n_units
        self.latent_bytes = latent.n_panels(self.leaves) * PANEL_BYTES
        self.odd_bytes = odd.n_panels(self.leaves) * PANEL_BYTES
        self.n_steps, self.tolerance = n_steps, tolerance
        self.memory = {}

    def set(self, weights, odd_bias, latent_bias):
        """Take copies of weights (n_even, n_odd) and biases."""
        dtype = np.float32 if self.itemsize == 4 else np.float64
        width = self.odd_bytes // self.itemsize
        for name, n in [
            ("weights", len(weights) * width), ("odd", width), ("latent", self.n_latent)
        ]:
            self.memory[name] = aligned(max(1, n) * self.itemsize)
        view = {name: memory.view(dtype) for name, memory in self.memory.items()}
        view["weights"].reshape(-1, width)[: len(weights), : self.n_odd] = weights
        view["odd"][: self.n_odd] = odd_bias
        view["latent"][: self.n_latent] = latent_bias
        self.point(
            address(self.memory["weights"]), address(self.memory["odd"]),
            address(self.memory["latent"]),
        )
        return self

    cdef void point(
        self, const char *weights, const char *odd_bias, const char *latent_bias
    ) noexcept nogil:
        """Use weights and biases where they are."""
        self.weights, self.odd_bias = weights, odd_bias
        self.latent_bias = latent_bias

    cdef Py_ssize_t room(self) noexcept nogil:
        """Bytes of room that settle_block needs."""
        return (
            2 * ROWS * (self.odd_bytes + self.latent_bytes)
            + max(self.odd.room(self.leaves), self.latent.room(self.leaves))
        )

    cdef void settle_block(
        self, const char *seen, Py_ssize_t seen_bytes, char *latent,
        Py_ssize_t latent_bytes, char *odd, Py_ssize_t odd_bytes, Py_ssize_t n,
        char *room,
    ) noexcept nogil:
        """Means of at most ROWS rows, as one thread finds them.

        seen : what the odd units see of the units that are given.
        latent, odd : where the means go; odd may be NULL.
        """
        if self.itemsize == 4:
            _settle[float](
                self, <const float *> seen, seen_bytes // 4, <float *> latent,
                latent_bytes // 4, <float *> odd, odd_bytes // 4, n, <float *> room,
            )
        else:
            _settle[double](
                self, <const double *> seen, seen_bytes // 8, <double *> latent,
                latent_bytes // 8, <double *> odd, odd_bytes // 8, n, <double *> room,
            )

    def settle(self, const real[:, ::1] seen):
        """Means of latent and of odd units, given rows (n_rows, n_given)."""
        cdef Py_ssize_t n_rows = seen.shape[0]
        if seen.shape[1] != self.n_given or sizeof(real) != self.itemsize:
            raise ValueError("rows do not fit")
        dtype = np.float32 if real is float else np.float64
        latent_means = np.zeros((n_rows, self.n_latent), dtype)
        odd_means = np.zeros((n_rows, self.n_odd), dtype)
        if n_rows == 0:
            return latent_means, odd_means
        cdef char[:, ::1] latent = latent_means.view(np.int8)
        cdef char[:, ::1] odd = odd_means.view(np.int8)
        cdef Py_ssize_t n_blocks = (n_rows + ROWS - 1) // ROWS
        cdef double work = <double> n_rows * self.n_odd * (
            self.n_given + 2 * self.n_steps * self.n_latent
        )
        cdef int n_threads = min(n_blocks, effective_n_threads(work, LEAST_WORK))
        cdef Py_ssize_t size = self.room(), block, first
        memory = aligned(n_threads * size)
        cdef char *scratch = address(memory)
        cdef char *no_latent = NULL
        cdef int thread, team
        with single_threaded_products, nogil, parallel(num_threads=n_threads):
            thread = omp_get_thread_num()
            team = omp_get_num_threads()
            for block in range(
                bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
            ):
                first = block * ROWS
                self.settle_block(
                    <const char *> &seen[first, 0], self.n_given * sizeof(real),
                    &latent[first, 0] if self.n_latent else no_latent,
                    self.n_latent * sizeof(real), &odd[first, 0],
                    self.n_odd * sizeof(real), min(ROWS, n_rows - first),
                    scratch + thread * size,
                )
        return latent_means, odd_means


cdef void _settle(
    MeanField f, const real *seen, Py_ssize_t seen_stride, real *latent_out,
    Py_ssize_t latent_stride, real *odd_out, Py_ssize_t odd_stride, Py_ssize_t n,
    real *base,
) noexcept nogil:
    """settle_block; base: what the odd units get from the given ones, then room."""
    cdef Py_ssize_t width = f.odd_bytes // <Py_ssize_t> sizeof(real)
    cdef Py_ssize_t latent_width = f.latent_bytes // <Py_ssize_t> sizeof(real)
    cdef real *odd = base + ROWS * width
    cdef real *latent = odd + ROWS * width
    cdef real *new = latent + ROWS * latent_width
    cdef real *room = new + ROWS * latent_width
    cdef const real *c = <const real *> f.odd_bias
    cdef Py_ssize_t number[ROWS]
    cdef Py_ssize_t r, j, left = n, _step
    cdef double moved
    memset(base, 0, n * f.odd_bytes)
    if f.n_given:
        multiply(
            sizeof(real), False, False, <int> n, <int> f.n_odd, <int> f.n_given, 1.0,
            seen, <int> seen_stride, f.weights, <int> width, 0.0, base, <int> width,
        )
    # To begin with, the layers above are taken to say what the given ones say.
    for r in range(n):
        number[r] = r
        for j in range(f.n_odd):
            odd[r * width + j] = 2 * base[r * width + j] + c[j]
            base[r * width + j] += c[j]
        row_means(f.odd, f.leaves, <char *> (odd + r * width), <char *> room)
    if f.n_latent:
        _latent_means(f, odd, latent, n, room)
    for _step in range(f.n_steps if f.n_latent else 0):
        _odd_means(f, latent, base, number, odd, left, room)
        _latent_means(f, odd, new, left, room)
        # From the last row: the row that takes the place of one that has settled has
        # been looked at.
        for r in range(left - 1, -1, -1):
            moved = f.leaves.largest_change(
                <char *> (latent + r * latent_width), <char *> (new + r * latent_width),
                f.latent_bytes // PANEL_BYTES,
            )
            if moved > f.tolerance:
                memcpy(latent + r * latent_width, new + r * latent_width,
                       f.latent_bytes)
                continue
            memcpy(latent_out + number[r] * latent_stride, new + r * latent_width,
                   f.n_latent * sizeof(real))
            left -= 1
            if r < left:
                number[r] = number[left]
                memcpy(latent + r * latent_width, latent + left * latent_width,
                       f.latent_bytes)
        if left == 0:
            break
    for r in range(left):
        memcpy(latent_out + number[r] * latent_stride, latent + r * latent_width,
               f.n_latent * sizeof(real))
    if odd_out == NULL:
        return
    for r in range(n):
        number[r] = r
        memcpy(latent + r * latent_width, latent_out + r * latent_stride,
               f.n_latent * sizeof(real))
    _odd_means(f, latent, base, number, odd, n, room)
    for r in range(n):
        memcpy(odd_out + r * odd_stride, odd + r * width, f.n_odd * sizeof(real))


cdef void _odd_means(
    MeanField f, const real *latent, const real *base, const Py_ssize_t *number,
    real *odd, Py_ssize_t n, real *room,
) noexcept nogil:
    """Means of odd units given latent ones; row r sees row number[r] of base."""
    cdef Py_ssize_t width = f.odd_bytes // <Py_ssize_t> sizeof(real), r
    memset(odd, 0, n * f.odd_bytes)
    for r in range(n):
        memcpy(odd + r * width, base + number[r] * width, f.n_odd * sizeof(real))
    if f.n_latent:
        multiply(
            sizeof(real), False, False, <int> n, <int> f.n_odd, <int> f.n_latent, 1.0,
            latent, <int> (f.latent_bytes // <Py_ssize_t> sizeof(real)),
            f.weights + f.n_given * f.odd_bytes, <int> width, 1.0, odd, <int> width,
        )
    for r in range(n):
        row_means(f.odd, f.leaves, <char *> (odd + r * width), <char *> room)


cdef void _latent_means(
    MeanField f, const real *odd, real *latent, Py_ssize_t n, real *room
) noexcept nogil:
    """Means of latent units given odd ones."""
    cdef Py_ssize_t width = f.latent_bytes // <Py_ssize_t> sizeof(real), r
    cdef Py_ssize_t odd_width = f.odd_bytes // <Py_ssize_t> sizeof(real)
    for r in range(n):
        memset(latent + r * width, 0, f.latent_bytes)
        memcpy(latent + r * width, f.latent_bias, f.n_latent * sizeof(real))
    multiply(
        sizeof(real), False, True, <int> n, <int> f.n_latent, <int> f.n_odd, 1.0, odd,
        <int> odd_width, f.weights + f.n_given * f.odd_bytes, <int> odd_width, 1.0,
        latent, <int> width,
    )
    for r in range(n):
        row_means(f.latent, f.leaves, <char *> (latent + r * width), <char *> room)
