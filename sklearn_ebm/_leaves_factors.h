/* Rows under a linear factor model, in double precision.
   Included by _leaves.h, which defines V, NAME, ... */
#if DOUBLE

/* out = (x - mean) * scale for `bytes` bytes of a panel; adds to squares. */
INLINE void NAME(deviate_panel)(const REAL *x, const REAL *mean,
                                const REAL *scale, const size_t bytes, REAL *out,
                                V *squares)
{
    V a[NV], b[NV], c[NV];
    if (bytes < PANEL_BYTES)
        for (int q = 0; q < NV; q++) a[q] = b[q] = c[q] = SPLAT(0);
    memcpy(a, x, bytes);
    memcpy(b, mean, bytes);
    memcpy(c, scale, bytes);
    for (int q = 0; q < NV; q++) {
        a[q] = (a[q] - b[q]) * c[q];
        squares[q] += a[q] * a[q];
    }
    memcpy(out, a, bytes);
}

/* The same for n numbers that need not lie on cache lines; returns the sum of
   their squares, added up by the columns of a panel. */
static double NAME(deviate)(const void *x_, const void *mean_, const void *scale_,
                            ptrdiff_t n, void *out_)
{
    const REAL *x = x_, *mean = mean_, *scale = scale_;
    REAL *out = out_;
    const ptrdiff_t whole = n / PANEL_LANES * PANEL_LANES;
    V squares[NV];
    for (int q = 0; q < NV; q++) squares[q] = SPLAT(0);
    for (ptrdiff_t i = 0; i < whole; i += PANEL_LANES)
        NAME(deviate_panel)(x + i, mean + i, scale + i, PANEL_BYTES, out + i,
                            squares);
    if (whole < n)
        NAME(deviate_panel)(x + whole, mean + whole, scale + whole,
                            (size_t)(n - whole) * sizeof(REAL), out + whole,
                            squares);
    return NAME(lane_sum)(squares);
}

/* ---- How much of a row its factors explain ---- */

#ifdef FUSED
#define ADD_PRODUCT(a, b, c) FUSED(a, b, c)
#else
#define SPREAD(x) SPLAT(x)
#define ADD_PRODUCT(a, b, c) ((a) * (b) + (c))
#endif

/* Most vectors of factors for FACTOR_ROWS rows whose sums stay in registers. */
#define MOST_WIDE (VECTOR_BYTES == 64 ? 7 : 3)

/* Some rows of factors (n_factors, n), turned: to[t][i] = from[i][t], zeros after
   them to make whole vectors. */
static void NAME(turn_factors)(const void *from_, ptrdiff_t n_factors, ptrdiff_t n,
                               void *to_)
{
    const REAL *from = from_;
    REAL *to = to_;
    const ptrdiff_t width = (n_factors + LANES - 1) / LANES * LANES;
    for (ptrdiff_t i = 0; i < width; i += LANES) {
        ptrdiff_t t = 0;
#ifdef VECTORS
        for (; t + LANES <= n; t += LANES) {
            V v[2 * LANES];
            for (int k = 0; k < LANES; k++) {
                v[k] = SPLAT(0);
                if (i + k < n_factors)
                    memcpy(&v[k], from + (i + k) * n + t, sizeof(V));
            }
            NAME(turn)(v);
            for (int k = 0; k < LANES; k++) *(V *)(to + (t + k) * width + i) = v[k];
        }
#endif
        for (; t < n; t++)
            for (int k = 0; k < LANES; k++)
                to[t * width + i + k] =
                    i + k < n_factors ? from[(i + k) * n + t] : 0;
    }
}

/* out[r] = sum over t of rows[r][t] * factors[t], t ascending; `wide` (a constant)
   vectors of it.  Meanwhile memory from `next` on is called for, `share` bytes a
   term. */
INLINE void NAME(tile_of_factors)(const REAL *rows, ptrdiff_t stride, ptrdiff_t n,
                                  const V *factors, ptrdiff_t width,
                                  const char *next, ptrdiff_t share, V *out,
                                  const int wide)
{
    V s[FACTOR_ROWS][MOST_WIDE];
    UNROLL for (int r = 0; r < FACTOR_ROWS; r++)
        UNROLL for (int q = 0; q < wide; q++) s[r][q] = SPLAT(0);
    for (ptrdiff_t t = 0; t < n; t++) {
        V f[MOST_WIDE];
        if (next) fetch(next + t * share);
        UNROLL for (int q = 0; q < wide; q++) f[q] = factors[t * width + q];
        UNROLL for (int r = 0; r < FACTOR_ROWS; r++) {
            const V x = SPREAD(rows[r * stride + t]);
            UNROLL for (int q = 0; q < wide; q++)
                s[r][q] = ADD_PRODUCT(x, f[q], s[r][q]);
        }
    }
    UNROLL for (int r = 0; r < FACTOR_ROWS; r++)
        UNROLL for (int q = 0; q < wide; q++) out[r * width + q] = s[r][q];
}

/* The same for all `width` vectors, in stretches as even as they can be. */
static void NAME(rows_by_factors)(const REAL *rows, ptrdiff_t stride, ptrdiff_t n,
                                  const V *factors, ptrdiff_t width,
                                  const char *next, ptrdiff_t share, V *out)
{
    const ptrdiff_t n_tiles = (width + MOST_WIDE - 1) / MOST_WIDE;
    for (ptrdiff_t tile = 0; tile < n_tiles; tile++) {
        const ptrdiff_t at = tile * width / n_tiles;
        switch ((tile + 1) * width / n_tiles - at) {
#define CASE(wide)                                                            \
    case wide:                                                                \
        NAME(tile_of_factors)(rows, stride, n, factors + at, width, next,     \
                              share, out + at, wide);                         \
        break;
            CASE(1) CASE(2) CASE(3)
#if defined(VECTORS) && VB == 64
            CASE(4) CASE(5) CASE(6) CASE(7)
#endif
#undef CASE
        }
        next = NULL;
    }
}

/* squares[r] -= |R S rows[r]|^2 for FACTOR_ROWS rows of n numbers: `loadings` is S
   and `root` R, as turn_factors leaves them.  Room for 2 * FACTOR_ROWS rows of
   factors. */
static void NAME(explain)(const void *rows, ptrdiff_t n, const void *loadings,
                          const void *root, ptrdiff_t n_factors, const char *next,
                          ptrdiff_t share, void *room, double *squares)
{
    const ptrdiff_t width = (n_factors + LANES - 1) / LANES;
    V *evidence = room, *explained = evidence + FACTOR_ROWS * width;
    NAME(rows_by_factors)(rows, n, n, loadings, width, next, share, evidence);
    NAME(rows_by_factors)((const REAL *)evidence, width * LANES, n_factors, root,
                          width, NULL, 0, explained);
    for (int r = 0; r < FACTOR_ROWS; r++) {
        V sum = SPLAT(0);
        for (ptrdiff_t q = 0; q < width; q++)
            sum += explained[r * width + q] * explained[r * width + q];
        for (int k = 0; k < LANES; k++) squares[r] -= ((const REAL *)&sum)[k];
    }
}
#undef ADD_PRODUCT
#undef MOST_WIDE
#define FACTORS LEAF(deviate), LEAF(turn_factors), LEAF(explain),
#else
#define FACTORS
#endif
