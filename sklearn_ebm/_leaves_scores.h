/* Sums of log(1 + exp(field)), and of how they change with one feature.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- Scores ---- */

#define FLUSH 8 /* panels between two look-ups of a logarithm */
#define FLIPPED 4 /* features that share a reading of the hidden means */

/* exp(-|x|), in (0, 1] */
INLINE V NAME(exp_minus_abs)(V x)
{
    return NAME(exp)(LARGER(SPLAT(-EXP_LIMIT), AS_REAL(AS_INT(x) | SIGN_BIT)));
}

/* 1 + exp(-|x|), in (1, 2] */
INLINE V NAME(one_plus_exp)(V x) { return NAME(exp_minus_abs)(x) + (REAL)1; }

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

/* For some features, the product over n_panels panels of off + on * weights, of every
   lane; its exponent is taken out after every four panels, and after each of those that
   are left over.  Panels of on and off are stride apart. */
INLINE void NAME(flip_products)(const char *on, const char *off, ptrdiff_t stride,
                                const char *const weights[FLIPPED],
                                ptrdiff_t n_panels, V *products, IV *exponents)
{
    for (int q = 0; q < NV; q++) {
        V x[FLIPPED];
        IV e[FLIPPED];
        for (int f = 0; f < FLIPPED; f++) {
            x[f] = SPLAT(1);
            e[f] = AS_INT(SPLAT(0));
        }
        ptrdiff_t p = 0;
        for (; p + 4 <= n_panels; p += 4)
            for (int f = 0; f < FLIPPED; f++) {
                /* (In pairs: the processor waits for one product in four.) */
                V y[4];
                UNROLL
                for (int k = 0; k < 4; k++)
                    y[k] = ((const V *)(on + (p + k) * stride))[q]
                            * ((const V *)(weights[f] + (p + k) * PANEL_BYTES))[q]
                        + ((const V *)(off + (p + k) * stride))[q];
                x[f] *= (y[0] * y[1]) * (y[2] * y[3]);
                NAME(take_exponent)(&x[f], &e[f]);
            }
        for (; p < n_panels; p++)
            for (int f = 0; f < FLIPPED; f++) {
                x[f] *= ((const V *)(on + p * stride))[q]
                        * ((const V *)(weights[f] + p * PANEL_BYTES))[q]
                    + ((const V *)(off + p * stride))[q];
                NAME(take_exponent)(&x[f], &e[f]);
            }
        for (int f = 0; f < FLIPPED; f++) {
            products[f * NV + q] = x[f];
            exponents[f * NV + q] = e[f];
        }
    }
}

/* Logarithms of the products over the lanes of PANEL_LANES rows that flip_products
   has filled; lanes of rows become rows of lanes first. */
INLINE void NAME(log_products)(const V *products, const IV *exponents, double bias,
                               double *logs)
{
    V turned[PANEL_LANES * NV], x[NV], log[NV];
    IV turned_exponents[PANEL_LANES * NV], e[NV];
    NAME(transpose_tile)((const char *)products, (char *)turned);
    NAME(transpose_tile)((const char *)exponents, (char *)turned_exponents);
    for (int q = 0; q < NV; q++) {
        x[q] = turned[q];
        e[q] = turned_exponents[q];
        for (int k = 1; k < PANEL_LANES; k++) {
            x[q] *= turned[k * NV + q];
            e[q] += turned_exponents[k * NV + q];
        }
        NAME(take_exponent)(&x[q], &e[q]);
        log[q] = NAME(log)(x[q]);
    }
    for (int k = 0; k < PANEL_LANES; k++)
        logs[k] = (double)((REAL *)log)[k]
            + 0.69314718055994530942 * ((double)((INT *)e)[k] - bias);
}

/* Log-odds, less their biases, of the features that are 0 or 1, given the others.
   on, off: (n_panels, n_rows) panel rows, p(h = 1 | v) and p(h = 0 | v), n_rows at most
   SCORED_ROWS.
   up, down: (n_features, n_panels) panel rows of exp(W) and exp(-W), |W| <= 20.
   values: (n_rows, n_features), or NULL if all are 0 or 1 as bits says.
   Turning feature i on changes the softplus of a hidden unit by
   log(off + on exp(W)), turning it off by log(off + on exp(-W)).  The products
   over the hidden units are kept as mantissas and exponents, so that one logarithm
   is enough, and PANEL_LANES features are kept for each row until it is taken. */
static void NAME(flip_logits)(const char *on, const char *off, ptrdiff_t n_rows,
                              const char *up, const char *down,
                              ptrdiff_t n_features, const uint64_t *bits,
                              const void *values, ptrdiff_t n_panels,
                              double *logits)
{
    enum { KEPT = PANEL_LANES * NV };
    V products[SCORED_ROWS * KEPT];
    IV exponents[SCORED_ROWS * KEPT];
    double logs[PANEL_LANES];
    const ptrdiff_t n_words = (n_features + 63) / 64;
    const double bias = (double)EXPONENT_ONE
        * ((n_panels / 4 + n_panels % 4) * PANEL_LANES + 1);
    for (ptrdiff_t i0 = 0; i0 < n_features; i0 += PANEL_LANES) {
        const ptrdiff_t n = n_features - i0 < PANEL_LANES ? n_features - i0 : PANEL_LANES;
        /* (Nobody asks what becomes of features beyond the last; but they are numbers.) */
        for (ptrdiff_t r = 0; n < PANEL_LANES && r < n_rows; r++)
            for (ptrdiff_t q = n * NV; q < KEPT; q++) {
                products[r * KEPT + q] = SPLAT(1);
                exponents[r * KEPT + q] = AS_INT(SPLAT(0));
            }
        for (ptrdiff_t k = 0; k < n; k += FLIPPED)
            for (ptrdiff_t r = 0; r < n_rows; r++) {
                const char *weights[FLIPPED];
                for (int f = 0; f < FLIPPED; f++) { /* the last one for those beyond */
                    const ptrdiff_t i = i0 + (k + f < n ? k + f : n - 1);
                    const int set = bits[r * n_words + i / 64] >> (i % 64) & 1;
                    weights[f] = (set ? down : up) + i * n_panels * PANEL_BYTES;
                }
                NAME(flip_products)(on + r * PANEL_BYTES, off + r * PANEL_BYTES,
                                    n_rows * PANEL_BYTES, weights, n_panels,
                                    products + r * KEPT + k * NV,
                                    exponents + r * KEPT + k * NV);
            }
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            NAME(log_products)(products + r * KEPT, exponents + r * KEPT, bias, logs);
            for (ptrdiff_t k = 0; k < n; k++) {
                const ptrdiff_t i = i0 + k, at = r * n_features + i;
                const int set = bits[r * n_words + i / 64] >> (i % 64) & 1;
                if (values && set && ((const REAL *)values)[at] != (REAL)1) continue;
                logits[at] = set ? -logs[k] : logs[k];
            }
        }
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
                        sum[q] += LARGER(x1, SPLAT(0)) - LARGER(x0, SPLAT(0));
                    }
                total += log(NAME(lane_product)(on) / NAME(lane_product)(off))
                    + NAME(lane_sum)(sum);
            }
            logits[r * n_features + i] = total;
        }
}
