/* Sums of rows of a matrix whose rows are wider than a panel.  Lists name the rows
   (add_lists), in time for these alone; or bits do (add_changes), which takes a fifth
   less where a twentieth of all rows or more are named.
   Included by _leaves.h, which defines V, NAME, ... */
#ifndef NEAREST
#define NEAREST 32768 /* bytes of rows that stay in the nearest cache */
#define FEW 8         /* entries of a list for which it does not pay to begin it again */
#endif

/* out += the rows of a list times their values, for np panels (a constant): those from
   entry k on whose index is less than `stop`. Returns the entry that is next. */
INLINE int32_t NAME(add_list)(const uint32_t *index, const REAL *value, int32_t k,
                              int32_t n, uint32_t stop, const char *rows,
                              ptrdiff_t stride, const int np, char *out)
{
    V sum[NV > 8 ? NV : 8];
    UNROLL
    for (int q = 0; q < np * NV; q++) sum[q] = ((const V *)out)[q];
    if (value)
        for (; k < n && index[k] < stop; k++) {
            const V *x = (const V *)(rows + index[k] * stride);
            UNROLL
            for (int q = 0; q < np * NV; q++) sum[q] += x[q] * value[k];
        }
    else
        for (; k < n && index[k] < stop; k++) {
            const V *x = (const V *)(rows + index[k] * stride);
            UNROLL
            for (int q = 0; q < np * NV; q++) sum[q] += x[q];
        }
    UNROLL
    for (int q = 0; q < np * NV; q++) ((V *)out)[q] = sum[q];
    return k;
}

/* add_lists of np panels (a constant), in turns of `span` rows of the matrix: those that
   many lists name are in the nearest cache then. */
INLINE void NAME(add_turns)(const ActiveRows *lists, ptrdiff_t n, uint32_t span,
                            const char *rows, ptrdiff_t stride, const int np, char *out,
                            ptrdiff_t out_stride)
{
    int32_t next[MOST_LISTS] = {0};
    int more = 1;
    for (uint32_t stop = span; more; stop += span) {
        more = 0;
        for (ptrdiff_t r = 0; r < n; r++) {
            const ptrdiff_t start = r * lists->stride;
            const uint32_t *index = lists->index + start;
            const int32_t length = lists->length[r];
            if (next[r] == length) continue;
            if (index[next[r]] < stop)
                next[r] = NAME(add_list)(
                    index, lists->value ? (const REAL *)lists->value + start : NULL,
                    next[r], length, stop, rows, stride, np, out + r * out_stride);
            more |= next[r] < length;
        }
    }
}

/* Rows of the matrix in a turn: what fits into the nearest cache; or all of them, where
   lists are so short that it would not pay to begin them again. */
INLINE uint32_t NAME(span)(const ActiveRows *lists, ptrdiff_t n, int np)
{
    const uint32_t span = (uint32_t)(NEAREST / (np * PANEL_BYTES));
    uint32_t last = 0;
    int64_t n_lists = 0, n_entries = 0;
    for (ptrdiff_t r = 0; r < n; r++) {
        const int32_t length = lists->length[r];
        if (!length) continue;
        const uint32_t end = lists->index[r * lists->stride + length - 1];
        last = end > last ? end : last;
        n_lists++, n_entries += length;
    }
    return n_entries < FEW * n_lists * (last / span + 1) ? UINT32_MAX : span;
}

/* out[r] += sum over the entries of list r of value * rows[index], for n lists, at most
   MOST_LISTS, and n_panels panels; rows are `stride` bytes apart. */
static void NAME(add_lists)(const ActiveRows *lists, ptrdiff_t n,
                            const char *rows, ptrdiff_t stride,
                            ptrdiff_t n_panels, char *out,
                            ptrdiff_t out_stride)
{
    int np = SLAB;
    for (ptrdiff_t p = 0; p < n_panels; p += np) {
        const ptrdiff_t at = p * PANEL_BYTES;
        while (np > n_panels - p) np /= 2;
        const uint32_t span = NAME(span)(lists, n, np);
        switch (np) {
#define CASE(k)                                                                   \
    case k:                                                                       \
        NAME(add_turns)(lists, n, span, rows + at, stride, k < SLAB ? k : SLAB,   \
                        out + at, out_stride);                                    \
        break;
            CASE(1) CASE(2) CASE(4) CASE(8)
#undef CASE
        }
    }
}

/* out += the rows whose bits are set in n words, times the values, one for each, for np
   panels (a constant); returns the values that are next.  (A bit is found without reading
   memory: what is read decides how long this takes.) */
INLINE const REAL *NAME(add_changed)(const uint64_t *words, ptrdiff_t n,
                                     const REAL *value, const char *rows,
                                     ptrdiff_t stride, const int np, char *out)
{
    V sum[NV > 8 ? NV : 8];
    UNROLL
    for (int q = 0; q < np * NV; q++) sum[q] = ((const V *)out)[q];
    for (; n > 0; n--, words++, rows += 64 * stride)
        for (uint64_t bits = *words; bits; bits &= bits - 1) {
            const V *x = (const V *)(rows + lowest_bit(bits) * stride);
            const REAL by = *value++;
            UNROLL
            for (int q = 0; q < np * NV; q++) sum[q] += x[q] * by;
        }
    UNROLL
    for (int q = 0; q < np * NV; q++) ((V *)out)[q] = sum[q];
    return value;
}

/* add_changes of np panels (a constant), in turns of as many words. */
INLINE void NAME(change_turns)(const Changes *changes, ptrdiff_t n, ptrdiff_t turn,
                               const char *rows, ptrdiff_t stride, const int np,
                               char *out, ptrdiff_t out_stride)
{
    const REAL *next[MOST_LISTS];
    for (ptrdiff_t r = 0; r < n; r++)
        next[r] = (const REAL *)changes->value + r * changes->stride;
    for (ptrdiff_t w = 0; w < changes->n_words; w += turn, rows += 64 * turn * stride) {
        const ptrdiff_t left = changes->n_words - w, size = turn < left ? turn : left;
        for (ptrdiff_t r = 0; r < n; r++) {
            const uint64_t *words = changes->words + r * changes->n_words + w;
            ptrdiff_t k = 0;
            while (k < size && !words[k]) k++;
            if (k < size)
                next[r] = NAME(add_changed)(words + k, size - k, next[r],
                                            rows + 64 * k * stride, stride, np,
                                            out + r * out_stride);
        }
    }
}

/* out[r] += sum over what has changed in row r of value * its row of the matrix, for n
   rows, at most MOST_LISTS, and n_panels panels; rows of the matrix are `stride` bytes
   apart. */
static void NAME(add_changes)(const Changes *changes, ptrdiff_t n, const char *rows,
                              ptrdiff_t stride, ptrdiff_t n_panels, char *out,
                              ptrdiff_t out_stride)
{
    int64_t n_changes = 0, n_changed = 0;
    for (ptrdiff_t r = 0; r < n; r++)
        n_changes += changes->length[r], n_changed += changes->length[r] > 0;
    int np = SLAB;
    for (ptrdiff_t p = 0; p < n_panels; p += np) {
        const ptrdiff_t at = p * PANEL_BYTES;
        if (np > n_panels - p) np = (int)(n_panels - p);
        ptrdiff_t turn = NEAREST / (64 * np * PANEL_BYTES);
        if (turn * n_changes < FEW * n_changed * changes->n_words)
            turn = changes->n_words;
        switch (np) {
#define CASE(k)                                                                   \
    case k:                                                                       \
        NAME(change_turns)(changes, n, turn, rows + at, stride, k < SLAB ? k : SLAB, \
                           out + at, out_stride);                                 \
        break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
#undef CASE
        }
    }
}
