/* Rows of real random numbers, and exponentials.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- Uniform and normal numbers ---- */

/* Integers of at most MANTISSA_BITS - 1 bits as numbers. */
INLINE V NAME(from_int)(IV n)
{
    return AS_REAL(AS_INT(SPLAT(ROUND_MAGIC)) + n) - (REAL)ROUND_MAGIC;
}

/* log(x) for normal x > 0, to an ulp or two: x = m 2^e with m near 1, and
   log m = 2 atanh((m - 1) / (m + 1)). */
INLINE V NAME(log)(V x)
{
    const IV bits = AS_INT(x);
    const IV e = (bits >> MANTISSA_BITS) - EXPONENT_ONE;
    V n = NAME(from_int)(e);
    V m = AS_REAL(bits - (e << MANTISSA_BITS));
    n = SELECT(m > (REAL)1.4142135623730951, n + (REAL)1, n);
    m = SELECT(m > (REAL)1.4142135623730951, m * (REAL)0.5, m);
    const V s = (m - (REAL)1) / (m + (REAL)1), z = s * s;
#if DOUBLE
    V y = SPLAT(1 / 21.0);
    y = y * z + 1 / 19.0;
    y = y * z + 1 / 17.0;
    y = y * z + 1 / 15.0;
    y = y * z + 1 / 13.0;
    y = y * z + 1 / 11.0;
    y = y * z + 1 / 9.0;
#else
    V y = SPLAT(1 / 9.0f);
#endif
    y = y * z + (REAL)(1 / 7.0);
    y = y * z + (REAL)(1 / 5.0);
    y = y * z + (REAL)(1 / 3.0);
    y = y * z * s + s;
    return n * (REAL)0.69314718055994531 + y * (REAL)2;
}

/* sqrt(x), rounded correctly everywhere. */
INLINE V NAME(root)(V x)
{
#if !defined(VECTORS)
    return DOUBLE ? (V)sqrt(x) : (V)sqrtf(x);
#elif defined(X86) && VB == 64
    return DOUBLE ? (V)_mm512_sqrt_pd((__m512d)x) : (V)_mm512_sqrt_ps((__m512)x);
#elif defined(X86) && VB == 32
    return DOUBLE ? (V)_mm256_sqrt_pd((__m256d)x) : (V)_mm256_sqrt_ps((__m256)x);
#elif defined(X86)
    return DOUBLE ? (V)_mm_sqrt_pd((__m128d)x) : (V)_mm_sqrt_ps((__m128)x);
#else
    for (int k = 0; k < LANES; k++)
        x[k] = DOUBLE ? (REAL)sqrt(x[k]) : (REAL)sqrtf((float)x[k]);
    return x;
#endif
}

/* Sine and cosine of |x| <= pi / 4. */
INLINE V NAME(sine)(V x)
{
    const V z = x * x;
#if DOUBLE
    V y = SPLAT(1 / 355687428096000.0);
    y = y * z - 1 / 1307674368000.0;
    y = y * z + 1 / 6227020800.0;
    y = y * z - 1 / 39916800.0;
    y = y * z + 1 / 362880.0;
#else
    V y = SPLAT(1 / 362880.0f);
#endif
    y = y * z - (REAL)(1 / 5040.0);
    y = y * z + (REAL)(1 / 120.0);
    y = y * z - (REAL)(1 / 6.0);
    return y * z * x + x;
}

INLINE V NAME(cosine)(V x)
{
    const V z = x * x;
#if DOUBLE
    V y = SPLAT(-1 / 6402373705728000.0);
    y = y * z + 1 / 20922789888000.0;
    y = y * z - 1 / 87178291200.0;
    y = y * z + 1 / 479001600.0;
    y = y * z - 1 / 3628800.0;
    y = y * z + 1 / 40320.0;
#else
    V y = SPLAT(1 / 40320.0f);
#endif
    y = y * z - (REAL)(1 / 720.0);
    y = y * z + (REAL)(1 / 24.0);
    y = y * z - (REAL)0.5;
    return y * z + (REAL)1;
}

/* The low bits of a word as a number in (0, 1), symmetric about 1/2. */
INLINE V NAME(fraction)(IV word)
{
    const IV mantissa = word & (((INT)1 << MANTISSA_BITS) - 1);
    const IV one = AS_INT(SPLAT(1));
    return AS_REAL(mantissa | one)
        - ((REAL)1 - (REAL)0.5 / ((INT)1 << MANTISSA_BITS));
}

/* n_panels panels of random words, the k-th state of row `row`: room for one
   panel more. */
INLINE void NAME(row_words)(char *out, ptrdiff_t n_panels, uint64_t key,
                            uint64_t step, uint32_t row, uint32_t purpose)
{
    NAME(draws)((uint16_t *)out, n_panels * (PANEL_BYTES / 16), row, 1, key,
                step, 0, purpose);
}

/* A row of n_panels panels of uniform numbers in (0, 1); room for one more. */
static void NAME(uniforms)(char *out, ptrdiff_t n_panels, uint64_t key,
                           uint64_t step, uint32_t row, uint32_t purpose)
{
    NAME(row_words)(out, n_panels, key, step, row, purpose);
    for (ptrdiff_t k = 0; k < n_panels * NV; k++) {
        IV word;
        memcpy(&word, (V *)out + k, sizeof word);
        ((V *)out)[k] = NAME(fraction)(word);
    }
}

/* Cosine and sine of random angles.  Of the words two bits choose the quarter of the
   circle, and others the place in it. */
INLINE void NAME(on_circle)(IV word, V *cosine, V *sine)
{
    const V angle = (NAME(fraction)(word) - (REAL)0.5) * (REAL)1.5707963267948966;
    const V s = NAME(sine)(angle), c = NAME(cosine)(angle);
    const int top = (int)(8 * sizeof(REAL)) - 1;
    const IV turn = word >> top, back = (word << 1) >> top;
    const V a = SELECT(turn, -s, c), b = SELECT(turn, c, s);
    *cosine = SELECT(back, -a, a);
    *sine = SELECT(back, -b, b);
}

/* A row of n_panels panels of standard normal numbers (Box and Muller); room for
   two more. */
static void NAME(normals)(char *out, ptrdiff_t n_panels, uint64_t key,
                          uint64_t step, uint32_t row, uint32_t purpose)
{
    NAME(row_words)(out, n_panels + (n_panels & 1), key, step, row,
                    purpose | PURPOSE_NORMAL);
    for (ptrdiff_t p = 0; p < n_panels; p += 2)
        for (int q = 0; q < NV; q++) {
            V *x = (V *)(out + p * PANEL_BYTES) + q, *y = x + NV;
            IV first, second;
            memcpy(&first, x, sizeof first);
            memcpy(&second, y, sizeof second);
            const V r =
                NAME(root)(NAME(log)(NAME(fraction)(first)) * (REAL)-2);
            V cosine, sine;
            NAME(on_circle)(second, &cosine, &sine);
            *x = r * cosine;
            *y = r * sine;
        }
}

#define LARGE_MEAN 16 /* from which on it pays to begin at the likeliest count */

/* Poisson means -> counts, in place, for n panel rows: the smallest whose distribution
   function exceeds u.  Larger means are only negated.  (uniforms need not be aligned.) */
static void NAME(counts)(char *means, const char *uniforms, ptrdiff_t n)
{
    /* Of counts beyond the mean that are less likely the first one is taken: rounding may
       leave a rest of u. */
    const V least = SPLAT((REAL)0.5 / ((INT)1 << MANTISSA_BITS));
    for (ptrdiff_t k = 0; k < n * NV; k++) {
        V *x = (V *)means + k, u, count = SPLAT(0);
        memcpy(&u, uniforms + k * (ptrdiff_t)sizeof u, sizeof u);
        const V mean = *x, small = SMALLER(mean, SPLAT(LARGE_MEAN));
        V p = NAME(exp)(-small);
        u = SELECT(mean < (REAL)LARGE_MEAN, u, SPLAT(0));
        while (BITS_WHERE(p, LE, u)) {
            const IV on = (IV)(p <= u);
            u = SELECT(on, u - p, u);
            count = SELECT(on, count + (REAL)1, count);
            p = SELECT(on, p * (mean / count), p);
            u = SELECT(p < least, SPLAT(0), u);
        }
        *x = SELECT(mean < (REAL)LARGE_MEAN, count, -mean);
    }
}
#undef LARGE_MEAN

/* x -> exp(x), in place, for n panel rows; what is beyond EXP_LIMIT counts as
   that. */
static void NAME(exponential)(char *values, ptrdiff_t n)
{
    const V low = SPLAT(-EXP_LIMIT), high = SPLAT(EXP_LIMIT);
    for (ptrdiff_t k = 0; k < n * NV; k++) {
        V *x = (V *)values + k;
        *x = NAME(exp)(LARGER(low, SMALLER(high, *x)));
    }
}
