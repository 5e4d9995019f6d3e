/* The vector leaves of one element type for one instruction set.

   Included by _simd.h with ISA (a name), VB (bytes in a vector) and DOUBLE (0
   or 1) defined.  Sums over active units run in ascending order into a single
   accumulator per column, so every path (lists, weighted lists, any number of
   panels at a time, any vector width) gives the same bits.
*/
#if DOUBLE
#define TYPE f64
#define REAL double
#define INT int64_t
#define MANTISSA_BITS 52
#define EXPONENT_ONE 1023
#define ROUND_MAGIC 0x1.8p52
#define EXP_LIMIT 708.0
#else
#define TYPE f32
#define REAL float
#define INT int32_t
#define MANTISSA_BITS 23
#define EXPONENT_ONE 127
#define ROUND_MAGIC 0x1.8p23f
#define EXP_LIMIT 87.0f
#endif

#define PANEL_LANES ((int)(PANEL_BYTES / sizeof(REAL)))

#ifdef VECTORS
#define INLINE static inline __attribute__((always_inline))
#define VECTOR_BYTES VB
typedef REAL NAME(vec) __attribute__((vector_size(VB), may_alias));
typedef INT NAME(ivec) __attribute__((vector_size(VB), may_alias));
typedef uint64_t NAME(uvec) __attribute__((vector_size(VB), may_alias));
typedef uint16_t NAME(half) __attribute__((
    vector_size(2 * VB / sizeof(REAL)), aligned(2), may_alias));
#define V NAME(vec)
#define IV NAME(ivec)
#define UV NAME(uvec)
#define SELECT(mask, a, b) ((V)(((IV)(mask) & (IV)(a)) | (~(IV)(mask) & (IV)(b))))
#define SPLAT(x) ((V){0} + (x))
#define AS_INT(x) ((IV)(x))
#define AS_REAL(x) ((V)(x))
#define FROM_U16(p) __builtin_convertvector(*(const NAME(half) *)(p), V)
#if defined(X86) && VB == 64
#define MULTIPLY_LOW(a, b) ((UV)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#define MASK_BITS(m) (DOUBLE ? (uint32_t)_mm512_movepi64_mask((__m512i)(m)) \
                             : (uint32_t)_mm512_movepi32_mask((__m512i)(m)))
#elif defined(X86) && VB == 32
#define MULTIPLY_LOW(a, b) ((UV)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define MASK_BITS(m) (DOUBLE ? (uint32_t)_mm256_movemask_pd((__m256d)(m)) \
                             : (uint32_t)_mm256_movemask_ps((__m256)(m)))
#elif defined(X86)
#define MULTIPLY_LOW(a, b) ((UV)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#define MASK_BITS(m) (DOUBLE ? (uint32_t)_mm_movemask_pd((__m128d)(m)) \
                             : (uint32_t)_mm_movemask_ps((__m128)(m)))
#else
#define MULTIPLY_LOW(a, b) (((a) & 0xFFFFFFFFu) * ((b) & 0xFFFFFFFFu))
#define MASK_BITS(m) NAME(mask_bits)((IV)(m))
#endif
#else /* one element is a vector */
#define INLINE static inline
#define VECTOR_BYTES sizeof(REAL)
#define V REAL
#define IV INT
#define UV uint64_t
#define SELECT(mask, a, b) ((mask) ? (a) : (b))
#define SPLAT(x) ((REAL)(x))
INLINE INT NAME(as_int)(REAL x) { INT y; memcpy(&y, &x, sizeof y); return y; }
INLINE REAL NAME(as_real)(INT x) { REAL y; memcpy(&y, &x, sizeof y); return y; }
#define AS_INT(x) NAME(as_int)(x)
#define AS_REAL(x) NAME(as_real)(x)
#define FROM_U16(p) ((REAL) * (p))
#define MULTIPLY_LOW(a, b) (((a) & 0xFFFFFFFFu) * ((b) & 0xFFFFFFFFu))
#define MASK_BITS(m) ((uint32_t)((m) != 0))
#endif

/* Vectors in a panel's row, elements in a vector, 64-bit words in a vector. */
#define NV ((int)(PANEL_BYTES / VECTOR_BYTES))
#define LANES ((int)(VECTOR_BYTES / sizeof(REAL)))
#define WORDS ((int)(sizeof(UV) / 8))

#if defined(VECTORS) && !defined(X86)
INLINE uint32_t NAME(mask_bits)(IV m)
{
    uint32_t bits = 0;
    for (int k = 0; k < LANES; k++) bits |= (uint32_t)(m[k] & 1) << k;
    return bits;
}
#endif

/* ---- Sums of the rows of a matrix that a list names ---- */

/* sums[p] += value[k] * panels[p][index[k]], k ascending; np is a constant. */
INLINE void NAME(accumulate)(V sums[GROUP][NV], const char *panels,
                             ptrdiff_t stride, const uint32_t *index,
                             const REAL *value, int32_t n, const int np)
{
    V a[GROUP][NV];
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) a[p][q] = sums[p][q];
    if (value)
        for (int32_t k = 0; k < n; k++) {
            const char *row = panels + (size_t)index[k] * PANEL_BYTES;
            const V x = SPLAT(value[k]);
            for (int p = 0; p < np; p++)
                for (int q = 0; q < NV; q++)
                    a[p][q] += x * ((const V *)(row + p * stride))[q];
        }
    else
        for (int32_t k = 0; k < n; k++) {
            const char *row = panels + (size_t)index[k] * PANEL_BYTES;
            for (int p = 0; p < np; p++)
                for (int q = 0; q < NV; q++)
                    a[p][q] += ((const V *)(row + p * stride))[q];
        }
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) sums[p][q] = a[p][q];
}

INLINE void NAME(sum_group)(const ActiveRows *rows, ptrdiff_t n_rows,
                            const char *panels, ptrdiff_t stride,
                            const char *bias, ptrdiff_t bias_stride, char *out,
                            ptrdiff_t out_stride, const int np)
{
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        V sums[GROUP][NV];
        const REAL *value = rows->value;
        for (int p = 0; p < np; p++)
            for (int q = 0; q < NV; q++)
                sums[p][q] = ((const V *)(bias + r * bias_stride
                                          + p * PANEL_BYTES))[q];
        NAME(accumulate)(sums, panels, stride, rows->index + r * rows->stride,
                         value ? value + r * rows->stride : NULL,
                         rows->length[r], np);
        for (int p = 0; p < np; p++)
            for (int q = 0; q < NV; q++)
                ((V *)(out + p * out_stride + r * PANEL_BYTES))[q] = sums[p][q];
    }
}

/* out[p][r] = bias[r][p] + sum of the active rows of panels[p].  bias_stride is
   0 when all rows share one bias. */
static void NAME(sum_active)(const ActiveRows *rows, ptrdiff_t n_rows,
                             const char *panels, ptrdiff_t stride,
                             int n_panels, const char *bias,
                             ptrdiff_t bias_stride, char *out,
                             ptrdiff_t out_stride)
{
    while (n_panels > 0) {
        int np = n_panels < GROUP ? n_panels : GROUP;
        switch (np) {
#define CASE(n)                                                              \
    case n:                                                                  \
        NAME(sum_group)(rows, n_rows, panels, stride, bias, bias_stride, out, \
                        out_stride, n);                                      \
        break;
            CASE(1) CASE(2) CASE(3) CASE(4)
#undef CASE
        }
        n_panels -= np;
        panels += np * stride;
        bias += np * PANEL_BYTES;
        out += np * out_stride;
    }
}

/* For every four rows, the sums of all 16 subsets of scale * row (rows in
   ascending order); the sum of all of them is added to total. */
static void NAME(subset_sums)(const char *rows, ptrdiff_t n, double scale,
                              char *table, char *total)
{
    V zero, sum[NV];
    memset(&zero, 0, sizeof zero);
    memcpy(sum, total, sizeof sum);
    for (ptrdiff_t g = 0; 4 * g < n; g++) {
        V *t = (V *)(table + 16 * g * PANEL_BYTES);
        for (int q = 0; q < NV; q++) {
            t[q] = zero;
            for (int k = 0; k < 4; k++) {
                V x = zero;
                if (4 * g + k < n)
                    x = ((const V *)(rows + (4 * g + k) * PANEL_BYTES))[q]
                        * (REAL)scale;
                for (int m = 0; m < 1 << k; m++)
                    t[((1 << k) + m) * NV + q] = t[m * NV + q] + x;
            }
            sum[q] += t[15 * NV + q];
        }
    }
    memcpy(total, sum, sizeof sum);
}

/* Add the table entries of the 16 words of four bits in x to a row, and those of
   y to the row after it (if there is one). */
INLINE void NAME(add_words)(uint64_t x, uint64_t y, const char *table, V *rows,
                            const int two)
{
    V a[NV], b[NV];
    for (int q = 0; q < NV; q++) {
        a[q] = rows[q];
        if (two) b[q] = rows[NV + q];
    }
    UNROLL
    for (int g = 0; g < 16; g++) {
        const V *t = (const V *)(table + 16 * g * PANEL_BYTES);
        const V *s = t + (x >> 4 * g & 15) * NV;
        t += (y >> 4 * g & 15) * NV;
        for (int q = 0; q < NV; q++) {
            a[q] += s[q];
            if (two) b[q] += t[q];
        }
    }
    for (int q = 0; q < NV; q++) {
        rows[q] = a[q];
        if (two) rows[NV + q] = b[q];
    }
}

/* out[r] = bias + sum of the panel's rows that are on in row r, for rows of bits
   (stride words apart) of which many are on: for every 64 units the sums of all
   subsets of four neighbours are tabulated, and 16 of them are added. */
static void NAME(sum_words)(const uint64_t *words, ptrdiff_t stride,
                            ptrdiff_t n_rows, const char *panel,
                            ptrdiff_t n_units, const char *bias, char *table,
                            char *out)
{
    V ignored[NV];
    memset(ignored, 0, sizeof ignored);
    for (ptrdiff_t r = 0; r < n_rows; r++)
        memcpy(out + r * PANEL_BYTES, bias, PANEL_BYTES);
    for (ptrdiff_t w = 0; 64 * w < n_units; w++) {
        const ptrdiff_t n = n_units - 64 * w < 64 ? n_units - 64 * w : 64;
        NAME(subset_sums)(panel + 64 * w * PANEL_BYTES, n, 1, table,
                          (char *)ignored);
        for (ptrdiff_t g = (n + 3) / 4; g < 16; g++) /* units beyond the last */
            memset(table + 16 * g * PANEL_BYTES, 0, PANEL_BYTES);
        ptrdiff_t r = 0;
        for (; r + 1 < n_rows; r += 2)
            NAME(add_words)(words[r * stride + w], words[(r + 1) * stride + w],
                            table, (V *)(out + r * PANEL_BYTES), 1);
        if (r < n_rows)
            NAME(add_words)(words[r * stride + w], 0, table,
                            (V *)(out + r * PANEL_BYTES), 0);
    }
}

/* The product and the sum of the elements of a panel's row, in order. */
INLINE double NAME(lane_product)(const V *x)
{
    const REAL *y = (const REAL *)x;
    double product = 1;
    for (int k = 0; k < PANEL_LANES; k++) product *= y[k];
    return product;
}

INLINE double NAME(lane_sum)(const V *x)
{
    const REAL *y = (const REAL *)x;
    double sum = 0;
    for (int k = 0; k < PANEL_LANES; k++) sum += y[k];
    return sum;
}

/* ---- Logistic units ---- */

/* exp(x) for |x| <= EXP_LIMIT, to an ulp or two. */
INLINE V NAME(exp)(V x)
{
    V n = x * (REAL)1.44269504088896340736 + (REAL)ROUND_MAGIC;
    IV shift = AS_INT(n);
    n = n - (REAL)ROUND_MAGIC;
#if DOUBLE
    V r = x - n * 0.693147180369123816490;
    r = r - n * 1.90821492927058770002e-10;
    V y = SPLAT(1 / 6227020800.0);
    y = y * r + 1 / 479001600.0;
    y = y * r + 1 / 39916800.0;
    y = y * r + 1 / 3628800.0;
    y = y * r + 1 / 362880.0;
    y = y * r + 1 / 40320.0;
    y = y * r + 1 / 5040.0;
    y = y * r + 1 / 720.0;
    y = y * r + 1 / 120.0;
    y = y * r + 1 / 24.0;
    y = y * r + 1 / 6.0;
    y = y * r + 0.5;
#else
    V r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    V y = SPLAT(1.9875691500e-4f);
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
#endif
    y = y * (r * r) + r + (REAL)1;
    return AS_REAL(AS_INT(y) + (shift << MANTISSA_BITS));
}

/* 1 / (1 + exp(-x)); exactly 0 below -EXP_LIMIT (no denormal numbers). */
INLINE V NAME(sigmoid)(V x)
{
    V low = SPLAT(-EXP_LIMIT), high = SPLAT(EXP_LIMIT);
    V z = SELECT(x > high, high, x);
    z = SELECT(x < low, low, z);
    z = (REAL)1 / ((REAL)1 + NAME(exp)(-z));
    return SELECT(x < low, SPLAT(0), z);
}

/* fields -> probabilities, in place, for n panel rows. */
static void NAME(logistic)(char *fields, ptrdiff_t n)
{
    V *x = (V *)fields;
    for (ptrdiff_t k = 0; k < n * NV; k++) x[k] = NAME(sigmoid)(x[k]);
}

/* on = logistic(field), off = logistic(-field): neither is 1 less the other, which
   would lose small probabilities. */
static void NAME(both_means)(const char *fields, char *on, char *off,
                             ptrdiff_t n)
{
    for (ptrdiff_t k = 0; k < n * NV; k++) {
        V x = ((const V *)fields)[k];
        ((V *)on)[k] = NAME(sigmoid)(x);
        ((V *)off)[k] = NAME(sigmoid)(-x);
    }
}

/* 16-bit draws for n states of the generator: state s covers eight columns,
   block first + s % blocks of row row0 + s / blocks. */
INLINE void NAME(draws)(uint16_t *out, ptrdiff_t n, uint32_t first, int blocks,
                        uint64_t key, uint64_t step, uint32_t row0,
                        uint32_t purpose)
{
    const int shift = blocks == 2;
    UV iota, zero;
    memset(&zero, 0, sizeof zero);
    for (int k = 0; k < WORDS; k++) ((uint64_t *)&iota)[k] = (uint64_t)k;
    const UV m0 = zero + PHILOX_M0, m1 = zero + PHILOX_M1;
    for (ptrdiff_t s = 0; s < n; s += WORDS) {
        UV state = iota + (uint64_t)s;
        UV x0 = (state & (uint64_t)(blocks - 1)) + first;
        UV x1 = (state >> shift) + row0;
        UV x2 = zero + COUNTER_STEP(step);
        UV x3 = zero + COUNTER_PURPOSE(step, purpose);
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int i = 0; i < PHILOX_ROUNDS; i++) {
            UV a = MULTIPLY_LOW(m0, x0), b = MULTIPLY_LOW(m1, x2);
            x0 = (b >> 32) ^ x1 ^ (uint64_t)k0;
            x2 = (a >> 32) ^ x3 ^ (uint64_t)k1;
            x1 = b;
            x3 = a;
            k0 += PHILOX_W0;
            k1 += PHILOX_W1;
        }
        UV low = (x0 & 0xFFFFFFFFu) | (x1 << 32);
        UV high = (x2 & 0xFFFFFFFFu) | (x3 << 32);
        for (int k = 0; k < WORDS; k++) {
            uint64_t pair[2] = {((uint64_t *)&low)[k], ((uint64_t *)&high)[k]};
            memcpy(out + 8 * (s + k), pair, 16);
        }
    }
}

/* Bits that are on with the probabilities means[r], for one panel of n_rows
   rows.  A unit is on when u < p, u uniform with 48 bits of which the first 16
   decide unless they tie with p.  Bits of row r go to bits + r * stride. */
static void NAME(bernoulli)(const char *means, ptrdiff_t n_rows,
                            uint32_t panel, uint64_t key, uint64_t step,
                            uint32_t row0, uint32_t purpose, uint16_t *draw,
                            char *bits, ptrdiff_t stride)
{
    const int blocks = PANEL_LANES / 8;
    NAME(draws)(draw, n_rows * blocks, panel * blocks, blocks, key, step, row0,
                purpose);
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        const V *p = (const V *)(means + r * PANEL_BYTES);
        const uint16_t *d = draw + r * PANEL_LANES;
        uint32_t on = 0, tie = 0;
        for (int q = 0; q < NV; q++) {
            V u = FROM_U16(d + q * LANES);
            V t = p[q] * (REAL)65536;
            on |= MASK_BITS(u + (REAL)1 <= t) << (q * LANES);
            tie |= MASK_BITS(u < t) << (q * LANES);
        }
        for (tie &= ~on; tie; tie &= tie - 1) {
            int k = lowest_bit(tie);
            double t = (double)((const REAL *)p)[k] * 65536.0;
            if (d[k] + philox_refine(key, step, purpose, row0 + (uint32_t)r,
                                     panel * PANEL_LANES + (uint32_t)k) < t)
                on |= 1u << k;
        }
        if (DOUBLE) {
            uint8_t b = (uint8_t)on;
            memcpy(bits + r * stride, &b, 1);
        } else {
            uint16_t b = (uint16_t)on;
            memcpy(bits + r * stride, &b, 2);
        }
    }
}

/* ---- Transposition of a square of panel rows ---- */

#ifdef VECTORS
#define LOW(k, s) ((k) & (s) ? LANES + (k) - (s) : (k))
#define HIGH(k, s) ((k) & (s) ? LANES + (k) : (k) + (s))
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
INLINE void NAME(transpose_tile)(const char *from, char *to)
{
    for (int i = 0; i < NV; i++)
        for (int j = 0; j < NV; j++) {
            V t[2 * LANES];
            for (int k = 0; k < LANES; k++)
                t[k] = ((const V *)(from + (i * LANES + k) * PANEL_BYTES))[j];
            STAGE(1)
            STAGE(2)
            STAGE(4)
            STAGE(8)
            for (int k = 0; k < LANES; k++)
                ((V *)(to + (j * LANES + k) * PANEL_BYTES))[i] = t[k];
        }
}
#undef LOW
#undef HIGH
#undef INDICES
#undef SHUFFLE
#undef STAGE
#else
INLINE void NAME(transpose_tile)(const char *from, char *to)
{
    for (int i = 0; i < PANEL_LANES; i++)
        for (int j = 0; j < PANEL_LANES; j++)
            ((REAL *)to)[j * PANEL_LANES + i] =
                ((const REAL *)from)[i * PANEL_LANES + j];
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

/* ---- The gradient and its step ---- */

/* scaled[r] = scale * rows[r]; their sum is added to total. */
static void NAME(scale_rows)(const char *rows, ptrdiff_t n, double scale,
                             char *scaled, char *total)
{
    V sum[NV];
    memcpy(sum, total, sizeof sum);
    for (ptrdiff_t r = 0; r < n; r++)
        for (int q = 0; q < NV; q++) {
            V x = ((const V *)(rows + r * PANEL_BYTES))[q] * (REAL)scale;
            ((V *)(scaled + r * PANEL_BYTES))[q] = x;
            sum[q] += x;
        }
    memcpy(total, sum, sizeof sum);
}

/* out[r] = rows[r] . direction, over n_panels panels stride bytes apart. */
static void NAME(project)(const char *rows, ptrdiff_t stride, ptrdiff_t n_rows,
                          ptrdiff_t n_panels, const char *direction,
                          double *out)
{
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        V sum[NV];
        for (int q = 0; q < NV; q++) sum[q] = SPLAT(0);
        for (ptrdiff_t p = 0; p < n_panels; p++)
            for (int q = 0; q < NV; q++)
                sum[q] += ((const V *)(rows + p * stride + r * PANEL_BYTES))[q]
                    * ((const V *)(direction + p * PANEL_BYTES))[q];
        out[r] = NAME(lane_sum)(sum);
    }
}

/* For features start..stop: the change of the mean (data less chains), and of
   the mean times the row's projection, from the sums of table entries and of
   real rows, which are pairs (share of the row, share times projection). */
static void NAME(feature_sums)(const ActiveRows *groups,
                               const ActiveRows *reals, const double *entries,
                               const double *rows, ptrdiff_t start,
                               ptrdiff_t stop, int first, double *sums,
                               void *change)
{
    for (ptrdiff_t i = start; i < stop; i++) {
        double x = first ? 0 : sums[2 * i], y = first ? 0 : sums[2 * i + 1];
        if (reals) {
            const uint32_t *index = reals->index + i * reals->stride;
            const REAL *value = (const REAL *)reals->value + i * reals->stride;
            for (int32_t k = 0; k < reals->length[i]; k++) {
                x += value[k] * rows[2 * index[k]];
                y += value[k] * rows[2 * index[k] + 1];
            }
        }
        const uint32_t *index = groups->index + i * groups->stride;
        for (int32_t k = 0; k < groups->length[i]; k++) {
            x += entries[2 * index[k]];
            y += entries[2 * index[k] + 1];
        }
        sums[2 * i] = x;
        sums[2 * i + 1] = y;
        ((REAL *)change)[i] = (REAL)x;
    }
}

/* One step of ascent of x along g, with optional velocity and average. */
INLINE V NAME(step)(V x, V g, V *velocity, V *average, REAL rate,
                    REAL momentum, REAL mix)
{
    if (velocity) {
        g = *velocity * momentum + g;
        *velocity = g;
    }
    x = x + g * rate;
    if (average) *average += (x - *average) * mix;
    return x;
}

INLINE void NAME(update_group)(const PanelUpdate *u, const int np)
{
    const REAL *mu = u->visible_offset, *dv = u->visible_change;
    const REAL rate = (REAL)u->learning_rate, momentum = (REAL)u->momentum;
    const REAL decay = (REAL)u->weight_decay, mix = (REAL)u->average_rate;
    V pull[GROUP][NV], change[GROUP][NV], offset[GROUP][NV];
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) {
            const int k = p * NV + q;
            pull[p][q] = SPLAT(0);
            change[p][q] = ((const V *)u->data_total)[k]
                + ((const V *)u->chain_total)[k];
            offset[p][q] = ((const V *)u->hidden_offset)[k];
        }
    for (ptrdiff_t i = 0; i < u->n_features; i++) {
        const ptrdiff_t at = i * PANEL_BYTES;
        const ptrdiff_t b = i * u->bits->stride;
        V sums[GROUP][NV];
        for (int p = 0; p < np; p++)
            for (int q = 0; q < NV; q++)
                if (u->first)
                    sums[p][q] = SPLAT(0);
                else
                    sums[p][q] =
                        ((const V *)(u->carry + p * u->panel_stride + at))[q];
        if (u->reals) {
            const ptrdiff_t a = i * u->reals->stride;
            NAME(accumulate)(sums, u->real_rows, u->real_stride,
                             u->reals->index + a,
                             (const REAL *)u->reals->value + a,
                             u->reals->length[i], np);
        }
        NAME(accumulate)(sums, u->table, u->table_stride, u->bits->index + b,
                         NULL, u->bits->length[i], np);
        for (int p = 0; p < np; p++)
            for (int q = 0; q < NV; q++) {
                const ptrdiff_t cell = p * u->panel_stride + at;
                if (!u->last) {
                    ((V *)(u->carry + cell))[q] = sums[p][q];
                    continue;
                }
                V *w = (V *)(u->weights + cell) + q;
                V g = sums[p][q] - change[p][q] * mu[i] - offset[p][q] * dv[i];
                pull[p][q] += g * mu[i];
                *w = NAME(step)(
                    *w, g - *w * decay,
                    u->velocity ? (V *)(u->velocity + cell) + q : NULL,
                    u->average ? (V *)(u->average + cell) + q : NULL,
                    rate, momentum, mix);
            }
    }
    if (!u->last) return;
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) {
            const int k = p * NV + q;
            V *bias = (V *)u->hidden_bias + k;
            *bias = NAME(step)(
                *bias, change[p][q] - pull[p][q],
                u->velocity ? (V *)u->hidden_velocity + k : NULL,
                u->average ? (V *)u->hidden_average + k : NULL,
                rate, momentum, mix);
            ((V *)u->hidden_offset)[k] = offset[p][q]
                + (((const V *)u->data_total)[k] - offset[p][q])
                * (REAL)u->offset_rate;
        }
}

/* Step of the visible biases start..stop: the change of the mean less the
   centred weight gradient times the hidden offsets. */
static void NAME(visible_step)(const VisibleUpdate *u, ptrdiff_t start,
                               ptrdiff_t stop)
{
    REAL *bias = u->bias, *velocity = u->velocity, *average = u->average;
    const REAL *mu = u->offset;
    for (ptrdiff_t i = start; i < stop; i++) {
        const double change = u->sums[2 * i];
        REAL g = (REAL)(change - (u->sums[2 * i + 1]
                                  - mu[i] * u->projected_change
                                  - change * u->squared_offset));
        if (velocity) g = velocity[i] = (REAL)u->momentum * velocity[i] + g;
        bias[i] += (REAL)u->learning_rate * g;
        if (average)
            average[i] += (bias[i] - average[i]) * (REAL)u->average_rate;
    }
}

/* For at most GROUP panels: add up the gradient feature by feature from the
   lists of table entries (and of real rows), take out the offsets, and step;
   each weight is read and written once. */
static void NAME(update_panels)(const PanelUpdate *u, int n_panels)
{
    switch (n_panels) {
    case 1: NAME(update_group)(u, 1); break;
    case 2: NAME(update_group)(u, 2); break;
    case 3: NAME(update_group)(u, 3); break;
    case 4: NAME(update_group)(u, 4); break;
    }
}

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
            word |= (uint64_t)MASK_BITS(y != SPLAT(0)) << k;
        }
        for (; k < m; k++) word |= (uint64_t)(x[64 * w + k] != 0) << k;
        words[w] = word;
    }
}

/* ---- Scores ---- */

#define FLUSH 8 /* panels between two look-ups of a logarithm */

/* 1 + exp(-|x|), in (1, 2] */
INLINE V NAME(one_plus_exp)(V x)
{
    V z = SELECT(x > SPLAT(0), -x, x);
    V low = SPLAT(-EXP_LIMIT);
    return NAME(exp)(SELECT(z < low, low, z)) + (REAL)1;
}

/* sum of softplus(field) over the n_panels panels of a row */
static double NAME(softplus_sum)(const char *fields, ptrdiff_t stride,
                                 ptrdiff_t n_panels)
{
    double total = 0;
    for (ptrdiff_t p0 = 0; p0 < n_panels; p0 += FLUSH) {
        V product[NV], sum[NV];
        for (int q = 0; q < NV; q++) {
            product[q] = SPLAT(1);
            sum[q] = SPLAT(0);
        }
        for (ptrdiff_t p = p0; p < p0 + FLUSH && p < n_panels; p++)
            for (int q = 0; q < NV; q++) {
                V x = ((const V *)(fields + p * stride))[q];
                product[q] *= NAME(one_plus_exp)(x);
                sum[q] += SELECT(x > SPLAT(0), x, SPLAT(0));
            }
        total += log(NAME(lane_product)(product)) + NAME(lane_sum)(sum);
    }
    return total;
}

/* Log-odds, less their biases, of the features that are 0 or 1, given the others.
   on, off: (n_panels, n_rows) panel rows, p(h = 1 | v) and p(h = 0 | v).
   up, down: (n_features, n_panels) panel rows of exp(W) and exp(-W), |W| <= 20.
   values: (n_rows, n_features), or NULL if all are 0 or 1 as bits says.
   Turning feature i on changes the softplus of a hidden unit by
   log(off + on exp(W)), turning it off by log(off + on exp(-W)).  The product
   over the hidden units is kept as mantissa and exponent, so that one logarithm
   is enough. */
static void NAME(flip_logits)(const char *on, const char *off, ptrdiff_t n_rows,
                              const char *up, const char *down,
                              ptrdiff_t n_features, const uint64_t *bits,
                              const void *values, ptrdiff_t n_panels,
                              double *logits)
{
    const IV one = AS_INT(SPLAT(1));
    const IV mantissa = AS_INT(SPLAT(0)) + (((INT)1 << MANTISSA_BITS) - 1);
    const ptrdiff_t n_words = (n_features + 63) / 64;
    for (ptrdiff_t i = 0; i < n_features; i++)
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            const int set = bits[r * n_words + i / 64] >> (i % 64) & 1;
            if (values && set
                && ((const REAL *)values)[r * n_features + i] != (REAL)1)
                continue;
            const char *row = (set ? down : up) + i * n_panels * PANEL_BYTES;
            V product[NV];
            IV exponent[NV];
            ptrdiff_t flushes = 0;
            for (int q = 0; q < NV; q++) {
                product[q] = SPLAT(1);
                exponent[q] = AS_INT(SPLAT(0));
            }
            for (ptrdiff_t p0 = 0; p0 < n_panels; p0 += 4, flushes++) {
                for (ptrdiff_t p = p0; p < p0 + 4 && p < n_panels; p++)
                    for (int q = 0; q < NV; q++) {
                        const ptrdiff_t at = (p * n_rows + r) * PANEL_BYTES;
                        V e = ((const V *)(row + p * PANEL_BYTES))[q];
                        product[q] *= ((const V *)(on + at))[q] * e
                            + ((const V *)(off + at))[q];
                    }
                for (int q = 0; q < NV; q++) {
                    IV x = AS_INT(product[q]);
                    exponent[q] += x >> MANTISSA_BITS;
                    product[q] = AS_REAL((x & mantissa) | one);
                }
            }
            int64_t twos = -(int64_t)EXPONENT_ONE * flushes * PANEL_LANES;
            for (int k = 0; k < PANEL_LANES; k++) twos += ((INT *)exponent)[k];
            double x = log(NAME(lane_product)(product))
                + 0.69314718055994530942 * (double)twos;
            logits[r * n_features + i] = set ? -x : x;
        }
}

/* The same for values of any size: fields (n_panels, n_rows) panel rows, weights
   (n_features, n_panels) panel rows, values (n_rows, n_features).  With `rest`
   only for the values that are neither 0 nor 1. */
static void NAME(shift_logits)(const char *fields, ptrdiff_t n_rows,
                               const char *weights, ptrdiff_t n_features,
                               const void *values, int rest,
                               ptrdiff_t n_panels, double *logits)
{
    for (ptrdiff_t i = 0; i < n_features; i++)
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            const REAL v = ((const REAL *)values)[r * n_features + i];
            if (rest && (v == 0 || v == 1)) continue;
            double total = 0;
            for (ptrdiff_t p0 = 0; p0 < n_panels; p0 += FLUSH) {
                V on[NV], off[NV], sum[NV];
                for (int q = 0; q < NV; q++) {
                    on[q] = off[q] = SPLAT(1);
                    sum[q] = SPLAT(0);
                }
                for (ptrdiff_t p = p0; p < p0 + FLUSH && p < n_panels; p++)
                    for (int q = 0; q < NV; q++) {
                        V w = ((const V *)(weights + (i * n_panels + p)
                                           * PANEL_BYTES))[q];
                        V f = ((const V *)(fields + (p * n_rows + r)
                                           * PANEL_BYTES))[q];
                        V x0 = f - w * v, x1 = f + w * ((REAL)1 - v);
                        on[q] *= NAME(one_plus_exp)(x1);
                        off[q] *= NAME(one_plus_exp)(x0);
                        sum[q] += SELECT(x1 > SPLAT(0), x1, SPLAT(0))
                            - SELECT(x0 > SPLAT(0), x0, SPLAT(0));
                    }
                total += log(NAME(lane_product)(on) / NAME(lane_product)(off))
                    + NAME(lane_sum)(sum);
            }
            logits[r * n_features + i] = total;
        }
}

#define STRING_(x) #x
#define STRING(x) STRING_(x)
static const Leaves NAME(leaves) = {
    STRING(ISA), (int)sizeof(REAL), PANEL_LANES, NAME(sum_active),
    NAME(sum_words), NAME(both_means),    NAME(logistic), NAME(bernoulli), NAME(transpose), NAME(subset_sums),
    NAME(scale_rows), NAME(project),
    NAME(feature_sums), NAME(update_panels), NAME(visible_step),
    NAME(nonzero_bits), NAME(softplus_sum), NAME(flip_logits), NAME(shift_logits)};

#undef STRING
#undef STRING_
#undef FLUSH
#undef NV
#undef LANES
#undef WORDS
#undef PANEL_LANES
#undef V
#undef IV
#undef UV
#undef SELECT
#undef SPLAT
#undef AS_INT
#undef AS_REAL
#undef FROM_U16
#undef MULTIPLY_LOW
#undef MASK_BITS
#undef INLINE
#undef VECTOR_BYTES
#undef TYPE
#undef REAL
#undef INT
#undef MANTISSA_BITS
#undef EXPONENT_ONE
#undef ROUND_MAGIC
#undef EXP_LIMIT
#undef DOUBLE
