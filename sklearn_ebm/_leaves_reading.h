/* Reading rows of data, and transposition.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- Reading data: which of n values are not zero ---- */
static void NAME(nonzero_bits)(const char *values, ptrdiff_t n, uint64_t *words)
{
    const REAL *x = (const REAL *)values;
    for (ptrdiff_t w = 0; 64 * w < n; w++) {
        uint64_t word = 0;
        ptrdiff_t m = n - 64 * w < 64 ? n - 64 * w : 64, k = 0;
        for (; k + LANES <= m; k += LANES) {
            V y;
            memcpy(&y, x + 64 * w + k, sizeof y);
            word |= (uint64_t)BITS_WHERE(y, NE, SPLAT(0)) << k;
        }
        for (; k < m; k++) word |= (uint64_t)(x[64 * w + k] != 0) << k;
        words[w] = word;
    }
}

/* Enter n values into a range; whether all of them are 1. NaN is not finite, and no more
   than that. */
static int NAME(enter_range)(const void *values, ptrdiff_t n, double *low, double *high,
                             int *finite)
{
    const REAL *x = values;
    V least = SPLAT((REAL)*low), most = SPLAT((REAL)*high), odd = SPLAT(0);
    IV ones = AS_INT(SPLAT(0)) == 0;
    ptrdiff_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        V y;
        memcpy(&y, x + k, sizeof y);
        least = SMALLER(y, least);
        most = LARGER(y, most);
        odd += y - y;
        ones &= y == 1;
    }
    int all = 1;
    for (int q = 0; q < LANES; q++) {
        if (((REAL *)&least)[q] < *low) *low = ((REAL *)&least)[q];
        if (((REAL *)&most)[q] > *high) *high = ((REAL *)&most)[q];
        *finite &= ((REAL *)&odd)[q] == 0;
        all &= ((INT *)&ones)[q] != 0;
    }
    for (; k < n; k++) {
        if (x[k] < *low) *low = x[k];
        if (x[k] > *high) *high = x[k];
        *finite &= x[k] - x[k] == 0;
        all &= x[k] == 1;
    }
    return all;
}

/* ---- Transposition of a square of panel rows ---- */

#ifdef VECTORS
/* (Clang looks at the indices of a stage that is left out, too.) */
#define WITHIN(k) ((k) & (2 * LANES - 1))
#define LOW(k, s) WITHIN((k) & (s) ? LANES + (k) - (s) : (k))
#define HIGH(k, s) WITHIN((k) & (s) ? LANES + (k) : (k) + (s))
#if VB / (4 + 4 * DOUBLE) == 16
#define INDICES(F, s) F(0, s), F(1, s), F(2, s), F(3, s), F(4, s), F(5, s), \
    F(6, s), F(7, s), F(8, s), F(9, s), F(10, s), F(11, s), F(12, s),       \
    F(13, s), F(14, s), F(15, s)
#elif VB / (4 + 4 * DOUBLE) == 8
#define INDICES(F, s) F(0, s), F(1, s), F(2, s), F(3, s), F(4, s), F(5, s), \
    F(6, s), F(7, s)
#elif VB / (4 + 4 * DOUBLE) == 4
#define INDICES(F, s) F(0, s), F(1, s), F(2, s), F(3, s)
#else
#define INDICES(F, s) F(0, s), F(1, s)
#endif
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (IV){__VA_ARGS__})
#endif
/* Exchange with the neighbour at distance s. */
#define STAGE(s)                                              \
    if (LANES > s)                                            \
        for (int i = 0; i < LANES; i++)                       \
            if (!(i & s)) {                                   \
                V a = t[i], b = t[i + s];                     \
                t[i] = SHUFFLE(a, b, INDICES(LOW, s));        \
                t[i + s] = SHUFFLE(a, b, INDICES(HIGH, s));   \
            }
/* Transpose a square of LANES vectors, in place. */
INLINE void NAME(turn)(V *t)
{
    STAGE(1)
    STAGE(2)
    STAGE(4)
    STAGE(8)
}

INLINE void NAME(transpose_tile)(const char *from, char *to)
{
    for (int i = 0; i < NV; i++)
        for (int j = 0; j < NV; j++) {
            V t[2 * LANES];
            for (int k = 0; k < LANES; k++)
                t[k] = ((const V *)(from + (i * LANES + k) * PANEL_BYTES))[j];
            NAME(turn)(t);
            for (int k = 0; k < LANES; k++)
                ((V *)(to + (j * LANES + k) * PANEL_BYTES))[i] = t[k];
        }
}
#undef WITHIN
#undef LOW
#undef HIGH
#undef INDICES
#undef SHUFFLE
#undef STAGE
#else
INLINE void NAME(transpose_tile)(const char *from, char *to)
{
    /* (Copies of bytes: they may be integers.) */
    for (int i = 0; i < PANEL_LANES; i++)
        for (int j = 0; j < PANEL_LANES; j++)
            memcpy(to + (j * PANEL_LANES + i) * sizeof(REAL),
                   from + (i * PANEL_LANES + j) * sizeof(REAL), sizeof(REAL));
}
#endif

/* One panel of the transposed matrix: its rows come from the same square of
   every one of n_panels panels of the matrix, stride bytes apart. */
static void NAME(transpose)(const char *from, ptrdiff_t stride, char *to,
                            ptrdiff_t n_panels)
{
    for (ptrdiff_t p = 0; p < n_panels; p++)
        NAME(transpose_tile)(from + p * stride,
                             to + p * PANEL_LANES * PANEL_BYTES);
}

/* n squares of a panel from the columns that it holds, which are `stride` bytes apart
   and need not lie on cache lines. */
static void NAME(pack)(const char *columns, ptrdiff_t stride, ptrdiff_t n, char *panel)
{
    V square[NV * PANEL_LANES];
    for (ptrdiff_t s = 0; s < n; s++) {
        for (int k = 0; k < PANEL_LANES; k++)
            memcpy(square + k * NV, columns + k * stride + s * PANEL_BYTES, PANEL_BYTES);
        NAME(transpose_tile)((const char *)square,
                             panel + s * PANEL_LANES * PANEL_BYTES);
    }
}

/* The same back. */
static void NAME(unpack)(const char *panel, ptrdiff_t n, char *columns, ptrdiff_t stride)
{
    V square[NV * PANEL_LANES];
    for (ptrdiff_t s = 0; s < n; s++) {
        NAME(transpose_tile)(panel + s * PANEL_LANES * PANEL_BYTES, (char *)square);
        for (int k = 0; k < PANEL_LANES; k++)
            memcpy(columns + k * stride + s * PANEL_BYTES, square + k * NV, PANEL_BYTES);
    }
}
