# Elementwise passes of a small network: activities, slopes, losses and steps.
#
# All of them work in place and make no temporary arrays. An element's result does not
# depend on the others, and sums run over rows in their order, so that any number of
# threads gives the same bits.
import numpy as np

from cython.parallel cimport parallel, prange
from libc.math cimport exp, log, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport address, aligned
from ._simd cimport PANEL_BYTES, Leaves, n_panels_of, select_leaves

from ._openmp import effective_n_threads

cdef enum:
    # Parameters, and columns, that a thread takes at a time.
    BLOCK = 16384
    COLUMNS = 128
    # Elements that are worth a second thread (some ten microseconds).
    LEAST_ACTIVITIES = 20000
    LEAST_PARAMETERS = 50000

ctypedef fused real:
    float
    double


cdef int team_size(Py_ssize_t work, Py_ssize_t least, int n_threads):
    """How many threads work: n_threads, or what there are for 0; one for little."""
    if n_threads == 0:
        return effective_n_threads(work, least)
    return n_threads if work >= least else 1


def activate(
    real[:, ::1] fields, const real[::1] bias, const real[:, ::1] mask=None,
    int n_threads=0,
):
    """fields <- logistic(fields + bias) * mask."""
    cdef Py_ssize_t n_rows = fields.shape[0], n = fields.shape[1]
    if bias.shape[0] != n or (
        mask is not None and (mask.shape[0] != n_rows or mask.shape[1] != n)
    ):
        raise ValueError("shapes of fields, bias and mask do not fit")
    if n_rows == 0 or n == 0:
        return
    cdef const Leaves *leaves = select_leaves(sizeof(real))
    cdef Py_ssize_t n_panels = n_panels_of(n, leaves)
    n_threads = team_size(n_rows * n, LEAST_ACTIVITIES, n_threads)
    # The leaves want whole panels on cache lines.
    memory = aligned(n_threads * n_panels * PANEL_BYTES)
    cdef char *room = address(memory)
    cdef int thread, team
    with nogil, parallel(num_threads=n_threads):
        thread = omp_get_thread_num()
        team = omp_get_num_threads()
        activate_rows(
            leaves, fields, bias, mask, bound(n_rows, thread, team),
            bound(n_rows, thread + 1, team), room + thread * n_panels * PANEL_BYTES,
        )


cdef void activate_rows(
    const Leaves *leaves, real[:, ::1] fields, const real[::1] bias,
    const real[:, ::1] mask, Py_ssize_t start, Py_ssize_t stop, char *room,
) noexcept nogil:
    cdef Py_ssize_t n = fields.shape[1], r, j
    cdef real *row = <real *> room
    for r in range(start, stop):
        for j in range(n):
            row[j] = fields[r, j] + bias[j]
        leaves.logistic(room, n_panels_of(n, leaves))
        if mask is None:
            memcpy(&fields[r, 0], row, n * sizeof(real))
        else:
            for j in range(n):
                fields[r, j] = row[j] * mask[r, j]


def multiply_by_slopes(
    real[:, ::1] delta, const real[:, ::1] activity, const real[:, ::1] mask=None,
    int n_threads=0,
):
    """delta <- delta * d activity / d field, with what `activate` made of the field."""
    cdef Py_ssize_t n_rows = delta.shape[0], n = delta.shape[1], r, j
    if activity.shape[0] != n_rows or activity.shape[1] != n or (
        mask is not None and (mask.shape[0] != n_rows or mask.shape[1] != n)
    ):
        raise ValueError("shapes of delta, activity and mask do not fit")
    n_threads = team_size(n_rows * n, LEAST_ACTIVITIES, n_threads)
    cdef bint masked = mask is not None
    cdef real a, m
    for r in prange(n_rows, nogil=True, num_threads=n_threads, schedule="static"):
        if masked:
            # activity = mask * logistic
            for j in range(n):
                a, m = activity[r, j], mask[r, j]
                delta[r, j] *= a * (1 - a / m) if m != 0 else 0
        else:
            for j in range(n):
                a = activity[r, j]
                delta[r, j] *= a * (1 - a)


def cross_entropy(
    real[:, ::1] fields, const int32_t[::1] codes, const double[::1] weights,
    double scale,
):
    """scale * sum over rows of -weight log softmax(fields)[code].

    weights are those of the classes. fields <- the derivative.
    """
    cdef Py_ssize_t n_rows = fields.shape[0], n = fields.shape[1], r, j
    if codes.shape[0] != n_rows or weights.shape[0] != n:
        raise ValueError("shapes of fields, codes and weights do not fit")
    cdef double loss = 0, most, total, weight, own
    cdef int32_t code
    with nogil:
        for r in range(n_rows):
            code = codes[r]
            if code < 0 or code >= n:
                with gil:
                    raise ValueError(f"there is no class {code}")
            most, total = fields[r, 0], 0
            for j in range(1, n):
                most = max(most, <double> fields[r, j])
            own = fields[r, code] - most
            for j in range(n):
                fields[r, j] = <real> exp(fields[r, j] - most)
                total += fields[r, j]
            weight = scale * weights[code]
            loss += weight * (log(total) - own)
            for j in range(n):
                fields[r, j] = <real> (weight * (fields[r, j] / total - (j == code)))
    return loss


def momentum_step(
    real[::1] parameters, real[::1] velocity, const real[::1] gradient, double rate,
    double momentum, bint nesterov, int n_threads=0,
):
    """velocity <- momentum velocity - rate gradient; parameters move along it.

    With Nesterov's momentum they move by what the velocity will have been next time.
    """
    cdef Py_ssize_t n = parameters.shape[0], n_blocks, block, k
    if velocity.shape[0] != n or gradient.shape[0] != n:
        raise ValueError("shapes of parameters, velocity and gradient do not fit")
    n_blocks = (n + BLOCK - 1) // BLOCK
    n_threads = team_size(n, LEAST_PARAMETERS, n_threads)
    cdef real r = <real> rate, m = <real> momentum, v
    for block in prange(
        n_blocks, nogil=True, num_threads=n_threads, schedule="static"
    ):
        if nesterov:
            for k in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
                v = m * velocity[k] - r * gradient[k]
                velocity[k] = v
                parameters[k] += m * v - r * gradient[k]
        else:
            for k in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
                v = m * velocity[k] - r * gradient[k]
                velocity[k] = v
                parameters[k] += v


def adam_step(
    real[::1] parameters, real[::1] mean, real[::1] square, const real[::1] gradient,
    double rate, double mean_decay, double square_decay, double epsilon,
    int n_threads=0,
):
    """Running means of gradient and its square; parameters move along their ratio."""
    cdef Py_ssize_t n = parameters.shape[0], n_blocks, block, k
    if not n == mean.shape[0] == square.shape[0] == gradient.shape[0]:
        raise ValueError("shapes of parameters, means and gradient do not fit")
    cdef const Leaves *leaves = select_leaves(sizeof(real))
    n_blocks = (n + BLOCK - 1) // BLOCK
    n_threads = team_size(n, LEAST_PARAMETERS, n_threads)
    for block in prange(
        n_blocks, nogil=True, num_threads=n_threads, schedule="static"
    ):
        k = block * BLOCK
        leaves.adam(
            <char *> &parameters[k], <const char *> &gradient[k], <char *> &mean[k],
            <char *> &square[k], min(<Py_ssize_t> BLOCK, n - k), rate, mean_decay,
            square_decay, epsilon,
        )


def cap_columns(real[:, ::1] weights, double max_norm, int n_threads=0):
    """Scale columns that are longer than max_norm back to it."""
    cdef Py_ssize_t n_rows = weights.shape[0], n = weights.shape[1], n_blocks, block
    n_blocks = (n + COLUMNS - 1) // COLUMNS
    cdef double[::1] squares = np.zeros(n)
    n_threads = team_size(n_rows * n, LEAST_PARAMETERS, n_threads)
    for block in prange(
        n_blocks, nogil=True, num_threads=n_threads, schedule="static"
    ):
        cap_block(
            weights, squares, max_norm, block * COLUMNS, min(n, (block + 1) * COLUMNS)
        )


cdef void cap_block(
    real[:, ::1] weights, double[::1] squares, double max_norm, Py_ssize_t start,
    Py_ssize_t stop,
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef bint longer = False
    for i in range(weights.shape[0]):
        for j in range(start, stop):
            squares[j] += <double> weights[i, j] * weights[i, j]
    for j in range(start, stop):
        if squares[j] > max_norm * max_norm:
            longer = True
            squares[j] = max_norm / sqrt(squares[j])
        else:
            squares[j] = 1
    if longer:
        for i in range(weights.shape[0]):
            for j in range(start, stop):
                weights[i, j] = <real> (weights[i, j] * squares[j])
