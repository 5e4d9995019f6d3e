# What units of a layer are: given its field x, a unit has p(s | x) ~ exp(s x - U(s)),
# and for every kind there are the logarithm of its normaliser (log_partition), its
# derivative (the mean), its second derivative (the variance), draws, and the energy U.
#
#   kind         states                  U(s)                    log_partition
#   Bernoulli    0, 1                    0                       log(1 + e^x)
#   Spin         -1, 1                   0                       log(2 cosh x)
#   Categorical  one of a block is 1     0                       log sum_k e^x_k
#   Gaussian     real                    (s - m)^2 / 2 v         m x + v x^2 / 2 + ...
#   ReLU         real, not negative      s^2 / 2                 x^2/2 + log P(x) + ...
#   Poisson      0, 1, 2, ...            log s!                  e^x
#
# with "..." for log(2 pi v) / 2 and P for the distribution function of the normal law.
# Rows are worked on one by one; a draw depends on the numbers of its row and column.
import numpy as np

from cython.parallel cimport parallel
from libc.math cimport M_PI, cosh, exp, fabs, floor, lgamma, log, sqrt
from libc.string cimport memcpy
from scipy.special.cython_special cimport ndtri

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport address, aligned
from ._simd cimport (
    DOUBLES_BYTES,
    MOST_DOUBLES,
    PANEL_BYTES,
    Leaves,
    doubles_room,
    n_panels_of,
    select_leaves,
    softplus_of,
)

from ._openmp import effective_n_threads

ctypedef fused real:
    float
    double

# What to find of rows of fields or of states.
cpdef enum Wanted:
    MEANS = 0
    VARIANCES = 1
    DRAWS = 2
    LOG_PARTITIONS = 3
    ENERGIES = 4

cdef enum:
    # Values that are worth a second thread, which on a busy machine comes late.
    LEAST_WORK = 200000

cdef double LOG_2_PI = log(2 * M_PI)
# Fields of Poisson units beyond this (means beyond 10^13) are held there.
cdef double MOST_POISSON = 30.0
MOST_FIELD = MOST_POISSON
# Draws with larger means take so many steps otherwise that training that diverges would
# seem to hang.
cdef double LARGE_POISSON = 1e6

# Kinds whose states can be as large as they like; of the others any two go together.
UNBOUNDED = {Kind.GAUSSIAN, Kind.RELU, Kind.POISSON}


cdef class Units:
    """The units of a layer, by groups of columns.

    groups : list of (kind, n_columns, block size)
    mean, variance : of Gaussian units, one number a column
    """

    def __cinit__(self, groups, mean=None, variance=None):
        cdef Py_ssize_t start = 0, k
        self.n_groups = len(groups)
        self.memory = {"groups": aligned(self.n_groups * sizeof(Group))}
        self.groups = <Group *> address(self.memory["groups"])
        for k, (kind, n, size) in enumerate(groups):
            if size < 1 or n % size:
                raise ValueError(f"{n} columns are no blocks of {size}")
            self.groups[k].kind, self.groups[k].size = kind, size
            self.groups[k].start, self.groups[k].stop = start, start + n
            start += n
            if kind == GAUSSIAN:
                self.draws_normals = True
            elif kind != RELU:
                self.draws_uniforms = True
        self.n_units = start
        self.mean = self._column("mean")
        self.variance = self._column("variance")
        self.deviation = self._column("deviation")
        self.set_gaussian(
            0.0 if mean is None else mean, 1.0 if variance is None else variance
        )

    cdef double *_column(self, str name) except NULL:
        self.memory[name] = aligned(max(1, self.n_units) * 8)
        return <double *> address(self.memory[name])

    def set_gaussian(self, mean, variance):
        """Change the means and variances (of every column) of Gaussian units."""
        self.memory["mean"].view(float)[: self.n_units] = mean
        self.memory["variance"].view(float)[: self.n_units] = variance
        self.memory["deviation"].view(float)[: self.n_units] = np.sqrt(variance)

    def of_kind(self, *kinds):
        """Which units are of one of these kinds, (n_units,) bool."""
        marks = np.zeros(self.n_units, bool)
        for k in range(self.n_groups):
            start, stop = self.groups[k].start, self.groups[k].stop
            marks[start:stop] = self.groups[k].kind in kinds
        return marks

    cdef Py_ssize_t n_panels(self, const Leaves *leaves) noexcept nogil:
        return n_panels_of(self.n_units, leaves)

    cdef Py_ssize_t room(self, const Leaves *leaves) noexcept nogil:
        return 3 * (self.n_panels(leaves) + 2) * PANEL_BYTES

    cdef double log_volume(self) noexcept nogil:
        """Return the sum of log(2 pi v) / 2 over Gaussian units."""
        cdef double total = 0
        cdef int k
        cdef Py_ssize_t i
        for k in range(self.n_groups):
            if self.groups[k].kind == GAUSSIAN:
                for i in range(self.groups[k].start, self.groups[k].stop):
                    total += 0.5 * (LOG_2_PI + log(self.variance[i]))
        return total


# ---- Single units ----


cdef double rectified_variance(double x, double mean) noexcept nogil:
    cdef double t
    if x < -30:  # Far below zero the difference would lose all digits.
        t = 1 / (x * x)
        return t * (1 - t * (6 - t * (50 - t * 518)))
    return 1 - (mean - x) * mean


cdef double large_poisson_draw(double mean, double u) noexcept nogil:
    """The smallest count whose distribution function exceeds u.

    By its expansion in 1 / sqrt(mean), which is next to exact here (M. Giles,
    "Algorithm 955: approximation of the inverse Poisson cumulative distribution
    function", ACM Transactions on Mathematical Software 42, 2016).
    """
    cdef double w = ndtri(min(max(u, 1e-300), 1 - 1e-16)), w2 = w * w
    cdef double root = sqrt(mean)
    return floor(
        mean + root * w + (2 + w2) / 6 - w * (2 + w2) / (72 * root)
        + (w2 * (3 * w2 + 7) - 16) / (810 * mean)
    )


cdef double poisson_draw(double mean, double u) noexcept nogil:
    """Take the probabilities of counts from u, from the likeliest outwards."""
    if mean > LARGE_POISSON:
        return large_poisson_draw(mean, u)
    cdef double mode = <double> <long long> mean
    cdef double up = exp(mode * log(mean) - mean - lgamma(mode + 1))
    cdef double down = up, k = mode, j = mode
    u -= up
    while u >= 0 and (up > 1e-300 or (down > 1e-300 and j > 0)):
        k += 1
        up *= mean / k
        u -= up
        if u < 0:
            return k
        if j > 0:
            down *= j / mean
            j -= 1
            u -= down
            if u < 0:
                return j
    return mode


# ---- Rows ----


cdef double subtract_largest(real *x, Py_ssize_t n, Py_ssize_t size) noexcept nogil:
    """Shift blocks of x so that their largest is 0; returns the sum of these."""
    cdef Py_ssize_t b, k
    cdef real most
    cdef double total = 0
    for b in range(n // size):
        most = x[b * size]
        for k in range(b * size + 1, (b + 1) * size):
            most = max(most, x[k])
        for k in range(b * size, (b + 1) * size):
            x[k] -= most
        total += most
    return total


cdef void normalise(real *x, Py_ssize_t n, Py_ssize_t size) noexcept nogil:
    """Scale blocks of x so that they sum to 1."""
    cdef Py_ssize_t b, k
    cdef real total
    for b in range(n // size):
        total = 0
        for k in range(b * size, (b + 1) * size):
            total += x[k]
        for k in range(b * size, (b + 1) * size):
            x[k] /= total


cdef void group_means(
    Units units, const Group *g, const Leaves *leaves, real *x
) noexcept nogil:
    """Fields -> means for the columns of a group of units, which start at x."""
    cdef Py_ssize_t n = g.stop - g.start, k
    cdef Py_ssize_t n_panels = n_panels_of(n, leaves)
    if g.kind == BERNOULLI:
        leaves.logistic(<char *> x, n_panels)
    elif g.kind == SPIN:
        for k in range(n):
            x[k] = 2 * x[k]
        leaves.logistic(<char *> x, n_panels)
        for k in range(n):
            x[k] = 2 * x[k] - 1
    elif g.kind == CATEGORICAL:
        subtract_largest(x, n, g.size)
        leaves.exponential(<char *> x, n_panels)
        normalise(x, n, g.size)
    elif g.kind == GAUSSIAN:
        for k in range(n):
            x[k] = <real> (
                units.mean[g.start + k] + units.variance[g.start + k] * x[k]
            )
    elif g.kind == RELU:
        leaves.rectified_means(<char *> x, n_panels)
    elif g.kind == POISSON:
        for k in range(n):
            x[k] = min(x[k], <real> MOST_POISSON)
        leaves.exponential(<char *> x, n_panels)


cdef void group_draws(
    Units units, const Group *g, const Leaves *leaves, real *x, const Noise *noise,
    const real *uniforms, const real *normals,
) noexcept nogil:
    """Fields -> states for the columns of a group of units, which start at x.

    uniforms, normals : random numbers for these columns.
    """
    cdef Py_ssize_t n = g.stop - g.start, k, b, chosen
    cdef real left
    if g.kind == BERNOULLI:
        group_means(units, g, leaves, x)
        for k in range(n):
            x[k] = uniforms[k] < x[k]
    elif g.kind == SPIN:
        group_means(units, g, leaves, x)
        for k in range(n):
            x[k] = 1 if 2 * uniforms[k] - 1 < x[k] else -1
    elif g.kind == CATEGORICAL:
        group_means(units, g, leaves, x)
        for b in range(n // g.size):
            # (The first one where no probability is a number: training has diverged.)
            left, chosen = uniforms[b * g.size], b * g.size
            for k in range(b * g.size, (b + 1) * g.size):
                # (The last one that has a probability, if rounding leaves a rest.)
                if x[k] > 0 and left >= 0:
                    chosen = k
                left -= x[k]
                x[k] = 0
            x[chosen] = 1
    elif g.kind == GAUSSIAN:
        for k in range(n):
            x[k] = <real> (
                units.mean[g.start + k] + units.variance[g.start + k] * x[k]
                + units.deviation[g.start + k] * normals[k]
            )
    elif g.kind == RELU:
        # (A group has no more panels than columns.)
        leaves.rectified_draws(
            <char *> x, n_panels_of(n, leaves), noise.key, noise.step, noise.row,
            noise.purpose, g.start, units.n_units,
        )
    elif g.kind == POISSON:
        group_means(units, g, leaves, x)
        leaves.counts(<char *> x, <const char *> uniforms, n_panels_of(n, leaves))
        for k in range(n):
            if x[k] < 0:
                x[k] = <real> poisson_draw(-x[k], uniforms[k])


cdef void _row(
    Units units, const Leaves *leaves, real *row, const Noise *noise, real *room,
) noexcept nogil:
    """Means of a row or, with noise, draws."""
    cdef Py_ssize_t width = units.n_panels(leaves) * leaves.lanes
    cdef real *part = room
    cdef real *uniforms = room + width + 2 * leaves.lanes
    cdef real *normals = uniforms + width + 2 * leaves.lanes
    cdef Group *g
    cdef int k
    if noise != NULL and units.draws_uniforms:
        leaves.uniforms(
            <char *> uniforms, width // leaves.lanes, noise.key, noise.step, noise.row,
            noise.purpose,
        )
    if noise != NULL and units.draws_normals:
        leaves.normals(
            <char *> normals, width // leaves.lanes, noise.key, noise.step, noise.row,
            noise.purpose,
        )
    for k in range(units.n_groups):
        g = &units.groups[k]
        if units.n_groups == 1:
            part = row
        else:  # The leaves want whole panels.
            memcpy(part, row + g.start, (g.stop - g.start) * sizeof(real))
        if noise == NULL:
            group_means(units, g, leaves, part)
        else:
            group_draws(
                units, g, leaves, part, noise, uniforms + g.start, normals + g.start
            )
        if units.n_groups > 1:
            memcpy(row + g.start, part, (g.stop - g.start) * sizeof(real))


cdef void row_means(
    Units units, const Leaves *leaves, char *row, char *room
) noexcept nogil:
    if leaves.itemsize == 4:
        _row[float](units, leaves, <float *> row, NULL, <float *> room)
    else:
        _row[double](units, leaves, <double *> row, NULL, <double *> room)


cdef void row_draws(
    Units units, const Leaves *leaves, char *row, const Noise *noise, char *room
) noexcept nogil:
    if leaves.itemsize == 4:
        _row[float](units, leaves, <float *> row, noise, <float *> room)
    else:
        _row[double](units, leaves, <double *> row, noise, <double *> room)


cdef double _sum_of_exponentials(
    const real *x, Py_ssize_t n, double *most
) noexcept nogil:
    """Sum of exp(x - most), where `most` becomes the largest of n numbers."""
    cdef double total = 0
    cdef Py_ssize_t k
    most[0] = x[0]
    for k in range(1, n):
        most[0] = max(most[0], <double> x[k])
    for k in range(n):
        total += exp(x[k] - most[0])
    return total


cdef double _log_partition(
    Units units, const Leaves *doubles, const real *row
) noexcept nogil:
    """Sum over the units of a row of fields, less their `log_volume`."""
    cdef double total = 0, x
    cdef Group *g
    cdef int k
    cdef Py_ssize_t i
    for k in range(units.n_groups):
        g = &units.groups[k]
        # A spin of field x is a bit of field 2 x, but for exp(-x).
        if g.kind == BERNOULLI:
            total += _softplus_sum(doubles, row, g.start, g.stop, False)
        elif g.kind == SPIN:
            # log(exp(x) + exp(-x)) = |x| + log(1 + exp(-2 |x|))
            total += _softplus_sum(doubles, row, g.start, g.stop, True)
            for i in range(g.start, g.stop):
                total += fabs(<double> row[i])
        elif g.kind == CATEGORICAL:
            total += _categorical_sum(doubles, row, g)
        elif g.kind == GAUSSIAN:
            for i in range(g.start, g.stop):
                x = row[i]
                total += units.mean[i] * x + 0.5 * units.variance[i] * x * x
        else:
            total += _unbounded_sum(doubles, row, g)
    return total


cdef double _categorical_sum(
    const Leaves *doubles, const real *row, const Group *g
) noexcept nogil:
    """Sum of the log partition functions of blocks of categories."""
    cdef char memory[DOUBLES_BYTES]
    cdef double *x = doubles_room(memory)
    cdef double total = 0, product, most
    cdef Py_ssize_t i = g.start, at_once = MOST_DOUBLES // g.size * g.size
    cdef Py_ssize_t n, k
    while i < g.stop:
        if at_once == 0:  # A block by itself, wider than there is room.
            product = _sum_of_exponentials(row + i, g.size, &most)
            total += most + log(product)
            i += g.size
            continue
        n = _take(row, i, min(g.stop, i + at_once), x)
        total += subtract_largest(x, n, g.size)
        doubles.exponential(<char *> x, n_panels_of(n, doubles))
        product = 1  # One logarithm is enough for all of these blocks.
        for k in range(n // g.size):
            product *= _sum(x + k * g.size, g.size)
        total += log(product)
        i += n
    return total


cdef double _sum(const double *x, Py_ssize_t n) noexcept nogil:
    cdef double total = 0
    cdef Py_ssize_t k
    for k in range(n):
        total += x[k]
    return total


cdef int _take(
    const real *row, Py_ssize_t start, Py_ssize_t stop, double *x
) noexcept nogil:
    """Copy numbers of row[start:stop], as many as there is room for in x."""
    cdef int n = <int> min(stop - start, <Py_ssize_t> MOST_DOUBLES), k
    for k in range(n):
        x[k] = row[start + k]
    return n


cdef double _unbounded_sum(
    const Leaves *doubles, const real *row, const Group *g
) noexcept nogil:
    """Sum of the log partition functions of rectified units or of counts."""
    cdef char memory[DOUBLES_BYTES]
    cdef double *x = doubles_room(memory)
    cdef double total = 0
    cdef Py_ssize_t i = g.start
    cdef int n, k
    while i < g.stop:
        n = _take(row, i, g.stop, x)
        if g.kind == RELU:
            doubles.rectified_logs(<char *> x, n_panels_of(n, doubles))
        else:
            for k in range(n):
                x[k] = min(x[k], MOST_POISSON)
            doubles.exponential(<char *> x, n_panels_of(n, doubles))
        total += _sum(x, n)
        i += n
    return total


cdef double _softplus_sum(
    const Leaves *doubles, const real *row, Py_ssize_t start, Py_ssize_t stop,
    bint tail,
) noexcept nogil:
    """Sum of log(1 + exp(x)), or with `tail` that of log(1 + exp(-2 |x|)), over
    row[start:stop], in double precision."""
    cdef char memory[DOUBLES_BYTES]
    cdef double *x = doubles_room(memory)
    cdef double total = 0
    cdef Py_ssize_t i = start
    cdef int n, k
    while i < stop:
        n = _take(row, i, stop, x)
        if tail:
            for k in range(n):
                x[k] = -2 * fabs(x[k])
        total += softplus_of(doubles, x, n)
        i += n
    return total


cdef double row_log_partition(
    Units units, const Leaves *leaves, const char *row
) noexcept nogil:
    cdef const Leaves *doubles = select_leaves(sizeof(double))
    if leaves.itemsize == 4:
        return _log_partition[float](units, doubles, <const float *> row)
    return _log_partition[double](units, doubles, <const double *> row)


cdef double row_energy(Units units, const real *row) noexcept nogil:
    """Sum of U over a row of states."""
    cdef double total = 0, x
    cdef Group *g
    cdef int k
    cdef Py_ssize_t i
    for k in range(units.n_groups):
        g = &units.groups[k]
        if g.kind == GAUSSIAN:
            for i in range(g.start, g.stop):
                x = row[i] - units.mean[i]
                total += 0.5 * x * x / units.variance[i]
        elif g.kind == RELU:
            for i in range(g.start, g.stop):
                total += 0.5 * <double> row[i] * row[i]
        elif g.kind == POISSON:
            for i in range(g.start, g.stop):
                # (Of most counts, in sparse data, there is nothing to add.)
                if row[i] != 0 and row[i] != 1:
                    total += lgamma(row[i] + 1)
    return total


cdef void _rectified_variances(
    const Leaves *doubles, real *row, const Group *g
) noexcept nogil:
    cdef char memory[DOUBLES_BYTES]
    cdef double *mean = doubles_room(memory)
    cdef Py_ssize_t i = g.start
    cdef int n, k
    while i < g.stop:
        n = _take(row, i, g.stop, mean)
        doubles.rectified_means(<char *> mean, n_panels_of(n, doubles))
        for k in range(n):
            row[i + k] = <real> rectified_variance(row[i + k], mean[k])
        i += n


cdef void row_variances(
    Units units, const Leaves *doubles, real *row
) noexcept nogil:
    """Fields -> variances of the units, in place."""
    cdef Group *g
    cdef int k
    cdef Py_ssize_t b, i, j
    cdef double x, most, part
    for k in range(units.n_groups):
        g = &units.groups[k]
        if g.kind == RELU:
            _rectified_variances(doubles, row, g)
            continue
        for b in range((g.stop - g.start) // g.size):
            i = g.start + b * g.size
            x = row[i]
            if g.kind == BERNOULLI:
                row[i] = <real> (0.25 / cosh(min(fabs(x), 700.0) / 2) ** 2)
            elif g.kind == SPIN:
                row[i] = <real> (1 / cosh(min(fabs(x), 350.0)) ** 2)
            elif g.kind == CATEGORICAL:
                part = _sum_of_exponentials(row + i, g.size, &most)
                for j in range(i, i + g.size):
                    x = exp(row[j] - most) / part
                    row[j] = <real> (x * (1 - x))
            elif g.kind == GAUSSIAN:
                row[i] = <real> units.variance[i]
            elif g.kind == POISSON:
                row[i] = <real> exp(min(x, MOST_POISSON))


# ---- What Python calls ----


def evaluate(
    Units units, const real[:, ::1] X, Wanted wanted, key=0, step=0, purpose=0,
    Py_ssize_t row0=0,
):
    """What is wanted of rows of fields (or of states, for ENERGIES).

    An array like X, or one number a row for LOG_PARTITIONS and ENERGIES. Row r draws
    as row row0 + r of the random counter.
    """
    cdef Py_ssize_t n_rows = X.shape[0], n = X.shape[1], r
    if n != units.n_units:
        raise ValueError(f"there are {units.n_units} units, not {n}")
    cdef const Leaves *leaves = select_leaves(sizeof(real))
    cdef const Leaves *doubles = select_leaves(sizeof(double))
    dtype = np.float32 if real is float else np.float64
    per_row = wanted in (LOG_PARTITIONS, ENERGIES)
    out = np.zeros(n_rows) if per_row else np.zeros((n_rows, n), dtype)
    if n_rows == 0 or n == 0:
        return out
    cdef double[::1] sums = out if per_row else np.empty(0)
    cdef real[:, ::1] values = np.empty((0, 0), dtype) if per_row else out
    cdef int n_threads = min(n_rows, effective_n_threads(n_rows * n, LEAST_WORK))
    cdef Py_ssize_t width = units.n_panels(leaves) * PANEL_BYTES
    cdef Py_ssize_t size = width + units.room(leaves)
    memory = aligned(n_threads * size)
    cdef char *scratch = address(memory)
    cdef Noise noise
    noise.key, noise.step, noise.purpose = key, step, purpose
    cdef uint32_t first = <uint32_t> row0
    cdef double volume = units.log_volume()
    cdef int thread, team
    with nogil, parallel(num_threads=n_threads):
        thread = omp_get_thread_num()
        team = omp_get_num_threads()
        for r in range(bound(n_rows, thread, team), bound(n_rows, thread + 1, team)):
            if wanted == LOG_PARTITIONS:
                sums[r] = volume + _log_partition(units, doubles, &X[r, 0])
            elif wanted == ENERGIES:
                sums[r] = row_energy(units, &X[r, 0])
            else:
                _evaluate_row(
                    units, leaves, &X[r, 0], &values[r, 0], wanted, noise,
                    first + <uint32_t> r, scratch + thread * size,
                    scratch + thread * size + width,
                )
    return out


cdef void _evaluate_row(
    Units units, const Leaves *leaves, const real *x, real *out, Wanted wanted,
    Noise noise, uint32_t number, char *row, char *room,
) noexcept nogil:
    noise.row = number
    memcpy(row, x, units.n_units * sizeof(real))
    if wanted == VARIANCES:
        row_variances(units, select_leaves(sizeof(double)), <real *> row)
    else:
        _row(
            units, leaves, <real *> row, &noise if wanted == DRAWS else NULL,
            <real *> room,
        )
    memcpy(out, row, units.n_units * sizeof(real))
