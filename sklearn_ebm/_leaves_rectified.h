/* Rectified units: p(s) ~ exp(s x - s^2 / 2) for s >= 0, x the field.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- Rectified units ---- */

/* The mean m of a unit whose field is -t, t >= 0: m (t + 2) is smooth in
   (t - 4) / (t + 4), which goes from -1 to 1, and given by its Chebyshev series there,
   written in powers.  Right to a few ulps for any t: nothing cancels. */
INLINE V NAME(mean_below)(V t)
{
#if DOUBLE
    static const double power[] = {
        1.3536428669368263, -0.4354390871605173, 0.005916402474867456,
        0.15112762189364068, -0.0867888866293762, -0.00927837212990064,
        0.03216831254869875, -0.007686208857083974, -0.008566556236105959,
        0.004848910850609298, 0.001710165232423821, -0.0019577404419733307,
        -0.00017531602622585725, 0.0006478349320782176, -5.055988338790853e-05,
        -0.00018506900681998368, 4.099703372506274e-05, 4.5416226371369715e-05,
        -1.7233786934642794e-05, -9.013788233337147e-06, 5.542274235546339e-06,
        1.1784452692348312e-06, -1.4006425856749847e-06, 6.702546266168141e-10,
        2.509563248205533e-07, -3.850348150355503e-08, -2.344962028858962e-08,
        6.066921351309906e-09,
    };
#else
    static const float power[] = {
        1.3536428f, -4.3543988e-01f, 5.916228e-03f, 1.511505e-01f, -8.678623e-02f,
        -9.468994e-03f, 3.2153677e-02f, -6.9906563e-03f, -8.531215e-03f,
        3.5626374e-03f, 1.6775812e-03f, -6.9820875e-04f, -1.8835178e-04f,
    };
#endif
    const int n = (int)(sizeof power / sizeof *power);
    const V q = (t - (REAL)4) / (t + (REAL)4);
    V y = SPLAT(power[n - 1]);
    for (int k = n - 2; k >= 0; k--) y = y * q + power[k];
    return y / (t + (REAL)2);
}

/* The mean at x, and what the log partition function is made of: -log(factor) where x
   is negative, else x^2 / 2 + log(factor). */
INLINE V NAME(rectified)(V x, V *factor)
{
    const V size = SMALLER(SPLAT((REAL)1e30), SELECT(x < (REAL)0, -x, x));
    const V mean = NAME(mean_below)(size), slope = mean + size;
    const V e = NAME(exp)(LARGER(SPLAT(-EXP_LIMIT), size * size * (REAL)-0.5));
    /* sqrt(2 pi) times the probability that a normal number is below |x|. */
    const V part = (REAL)2.5066282746310002 - e / slope;
    *factor = SELECT(x < (REAL)0, slope, part);
    return SELECT(x < (REAL)0, mean, x + e / part);
}

/* fields -> means, in place, for n panel rows. */
static void NAME(rectified_means)(char *fields, ptrdiff_t n)
{
    V *x = (V *)fields, factor;
    for (ptrdiff_t k = 0; k < n * NV; k++) x[k] = NAME(rectified)(x[k], &factor);
}

/* fields -> log partition functions, in place, for n panel rows. */
static void NAME(rectified_logs)(char *fields, ptrdiff_t n)
{
    for (ptrdiff_t k = 0; k < n * NV; k++) {
        V *x = (V *)fields + k, factor;
        NAME(rectified)(*x, &factor);
        const V log = NAME(log)(factor);
        *x = SELECT(*x < (REAL)0, -log, *x * *x * (REAL)0.5 + log);
    }
}

/* What two random words propose for the state of a unit with field x; -1 for nothing.

   It is accepted with probability 0.67 at least, and has the distribution of the unit
   then: normal numbers that are not negative, or exponential ones, accepted by the
   ratio of the densities (C. P. Robert, "Simulation of truncated normal variables",
   Statistics and Computing 5, 1995). */
INLINE V NAME(propose_rectified)(V x, IV first, IV second)
{
    const V e = -NAME(log)(NAME(fraction)(first));
    /* The rate of the exponential ones is delta above -x.  (No square overflows.) */
    const V a = SMALLER(SPLAT((REAL)1e15), -x);
    const V delta = (REAL)2 / (a + NAME(root)(a * a + (REAL)4));
    const V s = e / (delta - x), distance = s - delta;
    const V least = -NAME(log)(NAME(fraction)(second));
    const V below = SELECT(least < distance * distance * (REAL)0.5, SPLAT(-1), s);
    V cosine, sine;
    NAME(on_circle)(second, &cosine, &sine);
    return SELECT(x < (REAL)0.5, below, x + NAME(root)(e * (REAL)2) * cosine);
}

/* fields -> states, in place, for n_panels panels of a row.  The k-th proposals for a
   panel take the words of place first + k * stride and, for each panel on, one more. */
static void NAME(rectified_draws)(char *fields, ptrdiff_t n_panels, uint64_t key,
                                  uint64_t step, uint32_t row, uint32_t purpose,
                                  ptrdiff_t first, ptrdiff_t stride)
{
    V words[2 * NV];
    const ptrdiff_t n_states = (ptrdiff_t)sizeof words / 16;
    for (ptrdiff_t p = 0; p < n_panels; p++) {
        V *x = (V *)(fields + p * PANEL_BYTES), drawn[NV];
        uint32_t missing = 1;
        /* (A field that is no number has a state that is none.) */
        for (int q = 0; q < NV; q++) drawn[q] = SELECT(x[q] == x[q], SPLAT(-1), x[q]);
        for (ptrdiff_t at = first + p; missing; at += stride) {
            NAME(draws)((uint16_t *)words, n_states, row, 1, key, step,
                        (uint32_t)(at * n_states), purpose | PURPOSE_RECTIFIED);
            missing = 0;
            for (int q = 0; q < NV; q++) {
                const V s = NAME(propose_rectified)(x[q], AS_INT(words[q]),
                                                    AS_INT(words[NV + q]));
                drawn[q] = SELECT(drawn[q] < (REAL)0, s, drawn[q]);
                missing |= BITS_WHERE(drawn[q], LT, SPLAT(0));
            }
        }
        memcpy(x, drawn, sizeof drawn);
    }
}
