# What keeps the weights between unbounded units small enough for a distribution.
#
# Two layers of real units have a joint distribution only if the largest singular value
# of the weights between them, in standard deviations of the units, is below 1. After
# every step the directions of the largest ones are followed by the power method, and
# what is beyond LARGEST_NORM is taken away along them, and along no others.
import numpy as np

from libc.math cimport sqrt
from libc.string cimport memset

from ._panels cimport address, aligned
from ._simd cimport RowUpdate
from ._units cimport Units
from ._vectors cimport length, make_orthogonal, product, real, separate

from ._products import single_threaded_blas
from ._units import UNBOUNDED

cdef enum:
    # Steps of the power method, at most.
    MOST_POWERS = 20
    # Directions that are followed, at least and at most.
    LEAST_DIRECTIONS = 3
    MOST_DIRECTIONS = 64

# Largest singular value that the weights may have.
cdef double MOST_NORM = 0.95
LARGEST_NORM = MOST_NORM


cdef class Excess:
    """Weights between unbounded units of both layers, and what is too much of them.

    visible, hidden : Units of the layers, weights in rows of h_bytes by visible unit
    """

    def __cinit__(self, Units visible, Units hidden, Py_ssize_t h_bytes, dtype):
        self.hidden, self.h_bytes = hidden, h_bytes
        self.n_visible, self.n_hidden = visible.n_units, hidden.n_units
        self.dtype = np.dtype(dtype)
        self.itemsize = self.dtype.itemsize
        self.memory = {}
        D, H = self.n_visible, self.n_hidden
        self.visible_unbounded = <double *> self._bytes("visible_unbounded", D * 8)
        self.hidden_unbounded = <double *> self._bytes("hidden_unbounded", H * 8)
        self._vector("visible_unbounded")[:] = visible.of_kind(*UNBOUNDED)
        self._vector("hidden_unbounded")[:] = hidden.of_kind(*UNBOUNDED)
        # Begin with waves; there are no more of them than singular values.
        real_units = self._vector("visible_unbounded") > 0
        n, m = real_units.sum(), np.count_nonzero(self._vector("hidden_unbounded"))
        self.most_directions = min(n, m, MOST_DIRECTIONS)
        self.n_directions = min(self.most_directions, LEAST_DIRECTIONS)
        if not self.most_directions:
            return
        waves = np.zeros((self.most_directions, self.n_visible))
        order, places = np.arange(self.most_directions), np.arange(n) + 0.5
        waves[:, real_units] = np.cos(np.pi * np.outer(order, places) / n)
        self.directions = <double *> self._bytes("directions", waves.size * 8)
        self._vector("directions")[:] = waves.ravel()
        self.turned = <double *> self._bytes("turned", self.most_directions * H * 8)
        self.rows = self._bytes("rows", self.most_directions * h_bytes)

    cdef char *_bytes(self, str name, Py_ssize_t n_bytes) except NULL:
        self.memory[name] = aligned(max(n_bytes, 8))
        return address(self.memory[name])

    def _vector(self, name):
        return self.memory[name].view(float)

    def look_everywhere(self, weights, variance):
        """Follow all directions in which weights are too large; tell whether any is.

        weights : (n_visible, n_hidden)
        variance : of the visible units
        """
        D, H = self.n_visible, self.n_hidden
        scale = self._vector("visible_unbounded") / np.sqrt(variance)
        coupling = scale[:, np.newaxis] * weights
        coupling *= self._vector("hidden_unbounded")
        for j in range(H):
            coupling[:, j] *= self.hidden.deviation[j]
        if not np.isfinite(coupling).all():
            return False
        with single_threaded_blas:
            left, norms, _ = np.linalg.svd(coupling, full_matrices=False)
        n = min((norms > MOST_NORM).sum(), self.most_directions)
        if n:
            self._vector("directions").reshape(-1, D)[:n] = left[:, :n].T
            self.n_directions = max(self.n_directions, n)
        return n > 0

    cdef void find(self, const char *weights, const double *variance) noexcept nogil:
        """Find the directions in which weights are too large, and how much is."""
        if self.itemsize == 4:
            self._find(weights, variance, <float> 0)
        else:
            self._find(weights, variance, <double> 0)

    cdef void take(
        self, RowUpdate *u, Py_ssize_t i, double variance, const char *offset
    ) noexcept nogil:
        """Take away what is too much of the weights of visible unit i, after `find`."""
        if self.itemsize == 4:
            self._take(u, i, variance, offset, <float> 0)
        else:
            self._take(u, i, variance, offset, <double> 0)

    cdef void _find(
        self, const char *weights, const double *variance, real kind
    ) noexcept nogil:
        """Follow the directions of the largest singular values, and fill `rows`.

        There is one direction at least that is not in excess: without it, the others
        would stay with what were the largest singular values while another one grows
        past them.
        """
        cdef Py_ssize_t j, k
        cdef double *turned
        cdef real *excess
        cdef double norm
        while True:
            self._follow(weights, variance, kind)
            self.n_found = 0
            for k in range(self.n_directions):
                norm = length(self.turned + k * self.n_hidden, self.n_hidden)
                self.n_found += norm > MOST_NORM
            if self.n_found < self.n_directions:
                break
            if self.n_directions == self.most_directions:
                break
            self.n_directions = min(2 * self.n_directions, self.most_directions)
        for k in range(self.n_directions):
            turned = self.turned + k * self.n_hidden
            excess = <real *> (self.rows + k * self.h_bytes)
            norm = length(turned, self.n_hidden)
            norm = 1 - MOST_NORM / max(MOST_NORM, norm)
            for j in range(self.n_hidden):
                if self.hidden_unbounded[j]:
                    excess[j] = <real> (norm * turned[j] / self.hidden.deviation[j])

    cdef void _follow(
        self, const char *weights, const double *variance, real kind
    ) noexcept nogil:
        """Let directions follow the largest singular values, by the power method.

        From those of the last minibatch on it mostly takes a step or two.
        """
        cdef double norm = 0, last
        cdef int k
        for k in range(MOST_POWERS):
            if k:
                self._turn_back(weights, variance, kind)
            make_orthogonal(self.directions, self.n_directions, self.n_visible)
            last, norm = norm, self._turn(weights, variance, kind)
            if norm <= 1.001 * last:
                break
        separate(
            self.turned, self.n_hidden, self.directions, self.n_visible,
            self.n_directions,
        )

    cdef double _turn(
        self, const char *weights, const double *variance, real kind
    ) noexcept nogil:
        """Turn visible directions into hidden vectors; return the norm of all."""
        cdef double *turned
        cdef Py_ssize_t i, j, k
        cdef double x, squares = 0
        cdef const real *w
        memset(self.turned, 0, self.n_directions * self.n_hidden * sizeof(double))
        for i in range(self.n_visible):
            w = <const real *> (weights + i * self.h_bytes)
            for k in range(self.n_directions):
                turned = self.turned + k * self.n_hidden
                x = self.directions[k * self.n_visible + i] / sqrt(variance[i])
                for j in range(self.n_hidden):
                    turned[j] += x * w[j]
        for k in range(self.n_directions):
            turned = self.turned + k * self.n_hidden
            for j in range(self.n_hidden):
                turned[j] *= self.hidden_unbounded[j] * self.hidden.deviation[j]
            squares += product(turned, turned, self.n_hidden)
        return sqrt(squares)

    cdef void _turn_back(
        self, const char *weights, const double *variance, real kind
    ) noexcept nogil:
        """Turn hidden vectors into visible directions, unless they are 0."""
        cdef double *turned
        cdef Py_ssize_t i, j, k
        cdef double x
        cdef const real *w
        for k in range(self.n_directions):
            turned = self.turned + k * self.n_hidden
            if length(turned, self.n_hidden) == 0:
                continue
            for j in range(self.n_hidden):
                turned[j] *= self.hidden.deviation[j]
            for i in range(self.n_visible):
                if not self.visible_unbounded[i]:
                    continue
                w = <const real *> (weights + i * self.h_bytes)
                x = product(turned, w, self.n_hidden) / sqrt(variance[i])
                self.directions[k * self.n_visible + i] = x

    cdef void _take(
        self, RowUpdate *u, Py_ssize_t i, double variance, const char *offset, real kind
    ) noexcept nogil:
        cdef real *w = <real *> u.weights
        cdef real *by = <real *> u.by
        cdef const real *h_offset = <const real *> offset
        cdef real *excess
        cdef Py_ssize_t j, k
        cdef double x, change
        for k in range(self.n_directions):
            excess = <real *> (self.rows + k * self.h_bytes)
            x = self.directions[k * self.n_visible + i] * sqrt(variance)
            for j in range(self.n_hidden):
                change = x * excess[j]
                w[j] -= <real> change
                by[j] -= <real> (change * u.seen_offset)
                u.shift -= change * h_offset[j]
