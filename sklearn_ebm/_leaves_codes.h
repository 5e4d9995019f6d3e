/* Coordinate descent for one small lasso problem, in float64 only: a Gram matrix of
   similar atoms needs it, and the vectors are too short for float32 to be faster.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- Sparse codes ---- */

#define JUMP_EVERY 2     /* sweeps */
#define DEPENDENT 1e-10  /* squared distance to the span of other atoms */
#define ROUNDING 0x1p-50 /* largest change of a sweep that is none */

/* The duality gap of a code h over some coordinates, from the squared length of
   the data, the correlations q of the data and c of the residual with them:
   with s = min(1, alpha / max |c|), which makes s times the residual feasible in
   the dual problem,
       gap = |x - W h|^2 (1 - s)^2 / 2 + sum of alpha |h| - s h c.
   No term is negative, so nothing cancels as the gap becomes small. */
static double NAME(gap)(const double *q, const double *c, const double *h,
                        ptrdiff_t n, double squared_norm, double alpha,
                        int positive)
{
    double worst = 0, fit = 0, penalty = 0, product = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        const double size = positive ? c[j] : fabs(c[j]);
        if (size > worst) worst = size;
        if (h[j] == 0) continue;
        fit += h[j] * (q[j] + c[j]);
        penalty += fabs(h[j]);
        product += h[j] * c[j];
    }
    const double s = worst > alpha ? alpha / worst : 1;
    const double left = squared_norm > fit ? squared_norm - fit : 0;
    return 0.5 * left * (1 - s) * (1 - s) + alpha * penalty - s * product;
}

/* c -= change * row j of the Gram matrix */
INLINE void NAME(shift_residual)(const Descent *d, ptrdiff_t j, double change)
{
    const V *row = (const V *)(d->gram + j * d->n_panels * PANEL_LANES);
    const V by = SPLAT(change);
    V *c = (V *)d->residual;
    for (ptrdiff_t v = 0; v < d->n_panels * NV; v++) c[v] -= by * row[v];
}

/* One sweep over the coordinates; each goes to its optimum given the others:
       h_j = soft(c_j + G_jj h_j, alpha) / G_jj.
   Returns the largest change relative to the largest |h|. */
static double NAME(sweep)(const Descent *d)
{
    const double *diagonal = d->diagonal, *c = d->residual, alpha = d->alpha;
    double *h = d->code, moved = 0, largest = 0;
    for (ptrdiff_t j = 0; j < d->n; j++) {
        const double g = diagonal[j], old = h[j], z = c[j] + g * old;
        const double size = fabs(z);
        double new = 0;
        if (size > alpha && (z > 0 || !d->positive))
            new = (z > 0 ? size - alpha : alpha - size) / g;
        const double change = new - old;
        if (fabs(change) > moved) moved = fabs(change);
        if (fabs(new) > largest) largest = fabs(new);
        if (change == 0) continue;
        h[j] = new;
        NAME(shift_residual)(d, j, change);
    }
    return moved > 0 ? moved / largest : 0;
}

/* Where to move the coordinates that are not 0, of which there are n, at `at`: the
   solution x of G x = c - alpha sign(h), which minimises the objective as long as
   no sign changes; or, if the k-th of their atoms depends on those before it, a
   change of these k + 1 that (almost) leaves W h alone.  Returns how many are to
   move; `length` is how far in units of x. */
static ptrdiff_t NAME(direction)(const Descent *d, ptrdiff_t n, double *length)
{
    const double *c = d->residual, *h = d->code;
    const uint32_t *at = d->support;
    const ptrdiff_t width = n + 1;
    double *u = d->factor, *x = d->solution, slope = 0;
    /* The upper triangle of the equations, with the right-hand side as its last
       column, eliminated row by row. */
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *row = d->gram + at[i] * d->n_panels * PANEL_LANES;
        for (ptrdiff_t j = i; j < n; j++) u[i * width + j] = row[at[j]];
        u[i * width + n] = c[at[i]] - (h[at[i]] > 0 ? d->alpha : -d->alpha);
    }
    ptrdiff_t k = 0;
    for (; k < n; k++) {
        const double *pivot = u + k * width;
        if (!(pivot[k] > DEPENDENT * d->diagonal[at[k]])) break;
        for (ptrdiff_t i = k + 1; i < n; i++) {
            const double by = pivot[i] / pivot[k];
            double *row = u + i * width;
            for (ptrdiff_t j = i; j <= n; j++) row[j] -= by * pivot[j];
        }
    }
    for (ptrdiff_t i = k - 1; i >= 0; i--) {
        const double *row = u + i * width;
        double sum = k == n ? row[n] : -row[k];
        for (ptrdiff_t j = i + 1; j < k; j++) sum -= row[j] * x[j];
        x[i] = sum / row[i];
    }
    *length = 1;
    if (k == n) return n;
    x[k] = 1;
    for (ptrdiff_t i = 0; i <= k; i++)
        slope += x[i] * (c[at[i]] - (h[at[i]] > 0 ? d->alpha : -d->alpha));
    for (ptrdiff_t i = 0; slope < 0 && i <= k; i++) x[i] = -x[i];
    *length = fabs(slope) / (u[k * width + k] > 0 ? u[k * width + k] : 0);
    return k + 1;
}

/* As long as no h_j changes its sign the objective is quadratic in those that are
   not 0: go to its minimum, or as far towards it as the signs let; returns whether
   that made one of them 0.  Does nothing if they are too many. */
static int NAME(jump)(const Descent *d)
{
    double *h = d->code;
    uint32_t *at = d->support;
    const double *x = d->solution;
    ptrdiff_t n = 0, blocking = -1;
    double length;
    for (ptrdiff_t j = 0; j < d->n; j++)
        if (h[j] != 0) {
            if (n == d->most) return 0;
            at[n++] = (uint32_t)j;
        }
    n = NAME(direction)(d, n, &length);
    for (ptrdiff_t i = 0; i < n; i++) {
        const double old = h[at[i]];
        if ((old > 0) == (x[i] > 0) || x[i] == 0 || !(-old / x[i] < length))
            continue;
        length = -old / x[i];
        blocking = i;
    }
    if (!(length < INFINITY)) return 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const ptrdiff_t j = at[i];
        const double old = h[j];
        h[j] = i == blocking ? 0 : old + length * x[i];
        NAME(shift_residual)(d, j, h[j] - old);
    }
    return blocking >= 0;
}

/* Sweep over the coordinates until the gap is at most `target`, or rounding
   stops all movement (`stalled` says so), or `most` sweeps are done; returns
   their number. */
static int NAME(descend)(const Descent *d, double target, int most,
                         int *stalled)
{
    *stalled = 0;
    for (int sweep = 1; sweep <= most; sweep++) {
        const double moved = NAME(sweep)(d);
        if (NAME(gap)(d->correlation, d->residual, d->code, d->n,
                      d->squared_norm, d->alpha, d->positive) <= target)
            return sweep;
        *stalled = moved <= ROUNDING;
        if (*stalled) return sweep;
        if (sweep % JUMP_EVERY == 0)
            while (NAME(jump)(d)) {}
    }
    return most;
}
