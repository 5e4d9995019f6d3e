# Rows of states that are mostly zero, as lists of what is not, and sums by these lists.
#
# Counts of words, or one of many choices: of thousands of units a row has a few that
# are not zero. Sums by lists are the bits of sums over whole rows (multiply_list in
# _leaves_products.h), and take what is active.
import numpy as np

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ._panels cimport address, aligned
from ._products cimport FEW
from ._rows cimport lower_bound
from ._simd cimport PANEL_BYTES, select_leaves

ctypedef fused real:
    float
    double


cdef class SparseStates:
    """Lists of what is not zero in rows of states, of those rows where that is little.

    n_rows, n_columns : of how many rows, of how many units each
    dtype : of the states; rows are padded with zeros to whole cache lines
    wanted : whether rows can be mostly zero; otherwise none is ever listed
    """

    def __cinit__(
        self, Py_ssize_t n_rows, Py_ssize_t n_columns, dtype, bint wanted=True
    ):
        self.itemsize = np.dtype(dtype).itemsize
        self.leaves = select_leaves(self.itemsize)
        self.most = 0
        if wanted and self.leaves.multiply_list != NULL:
            self.most = <Py_ssize_t> (FEW * n_columns)
        # (`_list` writes a cache line more than it keeps.)
        self.stride = self.most + PANEL_BYTES // self.itemsize
        self.memory = [
            aligned(n_rows * self.stride * 4),
            aligned(n_rows * self.stride * self.itemsize),
            aligned(n_rows * 4),
        ]
        self.index = <uint32_t *> address(self.memory[0])
        self.value = address(self.memory[1])
        self.length = <int32_t *> address(self.memory[2])
        self.memory[2].view(np.int32)[:] = -1
        self.n_columns = n_columns

    cdef bint list_row(self, Py_ssize_t r, const char *row) noexcept nogil:
        """List row r, if little of it is not zero; whether it is."""
        if self.most == 0:
            return False
        if self.itemsize == 4:
            self.length[r] = _list[float](self, r, <const float *> row)
        else:
            self.length[r] = _list[double](self, r, <const double *> row)
        return self.length[r] >= 0

    cdef bint has(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Whether rows first..last are all listed."""
        cdef Py_ssize_t r
        for r in range(first, last):
            if self.length[r] < 0:
                return False
        return True

    cdef void multiply(
        self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t n, const char *b,
        Py_ssize_t b_stride, char *c, Py_ssize_t c_stride,
    ) noexcept nogil:
        """Products of rows first..last with n columns of b, in rows of c.

        Strides are in elements.
        """
        cdef Py_ssize_t r
        for r in range(first, last):
            self.leaves.multiply_list(
                self.index + r * self.stride,
                self.value + r * self.stride * self.itemsize, self.length[r], n, b,
                b_stride, c + (r - first) * c_stride * self.itemsize,
            )

    cdef Py_ssize_t room(self, Py_ssize_t n_rows, Py_ssize_t n_columns):
        """Bytes that `multiply_turned` wants for as many rows and columns.

        Whole cache lines, as rooms of threads follow each other.
        """
        if self.most == 0:
            return 0
        cdef Py_ssize_t n_bytes = n_rows * (n_columns * (4 + self.itemsize) + 4)
        n_bytes += (n_columns + 1) * 4
        return (n_bytes // PANEL_BYTES + 1) * PANEL_BYTES

    cdef void multiply_turned(
        self, Py_ssize_t n_rows, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n,
        const char *b, Py_ssize_t b_stride, char *c, Py_ssize_t c_stride, char *room,
    ) noexcept nogil:
        """Row i of c: the sum of rows of b times what they have of unit start + i.

        Of the first n_rows rows, which are all listed, and n columns of b; for units
        start..stop.
        """
        cdef Py_ssize_t count = stop - start, r, i
        cdef int32_t k
        # Values and numbers of rows, unit by unit; where each unit's begin, and where
        # each row's lists come to these units.
        cdef char *value = room
        cdef uint32_t *rows = <uint32_t *> (value + n_rows * count * self.itemsize)
        cdef int32_t *begin = <int32_t *> (rows + n_rows * count)
        cdef int32_t *at = begin + count + 1
        cdef const uint32_t *index
        memset(begin, 0, (count + 1) * 4)
        for r in range(n_rows):
            index = self.index + r * self.stride
            k = at[r] = lower_bound(index, self.length[r], <uint32_t> start)
            while k < self.length[r] and index[k] < <uint32_t> stop:
                begin[index[k] - start] += 1
                k += 1
        for i in range(1, count + 1):
            begin[i] += begin[i - 1]
        # (Each now is where the unit's end; and from the last row on down, begin.)
        for r in range(n_rows - 1, -1, -1):
            index = self.index + r * self.stride
            k = at[r]
            while k < self.length[r] and index[k] < <uint32_t> stop:
                i = index[k] - start
                begin[i] -= 1
                rows[begin[i]] = <uint32_t> r
                memcpy(
                    value + begin[i] * self.itemsize,
                    self.value + (r * self.stride + k) * self.itemsize, self.itemsize,
                )
                k += 1
        for i in range(count):
            self.leaves.multiply_list(
                rows + begin[i], value + begin[i] * self.itemsize,
                begin[i + 1] - begin[i], n, b, b_stride,
                c + i * c_stride * self.itemsize,
            )

    cdef void add(
        self, Py_ssize_t r, Py_ssize_t start, Py_ssize_t stop, double part, double *sums
    ) noexcept nogil:
        """sums[i] += part * state of unit i in row r, for units start..stop."""
        cdef const uint32_t *index = self.index + r * self.stride
        cdef int32_t k = lower_bound(index, self.length[r], <uint32_t> start)
        while k < self.length[r] and index[k] < <uint32_t> stop:
            if self.itemsize == 4:
                sums[index[k]] += part * (<float *> self.value)[r * self.stride + k]
            else:
                sums[index[k]] += part * (<double *> self.value)[r * self.stride + k]
            k += 1


cdef int32_t _list(SparseStates states, Py_ssize_t r, const real *row) noexcept nogil:
    """Write the list of row r; its length, or -1 if there is too much of it."""
    cdef uint32_t *index = states.index + r * states.stride
    cdef real *value = <real *> states.value + r * states.stride
    cdef Py_ssize_t line = PANEL_BYTES // sizeof(real), start, last = 0, i, n = 0
    cdef uint64_t[8] bits
    while last < states.n_columns:
        # A cache line at a time: most of them are all zeros.
        start, last = last, min(last + line, states.n_columns)
        memcpy(bits, row + start, PANEL_BYTES)
        if not (
            bits[0] | bits[1] | bits[2] | bits[3] | bits[4] | bits[5] | bits[6]
            | bits[7]
        ):
            continue
        for i in range(start, last):
            index[n], value[n] = <uint32_t> i, row[i]
            n += row[i] != 0
        if n > states.most:
            return -1
    return <int32_t> n
