# Jumps of persistent chains between the modes of a machine.
#
# Sweeps do not carry a chain from one mode to another that lies far from it. How many
# chains are in each mode then stays as it is, whatever the model says of the shares of
# modes, and training drives these shares ever farther from those of the data. But rows
# of data say where modes should be. Every chain is proposed a hidden state h' drawn
# given one of the last rows, chosen at random, which together are drawn from
#
#   q(h) = mean over rows k of p(h | k),   p(h | k) = exp(h x_k - A(x_k) - U(h)),
#
# x_k the fields of row k, and goes there by the rule of Metropolis and Hastings, with
# probability min(1, w(h') / w(h)), where (U(h), in both, cancels)
#
#   log w(h) = log p(h) / q(h) = c h + A_v(fields of the visible units given h)
#              - log mean over k of exp(h x_k - A(x_k)).
#
# So the model is left as it is, also if fields are those that parameters had a few
# minibatches ago. Where units are many, most jumps are refused; the more often all
# are, the more minibatches go by without any.
import numpy as np

from libc.math cimport log
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from ._gibbs cimport DRAW_CHOICE, DRAW_JUMP
from ._openmp cimport bound
from ._panels cimport address, aligned
from ._products cimport multiply
from ._simd cimport PANEL_BYTES, random_words, select_leaves
from ._units cimport Noise, row_draws, row_log_partition

ctypedef fused real:
    float
    double

cdef enum:
    # Chains whose products are found together.
    CHAINS = 64
    # Minibatches between two jumps, at most.
    LONGEST_WAIT = 64


cdef class Jumps:
    """Jumps of the chains of a machine to hidden states of rows of data.

    The rows are the last POOL ones that were kept. Of the methods below, threads of a
    team call each with their number, and with a barrier in between.

    visible, hidden : Units of the machine; those of v_bytes and h_bytes a row
    n_chains : how many chains there are
    """

    def __cinit__(
        self, Units visible, Units hidden, Py_ssize_t n_chains, Py_ssize_t v_bytes,
        Py_ssize_t h_bytes, dtype,
    ):
        self.visible, self.hidden, self.n_chains = visible, hidden, n_chains
        self.v_bytes, self.h_bytes = v_bytes, h_bytes
        self.itemsize = np.dtype(dtype).itemsize
        self.leaves = select_leaves(self.itemsize)
        self.memory = {}
        self.fields = self._bytes("fields", POOL * h_bytes)
        self.log_partitions = <double *> self._bytes("log_partitions", POOL * 8)
        self.unknown = <double *> self._bytes("unknown", POOL * 8)
        self.proposed = self._bytes("proposed", n_chains * h_bytes)
        self.visible_fields = self._bytes("visible_fields", n_chains * v_bytes)
        self.products = self._bytes("products", 2 * n_chains * POOL * self.itemsize)
        self.accepted = <double *> self._bytes("accepted", n_chains * 8)
        self.wait = 1

    cdef char *_bytes(self, str name, Py_ssize_t n_bytes) except NULL:
        self.memory[name] = aligned(n_bytes)
        return address(self.memory[name])

    def _rows(self):
        dtype = np.float32 if self.itemsize == 4 else np.float64
        rows = self.memory["fields"].view(dtype).reshape(POOL, -1)
        return rows[: self.n_rows, : self.hidden.n_units]

    def state(self):
        """Arrays and plain values to go on from."""
        return {
            "fields": self._rows().copy(),
            "at": self.at,
            "wait": self.wait,
            "due": self.due,
        }

    def go_on(self, state):
        """Go on from what `state` returned."""
        self.n_rows, self.at = len(state["fields"]), state["at"]
        self.wait, self.due = state["wait"], state["due"]
        self._rows()[:] = state["fields"]
        self.memory["unknown"].view(float)[:] = 1

    cdef void keep(self, Py_ssize_t r, const char *fields) noexcept nogil:
        """Keep fields of hidden units given row r of a minibatch."""
        cdef Py_ssize_t k
        if r < POOL:
            k = (self.at + r) % POOL
            memcpy(self.fields + k * self.h_bytes, fields, self.h_bytes)
            self.unknown[k] = 1

    cdef void end_minibatch(self, Py_ssize_t n) noexcept nogil:
        """Take note that fields of n rows have been kept. For one thread."""
        self.at = (self.at + min(n, POOL)) % POOL
        self.n_rows = min(self.n_rows + n, POOL)

    cdef bint is_due(self, uint64_t step) noexcept nogil:
        return self.n_rows > 0 and step >= self.due

    cdef void propose(
        self, uint64_t key, uint64_t step, int thread, int team, char *room
    ) noexcept nogil:
        """Draw what is proposed to every chain."""
        cdef Py_ssize_t r, k
        cdef char *state
        cdef uint32_t words[4]
        cdef Noise noise
        noise.key, noise.step, noise.purpose = key, step, DRAW_JUMP
        for k in range(
            bound(self.n_rows, thread, team), bound(self.n_rows, thread + 1, team)
        ):
            if self.unknown[k]:
                self.log_partitions[k] = row_log_partition(
                    self.hidden, self.leaves, self.fields + k * self.h_bytes
                )
                self.unknown[k] = 0
        for r in range(
            bound(self.n_chains, thread, team), bound(self.n_chains, thread + 1, team)
        ):
            noise.row = <uint32_t> r
            random_words(words, 0, noise.row, step, DRAW_CHOICE, key)
            k = <Py_ssize_t> ((<uint64_t> words[0] * <uint64_t> self.n_rows) >> 32)
            state = self.proposed + r * self.h_bytes
            memcpy(state, self.fields + k * self.h_bytes, self.h_bytes)
            row_draws(self.hidden, self.leaves, state, &noise, room)

    cdef void take_products(
        self, const char *states, int thread, int team
    ) noexcept nogil:
        """Find products with the fields of the rows: of the chains, then of proposals.

        states : of the chains.
        """
        cdef Py_ssize_t n_blocks = (self.n_chains + CHAINS - 1) // CHAINS
        cdef Py_ssize_t block, first, width = self.h_bytes // self.itemsize
        cdef const char *x
        cdef char *out
        for block in range(
            bound(2 * n_blocks, thread, team), bound(2 * n_blocks, thread + 1, team)
        ):
            first = block % n_blocks * CHAINS
            x = states if block < n_blocks else self.proposed
            out = self.products + first * POOL * self.itemsize
            if block >= n_blocks:
                out += self.n_chains * POOL * self.itemsize
            multiply(
                self.itemsize, False, True, min(CHAINS, self.n_chains - first),
                self.n_rows, self.hidden.n_units, 1.0, x + first * self.h_bytes, width,
                self.fields, width, 0.0, out, POOL,
            )

    cdef void choose(
        self, char *states, char *fields, const char *precision,
        const char *visible_bias, const char *hidden_bias, uint64_t key, uint64_t step,
        int thread, int team, char *room
    ) noexcept nogil:
        """Let chains go where they are proposed to, or stay.

        states, fields : of the chains, and of visible units given them, less biases
            and times variances; changed along.
        precision, visible_bias : what such fields are multiplied by, and then added.
        room : of v_bytes.
        """
        cdef Py_ssize_t r, n_bytes = POOL * self.itemsize
        cdef char *new
        cdef char *new_fields
        cdef double weight
        cdef uint32_t words[4]
        for r in range(
            bound(self.n_chains, thread, team), bound(self.n_chains, thread + 1, team)
        ):
            new = self.proposed + r * self.h_bytes
            new_fields = self.visible_fields + r * self.v_bytes
            weight = self._log_weight(
                new, new_fields, self.products + (self.n_chains + r) * n_bytes,
                precision, visible_bias, hidden_bias, room,
            ) - self._log_weight(
                states + r * self.h_bytes, fields + r * self.v_bytes,
                self.products + r * n_bytes, precision, visible_bias, hidden_bias, room,
            )
            random_words(words, 0, <uint32_t> r, step, DRAW_CHOICE, key)
            self.accepted[r] = log((words[1] + 0.5) / 4294967296.0) < weight
            if self.accepted[r]:
                memcpy(states + r * self.h_bytes, new, self.h_bytes)
                memcpy(fields + r * self.v_bytes, new_fields, self.v_bytes)

    cdef double _log_weight(
        self, const char *state, const char *fields, char *products,
        const char *precision, const char *visible_bias, const char *hidden_bias,
        char *room
    ) noexcept nogil:
        """Return log w of a hidden state, and a constant. Changes products."""
        if self.itemsize == 4:
            return _log_model[float](
                self, <float *> state, <float *> fields, <float *> precision,
                <float *> visible_bias, <float *> hidden_bias, <float *> room,
            ) - _log_proposal[float](self, <float *> products)
        return _log_model[double](
            self, <double *> state, <double *> fields, <double *> precision,
            <double *> visible_bias, <double *> hidden_bias, <double *> room,
        ) - _log_proposal[double](self, <double *> products)

    cdef void end_jump(self, uint64_t step, Py_ssize_t n_steps) noexcept nogil:
        """Decide when the next jump is due; a minibatch is n_steps. For one thread."""
        cdef Py_ssize_t r
        cdef double n_accepted = 0
        for r in range(self.n_chains):
            n_accepted += self.accepted[r]
        self.wait = 1 if n_accepted else min(2 * self.wait, <uint64_t> LONGEST_WAIT)
        self.due = step + self.wait * n_steps


cdef double _log_model(
    Jumps jumps, const real *state, const real *fields, const real *precision,
    const real *visible_bias, const real *hidden_bias, real *room,
) noexcept nogil:
    """Return log p(h) + U(h), and a constant."""
    cdef Py_ssize_t i
    cdef double total = 0
    for i in range(jumps.hidden.n_units):
        total += <double> state[i] * hidden_bias[i]
    for i in range(jumps.visible.n_units):
        room[i] = fields[i] * precision[i] + visible_bias[i]
    return total + row_log_partition(jumps.visible, jumps.leaves, <char *> room)


cdef double _log_proposal(Jumps jumps, real *products) noexcept nogil:
    """Return log q(h) + U(h), and a constant. Changes products."""
    cdef Py_ssize_t n_bytes = jumps.n_rows * <Py_ssize_t> sizeof(real), k
    cdef real most
    cdef double total = 0
    for k in range(jumps.n_rows):
        products[k] = <real> (products[k] - jumps.log_partitions[k])
    most = products[0]
    for k in range(1, jumps.n_rows):
        most = max(most, products[k])
    for k in range(jumps.n_rows):
        products[k] -= most
    jumps.leaves.exponential(
        <char *> products, (n_bytes + PANEL_BYTES - 1) // PANEL_BYTES
    )
    for k in range(jumps.n_rows):
        total += products[k]
    return most + log(total)
