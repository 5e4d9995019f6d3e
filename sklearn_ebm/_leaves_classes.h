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
