/* Units: their means given their fields, and the random bits that draw them.
   Included by _leaves.h, which defines V, NAME, ... */
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
    V z = LARGER(low, SMALLER(high, x));
    z = (REAL)1 / ((REAL)1 + NAME(exp)(-z));
    return SELECT(x < low, SPLAT(0), z);
}

/* fields -> probabilities, in place, for n panel rows. */
static void NAME(logistic)(char *fields, ptrdiff_t n)
{
    V *x = (V *)fields;
    for (ptrdiff_t k = 0; k < n * NV; k++) x[k] = NAME(sigmoid)(x[k]);
}

/* The elements of a vector whose bits are set, one after the other; returns how many. */
INLINE int32_t NAME(gather)(uint32_t bits, V x, REAL *to)
{
#if defined(X86) && VB == 64 && !DOUBLE
    const int32_t n = __builtin_popcount(bits);
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1),
                          _mm512_maskz_compress_ps((__mmask16)bits, (__m512)x));
#else
    REAL elements[LANES];
    int32_t n = 0;
    memcpy(elements, &x, sizeof x);
    for (; bits; bits &= bits - 1) to[n++] = elements[lowest_bit(bits)];
#endif
    return n;
}

/* Set the bits of what has changed by more than `least` in a row of n panels since it was
   told, list by how much, and tell it; returns how many units these are.  most: OUT, the
   largest change, also where none is listed. */
static int32_t NAME(list_changes)(const char *means, char *told, ptrdiff_t n,
                                  double least, uint64_t *words, void *value,
                                  double *most)
{
    const V bound = SPLAT((REAL)least);
    V largest = SPLAT(0);
    int32_t count = 0;
    memset(words, 0, (size_t)(n * PANEL_LANES + 63) / 64 * sizeof *words);
    for (ptrdiff_t k = 0; k < n * NV; k++) {
        const V mean = ((const V *)means)[k];
        V *before = (V *)told + k;
        const V change = mean - *before, size = SELECT(change < 0, -change, change);
        const uint32_t bits = BITS_WHERE(bound, LT, size);
        largest = LARGER(size, largest);
        if (!bits) continue;
        *before = SELECT(bound < size, mean, *before);
        words[k * LANES / 64] |= (uint64_t)bits << k * LANES % 64;
        count += NAME(gather)(bits, change, (REAL *)value + count);
    }
    REAL lanes[LANES], found = 0;
    memcpy(lanes, &largest, sizeof largest);
    for (int k = 0; k < LANES; k++) found = lanes[k] > found ? lanes[k] : found;
    *most = (double)found;
    return count;
}

/* fields -> (1 - beta) base + beta field, in place, for n panel rows that each
   have an inverse temperature. */
static void NAME(temper)(char *fields, ptrdiff_t n, const char *base,
                         const double *betas)
{
    for (ptrdiff_t r = 0; r < n; r++) {
        const REAL b = (REAL)betas[r], a = (REAL)(1 - betas[r]);
        V *x = (V *)(fields + r * PANEL_BYTES);
        for (int q = 0; q < NV; q++) x[q] = ((const V *)base)[q] * a + x[q] * b;
    }
}

#if !defined(VECTORS)
#define ZIP(a, b, which) which(a, b)
#define ZIP_LOWER(a, b) a
#define ZIP_UPPER(a, b) b
#elif defined(__clang__)
#define ZIP(a, b, which) __builtin_shufflevector(a, b, which)
#else
#define ZIP(a, b, which) __builtin_shuffle(a, b, (UV){which})
#endif
#if VB == 64
#define ZIP_LOWER 0, 8, 1, 9, 2, 10, 3, 11
#define ZIP_UPPER 4, 12, 5, 13, 6, 14, 7, 15
#elif VB == 32
#define ZIP_LOWER 0, 4, 1, 5
#define ZIP_UPPER 2, 6, 3, 7
#elif defined(VECTORS)
#define ZIP_LOWER 0, 2
#define ZIP_UPPER 1, 3
#endif

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
        /* In turn one of either. */
        const UV lower = ZIP(low, high, ZIP_LOWER), upper = ZIP(low, high, ZIP_UPPER);
        memcpy(out + 8 * s, &lower, sizeof lower);
        memcpy(out + 8 * s + sizeof lower / 2, &upper, sizeof upper);
    }
}

#undef ZIP
#undef ZIP_LOWER
#undef ZIP_UPPER

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
            on |= BITS_WHERE(u + (REAL)1, LE, t) << (q * LANES);
            tie |= BITS_WHERE(u, LT, t) << (q * LANES);
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
