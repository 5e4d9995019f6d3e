# Training of a restricted Boltzmann machine by (persistent) contrastive divergence.
#
# One minibatch, in phases that all threads do together, each on its own panels,
# rows or features:
#
#   _read           rows of the data become bits and lists
#   _jump           of chains to hidden states of rows, if wanted and due (_jumps.pyx)
#   _sweep_down     chains: visible units from hidden ones (_gibbs.pyx)
#   _list_features  for each feature, in which rows of four it is on, and its change of
#                   mean
#   _sweep_up       chains: hidden units from visible ones; after the last sweep down
#                   together with the data, and while a group of panels is in the cache:
#     _tabulate     sums of all subsets of p(h | row) of four rows, each phase averaged
#     _update       gradient feature by feature, as a sum of table entries; offsets,
#                   decay, momentum, step and average in the same pass over the weights,
#                   and the sums of neighbouring weights that the next sweeps up use
#   _learn          the two above; then the biases of the visible units, which need
#                   p(h | row) whole
import numpy as np

from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ._gibbs cimport (
    BLOCK,
    DRAW_DATA,
    DRAW_HIDDEN,
    DRAW_VISIBLE,
    LEAST_PAIR_ROWS,
    LEAST_WORK,
    NO_DRAW,
    Bits,
    Draw,
    Layer,
    Sweep,
    bits_sweep,
    sample_panels,
)
from ._jumps cimport Jumps
from ._minibatches cimport Minibatches, Place, share_in_average
from ._openmp cimport bound, team_barrier
from ._panels cimport Panels
from ._rows cimport RowBlock, Rows, lower_bound
from ._simd cimport (
    GROUP,
    PANEL_BYTES,
    ActiveRows,
    PanelUpdate,
    VisibleUpdate,
    select_leaves,
)
from ._units cimport Units

from ._openmp import effective_n_threads
from ._units import Kind


ctypedef fused real:
    float
    double

# Real data of which at least this share is not zero are kept as dense rows. (A smaller
# one than in _gibbs.pyx, as the gradient gains more by it.)
cdef double DENSE = 0.25


cdef struct Pass:
    # The n rows and m chains (from first_chain on) that a minibatch works on at a time,
    # which share each has in the mean of its phase, whether they are the first and the
    # last ones, and the rates of the step and of the averages (0: nothing enters).
    Py_ssize_t n, m, first_chain
    double data_share, chain_share
    bint first, last
    double rate, average_rate


cdef class Trainer(Minibatches):
    """A restricted Boltzmann machine in training.

    Holds the packed parameters, their velocities and averages, the chains and
    every buffer; `run` advances it by minibatches in one call without the GIL.
    A minibatch is worked on in passes of at most BLOCK rows and BLOCK chains
    whose gradients add up; the last of them takes the step. A pass is
    `n_gibbs_steps` sweeps of its chains, and training can stop after any sweep.
    """

    # Each may change between minibatches.
    cdef public double l1_decay, max_norm, offset_rate
    cdef public double sparsity_target, sparsity_cost, fast_learning_rate
    cdef public bint nesterov
    cdef RowBlock room
    cdef Layer up, down
    # As the chains see them: with the fast parameters, or the same.
    cdef Layer chain_up, chain_down
    cdef Bits hidden, visible
    cdef PanelUpdate update
    cdef VisibleUpdate visible_update
    cdef char *data_total
    cdef char *chain_total
    cdef char *next_offset
    cdef double *changes
    cdef double *projections
    # Of a pass: lists of the gradient, means, and the share of every row times its
    # means . offset, also of the subsets in tables.
    cdef ActiveRows groups, reals
    cdef bint dense
    cdef char *data_means
    cdef char *chain_means
    cdef double *row_projections
    cdef double *entry_projections
    # Of jumps: what is proposed as bits, and room.
    cdef Jumps jumps
    cdef Bits proposed
    cdef char *jump_fields
    cdef char *jump_room
    # Of a thread: what sweeps or what an update needs.
    cdef char *scratch
    cdef Py_ssize_t scratch_size

    def __cinit__(
        self, Rows rows, components, intercept_hidden, intercept_visible, *,
        Py_ssize_t batch_size, chains, key, step, Py_ssize_t n_gibbs_steps,
        visible_offset, hidden_offset,
    ):
        """chains : 0/1 array (n_chains, n_hidden), or None without persistence."""
        self.rows, self.key, self.step = rows, key, step
        self.persistent, self.n_gibbs_steps = chains is not None, n_gibbs_steps
        self.n_hidden, self.n_visible = components.shape
        self.dtype = rows.dtype
        self.leaves = select_leaves(self.dtype.itemsize)
        self.batch_size = min(batch_size, rows.n_rows)
        self.n_chains = chains.shape[0] if self.persistent else self.batch_size
        self.n_passes = (max(self.n_chains, self.batch_size) + BLOCK - 1) // BLOCK
        components = np.asarray(components, self.dtype)
        paired = self.n_chains >= LEAST_PAIR_ROWS
        self.up = Layer(Panels.from_columns(components, paired), intercept_hidden)
        self.down = Layer(self.up.weights, intercept_visible, turned=True)
        self.chain_up, self.chain_down = self.up, self.down
        self.hidden = Bits(
            self.n_chains if self.persistent else min(BLOCK, self.batch_size),
            self.n_hidden,
        )
        if self.persistent:
            self.hidden.set(chains)
        self.visible = Bits(
            min(BLOCK, self.n_chains), self.n_visible, self.up.weights.first_pair
        )
        self._allocate(min(BLOCK, self.batch_size), min(BLOCK, self.n_chains))
        self._array("visible_offset")[: self.n_visible] = visible_offset
        self._array("hidden_offset")[: self.n_hidden] = hidden_offset

    def _allocate(self, Py_ssize_t n, Py_ssize_t m):
        """Buffers for passes of at most n rows and m chains."""
        cdef Py_ssize_t n_panels = self.up.n_panels
        cdef Py_ssize_t n_features = self.rows.n_words * 64
        cdef Py_ssize_t entries = 16 * ((m + 3) // 4)
        cdef bint binary = self.rows.binary
        cdef Py_ssize_t on_panels = n_panels * PANEL_BYTES
        cdef Py_ssize_t on_features = self.down.n_panels * PANEL_BYTES
        cdef int n_threads = effective_n_threads(self._work(), LEAST_WORK)
        self.n_threads = n_threads
        if binary:
            entries += 16 * ((n + 3) // 4)
        self.dense = self.rows.is_dense(DENSE)
        self.room = RowBlock(self.rows, n, n_threads, self.dense)
        if binary:
            self.room.first_pair = self.up.weights.first_pair
            self.room.use_words()
        self.memory = {}
        self.update.visible_offset = self._bytes("visible_offset", on_features)
        self.update.hidden_offset = self._bytes("hidden_offset", on_panels)
        self.next_offset = self._bytes("next_offset", on_panels)
        self.update.carry = NULL
        if self.n_passes > 1:
            self.update.carry = self._bytes("carry", n_panels * self.up.weights.stride)
        self.data_total = self._bytes("data_total", on_panels)
        self.chain_total = self._bytes("chain_total", on_panels)
        self.changes = <double *> self._bytes("changes", n_features * 8)
        self.projections = <double *> self._bytes("projections", n_features * 8)
        self.groups.stride = entries // 16
        self.groups.index = <uint32_t *> self._bytes(
            "groups", n_features * self.groups.stride * 4
        )
        self.groups.length = <int32_t *> self._bytes("group_lengths", n_features * 4)
        self.groups.value = NULL
        self.reals.stride = 0 if binary or self.dense else n
        self.reals.index = <uint32_t *> self._bytes(
            "reals", n_features * self.reals.stride * 4
        )
        self.reals.value = self._bytes(
            "real_values", n_features * self.reals.stride * self.dtype.itemsize
        )
        self.reals.length = <int32_t *> self._bytes("real_lengths", n_features * 4)
        self.data_means = self._bytes("data_means", n * on_panels)
        self.chain_means = self._bytes("chain_means", m * on_panels)
        self.row_projections = <double *> self._bytes(
            "row_projections", (n + m + 8) * 8
        )
        self.entry_projections = <double *> self._bytes(
            "entry_projections", entries * 8
        )
        self.scratch_size = max(
            GROUP * PANEL_BYTES * (entries + n),
            GROUP * PANEL_BYTES * 2 * max(n, m) + self.down.room(GROUP),
        )
        self.scratch = self._bytes("scratch", n_threads * self.scratch_size)

    def _array(self, name):
        return self.memory[name].view(self.dtype)

    def _work(self):
        """Panel rows summed in a sweep with its update, roughly."""
        cdef double data = self.batch_size * self.rows.density * self.n_visible
        cdef double chain = self.n_chains * 0.2
        return (
            data * 1.5 * self.up.n_panels
            + chain * 2 * self.n_visible * self.up.n_panels
        )

    # ---- What Python sees: parameters, averages, velocities, chains ----

    def parameters(self):
        """components (n_hidden, n_visible), hidden and visible intercepts."""
        return (
            self.up.weights.columns(),
            self._intercept(self.up, self.n_hidden),
            self._intercept(self.down, self.n_visible),
        )

    def _intercept(self, Layer layer, n):
        return layer.bias_memory.view(self.dtype)[:n].copy()

    def start_average(self, Py_ssize_t spacing=1):
        """Begin a new average of the parameters after every spacing-th minibatch."""
        self._follow("average")
        self.n_passed, self.spacing = 0, spacing

    def averages(self):
        """Like `parameters`, averaged since `start_average`."""
        if self.update.average == NULL or self.n_passed < self.spacing:
            return self.parameters()
        return self._followed("average")

    def start_velocity(self, velocity=None):
        """Keep velocities, from zero or from what `velocities` returned."""
        self._follow("velocity", velocity)

    def velocities(self):
        return self._followed("velocity")

    def start_fast(self, fast=None):
        """Give the chains fast parameters to add to the others.

        They start from zero or from what `fast_parameters` returned.
        """
        self._follow("fast", fast)
        components, hidden, visible = (
            x + f
            for x, f in zip(self.parameters(), self.fast_parameters(), strict=True)
        )
        cdef Panels weights = Panels.from_columns(
            components, self.up.weights.first_pair > 0
        )
        self.chain_up = Layer(weights, hidden)
        self.chain_down = Layer(weights, visible, turned=True)
        self.update.with_fast = weights.data
        self.update.hidden_with_fast = self.chain_up.bias
        self.visible_update.with_fast = self.chain_down.bias

    def fast_parameters(self):
        return self._followed("fast")

    def _follow(self, name, start=None):
        """Room for one more copy of the parameters, from zero or from `start`."""
        cdef Py_ssize_t n_panels = self.up.n_panels
        cdef char *weights = self._bytes(name, n_panels * self.up.weights.stride)
        cdef char *hidden = self._bytes("hidden_" + name, n_panels * PANEL_BYTES)
        cdef char *visible = self._bytes(
            "visible_" + name, self.down.n_panels * PANEL_BYTES
        )
        if name == "average":
            self.update.average, self.update.hidden_average = weights, hidden
            self.visible_update.average = visible
        elif name == "velocity":
            self.update.velocity, self.update.hidden_velocity = weights, hidden
            self.visible_update.velocity = visible
        else:
            self.update.fast, self.update.hidden_fast = weights, hidden
            self.visible_update.fast = visible
        if start is not None:
            packed = Panels.from_columns(np.asarray(start[0], self.dtype))
            self._array(name)[:] = packed.view().ravel()
            self._array("hidden_" + name)[: self.n_hidden] = start[1]
            self._array("visible_" + name)[: self.n_visible] = start[2]

    def _followed(self, name):
        packed = Panels(self.n_visible, self.n_hidden, self.dtype)
        packed.view().ravel()[:] = self._array(name)
        return (
            packed.columns(),
            self._array("hidden_" + name)[: self.n_hidden].copy(),
            self._array("visible_" + name)[: self.n_visible].copy(),
        )

    def weight_norm(self):
        """Frobenius norm of the weights."""
        # Not by BLAS, whose sums depend on the number of threads. (Panel by panel: new
        # memory for all squares takes longer than they do.)
        panels = self.up.weights.view()
        return float(np.sqrt(sum(np.square(x).sum(dtype=float) for x in panels)))

    def hidden_offset(self):
        return self._array("hidden_offset")[: self.n_hidden].copy()

    def chains(self):
        """States of the persistent chains, (n_chains, n_hidden)."""
        return self.hidden.get(self.n_hidden, self.dtype)

    def set_chains(self, states):
        """Let the persistent chains go on from 0/1 states, (n_chains, n_hidden)."""
        self.hidden.set(states)

    def start_jumps(self, state=None):
        """Let the chains jump to hidden states of rows, from now or from a state on.

        For persistent chains without fast parameters.
        """
        cdef Units units = Units([(Kind.BERNOULLI, self.n_hidden, 1)])
        cdef Py_ssize_t h_bytes = self.up.n_panels * PANEL_BYTES
        self.jumps = Jumps(
            units, self.n_chains, h_bytes, self.dtype, self.n_visible, self.batch_size,
            seldom=True,
        )
        self.proposed = Bits(self.n_chains, self.n_hidden)
        cdef Py_ssize_t n_panels = max(self.up.n_panels, 2 * self.down.n_panels)
        self.jump_fields = self._bytes("jump_fields", BLOCK * n_panels * PANEL_BYTES)
        self.jump_room = self._bytes(
            "jump_room",
            max(units.room(self.leaves), self.down.room(GROUP), h_bytes),
        )
        if state is not None:
            self.jumps.go_on(state)

    def jumps_state(self):
        """What `start_jumps` goes on from, or None without jumps."""
        return None if self.jumps is None else self.jumps.state()

    # ---- Training ----

    def run(self, start, stop, n_threads=1):
        """See `Minibatches.run`."""
        self._point()
        super().run(start, stop, n_threads)

    def _point(self):
        """What an update needs and does not change from pass to pass."""
        self.update.n_features = self.n_visible
        self.update.panel_stride = self.up.weights.stride
        self.update.bits = &self.groups
        self.update.reals = self.update.values = NULL
        if self.dense:
            self.update.values = self.room.dense
            self.update.value_stride = self.n_visible
        elif not self.rows.binary:
            self.update.reals = &self.reals
        self.update.momentum = self.visible_update.momentum = self.momentum
        self.update.weight_decay = self.weight_decay
        self.update.nesterov = self.visible_update.nesterov = self.nesterov
        self.update.max_norm = self.max_norm
        self.update.sparsity_target = self.sparsity_target
        self.update.sparsity_cost = self.sparsity_cost
        self.update.fast_rate = self.fast_learning_rate
        self.visible_update.fast_rate = self.fast_learning_rate
        self.update.offset_rate = self.offset_rate
        self._point_drift()
        self.visible_update.bias = self.down.bias
        self.visible_update.offset = self.update.visible_offset
        self.update.visible_change = self.visible_update.changes = self.changes
        self.visible_update.projections = self.projections

    def _point_drift(self):
        """Room for what moves the weights besides their gradient.

        Biases give way to it where something is centred.
        """
        cdef Py_ssize_t n_groups = (self.up.n_panels + GROUP - 1) // GROUP
        moved = self.weight_decay or self.l1_decay or self.max_norm
        centred = (
            self.offset_rate
            or self._array("visible_offset").any()
            or self._array("hidden_offset").any()
        )
        self.update.drift = NULL
        if moved and centred:
            self.update.drift = <double *> self._bytes(
                "drift", n_groups * self.n_visible * 16
            )
        self.visible_update.drift = self.update.drift
        self.visible_update.n_groups = n_groups
        self.visible_update.n_features = self.n_visible

    cdef void _sweep(self, Place now, int thread, int team) noexcept nogil:
        """One sweep, as one thread of a team does it; all threads keep step."""
        cdef Py_ssize_t at = now.part * BLOCK
        cdef Pass work, only
        work.n = max(0, min(BLOCK, now.n_rows - at))
        work.m = max(0, min(BLOCK, now.n_chains - at))
        work.first_chain = at if self.persistent else 0
        work.data_share, work.chain_share = 1.0 / now.n_rows, -1.0 / now.n_chains
        work.first, work.last = now.part == 0, now.part == self.n_passes - 1
        work.rate = self.rates[now.batch]
        work.average_rate = 0
        if self.update.average != NULL:
            work.average_rate = share_in_average(self.n_passed + 1, self.spacing)
        cdef Draw draw
        draw.key, draw.row0 = self.key, <uint32_t> at
        draw.room = <uint16_t *> (
            self.scratch + thread * self.scratch_size + GROUP * work.m * PANEL_BYTES
        )
        cdef Py_ssize_t start = bound(self.up.n_panels, thread, team)
        cdef Py_ssize_t stop = bound(self.up.n_panels, thread + 1, team)
        only = work
        if now.number == 0:
            self._read(now.first + at, work.n, thread, team)
            if not self.persistent:
                team_barrier()
                draw.step, draw.purpose = self.step, DRAW_DATA
                only.m = 0
                self._sweep_up(&only, draw, start, stop, thread)
                team_barrier()
            if (
                now.part == 0 and self.jumps is not None
                and self.jumps.is_due(self.step, self.n_gibbs_steps)
            ):
                team_barrier()
                if thread == 0:
                    self._jump(work.n)
                team_barrier()
        draw.step = self.step + now.number
        self._sweep_down(&work, draw, thread, team)
        if now.last:
            self._list_features(&work, thread, team)
        team_barrier()
        draw.purpose = DRAW_HIDDEN
        if now.last:
            self._learn(&work, draw, thread, team)
            return
        only.n, only.m = 0, work.m
        self._sweep_up(&only, draw, start, stop, thread)
        team_barrier()

    cdef void _read(
        self, Py_ssize_t first, Py_ssize_t n, int thread, int team
    ) noexcept nogil:
        """The n rows of a pass."""
        cdef Py_ssize_t r
        for r in range(bound(n, thread, team), bound(n, thread + 1, team)):
            if first + r + 2 < self.order.shape[0]:
                self.rows.prefetch(self.order[first + r + 2])
            self.room.read(self.rows, r, self.order[first + r], thread)

    # ---- Jumps ----

    cdef void _jump(self, Py_ssize_t n) noexcept nogil:
        """Jumps of all chains, to hidden states of the n rows read or of earlier ones.

        By one thread: small machines have no more, and in others jumps are rare.
        """
        cdef Py_ssize_t n_words = self.hidden.n_words
        cdef Py_ssize_t r
        self._keep_rows(n)
        self.jumps.propose(self.key, self.step, 0, 1, self.jump_room)
        if self.leaves.itemsize == 4:
            self._exchange_states(<float> 0)
        else:
            self._exchange_states(<double> 0)
        self._log_partitions()
        self.jumps.take_products(0, 1)
        self.jumps.choose(self.up.bias, self.key, self.step, 0, 1)
        for r in range(self.n_chains):
            if self.jumps.accepted[r]:
                memcpy(
                    self.hidden.words + r * n_words, self.proposed.words + r * n_words,
                    n_words * 8,
                )
        self.jumps.end_jump(self.step, self.n_gibbs_steps)

    cdef void _keep_rows(self, Py_ssize_t n) noexcept nogil:
        """Keep the fields of the hidden units given n rows."""
        cdef ActiveRows rows = self.room.at(0)
        cdef Py_ssize_t n_panels = self.up.n_panels, r, p
        self.up.fields(
            &rows, n, 0, n_panels, self.up.panels(0, n_panels, NULL), self.jump_fields,
            n * PANEL_BYTES,
        )
        for r in range(n):
            for p in range(n_panels):
                memcpy(
                    self.jump_room + p * PANEL_BYTES,
                    self.jump_fields + (p * n + r) * PANEL_BYTES, PANEL_BYTES,
                )
            self.jumps.store(r, self.jump_room)
        self.jumps.end_minibatch(n)

    cdef void _exchange_states(self, real kind) noexcept nogil:
        """Bits of the chains as numbers, and what is proposed to them as bits."""
        cdef Py_ssize_t n_words = self.hidden.n_words, r, w, j
        cdef uint64_t chain, proposed
        cdef real *state
        cdef const real *new
        for r in range(self.n_chains):
            state = <real *> (self.jumps.states + r * self.jumps.h_bytes)
            new = <const real *> (self.jumps.proposed + r * self.jumps.h_bytes)
            for w in range(n_words):
                chain, proposed = self.hidden.words[r * n_words + w], 0
                for j in range(min(64, self.n_hidden - 64 * w)):
                    state[64 * w + j] = <real> ((chain >> j) & 1)
                    proposed |= (<uint64_t> (new[64 * w + j] != 0)) << j
                self.proposed.words[r * n_words + w] = proposed

    cdef void _log_partitions(self) noexcept nogil:
        """Of the visible units, given the hidden states of chains and of proposals."""
        cdef Py_ssize_t n_panels = self.down.n_panels, first = 0, m, r, p, q
        cdef Py_ssize_t half = BLOCK * n_panels * PANEL_BYTES
        cdef ActiveRows now, then
        cdef const char *panels
        cdef char *fields = self.jump_fields
        while first < self.n_chains:
            m = min(BLOCK, self.n_chains - first)
            for r in range(first, first + m):
                self.hidden.list_row(r)
                self.proposed.list_row(r)
            now, then = self.hidden.at(first), self.proposed.at(first)
            p = 0
            while p < n_panels:
                q = min(p + GROUP, n_panels)
                panels = self.down.panels(p, q, self.jump_room)
                fields = self.jump_fields + p * m * PANEL_BYTES
                self.down.fields(&now, m, p, q, panels, fields, m * PANEL_BYTES)
                self.down.fields(
                    &then, m, p, q, panels, fields + half, m * PANEL_BYTES
                )
                p = q
            for r in range(m):
                fields = self.jump_fields + r * PANEL_BYTES
                self.jumps.visible_now[first + r] = self.leaves.softplus_sum(
                    fields, m * PANEL_BYTES, n_panels
                )
                self.jumps.visible_then[first + r] = self.leaves.softplus_sum(
                    fields + half, m * PANEL_BYTES, n_panels
                )
            first += m

    # ---- Half-sweeps ----

    cdef void _sweep_up(
        self, const Pass *work, Draw draw, Py_ssize_t start, Py_ssize_t stop, int thread
    ) noexcept nogil:
        """Means of the hidden units of panels start..stop, sampled for the chains.

        Of rows of data alone without persistence, the samples are where chains start.
        """
        cdef Py_ssize_t n = work.n, m = work.m
        cdef Sweep[2] sweeps
        cdef int n_sweeps = 0
        cdef char *room = (
            self.scratch + thread * self.scratch_size
            + 2 * GROUP * max(n, m) * PANEL_BYTES
        )
        if m:
            sweeps[0] = bits_sweep(
                self.visible, 0, self.hidden, work.first_chain, m,
                self.chain_means + start * m * PANEL_BYTES, draw,
            )
            sweeps[0].keep_fields = True
            n_sweeps = 1
        if self.update.fast != NULL:
            # Weights of their own; otherwise data and chains share a reading.
            sample_panels(self.chain_up, sweeps, n_sweeps, start, stop, room)
            n_sweeps = 0
        if n:
            if self.persistent:
                draw.purpose = NO_DRAW
            sweeps[n_sweeps] = bits_sweep(
                self.visible, 0, self.hidden, work.first_chain, n,
                self.data_means + start * n * PANEL_BYTES, draw,
            )
            sweeps[n_sweeps].given, sweeps[n_sweeps].keep_fields = self.room.at(0), True
            n_sweeps += 1
        sample_panels(self.up, sweeps, n_sweeps, start, stop, room)

    cdef void _sweep_down(
        self, const Pass *work, Draw draw, int thread, int team
    ) noexcept nogil:
        """Sample the visible units of the chains, and list those that are on."""
        cdef char *scratch = self.scratch + thread * self.scratch_size
        cdef Sweep sweep
        cdef Py_ssize_t r, m = work.m
        for r in range(bound(m, thread, team), bound(m, thread + 1, team)):
            self.hidden.list_row(work.first_chain + r)
        team_barrier()
        draw.purpose = DRAW_VISIBLE
        sweep = bits_sweep(
            self.hidden, work.first_chain, self.visible, 0, m, scratch, draw
        )
        sample_panels(
            self.chain_down, &sweep, 1, bound(self.down.n_panels, thread, team),
            bound(self.down.n_panels, thread + 1, team),
            scratch + 2 * GROUP * m * PANEL_BYTES,
        )
        team_barrier()
        for r in range(bound(m, thread, team), bound(m, thread + 1, team)):
            self.visible.list_row(r)

    # ---- Gradient and step ----

    cdef void _list_features(
        self, const Pass *work, int thread, int team
    ) noexcept nogil:
        """For each feature, the rows it is on in, and the change of its mean."""
        cdef Py_ssize_t word, start, stop, n = work.n
        cdef uint32_t *index
        cdef int32_t *length
        cdef double *change
        cdef Py_ssize_t entries = 0
        start = bound(self.rows.n_words, thread, team)
        stop = bound(self.rows.n_words, thread + 1, team)
        memset(self.groups.length + 64 * start, 0, 64 * (stop - start) * 4)
        if work.first:
            memset(self.changes + 64 * start, 0, 64 * (stop - start) * 8)
        if self.rows.binary:
            entries = 16 * ((n + 3) // 4)
        for word in range(start, stop):
            index = self.groups.index + 64 * word * self.groups.stride
            length = self.groups.length + 64 * word
            change = self.changes + 64 * word
            if self.rows.binary:
                self.leaves.list_groups(
                    self.room.bits, n, self.rows.n_words, word, 0, False, index,
                    self.groups.stride, length, work.data_share, change,
                )
            # (Where rows are dense, so are chains: of any four some are on, and loops
            # of the same length for every feature are foreseen by the processor.)
            self.leaves.list_groups(
                self.visible.words, work.m, self.visible.n_words, word,
                <uint32_t> entries, self.dense, index, self.groups.stride, length,
                work.chain_share, change,
            )
        if self.dense:
            self.leaves.weigh_rows(
                self.room.dense, self.n_visible, n, NULL, work.data_share, 64 * start,
                min(64 * stop, self.n_visible), self.changes,
            )
        elif not self.rows.binary:
            self._list_reals(work, start, stop)

    cdef void _list_reals(
        self, const Pass *work, Py_ssize_t start, Py_ssize_t stop
    ) noexcept nogil:
        """_list_features for rows with values, of words start..stop."""
        cdef Py_ssize_t r, i
        cdef int32_t k
        cdef double x
        cdef ActiveRows active
        memset(self.reals.length + 64 * start, 0, 64 * (stop - start) * 4)
        for r in range(work.n):
            active = self.room.at(r)
            k = lower_bound(active.index, active.length[0], <uint32_t> (64 * start))
            while k < active.length[0] and active.index[k] < 64 * stop:
                i = active.index[k]
                i = i * self.reals.stride + self.reals.length[i]
                self.reals.index[i] = <uint32_t> r
                if self.leaves.itemsize == 4:
                    x = (<float *> active.value)[k]
                    (<float *> self.reals.value)[i] = <float> x
                else:
                    x = (<double *> active.value)[k]
                    (<double *> self.reals.value)[i] = x
                self.reals.length[active.index[k]] += 1
                self.changes[active.index[k]] += x * work.data_share
                k += 1

    cdef void _project(
        self, const Pass *work, int thread, int team
    ) noexcept nogil:
        """For each row: its share times h . offset."""
        cdef Py_ssize_t n_groups = (work.n + 3) // 4, m_groups = (work.m + 3) // 4
        cdef Py_ssize_t g, start, stop
        cdef double *rows
        cdef double *entries
        start = bound(n_groups + m_groups, thread, team)
        stop = bound(n_groups + m_groups, thread + 1, team)
        for g in range(start, stop):
            rows = self.row_projections + 4 * g
            entries = self.entry_projections + 16 * g
            if g < n_groups:
                self._project_group(
                    self.data_means, work.n, 4 * g, work.data_share, rows,
                    entries if self.rows.binary else NULL,
                )
            else:
                self._project_group(
                    self.chain_means, work.m, 4 * (g - n_groups), work.chain_share,
                    rows, entries if self.rows.binary else entries - 16 * n_groups,
                )

    cdef void _project_group(
        self, const char *means, Py_ssize_t n, Py_ssize_t first, double share,
        double *rows, double *entries,
    ) noexcept nogil:
        """Of four rows, and (if wanted) of their 16 subsets."""
        cdef Py_ssize_t k, b, count = min(4, n - first)
        memset(rows, 0, 4 * sizeof(double))
        self.leaves.project(
            means + first * PANEL_BYTES, n * PANEL_BYTES, count, self.up.n_panels,
            self.update.hidden_offset, rows,
        )
        for k in range(count):
            rows[k] *= share
        if entries == NULL:
            return
        entries[0] = 0
        for k in range(4):
            for b in range(1 << k):
                entries[(1 << k) + b] = entries[b] + rows[k]

    cdef void _project_changes(
        self, const Pass *work
    ) noexcept nogil:
        """The change of the hidden means, and the offsets, times the offsets."""
        cdef double change = 0
        cdef Py_ssize_t r
        for r in range(4 * ((work.n + 3) // 4 + (work.m + 3) // 4)):
            change += self.row_projections[r]
        if not work.first:
            change += self.visible_update.projected_change
        self.visible_update.projected_change = change
        self.leaves.project(
            self.update.hidden_offset, PANEL_BYTES, 1, self.up.n_panels,
            self.update.hidden_offset, &self.visible_update.squared_offset,
        )

    cdef void _learn(
        self, const Pass *work, Draw draw, int thread, int team
    ) noexcept nogil:
        """The last sweep up of a pass and its gradient; in the last pass, the step."""
        cdef VisibleUpdate v
        cdef Pass given = work[0]
        cdef Py_ssize_t p, q, start, stop
        if not self.persistent:
            given.n = 0  # the data have been up
        if self.update.drift != NULL:
            # Sums over the panels of a group: groups must not depend on the team.
            p = self.visible_update.n_groups
            start = GROUP * bound(p, thread, team)
            stop = min(GROUP * bound(p, thread + 1, team), self.up.n_panels)
        else:
            start = bound(self.up.n_panels, thread, team)
            stop = bound(self.up.n_panels, thread + 1, team)
        p = start
        while p < stop:
            q = min(p + GROUP, stop)
            self._sweep_up(&given, draw, p, q, thread)
            self._update(work, p, q, thread)
            p = q
        team_barrier()
        self._project(work, thread, team)
        team_barrier()
        start = bound(self.n_visible, thread, team)
        stop = bound(self.n_visible, thread + 1, team)
        self.leaves.feature_sums(
            &self.groups, self.update.reals, self.entry_projections,
            self.row_projections, start, stop, work.first, self.projections,
        )
        if self.dense:
            self.leaves.weigh_rows(
                self.room.dense, self.n_visible, work.n, self.row_projections, 1,
                start, stop, self.projections,
            )
        if thread == 0:
            self._project_changes(work)
            if work.last:
                self.step += self.n_gibbs_steps
                self.n_passed += 1
        team_barrier()
        if not work.last:
            return
        if thread == 0:
            memcpy(
                <char *> self.update.hidden_offset, self.next_offset,
                self.up.n_panels * PANEL_BYTES,
            )
        # (Nobody waits for the others here: the next sweep down is the first to need
        # the biases, and waits before.)
        v = self.visible_update
        v.learning_rate, v.average_rate = work.rate, work.average_rate
        if work.average_rate == 0:
            v.average = NULL
        self.leaves.visible_step(&v, start, stop)

    cdef void _update(
        self, const Pass *work, Py_ssize_t start, Py_ssize_t stop, int thread
    ) noexcept nogil:
        """Tables of a group of panels, their gradient and (last pass) step."""
        cdef Py_ssize_t n = work.n, m = work.m
        cdef PanelUpdate u = self.update
        cdef Py_ssize_t p, n_panels = stop - start
        cdef Py_ssize_t data_size = 16 * ((n + 3) // 4) * PANEL_BYTES
        cdef Py_ssize_t chain_size = 16 * ((m + 3) // 4) * PANEL_BYTES
        # Bytes between panels of data, and between real rows.
        cdef Py_ssize_t data_stride, row_stride = PANEL_BYTES
        cdef char *data = self.scratch + thread * self.scratch_size
        cdef char *chains
        u.first, u.last = work.first, work.last
        u.learning_rate, u.average_rate = work.rate, work.average_rate
        u.shrinkage = work.rate * self.l1_decay
        if self.rows.binary:
            # For each panel, the table of the data and that of the chains.
            u.table, chains = data, data + data_size
            u.table_stride = data_stride = data_size + chain_size
        else:
            # Real rows of all panels, and then the tables of the chains.
            u.table = chains = data + n_panels * n * PANEL_BYTES
            u.table_stride = chain_size
            u.real_rows, u.n_rows, data_stride = data, n, n * PANEL_BYTES
            if self.dense:
                row_stride, data_stride = n_panels * PANEL_BYTES, PANEL_BYTES
            u.real_stride = data_stride
        for p in range(n_panels):
            self._tabulate(
                work, start + p, data + p * data_stride, row_stride,
                chains + p * u.table_stride,
            )
        self._point_at(&u, start)
        self.leaves.update_panels(&u, <int> n_panels)
        if work.last:
            # (The update has done it, but for weights that it scales back at its end.)
            if u.max_norm > 0:
                self.up.weights.sum_pairs(start, stop)
            if u.fast != NULL:
                self.chain_up.weights.sum_pairs(start, stop)

    cdef void _point_at(self, PanelUpdate *u, Py_ssize_t start) noexcept nogil:
        """Let an update see what belongs to the panels from `start` on."""
        cdef Py_ssize_t stride = self.up.weights.stride, at = start * PANEL_BYTES
        u.weights = self.up.weights.data + start * stride
        u.pairs = NULL
        if self.up.weights.first_pair:
            u.pairs = u.weights + <Py_ssize_t> self.up.weights.first_pair * PANEL_BYTES
        u.hidden_bias = self.up.bias + at
        u.hidden_offset = self.update.hidden_offset + at
        u.next_offset = self.next_offset + at
        u.data_total, u.chain_total = self.data_total + at, self.chain_total + at
        if u.drift != NULL:
            u.drift = self.update.drift + 2 * (start // GROUP) * self.n_visible
        if u.carry != NULL:
            u.carry = self.update.carry + start * stride
        if u.velocity != NULL:
            u.velocity = self.update.velocity + start * stride
            u.hidden_velocity = self.update.hidden_velocity + at
        if u.average_rate == 0:
            u.average = u.hidden_average = NULL
        else:
            u.average = self.update.average + start * stride
            u.hidden_average = self.update.hidden_average + at
        if u.fast != NULL:
            u.fast = self.update.fast + start * stride
            u.with_fast = self.update.with_fast + start * stride
            u.hidden_fast = self.update.hidden_fast + at
            u.hidden_with_fast = self.update.hidden_with_fast + at

    cdef void _tabulate(
        self, const Pass *work, Py_ssize_t panel, char *data_table,
        Py_ssize_t row_stride, char *chain_table,
    ) noexcept nogil:
        """Tables of a panel for both phases, and the totals of its means.

        Of real data, no table but rows that are row_stride bytes apart.
        """
        cdef char *data_total = self.data_total + panel * PANEL_BYTES
        cdef char *chain_total = self.chain_total + panel * PANEL_BYTES
        cdef Py_ssize_t n = work.n, m = work.m
        cdef char *data = self.data_means + panel * n * PANEL_BYTES
        cdef char *chains = self.chain_means + panel * m * PANEL_BYTES
        if work.first:
            memset(data_total, 0, PANEL_BYTES)
            memset(chain_total, 0, PANEL_BYTES)
        if self.rows.binary:
            self.leaves.subset_sums(data, n, work.data_share, data_table, data_total)
        else:
            self.leaves.scale_rows(
                data, n, work.data_share, data_table, row_stride, data_total
            )
        self.leaves.subset_sums(chains, m, work.chain_share, chain_table, chain_total)
