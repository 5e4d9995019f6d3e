/* Classes: hidden units that also see the weights of a label.
   Included by _leaves.h, which defines V, NAME, ... */

/* Means of the hidden units with fields `fields` + `label`; returns the sum of
   their softplus. */
static double NAME(class_means)(const char *fields, const char *label,
                                ptrdiff_t n_panels, char *means)
{
    const V low = SPLAT(-EXP_LIMIT), zero = SPLAT(0);
    double total = 0;
    for (ptrdiff_t p0 = 0; p0 < n_panels; p0 += FLUSH) {
        V product[NV], sum[NV];
        for (int q = 0; q < NV; q++) {
            product[q] = SPLAT(1);
            sum[q] = zero;
        }
        for (ptrdiff_t p = p0; p < p0 + FLUSH && p < n_panels; p++)
            for (int q = 0; q < NV; q++) {
                const ptrdiff_t k = p * NV + q;
                const V x = ((const V *)fields)[k] + ((const V *)label)[k];
                const V e = NAME(exp_minus_abs)(x), d = e + (REAL)1;
                const V m = SELECT(x > zero, SPLAT(1), e) / d;
                ((V *)means)[k] = SELECT(x < low, zero, m);
                product[q] *= d;
                sum[q] += LARGER(x, zero);
            }
        total += log(NAME(lane_product)(product)) + NAME(lane_sum)(sum);
    }
    return total;
}

/* out += the rows of a list times their values, for np panels. */
INLINE void NAME(add_list)(const uint32_t *index, const REAL *value, int32_t n,
                           const char *rows, ptrdiff_t stride, const int np,
                           char *out)
{
    V sum[NV > 8 ? NV : 8];
    UNROLL
    for (int q = 0; q < np * NV; q++) sum[q] = ((const V *)out)[q];
    if (value)
        for (int32_t k = 0; k < n; k++) {
            const V *x = (const V *)(rows + index[k] * stride);
            UNROLL
            for (int q = 0; q < np * NV; q++) sum[q] += x[q] * value[k];
        }
    else
        for (int32_t k = 0; k < n; k++) {
            const V *x = (const V *)(rows + index[k] * stride);
            UNROLL
            for (int q = 0; q < np * NV; q++) sum[q] += x[q];
        }
    UNROLL
    for (int q = 0; q < np * NV; q++) ((V *)out)[q] = sum[q];
}

/* out[r] += sum over the entries of list r of value * rows[index], for n lists
   and n_panels panels; rows are `stride` bytes apart. */
static void NAME(add_lists)(const ActiveRows *lists, ptrdiff_t n,
                            const char *rows, ptrdiff_t stride,
                            ptrdiff_t n_panels, char *out,
                            ptrdiff_t out_stride)
{
    enum { MOST = 8 * VECTOR_BYTES >= PANEL_BYTES
               ? 8 * VECTOR_BYTES / PANEL_BYTES : 1 };
    ptrdiff_t p = 0;
    while (p < n_panels) {
        const int np = n_panels - p >= MOST ? MOST : 1;
        const ptrdiff_t at = p * PANEL_BYTES;
        for (ptrdiff_t r = 0; r < n; r++) {
            const uint32_t *index = lists->index + r * lists->stride;
            const REAL *value = lists->value
                ? (const REAL *)lists->value + r * lists->stride : NULL;
            if (np == MOST)
                NAME(add_list)(index, value, lists->length[r], rows + at,
                               stride, MOST, out + r * out_stride + at);
            else
                NAME(add_list)(index, value, lists->length[r], rows + at,
                               stride, 1, out + r * out_stride + at);
        }
        p += np;
    }
}

/* to += scale * from, for n panel rows. */
static void NAME(add_scaled)(const char *from, double scale, ptrdiff_t n,
                             char *to)
{
    for (ptrdiff_t k = 0; k < n * NV; k++)
        ((V *)to)[k] += ((const V *)from)[k] * (REAL)scale;
}

/* A step of ascent of n panel rows of parameters x along the gradient g less
   `decay` times x; velocity and average may be NULL. */
static void NAME(ascend)(char *x, const char *g, char *velocity, char *average,
                         ptrdiff_t n, double rate, double momentum,
                         double decay, double mix)
{
    for (ptrdiff_t k = 0; k < n * NV; k++) {
        V *at = (V *)x + k;
        *at = NAME(step)(*at, ((const V *)g)[k] - *at * (REAL)decay,
                         velocity ? (V *)velocity + k : NULL, (REAL)rate,
                         (REAL)momentum, 0);
        NAME(enter)(*at, average ? (V *)average + k : NULL, (REAL)mix, NULL,
                    NULL);
    }
}
