# A matrix packed in panels of 64 bytes of columns: [panel][row][64 bytes].
#
# Rows are padded with zeros to whole squares, so that a packed matrix can be
# transposed square by square; columns are padded to whole panels.
import numpy as np

from libc.stdint cimport uint32_t, uint64_t

from ._simd cimport PANEL_BYTES, select_leaves

ctypedef fused bits_t:
    uint32_t
    uint64_t


cdef object aligned(Py_ssize_t n_bytes):
    """Zeroed bytes that start on a cache line."""
    raw = np.zeros(n_bytes + PANEL_BYTES, dtype=np.uint8)
    start = -raw.ctypes.data % PANEL_BYTES
    return raw[start : start + n_bytes]


cdef char *address(object memory) except NULL:
    cdef unsigned char[::1] view = memory
    return <char *> &view[0]


cdef class Panels:
    """Packed matrix of shape (n_rows, n_columns), float32 or float64."""

    def __cinit__(self, Py_ssize_t n_rows, Py_ssize_t n_columns, dtype):
        self.dtype = np.dtype(dtype)
        self.leaves = select_leaves(self.dtype.itemsize)
        cdef Py_ssize_t lanes = self.leaves.lanes
        self.n_rows, self.n_columns = n_rows, n_columns
        self.n_panels = (n_columns + lanes - 1) // lanes
        self.padded_rows = (n_rows + lanes - 1) // lanes * lanes
        self.stride = self.padded_rows * PANEL_BYTES
        self.memory = aligned(self.n_panels * self.stride)
        self.data = address(self.memory)

    @classmethod
    def from_columns(cls, columns):
        """Pack a matrix given by its columns: `columns` is its transpose."""
        packed = cls(columns.shape[1], columns.shape[0], columns.dtype)
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
        view = self.view()
        lanes = view.shape[2]
        for p in range(self.n_panels):
            block = rows[:, p * lanes : (p + 1) * lanes]
            view[p, : self.n_rows, : block.shape[1]] = block

    def view(self):
        """The packed numbers, (n_panels, padded rows, lanes)."""
        shape = (self.n_panels, self.padded_rows, self.leaves.lanes)
        return self.memory.view(self.dtype).reshape(shape)


cdef void _pack(Panels packed, const bits_t[:, ::1] columns) noexcept:
    cdef Py_ssize_t lanes = packed.leaves.lanes
    cdef Py_ssize_t i, j
    cdef bits_t *panel
    with nogil:
        for j in range(packed.n_columns):
            panel = <bits_t *> (packed.data + j // lanes * packed.stride) + j % lanes
            for i in range(packed.n_rows):
                panel[i * lanes] = columns[j, i]


cdef void _unpack(Panels packed, bits_t[:, ::1] columns) noexcept:
    cdef Py_ssize_t lanes = packed.leaves.lanes
    cdef Py_ssize_t i, j
    cdef const bits_t *panel
    with nogil:
        for j in range(packed.n_columns):
            panel = <bits_t *> (packed.data + j // lanes * packed.stride) + j % lanes
            for i in range(packed.n_rows):
                columns[j, i] = panel[i * lanes]
