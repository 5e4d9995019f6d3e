/* Sums of rows that lists name, of a matrix whose rows are wider than a panel.
   Included by _leaves.h, which defines V, NAME, ... */

/* out += the rows of a list times their values, for np panels (a constant). */
INLINE void NAME(add_list)(const uint32_t *index, const REAL *value, int32_t n,
                           const char *rows, ptrdiff_t stride, const int np,
                           char *out)
{
    V sum[NV > 8 ? NV : 8];
    UNROLL
    for (int q = 0; q < np * NV; q++) sum[q] = ((const V *)out)[q];
    if (value)
        for (int32_t k = 0; k < n; k++) {
            const V *x = (const V *)(rows + index[k] * stride);
            UNROLL
            for (int q = 0; q < np * NV; q++) sum[q] += x[q] * value[k];
        }
    else
        for (int32_t k = 0; k < n; k++) {
            const V *x = (const V *)(rows + index[k] * stride);
            UNROLL
            for (int q = 0; q < np * NV; q++) sum[q] += x[q];
        }
    UNROLL
    for (int q = 0; q < np * NV; q++) ((V *)out)[q] = sum[q];
}

/* Panels whose sums stay in registers together. */
#define MOST (8 * VECTOR_BYTES >= PANEL_BYTES ? (int)(8 * VECTOR_BYTES / PANEL_BYTES) : 1)

/* add_lists of np panels (a constant); in turns, as in sum_group. */
INLINE void NAME(add_turns)(const ActiveRows *lists, ptrdiff_t n, const char *rows,
                            ptrdiff_t stride, const int np, char *out,
                            ptrdiff_t out_stride)
{
    enum { TURN = 32 };
    int more = 1;
    for (int32_t start = 0; more; start += TURN) {
        more = 0;
        for (ptrdiff_t r = 0; r < n; r++) {
            const int32_t left = lists->length[r] - start;
            const ptrdiff_t at = r * lists->stride + start;
            if (left <= 0) continue;
            NAME(add_list)(lists->index + at,
                           lists->value ? (const REAL *)lists->value + at : NULL,
                           left < TURN ? left : TURN, rows, stride, np,
                           out + r * out_stride);
            more |= left > TURN;
        }
    }
}

/* out[r] += sum over the entries of list r of value * rows[index], for n lists
   and n_panels panels; rows are `stride` bytes apart. */
static void NAME(add_lists)(const ActiveRows *lists, ptrdiff_t n,
                            const char *rows, ptrdiff_t stride,
                            ptrdiff_t n_panels, char *out,
                            ptrdiff_t out_stride)
{
    int np = MOST;
    for (ptrdiff_t p = 0; p < n_panels; p += np) {
        const ptrdiff_t at = p * PANEL_BYTES;
        while (np > n_panels - p) np /= 2;
        switch (np) {
#define CASE(k)                                                               \
    case k:                                                                   \
        NAME(add_turns)(lists, n, rows + at, stride, k < MOST ? k : MOST,     \
                        out + at, out_stride);                                \
        break;
            CASE(1) CASE(2) CASE(4) CASE(8)
#undef CASE
        }
    }
}
#undef MOST
