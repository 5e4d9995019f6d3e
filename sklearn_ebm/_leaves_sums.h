/* Sums of the rows of a matrix that lists or bits name.
   Included by _leaves.h, which defines V, NAME, ... */

/* sums[p] += value * panels[p][index], where no value is 1; np is a constant. */
INLINE void NAME(add_entry)(V sums[GROUP][NV], const char *const panels[GROUP],
                            uint32_t index, const REAL *value, const int np)
{
    const size_t at = (size_t)index * PANEL_BYTES;
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) {
            const V x = ((const V *)(panels[p] + at))[q];
            if (value)
                sums[p][q] = PLUS_PRODUCT(sums[p][q], x, *value);
            else
                sums[p][q] += x;
        }
}

/* sums[p] += value[k] * panels[p][index[k]], k ascending; np is a constant, and so is
   whether the lists are often long. */
INLINE void NAME(accumulate)(V sums[GROUP][NV], const char *panels,
                             ptrdiff_t stride, const uint32_t *index,
                             const REAL *value, int32_t n, const int np,
                             const int longish)
{
    V a[GROUP][NV];
    const char *panel[GROUP];
    for (int p = 0; p < np; p++) {
        panel[p] = panels + p * stride;
        for (int q = 0; q < NV; q++) a[p][q] = sums[p][q];
    }
    int32_t k = 0;
    if (value)
        for (; k < n; k++) NAME(add_entry)(a, panel, index[k], value + k, np);
    else {
        for (; longish && k + 8 <= n; k += 8) {
            UNROLL
            for (int j = 0; j < 8; j++)
                NAME(add_entry)(a, panel, index[k + j], NULL, np);
        }
        for (; k < n; k++) NAME(add_entry)(a, panel, index[k], NULL, np);
    }
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) sums[p][q] = a[p][q];
}

/* Features whose sums over dense rows stay in registers together. */
#define AHEAD (VB == 64 ? 4 : 1)

/* sums[j][p] += value[j + k * value_stride] * rows[k][p] for k < n and nf features, at
   most AHEAD; nf and np are constants. */
INLINE void NAME(accumulate_rows)(V sums[AHEAD][GROUP][NV], const char *rows,
                                  const REAL *value, ptrdiff_t value_stride,
                                  ptrdiff_t n, const int nf, const int np)
{
    V a[AHEAD][GROUP][NV];
    UNROLL for (int j = 0; j < nf; j++)
        for (int p = 0; p < np; p++)
            for (int q = 0; q < NV; q++) a[j][p][q] = sums[j][p][q];
    for (; n > 0; n--, rows += np * PANEL_BYTES, value += value_stride)
        UNROLL for (int p = 0; p < np; p++)
            UNROLL for (int q = 0; q < NV; q++) {
                const V x = ((const V *)rows)[p * NV + q];
                UNROLL for (int j = 0; j < nf; j++)
                    a[j][p][q] = PLUS_PRODUCT(a[j][p][q], x, value[j]);
            }
    UNROLL for (int j = 0; j < nf; j++)
        for (int p = 0; p < np; p++)
            for (int q = 0; q < NV; q++) sums[j][p][q] = a[j][p][q];
}

/* Rows whose sums stay in registers together, and of how many panels. */
#define TILE_ROWS (VB == 16 ? 3 : 6)
#define TILE_PANELS (VB == 64 ? GROUP : 1)

/* sum_dense of the `count` rows from `row` on, at most nr, and of np panels (nr and np
   are constants). */
INLINE void NAME(dense_tile)(const ActiveRows *rows, ptrdiff_t row, ptrdiff_t count,
                             const char *panels, ptrdiff_t stride, const char *bias,
                             ptrdiff_t bias_stride, char *out, ptrdiff_t out_stride,
                             const int nr, const int np)
{
    const REAL *value[TILE_ROWS];
    const char *panel[TILE_PANELS];
    V sums[TILE_ROWS][TILE_PANELS][NV];
    for (int p = 0; p < np; p++) panel[p] = panels + p * stride;
    UNROLL for (int r = 0; r < nr; r++) {
        /* (Rows that are too many are computed and not stored.) */
        const ptrdiff_t at = row + (r < count ? r : 0);
        value[r] = (const REAL *)rows->dense + at * rows->stride;
        UNROLL for (int p = 0; p < np; p++)
            UNROLL for (int q = 0; q < NV; q++)
                sums[r][p][q] =
                    ((const V *)(bias + p * PANEL_BYTES + at * bias_stride))[q];
    }
    for (ptrdiff_t k = 0; k < rows->stride; k++)
        UNROLL for (int r = 0; r < nr; r++) {
            const REAL x = value[r][k];
            UNROLL for (int p = 0; p < np; p++)
                UNROLL for (int q = 0; q < NV; q++)
                    sums[r][p][q] = PLUS_PRODUCT(
                        sums[r][p][q], ((const V *)(panel[p] + k * PANEL_BYTES))[q], x);
        }
    for (ptrdiff_t r = 0; r < count; r++)
        for (int p = 0; p < np; p++)
            for (int q = 0; q < NV; q++)
                ((V *)(out + p * out_stride + (row + r) * PANEL_BYTES))[q] =
                    sums[r][p][q];
}

/* sum_active of dense rows: the same sums in the same order, with products by zero. */
static void NAME(sum_dense)(const ActiveRows *rows, ptrdiff_t n_rows,
                            const char *panels, ptrdiff_t stride, int n_panels,
                            const char *bias, ptrdiff_t bias_stride, char *out,
                            ptrdiff_t out_stride)
{
    /* Tiles that have a row less, if there are no more of them. */
    const ptrdiff_t n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const int less = n_rows <= n_tiles * (TILE_ROWS - 1);
    const ptrdiff_t tall = TILE_ROWS - less;
    for (int p = 0; p < n_panels; p += TILE_PANELS) {
        const int np = n_panels - p < TILE_PANELS ? n_panels - p : TILE_PANELS;
        for (ptrdiff_t r = 0; r < n_rows; r += tall)
            switch (np + less * GROUP) {
#define TILE(nr, np)                                                           \
    NAME(dense_tile)(rows, r, n_rows - r < tall ? n_rows - r : tall,           \
                     panels + p * stride, stride, bias + p * PANEL_BYTES,      \
                     bias_stride, out + p * out_stride, out_stride, nr,        \
                     np < TILE_PANELS ? np : TILE_PANELS);                     \
    break;
#define CASE(n)                                                                \
    case n: TILE(TILE_ROWS, n)                                                 \
    case n + GROUP: TILE(TILE_ROWS - 1, n)
                CASE(1) CASE(2) CASE(3) CASE(4)
#undef CASE
#undef TILE
            }
    }
}
#undef TILE_ROWS
#undef TILE_PANELS

/* Sums of a row in np panels, `stride` bytes apart. */
INLINE void NAME(take_sums)(V sums[GROUP][NV], const char *from, ptrdiff_t stride,
                            const int np)
{
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) sums[p][q] = ((const V *)(from + p * stride))[q];
}

INLINE void NAME(put_sums)(V sums[GROUP][NV], char *to, ptrdiff_t stride, const int np)
{
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) ((V *)(to + p * stride))[q] = sums[p][q];
}

/* sum_active of np panels, for rows whose lists are not longer than most[s].  In turns
   of some entries of every row, which are near those of other rows, so that the cache
   holds what a turn needs. */
INLINE void NAME(lists_in)(const RowSums *sets, int n_sets, const int32_t *most,
                           const char *panels, ptrdiff_t stride, const char *bias,
                           ptrdiff_t bias_stride, ptrdiff_t p, const int np)
{
    enum { TURN = 24 };
    int more = 1;
    for (int32_t start = 0; more; start += TURN) {
        more = 0;
        for (int s = 0; s < n_sets; s++) {
            const RowSums set = sets[s]; /* (A copy, which no store can change.) */
            const ActiveRows rows = set.rows;
            const ptrdiff_t out_stride = set.out_stride;
            const int32_t longest = most[s];
            if (!rows.index || rows.dense) continue;
            for (ptrdiff_t r = 0; r < set.n_rows; r++) {
                const int32_t length = rows.length[r], left = length - start;
                if (length > longest || (start > 0 && left <= 0)) continue;
                const ptrdiff_t at = r * rows.stride + start;
                const REAL *value = rows.value;
                char *to = set.out + p * out_stride + r * PANEL_BYTES;
                V sums[GROUP][NV];
                NAME(take_sums)(sums, start ? to : bias + r * bias_stride,
                                start ? out_stride : PANEL_BYTES, np);
                NAME(accumulate)(sums, panels, stride, rows.index + at,
                                 value ? value + at : NULL, left < TURN ? left : TURN,
                                 np, 1);
                NAME(put_sums)(sums, to, out_stride, np);
                more |= left > TURN;
            }
        }
    }
}

/* The same with any number of panels up to GROUP. */
APART void NAME(sum_lists)(const RowSums *sets, int n_sets, const int32_t *most,
                           const char *panels, ptrdiff_t stride, const char *bias,
                           ptrdiff_t bias_stride, ptrdiff_t p, int np)
{
    WITH_WIDTH(np, NAME(lists_in)(sets, n_sets, most, panels, stride, bias, bias_stride,
                                  p, WIDTH));
}

/* sum_active of np panels, for the rows of a set that is given by bits whose lists would
   not be longer than `most`.  (Sets have few rows, or few units on: they gain nothing by
   a common reading.) */
INLINE void NAME(bits_in)(const RowSums *set, int32_t most, const char *panels,
                          ptrdiff_t stride, const char *bias, ptrdiff_t bias_stride,
                          ptrdiff_t p, const int np)
{
    enum { TURN = 2 };
    const ActiveRows *rows = &set->rows;
    const ptrdiff_t out_stride = set->out_stride;
    char *const out = set->out + p * out_stride;
    for (ptrdiff_t w = 0; w < rows->n_words; w += TURN)
        for (ptrdiff_t r = 0; r < set->n_rows; r++) {
            if (rows->length[r] > most) continue;
            const uint64_t *words = rows->bits + r * rows->n_words;
            char *to = out + r * PANEL_BYTES;
            V sums[GROUP][NV];
            const char *panel[GROUP];
            for (int k = 0; k < np; k++) panel[k] = panels + k * stride;
            NAME(take_sums)(sums, w ? to : bias + r * bias_stride,
                            w ? out_stride : PANEL_BYTES, np);
            for (ptrdiff_t k = w; k < w + TURN && k < rows->n_words; k++)
                for (uint64_t bits = words[k]; bits; bits &= bits - 1)
                    NAME(add_entry)(sums, panel, (uint32_t)(64 * k + lowest_bit(bits)),
                                    NULL, np);
            NAME(put_sums)(sums, to, out_stride, np);
        }
}

/* The same with any number of panels up to GROUP. */
APART void NAME(sum_bits)(const RowSums *set, int32_t most, const char *panels,
                          ptrdiff_t stride, const char *bias, ptrdiff_t bias_stride,
                          ptrdiff_t p, int np)
{
    WITH_WIDTH(np, NAME(bits_in)(set, most, panels, stride, bias, bias_stride, p, WIDTH));
}

/* sums[j] = rows[2j] + rows[2j + 1] */
static void NAME(pair_sums)(const char *rows, ptrdiff_t n_pairs, char *sums)
{
    for (ptrdiff_t j = 0; j < n_pairs; j++)
        for (int q = 0; q < NV; q++)
            ((V *)(sums + j * PANEL_BYTES))[q] =
                ((const V *)(rows + 2 * j * PANEL_BYTES))[q]
                + ((const V *)(rows + (2 * j + 1) * PANEL_BYTES))[q];
}

/* The sums of all 16 subsets of the rows k < count of scale * row (in ascending
   order) of vectors that are NV apart, kept in registers until all are known. */
INLINE V NAME(subsets)(const V *rows, ptrdiff_t count, REAL scale, V *t)
{
    V sums[16];
    memset(&sums[0], 0, sizeof sums[0]);
    UNROLL
    for (int k = 0; k < 4; k++) {
        V x;
        memset(&x, 0, sizeof x);
        if (k < count) x = rows[k * NV] * scale;
        UNROLL
        for (int m = 0; m < 1 << k; m++) sums[(1 << k) + m] = sums[m] + x;
    }
    UNROLL
    for (int m = 0; m < 16; m++) t[m * NV] = sums[m];
    return sums[15];
}

/* For every four rows, the sums of all 16 subsets of scale * row (rows in
   ascending order); the sum of all of them is added to total. */
static void NAME(subset_sums)(const char *rows, ptrdiff_t n, double scale,
                              char *table, char *total)
{
    const V *row = (const V *)rows;
    V *t = (V *)table, sum[NV];
    ptrdiff_t k = 0;
    memcpy(sum, total, sizeof sum);
    for (; k + 4 <= n; k += 4, row += 4 * NV, t += 16 * NV)
        for (int q = 0; q < NV; q++)
            sum[q] += NAME(subsets)(row + q, 4, (REAL)scale, t + q);
    if (k < n)
        for (int q = 0; q < NV; q++)
            sum[q] += NAME(subsets)(row + q, n - k, (REAL)scale, t + q);
    memcpy(total, sum, sizeof sum);
}

/* Rows whose sums are in registers together. */
#define WORD_ROWS (VB == 16 ? 2 : VB == 32 ? 4 : 8)

/* Add to the sums of n rows (a constant), which `at` names, the table entries of the 16
   words of four bits in words[row * stride]. */
INLINE void NAME(add_words)(const uint64_t *words, ptrdiff_t stride, const int32_t *at,
                            const V *table, V *sums, const int n)
{
    uint64_t x[WORD_ROWS];
    V a[WORD_ROWS][NV];
    UNROLL for (int k = 0; k < n; k++) {
        x[k] = words[at[k] * stride];
        for (int q = 0; q < NV; q++) a[k][q] = sums[at[k] * NV + q];
    }
    UNROLL for (int g = 0; g < 16; g++)
        UNROLL for (int k = 0; k < n; k++)
            for (int q = 0; q < NV; q++) {
                a[k][q] += table[(16 * g + (x[k] >> 4 * g & 15)) * NV + q];
                IN_ORDER(a[k][q]);
            }
    UNROLL for (int k = 0; k < n; k++)
        for (int q = 0; q < NV; q++) sums[at[k] * NV + q] = a[k][q];
}

/* sum_active of one panel, for the n rows that `at` names: for every 64 units the sums
   of all subsets of four neighbours are tabulated, and 16 of them are added. */
static void NAME(sum_words)(const ActiveRows *rows, const int32_t *at, ptrdiff_t n,
                            const char *panel, const char *bias,
                            ptrdiff_t bias_stride, V *sums)
{
    V table[16 * 16 * NV], ignored[NV];
    const uint64_t *words = rows->words;
    const ptrdiff_t stride = rows->n_words, n_units = rows->n_units;
    for (ptrdiff_t k = 0; k < n; k++)
        memcpy(sums + at[k] * NV, bias + at[k] * bias_stride, PANEL_BYTES);
    memset(ignored, 0, sizeof ignored);
    for (ptrdiff_t w = 0; w < stride; w++, words++) {
        const ptrdiff_t units = n_units - 64 * w < 64 ? n_units - 64 * w : 64;
        NAME(subset_sums)(panel + 64 * w * PANEL_BYTES, units, 1, (char *)table,
                          (char *)ignored);
        for (ptrdiff_t g = (units + 3) / 4; g < 16; g++) /* beyond the last */
            memset(table + 16 * g * NV, 0, PANEL_BYTES);
        ptrdiff_t k = 0;
        for (; k + WORD_ROWS <= n; k += WORD_ROWS)
            NAME(add_words)(words, stride, at + k, table, sums, WORD_ROWS);
        for (; k < n; k++) NAME(add_words)(words, stride, at + k, table, sums, 1);
    }
}
#undef WORD_ROWS

/* sum_active of the rows of a set whose lists are longer than `most`. */
static void NAME(sum_long)(const RowSums *set, int32_t most, const char *panels,
                           ptrdiff_t stride, int n_panels, const char *bias,
                           ptrdiff_t bias_stride)
{
    enum { TOGETHER = 128 }; /* sums of as many rows stay in the nearest cache */
    int32_t by_words[TOGETHER];
    for (ptrdiff_t r = 0, n = 0; r < set->n_rows; r++) {
        if (set->rows.length[r] > most) by_words[n++] = (int32_t)r;
        if (n < TOGETHER && (n == 0 || r < set->n_rows - 1)) continue;
        for (int p = 0; p < n_panels; p++)
            NAME(sum_words)(&set->rows, by_words, n, panels + p * stride,
                            bias + p * PANEL_BYTES, bias_stride,
                            (V *)(set->out + p * set->out_stride));
        n = 0;
    }
}

/* For some sets of rows: out[p][r] = bias[r][p] + sum of the active rows of panels[p].
   bias_stride is 0 when all rows share one bias. */
static void NAME(sum_active)(const RowSums *sets, int n_sets, const char *panels,
                             ptrdiff_t stride, int n_panels, const char *bias,
                             ptrdiff_t bias_stride)
{
    int32_t most[MOST_SETS];
    for (int s = 0; s < n_sets; s++) most[s] = longest_list(&sets[s].rows, sets[s].n_rows);
    for (int p = 0; p < n_panels; p += GROUP) {
        const int np = n_panels - p < GROUP ? n_panels - p : GROUP;
        const char *from = panels + p * stride, *start = bias + p * PANEL_BYTES;
        NAME(sum_lists)(sets, n_sets, most, from, stride, start, bias_stride, p, np);
        for (int s = 0; s < n_sets; s++)
            if (!sets[s].rows.index && !sets[s].rows.dense)
                NAME(sum_bits)(sets + s, most[s], from, stride, start, bias_stride, p, np);
    }
    for (int s = 0; s < n_sets; s++)
        if (sets[s].rows.dense)
            NAME(sum_dense)(&sets[s].rows, sets[s].n_rows, panels, stride, n_panels,
                            bias, bias_stride, sets[s].out, sets[s].out_stride);
        else
            NAME(sum_long)(sets + s, most[s], panels, stride, n_panels, bias,
                           bias_stride);
}

/* The product of the elements of a panel's row, of every fourth first; the sum, in
   order. */
INLINE double NAME(lane_product)(const V *x)
{
    const REAL *y = (const REAL *)x;
    double products[4] = {1, 1, 1, 1};
    UNROLL
    for (int k = 0; k < PANEL_LANES; k++) products[k % 4] *= y[k];
    return (products[0] * products[1]) * (products[2] * products[3]);
}

INLINE double NAME(lane_sum)(const V *x)
{
    const REAL *y = (const REAL *)x;
    double sum = 0;
    for (int k = 0; k < PANEL_LANES; k++) sum += y[k];
    return sum;
}
