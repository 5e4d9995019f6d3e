# Training of a classification RBM.
#
# One minibatch, in phases that all threads do together, each on its own rows or
# its own block of units:
#
#   _read           rows of the data
#   _data_fields    of the hidden units given the row, without the label
#   _enter_rows     means of the hidden units under every label, p(y | row), and what
#                   the row adds to the gradient. With g a share of the generative and
#                   a of the discriminative gradient, it adds the means under label y
#                       a (1{y = label} - p(y | row)) + g 1{y = label}
#                   times, or g p(y | row) times if its label is not known.
#   _draw_visible   units and labels of the chains, given the hidden units
#   _draw_hidden    units of the chains, given those; their means count -g times
#   _update         the product of all rows and chains with their means is the gradient
#                   of the weights; momentum, decay, step and average while it is warm
#
# Steps are those of a machine whose features are centred, written for the plain one:
# with the offsets m of the features, and g the gradient of the hidden biases, that of
# the weights of feature i is less m_i g, and the biases give way by what the weights
# gain in the mean. So features that are always on are no bias of their own, and what
# is learned does not depend on which of two values is called 1.
# And with scales s, steps are those of a machine of features times the root of s: the
# step of the weights of feature i is s_i times as long.
#
# Products with visible units are sums over what is not zero, by lists, or those of
# dense matrices where much is not zero. Threads share blocks of fixed size, so that
# results are the same bits for any number of threads.
# Weights are stored feature by feature. Rows of every matrix are padded to whole
# panels of 64 bytes; padding units have fields so low that they are always off.
import numpy as np

from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ._gibbs cimport (
    BLOCK,
    DRAW_DATA,
    DRAW_HIDDEN,
    DRAW_LABEL,
    DRAW_ROW_LABEL,
    DRAW_VISIBLE,
)
from ._minibatches cimport Minibatches, Place, share_in_average
from ._openmp cimport bound, team_barrier
from ._products cimport multiply
from ._rows cimport RowBlock, Rows, lower_bound
from ._simd cimport (
    PANEL_BYTES,
    ActiveRows,
    n_panels_of,
    random_words,
    select_leaves,
)
from ._vectors cimport softmax

from ._openmp import effective_n_threads


cdef enum:
    # Rows whose sums for the label weights one thread adds up.
    ROWS = 8
    # Hidden or visible units of one product; whole panels.
    UNITS = 128
    # Features whose weights take their step together.
    FEATURES = 64
    # Multiplications of a minibatch that are worth a second thread.
    LEAST_WORK = 4000000

# The field of padding units.
cdef double OFF = -1e4
# Share of non-zeros above which dense products are faster than lists.
cdef double DENSE = 0.75


cdef struct Parts:
    # Where each kind of parameter lies among all of them.
    char *components  # (n_visible, n_hidden)
    char *labels      # (n_classes, n_hidden)
    char *hidden
    char *visible
    char *label


cdef Py_ssize_t _draw_label(
    const double *p, Py_ssize_t n, uint64_t key, uint64_t step, uint32_t row,
    uint32_t purpose,
) noexcept nogil:
    """A label with these probabilities."""
    cdef uint32_t x[4]
    cdef Py_ssize_t k
    random_words(x, 0, row, step, purpose, key)
    cdef double u = (x[0] + x[1] / 4294967296.0) / 4294967296.0
    for k in range(n - 1):
        u -= p[k]
        if u < 0:
            return k
    return n - 1


cdef class ClassifierTrainer(Minibatches):
    """A classification RBM in training.

    Holds the parameters, their velocities and averages, the chains and every
    buffer; `run` advances it by minibatches in one call without the GIL. A
    minibatch is worked on in passes of at most BLOCK rows and BLOCK chains whose
    gradients add up; the last of them takes the step. A pass is `n_gibbs_steps`
    sweeps of its chains, and training can stop after any sweep.

    The gradient is that of
    ``discriminative * sum_labelled log p(y|v) + generative * sum log p(v, y)``,
    divided by the number of rows of the minibatch, of a machine with centred features.
    """

    cdef readonly Py_ssize_t n_classes
    # Each may change between minibatches.
    cdef public double discriminative
    cdef double generative
    cdef bint is_double, listed
    cdef int itemsize
    # Panels and elements of a padded row.
    cdef Py_ssize_t hidden_panels, visible_panels, label_panels
    cdef int hidden_stride, visible_stride, label_stride
    cdef Py_ssize_t n_bytes
    cdef const int32_t[::1] codes
    # What features have less where they are centred; how many times as long the steps
    # of their weights are; the products of both; the sum of s_i m_i^2.
    cdef const double[::1] offset, scales, scaled_offset
    cdef double offset_square
    cdef bint scaled
    cdef RowBlock room
    cdef char *parameters_
    cdef char *gradient
    cdef char *velocity
    cdef char *average
    cdef char *chains_
    # Of a pass. Rows come first, chains after them.
    cdef char *visible
    cdef char *hidden
    cdef char *fields
    cdef char *label_fields
    cdef char *label_sums
    # Gradient of the hidden biases, were features not centred; products of the rows
    # with the offset.
    cdef char *plain_sums
    cdef double *projections
    cdef double *label_weights
    cdef int32_t *label_draws
    # Of the rows of a pass: their log-likelihood, and whether they were right.
    cdef double *scores
    cdef int32_t *hits
    cdef double log_likelihood
    cdef Py_ssize_t n_labelled, n_hits
    # Of a thread.
    cdef char *scratch
    cdef Py_ssize_t scratch_size

    def __cinit__(
        self, Rows rows, codes, parameters, *, Py_ssize_t batch_size, key, step,
        double discriminative, double generative, offset,
        Py_ssize_t n_gibbs_steps=1, chains=None, scales=None,
    ):
        """codes : number of each row's class, -1 if it is not known.

        parameters : what `parameters` returned. offset, scales : of the features.
        chains : None without persistence.
        """
        self.rows, self.key, self.step = rows, key, step
        self.codes = np.ascontiguousarray(codes, dtype=np.int32)
        self.discriminative, self.generative = discriminative, generative
        self.offset = np.ascontiguousarray(offset, dtype=np.float64)
        self.scaled = scales is not None
        if scales is None:
            scales = np.ones(self.offset.shape[0])
        self.scales = np.ascontiguousarray(scales, dtype=np.float64)
        self.scaled_offset = np.multiply(self.scales, self.offset)
        self.offset_square = np.multiply(self.scaled_offset, self.offset).sum()
        self.persistent = chains is not None and generative > 0
        self.n_gibbs_steps = n_gibbs_steps if generative > 0 else 1
        self.n_hidden, self.n_visible = parameters[0].shape
        self.n_classes = parameters[1].shape[1]
        self.dtype = rows.dtype
        self.itemsize = self.dtype.itemsize
        self.is_double = self.itemsize == 8
        self.leaves = select_leaves(self.itemsize)
        self.batch_size = min(batch_size, rows.n_rows)
        self.n_chains = chains.shape[0] if self.persistent else self.batch_size
        self.n_passes = (max(self.n_chains, self.batch_size) + BLOCK - 1) // BLOCK
        if generative == 0:
            self.n_passes = (self.batch_size + BLOCK - 1) // BLOCK
        self.listed = rows.density < DENSE
        self.hidden_panels = n_panels_of(self.n_hidden, self.leaves)
        if self.hidden_panels >= 8:
            # Rows an odd number of cache lines apart do not crowd each other out.
            self.hidden_panels |= 1
        self.visible_panels = n_panels_of(self.n_visible, self.leaves)
        self.label_panels = n_panels_of(self.n_classes, self.leaves)
        self.hidden_stride = <int> self.hidden_panels * self.leaves.lanes
        self.visible_stride = <int> self.visible_panels * self.leaves.lanes
        self.label_stride = <int> self.label_panels * self.leaves.lanes
        self._allocate(min(BLOCK, self.batch_size), min(BLOCK, self.n_chains))
        self._set("parameters", parameters)
        views = self._views("parameters")
        views[2][self.n_hidden :] = OFF
        views[3][self.n_visible :] = OFF
        if self.persistent:
            self._matrix("chains", self.hidden_stride)[:, : self.n_hidden] = chains

    def _allocate(self, Py_ssize_t n, Py_ssize_t m):
        """Buffers for passes of at most n rows and m chains."""
        cdef Py_ssize_t hidden = self.hidden_panels * PANEL_BYTES
        cdef Py_ssize_t visible = self.visible_panels * PANEL_BYTES
        cdef Py_ssize_t label = self.label_panels * PANEL_BYTES
        cdef Py_ssize_t n_blocks = (n + ROWS - 1) // ROWS
        if self.generative == 0:
            m = 0
        cdef double work = <double> self.n_hidden * self.n_visible * (2 * n + 4 * m)
        self.n_threads = effective_n_threads(work, LEAST_WORK)
        self.room = RowBlock(
            self.rows, n + m if self.listed else self.n_threads, self.n_threads
        )
        self.memory = {}
        self.n_bytes = (
            (self.n_visible + self.n_classes + 1) * hidden + visible + label
        )
        self.parameters_ = self._bytes("parameters", self.n_bytes)
        self.gradient = self._bytes("gradient", self.n_bytes)
        self.velocity = self.average = NULL
        self.chains_ = self._bytes(
            "chains", (self.n_chains if self.persistent else m) * hidden
        )
        self.visible = self._bytes("visible", (n + m) * visible)
        self.hidden = self._bytes("hidden", (n + m) * hidden)
        self.fields = self._bytes("fields", max(n, m) * hidden)
        self.label_fields = self._bytes("label_fields", m * label)
        self.label_sums = self._bytes("label_sums", n_blocks * self.n_classes * hidden)
        self.plain_sums = self._bytes("plain_sums", hidden)
        self.projections = <double *> self._bytes("projections", (n + m) * 8)
        self.label_weights = <double *> self._bytes(
            "label_weights", n * self.n_classes * 8
        )
        self.label_draws = <int32_t *> self._bytes("label_draws", m * 4)
        self.scores = <double *> self._bytes("scores", n * 8)
        self.hits = <int32_t *> self._bytes("hits", n * 4)
        # Means under every class and their probabilities; or panels of fields to
        # draw from, their draws and bits; or lists of some features.
        self.scratch_size = max(
            self.n_classes * (hidden + 64) + 4 * BLOCK * PANEL_BYTES,
            FEATURES * ((n + m) * 12 + 4),
        )
        self.scratch_size = (self.scratch_size // 64 + 1) * 64
        self.scratch = self._bytes("scratch", self.n_threads * self.scratch_size)

    def _matrix(self, name, Py_ssize_t stride):
        return self.memory[name].view(self.dtype).reshape(-1, stride)

    cdef Parts _parts(self, char *base) noexcept nogil:
        cdef Parts parts
        parts.components = base
        base += self.n_visible * self.hidden_panels * PANEL_BYTES
        parts.labels = base
        base += self.n_classes * self.hidden_panels * PANEL_BYTES
        parts.hidden = base
        parts.visible = base + self.hidden_panels * PANEL_BYTES
        parts.label = parts.visible + self.visible_panels * PANEL_BYTES
        return parts

    # ---- What Python sees: parameters, averages, velocities, chains ----

    def _views(self, name):
        """The padded parameters of a buffer, label weights by class."""
        flat = self.memory[name].view(self.dtype)
        shapes = [
            (self.n_visible, self.hidden_stride),
            (self.n_classes, self.hidden_stride),
            (self.hidden_stride,),
            (self.visible_stride,),
            (self.label_stride,),
        ]
        sizes = [int(np.prod(shape)) for shape in shapes]
        parts = np.split(flat, np.cumsum(sizes))
        return [part.reshape(shape) for part, shape in zip(parts, shapes)]

    def _set(self, name, parameters):
        components, labels, hidden, visible, label = self._views(name)
        components[:, : self.n_hidden] = parameters[0].T
        labels[:, : self.n_hidden] = parameters[1].T
        hidden[: self.n_hidden] = parameters[2]
        visible[: self.n_visible] = parameters[3]
        label[: self.n_classes] = parameters[4]

    def _get(self, name):
        components, labels, hidden, visible, label = self._views(name)
        return (
            np.ascontiguousarray(components[:, : self.n_hidden].T),
            np.ascontiguousarray(labels[:, : self.n_hidden].T),
            hidden[: self.n_hidden].copy(),
            visible[: self.n_visible].copy(),
            label[: self.n_classes].copy(),
        )

    def parameters(self):
        """Return weights, label weights (n_hidden, n_classes) and intercepts.

        Those are of the hidden units, the visible units and the labels.
        """
        return self._get("parameters")

    def start_average(self, Py_ssize_t spacing=1):
        """Begin a new average of the parameters after every spacing-th minibatch."""
        self.average = self._bytes("average", self.n_bytes)
        self.n_passed, self.spacing = 0, spacing

    def averages(self):
        """Like `parameters`, averaged since `start_average`."""
        if self.average == NULL or self.n_passed < self.spacing:
            return self.parameters()
        return self._get("average")

    def start_velocity(self, velocity=None):
        """Keep velocities, from zero or from what `velocities` returned."""
        self.velocity = self._bytes("velocity", self.n_bytes)
        if velocity is not None:
            self._set("velocity", velocity)

    def velocities(self):
        return self._get("velocity")

    def gradients(self):
        """The gradient of the last step, like `parameters`."""
        return self._get("gradient")

    def chains(self):
        """States of the persistent chains, (n_chains, n_hidden)."""
        return self._matrix("chains", self.hidden_stride)[:, : self.n_hidden].copy()

    def weight_norm(self):
        """Frobenius norm of the weights."""
        # Not by BLAS, whose sums depend on the number of threads.
        return float(np.sqrt(np.square(self._views("parameters")[0]).sum(dtype=float)))

    def found(self):
        """Mean log p(y | row) and accuracy of the labelled rows of the epoch.

        Each as it was before the step to which the row contributed.
        """
        n = self.n_labelled or np.nan
        return {"log_likelihood": self.log_likelihood / n, "accuracy": self.n_hits / n}

    # ---- Training ----

    def begin_epoch(self, order, rates):
        """Set the order in which `run` shows the rows, and the rate of each batch."""
        super().begin_epoch(order, rates)
        self.log_likelihood, self.n_labelled, self.n_hits = 0, 0, 0

    cdef void _sweep(self, Place now, int thread, int team) noexcept nogil:
        """One sweep, as one thread of a team does it; all threads keep step."""
        cdef Py_ssize_t at = now.part * BLOCK, first = now.first + at
        cdef Py_ssize_t n = max(0, min(BLOCK, now.n_rows - at)), m = 0
        cdef char *chains = self.chains_
        cdef double scale = 1.0 / now.n_rows
        if self.generative > 0:
            m = max(0, min(BLOCK, now.n_chains - at))
        if self.persistent:
            chains += at * self.hidden_panels * PANEL_BYTES
        if now.number == 0:
            self._read(first, n, thread, team)
            team_barrier()
            self._data_fields(n, thread, team)
            team_barrier()
            self._enter_rows(first, n, <uint32_t> at, scale, chains, thread, team)
            team_barrier()
        if self.generative > 0:
            self._draw_visible(n, m, <uint32_t> at, now.number, chains, thread, team)
            team_barrier()
            self._read_chains(n, m, thread, team)
            team_barrier()
            self._draw_hidden(
                n, m, <uint32_t> at, now.number, self.generative / now.n_chains, chains,
                thread, team,
            )
            team_barrier()
        if not now.last:
            return
        self._update(n, m, now, thread, team)
        team_barrier()
        # What the next pass does before its first barrier takes no note of this.
        if thread == 0:
            self._note(first, n)
            if now.part == self.n_passes - 1:
                self.step += self.n_gibbs_steps
                self.n_passed += 1

    cdef void _read(
        self, Py_ssize_t first, Py_ssize_t n, int thread, int team
    ) noexcept nogil:
        """The n rows of a pass: their lists, or as dense rows; their projections."""
        cdef Py_ssize_t r, slot
        cdef ActiveRows active
        for r in range(bound(n, thread, team), bound(n, thread + 1, team)):
            if first + r + 2 < self.order.shape[0]:
                self.rows.prefetch(self.order[first + r + 2])
            slot = r if self.listed else thread
            self.room.read(self.rows, slot, self.order[first + r], thread)
            active = self.room.at(slot)
            self.projections[r] = self._projection(active)
            if not self.listed:
                self._spread(active, r)

    cdef double _projection(self, ActiveRows active) noexcept nogil:
        """Product of a listed row with the scaled offset."""
        cdef int32_t k
        cdef double[4] sums = [0, 0, 0, 0]  # four at a time: none waits for the last
        for k in range(active.length[0]):
            if active.value == NULL:
                sums[k & 3] += self.scaled_offset[active.index[k]]
            else:
                sums[k & 3] += (
                    self._at(<const char *> active.value, k)
                    * self.scaled_offset[active.index[k]]
                )
        return sums[0] + sums[1] + (sums[2] + sums[3])

    cdef void _spread(self, ActiveRows active, Py_ssize_t r) noexcept nogil:
        """The dense row r of a list."""
        cdef Py_ssize_t stride = self.visible_panels * PANEL_BYTES
        cdef char *row = self.visible + r * stride
        cdef int32_t k
        memset(row, 0, stride)
        for k in range(active.length[0]):
            if active.value == NULL:
                self._set_at(row, active.index[k], 1)
            else:
                self._set_at(
                    row, active.index[k], self._at(<const char *> active.value, k)
                )

    cdef void _set_at(self, char *x, Py_ssize_t k, double value) noexcept nogil:
        if self.is_double:
            (<double *> x)[k] = value
        else:
            (<float *> x)[k] = <float> value

    cdef void _read_chains(
        self, Py_ssize_t n, Py_ssize_t m, int thread, int team
    ) noexcept nogil:
        """Lists of the visible units of m chains, after n rows; their projections."""
        cdef Py_ssize_t r, slot
        cdef int32_t k
        cdef ActiveRows active
        cdef uint64_t *words
        for r in range(n + bound(m, thread, team), n + bound(m, thread + 1, team)):
            slot = r if self.listed else thread
            active = self.room.at(slot)
            words = self.room.bits + slot * self.room.n_words
            self.leaves.nonzero_bits(
                self.visible + r * self.visible_panels * PANEL_BYTES, self.n_visible,
                words,
            )
            active.length[0] = self.leaves.list_bits(
                words, self.room.n_words, active.index
            )
            if active.value != NULL:
                for k in range(active.length[0]):
                    self._set_at(<char *> active.value, k, 1)
            self.projections[r] = self._projection(active)

    cdef void _data_fields(
        self, Py_ssize_t n, int thread, int team
    ) noexcept nogil:
        """Fields of the hidden units in the rows, without their labels."""
        cdef Py_ssize_t n_blocks = (self.hidden_stride + UNITS - 1) // UNITS
        cdef Py_ssize_t block, r, start, stop
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES
        cdef Parts parts = self._parts(self.parameters_)
        for block in range(
            bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
        ):
            start = block * UNITS * self.itemsize
            stop = min(start + UNITS * self.itemsize, stride)
            for r in range(n):
                memcpy(
                    self.fields + r * stride + start, parts.hidden + start, stop - start
                )
            self._multiply_up(0, n, block)

    cdef void _multiply_up(
        self, Py_ssize_t first, Py_ssize_t n, Py_ssize_t block
    ) noexcept nogil:
        """Add what n rows from `first` on say to a block of units to `fields`."""
        cdef Py_ssize_t unit = block * UNITS, start = unit * self.itemsize
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES
        cdef Py_ssize_t stop = min(start + UNITS * self.itemsize, stride)
        cdef Parts parts = self._parts(self.parameters_)
        cdef ActiveRows lists
        if self.listed:
            lists = self.room.at(first)
            self.leaves.add_lists(
                &lists, n, parts.components + start, stride,
                (stop - start) // PANEL_BYTES, self.fields + start, stride,
            )
            return
        multiply(
            self.itemsize, False, False, <int> n,
            <int> max(0, min(UNITS, self.n_hidden - unit)), <int> self.n_visible, 1.0,
            self.visible + first * self.visible_panels * PANEL_BYTES,
            self.visible_stride, parts.components + start, self.hidden_stride, 1.0,
            self.fields + start, self.hidden_stride,
        )

    cdef void _enter_rows(
        self, Py_ssize_t first, Py_ssize_t n, uint32_t row0, double scale,
        char *chains, int thread, int team,
    ) noexcept nogil:
        """What the rows add to the gradient; where chains start that are not kept."""
        cdef Py_ssize_t n_blocks = (n + ROWS - 1) // ROWS
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES
        cdef Py_ssize_t block, r, size = self.n_classes * stride
        cdef char *sums
        for block in range(
            bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
        ):
            sums = self.label_sums + block * size
            memset(sums, 0, size)
            for r in range(block * ROWS, min(n, (block + 1) * ROWS)):
                self._enter_row(
                    r, self.codes[self.order[first + r]], row0, scale, sums, chains,
                    self.scratch + thread * self.scratch_size,
                )
            if self.generative > 0 and not self.persistent:
                r = block * ROWS
                self._draw(
                    chains + r * stride, stride, min(ROWS, n - r), 0,
                    self.hidden_panels, row0 + <uint32_t> r, DRAW_DATA, self.step,
                    self.scratch + thread * self.scratch_size,
                )

    cdef void _enter_row(
        self, Py_ssize_t r, int32_t code, uint32_t row0, double scale, char *sums,
        char *chains, char *means,
    ) noexcept nogil:
        """Enter row r of class `code` (-1: unknown) into the sums."""
        cdef Py_ssize_t n_panels = self.hidden_panels, stride = n_panels * PANEL_BYTES
        cdef double *p = <double *> (means + self.n_classes * stride)
        cdef double *weights = self.label_weights + r * self.n_classes
        cdef double a = self.discriminative * scale, g = self.generative * scale
        cdef Parts parts = self._parts(self.parameters_)
        cdef char *row = self.hidden + r * stride
        cdef Py_ssize_t y, best = 0
        cdef double log_sum, own = 0
        for y in range(self.n_classes):
            p[y] = self._at(parts.label, y) + self.leaves.class_means(
                self.fields + r * stride, parts.labels + y * stride, n_panels,
                means + y * stride,
            )
            if p[y] > p[best]:
                best = y
        if code >= 0:
            own = p[code]
        log_sum = softmax(p, self.n_classes)
        memset(row, 0, stride)
        for y in range(self.n_classes):
            if code < 0:
                weights[y] = g * p[y]
            else:
                weights[y] = (a + g) * (y == code) - a * p[y]
            if weights[y] != 0:
                self.leaves.add_scaled(means + y * stride, weights[y], n_panels, row)
                self.leaves.add_scaled(
                    means + y * stride, weights[y], n_panels, sums + y * stride
                )
        self.scores[r], self.hits[r] = own - log_sum, best == code
        if self.generative > 0 and not self.persistent:
            if code < 0:
                code = <int32_t> _draw_label(
                    p, self.n_classes, self.key, self.step, row0 + <uint32_t> r,
                    DRAW_ROW_LABEL,
                )
            memcpy(chains + r * stride, means + code * stride, stride)

    cdef double _at(self, const char *x, Py_ssize_t k) noexcept nogil:
        if self.is_double:
            return (<const double *> x)[k]
        return (<const float *> x)[k]

    cdef void _draw(
        self, char *rows, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t start,
        Py_ssize_t stop, uint32_t row0, uint32_t purpose, uint64_t step, char *room,
    ) noexcept nogil:
        """Means -> states, in place, in panels start..stop of n rows."""
        cdef Py_ssize_t p, r, k
        cdef int lanes = self.leaves.lanes
        cdef char *bits = room + BLOCK * PANEL_BYTES
        cdef uint16_t *draws = <uint16_t *> (room + 2 * BLOCK * PANEL_BYTES)
        cdef uint32_t word
        cdef char *to
        for p in range(start, stop):
            for r in range(n):
                memcpy(
                    room + r * PANEL_BYTES, rows + r * stride + p * PANEL_BYTES,
                    PANEL_BYTES,
                )
            self.leaves.bernoulli(
                room, n, <uint32_t> p, self.key, step, row0, purpose, draws, bits, 4
            )
            for r in range(n):
                to = rows + r * stride + p * PANEL_BYTES
                word = (<uint32_t *> bits)[r]
                if self.is_double:
                    for k in range(lanes):
                        (<double *> to)[k] = word >> k & 1
                else:
                    for k in range(lanes):
                        (<float *> to)[k] = <float> (word >> k & 1)

    cdef void _draw_visible(
        self, Py_ssize_t n, Py_ssize_t m, uint32_t row0, Py_ssize_t sweep,
        const char *chains, int thread, int team,
    ) noexcept nogil:
        """Draw the visible units and the labels of m chains."""
        cdef Py_ssize_t n_blocks = (self.n_visible + UNITS - 1) // UNITS
        cdef Py_ssize_t stride = self.visible_panels * PANEL_BYTES
        cdef Py_ssize_t block, r, start, stop, unit
        cdef char *visible = self.visible + n * stride
        cdef Parts parts = self._parts(self.parameters_)
        # The labels are one more block.
        for block in range(
            bound(n_blocks + 1, thread, team), bound(n_blocks + 1, thread + 1, team)
        ):
            if block == n_blocks:
                self._draw_labels(m, row0, sweep, chains, thread)
                continue
            unit = block * UNITS
            start = unit * self.itemsize
            stop = min(start + UNITS * self.itemsize, stride)
            for r in range(m):
                memcpy(
                    visible + r * stride + start, parts.visible + start, stop - start
                )
            multiply(
                self.itemsize, False, True, <int> m,
                <int> min(UNITS, self.n_visible - unit), <int> self.n_hidden, 1.0,
                chains, self.hidden_stride,
                parts.components + unit * self.hidden_panels * PANEL_BYTES,
                self.hidden_stride, 1.0, visible + start, self.visible_stride,
            )
            for r in range(m):
                self.leaves.logistic(
                    visible + r * stride + start, (stop - start) // PANEL_BYTES
                )
            self._draw(
                visible, stride, m, start // PANEL_BYTES, stop // PANEL_BYTES, row0,
                DRAW_VISIBLE, self.step + sweep,
                self.scratch + thread * self.scratch_size,
            )

    cdef void _draw_labels(
        self, Py_ssize_t m, uint32_t row0, Py_ssize_t sweep, const char *chains,
        int thread,
    ) noexcept nogil:
        """Draw the labels of m chains."""
        cdef Parts parts = self._parts(self.parameters_)
        cdef Py_ssize_t r, y, stride = self.label_panels * PANEL_BYTES
        cdef double *p = <double *> (self.scratch + thread * self.scratch_size)
        multiply(
            self.itemsize, False, True, <int> m, <int> self.n_classes,
            <int> self.n_hidden, 1.0, chains, self.hidden_stride, parts.labels,
            self.hidden_stride, 0.0, self.label_fields, self.label_stride,
        )
        for r in range(m):
            for y in range(self.n_classes):
                p[y] = self._at(self.label_fields + r * stride, y)
                p[y] += self._at(parts.label, y)
            softmax(p, self.n_classes)
            self.label_draws[r] = <int32_t> _draw_label(
                p, self.n_classes, self.key, self.step + sweep, row0 + <uint32_t> r,
                DRAW_LABEL,
            )

    cdef void _draw_hidden(
        self, Py_ssize_t n, Py_ssize_t m, uint32_t row0, Py_ssize_t sweep,
        double weight, char *chains, int thread, int team,
    ) noexcept nogil:
        """Means of the hidden units of m chains, times -weight; and their states."""
        cdef Py_ssize_t n_blocks = (self.hidden_stride + UNITS - 1) // UNITS
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES
        cdef Py_ssize_t block, r, start, stop, size
        cdef Parts parts = self._parts(self.parameters_)
        cdef char *field
        cdef char *to
        for block in range(
            bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
        ):
            start = block * UNITS * self.itemsize
            stop = min(start + UNITS * self.itemsize, stride)
            size = (stop - start) // PANEL_BYTES
            for r in range(m):
                field = self.fields + r * stride + start
                memcpy(field, parts.hidden + start, stop - start)
                self.leaves.add_scaled(
                    parts.labels + self.label_draws[r] * stride + start, 1, size, field
                )
            self._multiply_up(n, m, block)
            for r in range(m):
                field = self.fields + r * stride + start
                self.leaves.logistic(field, size)
                to = self.hidden + (n + r) * stride + start
                memset(to, 0, stop - start)
                self.leaves.add_scaled(field, -weight, size, to)
                memcpy(chains + r * stride + start, field, stop - start)
            if self.persistent or sweep < self.n_gibbs_steps - 1:
                self._draw(
                    chains, stride, m, start // PANEL_BYTES, stop // PANEL_BYTES,
                    row0, DRAW_HIDDEN, self.step + sweep,
                    self.scratch + thread * self.scratch_size,
                )

    # ---- The gradient and its step ----

    cdef void _update(
        self, Py_ssize_t n, Py_ssize_t m, Place now, int thread, int team
    ) noexcept nogil:
        """Gradient of a pass, block by block; with the last pass its step."""
        cdef Py_ssize_t n_features = (self.n_visible + FEATURES - 1) // FEATURES
        cdef Py_ssize_t n_units = (self.hidden_stride + UNITS - 1) // UNITS
        cdef Py_ssize_t block
        cdef bint fresh = now.part == 0, last = now.part == self.n_passes - 1
        cdef double rate = self.rates[now.batch]
        # Label weights and biases of hidden units; biases of what is visible.
        for block in range(
            bound(n_units + 1, thread, team), bound(n_units + 1, thread + 1, team)
        ):
            if block < n_units:
                self._sum_units(block, n, m, fresh)
                if last:
                    self._give_way_to_decay(block)
                    self._step_units(block, rate)
            else:
                self._sum_visible(n, m, now, fresh)
                if last:
                    self._step_visible(rate)
        if last:
            # Where weights are centred, they need what the biases' gradient is.
            team_barrier()
        for block in range(
            bound(n_features, thread, team), bound(n_features, thread + 1, team)
        ):
            self._sum_features(
                block, n + m, fresh, self.scratch + thread * self.scratch_size
            )
            if last:
                self._centre_features(block)
                self._step_features(block, rate)

    cdef void _sum_features(
        self, Py_ssize_t block, Py_ssize_t n, bint fresh, char *room
    ) noexcept nogil:
        """Gradient of the weights of a block of features, from n rows and chains."""
        cdef Py_ssize_t first = block * FEATURES
        cdef Py_ssize_t size = min(FEATURES, self.n_visible - first)
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES
        cdef char *gradient = self.gradient + first * stride
        cdef ActiveRows lists
        if not self.listed:
            multiply(
                self.itemsize, True, False, <int> size, <int> self.n_hidden, <int> n,
                1.0, self.visible + first * self.itemsize, self.visible_stride,
                self.hidden, self.hidden_stride, 0.0 if fresh else 1.0, gradient,
                self.hidden_stride,
            )
            return
        if fresh:
            memset(gradient, 0, size * stride)
        lists = self._turned_lists(first, size, n, room)
        self.leaves.add_lists(
            &lists, size, self.hidden, stride, self.hidden_panels, gradient, stride
        )

    cdef void _centre_features(self, Py_ssize_t block) noexcept nogil:
        """The gradient of the weights of a block of features, centred."""
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES, i
        for i in range(
            block * FEATURES, min((block + 1) * FEATURES, self.n_visible)
        ):
            if self.offset[i] != 0:
                self.leaves.add_scaled(
                    self.plain_sums, -self.offset[i], self.hidden_panels,
                    self.gradient + i * stride,
                )

    cdef ActiveRows _turned_lists(
        self, Py_ssize_t first, Py_ssize_t size, Py_ssize_t n, char *room
    ) noexcept nogil:
        """Of some features, the lists of the rows in which they are not zero."""
        cdef ActiveRows of_row, lists
        cdef Py_ssize_t r, i
        cdef int32_t k
        memset(&lists, 0, sizeof(lists))
        lists.stride = n
        lists.length = <int32_t *> room
        lists.index = <uint32_t *> (room + 4 * FEATURES)
        if self.room.active.value != NULL:
            lists.value = room + 4 * FEATURES * (n + 1)
        memset(room, 0, 4 * FEATURES)
        for r in range(n):
            of_row = self.room.at(r)
            k = lower_bound(of_row.index, of_row.length[0], <uint32_t> first)
            while k < of_row.length[0] and of_row.index[k] < first + size:
                i = of_row.index[k] - first
                lists.index[i * n + lists.length[i]] = <uint32_t> r
                if lists.value != NULL:
                    self._set_at(
                        <char *> lists.value, i * n + lists.length[i],
                        self._at(<const char *> of_row.value, k),
                    )
                lists.length[i] += 1
                k += 1
        return lists

    cdef void _sum_units(
        self, Py_ssize_t block, Py_ssize_t n, Py_ssize_t m, bint fresh
    ) noexcept nogil:
        """Gradient of the label weights and biases of a block of hidden units."""
        cdef Parts gradient = self._parts(self.gradient)
        cdef Py_ssize_t start = block * UNITS * self.itemsize
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES
        cdef Py_ssize_t stop = min(start + UNITS * self.itemsize, stride)
        cdef Py_ssize_t r, y, size = (stop - start) // PANEL_BYTES
        cdef char *to
        cdef char *row
        if fresh:
            memset(gradient.hidden + start, 0, stop - start)
            memset(self.plain_sums + start, 0, stop - start)
        for r in range(n + m):
            row = self.hidden + r * stride + start
            self.leaves.add_scaled(row, 1, size, self.plain_sums + start)
            # What the fields gain in the mean, less what the weights give them of it.
            self.leaves.add_scaled(
                row, 1 + self.offset_square - self.projections[r], size,
                gradient.hidden + start,
            )
        for y in range(self.n_classes):
            to = gradient.labels + y * stride + start
            if fresh:
                memset(to, 0, stop - start)
            for r in range((n + ROWS - 1) // ROWS):
                self.leaves.add_scaled(
                    self.label_sums + (r * self.n_classes + y) * stride + start, 1,
                    size, to,
                )
        for r in range(m):
            self.leaves.add_scaled(
                self.hidden + (n + r) * stride + start, 1, size,
                gradient.labels + self.label_draws[r] * stride + start,
            )

    cdef void _give_way_to_decay(self, Py_ssize_t block) noexcept nogil:
        """Let hidden biases gain what decay takes from the fields in the mean."""
        cdef Parts gradient = self._parts(self.gradient)
        cdef Py_ssize_t start = block * UNITS * self.itemsize
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES, i
        cdef Py_ssize_t stop = min(start + UNITS * self.itemsize, stride)
        if self.weight_decay == 0:
            return
        for i in range(self.n_visible):
            if self.offset[i] != 0:
                self.leaves.add_scaled(
                    self.parameters_ + i * stride + start,
                    self.weight_decay * self.offset[i],
                    (stop - start) // PANEL_BYTES, gradient.hidden + start,
                )

    cdef void _sum_visible(
        self, Py_ssize_t n, Py_ssize_t m, Place now, bint fresh
    ) noexcept nogil:
        """Gradient of the biases of the visible units and the labels."""
        cdef Parts gradient = self._parts(self.gradient)
        cdef Py_ssize_t stride = self.visible_panels * PANEL_BYTES, r, y
        cdef double of_chain = self.generative / now.n_chains
        if fresh:
            memset(gradient.visible, 0, stride)
            memset(gradient.label, 0, self.label_panels * PANEL_BYTES)
        for r in range(n):
            for y in range(self.n_classes):
                self._add(
                    gradient.label, y, self.label_weights[r * self.n_classes + y]
                )
            if self.generative > 0:
                if self.listed:
                    self._spread(self.room.at(r), r)
                self.leaves.add_scaled(
                    self.visible + r * stride, self.generative / now.n_rows,
                    self.visible_panels, gradient.visible,
                )
        for r in range(m):
            self._add(gradient.label, self.label_draws[r], -of_chain)
            self.leaves.add_scaled(
                self.visible + (n + r) * stride, -of_chain, self.visible_panels,
                gradient.visible,
            )

    cdef void _add(self, char *to, Py_ssize_t k, double x) noexcept nogil:
        if self.is_double:
            (<double *> to)[k] += x
        else:
            (<float *> to)[k] += <float> x

    cdef void _step_features(self, Py_ssize_t block, double rate) noexcept nogil:
        """The step of the weights of a block of features."""
        cdef Py_ssize_t first = block * FEATURES
        cdef Py_ssize_t size = min(FEATURES, self.n_visible - first), i
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES
        if not self.scaled:
            self._ascend(
                first * stride, size * self.hidden_panels, rate, self.weight_decay
            )
            return
        for i in range(first, first + size):
            # (Decay is as fast as without the scale.)
            self._ascend(
                i * stride, self.hidden_panels, rate * self.scales[i],
                self.weight_decay / self.scales[i],
            )

    cdef void _step_units(self, Py_ssize_t block, double rate) noexcept nogil:
        """The step of the label weights and biases of a block of hidden units."""
        cdef Py_ssize_t stride = self.hidden_panels * PANEL_BYTES, y
        cdef Py_ssize_t start = block * UNITS * self.itemsize
        cdef Py_ssize_t stop = min(start + UNITS * self.itemsize, stride)
        # After the classes come the biases, which do not decay.
        for y in range(self.n_classes + 1):
            self._ascend(
                (self.n_visible + y) * stride + start, (stop - start) // PANEL_BYTES,
                rate, self.weight_decay if y < self.n_classes else 0,
            )

    cdef void _step_visible(self, double rate) noexcept nogil:
        """The step of the biases of the visible units and the labels."""
        cdef Parts parts = self._parts(self.parameters_)
        self._ascend(
            parts.visible - self.parameters_,
            self.visible_panels + self.label_panels, rate, 0,
        )

    cdef void _ascend(
        self, Py_ssize_t at, Py_ssize_t n_panels, double rate, double decay
    ) noexcept nogil:
        """The step of the parameters that lie `at` so many bytes."""
        cdef double mix = 0
        if self.average != NULL:
            mix = share_in_average(self.n_passed + 1, self.spacing)
        self.leaves.ascend(
            self.parameters_ + at, self.gradient + at,
            NULL if self.velocity == NULL else self.velocity + at,
            NULL if mix == 0 else self.average + at, n_panels, rate, self.momentum,
            decay, mix,
        )

    cdef void _note(self, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
        """Enter how well the rows of a pass were known."""
        cdef Py_ssize_t r
        for r in range(n):
            if self.codes[self.order[first + r]] >= 0:
                self.log_likelihood += self.scores[r]
                self.n_hits += self.hits[r]
                self.n_labelled += 1
