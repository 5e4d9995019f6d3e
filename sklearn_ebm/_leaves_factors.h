/* Rows under a linear factor model.  Included by _leaves.h, which defines V, ... */

/* out = (x - mean) * scale for `bytes` bytes of a panel; adds to squares. */
INLINE void NAME(deviate_panel)(const REAL *x, const REAL *mean,
                                const REAL *scale, const size_t bytes, REAL *out,
                                V *squares)
{
    V a[NV], b[NV], c[NV];
    if (bytes < PANEL_BYTES)
        for (int q = 0; q < NV; q++) a[q] = b[q] = c[q] = SPLAT(0);
    memcpy(a, x, bytes);
    memcpy(b, mean, bytes);
    memcpy(c, scale, bytes);
    for (int q = 0; q < NV; q++) {
        a[q] = (a[q] - b[q]) * c[q];
        squares[q] += a[q] * a[q];
    }
    memcpy(out, a, bytes);
}

/* The same for n numbers that need not lie on cache lines; returns the sum of
   their squares, added up by the columns of a panel. */
static double NAME(deviate)(const void *x_, const void *mean_, const void *scale_,
                            ptrdiff_t n, void *out_)
{
    const REAL *x = x_, *mean = mean_, *scale = scale_;
    REAL *out = out_;
    const ptrdiff_t whole = n / PANEL_LANES * PANEL_LANES;
    V squares[NV];
    for (int q = 0; q < NV; q++) squares[q] = SPLAT(0);
    for (ptrdiff_t i = 0; i < whole; i += PANEL_LANES)
        NAME(deviate_panel)(x + i, mean + i, scale + i, PANEL_BYTES, out + i,
                            squares);
    if (whole < n)
        NAME(deviate_panel)(x + whole, mean + whole, scale + whole,
                            (size_t)(n - whole) * sizeof(REAL), out + whole,
                            squares);
    return NAME(lane_sum)(squares);
}
