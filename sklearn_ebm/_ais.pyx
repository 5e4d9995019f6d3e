# Chains at inverse temperatures: annealed importance sampling and replica exchange.
#
# A path leads from a base machine, which has biases but no connections, to the
# machine itself. At the inverse temperature beta its energy is
# (1 - beta) E_base + beta E, so that every field is
# x = (1 - beta) base + beta field, and for a visible state v
#
#   L(beta, v) = sum_i v_i x_i + sum_j softplus(x_j)
#
# is the logarithm of its unnormalised probability, hidden units summed out. A sweep
# starts from visible states, of which it computes the hidden fields; they give both
# L at any beta ("gains" are differences of it) and the hidden units that follow.
#
#   anneal     all chains go from one beta to the next, and gains add up
#   exchange   each chain has its own beta; two neighbours swap theirs with
#              probability min(1, exp(gain of one + gain of the other))
#
# Chains are shared between threads; fields are float32 or float64 like the weights,
# gains float64.
import numpy as np

from cython.parallel cimport parallel
from libc.math cimport log
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t

from ._gibbs cimport (
    DRAW_HIDDEN,
    DRAW_SWAP,
    DRAW_VISIBLE,
    LEAST_WORK,
    Bits,
    Draw,
    Layer,
    Sweep,
    bits_sweep,
    sample_panels,
)
from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport Panels, address, aligned
from ._simd cimport (
    FLUSH_GAINS,
    GROUP,
    NO_LIST,
    PANEL_BYTES,
    ActiveRows,
    lowest_bit,
    random_words,
)

from ._openmp import effective_n_threads


cdef enum:
    # From so many chains on the tables that sums by words need pay for themselves.
    LEAST_WORD_ROWS = 16


cdef class Path:
    """The machines between biases and a restricted Boltzmann machine.

    Parameters
    ----------
    components : (n_hidden, n_visible), float32 or float64: the dtype of all fields.
    biases, base : pairs of (n_visible,) and (n_hidden,): of the machine and of where
    the path begins.
    """

    cdef readonly Layer up, down
    # Visible biases where the path begins.
    cdef readonly object base
    cdef object memory
    cdef char *base_hidden
    cdef char *base_visible
    cdef const double[::1] slope

    def __cinit__(self, components, biases, base):
        self.up = Layer(Panels.from_columns(components, True), biases[1])
        self.down = Layer(Panels.from_rows(components), biases[0])
        self.base = base[0]
        # Padded as biases are.
        ends = Layer(self.up.weights, base[1]), Layer(self.down.weights, base[0])
        self.memory = ends
        self.base_hidden = (<Layer> ends[0]).bias
        self.base_visible = (<Layer> ends[1]).bias
        self.slope = np.subtract(biases[0], base[0], dtype=np.float64)


cdef class Team:
    """Chains on a path, cut in blocks of whole ensembles, and room to move them."""

    cdef Path path
    cdef Layer up, down
    cdef Bits visible, hidden, mask, fixed
    cdef Py_ssize_t n_rows, n_units, n_blocks, n_most, unit
    cdef int n_threads
    # Per row: where it is on the path, where it may go, and what that gains.
    cdef double[::1] betas, aims, gains
    cdef list memory
    cdef char *scratch
    cdef Py_ssize_t scratch_size
    cdef Draw draw
    cdef bint words

    def __cinit__(
        self, Path path, states, Py_ssize_t n_steps, key, step, Py_ssize_t unit,
        clamped,
    ):
        """Rows r * unit..(r + 1) * unit of states stay together."""
        cdef Py_ssize_t r
        self.path, self.n_rows, self.unit = path, states.shape[0], unit
        cdef Layer up = path.up, down = path.down
        self.up, self.down = up, down
        self.visible = Bits(self.n_rows, down.n_units, up.weights.first_pair)
        self.hidden = Bits(self.n_rows, up.n_units)
        self.visible.set(states)
        self.mask = self.fixed = None
        if clamped is not None:
            self.mask = Bits(self.n_rows, down.n_units)
            self.fixed = Bits(self.n_rows, down.n_units)
            self.mask.set(clamped)
            self.fixed.set(states)
        self.betas = np.zeros(self.n_rows)
        self.aims = np.zeros(self.n_rows)
        self.gains = np.zeros(self.n_rows)
        # How threads cut the chains must not matter: many take all their hidden units
        # by words, and none the visible ones.
        self.words = self.n_rows >= LEAST_WORD_ROWS
        self.visible.active.words = NULL
        if self.words:
            for r in range(self.n_rows):
                self.hidden.active.length[r] = NO_LIST
        else:
            self.hidden.active.words = NULL
        cdef double work = 0.2 * n_steps * self.n_rows * (
            up.n_inputs * up.n_panels + down.n_inputs * down.n_panels
        )
        cdef Py_ssize_t n_units = self.n_rows // unit
        self.n_threads = min(n_units, effective_n_threads(work, LEAST_WORK))
        # About as many rows as a cache has room for, no idle threads.
        self.n_blocks = max(self.n_threads, (n_units * unit + 127) // 128)
        self.n_blocks = min(n_units, self.n_blocks)
        self.n_units = n_units
        self.n_most = (n_units + self.n_blocks - 1) // self.n_blocks * unit
        self.scratch_size = (
            self.n_most * PANEL_BYTES * (up.n_panels + 3 + 2 * GROUP)
        )
        self.memory = [aligned(self.n_threads * self.scratch_size)]
        self.scratch = address(self.memory[0])
        self.draw.key, self.draw.step = key, step

    cdef void begin(self, char *scratch) noexcept nogil:
        """Let the gains in a thread's scratch begin at nothing."""
        cdef Py_ssize_t at = self.n_most * PANEL_BYTES * self.up.n_panels
        self.up.leaves.start_gains(scratch + at, self.n_most)

    cdef void look(
        self, Py_ssize_t first, Py_ssize_t last, bint gain, bint means, char *fields
    ) noexcept nogil:
        """Hidden fields of rows first..last and (if wanted) gains for their aims.

        With `means`, probabilities at the aims take the place of the fields.
        """
        cdef Py_ssize_t n = last - first, stride = n * PANEL_BYTES, r, p
        cdef char *gains = fields + self.n_most * PANEL_BYTES * self.up.n_panels
        cdef ActiveRows active
        for r in range(first, last):
            self.visible.list_row(r)
        active = self.visible.at(first)
        p = self.up.n_panels
        self.up.fields(&active, n, 0, p, self.up.panels(0, p, NULL), fields, stride)
        if not gain:
            return
        for r in range(first, last):
            self.gains[r] = (self.aims[r] - self.betas[r]) * self._linear(r)
        for p in range(self.up.n_panels):
            self.up.leaves.gain(
                fields + p * stride, n, self.path.base_hidden + p * PANEL_BYTES,
                &self.betas[first], &self.aims[first], means, gains,
            )
            if p % FLUSH_GAINS == FLUSH_GAINS - 1 or p == self.up.n_panels - 1:
                self.up.leaves.end_gains(gains, n, &self.gains[first])

    cdef double _linear(self, Py_ssize_t r) noexcept nogil:
        """Sum of the slopes of the visible units that are on."""
        cdef double total = 0
        cdef Py_ssize_t w
        cdef uint64_t word
        for w in range(self.visible.n_words):
            word = self.visible.words[r * self.visible.n_words + w]
            while word:
                total += self.path.slope[64 * w + lowest_bit(word)]
                word &= word - 1
        return total

    cdef void move(
        self, Py_ssize_t first, Py_ssize_t last, uint64_t step, bint means,
        char *fields,
    ) noexcept nogil:
        """Draw hidden units, then visible ones, at the betas of rows first..last.

        From the fields of the hidden units or, with `means`, their probabilities.
        """
        cdef Py_ssize_t n = last - first, stride = n * PANEL_BYTES, r, p
        cdef char *room = fields + self.n_most * PANEL_BYTES * (self.up.n_panels + 3)
        cdef Draw draw = self.draw
        cdef Sweep sweep
        draw.step, draw.row0 = draw.step + step, <uint32_t> first
        draw.room = <uint16_t *> (room + GROUP * stride)
        for p in range(self.up.n_panels):
            if not means:
                self.up.leaves.temper(
                    fields + p * stride, n, self.path.base_hidden + p * PANEL_BYTES,
                    &self.betas[first],
                )
                self.up.leaves.logistic(fields + p * stride, n)
            self.up.leaves.bernoulli(
                fields + p * stride, n, <uint32_t> p, draw.key, draw.step, draw.row0,
                DRAW_HIDDEN, draw.room,
                <char *> (self.hidden.words + first * self.hidden.n_words)
                + p * self.up.leaves.lanes // 8,
                self.hidden.n_words * 8,
            )
        if not self.words:
            for r in range(first, last):
                self.hidden.list_row(r)
        draw.purpose = DRAW_VISIBLE
        sweep = bits_sweep(self.hidden, first, self.visible, first, n, room, draw)
        sweep.base, sweep.betas = self.path.base_visible, &self.betas[first]
        sample_panels(
            self.down, &sweep, 1, 0, self.down.n_panels, room + 2 * GROUP * stride
        )
        if self.mask is not None:
            for r in range(first, last):
                self.visible.clamp_row(self.mask, self.fixed, r)

    cdef void aim(
        self, Py_ssize_t e, int32_t[:, ::1] levels, const double[::1] betas,
        Py_ssize_t parity,
    ) noexcept nogil:
        """Point the chains of ensemble e at the betas of their partners.

        Levels 2k + parity and 2k + 1 + parity are partners.
        """
        cdef Py_ssize_t t, level, to
        for t in range(self.unit):
            level = to = levels[e, t]
            if (level - parity) % 2 == 0:
                to = level + 1
            elif level >= parity:
                to = level - 1
            if not 0 <= to < self.unit:
                to = level
            self.betas[e * self.unit + t] = betas[level]
            self.aims[e * self.unit + t] = betas[to]

    cdef void swap(
        self, Py_ssize_t e, int32_t[:, ::1] levels, Py_ssize_t parity, uint64_t step
    ) noexcept nogil:
        """Let partners of ensemble e swap their levels with the right probability."""
        cdef Py_ssize_t level, t, low, high, first = e * self.unit
        cdef uint32_t[4] x
        cdef double u
        step += self.draw.step
        for level in range(parity, self.unit - 1, 2):
            low = high = 0
            for t in range(self.unit):
                if levels[e, t] == level:
                    low = t
                elif levels[e, t] == level + 1:
                    high = t
            random_words(
                x, <uint32_t> level, <uint32_t> e, step, DRAW_SWAP, self.draw.key
            )
            u = (x[0] + 0.5) / 4294967296.0
            if log(u) < self.gains[first + low] + self.gains[first + high]:
                levels[e, low], levels[e, high] = level + 1, level
                self.betas[first + low] = self.aims[first + low]
                self.betas[first + high] = self.aims[first + high]


def anneal(
    Path path, states, const double[::1] betas, double[::1] log_weights,
    Py_ssize_t start, Py_ssize_t stop, key, step=0, clamped=None,
):
    """Take chains along betas[start..stop], in place.

    states : bool array (n_chains, n_visible), drawn at betas[start].
    log_weights : float64 (n_chains,); log p(betas[k + 1], v) - log p(betas[k], v),
    unnormalised, is added at every step k, before the sweep at betas[k + 1] which
    uses random step `step` + k. There is no sweep at the last of all betas.
    """
    if not 0 <= start <= stop < betas.shape[0]:
        raise ValueError(f"there are no steps {start}..{stop}")
    if log_weights.shape[0] != states.shape[0]:
        raise ValueError("there must be a weight for every chain")
    if states.shape[0] == 0:
        return
    cdef Team team = Team(path, states, stop - start, key, step, 1, clamped)
    cdef Py_ssize_t block, first, last, k, r
    cdef int thread, n_threads
    cdef char *scratch
    with nogil, parallel(num_threads=team.n_threads):
        thread = omp_get_thread_num()
        n_threads = omp_get_num_threads()
        scratch = team.scratch + thread * team.scratch_size
        team.begin(scratch)
        for block in range(
            bound(team.n_blocks, thread, n_threads),
            bound(team.n_blocks, thread + 1, n_threads),
        ):
            first = bound(team.n_units, block, team.n_blocks)
            last = bound(team.n_units, block + 1, team.n_blocks)
            for k in range(start, stop):
                for r in range(first, last):
                    team.betas[r], team.aims[r] = betas[k], betas[k + 1]
                team.look(first, last, True, True, scratch)
                for r in range(first, last):
                    log_weights[r] += team.gains[r]
                    team.betas[r] = betas[k + 1]
                if k + 1 < betas.shape[0] - 1:
                    team.move(first, last, k, True, scratch)
    states[...] = team.visible.get(path.down.n_units, bool)


def exchange(
    Path path, states, int32_t[:, ::1] levels, const double[::1] betas,
    Py_ssize_t start, Py_ssize_t stop, key, step=0, clamped=None,
    gains=None, visits=None,
):
    """Sweeps start..stop of ensembles of chains that exchange their betas, in place.

    states : bool array (n_ensembles * n_betas, n_visible).
    levels : int32 (n_ensembles, n_betas); chain t of ensemble e is at
    betas[levels[e, t]].
    gains, visits : None, or float64 and int32 arrays (stop - start, n_ensembles,
    n_betas) for every sweep:
    log p at the partner's beta less that at the own one (unnormalised), and the
    level it had before the swap. Level l and l + 1 are partners in sweeps s with
    s - l even. A swap comes before the hidden units are drawn.
    """
    cdef Py_ssize_t unit = betas.shape[0]
    if levels.shape[1] != unit or levels.shape[0] * unit != states.shape[0]:
        raise ValueError("levels must have a row for every ensemble")
    shape = (stop - start, levels.shape[0], unit)
    for record in (gains, visits):
        if record is not None and record.shape != shape:
            raise ValueError(f"a record must have the shape {shape}")
    if states.shape[0] == 0:
        return
    cdef Team team = Team(path, states, stop - start, key, step, unit, clamped)
    cdef Py_ssize_t block, first, last, s, e, t
    cdef int thread, n_threads
    cdef char *scratch
    cdef bint note = gains is not None
    cdef double[:, :, ::1] gains_ = gains
    cdef int32_t[:, :, ::1] visits_ = visits
    with nogil, parallel(num_threads=team.n_threads):
        thread = omp_get_thread_num()
        n_threads = omp_get_num_threads()
        scratch = team.scratch + thread * team.scratch_size
        team.begin(scratch)
        for block in range(
            bound(team.n_blocks, thread, n_threads),
            bound(team.n_blocks, thread + 1, n_threads),
        ):
            first = bound(team.n_units, block, team.n_blocks)
            last = bound(team.n_units, block + 1, team.n_blocks)
            for s in range(start, stop):
                for e in range(first, last):
                    team.aim(e, levels, betas, s % 2)
                team.look(first * unit, last * unit, unit > 1, False, scratch)
                for e in range(first, last):
                    if note:
                        for t in range(unit):
                            gains_[s - start, e, t] = team.gains[e * unit + t]
                            visits_[s - start, e, t] = levels[e, t]
                    team.swap(e, levels, s % 2, s)
                team.move(first * unit, last * unit, s, False, scratch)
    states[...] = team.visible.get(path.down.n_units, bool)
