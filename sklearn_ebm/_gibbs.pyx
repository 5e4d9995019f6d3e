# Block-Gibbs kernels: half-sweeps between two layers, and chains of them.
#
# The states of a Boltzmann machine are bits, so a product with a weight matrix is
# a sum of the rows of the matrix that active units name, by lists or by their bits,
# and costs nothing for the units that are off:
#
#   half-sweep   field[r] = bias + sum of weight rows of the units on in row r
#
# Where many units are on in many rows, sums of four neighbours in all their states
# are tabulated, and there is one to add for every four units (longest_list, _simd.h).
#
# Of dense rows of data all values are multiplied: the same sums, as what is added for a
# unit that is off is zero.
#
# Weights are packed in panels (see _simd.h). Threads share panels or rows; no sum
# is ever split between threads, so results do not depend on their number.
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport parallel
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num, team_barrier
from ._panels cimport Panels, address, aligned
from ._rows cimport Range, RowBlock, Rows
from ._simd cimport (
    GROUP,
    MOST_SETS,
    PANEL_BYTES,
    ActiveRows,
    Leaves,
    RowSums,
    n_panels_of,
    select_leaves,
)

from ._openmp import effective_n_threads


# Rows of data of which at least this share is not zero are summed whole, which takes as
# long for any number of zeros.
cdef double DENSE = 0.5
# Panels of rows that a thread adds up in less than a tenth of a second: then Ctrl-C is
# heard.
cdef double PIECE = 2e7


cdef class Layer:
    """One direction between two layers: weights and the biases they lead to.

    With `turned`, the weights are those of the other direction, and panels are
    turned round when they are needed; so they may change between sweeps.
    """

    def __cinit__(self, Panels weights, bias, bint turned=False):
        self.weights, self.turned, self.leaves = weights, turned, weights.leaves
        self.n_inputs, self.n_units = weights.n_rows, weights.n_columns
        if turned:
            self.n_inputs, self.n_units = self.n_units, self.n_inputs
        self.n_panels = n_panels_of(self.n_units, self.leaves)
        self.bias_memory = aligned(self.n_panels * PANEL_BYTES)
        # The units that pad the last panel stay off.
        self.bias_memory.view(weights.dtype)[:] = -1e30
        self.bias_memory.view(weights.dtype)[: self.n_units] = bias
        self.bias = address(self.bias_memory)

    cdef Py_ssize_t stride(self) noexcept nogil:
        """Bytes between two panels that `panels` returns."""
        if self.turned:
            return self.weights.n_panels * self.leaves.lanes * PANEL_BYTES
        return self.weights.stride

    cdef Py_ssize_t room(self, Py_ssize_t n_panels) noexcept nogil:
        """Bytes of room that n_panels panels at a time need."""
        return n_panels * self.stride() if self.turned else 0

    cdef const char *panels(
        self, Py_ssize_t start, Py_ssize_t stop, char *room
    ) noexcept nogil:
        """Panels start..stop, stride() apart, in `room` if they are turned."""
        cdef Py_ssize_t p
        if not self.turned:
            return self.weights.data + start * self.weights.stride
        for p in range(start, stop):
            self.leaves.transpose(
                self.weights.data + p * self.leaves.lanes * PANEL_BYTES,
                self.weights.stride, room + (p - start) * self.stride(),
                self.weights.n_panels,
            )
        return room

    cdef void fields(
        self, const ActiveRows *rows, Py_ssize_t n_rows, Py_ssize_t start,
        Py_ssize_t stop, const char *panels, char *out, Py_ssize_t stride,
    ) noexcept nogil:
        """out[p - start][r] = the field of panel p in row r."""
        cdef RowSums sums
        sums.rows, sums.n_rows = rows[0], n_rows
        sums.out, sums.out_stride = out, stride
        self.fields_of(&sums, 1, start, stop, panels)

    cdef void fields_of(
        self, const RowSums *sets, int n_sets, Py_ssize_t start, Py_ssize_t stop,
        const char *panels,
    ) noexcept nogil:
        """Like `fields`, for sets of rows that share a reading of the panels."""
        self.leaves.sum_active(
            sets, n_sets, panels, self.stride(), <int> (stop - start),
            self.bias + start * PANEL_BYTES, 0,
        )


def half_sweep(
    Rows rows, Layer layer, *, fields=None, means=None, samples=None, key=0,
    step=0, Purpose purpose=DRAW_DATA,
):
    """Sum into the units of a layer from rows of the layer before.

    Fills the arrays that are given, each (n_rows, n_units): `fields` and
    `means` of the layer's dtype, `samples` of bool.
    """
    if rows.n_columns != layer.n_inputs:
        raise ValueError("rows and layer do not fit")
    # (No more room than there are rows.)
    cdef Py_ssize_t most = max(1, min(BLOCK, rows.n_rows))
    cdef Py_ssize_t n_blocks = (rows.n_rows + most - 1) // most
    cdef double work = rows.n_rows * rows.n_columns * rows.density * layer.n_panels
    cdef int n_threads = min(n_blocks, effective_n_threads(work, LEAST_WORK))
    cdef _HalfSweep sweep = _HalfSweep(
        rows, layer, fields, means, samples, most, n_threads
    )
    sweep.draw.key, sweep.draw.step, sweep.draw.purpose = key, step, purpose
    cdef Py_ssize_t n_pieces = 1 + <Py_ssize_t> (work / (n_threads * PIECE))
    cdef Py_ssize_t piece, first, n, block
    cdef int thread, team
    for piece in range(n_pieces):
        first = bound(n_blocks, piece, n_pieces)
        n = bound(n_blocks, piece + 1, n_pieces) - first
        with nogil, parallel(num_threads=n_threads):
            thread = omp_get_thread_num()
            team = omp_get_num_threads()
            for block in range(
                first + bound(n, thread, team), first + bound(n, thread + 1, team)
            ):
                sweep.block(block * most, min(most, rows.n_rows - block * most), thread)
        PyErr_CheckSignals()
    if not rows.scanned:
        rows.note_range(
            min(sweep.found[thread].minimum for thread in range(n_threads)),
            max(sweep.found[thread].maximum for thread in range(n_threads)),
            all(sweep.found[thread].finite for thread in range(n_threads)),
        )


cdef class _HalfSweep:
    """A half-sweep of blocks of at most `most` rows, each by one of some threads."""

    cdef Rows rows
    cdef Layer layer
    cdef RowBlock room
    cdef Draw draw
    cdef Range *found
    cdef bint want_fields, want_means, want_samples
    cdef unsigned char[:, ::1] fields, means, samples
    cdef Py_ssize_t most, stride, bits_stride
    cdef const char *weights
    cdef char *out
    cdef char *bits
    cdef char *draws
    cdef list memory

    def __cinit__(
        self, Rows rows, Layer layer, fields, means, samples, Py_ssize_t most,
        int n_threads,
    ):
        cdef Py_ssize_t n_panels = layer.n_panels
        cdef int thread
        self.rows, self.layer, self.most = rows, layer, most
        self.want_fields, self.want_means = fields is not None, means is not None
        self.want_samples = samples is not None
        self.fields = _bytes(fields, rows, layer)
        self.means = _bytes(means, rows, layer)
        self.samples = _bytes(samples, rows, layer)
        self.room = RowBlock(rows, n_threads * most, n_threads, rows.is_dense(DENSE))
        self.stride = most * PANEL_BYTES
        self.bits_stride = (n_panels * layer.leaves.lanes + 63) // 64 * 8
        self.memory = [
            aligned(layer.room(n_panels) + PANEL_BYTES),
            aligned(n_threads * n_panels * self.stride),
            aligned(n_threads * most * self.bits_stride),
            aligned(n_threads * 2 * self.stride),
            aligned(n_threads * sizeof(Range)),
        ]
        self.weights = layer.panels(0, n_panels, address(self.memory[0]))
        self.out = address(self.memory[1])
        self.bits = address(self.memory[2])
        self.draws = address(self.memory[3])
        self.found = <Range *> address(self.memory[4])
        for thread in range(n_threads):
            self.found[thread].minimum, self.found[thread].maximum = INFINITY, -INFINITY
            self.found[thread].finite = True

    cdef void block(self, Py_ssize_t first, Py_ssize_t n, int thread) noexcept nogil:
        """Do the n rows from the first one on."""
        cdef const Leaves *leaves = self.layer.leaves
        cdef Py_ssize_t slot = thread * self.most, n_panels = self.layer.n_panels, r, p
        cdef char *out = self.out + thread * n_panels * self.stride
        cdef char *bits = self.bits + slot * self.bits_stride
        cdef ActiveRows active
        for r in range(n):
            self.room.read(self.rows, slot + r, first + r, thread)
        active = self.room.at(slot)
        if not self.rows.scanned and self.room.note(slot, n, &self.found[thread]):
            active.value = NULL
        self.layer.fields(&active, n, 0, n_panels, self.weights, out, self.stride)
        if self.want_fields:
            _unpack(self.layer, out, self.stride, n, &self.fields[first, 0])
        if not (self.want_means or self.want_samples):
            return
        for p in range(n_panels):
            leaves.logistic(out + p * self.stride, n)
        if self.want_means:
            _unpack(self.layer, out, self.stride, n, &self.means[first, 0])
        if not self.want_samples:
            return
        for p in range(n_panels):
            leaves.bernoulli(
                out + p * self.stride, n, <uint32_t> p, self.draw.key, self.draw.step,
                <uint32_t> first, self.draw.purpose,
                <uint16_t *> (self.draws + thread * 2 * self.stride),
                bits + p * leaves.lanes // 8, self.bits_stride,
            )
        for r in range(n):
            _spread(
                bits + r * self.bits_stride, self.layer.n_units,
                &self.samples[first + r, 0],
            )


cdef object _bytes(array, Rows rows, Layer layer):
    """A view of an output array as bytes, checked; a dummy for None."""
    if array is None:
        return np.empty((1, 1), dtype=np.uint8)
    if array.shape != (rows.n_rows, layer.n_units):
        raise ValueError(f"output of shape {array.shape} does not fit")
    return array.view(np.uint8)


cdef void _unpack(
    Layer layer, const char *panels, Py_ssize_t stride, Py_ssize_t n, void *out
) noexcept nogil:
    """Panels that are `stride` bytes apart to n plain rows."""
    cdef Py_ssize_t size = layer.n_units * layer.leaves.itemsize
    cdef Py_ssize_t r, p, at
    for r in range(n):
        for p in range(layer.n_panels):
            at = p * PANEL_BYTES
            memcpy(
                <char *> out + r * size + at,
                panels + p * stride + r * PANEL_BYTES, min(PANEL_BYTES, size - at),
            )


cdef void _spread(const char *bits, Py_ssize_t n, unsigned char *out) noexcept nogil:
    """Bits to bytes."""
    cdef Py_ssize_t k
    for k in range(n):
        out[k] = <unsigned char> (bits[k // 8] >> (k % 8)) & 1


cdef class Bits:
    """Rows of bits of a layer (padded to 64), and their lists where units go by pairs.

    first_pair : that of the panels which the lists are for.
    """

    def __cinit__(
        self, Py_ssize_t n_rows, Py_ssize_t n_units, uint32_t first_pair=0
    ):
        self.leaves = select_leaves(4)
        self.n_rows, self.n_words = n_rows, (n_units + 63) // 64
        self.memory = [aligned(n_rows * self.n_words * 8), aligned(n_rows * 4)]
        self.words = <uint64_t *> address(self.memory[0])
        self.active.bits = self.active.words = self.words
        self.active.length = <int32_t *> address(self.memory[1])
        self.active.value = NULL
        self.active.n_words, self.active.n_units = self.n_words, n_units
        self.active.stride = self.n_words * 64
        self.first_pair = first_pair
        if first_pair:
            self.memory.append(aligned(n_rows * self.n_words * 256))
            self.active.index = <uint32_t *> address(self.memory[2])

    cdef void list_row(self, Py_ssize_t r) noexcept nogil:
        cdef const uint64_t *words = self.words + r * self.n_words
        if self.first_pair:
            self.active.length[r] = self.leaves.list_pairs(
                words, self.n_words, self.first_pair,
                self.active.index + r * self.active.stride,
            )
        else:
            self.active.length[r] = self.leaves.count_bits(words, self.n_words)

    cdef void clamp_row(self, Bits mask, Bits values, Py_ssize_t r) noexcept nogil:
        """Set the units of a row that are in a mask to given values."""
        cdef Py_ssize_t w
        for w in range(r * self.n_words, (r + 1) * self.n_words):
            self.words[w] = (self.words[w] & ~mask.words[w]) | (
                values.words[w] & mask.words[w]
            )

    cdef ActiveRows at(self, Py_ssize_t r) noexcept nogil:
        cdef ActiveRows rows = self.active
        if rows.index != NULL:
            rows.index += r * rows.stride
        rows.bits += r * self.n_words
        rows.length += r
        if rows.words != NULL:
            rows.words += r * self.n_words
        return rows

    def set(self, states):
        """Take 0/1 states of shape (n_rows, n_units)."""
        packed = np.packbits(np.asarray(states) != 0, axis=1, bitorder="little")
        rows = self.memory[0].reshape(self.n_rows, self.n_words * 8)
        rows[:, : packed.shape[1]] = packed

    def get(self, Py_ssize_t n_units, dtype):
        rows = self.memory[0].reshape(self.n_rows, self.n_words * 8)
        bits = np.unpackbits(rows, axis=1, count=n_units, bitorder="little")
        return bits.astype(dtype)


cdef void sample_panels(
    Layer layer, const Sweep *sweeps, int n_sweeps, Py_ssize_t start,
    Py_ssize_t stop, char *room,
) noexcept nogil:
    """Means and samples of panels start..stop of a layer, for some sweeps (MOST_SETS).

    room: what the layer needs for GROUP panels.
    """
    cdef Py_ssize_t p = start, q
    cdef RowSums[MOST_SETS] fields
    cdef int s
    for s in range(n_sweeps):
        fields[s].rows, fields[s].n_rows = sweeps[s].given, sweeps[s].n
        fields[s].out = sweeps[s].fields
        fields[s].out_stride = sweeps[s].n * PANEL_BYTES
    while p < stop:
        q = min(p + GROUP, stop)
        layer.fields_of(fields, n_sweeps, p, q, layer.panels(p, q, room))
        for s in range(n_sweeps):
            _sample_group(layer, &sweeps[s], p, q, fields[s].out)
            if sweeps[s].keep_fields:
                fields[s].out += (q - p) * fields[s].out_stride
        p = q


cdef void _sample_group(
    Layer layer, const Sweep *sweep, Py_ssize_t start, Py_ssize_t stop, char *fields
) noexcept nogil:
    """sample_panels for the panels start..stop of one sweep, whose fields are known."""
    cdef Py_ssize_t p, n = sweep.n
    for p in range(start, stop):
        if sweep.base != NULL:
            layer.leaves.temper(fields, n, sweep.base + p * PANEL_BYTES, sweep.betas)
        layer.leaves.logistic(fields, n)
        if sweep.draw.purpose != NO_DRAW:
            layer.leaves.bernoulli(
                fields, n, <uint32_t> p, sweep.draw.key, sweep.draw.step,
                sweep.draw.row0, sweep.draw.purpose, sweep.draw.room,
                sweep.bits + p * layer.leaves.lanes // 8, sweep.bits_stride,
            )
        fields += n * PANEL_BYTES


cdef Sweep bits_sweep(
    Bits given, Py_ssize_t first_given, Bits out, Py_ssize_t first_out,
    Py_ssize_t n, char *fields, Draw draw,
) noexcept nogil:
    """A sweep from rows of bits (which have been listed) to rows of bits."""
    cdef Sweep sweep
    sweep.given, sweep.n = given.at(first_given), n
    sweep.base, sweep.betas = NULL, NULL
    sweep.fields, sweep.keep_fields, sweep.draw = fields, False, draw
    sweep.bits = <char *> (out.words + first_out * out.n_words)
    sweep.bits_stride = out.n_words * 8
    return sweep


def run_chains(
    Layer up, Layer down, states, Py_ssize_t n_steps, key, step, clamped=None,
    Py_ssize_t row0=0,
):
    """Advance chains by n_steps sweeps (hidden, then visible), in place.

    states : bool array (n_chains, n_visible). Row r is chain row0 + r of the
    random counter; sweep s uses step + s.
    clamped : bool array like states; the units that keep their state, or None.
    """
    cdef Py_ssize_t n_rows = states.shape[0]
    if n_rows == 0:
        return
    cdef Bits visible = Bits(n_rows, down.n_units, up.weights.first_pair)
    cdef Bits hidden = Bits(n_rows, up.n_units)
    cdef Bits mask = None, fixed = None
    if clamped is not None:
        mask, fixed = Bits(n_rows, down.n_units), Bits(n_rows, down.n_units)
        mask.set(clamped)
        fixed.set(states)
    visible.set(states)
    cdef double work = 0.2 * n_rows * (
        up.n_inputs * up.n_panels + down.n_inputs * down.n_panels
    )
    cdef int n_threads = 1
    if work >= LEAST_SWEEP:
        n_threads = effective_n_threads(n_steps * work, LEAST_WORK)
    # Rows of a block decide together whether they go by words; blocks must not depend
    # on the number of threads. These share the panels of every block, so that each has
    # only its part of the weights in its cache; with few panels each has its blocks.
    cdef Py_ssize_t n_blocks = (n_rows + BLOCK - 1) // BLOCK
    cdef bint alone = (
        n_blocks >= n_threads and min(up.n_panels, down.n_panels) < 8 * n_threads
    )
    cdef Py_ssize_t size = (
        2 * GROUP * ((n_rows + n_blocks - 1) // n_blocks) * PANEL_BYTES
        + max(up.room(GROUP), down.room(GROUP))
    )
    memory = aligned(n_threads * size)
    cdef char *scratch = address(memory)
    cdef Draw draw
    draw.key, draw.step, draw.row0 = key, step, row0
    cdef Py_ssize_t block, start, stop
    cdef int thread, team
    with nogil, parallel(num_threads=n_threads):
        thread = omp_get_thread_num()
        team = omp_get_num_threads()
        start = bound(n_blocks, thread, team) if alone else 0
        stop = bound(n_blocks, thread + 1, team) if alone else n_blocks
        for block in range(start, stop):
            _run_block(
                up, down, visible, hidden, mask, fixed, bound(n_rows, block, n_blocks),
                bound(n_rows, block + 1, n_blocks), n_steps, draw,
                scratch + thread * size, 0 if alone else thread, 1 if alone else team,
            )
    states[...] = visible.get(down.n_units, bool)


cdef void _run_block(
    Layer up, Layer down, Bits visible, Bits hidden, Bits mask, Bits fixed,
    Py_ssize_t first, Py_ssize_t last, Py_ssize_t n_steps, Draw draw, char *scratch,
    int thread, int team,
) noexcept nogil:
    """run_chains for the chains first..last, by a team: each its rows and panels."""
    cdef Py_ssize_t _s, r, n = last - first
    cdef Py_ssize_t start = first + bound(n, thread, team)
    cdef Py_ssize_t stop = first + bound(n, thread + 1, team)
    cdef Sweep sweep
    cdef char *room = scratch + 2 * GROUP * n * PANEL_BYTES
    draw.room = <uint16_t *> (scratch + GROUP * n * PANEL_BYTES)
    draw.row0 += <uint32_t> first
    for _s in range(n_steps):
        for r in range(start, stop):
            visible.list_row(r)
        _wait(team)
        draw.purpose = DRAW_HIDDEN
        sweep = bits_sweep(visible, first, hidden, first, n, scratch, draw)
        sample_panels(
            up, &sweep, 1, bound(up.n_panels, thread, team),
            bound(up.n_panels, thread + 1, team), room,
        )
        _wait(team)
        for r in range(start, stop):
            hidden.list_row(r)
        _wait(team)
        draw.purpose = DRAW_VISIBLE
        sweep = bits_sweep(hidden, first, visible, first, n, scratch, draw)
        sample_panels(
            down, &sweep, 1, bound(down.n_panels, thread, team),
            bound(down.n_panels, thread + 1, team), room,
        )
        _wait(team)
        if mask is not None:
            for r in range(start, stop):
                visible.clamp_row(mask, fixed, r)
        draw.step += 1


cdef inline void _wait(int team) noexcept nogil:
    """Wait for the others of a team; who works alone waits for nobody."""
    if team > 1:
        team_barrier()
