# Training of a restricted Boltzmann machine with units of any kind.
#
# As _trainer.pyx does for Bernoulli units, but states are real numbers and the sums
# are products of dense matrices. One minibatch, in phases that all threads do
# together, each on its own rows or blocks (whose size does not depend on the team):
#
#   _read       rows of the data, shifted and scaled
#   _settle     mean field of visible units that rows do not have (deep machines)
#   _jump       of chains to hidden states of rows, if wanted (see _jumps.pyx)
#   _down       visible units of the chains, given hidden ones: product, then draws
#   _up         hidden means of data and chains: product, then means and draws
#   _sum_rows   of hidden units and of visible units, data less chains
#   _update     by blocks of visible units: gradient as a product, then the step
#   _finish     bounds on weights (see _excess.pyx), hidden biases, averages
#
# Gaussian visible units enter products divided by their variance, and their part of
# the gradient is multiplied by it: steps are then the same in any unit of measurement.
#
# With `keep`, those of the chains do not forget where they were: Langevin dynamics in
# place of a draw. The chains are then at visible states too.
#
# A deep machine is trained folded (see layered.py): its visible units are those of the
# even layers, its hidden units those of the odd ones, and not all are connected. Rows
# of data then are shorter than the visible layer; the means of its other units come
# from mean field, before the first sweep.
import numpy as np

from libc.math cimport log, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ._excess cimport Excess
from ._gibbs cimport DRAW_DATA, DRAW_HIDDEN, DRAW_VISIBLE
from ._jumps cimport Jumps
from ._mean_field cimport ROWS, MeanField
from ._minibatches cimport Minibatches, Place, share_in_average
from ._openmp cimport bound, team_barrier
from ._panels cimport address, aligned
from ._products cimport multiply, multiply_shared
from ._rows cimport RowBlock, Rows
from ._simd cimport PANEL_BYTES, ActiveRows, RowUpdate, select_leaves
from ._sparse_states cimport SparseStates
from ._units cimport Kind, Noise, Units, row_draws, row_log_partition, row_means

from ._openmp import effective_n_threads

ctypedef fused real:
    float
    double

cdef enum:
    # Visible units whose means over rows are found together.
    UNITS_BLOCK = 64
    # Visible units whose gradient is found together.
    VISIBLE_BLOCK = 128
    # Multiplications of a minibatch that are worth a second thread.
    LEAST_WORK = 1000000

# Variances are learned at this share of the learning rate: they change what all
# weights of a unit mean.
cdef double VARIANCE_RATE = 0.1
# Least variance, as a share of that of the data.
cdef double LEAST_VARIANCE = 1e-3


cdef void follow_variance(
    real *weights, real *squares, real *by, Py_ssize_t n, double factor, double change
) noexcept nogil:
    """Multiply weights, whose squares are part of sums (NULL if they are not).

    change : of what hidden units see of the visible offset, for each of the weights.
    """
    cdef Py_ssize_t j
    for j in range(n):
        if squares != NULL:
            squares[j] += <real> ((factor * factor - 1) * weights[j] * weights[j])
        weights[j] *= <real> factor
        by[j] += <real> (change * weights[j])


cdef class UnitTrainer(Minibatches):
    """A restricted Boltzmann machine of any units in training.

    The same interface as `_trainer.Trainer`, as far as it goes; parameters are
    components, hidden and visible intercepts, and logarithms of variances.

    visible, hidden : Units; of Gaussian visible units the trainer sets the means
    (to the visible intercepts) and variances.
    learned : of which columns of the rows the variance is learned (they are Gaussian).
    shift, scale : what is subtracted from rows, and what they are divided by then.
    data_variance : variances of the rows then, of which learned ones keep a share.
    clip : bound on the gradient of a weight, or 0.
    keep : share of their distance from their means, given the hidden units, that
    Gaussian units of the chains keep in a sweep.
    unbounded : whether the weights must stay small for there to be a distribution.
    field : MeanField for the visible units that rows do not have.
    connected : bool array (n_visible, n_hidden), or None if all are.
    rate_shares : of the learning rate, which is that of hidden biases, for all that
    belongs to a column of the rows.
    up_scale, down_scale : factors of the weights in the fields of hidden and of
    visible units; both 1 in a machine, but not in the parts of one to be.
    """

    cdef readonly Py_ssize_t n_given
    cdef public double l1_decay, max_norm, offset_rate
    cdef public double sparsity_target, sparsity_cost, clip, keep
    cdef public bint nesterov, unbounded
    cdef bint averaging, moving, any_gaussian, visible_known, shifted
    cdef Units visible, hidden
    cdef MeanField field
    cdef Excess excess
    # Of jumps: fields of the visible units given the states that are proposed.
    cdef Jumps jumps
    cdef char *fields_then
    cdef double up_scale, down_scale
    cdef RowBlock row_room
    cdef int itemsize
    # Bytes of a row of visible and of hidden units; panels of the latter.
    cdef Py_ssize_t v_bytes, h_bytes, h_panels
    # Parameters, by visible unit; and gradients.
    cdef char *weights
    cdef char *velocity
    cdef char *average
    cdef char *gradient
    # Rows of data, then of chains: visible states, the same over variances, hidden
    # means; and hidden states of the chains, and visible ones if `visible_known`.
    # The first two are the same where no visible unit is Gaussian.
    cdef char *states
    cdef char *seen
    cdef SparseStates lists
    cdef char *means
    cdef char *chains_
    cdef char *visible_chains_
    # In double: parameters and what the steps need, by unit.
    cdef double *b
    cdef double *c
    cdef double *variance
    cdef double *v_offset
    cdef double *h_offset
    cdef double *visible_change
    cdef double *square_change
    # Means over rows of data, of the units that these do not have.
    cdef double *visible_mean
    cdef double *b_velocity
    cdef double *c_velocity
    cdef double *b_average
    cdef double *c_average
    cdef double *log_variance_average
    cdef const double *gaussian
    cdef const double *learned
    cdef const double *data_variance
    cdef const double *rate_shares
    # In the type of the rows: what is subtracted from rows of the data and what they
    # are multiplied by then; 1 / variance and the rest of the bias of visible units;
    # and of the hidden units what the leaves want.
    cdef char *shift_row
    cdef char *inverse_row
    cdef char *precision_row
    cdef char *b_row
    cdef char *c_row
    cdef char *mean_row
    cdef char *change_row
    cdef char *offset_row
    cdef char *scale_row
    # Rows of 0 and 1 by hidden unit, and which of them a visible unit has; or NULL.
    cdef char *masks
    cdef int64_t *mask_of
    # Of blocks of visible units: pull, by, squares of every hidden unit.
    cdef char *partial
    # Of a thread.
    cdef char *scratch
    cdef Py_ssize_t scratch_size

    def __cinit__(
        self, Rows rows, Units visible, Units hidden, components, intercept_hidden,
        intercept_visible, log_variance=0.0, *, Py_ssize_t batch_size, chains, key,
        step, Py_ssize_t n_gibbs_steps, visible_offset, hidden_offset, learned=False,
        shift=0.0, scale=1.0, data_variance=1.0, rate_shares=1.0, MeanField field=None,
        connected=None, double up_scale=1.0, double down_scale=1.0,
    ):
        """chains : hidden states (n_chains, n_hidden), or None without persistence."""
        self.rows, self.key, self.step = rows, key, step
        self.visible, self.hidden = visible, hidden
        self.persistent, self.n_gibbs_steps = chains is not None, n_gibbs_steps
        self.n_hidden, self.n_visible = components.shape
        self.dtype = rows.dtype
        self.itemsize = self.dtype.itemsize
        self.leaves = select_leaves(self.itemsize)
        self.batch_size = min(batch_size, rows.n_rows)
        self.n_chains = chains.shape[0] if self.persistent else self.batch_size
        self.n_given, self.n_passes = rows.n_columns, 1
        self.field = field
        if self.n_given + (field.n_latent if field else 0) != self.n_visible:
            raise ValueError("rows and mean field do not make the visible units")
        self.up_scale, self.down_scale = up_scale, down_scale
        self.memory = {}
        gaussian = visible.of_kind(Kind.GAUSSIAN)
        self.any_gaussian = gaussian.any()
        self._allocate()
        self._connect(connected)
        self._set("weights", np.asarray(components).T)
        self._vector("b")[:] = intercept_visible
        self._vector("c")[:] = intercept_hidden
        self._vector("variance")[:] = np.exp(np.asarray(log_variance, float))
        self._vector("visible_offset")[:] = visible_offset
        self._vector("hidden_offset")[:] = hidden_offset
        self._vector("gaussian")[:] = gaussian
        # (Units that rows do not have are taken as they are, at the full rate.)
        self._row("inverse_row", self.n_visible)[:] = 1
        self._vector("rate_shares")[:] = 1
        given = slice(self.n_given)
        self._row("shift_row", self.n_visible)[given] = shift
        self._row("inverse_row", self.n_visible)[given] = 1 / np.asarray(scale)
        self.shifted = np.any(shift) or np.any(np.not_equal(scale, 1))
        self._vector("learned")[given] = learned
        self._vector("data_variance")[given] = data_variance
        self._vector("rate_shares")[given] = rate_shares
        if self.persistent:
            self.set_chains(chains)
        self.excess = Excess(visible, hidden, self.h_bytes, self.dtype)
        self._see_parameters()

    def _allocate(self):
        cdef Py_ssize_t D = self.n_visible, H = self.n_hidden
        cdef Py_ssize_t n = self.batch_size, m = self.n_chains
        self.v_bytes = self.visible.n_panels(self.leaves) * PANEL_BYTES
        self.h_panels = self.hidden.n_panels(self.leaves)
        self.h_bytes = self.h_panels * PANEL_BYTES
        cdef double work = 2.0 * D * H * (n + 1.5 * m)
        self.n_threads = effective_n_threads(work, LEAST_WORK)
        self.row_room = RowBlock(self.rows, self.n_threads, self.n_threads)
        self.weights = self._bytes("weights", D * self.h_bytes)
        self.gradient = self._bytes("gradient", D * self.h_bytes)
        self.states = self._bytes("states", (n + m) * self.v_bytes)
        self.seen = self.states
        if self.any_gaussian:
            self.seen = self._bytes("seen", (n + m) * self.v_bytes)
        self.lists = SparseStates(
            n + m, D, self.dtype, not self.any_gaussian and self.up_scale == 1
        )
        self.means = self._bytes("means", (n + m) * self.h_bytes)
        self.chains_ = self._bytes("chains", m * self.h_bytes)
        self.visible_chains_ = self._bytes("visible_chains", m * self.v_bytes)
        self.b, self.c = self._doubles("b", D), self._doubles("c", H)
        self.variance = self._doubles("variance", D)
        self.v_offset = self._doubles("visible_offset", D)
        self.h_offset = self._doubles("hidden_offset", H)
        self.visible_change = self._doubles("visible_change", D)
        self.square_change = self._doubles("square_change", D)
        self.visible_mean = self._doubles("visible_mean", D)
        self.b_velocity = self._doubles("b_velocity", D)
        self.c_velocity = self._doubles("c_velocity", H)
        self.b_average = self._doubles("b_average", D)
        self.c_average = self._doubles("c_average", H)
        self.log_variance_average = self._doubles("log_variance_average", D)
        self._doubles("log_variance", D)  # when Python asks for it
        self.gaussian = self._doubles("gaussian", D)
        self.learned = self._doubles("learned", D)
        self.data_variance = self._doubles("data_variance", D)
        self.rate_shares = self._doubles("rate_shares", D)
        self.shift_row = self._bytes("shift_row", self.v_bytes)
        self.inverse_row = self._bytes("inverse_row", self.v_bytes)
        self.precision_row = self._bytes("precision_row", self.v_bytes)
        self.b_row = self._bytes("b_row", self.v_bytes)
        self.c_row = self._bytes("c_row", self.h_bytes)
        self.mean_row = self._bytes("mean_row", self.h_bytes)
        self.change_row = self._bytes("change_row", self.h_bytes)
        self.offset_row = self._bytes("offset_row", self.h_bytes)
        self.scale_row = self._bytes("scale_row", self.h_bytes)
        self.partial = self._bytes(
            "partial", (D // VISIBLE_BLOCK + 1) * 3 * self.h_bytes
        )
        self.scratch_size = max(
            self.visible.room(self.leaves), self.hidden.room(self.leaves),
            self.lists.room(n + m, VISIBLE_BLOCK),
        )
        if self.field is not None:
            self.field.point(self.c_row, self.b_row + self.n_given * self.itemsize)
            self.scratch_size = max(self.scratch_size, self.field.room())
        self.scratch = self._bytes("scratch", self.n_threads * self.scratch_size)

    def _connect(self, connected):
        """Masks of the weights there are, one for all units with the same ones."""
        self.masks = NULL
        if connected is None or np.all(connected):
            return
        # (Rows as one number each are sorted a thousand times faster than as rows.)
        packed = np.packbits(np.ascontiguousarray(connected), axis=1)
        packed = packed.view(f"V{packed.shape[1]}").ravel()
        _, first, numbers = np.unique(packed, return_index=True, return_inverse=True)
        self.masks = self._bytes("masks", len(first) * self.h_bytes)
        self._set("masks", connected[first])
        self.memory["mask_of"] = np.ascontiguousarray(numbers.ravel(), np.int64)
        cdef int64_t[::1] mask_of = self.memory["mask_of"]
        self.mask_of = &mask_of[0]

    cdef double *_doubles(self, str name, Py_ssize_t n) except NULL:
        self.memory[name] = aligned(max(n, 1) * 8)
        return <double *> address(self.memory[name])

    def _vector(self, name):
        return self.memory[name].view(float)

    def _row(self, name, width):
        return self.memory[name].view(self.dtype)[:width]

    def _matrix(self, name, width):
        rows = self.memory[name].view(self.dtype)
        return rows.reshape(-1, self.h_bytes // self.itemsize)[:, :width]

    def _set(self, name, values):
        self._matrix(name, self.n_hidden)[: len(values)] = values

    def _get(self, name, n_rows):
        return self._matrix(name, self.n_hidden)[:n_rows].copy()

    # ---- What Python sees: parameters, averages, velocities, chains ----

    def parameters(self):
        """components, hidden and visible intercepts, logarithms of variances."""
        self._vector("log_variance")[:] = np.log(self._vector("variance"))
        return self._all("weights", "c", "b", "log_variance")

    def _all(self, weights, *vectors):
        components = np.ascontiguousarray(self._get(weights, self.n_visible).T)
        return components, *(self._vector(v).astype(self.dtype) for v in vectors)

    def start_average(self, Py_ssize_t spacing=1):
        """Begin a new average of the parameters after every spacing-th minibatch."""
        self.average = self._bytes("average", self.n_visible * self.h_bytes)
        # From zero like the weights': from another average, the first would be rounded.
        for name in ("b_average", "c_average", "log_variance_average"):
            self._vector(name)[:] = 0
        self.averaging, self.n_passed, self.spacing = True, 0, spacing

    def averages(self):
        """Like `parameters`, averaged since `start_average`."""
        if not self.averaging or self.n_passed < self.spacing:
            return self.parameters()
        return self._all("average", "c_average", "b_average", "log_variance_average")

    def start_velocity(self, velocity=None):
        """Keep velocities, from zero or from what `velocities` returned."""
        self.velocity = self._bytes("velocity", self.n_visible * self.h_bytes)
        self.moving = True
        if velocity is not None:
            self._set("velocity", np.asarray(velocity[0]).T)
            self._vector("c_velocity")[:] = velocity[1]
            self._vector("b_velocity")[:] = velocity[2]

    def velocities(self):
        return self._all("velocity", "c_velocity", "b_velocity")

    def weight_norm(self):
        """Frobenius norm of the weights; infinite if a variance is, in the dtype."""
        # (Where training diverges, variances may be the first to go.)
        inverse = self._row("inverse_row", self.n_visible).astype(float)
        variance = self._vector("variance") / np.square(inverse)
        if not np.isfinite(variance.astype(self.dtype)).all():
            return np.inf
        weights = self._matrix("weights", self.n_hidden)
        return float(np.sqrt(np.square(weights).sum(dtype=float)))

    def hidden_offset(self):
        return self._vector("hidden_offset").astype(self.dtype)

    def visible_offset(self):
        return self._vector("visible_offset").astype(self.dtype)

    def chains(self):
        """States of the persistent chains, (n_chains, n_hidden)."""
        return self._get("chains", self.n_chains)

    def set_chains(self, states, visible=None):
        """Let the persistent chains go on from states, (n_chains, n_hidden).

        visible : visible states, as `visible_chains` has returned them, or None to
            draw them.
        """
        self._set("chains", states)
        self.visible_known = visible is not None
        if self.visible_known:
            self._visible_chains()[:] = visible

    def start_jumps(self, state=None):
        """Let the chains jump to hidden states of rows, from now or from a state on.

        For persistent chains that are at hidden states only, of a machine whose
        conditional distributions are those of one joint distribution.
        """
        self.jumps = Jumps(
            self.hidden, self.n_chains, self.h_bytes, self.dtype, self.n_visible,
            self.batch_size, seldom=False,
            counts=np.flatnonzero(self.visible.of_kind(Kind.POISSON)),
        )
        self.fields_then = self._bytes("fields_then", self.n_chains * self.v_bytes)
        if state is not None:
            self.jumps.go_on(state)

    def jumps_state(self):
        """What `start_jumps` goes on from, or None without jumps."""
        return None if self.jumps is None else self.jumps.state()

    def visible_chains(self):
        """Visible states of the persistent chains, (n_chains, n_visible)."""
        return self._visible_chains().copy()

    def _visible_chains(self):
        rows = self.memory["visible_chains"].view(self.dtype)
        width = self.v_bytes // self.itemsize
        return rows.reshape(-1, width)[: self.n_chains, : self.n_visible]

    # ---- Training ----

    def run(self, start, stop, n_threads=1):
        """See `Minibatches.run`."""
        super().run(start, stop, n_threads)
        if self.unbounded and stop == self.n_sweeps():
            self._keep_distribution()

    def _keep_distribution(self):
        """See to directions that minibatches have missed, at the end of an epoch."""
        weights = self._matrix("weights", self.n_hidden)
        if not self.excess.look_everywhere(weights, self._vector("variance")):
            return
        self.memory["partial"][:] = 0
        if self.itemsize == 4:
            self._cap(0, 1, <float> 0)
        else:
            self._cap(0, 1, <double> 0)
        partial = self.memory["partial"].view(self.dtype)
        by = partial.reshape(-1, 3, self.h_bytes // self.itemsize)[:, 1, :self.n_hidden]
        self._vector("c")[:] -= by.sum(axis=0)
        self._see_parameters()

    cdef void _sweep(self, Place now, int thread, int team) noexcept nogil:
        if self.itemsize == 4:
            self._sweep_in(now, thread, team, <float> 0)
        else:
            self._sweep_in(now, thread, team, <double> 0)

    cdef void _sweep_in(
        self, Place now, int thread, int team, real kind
    ) noexcept nogil:
        cdef Py_ssize_t n = now.n_rows, m = now.n_chains
        if now.number == 0:
            self._read(now.first, n, thread, team, kind)
            if self.field is not None:
                self.field.take_weights(self.weights, self.h_bytes, thread, team)
                team_barrier()
                self._settle(n, thread, team, kind)
            if not self.persistent:
                team_barrier()
                if thread == 0:
                    memcpy(self.visible_chains_, self.states, n * self.v_bytes)
                    self.visible_known = True
                self._up(0, n, n, DRAW_DATA, self.step, thread, team, kind)
        if (
            now.number == 0 and self.jumps is not None and self.jumps.n_rows
            and self.jumps.is_due(self.step, self.n_gibbs_steps)
        ):
            self._jump(n, m, thread, team, kind)
        else:
            self._take_fields(
                self.chains_, m, self.states + n * self.v_bytes, thread, team
            )
            team_barrier()
        self._down(n, m, self.step + now.number, thread, team, kind)
        if thread == 0:
            self.visible_known = True
        # With persistence the data go up with the last sweep of the chains.
        self._up(
            0 if now.last and self.persistent else n, n + m, n, DRAW_HIDDEN,
            self.step + now.number, thread, team, kind,
        )
        if not now.last:
            return
        self._sum_rows(n, m, thread, team, kind)
        team_barrier()
        self._update(n, m, self.rates[now.batch], thread, team, kind)
        team_barrier()
        self._finish(n, self.rates[now.batch], thread, team, kind)

    # ---- Phases of a sweep ----

    cdef void _read(
        self, Py_ssize_t first, Py_ssize_t n, int thread, int team, real kind
    ) noexcept nogil:
        """The n rows of a minibatch."""
        cdef Py_ssize_t r, i
        cdef int32_t k
        cdef ActiveRows active
        cdef bint sparse = True
        cdef real *x
        cdef const real *shift = <const real *> self.shift_row
        cdef const real *inverse = <const real *> self.inverse_row
        for r in range(bound(n, thread, team), bound(n, thread + 1, team)):
            x = <real *> (self.states + r * self.v_bytes)
            memset(x, 0, self.v_bytes)
            if self.rows.fixed:
                self.row_room.read(self.rows, thread, self.order[first + r], thread)
                active = self.row_room.at(thread)
                for k in range(active.length[0]):
                    x[active.index[k]] = (
                        1 if active.value == NULL else (<real *> active.value)[k]
                    )
            else:
                # (Real values may have come where all were 0 or 1.)
                self.rows.write(self.order[first + r], <char *> x)
            if self.shifted:
                for i in range(self.n_visible):
                    x[i] = (x[i] - shift[i]) * inverse[i]
            sparse = self._see(r, sparse, kind)

    cdef void _settle(
        self, Py_ssize_t n, int thread, int team, real kind
    ) noexcept nogil:
        """Mean-field means of the visible units that n rows do not have."""
        cdef Py_ssize_t first = bound(n, thread, team), last, r
        cdef Py_ssize_t stop = bound(n, thread + 1, team)
        cdef bint sparse = True
        while first < stop:
            last = min(stop, first + ROWS)
            self.field.settle_block(
                self.seen + first * self.v_bytes, self.v_bytes,
                self.states + first * self.v_bytes + self.n_given * sizeof(real),
                self.v_bytes, NULL, 0, last - first,
                self.scratch + thread * self.scratch_size,
            )
            for r in range(first, last):
                sparse = self._see(r, sparse, kind)
            first = last

    cdef bint _see(self, Py_ssize_t r, bint sparse, real kind) noexcept nogil:
        """A row of visible states as the hidden units see it; whether it is sparse.

        sparse : whether the row before it was. If not, this one is not even looked at:
            only if all rows are sparse is any dealt with by its list.
        """
        cdef real *x = <real *> (self.states + r * self.v_bytes)
        cdef real *y = <real *> (self.seen + r * self.v_bytes)
        cdef const real *precision = <const real *> self.precision_row
        cdef Py_ssize_t i
        if self.any_gaussian:
            for i in range(self.n_visible):
                y[i] = x[i] * precision[i]
        return sparse and self.lists.list_row(r, <char *> x)

    cdef void _take_fields(
        self, const char *hidden, Py_ssize_t m, char *out, int thread, int team
    ) noexcept nogil:
        """Fields of the visible units of m chains, less biases and times variances."""
        multiply_shared(
            thread, team, self.itemsize, True, m, self.n_visible, self.n_hidden,
            self.down_scale, hidden, self.h_bytes // self.itemsize, self.weights,
            self.h_bytes // self.itemsize, out, self.v_bytes // self.itemsize,
        )

    cdef void _jump(
        self, Py_ssize_t n, Py_ssize_t m, int thread, int team, real kind
    ) noexcept nogil:
        """Jumps of the m chains, and fields of visible units given where they are."""
        cdef char *fields = self.states + n * self.v_bytes
        cdef char *room = self.scratch + thread * self.scratch_size
        cdef Py_ssize_t r, first = bound(m, thread, team)
        cdef Py_ssize_t stop = bound(m, thread + 1, team)
        memcpy(
            self.jumps.states + first * self.h_bytes,
            self.chains_ + first * self.h_bytes, (stop - first) * self.h_bytes,
        )
        self.jumps.propose(self.key, self.step, thread, team, room)
        self._take_fields(self.chains_, m, fields, thread, team)
        team_barrier()
        self._take_fields(self.jumps.proposed, m, self.fields_then, thread, team)
        self.jumps.take_products(thread, team)
        team_barrier()
        for r in range(first, stop):
            self.jumps.visible_now[r] = self._log_partition(
                <real *> (fields + r * self.v_bytes), <real *> room
            )
            self.jumps.visible_then[r] = self._log_partition(
                <real *> (self.fields_then + r * self.v_bytes), <real *> room
            )
        self.jumps.choose(self.c_row, self.key, self.step, thread, team)
        for r in range(first, stop):
            if self.jumps.accepted[r]:
                memcpy(
                    self.chains_ + r * self.h_bytes,
                    self.jumps.proposed + r * self.h_bytes, self.h_bytes,
                )
                memcpy(
                    fields + r * self.v_bytes, self.fields_then + r * self.v_bytes,
                    self.v_bytes,
                )
        team_barrier()
        if thread == 0:
            self.jumps.end_jump(self.step, self.n_gibbs_steps)

    cdef double _log_partition(self, const real *fields, real *room) noexcept nogil:
        """Of the visible units, given fields less biases and times variances."""
        cdef const real *precision = <const real *> self.precision_row
        cdef const real *b = <const real *> self.b_row
        cdef Py_ssize_t i
        for i in range(self.n_visible):
            room[i] = fields[i] * precision[i] + b[i]
        return row_log_partition(self.visible, self.leaves, <char *> room)

    cdef void _down(
        self, Py_ssize_t n, Py_ssize_t m, uint64_t step, int thread, int team,
        real kind,
    ) noexcept nogil:
        """Visible units of m chains, which follow n rows of data, from their fields."""
        cdef Py_ssize_t D = self.n_visible, r, i
        cdef char *x = self.states + n * self.v_bytes
        cdef real *row
        cdef real *before
        cdef const real *precision = <const real *> self.precision_row
        cdef const real *b = <const real *> self.b_row
        # The exact solution of dv = -(v - mean) dt + sqrt(2) deviation dB:
        # mean + keep (v - mean) + fresh (draw - mean).
        cdef double keep = self.keep if self.visible_known else 0
        cdef double fresh = sqrt(1 - keep * keep), mean
        cdef bint sparse = True
        cdef Noise noise
        noise.key, noise.step, noise.purpose = self.key, step, DRAW_VISIBLE
        for r in range(bound(m, thread, team), bound(m, thread + 1, team)):
            row = <real *> (x + r * self.v_bytes)
            for i in range(D):
                row[i] = row[i] * precision[i] + b[i]
            before = <real *> (self.visible_chains_ + r * self.v_bytes)
            if keep:
                for i in range(D):
                    if self.gaussian[i]:
                        mean = self.b[i] + self.variance[i] * row[i]
                        mean = keep * (before[i] - mean) + (1 - fresh) * mean
                        before[i] = <real> mean
            noise.row = <uint32_t> r
            row_draws(
                self.visible, self.leaves, <char *> row, &noise,
                self.scratch + thread * self.scratch_size,
            )
            if keep:
                for i in range(D):
                    if self.gaussian[i]:
                        row[i] = <real> (fresh * row[i] + before[i])
            if self.keep:
                memcpy(before, row, self.v_bytes)
            sparse = self._see(n + r, sparse, kind)
        team_barrier()

    cdef void _up(
        self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n, int purpose,
        uint64_t step, int thread, int team, real kind,
    ) noexcept nogil:
        """Hidden means of the rows start..stop; new states of those from n on.

        To begin with the data (DRAW_DATA), of the first n.
        """
        cdef Py_ssize_t H = self.n_hidden, n_rows = stop - start, r, j
        cdef Py_ssize_t first = start + bound(n_rows, thread, team)
        cdef Py_ssize_t last = start + bound(n_rows, thread + 1, team)
        cdef int stride = self.h_bytes // sizeof(real)
        cdef real *row
        cdef real *drawn
        cdef const real *c = <const real *> self.c_row
        cdef Noise noise
        cdef char *room = self.scratch + thread * self.scratch_size
        if self.lists.has(start, stop):
            self.lists.multiply(
                first, last, H, self.weights, stride, self.means + first * self.h_bytes,
                stride,
            )
        else:
            multiply_shared(
                thread, team, sizeof(real), False, n_rows, H, self.n_visible,
                self.up_scale, self.seen + start * self.v_bytes,
                self.v_bytes // sizeof(real), self.weights, stride,
                self.means + start * self.h_bytes, stride,
            )
        team_barrier()
        noise.key, noise.step, noise.purpose = self.key, step, purpose
        for r in range(first, last):
            row = <real *> (self.means + r * self.h_bytes)
            for j in range(H):
                row[j] += c[j]
            if self.jumps is not None and r < n:
                self.jumps.store(r, <char *> row)
            if purpose == DRAW_DATA or r >= n:
                noise.row = <uint32_t> (r if purpose == DRAW_DATA else r - n)
                drawn = <real *> (self.chains_ + noise.row * self.h_bytes)
                memcpy(drawn, row, self.h_bytes)
                row_draws(self.hidden, self.leaves, <char *> drawn, &noise, room)
            row_means(self.hidden, self.leaves, <char *> row, room)
        team_barrier()

    # ---- Gradient and step ----

    cdef void _sum_rows(
        self, Py_ssize_t n, Py_ssize_t m, int thread, int team, real kind
    ) noexcept nogil:
        """Means over rows, by panels of units; hidden means become shares of them."""
        cdef Py_ssize_t D = self.n_visible, n_blocks, block, r, j, start, stop, at
        cdef Py_ssize_t latent
        cdef real *row
        cdef double part, x
        cdef bint sparse = self.lists.has(0, n + m)
        start = bound(self.h_panels, thread, team)
        stop = bound(self.h_panels, thread + 1, team)
        at = start * PANEL_BYTES
        memset(self.mean_row + at, 0, (stop - start) * PANEL_BYTES)
        self.leaves.share_rows(
            self.means + at, self.h_bytes, n, stop - start, 1.0 / n, self.mean_row + at
        )
        memcpy(self.change_row + at, self.mean_row + at, (stop - start) * PANEL_BYTES)
        self.leaves.share_rows(
            self.means + n * self.h_bytes + at, self.h_bytes, m, stop - start,
            -1.0 / m, self.change_row + at,
        )
        if start < stop and stop == self.h_panels:
            # What fills up the last panel is no unit, and learns nothing.
            at = self.n_hidden * <Py_ssize_t> sizeof(real)
            memset(self.change_row + at, 0, self.h_bytes - at)
        n_blocks = (D + UNITS_BLOCK - 1) // UNITS_BLOCK
        for block in range(
            bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
        ):
            start, stop = block * UNITS_BLOCK, min(D, (block + 1) * UNITS_BLOCK)
            latent = max(start, self.n_given)
            for j in range(start, stop):
                self.visible_change[j] = self.square_change[j] = 0
                self.visible_mean[j] = 0
            for r in range(n + m):
                row = <real *> (self.states + r * self.v_bytes)
                part = 1.0 / n if r < n else -1.0 / m
                if sparse:
                    self.lists.add(r, start, stop, part, self.visible_change)
                    if r < n:
                        self.lists.add(r, latent, stop, part, self.visible_mean)
                    continue
                for j in range(start, stop):
                    self.visible_change[j] += part * row[j]
                if r < n:
                    for j in range(latent, stop):
                        self.visible_mean[j] += part * row[j]
                if self.any_gaussian:
                    for j in range(start, stop):
                        x = row[j] - self.b[j]
                        self.square_change[j] += part * x * x

    cdef void _update(
        self, Py_ssize_t n, Py_ssize_t m, double rate, int thread, int team, real kind
    ) noexcept nogil:
        """The step of weights, visible biases and variances, by blocks of rows."""
        cdef Py_ssize_t D = self.n_visible, n_blocks, block, i, start, stop
        cdef RowUpdate u
        cdef bint sparse = self.lists.has(0, n + m)
        u.n_panels, u.nesterov, u.clip = self.h_panels, self.nesterov, 0
        u.hidden_change, u.hidden_offset = self.change_row, self.offset_row
        u.momentum, u.weight_decay = self.momentum, self.weight_decay
        u.velocity, u.squares, u.mask = NULL, NULL, NULL
        n_blocks = (D + VISIBLE_BLOCK - 1) // VISIBLE_BLOCK
        for block in range(
            bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
        ):
            start, stop = block * VISIBLE_BLOCK, min(D, (block + 1) * VISIBLE_BLOCK)
            if sparse:
                self.lists.multiply_turned(
                    n + m, start, stop, self.n_hidden, self.means,
                    self.h_bytes // sizeof(real), self.gradient + start * self.h_bytes,
                    self.h_bytes // sizeof(real),
                    self.scratch + thread * self.scratch_size,
                )
            else:
                multiply(
                    sizeof(real), True, False, stop - start, self.n_hidden, n + m, 1.0,
                    self.states + start * sizeof(real), self.v_bytes // sizeof(real),
                    self.means, self.h_bytes // sizeof(real), 0.0,
                    self.gradient + start * self.h_bytes, self.h_bytes // sizeof(real),
                )
            u.pull = self.partial + block * 3 * self.h_bytes
            u.by = u.pull + self.h_bytes
            memset(u.pull, 0, 3 * self.h_bytes)
            if self.max_norm:
                u.squares = u.by + self.h_bytes
            for i in range(start, stop):
                self._step_visible_unit(&u, i, rate * self.rate_shares[i])

    cdef void _point_visible_unit(self, RowUpdate *u, Py_ssize_t i) noexcept nogil:
        u.weights = self.weights + i * self.h_bytes
        u.visible_offset = u.seen_offset = self.v_offset[i]
        if self.gaussian[i]:
            u.seen_offset /= self.variance[i]
        u.seen_offset *= self.up_scale

    cdef void _step_visible_unit(
        self, RowUpdate *u, Py_ssize_t i, double rate
    ) noexcept nogil:
        """The step of all that belongs to a visible unit."""
        cdef double g
        self._point_visible_unit(u, i)
        u.learning_rate, u.shrinkage = rate, rate * self.l1_decay
        u.rate_share = self.rate_shares[i]
        u.gradient = self.gradient + i * self.h_bytes
        u.visible_change = self.visible_change[i]
        u.clip = self.clip
        if self.moving:
            u.velocity = self.velocity + i * self.h_bytes
        if self.masks != NULL:
            u.mask = self.masks + self.mask_of[i] * self.h_bytes
        self.leaves.step_row(u)
        g = self.visible_change[i]
        if self.clip:
            g = max(-self.clip, min(self.clip, g))
        g -= self.down_scale * u.projection
        if self.moving:
            g = self._with_momentum(g, self.b_velocity + i)
        self.b[i] += rate * g - self.down_scale * u.shift
        if self.learned[i]:
            self._step_variance(u, i, rate)

    cdef double _with_momentum(self, double gradient, double *velocity) noexcept nogil:
        """The velocity of a bias after a gradient, or where Nesterov's takes it."""
        velocity[0] = self.momentum * velocity[0] + gradient
        if self.nesterov:
            return gradient + self.momentum * velocity[0]
        return velocity[0]

    cdef void _step_variance(
        self, RowUpdate *u, Py_ssize_t i, double rate
    ) noexcept nogil:
        """The step of the variance of a visible unit, and what follows it."""
        # Where hidden units are real, too, a change of the variance rescales the
        # weights, so that they stay the same in standard deviations. Otherwise, near
        # their bound (see _excess.pyx), a smaller variance would make the wider
        # distribution: until the bound takes the weights back, and less and less
        # variance is left. Above twice the variance of the data it moves alone, which
        # takes weights back: where steps are too long, both would grow without end.
        # (Not from that variance on: they start there, and rounding would decide.)
        cdef bint along = self.unbounded and (
            self.visible.variance[i] <= 2 * self.data_variance[i]
        )
        cdef double d = 0.5 * u.product if along else u.product
        cdef double change
        d = (0.5 * self.square_change[i] - d) / self.visible.variance[i]
        # Along the variance, not its logarithm: a value far out, which is rare, must
        # outweigh the others.
        d = max(0.5, 1 + VARIANCE_RATE * rate * d)
        self.variance[i] = max(
            d * self.variance[i], LEAST_VARIANCE * self.data_variance[i]
        )
        d = self.variance[i] / self.visible.variance[i]
        change = u.seen_offset / d
        d = sqrt(d) if along else 1
        # Hidden biases give way: else, on data far from 0, a small change of the
        # variance would turn their units on or off for all rows.
        change -= u.seen_offset / d
        if not along and not change:
            return
        if self.itemsize == 4:
            follow_variance(
                <float *> u.weights, <float *> u.squares, <float *> u.by,
                self.n_hidden, d, change,
            )
        else:
            follow_variance(
                <double *> u.weights, <double *> u.squares, <double *> u.by,
                self.n_hidden, d, change,
            )

    cdef void _finish(
        self, Py_ssize_t n, double rate, int thread, int team, real kind
    ) noexcept nogil:
        """What ends a minibatch of n rows: caps of weights, hidden biases, averages."""
        if self.max_norm or self.unbounded:
            self._cap(thread, team, kind)
        if thread == 0:
            self._step_hidden(rate, kind)
            self._see_parameters()
            if self.jumps is not None:
                self.jumps.drive_counts(
                    n, self.weights, self.b, self.c_row, self.up_scale,
                    self.down_scale, self.key, self.step,
                )
                self.jumps.end_minibatch(n)
            self.step += self.n_gibbs_steps
            self.n_passed += 1
        team_barrier()
        if self.averaging and self.n_passed % self.spacing == 0:
            self._enter(
                share_in_average(self.n_passed, self.spacing), thread, team, kind
            )
            team_barrier()

    cdef void _step_hidden(self, double rate, real kind) noexcept nogil:
        """The step of the hidden biases and offsets."""
        cdef Py_ssize_t n_blocks = (self.n_visible + VISIBLE_BLOCK - 1) // VISIBLE_BLOCK
        cdef Py_ssize_t block, j
        cdef double g, pull, by, mean
        cdef real *partial
        for j in range(self.n_hidden):
            pull = by = 0
            for block in range(n_blocks):
                partial = <real *> (self.partial + block * 3 * self.h_bytes)
                pull += partial[j]
                by += partial[j + self.h_bytes // <Py_ssize_t> sizeof(real)]
            g = (<real *> self.change_row)[j] - pull
            mean = (<real *> self.mean_row)[j]
            if self.sparsity_cost:
                g += self.sparsity_cost * (self.sparsity_target - mean)
            if self.moving:
                g = self._with_momentum(g, self.c_velocity + j)
            self.c[j] += rate * g - by
            self.h_offset[j] += self.offset_rate * (mean - self.h_offset[j])
        # Means of the data themselves are known, and do not move.
        for j in range(self.n_given, self.n_visible):
            self.v_offset[j] += self.offset_rate * (
                self.visible_mean[j] - self.v_offset[j]
            )

    cdef void _see_parameters(self) noexcept nogil:
        """Let the units see parameters that have changed."""
        if self.itemsize == 4:
            self._copy_parameters(<float> 0)
        else:
            self._copy_parameters(<double> 0)

    cdef void _copy_parameters(self, real kind) noexcept nogil:
        cdef real *precision = <real *> self.precision_row
        cdef real *b = <real *> self.b_row
        cdef Py_ssize_t i
        for i in range(self.n_visible):
            precision[i], b[i] = 1, <real> self.b[i]
            if self.gaussian[i]:
                # Their weights are over the variance, and their bias is their mean.
                precision[i], b[i] = <real> (1 / self.variance[i]), 0
                self.visible.mean[i] = self.b[i]
                self.visible.variance[i] = self.variance[i]
                self.visible.deviation[i] = sqrt(self.variance[i])
        for i in range(self.n_hidden):
            (<real *> self.c_row)[i] = <real> self.c[i]
            (<real *> self.offset_row)[i] = <real> self.h_offset[i]

    # ---- Bounds on weights, and averages ----

    cdef void _cap(self, int thread, int team, real kind) noexcept nogil:
        """Bring weights back to the largest norms they may have.

        Those between unbounded units of both layers along the directions in which they
        are too large, then those of every hidden unit as a whole.
        """
        cdef Py_ssize_t n_blocks = (self.n_visible + VISIBLE_BLOCK - 1) // VISIBLE_BLOCK
        cdef Py_ssize_t block, i
        cdef RowUpdate u
        if thread == 0:
            if self.unbounded:
                # (Variances after the step; the units still have those before it.)
                self.excess.find(self.weights, self.variance)
            if self.max_norm:
                self._find_scales(n_blocks, kind)
        team_barrier()
        u.n_panels, u.hidden_offset = self.h_panels, self.offset_row
        for block in range(
            bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
        ):
            u.by = self.partial + (block * 3 + 1) * self.h_bytes
            for i in range(
                block * VISIBLE_BLOCK, min(self.n_visible, (block + 1) * VISIBLE_BLOCK)
            ):
                self._point_visible_unit(&u, i)
                u.shift = 0
                if self.excess.n_found:
                    self.excess.take(&u, i, self.variance[i], self.offset_row)
                if self.max_norm:
                    self.leaves.scale_row(&u, self.scale_row)
                self.b[i] -= self.down_scale * u.shift
        team_barrier()

    cdef void _find_scales(self, Py_ssize_t n_blocks, real kind) noexcept nogil:
        """Factors that keep the norm of every hidden unit at most `max_norm`."""
        cdef Py_ssize_t block, j, width = self.h_bytes // <Py_ssize_t> sizeof(real)
        cdef real *scales = <real *> self.scale_row
        cdef double squares
        for j in range(self.n_hidden):
            squares = 0
            for block in range(n_blocks):
                squares += (<real *> (self.partial + block * 3 * self.h_bytes))[
                    j + 2 * width
                ]
            scales[j] = <real> (self.max_norm / max(self.max_norm, sqrt(squares)))

    cdef void _enter(
        self, double mix, int thread, int team, real kind
    ) noexcept nogil:
        """Enter the parameters into their averages."""
        cdef Py_ssize_t i, j, width = self.h_bytes // <Py_ssize_t> sizeof(real)
        cdef real *w
        cdef real *average
        for i in range(
            bound(self.n_visible, thread, team), bound(self.n_visible, thread + 1, team)
        ):
            w = <real *> (self.weights + i * self.h_bytes)
            average = <real *> (self.average + i * self.h_bytes)
            for j in range(width):
                average[j] += (w[j] - average[j]) * <real> mix
            self.b_average[i] += (self.b[i] - self.b_average[i]) * mix
            self.log_variance_average[i] += mix * (
                log(self.variance[i]) - self.log_variance_average[i]
            )
        if thread == 0:
            for j in range(self.n_hidden):
                self.c_average[j] += (self.c[j] - self.c_average[j]) * mix
