# Rows of data, read as they are: dense (bool, uint8, float32, float64, any
# strides, read-only or memory-mapped) or CSR. No copy of the data is made, but of
# numbers that are all 0 or 1 their bits; a row becomes bits (what is not zero), the
# list of its active units and, unless all data are 0 or 1, their values.
import numpy as np
import scipy.sparse as sp

cimport cython
from cython.parallel cimport parallel
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ._openmp cimport bound, omp_get_num_threads, omp_get_thread_num
from ._panels cimport address, aligned
from ._simd cimport fetch, select_leaves

from ._openmp import effective_n_threads

# Rows whose density stands for that of all, where these have not been scanned.
cdef Py_ssize_t LOOKED_AT = 64
# Rows summed into one partial sum of the scan; fixed, so that the sums do not
# depend on the number of threads.
cdef Py_ssize_t SCAN_BLOCK = 4096


cdef void nonzero_bytes(
    const char *values, Py_ssize_t n, uint64_t *words
) noexcept nogil:
    """Which of n bytes are not zero, eight at a time."""
    cdef uint64_t x, word, low7 = 0x7F7F7F7F7F7F7F7FULL, ones = 0x0101010101010101ULL
    cdef Py_ssize_t w, k, m
    for w in range((n + 63) // 64):
        word = 0
        m = min(64, n - 64 * w)
        for k in range(0, m, 8):
            x = 0
            memcpy(&x, values + 64 * w + k, min(8, m - k))
            x = ((((x & low7) + low7) | x) >> 7) & ones
            word |= (x * <uint64_t> 0x0102040810204080ULL >> 56) << k
        words[w] = word


def canonical(X):
    """Return a CSR matrix with one entry a place, in order; the one given stays.

    Raises ValueError of places outside the matrix, of which SciPy takes no notice.
    """
    starts, stops = X.indptr[:-1], X.indptr[1:]
    if (starts > stops).any():
        raise ValueError("Sparse X is malformed: its indptr falls.")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
        starts, stops = X.indptr[:-1], X.indptr[1:]
    # (The indices of a row ascend.)
    filled = starts < stops
    first, last = X.indices[starts[filled]], X.indices[stops[filled] - 1]
    if first.min(initial=0) < 0 or last.max(initial=0) >= max(1, X.shape[1]):
        raise ValueError(
            f"Sparse X is malformed: it has entries outside its {X.shape[1]} columns."
        )
    return X


@cython.final
cdef class Rows:
    """Rows of a dense array or a CSR matrix, as values of a computing dtype.

    The dtype is by default that of the data, float32 for bool and uint8.

    Attributes say what a scan of the data found: `binary` (only zeros and
    ones), `finite` (no NaN or infinity, nor sums beyond the largest number),
    `minimum`, `maximum`, `density` (share of non-zeros) and
    `column_means`. (The values may change after it, unless the data are `fixed`; who
    reads bits takes it that they stay zeros and ones if they were.)
    Without the scan all values are taken for real numbers, and a half-sweep notes
    their range when it passes (see `note_range`).
    """

    def __cinit__(self, X, dtype=None, scan=True, bint fixed=True):
        self.n_rows, self.n_columns = X.shape
        self.n_words = (self.n_columns + 63) // 64
        self.value_size = X.dtype.itemsize
        if dtype is None:
            dtype = np.float64 if X.dtype == np.float64 else np.float32
        self.dtype = np.dtype(dtype)
        self.is_double = self.dtype == np.float64
        self.leaves = select_leaves(8 if self.value_size == 8 else 4)
        if sp.issparse(X):
            X = canonical(X)
            # (SciPy keeps the strides of what a matrix is made of.)
            arrays = (
                np.ascontiguousarray(X.data), np.ascontiguousarray(X.indices),
                np.ascontiguousarray(X.indptr, X.indices.dtype),
            )
            self.source = arrays
            self.index_size = X.indices.dtype.itemsize
            self.data = <const char *> <size_t> arrays[0].ctypes.data
            self.indices = <const char *> <size_t> arrays[1].ctypes.data
            self.indptr = <const char *> <size_t> arrays[2].ctypes.data
        else:
            self.source = X
            self.data = <const char *> <size_t> X.ctypes.data
            self.row_stride, self.column_stride = X.strides
        # Until something is known.
        self.density = 0.2
        self.scanned, self.fixed = scan, fixed
        if scan:
            self._scan()

    def note_range(self, minimum, maximum, finite):
        """Take what a pass over all rows has found of their values."""
        self.minimum, self.maximum, self.finite = minimum, maximum, finite

    def epoch(self, order, rates, batch_size):
        """Order of rows and rates of minibatches as kernels take them, checked."""
        order = np.ascontiguousarray(order, dtype=np.int64)
        if len(order) and not (0 <= order.min() and order.max() < self.n_rows):
            raise ValueError("order names rows that are not there")
        if len(rates) * batch_size < len(order):
            raise ValueError("there are more minibatches than rates")
        return order, np.ascontiguousarray(rates, dtype=np.float64)

    cdef int32_t read(
        self, Py_ssize_t row, uint64_t *bits, uint32_t *index, void *value,
        char *scratch,
    ) noexcept nogil:
        """Read a row; returns how many units are active in it.

        bits (n_words) are always filled, index (n_columns) and value
        (n_columns, of the computing type) unless they are NULL; scratch holds
        n_columns values.
        """
        cdef const char *x
        cdef Py_ssize_t k
        cdef int32_t n, m
        if self.indices != NULL:
            return self._read_sparse(row, bits, index, value)
        if self.bits != NULL and value == NULL:
            memcpy(bits, self.bits + row * self.n_words, self.n_words * 8)
            return 0 if index == NULL else self.leaves.list_bits(
                bits, self.n_words, index
            )
        x = self.data + row * self.row_stride
        if self.column_stride != self.value_size:
            for k in range(self.n_columns):
                memcpy(
                    scratch + k * self.value_size, x + k * self.column_stride,
                    self.value_size,
                )
            x = scratch
        if self.value_size == 1:
            nonzero_bytes(x, self.n_columns, bits)
        else:
            self.leaves.nonzero_bits(x, self.n_columns, bits)
        if index == NULL:
            return 0
        n = self.leaves.list_bits(bits, self.n_words, index)
        if value == NULL:
            return n
        if self.value_size == 4 and not self.is_double:
            for m in range(n):
                (<float *> value)[m] = (<const float *> x)[index[m]]
        elif self.value_size == 8 and self.is_double:
            for m in range(n):
                (<double *> value)[m] = (<const double *> x)[index[m]]
        else:
            for m in range(n):
                self._store(value, m, x, index[m])
        return n

    cdef int32_t _read_sparse(
        self, Py_ssize_t row, uint64_t *bits, uint32_t *index, void *value
    ) noexcept nogil:
        cdef Py_ssize_t k, start, stop
        cdef uint32_t j
        cdef int32_t n = 0
        memset(bits, 0, self.n_words * sizeof(uint64_t))
        start = self._index(self.indptr, row)
        stop = self._index(self.indptr, row + 1)
        for k in range(start, stop):
            if self._value(self.data, k) == 0:
                continue
            j = <uint32_t> self._index(self.indices, k)
            if index != NULL:
                index[n] = j
            bits[j // 64] |= (<uint64_t> 1) << (j % 64)
            if value != NULL:
                self._store(value, n, self.data, k)
            n += 1
        return n

    cdef void write(self, Py_ssize_t row, char *to) noexcept nogil:
        """Write all n_columns values of a row, of the computing type."""
        cdef Py_ssize_t k, start, stop, size = 8 if self.is_double else 4
        cdef const char *x = self.data + row * self.row_stride
        if self.indices != NULL:
            memset(to, 0, self.n_columns * size)
            start = self._index(self.indptr, row)
            stop = self._index(self.indptr, row + 1)
            for k in range(start, stop):
                self._store(to, self._index(self.indices, k), self.data, k)
        elif self.column_stride == self.value_size == size:
            memcpy(to, x, self.n_columns * size)
        else:
            for k in range(self.n_columns):
                self._store(to, k, x + k * self.column_stride, 0)

    cdef bint is_dense(self, double least):
        """Whether it is worth while to read all values of rows, not bits or lists.

        least : the share of values that are not zero from which on it is.
        """
        if self.scanned:
            return not self.binary and self.density >= least
        if self.indices != NULL or self.n_rows == 0:
            return False
        cdef RowBlock room = RowBlock(self, 1, 1)
        cdef Py_ssize_t k, n_on = 0, n = min(self.n_rows, LOOKED_AT)
        for k in range(n):
            room.read(self, 0, bound(self.n_rows, k, n), 0)
            n_on += room.active.length[0]
        return n_on >= least * n * self.n_columns

    cdef void prefetch(self, Py_ssize_t row) noexcept nogil:
        """Ask for a dense row that will be read soon, if its values are neighbours."""
        cdef Py_ssize_t at
        if self.bits != NULL:
            for at in range(0, self.n_words, 8):
                fetch(<const char *> (self.bits + row * self.n_words + at))
        elif self.indices == NULL and self.column_stride == self.value_size:
            for at in range(0, self.n_columns * self.value_size, 64):
                fetch(self.data + row * self.row_stride + at)

    cdef Py_ssize_t _index(self, const char *x, Py_ssize_t k) noexcept nogil:
        if self.index_size == 4:
            return (<const int32_t *> x)[k]
        return <Py_ssize_t> (<const int64_t *> x)[k]

    cdef double _value(self, const char *x, Py_ssize_t k) noexcept nogil:
        if self.value_size == 1:
            return (<const uint8_t *> x)[k]
        if self.value_size == 4:
            return (<const float *> x)[k]
        return (<const double *> x)[k]

    cdef void _store(
        self, void *value, Py_ssize_t n, const char *x, Py_ssize_t k
    ) noexcept nogil:
        if self.is_double:
            (<double *> value)[n] = self._value(x, k)
        else:
            (<float *> value)[n] = <float> self._value(x, k)

    def _scan(self):
        """Range, density and column means, in one parallel pass."""
        cdef Py_ssize_t n_blocks = (self.n_rows + SCAN_BLOCK - 1) // SCAN_BLOCK
        cdef int n_threads = min(
            n_blocks, effective_n_threads(self.n_rows * self.n_columns, 1e6)
        )
        cdef int thread, team
        cdef Py_ssize_t block, start, stop
        # Of the non-zeros of each block: minimum, maximum, number, all ones.
        found = np.zeros((n_blocks, 4))
        sums = np.zeros((n_blocks, self.n_columns))
        cdef double[:, ::1] found_ = found, sums_ = sums
        cdef RowBlock room = RowBlock(self, n_threads, n_threads)
        # Only where they are little beside the data: not of few columns, nor of bytes
        # in rows, which are read as they are in no more time.
        cdef uint64_t *bits = NULL
        cdef Py_ssize_t size = self.n_columns * self.value_size
        if self.column_stride != self.value_size:
            size *= 4
        if self.fixed and self.indices == NULL and 16 * self.n_words * 8 <= size:
            self.bits_memory = aligned(self.n_rows * self.n_words * 8)
            bits = <uint64_t *> address(self.bits_memory)
        with nogil, parallel(num_threads=n_threads):
            thread = omp_get_thread_num()
            team = omp_get_num_threads()
            start = bound(n_blocks, thread, team)
            stop = bound(n_blocks, thread + 1, team)
            for block in range(start, stop):
                self._scan_block(block, room, thread, &found_[block, 0],
                                 &sums_[block, 0], bits)
        active = found[:, 2].sum()
        size = self.n_rows * self.n_columns
        self.minimum = min(found[:, 0].min(), 0.0 if active < size else INFINITY)
        self.maximum = max(found[:, 1].max(), 0.0 if active < size else -INFINITY)
        self.binary = bool(found[:, 3].all())
        if self.binary:
            self.bits = bits
        else:
            self.bits_memory = None
        self.density = active / size
        self.column_means = sums.sum(axis=0) / self.n_rows
        self.finite = bool(np.isfinite(self.column_means).all())

    cdef void _scan_block(
        self, Py_ssize_t block, RowBlock room, int thread, double *found, double *sums,
        uint64_t *bits,
    ) noexcept nogil:
        cdef Py_ssize_t row
        cdef ActiveRows active = room.at(thread)
        cdef int32_t k
        cdef double low = INFINITY, high = -INFINITY
        cdef bint ones = True, finite = True
        for row in range(
            block * SCAN_BLOCK, min(self.n_rows, (block + 1) * SCAN_BLOCK)
        ):
            room.read(self, thread, row, thread)
            ones &= room.leaves.enter_range(
                active.value, active.length[0], &low, &high, &finite
            )
            for k in range(active.length[0]):
                if self.is_double:
                    sums[active.index[k]] += (<double *> active.value)[k]
                else:
                    sums[active.index[k]] += (<float *> active.value)[k]
            found[2] += active.length[0]
            if ones and bits != NULL:
                memcpy(bits + row * self.n_words, room.bits + thread * self.n_words,
                       self.n_words * 8)
        found[0], found[1], found[3] = low, high, ones


@cython.final
cdef class RowBlock:
    """Room for n_slots rows, read by up to n_threads threads at a time.

    With `dense` the values are all that is read.
    """

    def __cinit__(
        self, Rows rows, Py_ssize_t n_slots, int n_threads, bint dense=False
    ):
        self.itemsize = rows.dtype.itemsize
        self.leaves = select_leaves(self.itemsize)
        self.n_words = rows.n_words
        self.active.stride = rows.n_columns
        if dense:
            self.memory = [aligned(n_slots * rows.n_columns * self.itemsize)]
            self.dense = address(self.memory[0])
            return
        self.scratch_size = rows.n_columns * rows.value_size
        self.memory = [
            aligned(n_slots * rows.n_columns * 4),
            aligned(n_slots * 4),
            aligned(n_slots * rows.n_words * 8),
            aligned(n_threads * self.scratch_size),
        ]
        self.active.index = <uint32_t *> address(self.memory[0])
        self.active.length = <int32_t *> address(self.memory[1])
        self.bits = <uint64_t *> address(self.memory[2])
        self.scratch = address(self.memory[3])
        self.active.value = NULL
        if not rows.binary:
            self.memory.append(aligned(n_slots * rows.n_columns * self.itemsize))
            self.active.value = address(self.memory[4])

    def use_words(self):
        """Let sums take the bits of rows of zeros and ones, where that is faster."""
        self.active.words, self.active.n_words = self.bits, self.n_words
        self.active.n_units = self.active.stride

    cdef ActiveRows at(self, Py_ssize_t slot) noexcept nogil:
        """The rows from a slot on."""
        cdef ActiveRows rows = self.active
        if self.dense != NULL:
            rows.dense = self.dense + slot * rows.stride * self.itemsize
            return rows
        rows.index += slot * rows.stride
        rows.length += slot
        if rows.words != NULL:
            rows.words += slot * rows.n_words
        if rows.value != NULL:
            rows.value = <char *> rows.value + slot * rows.stride * self.itemsize
        return rows

    cdef void read(
        self, Rows rows, Py_ssize_t slot, Py_ssize_t row, int thread
    ) noexcept nogil:
        cdef ActiveRows to = self.at(slot)
        cdef uint64_t *bits = self.bits + slot * self.n_words
        if self.dense != NULL:
            rows.write(row, <char *> to.dense)
            return
        if self.first_pair:
            rows.read(
                row, bits, NULL, NULL, self.scratch + thread * self.scratch_size
            )
            to.length[0] = rows.leaves.list_pairs(
                bits, self.n_words, self.first_pair, to.index
            )
            return
        to.length[0] = rows.read(
            row, bits, to.index, to.value,
            self.scratch + thread * self.scratch_size,
        )

    cdef bint note(self, Py_ssize_t slot, Py_ssize_t n, Range *found) noexcept nogil:
        """Enter the values of n rows into a range; whether all are 0 or 1."""
        cdef ActiveRows rows = self.at(slot)
        cdef Py_ssize_t r, length = rows.stride
        cdef const void *values
        cdef bint ones = True
        for r in range(n):
            rows = self.at(slot + r)
            values = rows.dense
            if self.dense == NULL:
                values, length = rows.value, rows.length[0]
            if length < rows.stride:
                found.minimum = min(found.minimum, 0.0)
                found.maximum = max(found.maximum, 0.0)
            ones &= self.leaves.enter_range(
                values, length, &found.minimum, &found.maximum, &found.finite
            )
        return ones
