/* Sums of log(1 + exp(field)), and of how they change with one feature.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- Scores ---- */

#define FLUSH 8 /* panels between two look-ups of a logarithm */

/* exp(-|x|), in (0, 1] */
INLINE V NAME(exp_minus_abs)(V x)
{
    V z = SELECT(x > SPLAT(0), -x, x);
    V low = SPLAT(-EXP_LIMIT);
    return NAME(exp)(SELECT(z < low, low, z));
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
                sum[q] += SELECT(x > SPLAT(0), x, SPLAT(0));
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
            g[2 * NV + q] += SELECT(x1 > zero, x1, zero)
                - SELECT(x0 > zero, x0, zero);
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
                for (int q = 0; q < NV; q++) {
                    /* (In pairs: the processor waits for one product in four.) */
                    V factor[4];
                    UNROLL
                    for (int k = 0; k < 4; k++) {
                        const ptrdiff_t p = p0 + k, at = (p * n_rows + r) * PANEL_BYTES;
                        factor[k] = SPLAT(1);
                        if (p < n_panels)
                            factor[k] = ((const V *)(on + at))[q]
                                    * ((const V *)(row + p * PANEL_BYTES))[q]
                                + ((const V *)(off + at))[q];
                    }
                    product[q] *= (factor[0] * factor[1]) * (factor[2] * factor[3]);
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
