# Mean-field means of the latent units of deep machines.
#
# Folded (see layered.py), a deep machine has two sides: its even layers, the first
# of which is given, and its odd layers. Units of a side are independent given the
# other side, so that each half step below is the best there is for its side, and the
# bound on the log-likelihood never falls:
#
#   odd     means given  given.W + latent.W + c
#   latent  means given  odd.W' + b
#
# Most means are near 0 or 1 soon, and stay there. So both sides keep their fields, and
# tell each other only what has changed, which enters as the rows of weights of some
# units. What is small beside the last largest change of the row (at first, beside 1),
# or less than a share of the tolerance, is not told until it has added up to more. (A
# unit that tells its mean is at its best given what the other side has told: the bound
# of what has been told never falls in this way, either, that of all means by no more
# than what waits. With a tolerance of 0 everything is told.)
#
# A row is done when no mean of its latent units moves by more than the tolerance, and
# the odd units have told all but that share of it: else many that wait, each for less
# than an eighth of what moved before, could still move much together.
import numpy as np

from cython.parallel cimport parallel
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcpy, memset

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport Slabs, address, aligned
from ._rows cimport Rows
from ._simd cimport PANEL_BYTES, Changes, select_leaves
from ._units cimport Units, row_means

from ._openmp import effective_n_threads

cdef enum:
    # Multiplications worth a second thread, which on a busy machine comes late.
    LEAST_WORK = 20000000

# Changes that are not told: as a share of the tolerance, and of the last largest change
# of the row. (In a machine of 784-500-1000 units trained on MNIST they leave 29 % of
# the additions of ten steps, and bounds as high within 0.0001 nats. With half that
# share of the largest 34 % are left, and bounds are within 0.00002; with twice the
# share 19 %, and they are lower by 0.002.)
cdef double SHARE_OF_TOLERANCE = 1 / 8.0
cdef double SHARE_OF_LARGEST = 1 / 8.0


cdef class MeanField:
    """Mean-field inference in a folded machine whose first n_given units are given.

    latent, odd : Units; the even units after those given, and the odd units.
    """

    def __init__(
        self, Units latent, Units odd, dtype, Py_ssize_t n_given, *,
        Py_ssize_t n_steps, double tolerance,
    ):
        self.itemsize = np.dtype(dtype).itemsize
        self.leaves = select_leaves(self.itemsize)
        self.latent, self.odd = latent, odd
        self.n_given, self.n_latent = n_given, latent.n_units
        self.n_odd = odd.n_units
        self.latent_bytes = latent.n_panels(self.leaves) * PANEL_BYTES
        self.odd_bytes = odd.n_panels(self.leaves) * PANEL_BYTES
        self.n_steps, self.tolerance = n_steps, tolerance
        self.even_rows = Slabs(n_given + self.n_latent, self.n_odd, dtype)
        self.odd_rows = Slabs(self.n_odd, self.n_latent, dtype)
        self.memory = {}

    def set(self, weights, odd_bias, latent_bias):
        """Take copies of weights (n_even, n_odd) and biases."""
        dtype = np.float32 if self.itemsize == 4 else np.float64
        weights = np.ascontiguousarray(weights, dtype)
        self.take_weights(
            <const char *> <size_t> weights.ctypes.data, weights.strides[0], 0, 1
        )
        for name, bias, n_bytes in [
            ("odd", odd_bias, self.odd_bytes),
            ("latent", latent_bias, self.latent_bytes),
        ]:
            self.memory[name] = aligned(max(PANEL_BYTES, n_bytes))
            self.memory[name].view(dtype)[: len(bias)] = bias
        self.point(address(self.memory["odd"]), address(self.memory["latent"]))
        return self

    cdef void point(
        self, const char *odd_bias, const char *latent_bias
    ) noexcept nogil:
        """Use biases where they are."""
        self.odd_bias, self.latent_bias = odd_bias, latent_bias

    cdef void take_weights(
        self, const char *weights, Py_ssize_t n_bytes, int thread, int team
    ) noexcept nogil:
        """Copy a thread's share of weights, by even unit, n_bytes apart."""
        cdef Py_ssize_t n = self.even_rows.n_slabs
        self.even_rows.take_rows(
            weights, n_bytes, bound(n, thread, team), bound(n, thread + 1, team)
        )
        n = self.odd_rows.n_slabs
        self.odd_rows.take_columns(
            weights + self.n_given * n_bytes, n_bytes, bound(n, thread, team),
            bound(n, thread + 1, team),
        )

    cdef Py_ssize_t room(self) noexcept nogil:
        """Bytes of room that settle_block needs."""
        cdef Block block
        cdef Side odd, latent
        cdef char *start = NULL
        return self.lay_out(&block, &odd, &latent, start) - start

    cdef char *lay_out(
        self, Block *block, Side *odd, Side *latent, char *room
    ) noexcept nogil:
        """Divide the room, all of it on cache lines; returns its end."""
        cdef Py_ssize_t given_bytes = whole_lines(self.n_given * self.itemsize)
        cdef Py_ssize_t row_bytes = max(
            given_bytes, max(self.odd_bytes, self.latent_bytes)
        )
        block.changes.stride = row_bytes // self.itemsize
        odd.n_units, odd.n_bytes = self.n_odd, self.odd_bytes
        latent.n_units, latent.n_bytes = self.n_latent, self.latent_bytes
        odd.told = carve(&room, ROWS * odd.n_bytes)
        odd.fields = carve(&room, ROWS * odd.n_bytes)
        odd.moved = <double *> carve(&room, ROWS * sizeof(double))
        odd.least = <double *> carve(&room, ROWS * sizeof(double))
        latent.told = carve(&room, ROWS * latent.n_bytes)
        latent.fields = carve(&room, ROWS * latent.n_bytes)
        latent.moved = <double *> carve(&room, ROWS * sizeof(double))
        latent.least = <double *> carve(&room, ROWS * sizeof(double))
        block.done = <int32_t *> carve(&room, ROWS * sizeof(int32_t))
        block.changes.words = <uint64_t *> carve(
            &room, ROWS * n_words(block.changes.stride) * sizeof(uint64_t)
        )
        block.changes.value = carve(&room, ROWS * row_bytes)
        block.changes.length = <int32_t *> carve(&room, ROWS * sizeof(int32_t))
        block.row = carve(&room, row_bytes)
        block.blank = carve(&room, row_bytes)
        block.start = carve(&room, ROWS * odd.n_bytes)
        block.room = carve(
            &room, max(self.odd.room(self.leaves), self.latent.room(self.leaves))
        )
        return room

    cdef void settle_block(
        self, const char *seen, Py_ssize_t seen_bytes, char *latent_means,
        Py_ssize_t latent_bytes, char *odd_means, Py_ssize_t odd_bytes, Py_ssize_t n,
        char *room,
    ) noexcept nogil:
        """Means of at most ROWS rows, as one thread finds them.

        seen : what the odd units see of the units that are given.
        latent_means, odd_means : where the means go; odd_means may be NULL.
        """
        cdef Block block
        cdef Side odd, latent
        cdef Py_ssize_t r
        self.lay_out(&block, &odd, &latent, room)
        block.n_rows = n
        block.changes.n_words = n_words(self.n_given)
        for r in range(n):
            memcpy(block.row, seen + r * seen_bytes, self.n_given * self.itemsize)
            self._list_row(&block, r)
        self._settle(
            &block, &odd, &latent, latent_means, latent_bytes, odd_means, odd_bytes
        )

    cdef void _read_block(
        self, Block *block, Rows rows, Py_ssize_t first
    ) noexcept nogil:
        """List what is given by rows of data from `first` on."""
        cdef Changes *changes = &block.changes
        cdef Py_ssize_t r
        changes.n_words = n_words(self.n_given)
        for r in range(block.n_rows):
            if rows.indices == NULL:
                rows.write(first + r, block.row)
                self._list_row(block, r)
                continue
            changes.length[r] = rows._read_sparse(
                first + r, changes.words + r * changes.n_words, NULL,
                <char *> changes.value + r * changes.stride * self.itemsize,
            )

    cdef void _list_row(self, Block *block, Py_ssize_t r) noexcept nogil:
        """List what of block.row is not zero, as the changes of row r."""
        cdef Py_ssize_t given = self.n_given * self.itemsize
        cdef Py_ssize_t n_bytes = whole_lines(given)
        cdef Changes *changes = &block.changes
        cdef double moved
        memset(block.row + given, 0, n_bytes - given)
        memset(block.blank, 0, n_bytes)
        changes.length[r] = self.leaves.list_changes(
            block.row, block.blank, n_bytes // PANEL_BYTES, 0.0,
            changes.words + r * changes.n_words,
            <char *> changes.value + r * changes.stride * self.itemsize, &moved,
        )

    cdef void _settle(
        self, Block *block, Side *odd, Side *latent, char *latent_means,
        Py_ssize_t latent_bytes, char *odd_means, Py_ssize_t odd_bytes,
    ) noexcept nogil:
        """Means given the units that block.changes lists."""
        cdef Side start
        cdef Py_ssize_t r
        cdef int _step
        self._begin(block, odd, latent)
        self.hear(odd, block, self.even_rows, 0)
        if self.n_latent:
            start = odd[0]
            start.fields = block.start
            self._count_twice(block, odd)
            self._exchange(block, &start, odd, latent, latent_means, latent_bytes)
            for _step in range(self.n_steps):
                self._exchange(block, odd, odd, latent, latent_means, latent_bytes)
                if self._all_done(block, odd, latent):
                    break
        if odd_means == NULL:
            return
        for r in range(block.n_rows):
            memcpy(block.row, odd.fields + r * odd.n_bytes, odd.n_bytes)
            row_means(self.odd, self.leaves, block.row, block.room)
            memcpy(odd_means + r * odd_bytes, block.row, self.n_odd * self.itemsize)

    cdef void _begin(self, Block *block, Side *odd, Side *latent) noexcept nogil:
        """Fields are biases, and nothing has been told."""
        cdef Py_ssize_t r, n = block.n_rows
        memset(block.done, 0, n * sizeof(int32_t))
        memset(odd.told, 0, n * odd.n_bytes)
        memset(latent.told, 0, n * latent.n_bytes)
        memset(latent.fields, 0, n * latent.n_bytes)
        for r in range(n):
            odd.moved[r] = latent.moved[r] = 1.0
            memcpy(odd.fields + r * odd.n_bytes, self.odd_bias, odd.n_bytes)
            memcpy(
                latent.fields + r * latent.n_bytes, self.latent_bias,
                latent.n_units * self.itemsize,
            )

    cdef void _count_twice(self, Block *block, const Side *odd) noexcept nogil:
        """Find the fields to begin with.

        The layers above are taken to say what the given ones say, which counts twice.
        """
        cdef Py_ssize_t r, n_panels = odd.n_bytes // PANEL_BYTES
        cdef char *start
        memcpy(block.start, odd.fields, block.n_rows * odd.n_bytes)
        for r in range(block.n_rows):
            start = block.start + r * odd.n_bytes
            self.leaves.add_scaled(odd.fields + r * odd.n_bytes, 1.0, n_panels, start)
            self.leaves.add_scaled(self.odd_bias, -1.0, n_panels, start)

    cdef void _exchange(
        self, Block *block, const Side *says, const Side *odd, const Side *latent,
        char *latent_means, Py_ssize_t latent_bytes,
    ) noexcept nogil:
        """Odd units tell the latent ones, by the fields of `says`, and hear them."""
        self.tell(says, self.odd, block, NULL, 0)
        self.hear(latent, block, self.odd_rows, 0)
        self.tell(latent, self.latent, block, latent_means, latent_bytes)
        self.hear(odd, block, self.even_rows, self.n_given)

    cdef bint _all_done(
        self, Block *block, const Side *odd, const Side *latent
    ) noexcept nogil:
        """Find out which rows are done, and whether all are."""
        cdef Py_ssize_t r, left = 0
        for r in range(block.n_rows):
            block.done[r] = latent.moved[r] <= self.tolerance
            if block.done[r] and odd.least[r] > SHARE_OF_TOLERANCE * self.tolerance:
                # Not before it has heard all: in the next step nothing waits.
                block.done[r] = False
                odd.moved[r] = 0
            left += not block.done[r]
        return left == 0

    cdef void tell(
        self, const Side *side, Units units, Block *block, char *out,
        Py_ssize_t out_bytes,
    ) noexcept nogil:
        """List changes of the means of rows that are not done; `out` gets the means."""
        cdef Py_ssize_t r, n_bytes = side.n_units * self.itemsize
        cdef Changes *changes = &block.changes
        cdef double share = SHARE_OF_LARGEST if self.tolerance else 0
        changes.n_words = n_words(side.n_bytes // self.itemsize)
        for r in range(block.n_rows):
            changes.length[r] = 0
            if block.done[r]:
                memset(changes.words + r * changes.n_words, 0, changes.n_words * 8)
                continue
            memcpy(block.row, side.fields + r * side.n_bytes, side.n_bytes)
            row_means(units, self.leaves, block.row, block.room)
            memset(block.row + n_bytes, 0, side.n_bytes - n_bytes)
            if out != NULL:
                memcpy(out + r * out_bytes, block.row, n_bytes)
            side.least[r] = max(
                SHARE_OF_TOLERANCE * self.tolerance, share * side.moved[r]
            )
            changes.length[r] = self.leaves.list_changes(
                block.row, side.told + r * side.n_bytes, side.n_bytes // PANEL_BYTES,
                side.least[r],
                changes.words + r * changes.n_words,
                <char *> changes.value + r * changes.stride * self.itemsize,
                &side.moved[r],
            )

    cdef void hear(
        self, const Side *side, const Block *block, Slabs weights, Py_ssize_t first
    ) noexcept nogil:
        """Enter what has changed, of the units from `first` on, in the fields."""
        cdef Py_ssize_t s
        for s in range(weights.n_slabs):
            self.leaves.add_changes(
                &block.changes, block.n_rows, weights.row(s, first),
                weights.width(s) * PANEL_BYTES, weights.width(s),
                side.fields + s * weights.widest * PANEL_BYTES, side.n_bytes,
            )

    def settle(self, X):
        """Means of latent and of odd units, given rows (n_rows, n_given).

        X may be sparse, and of any type that data may have.
        """
        dtype = np.float32 if self.itemsize == 4 else np.float64
        cdef Rows rows = Rows(X, dtype, scan=False)
        cdef Py_ssize_t n_rows = rows.n_rows
        if rows.n_columns != self.n_given:
            raise ValueError("rows do not fit")
        latent_means = np.zeros((n_rows, self.n_latent), dtype)
        odd_means = np.zeros((n_rows, self.n_odd), dtype)
        if n_rows == 0:
            return latent_means, odd_means
        cdef char[:, ::1] latent = latent_means.view(np.int8)
        cdef char[:, ::1] odd = odd_means.view(np.int8)
        cdef Py_ssize_t n_blocks = (n_rows + ROWS - 1) // ROWS
        cdef double work = <double> n_rows * self.n_odd * (
            self.n_given + 2 * self.n_steps * self.n_latent
        )
        cdef int n_threads = min(n_blocks, effective_n_threads(work, LEAST_WORK))
        cdef Py_ssize_t size = self.room(), block, first
        memory = aligned(n_threads * size)
        cdef char *scratch = address(memory)
        cdef char *no_latent = NULL
        cdef int thread, team
        with nogil, parallel(num_threads=n_threads):
            thread = omp_get_thread_num()
            team = omp_get_num_threads()
            for block in range(
                bound(n_blocks, thread, team), bound(n_blocks, thread + 1, team)
            ):
                first = block * ROWS
                self._settle_rows(
                    rows, first, min(ROWS, n_rows - first),
                    &latent[first, 0] if self.n_latent else no_latent,
                    &odd[first, 0], scratch + thread * size,
                )
        return latent_means, odd_means

    cdef void _settle_rows(
        self, Rows rows, Py_ssize_t first, Py_ssize_t n, char *latent_means,
        char *odd_means, char *room,
    ) noexcept nogil:
        cdef Block block
        cdef Side odd, latent
        self.lay_out(&block, &odd, &latent, room)
        block.n_rows = n
        self._read_block(&block, rows, first)
        self._settle(
            &block, &odd, &latent, latent_means, self.n_latent * self.itemsize,
            odd_means, self.n_odd * self.itemsize,
        )


cdef Py_ssize_t whole_lines(Py_ssize_t n_bytes) noexcept nogil:
    """Bytes of the cache lines, or panels, that hold n_bytes."""
    return (n_bytes + PANEL_BYTES - 1) // PANEL_BYTES * PANEL_BYTES


cdef Py_ssize_t n_words(Py_ssize_t n_bits) noexcept nogil:
    """Words that hold n_bits."""
    return (n_bits + 63) // 64


cdef char *carve(char **room, Py_ssize_t n_bytes) noexcept nogil:
    """The next n_bytes of room, and what fills up their last cache line."""
    cdef char *start = room[0]
    room[0] += whole_lines(n_bytes)
    return start
