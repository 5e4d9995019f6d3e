/* Products of dense matrices.  Included by _leaves.h, which defines V, NAME, ...

   Where an instruction set multiplies and adds in one step. (Elsewhere there is no
   `multiply`, and BLAS does it.) Every element is a sum over k in ascending order, in
   stretches of DEPTH terms, whatever the shape and the place of the block: results
   do not depend on what else is computed with them, nor on whether terms that are zero
   are left out (multiply_list). */
#ifdef FUSED
enum { NAME(DEPTH) = 192 };
#define DEPTH NAME(DEPTH)

/* Rows of a tile of the product at most; a tile is three vectors wide. */
#define TALL (VB == 64 ? 8 : 4)
#define WIDE (3 * LANES)

INLINE V NAME(load)(const REAL *x)
{
    V v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* Sums of a tile of `tall` rows (a constant): rows of a (one element every a_step for
   each of the k terms), times terms of b, three vectors every b_step elements. */
INLINE void NAME(tile)(const REAL *const *a, ptrdiff_t a_step, const REAL *b,
                       ptrdiff_t b_step, ptrdiff_t k, const int tall, V sums[][3])
{
    V s[TALL][3];
    UNROLL for (int r = 0; r < tall; r++)
        UNROLL for (int q = 0; q < 3; q++) s[r][q] = SPREAD(0);
    for (ptrdiff_t t = 0; t < k; t++, b += b_step) {
        const V x = NAME(load)(b), y = NAME(load)(b + LANES);
        const V z = NAME(load)(b + 2 * LANES);
        UNROLL for (int r = 0; r < tall; r++) {
            const V w = SPREAD(a[r][t * a_step]);
            s[r][0] = FUSED(w, x, s[r][0]);
            s[r][1] = FUSED(w, y, s[r][1]);
            s[r][2] = FUSED(w, z, s[r][2]);
        }
    }
    UNROLL for (int r = 0; r < tall; r++)
        UNROLL for (int q = 0; q < 3; q++) sums[r][q] = s[r][q];
}

/* The same of any number of rows. */
INLINE void NAME(tile_of)(ptrdiff_t tall, const REAL *const *a, ptrdiff_t a_step,
                          const REAL *b, ptrdiff_t b_step, ptrdiff_t k, V sums[][3])
{
    switch (tall) {
#define CASE(n)                                                               \
    case n:                                                                   \
        NAME(tile)(a, a_step, b, b_step, k, n < TALL ? n : TALL, sums);       \
        break;
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
#undef CASE
    }
}

/* `n` columns of k rows of b, zeros after them to make three vectors. */
INLINE void NAME(pack_columns)(const REAL *b, ptrdiff_t stride, ptrdiff_t n,
                               ptrdiff_t k, REAL *to)
{
    if (n == WIDE) {
        for (ptrdiff_t t = 0; t < k; t++)
            UNROLL for (int q = 0; q < 3; q++)
                ((V *)to)[3 * t + q] = NAME(load)(b + t * stride + q * LANES);
        return;
    }
    memset(to, 0, (size_t)(k * WIDE) * sizeof(REAL));
    for (ptrdiff_t t = 0; t < k; t++)
        memcpy(to + t * WIDE, b + t * stride, (size_t)n * sizeof(REAL));
}

/* The same of b turned: its rows are the columns. */
INLINE void NAME(pack_rows)(const REAL *b, ptrdiff_t stride, ptrdiff_t n,
                            ptrdiff_t k, REAL *to)
{
    const ptrdiff_t whole = n == WIDE ? k / LANES * LANES : 0;
    for (ptrdiff_t t = 0; t < whole; t += LANES)
        for (int q = 0; q < 3; q++) {
            V v[2 * LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = NAME(load)(b + (q * LANES + i) * stride + t);
            NAME(turn)(v);
            for (int i = 0; i < LANES; i++) ((V *)to)[3 * (t + i) + q] = v[i];
        }
    if (n < WIDE) memset(to, 0, (size_t)(k * WIDE) * sizeof(REAL));
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t t = whole; t < k; t++)
            to[t * WIDE + i] = b[i * stride + t];
}

/* c = alpha a b + beta c, for m rows and n columns of c; see `multiply` in
   _products.pyx. */
static void NAME(multiply)(int a_turned, int b_turned, ptrdiff_t m, ptrdiff_t n,
                           ptrdiff_t k, double alpha, const void *a_,
                           ptrdiff_t a_stride, const void *b_,
                           ptrdiff_t b_stride, double beta, void *c_,
                           ptrdiff_t c_stride)
{
    V columns[3 * DEPTH], sums[TALL][3];
    const REAL *a = a_, *b = b_, *rows[TALL];
    REAL *c = c_;
    const REAL factor = (REAL)alpha;
    if (k == 0)
        for (ptrdiff_t r = 0; r < m; r++)
            for (ptrdiff_t j = 0; j < n; j++)
                c[r * c_stride + j] =
                    beta == 0 ? 0 : c[r * c_stride + j] * (REAL)beta;
    for (ptrdiff_t t = 0; t < k; t += DEPTH) {
        const ptrdiff_t depth = k - t < DEPTH ? k - t : DEPTH;
        const REAL kept = t == 0 ? (REAL)beta : 1;
        for (ptrdiff_t j = 0; j < n; j += WIDE) {
            const ptrdiff_t width = n - j < WIDE ? n - j : WIDE;
            /* (What is used once or twice is not worth a copy.) */
            const int direct = !b_turned && width == WIDE && m <= 2 * TALL;
            const REAL *terms =
                direct ? b + t * b_stride + j : (const REAL *)columns;
            if (b_turned)
                NAME(pack_rows)(b + j * b_stride + t, b_stride, width, depth,
                                (REAL *)columns);
            else if (!direct)
                NAME(pack_columns)(b + t * b_stride + j, b_stride, width,
                                   depth, (REAL *)columns);
            ptrdiff_t height;
            for (ptrdiff_t i = 0; i < m; i += height) {
                const ptrdiff_t left = m - i;
                height = left >= 2 * TALL ? TALL : left > TALL ? (left + 1) / 2 : left;
                for (ptrdiff_t r = 0; r < height; r++)
                    rows[r] = a_turned ? a + t * a_stride + i + r
                                       : a + (i + r) * a_stride + t;
                NAME(tile_of)((int)height, rows, a_turned ? a_stride : 1, terms,
                              direct ? b_stride : WIDE, depth, sums);
                for (ptrdiff_t r = 0; r < height; r++) {
                    REAL *out = c + (i + r) * c_stride + j;
                    const REAL *sum = (const REAL *)sums[r];
                    if (width == WIDE) {
                        UNROLL for (int q = 0; q < 3; q++) {
                            V x = sums[r][q] * factor;
                            if (kept != 0)
                                x += NAME(load)(out + q * LANES) * kept;
                            memcpy(out + q * LANES, &x, sizeof x);
                        }
                        continue;
                    }
                    for (ptrdiff_t q = 0; q < width; q++) {
                        const REAL x = sum[q] * factor;
                        out[q] = kept != 0 ? x + out[q] * kept : x;
                    }
                }
            }
        }
    }
}

/* Sums of nv vectors (a constant) of columns: rows of b that a list names, times its
   values. Of a single vector only `width` elements are there. */
INLINE void NAME(list_tile)(const uint32_t *index, const REAL *value, int32_t length,
                            const REAL *b, ptrdiff_t stride, const int nv,
                            ptrdiff_t width, REAL *c)
{
    V total[8], sum[8];
    UNROLL for (int q = 0; q < nv; q++) total[q] = SPREAD(0);
    for (int32_t k = 0; k < length;) {
        const uint32_t stop = (index[k] / DEPTH + 1) * DEPTH;
        UNROLL for (int q = 0; q < nv; q++) sum[q] = SPREAD(0);
        for (; k < length && index[k] < stop; k++) {
            const REAL *x = b + index[k] * stride;
            V some = SPREAD(0);
            if (width < LANES) {
                memcpy(&some, x, (size_t)width * sizeof(REAL));
                x = (const REAL *)&some;
            }
            const V w = SPREAD(value[k]);
            UNROLL for (int q = 0; q < nv; q++)
                sum[q] = FUSED(w, NAME(load)(x + q * LANES), sum[q]);
        }
        UNROLL for (int q = 0; q < nv; q++) total[q] += sum[q];
    }
    memcpy(c, total, (size_t)(width < LANES ? width : nv * LANES) * sizeof(REAL));
}

/* A row of c = a b, of n columns, by the list of what is not zero in the row of a: the
   bits that `multiply` gives. */
static void NAME(multiply_list)(const uint32_t *index, const void *value,
                                int32_t length, ptrdiff_t n, const void *b,
                                ptrdiff_t b_stride, void *c)
{
    int nv = 8;
    while (nv > 1 && nv * LANES > n) nv /= 2;
    for (ptrdiff_t j = 0; j < n; j += nv * LANES) {
        /* (The last columns may be done twice.) */
        if (j + nv * LANES > n && n >= LANES) j = n - nv * LANES;
        switch (nv) {
#define CASE(k)                                                                      \
    case k:                                                                          \
        NAME(list_tile)(index, value, length, (const REAL *)b + j, b_stride, k,      \
                        k == 1 ? n : LANES, (REAL *)c + j);                          \
        break;
            CASE(1) CASE(2) CASE(4) CASE(8)
#undef CASE
        }
    }
}
#undef TALL
#undef WIDE
#undef DEPTH
#define MULTIPLY LEAF(multiply), LEAF(multiply_list),
#else
#define MULTIPLY
#endif
