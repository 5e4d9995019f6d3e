# A matrix packed in panels of 64 bytes of columns: [panel][row][64 bytes]; or in slabs,
# in which some panels are beside each other (Slabs).
#
# Rows are padded with zeros to whole squares, so that a packed matrix can be
# transposed square by square; columns are padded to whole panels.
import numpy as np

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from ._simd cimport PANEL_BYTES, n_panels_of, select_leaves

ctypedef fused bits_t:
    uint32_t
    uint64_t


cdef object aligned(Py_ssize_t n_bytes):
    """Zeroed bytes that start on a cache line."""
    raw = np.zeros(n_bytes + PANEL_BYTES, dtype=np.uint8)
    cdef Py_ssize_t start = PANEL_BYTES - <size_t> address(raw) % PANEL_BYTES
    return raw[start : start + n_bytes]


cdef char *address(object memory) except NULL:
    cdef unsigned char[::1] view = memory
    return <char *> &view[0]


cdef class Panels:
    """Packed matrix of shape (n_rows, n_columns), float32 or float64.

    `paired` panels have the sums of rows 2j and 2j + 1 beside them, as rows
    `first_pair` + j of the same panel; they are brought up to date by whoever
    changes the numbers.
    """

    def __cinit__(
        self, Py_ssize_t n_rows, Py_ssize_t n_columns, dtype, bint paired=False
    ):
        self.dtype = np.dtype(dtype)
        self.leaves = select_leaves(self.dtype.itemsize)
        cdef Py_ssize_t lanes = self.leaves.lanes
        self.n_rows, self.n_columns = n_rows, n_columns
        self.n_panels = n_panels_of(n_columns, self.leaves)
        self.padded_rows = (n_rows + lanes - 1) // lanes * lanes
        self.stride = self.padded_rows * PANEL_BYTES
        self.memory = aligned(self.n_panels * self.stride * (2 if paired else 1))
        self.data = address(self.memory)
        self.first_pair = <uint32_t> (self.n_panels * self.padded_rows * paired)

    @classmethod
    def from_columns(cls, columns, paired=False):
        """Pack a matrix given by its columns: `columns` is its transpose."""
        packed = cls(columns.shape[1], columns.shape[0], columns.dtype, paired)
        packed.set_columns(columns)
        return packed

    @classmethod
    def from_rows(cls, rows):
        """Pack a matrix of which `rows` are the rows."""
        packed = cls(rows.shape[0], rows.shape[1], rows.dtype)
        packed.set_rows(rows)
        return packed

    def set_columns(self, columns):
        columns = np.ascontiguousarray(columns, dtype=self.dtype)
        if columns.shape != (self.n_columns, self.n_rows):
            raise ValueError(f"columns of shape {columns.shape} do not fit")
        if self.dtype.itemsize == 4:
            _pack[uint32_t](self, columns.view(np.uint32))
        else:
            _pack[uint64_t](self, columns.view(np.uint64))
        self.sum_pairs(0, self.n_panels)

    def columns(self):
        """The transpose of the matrix as a new C-contiguous array."""
        out = np.empty((self.n_columns, self.n_rows), dtype=self.dtype)
        if self.dtype.itemsize == 4:
            _unpack[uint32_t](self, out.view(np.uint32))
        else:
            _unpack[uint64_t](self, out.view(np.uint64))
        return out

    def set_rows(self, rows):
        if rows.shape != (self.n_rows, self.n_columns):
            raise ValueError(f"rows of shape {rows.shape} do not fit")
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        if self.dtype.itemsize == 4:
            _pack_rows[uint32_t](self, rows.view(np.uint32))
        else:
            _pack_rows[uint64_t](self, rows.view(np.uint64))
        self.sum_pairs(0, self.n_panels)

    def view(self):
        """The packed numbers, (n_panels, padded rows, lanes)."""
        cdef Py_ssize_t n = self.n_panels, size = self.padded_rows * self.leaves.lanes
        numbers = self.memory.view(self.dtype)[: n * size]
        return numbers.reshape(n, self.padded_rows, self.leaves.lanes)

    cdef Py_ssize_t whole_squares(self, Py_ssize_t panel) noexcept nogil:
        """Squares of a panel that nothing pads."""
        cdef Py_ssize_t lanes = self.leaves.lanes
        return self.n_rows // lanes if (panel + 1) * lanes <= self.n_columns else 0

    cdef void sum_pairs(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        """Bring the sums of pairs of panels start..stop up to date."""
        cdef Py_ssize_t p, offset = <Py_ssize_t> self.first_pair * PANEL_BYTES
        if not self.first_pair:
            return
        for p in range(start, stop):
            self.leaves.pair_sums(
                self.data + p * self.stride, (self.n_rows + 1) // 2,
                self.data + p * self.stride + offset,
            )


cdef class Slabs:
    """A matrix in slabs of panels that are beside each other: [slab][row][panel].

    For sums of rows, one after the other: what belongs to a row in some panels is read
    at once. The last slab may be narrower.
    """

    def __cinit__(self, Py_ssize_t n_rows, Py_ssize_t n_columns, dtype):
        self.leaves = select_leaves(np.dtype(dtype).itemsize)
        self.n_rows, self.n_columns = n_rows, n_columns
        self.n_panels = n_panels_of(n_columns, self.leaves)
        self.widest = self.leaves.slab
        self.n_slabs = (self.n_panels + self.widest - 1) // self.widest
        self.memory = aligned(max(1, self.n_panels * n_rows) * PANEL_BYTES)
        self.data = address(self.memory)

    cdef Py_ssize_t width(self, Py_ssize_t slab) noexcept nogil:
        """Panels of a slab."""
        return min(self.widest, self.n_panels - slab * self.widest)

    cdef char *row(self, Py_ssize_t slab, Py_ssize_t i) noexcept nogil:
        """Row i of a slab."""
        return self.data + (
            slab * self.widest * self.n_rows + i * self.width(slab)
        ) * PANEL_BYTES

    cdef void take_rows(
        self, const char *rows, Py_ssize_t n_bytes, Py_ssize_t start, Py_ssize_t stop
    ) noexcept nogil:
        """Set slabs start..stop from the rows, n_bytes apart."""
        cdef Py_ssize_t s, i, at, size, width
        cdef char *to
        for s in range(start, stop):
            to, width = self.row(s, 0), self.width(s) * PANEL_BYTES
            at = s * self.widest * PANEL_BYTES
            size = min(width, self.n_columns * self.leaves.itemsize - at)
            for i in range(self.n_rows):
                memcpy(to + i * width, rows + i * n_bytes + at, size)

    cdef void take_columns(
        self, const char *columns, Py_ssize_t n_bytes, Py_ssize_t start,
        Py_ssize_t stop,
    ) noexcept nogil:
        """Set slabs start..stop from the columns, n_bytes apart."""
        cdef Py_ssize_t lanes = self.leaves.lanes, size = self.leaves.itemsize
        cdef Py_ssize_t s, p, b, i, j, n, n_squares, width
        cdef const char *column
        cdef char *to
        # Rows of a panel, at most 16, on cache lines.
        cdef char room[17 * 64]
        cdef char *square = room + (-<size_t> room) % <size_t> PANEL_BYTES
        for s in range(start, stop):
            width = self.width(s) * PANEL_BYTES
            for p in range(s * self.widest, s * self.widest + self.width(s)):
                to = self.row(s, 0) + (p - s * self.widest) * PANEL_BYTES
                column = columns + p * lanes * n_bytes
                n = min(lanes, self.n_columns - p * lanes)
                n_squares = self.n_rows // lanes if n == lanes else 0
                for b in range(n_squares):
                    self.leaves.pack(column + b * PANEL_BYTES, n_bytes, 1, square)
                    for i in range(lanes):
                        memcpy(
                            to + (b * lanes + i) * width, square + i * PANEL_BYTES,
                            PANEL_BYTES,
                        )
                for j in range(n):
                    for i in range(n_squares * lanes, self.n_rows):
                        memcpy(
                            to + i * width + j * size, column + j * n_bytes + i * size,
                            size,
                        )


cdef void _pack(Panels packed, const bits_t[:, ::1] columns) noexcept:
    cdef Py_ssize_t lanes = packed.leaves.lanes, p, i, j, n_squares
    cdef bits_t *panel
    with nogil:
        for p in range(packed.n_panels):
            panel = <bits_t *> (packed.data + p * packed.stride)
            n_squares = packed.whole_squares(p)
            if n_squares:
                packed.leaves.pack(
                    <const char *> &columns[p * lanes, 0],
                    packed.n_rows * <Py_ssize_t> sizeof(bits_t), n_squares,
                    <char *> panel,
                )
            for j in range(p * lanes, min(p * lanes + lanes, packed.n_columns)):
                for i in range(n_squares * lanes, packed.n_rows):
                    panel[i * lanes + j - p * lanes] = columns[j, i]


cdef void _unpack(Panels packed, bits_t[:, ::1] columns) noexcept:
    cdef Py_ssize_t lanes = packed.leaves.lanes, p, i, j, n_squares
    cdef const bits_t *panel
    with nogil:
        for p in range(packed.n_panels):
            panel = <const bits_t *> (packed.data + p * packed.stride)
            n_squares = packed.whole_squares(p)
            if n_squares:
                packed.leaves.unpack(
                    <const char *> panel, n_squares, <char *> &columns[p * lanes, 0],
                    packed.n_rows * <Py_ssize_t> sizeof(bits_t),
                )
            for j in range(p * lanes, min(p * lanes + lanes, packed.n_columns)):
                for i in range(n_squares * lanes, packed.n_rows):
                    columns[j, i] = panel[i * lanes + j - p * lanes]


cdef void _pack_rows(Panels packed, const bits_t[:, ::1] rows) noexcept:
    cdef Py_ssize_t lanes = packed.leaves.lanes, p, i, size
    cdef char *panel
    with nogil:
        for p in range(packed.n_panels):
            panel = packed.data + p * packed.stride
            size = min(lanes, packed.n_columns - p * lanes) * sizeof(bits_t)
            for i in range(packed.n_rows):
                # (A constant size needs no call.)
                if size == PANEL_BYTES:
                    memcpy(panel + i * PANEL_BYTES, &rows[i, p * lanes], PANEL_BYTES)
                else:
                    memcpy(panel + i * PANEL_BYTES, &rows[i, p * lanes], size)
