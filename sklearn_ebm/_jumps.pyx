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
# So the model is left as it is, also if fields are those that earlier parameters had.
# Between two jumps training drives the shares of modes away as before, the faster the
# more hidden units there are. So there is one in every minibatch that can afford it. In
# restricted machines of bits, which saturate, one in a few minibatches does as well.
# The more often all chains are refused, the more minibatches go by without any. But
# where steps of the training are large, a few of them drive shares away by many nats.
# If chains follow the model, no more than a share exp(-g) of them is proposed a state
# where log w is higher by g or more (by detailed balance). If more are, the chains have
# fallen behind, and the next jump comes as soon as it can be afforded. (So the time of
# a jump depends on how the last ones went. With ten chains this has no visible effect;
# a single chain, on a model of two modes that no longer learned, spent up to 8 % of its
# steps in the wrong mode.)
#
# Nor do sweeps carry chains to modes that a machine has where there are no data, as it
# has between clusters: nothing that chains see keeps these from growing. So one in
# SPACING of the rows gives way to the point half-way to the one before it, except in
# restricted machines of bits, which were no better for it. (One visit moves shares by
# nats. The more proposals lie between rows, the fewer chains go to rows.)
#
# Where there are counts, modes may also lie beyond all data: many hidden bits together
# can drive a count to dozens of times what it ever was, at which all of them stay on.
# So of three of those places two are found by letting bits drive counts up: from those
# that are on in a row, and from those that raise one of the counts.
import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ._gibbs cimport DRAW_CHOICE, DRAW_JUMP
from ._openmp cimport bound
from ._panels cimport address, aligned
from ._products cimport multiply_shared
from ._simd cimport PANEL_BYTES, random_words, select_leaves
from ._units cimport Kind, Noise, row_draws, row_log_partition

ctypedef fused real:
    float
    double

cdef enum:
    # Minibatches between two jumps, at most, where they succeed and where all fail.
    LONG_WAIT = 64
    LONGEST_WAIT = 512
    # Multiplications that jumps may cost a minibatch anyway (a few microseconds), and
    # how many times those of its products between the layers. Minibatches of more than
    # so many are long: there is a jump in one of a few.
    MUCH_WORK = 262144
    TIMES = 4
    LONG_WORK = 33554432
    FEW = 4
    # Where a few do as well: what they may cost anyway; and of how many multiplications
    # they may be one if they are in one of a few minibatches.
    FREE_WORK = 10240
    SHARE = 10
    # If more than one in so many chains could gain more than FAR nats, shares have gone
    # far from where they were (a share exp(-FAR) = 1 / 148 may anyway).
    ONE_IN = 20

cdef double FAR = 5.0

# Field of units that are off.
cdef double NEVER = -1e30
# Logarithm of the largest count that a place may have.
cdef double LOG_MOST = 15.0


cdef class Jumps:
    """Jumps of the chains of a machine to hidden states of rows of data.

    The rows are the last POOL ones that were stored. In a jump, the threads of a team
    call `propose`, `take_products` and `choose` with their numbers, and with a barrier
    after each. Whose the machine is sees to `states` before the second, to
    `visible_now` and `visible_then` before the third, and lets chains go that are
    `accepted`; one thread ends it.

    hidden : Units of the machine, in rows of h_bytes
    n_chains : how many chains there are
    n_visible : how many visible units
    batch_size : how many rows a minibatch has
    seldom : whether one in a few minibatches does as well (in restricted machines of
        bits); then no places between rows are proposed, either
    counts : which visible units are counts; if any are, places to which hidden bits
        drive them up are proposed, too
    """

    def __cinit__(
        self, Units hidden, Py_ssize_t n_chains, Py_ssize_t h_bytes, dtype,
        Py_ssize_t n_visible, Py_ssize_t batch_size, bint seldom, counts=(),
    ):
        self.hidden, self.n_chains, self.h_bytes = hidden, n_chains, h_bytes
        self.dtype = np.dtype(dtype)
        self.itemsize = self.dtype.itemsize
        self.leaves = select_leaves(self.itemsize)
        self.memory = {}
        self.fields = self._bytes("fields", POOL * h_bytes)
        self.archive = self._bytes("archive", ARCHIVE * hidden.n_units * self.itemsize)
        self.log_partitions = <double *> self._bytes("log_partitions", POOL * 8)
        self.unknown = <double *> self._bytes("unknown", POOL * 8)
        self.states = self._bytes("states", 2 * n_chains * h_bytes)
        self.proposed = self.states + n_chains * h_bytes
        self.products = self._bytes("products", 2 * n_chains * POOL * self.itemsize)
        self.visible_now = <double *> self._bytes("visible_now", n_chains * 8)
        self.visible_then = <double *> self._bytes("visible_then", n_chains * 8)
        self.gains = <double *> self._bytes("gains", n_chains * 8)
        self.accepted = <double *> self._bytes("accepted", n_chains * 8)
        # Products with the rows, and sums of weights of visible units.
        cdef Py_ssize_t work = 2 * n_chains * hidden.n_units * (POOL + n_visible // 8)
        cdef Py_ssize_t others = (
            2 * n_visible * hidden.n_units * (batch_size + n_chains)
        )
        self.short_wait = min(_wait(work, MUCH_WORK), _wait(work, TIMES * others))
        self.elsewhere, self.n_counts = not seldom, len(counts)
        self.counts = <int64_t *> self._bytes("counts", 8 * self.n_counts)
        self.memory["counts"].view(np.int64)[: self.n_counts] = counts
        self.driving = self._bytes("driving", h_bytes)
        if seldom:
            self.usual_wait = min(
                _wait(work, FREE_WORK), max(FEW, _wait(work, others // SHARE))
            )
        else:
            self.usual_wait = self.short_wait
            if others > LONG_WORK:
                self.usual_wait = min(_wait(work, MUCH_WORK), max(FEW, self.short_wait))
        self.wait = self.usual_wait
        self.bits = hidden.n_groups == 1 and hidden.groups[0].kind == Kind.BERNOULLI
        self.memory["fields"].view(self.dtype)[:] = NEVER

    cdef char *_bytes(self, str name, Py_ssize_t n_bytes) except NULL:
        self.memory[name] = aligned(max(n_bytes, PANEL_BYTES))
        return address(self.memory[name])

    def _rows(self):
        rows = self.memory["fields"].view(self.dtype).reshape(POOL, -1)
        return rows[: self.n_rows, : self.hidden.n_units]

    def _archived(self):
        rows = self.memory["archive"].view(self.dtype).reshape(ARCHIVE, -1)
        return rows[: self.n_archived]

    def state(self):
        """Arrays and plain values to go on from."""
        return {
            "fields": self._rows().copy(),
            "at": self.at,
            "archive": self._archived().copy(),
            "archive_at": self.archive_at,
            "of_rows": np.array(
                [not self._is_elsewhere(k) for k in range(self.n_rows)], dtype=bool
            ),
            "wait": self.wait,
            "due": self.due,
        }

    def go_on(self, state):
        """Go on from what `state` returned."""
        self.n_rows, self.at = len(state["fields"]), state["at"]
        # (There may be more chains than before.)
        self.wait = max(self.short_wait, <uint64_t> state["wait"])
        self.due = state["due"]
        self._rows()[:] = state["fields"]
        self.n_archived, self.archive_at = len(state["archive"]), state["archive_at"]
        self._archived()[:] = state["archive"]
        self.memory["unknown"].view(float)[:] = 1

    cdef void store(self, Py_ssize_t r, const char *fields) noexcept nogil:
        """Store fields of hidden units given row r of a minibatch."""
        cdef Py_ssize_t k
        cdef Py_ssize_t n_bytes = self.hidden.n_units * self.itemsize
        if r < POOL:
            k = (self.at + r) % POOL
            # (What fills up the last panel stays: fields of units that are off.)
            memcpy(self.fields + k * self.h_bytes, fields, n_bytes)
            self.unknown[k] = 1
            k = (self.archive_at + r) % ARCHIVE
            memcpy(self.archive + k * n_bytes, fields, n_bytes)

    cdef void end_minibatch(self, Py_ssize_t n) noexcept nogil:
        """Take note that fields of n rows are stored. For one thread."""
        cdef Py_ssize_t r, k
        for r in range(min(n, POOL)):
            k = (self.at + r) % POOL
            if self._is_elsewhere(k) and not self._is_driven(k):
                self._go_between(k)
        self.at = (self.at + min(n, POOL)) % POOL
        self.archive_at = (self.archive_at + min(n, POOL)) % ARCHIVE
        self.n_archived = min(self.n_archived + min(n, POOL), ARCHIVE)
        self.n_rows = min(self.n_rows + n, POOL)

    cdef bint _is_elsewhere(self, Py_ssize_t k) noexcept nogil:
        return self.elsewhere and k % SPACING == SPACING - 1

    cdef bint _is_driven(self, Py_ssize_t k) noexcept nogil:
        # (Of three places one lies between rows, one is found from a row, and one from
        # a count.)
        return (
            self.n_counts and self.bits and self._is_elsewhere(k)
            and k // SPACING % 3 > 0
        )

    cdef void drive_counts(
        self, Py_ssize_t n, const char *weights, const double *visible_bias,
        const char *hidden_bias, double up_scale, double down_scale, uint64_t key,
        uint64_t step,
    ) noexcept nogil:
        """Set fields, in place of some of those of the last n rows that were stored.

        They are of where hidden units drive counts up together. For one thread, before
        `end_minibatch`. Weights are by visible unit, h_bytes apart.
        """
        cdef Py_ssize_t r, k
        for r in range(min(n, POOL)):
            k = (self.at + r) % POOL
            if not self._is_driven(k):
                continue
            if self.itemsize == 4:
                _drive[float](
                    self, k, <const float *> weights, visible_bias,
                    <const float *> hidden_bias, up_scale, down_scale, key, step,
                )
            else:
                _drive[double](
                    self, k, <const double *> weights, visible_bias,
                    <const double *> hidden_bias, up_scale, down_scale, key, step,
                )

    cdef void _go_between(self, Py_ssize_t k) noexcept nogil:
        """Move fields half-way to those before them, which stay."""
        cdef char *mine = self.fields + k * self.h_bytes
        cdef char *other = mine - self.h_bytes
        if self.itemsize == 4:
            _halve[float](<float *> mine, <float *> other, self.hidden)
        else:
            _halve[double](<double *> mine, <double *> other, self.hidden)

    cdef bint is_due(self, uint64_t step, Py_ssize_t n_steps) noexcept nogil:
        """Whether a minibatch of n_steps that begins at this step begins with a jump.

        One does, too, if minibatches have fewer steps than when `due` was decided, and
        it would be more of them away than were to go by.
        """
        return step >= self.due or self.due - step > self.wait * n_steps

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
                self.log_partitions[k] = self._log_partition(
                    self.fields + k * self.h_bytes
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

    cdef double _log_partition(self, const char *fields) noexcept nogil:
        """Log partition of the hidden units with these fields."""
        if self.bits:
            return self.leaves.softplus_sum(
                fields, PANEL_BYTES, self.h_bytes // PANEL_BYTES
            )
        return row_log_partition(self.hidden, self.leaves, fields)

    cdef void take_products(self, int thread, int team) noexcept nogil:
        """Find products of the chains' states and of proposals with fields of rows."""
        cdef int width = <int> (self.h_bytes // self.itemsize)
        multiply_shared(
            thread, team, self.itemsize, True, 2 * self.n_chains, self.n_rows,
            self.hidden.n_units, 1.0, self.states, width, self.fields, width,
            self.products, POOL,
        )

    cdef void choose(
        self, const char *hidden_bias, uint64_t key, uint64_t step, int thread, int team
    ) noexcept nogil:
        """Decide which chains are to go where they are proposed to."""
        cdef Py_ssize_t r, n_bytes = POOL * self.itemsize
        cdef char *state
        cdef char *new
        cdef uint32_t words[4]
        for r in range(
            bound(self.n_chains, thread, team), bound(self.n_chains, thread + 1, team)
        ):
            state = self.states + r * self.h_bytes
            new = self.proposed + r * self.h_bytes
            self.gains[r] = self._log_weight(
                new, self.visible_then[r],
                self.products + (self.n_chains + r) * n_bytes, hidden_bias,
            ) - self._log_weight(
                state, self.visible_now[r], self.products + r * n_bytes, hidden_bias
            )
            random_words(words, 0, <uint32_t> r, step, DRAW_CHOICE, key)
            self.accepted[r] = log((words[1] + 0.5) / 4294967296.0) < self.gains[r]

    cdef double _log_weight(
        self, const char *state, double visible, char *products, const char *hidden_bias
    ) noexcept nogil:
        """Return log w of a hidden state, and a constant. Changes products.

        visible : log partition of the visible units given it.
        """
        if self.itemsize == 4:
            return (
                _linear[float](self, <float *> state, <float *> hidden_bias) + visible
                - _log_proposal[float](self, <float *> products)
            )
        return (
            _linear[double](self, <double *> state, <double *> hidden_bias) + visible
            - _log_proposal[double](self, <double *> products)
        )

    cdef void end_jump(self, uint64_t step, Py_ssize_t n_steps) noexcept nogil:
        """Decide when the next jump is due; a minibatch is n_steps. For one thread."""
        cdef Py_ssize_t r
        cdef double n_accepted = 0
        cdef Py_ssize_t n_far = 0
        for r in range(self.n_chains):
            n_accepted += self.accepted[r]
            n_far += self.gains[r] > FAR
        self.wait = min(2 * self.wait, <uint64_t> LONGEST_WAIT)
        if n_accepted:
            self.wait = min(self.wait, self.usual_wait)
        if n_far * ONE_IN > self.n_chains:
            self.wait = self.short_wait
        self.due = step + self.wait * n_steps


cdef void _halve(real *mine, const real *other, Units hidden) noexcept nogil:
    """Put fields half-way to others."""
    cdef Py_ssize_t j
    for j in range(hidden.n_units):
        mine[j] = (mine[j] + other[j]) / 2


cdef void _drive(
    Jumps jumps, Py_ssize_t k, const real *weights, const double *visible_bias,
    const real *hidden_bias, double up_scale, double down_scale, uint64_t key,
    uint64_t step,
) noexcept nogil:
    """Set fields k to those at counts that hidden units drive up together.

    These begin with all units on that raise one of the counts, or that are on in a row,
    and then answer twice to the counts that are expected.
    """
    cdef Py_ssize_t n = jumps.hidden.n_units, n_bytes = jumps.h_bytes
    cdef Py_ssize_t width = n_bytes // <Py_ssize_t> sizeof(real), d, i, j
    cdef Py_ssize_t n_panels = n_bytes // PANEL_BYTES
    cdef double x
    cdef const char *w
    cdef real *on = <real *> jumps.driving
    cdef real *fields = <real *> (jumps.fields + k * n_bytes)
    if k // SPACING % 3 == 2:
        i = _most_driven(
            jumps, k, weights, visible_bias, hidden_bias, down_scale, key, step
        )
        memcpy(fields, weights + i * width, n * sizeof(real))
    for _ in range(2):
        for j in range(n):
            on[j] = <real> (fields[j] > 0)
        memcpy(fields, hidden_bias, n * sizeof(real))
        # (Visible units that are no counts are taken to be 0.)
        for d in range(jumps.n_counts):
            i = jumps.counts[d]
            w = <const char *> (weights + i * width)
            jumps.leaves.project(w, PANEL_BYTES, 1, n_panels, jumps.driving, &x)
            x = exp(min(visible_bias[i] + down_scale * x, LOG_MOST))
            jumps.leaves.add_scaled(w, up_scale * x, n_panels, <char *> fields)


cdef Py_ssize_t _most_driven(
    Jumps jumps, Py_ssize_t k, const real *weights, const double *visible_bias,
    const real *hidden_bias, double down_scale, uint64_t key, uint64_t step,
) noexcept nogil:
    """Of an eighth of the counts, drawn, that which hidden units drive up most.

    By log w of the state with all units on that raise it, as if there were no others.
    """
    cdef Py_ssize_t n = jumps.hidden.n_units, n_drawn = (jumps.n_counts + 7) // 8
    cdef Py_ssize_t width = jumps.h_bytes // <Py_ssize_t> sizeof(real)
    cdef Py_ssize_t d, i, j, most = 0
    cdef double x, log_weight, largest = -INFINITY
    cdef const real *w
    cdef uint32_t words[4]
    for d in range(n_drawn):
        if d % 4 == 0:
            # (Chains choose rows by the words that begin with 0.)
            random_words(
                words, <uint32_t> (1 + d // 4), <uint32_t> k, step, DRAW_CHOICE, key
            )
        i = jumps.counts[
            (<uint64_t> words[d % 4] * <uint64_t> jumps.n_counts) >> 32
        ]
        w = weights + i * width
        x = log_weight = 0
        for j in range(n):
            if w[j] > 0:
                x += w[j]
                log_weight += hidden_bias[j]
        log_weight += exp(min(visible_bias[i] + down_scale * x, LOG_MOST))
        if log_weight > largest:
            most, largest = i, log_weight
    return most


cdef uint64_t _wait(Py_ssize_t work, Py_ssize_t a_minibatch) noexcept nogil:
    """Minibatches between jumps of so much work that cost each no more than this."""
    cdef uint64_t n_batches = 1
    while n_batches < LONG_WAIT and work > a_minibatch * <Py_ssize_t> n_batches:
        n_batches *= 2
    return n_batches


cdef double _linear(Jumps jumps, const real *state, const real *bias) noexcept nogil:
    cdef Py_ssize_t n = jumps.hidden.n_units, j, i
    # (Four at a time, which do not wait for each other.)
    cdef double[4] total
    for i in range(4):
        total[i] = 0
    for j in range(0, n - 3, 4):
        for i in range(4):
            total[i] += <double> state[j + i] * bias[j + i]
    for j in range(n - n % 4, n):
        total[0] += <double> state[j] * bias[j]
    return total[0] + total[1] + total[2] + total[3]


cdef double _log_proposal(Jumps jumps, real *products) noexcept nogil:
    """Return log q(h) + U(h), and a constant. Changes products."""
    cdef Py_ssize_t n = jumps.n_rows, n_bytes = n * <Py_ssize_t> sizeof(real), k, i
    cdef real[4] most
    cdef double[4] total
    for k in range(n):
        products[k] -= <real> jumps.log_partitions[k]
    for i in range(4):
        most[i], total[i] = products[0], 0
    for k in range(0, n - 3, 4):
        for i in range(4):
            most[i] = products[k + i] if products[k + i] > most[i] else most[i]
    for k in range(n - n % 4, n):
        most[0] = max(most[0], products[k])
    most[0] = max(max(most[0], most[1]), max(most[2], most[3]))
    for k in range(n):
        products[k] -= most[0]
    jumps.leaves.exponential(
        <char *> products, (n_bytes + PANEL_BYTES - 1) // PANEL_BYTES
    )
    for k in range(0, n - 3, 4):
        for i in range(4):
            total[i] += products[k + i]
    for k in range(n - n % 4, n):
        total[0] += products[k]
    return most[0] + log(total[0] + total[1] + total[2] + total[3])
