/* Sums of log(1 + exp(field)), and of how they change with one feature.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- Scores ---- */

#define FLUSH 8 /* panels between two look-ups of a logarithm */
/* Rows that share a reading of the weights: their products are four vectors. */
#define FLIPPED (NV < 4 ? 4 / NV : 1)

/* exp(-|x|), in (0, 1] */
INLINE V NAME(exp_minus_abs)(V x)
{
    return NAME(exp)(LARGER(SPLAT(-EXP_LIMIT), AS_REAL(AS_INT(x) | SIGN_BIT)));
}

/* 1 + exp(-|x|), in (1, 2] */
INLINE V NAME(one_plus_exp)(V x) { return NAME(exp_minus_abs)(x) + (REAL)1; }

/* on = logistic(field), off = logistic(-field): neither is 1 less the other, which
   would lose small probabilities. */
static void NAME(both_means)(const char *fields, char *on, char *off, ptrdiff_t n)
{
    for (ptrdiff_t k = 0; k < n * NV; k++) {
        const V x = ((const V *)fields)[k];
        const V e = NAME(exp_minus_abs)(x), likely = (REAL)1 / (e + (REAL)1);
        const V unlikely = e * likely;
        ((V *)on)[k] = SELECT(x > SPLAT(0), likely, unlikely);
        ((V *)off)[k] = SELECT(x > SPLAT(0), unlikely, likely);
    }
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
                sum[q] += LARGER(x, SPLAT(0));
            }
        total += log(NAME(lane_product)(product)) + NAME(lane_sum)(sum);
    }
    return total;
}

/* The softplus of every unit of a panel on the way from one inverse temperature
   to another: per row, gains holds the product of 1 + exp(-|x|) at `to`, that at
   `from`, and the sum of max(x, 0) at `to` less that at `from`, where
   x = (1 - beta) base + beta field.  end_gains turns them into numbers.  With
   `means`, fields become logistic(x) at `to`, for which all is at hand. */
static void NAME(gain)(char *fields, ptrdiff_t n_rows, const char *base,
                       const double *from, const double *to, int means,
                       char *gains)
{
    const V low = SPLAT(-EXP_LIMIT), zero = SPLAT(0);
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        const REAL b0 = (REAL)from[r], a0 = (REAL)(1 - from[r]);
        const REAL b1 = (REAL)to[r], a1 = (REAL)(1 - to[r]);
        V *g = (V *)(gains + 3 * r * PANEL_BYTES);
        for (int q = 0; q < NV; q++) {
            V *at = (V *)(fields + r * PANEL_BYTES) + q;
            const V f = *at;
            const V c = ((const V *)base)[q];
            const V x0 = c * a0 + f * b0, x1 = c * a1 + f * b1;
            const V e1 = NAME(exp_minus_abs)(x1), d1 = e1 + (REAL)1;
            g[q] *= d1;
            g[NV + q] *= NAME(one_plus_exp)(x0);
            g[2 * NV + q] += LARGER(x1, zero) - LARGER(x0, zero);
            if (means) {
                const V m = SELECT(x1 > zero, SPLAT(1), e1) / d1;
                *at = SELECT(x1 < low, zero, m);
            }
        }
    }
}

/* Let the gains of n_rows rows begin. */
static void NAME(start_gains)(char *gains, ptrdiff_t n_rows)
{
    for (ptrdiff_t r = 0; r < n_rows; r++)
        for (int q = 0; q < 3 * NV; q++)
            ((V *)(gains + 3 * r * PANEL_BYTES))[q] =
                SPLAT((REAL)(q < 2 * NV));
}

/* total[r] += the gains of row r since the last call; they begin anew.  Must be
   called after at most FLUSH_GAINS panels, before the products overflow. */
static void NAME(end_gains)(char *gains, ptrdiff_t n_rows, double *total)
{
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        V *g = (V *)(gains + 3 * r * PANEL_BYTES);
        total[r] += log(NAME(lane_product)(g) / NAME(lane_product)(g + NV))
            + NAME(lane_sum)(g + 2 * NV);
    }
    NAME(start_gains)(gains, n_rows);
}

/* Products of numbers whose mantissas are kept apart from their exponents (which are
   biased, once for each time that they were taken out). */
INLINE void NAME(take_exponent)(V *product, IV *exponent)
{
    const IV one = AS_INT(SPLAT(1));
    const IV mantissa = AS_INT(SPLAT(0)) + (((INT)1 << MANTISSA_BITS) - 1);
    const IV x = AS_INT(*product);
    *exponent += x >> MANTISSA_BITS;
    *product = AS_REAL((x & mantissa) | one);
}

/* The elements of a vector that the lowest bits say, all ones. */
INLINE IV NAME(spread_bits)(uint64_t bits)
{
    IV mask = AS_INT(SPLAT(0));
    for (int k = 0; k < LANES; k++) ((INT *)&mask)[k] = -(INT)(bits >> k & 1);
    return mask;
}

/* products *= off + on * weight over n hidden units (a constant), for the features of a
   panel and FLIPPED rows. The weight of a feature is the one in `down` for those rows in
   which it is set, and else the one in `up`; down is NULL if none is set. */
INLINE void NAME(flip_few)(const REAL *on, const REAL *off, const char *up,
                           const char *down, const IV set[FLIPPED][NV], const int n,
                           V products[FLIPPED][NV])
{
    UNROLL
    for (int k = 0; k < n; k++) {
        IV w[NV], other[NV];
        UNROLL
        for (int q = 0; q < NV; q++) {
            w[q] = AS_INT(((const V *)(up + k * PANEL_BYTES))[q]);
            other[q] = AS_INT(SPLAT(0));
            if (down) other[q] = w[q] ^ AS_INT(((const V *)(down + k * PANEL_BYTES))[q]);
        }
        UNROLL
        for (int f = 0; f < FLIPPED; f++) {
            const REAL a = off[f * PANEL_LANES + k], b = on[f * PANEL_LANES + k];
            UNROLL
            for (int q = 0; q < NV; q++)
                products[f][q] *= a + b * AS_REAL(w[q] ^ (other[q] & set[f][q]));
        }
    }
}

/* The same over n hidden units, the first of which is that of a panel, or all are of
   one; panels of on and off are `size` numbers apart. */
INLINE void NAME(flip)(const REAL *on, const REAL *off, ptrdiff_t size, const char *up,
                       const char *down, const IV (*set)[NV], ptrdiff_t n,
                       V (*products)[NV])
{
    V x[FLIPPED][NV];
    IV s[FLIPPED][NV];
    for (int f = 0; f < FLIPPED; f++)
        for (int q = 0; q < NV; q++) {
            x[f][q] = products[f][q];
            s[f][q] = set[f][q];
        }
    for (ptrdiff_t j = 0; j < n; j += 4) {
        const ptrdiff_t at = j / PANEL_LANES * size + j % PANEL_LANES;
        const char *j_up = up + j * PANEL_BYTES;
        const char *j_down = down ? down + j * PANEL_BYTES : NULL;
        if (n - j >= 4)
            NAME(flip_few)(on + at, off + at, j_up, j_down, s, 4, x);
        else if (n - j == 3)
            NAME(flip_few)(on + at, off + at, j_up, j_down, s, 3, x);
        else if (n - j == 2)
            NAME(flip_few)(on + at, off + at, j_up, j_down, s, 2, x);
        else
            NAME(flip_few)(on + at, off + at, j_up, j_down, s, 1, x);
    }
    for (int f = 0; f < FLIPPED; f++)
        for (int q = 0; q < NV; q++) products[f][q] = x[f][q];
}

/* Log-odds, less their biases, of the features that are 0 or 1, given the others.
   on, off: (n_panels, n_rows) panel rows, p(h = 1 | v) and p(h = 0 | v), of n_units
   hidden units; n_rows <= SCORED_ROWS, as many may be read, whatever is there.
   up, down: panels, `stride` bytes apart, of exp(W) and exp(-W), in which a hidden unit
   has a row and a feature a column; |W| is `largest` at most, and that LARGEST_TABULATED.
   values: (n_rows, n_features), or NULL if all are 0 or 1 as bits says.
   Turning feature i on changes the softplus of a hidden unit by
   log(off + on exp(W)), turning it off by log(off + on exp(-W)).  The products
   over the hidden units are kept as mantissas and exponents, so that one logarithm
   is enough. */
static void NAME(flip_logits)(const char *on, const char *off, ptrdiff_t n_rows,
                              const char *up, const char *down, ptrdiff_t stride,
                              ptrdiff_t n_features, const uint64_t *bits,
                              const void *values, ptrdiff_t n_units, double largest,
                              double *logits)
{
    const ptrdiff_t n_words = (n_features + 63) / 64, size = n_rows * PANEL_LANES;
    ptrdiff_t often = 64; /* units after which the products are numbers yet */
    while (often > 4 && often * largest > EXP_LIMIT - 7) often /= 2;
    for (ptrdiff_t i0 = 0; i0 < n_features; i0 += PANEL_LANES) {
        const ptrdiff_t n = n_features - i0 < PANEL_LANES ? n_features - i0 : PANEL_LANES;
        const char *panel_up = up + i0 / PANEL_LANES * stride;
        const char *panel_down = down + i0 / PANEL_LANES * stride;
        V product[SCORED_ROWS][NV];
        IV exponent[SCORED_ROWS][NV], set[SCORED_ROWS][NV];
        uint64_t any[SCORED_ROWS / FLIPPED]; /* of the rows that go together */
        INT bias = 0; /* of the exponents */
        memset(any, 0, sizeof any);
        for (ptrdiff_t r = 0; r < SCORED_ROWS; r++) {
            const uint64_t flags = bits[r * n_words + i0 / 64] >> (i0 % 64)
                & (((uint64_t)1 << PANEL_LANES) - 1);
            any[r / FLIPPED] |= flags;
            for (int q = 0; q < NV; q++) {
                set[r][q] = NAME(spread_bits)(flags >> (q * LANES));
                exponent[r][q] = AS_INT(SPLAT(0));
                product[r][q] = SPLAT(1);
            }
        }
        for (ptrdiff_t j0 = 0; j0 < n_units; j0 += often) {
            const ptrdiff_t left = n_units - j0 < often ? n_units - j0 : often;
            const ptrdiff_t to = j0 / PANEL_LANES * size + j0 % PANEL_LANES;
            const char *j_up = panel_up + j0 * PANEL_BYTES;
            const char *j_down = panel_down + j0 * PANEL_BYTES;
            for (ptrdiff_t r = 0; r < n_rows; r += FLIPPED) {
                const REAL *r_on = (const REAL *)on + to + r * PANEL_LANES;
                const REAL *r_off = (const REAL *)off + to + r * PANEL_LANES;
                /* (The compiler makes one of which nothing is chosen.) */
                if (any[r / FLIPPED])
                    NAME(flip)(r_on, r_off, size, j_up, j_down, set + r, left,
                               product + r);
                else
                    NAME(flip)(r_on, r_off, size, j_up, NULL, set + r, left,
                               product + r);
                for (int f = 0; f < FLIPPED; f++)
                    for (int q = 0; q < NV; q++)
                        NAME(take_exponent)(&product[r + f][q], &exponent[r + f][q]);
            }
            bias += EXPONENT_ONE;
        }
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            const ptrdiff_t first = r * n_features + i0;
            const REAL *v = values ? (const REAL *)values + first : NULL;
            V change[NV];
            for (int q = 0; q < NV; q++) {
                const V up_change = NAME(log)(product[r][q])
                    + NAME(from_int)(exponent[r][q] - bias) * (REAL)0.69314718055994531;
                change[q] = AS_REAL(AS_INT(up_change) ^ (set[r][q] & SIGN_BIT));
            }
            for (ptrdiff_t k = 0; k < n; k++)
                if (!v || v[k] == 0 || v[k] == 1)
                    logits[first + k] = (double)((const REAL *)change)[k];
        }
    }
}

/* The same for values of any size: fields (n_panels, n_rows) panel rows, panels of
   weights, `stride` bytes apart, in which a feature has a row and a hidden unit a column,
   values (n_rows, n_features).  With `rest` only for the values that are neither 0 nor
   1. */
static void NAME(shift_logits)(const char *fields, ptrdiff_t n_rows,
                               const char *weights, ptrdiff_t stride,
                               ptrdiff_t n_features, const void *values, int rest,
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
                        V w = ((const V *)(weights + p * stride
                                           + i * PANEL_BYTES))[q];
                        V f = ((const V *)(fields + (p * n_rows + r)
                                           * PANEL_BYTES))[q];
                        V x0 = f - w * v, x1 = f + w * ((REAL)1 - v);
                        on[q] *= NAME(one_plus_exp)(x1);
                        off[q] *= NAME(one_plus_exp)(x0);
                        sum[q] += LARGER(x1, SPLAT(0)) - LARGER(x0, SPLAT(0));
                    }
                total += log(NAME(lane_product)(on) / NAME(lane_product)(off))
                    + NAME(lane_sum)(sum);
            }
            logits[r * n_features + i] = total;
        }
}
