/* The gradient of a minibatch and the step along it.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- The gradient and its step ---- */

/* scaled[r] = scale * rows[r], stride bytes apart; their sum is added to total. */
static void NAME(scale_rows)(const char *rows, ptrdiff_t n, double scale,
                             char *scaled, ptrdiff_t stride, char *total)
{
    V sum[NV];
    memcpy(sum, total, sizeof sum);
    for (ptrdiff_t r = 0; r < n; r++)
        for (int q = 0; q < NV; q++) {
            V x = ((const V *)(rows + r * PANEL_BYTES))[q] * (REAL)scale;
            ((V *)(scaled + r * stride))[q] = x;
            sum[q] += x;
        }
    memcpy(total, sum, sizeof sum);
}

/* out[r] = rows[r] . direction, over n_panels panels stride bytes apart. */
static void NAME(project)(const char *rows, ptrdiff_t stride, ptrdiff_t n_rows,
                          ptrdiff_t n_panels, const char *direction,
                          double *out)
{
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        V sum[NV];
        for (int q = 0; q < NV; q++) sum[q] = SPLAT(0);
        for (ptrdiff_t p = 0; p < n_panels; p++)
            for (int q = 0; q < NV; q++)
                sum[q] += ((const V *)(rows + p * stride + r * PANEL_BYTES))[q]
                    * ((const V *)(direction + p * PANEL_BYTES))[q];
        out[r] = NAME(lane_sum)(sum);
    }
}

/* For features start..stop: sums += weight * value over dense rows of values, stride
   elements apart; weights: of the rows, or NULL where all have the weight `scale`. */
static void NAME(weigh_rows)(const void *values, ptrdiff_t stride, ptrdiff_t n_rows,
                             const double *weights, double scale, ptrdiff_t start,
                             ptrdiff_t stop, double *sums)
{
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        const REAL *value = (const REAL *)values + r * stride;
        const double weight = weights ? weights[r] : scale;
        for (ptrdiff_t i = start; i < stop; i++) sums[i] += value[i] * weight;
    }
}

/* For features start..stop: the sum of something over the rows in which they are on,
   from what table entries and (real) rows have of it. */
static void NAME(feature_sums)(const ActiveRows *groups,
                               const ActiveRows *reals, const double *entries,
                               const double *rows, ptrdiff_t start,
                               ptrdiff_t stop, int first, double *sums)
{
    for (ptrdiff_t i = start; i < stop; i++) {
        double x = first ? 0 : sums[i];
        if (reals) {
            const uint32_t *index = reals->index + i * reals->stride;
            const REAL *value = (const REAL *)reals->value + i * reals->stride;
            for (int32_t k = 0; k < reals->length[i]; k++)
                x += value[k] * rows[index[k]];
        }
        const uint32_t *index = groups->index + i * groups->stride;
        for (int32_t k = 0; k < groups->length[i]; k++) x += entries[index[k]];
        sums[i] = x;
    }
}

/* One step of ascent of x along g, with optional velocity; Nesterov's is a
   step ahead of it. */
INLINE V NAME(step)(V x, V g, V *velocity, REAL rate, REAL momentum,
                    int nesterov)
{
    if (velocity) {
        const V gradient = g;
        g = *velocity * momentum + g;
        *velocity = g;
        if (nesterov) g = gradient + g * momentum;
    }
    return x + g * rate;
}

/* x drawn towards zero by at most `by`. */
INLINE V NAME(shrink)(V x, REAL by)
{
    const V zero = SPLAT(0), above = x - by, below = x + by;
    return SELECT(above > zero, above, SELECT(below < zero, below, zero));
}

/* Enter the new x into its average, and add up what chains have in its place: x and
   its fast part.  Either may be NULL. */
INLINE void NAME(enter)(V x, V *average, REAL mix, const V *fast, V *with_fast)
{
    if (average) *average += (x - *average) * mix;
    if (fast) *with_fast = x + *fast;
}

/* The fast part of a parameter fades, and follows the gradient g. */
INLINE V NAME(follow)(V fast, V g, REAL rate)
{
    return fast * (REAL)FAST_DECAY + g * rate;
}

/* Scale the weights of the units whose squares sum up to more than most^2 back
   to that norm; enter all of them.  by: what hidden biases give way by. */
INLINE void NAME(cap_norms)(const PanelUpdate *u, const int np,
                            V squares[GROUP][NV], V offset[GROUP][NV],
                            V by[GROUP][NV], double most, REAL mix)
{
    const REAL *mu = u->visible_offset;
    V scale[GROUP][NV];
    for (int p = 0; p < np; p++) {
        REAL lane[PANEL_LANES];
        memcpy(lane, squares[p], sizeof lane);
        for (int k = 0; k < PANEL_LANES; k++)
            lane[k] = lane[k] > most * most ? (REAL)(most / sqrt(lane[k])) : 1;
        memcpy(scale[p], lane, sizeof lane);
    }
    for (ptrdiff_t i = 0; i < u->n_features; i++) {
        V drift[NV];
        for (int q = 0; q < NV; q++) drift[q] = SPLAT(0);
        for (int p = 0; p < np; p++)
            for (int q = 0; q < NV; q++) {
                const ptrdiff_t cell = p * u->panel_stride + i * PANEL_BYTES;
                V *w = (V *)(u->weights + cell) + q;
                const V x = *w * scale[p][q];
                by[p][q] += (x - *w) * mu[i];
                drift[q] += (x - *w) * offset[p][q];
                *w = x;
                NAME(enter)(
                    *w, u->average ? (V *)(u->average + cell) + q : NULL, mix,
                    u->fast ? (const V *)(u->fast + cell) + q : NULL,
                    u->fast ? (V *)(u->with_fast + cell) + q : NULL);
            }
        if (u->drift) u->drift[2 * i + 1] += NAME(lane_sum)(drift);
    }
}

#define EACH_CELL                    \
    for (int p = 0; p < np; p++)     \
        for (int q = 0; q < NV; q++)

/* extras (a constant): whether any of the options is on that few ask for, so
   that the others do not pay for them. */
INLINE void NAME(update_group)(const PanelUpdate *u, const int np,
                               const int extras)
{
    const REAL shrinkage = extras ? (REAL)u->shrinkage : 0;
    const int capped = extras && u->max_norm > 0;
    const int nesterov = extras && u->nesterov, fast = extras && u->fast;
    const REAL fast_rate = (REAL)u->fast_rate;
    /* Copies, which no store can change, stay in registers. */
    char *const weights = u->weights, *const velocity = u->velocity;
    char *const pairs = capped ? NULL : u->pairs;
    char *const average = u->average, *const carry = u->carry;
    const ptrdiff_t stride = u->panel_stride, n_features = u->n_features;
    const ActiveRows bits = *u->bits;
    const char *const table = u->table;
    const ptrdiff_t table_stride = u->table_stride;
    const double *const visible_change = u->visible_change;
    const int first = u->first, last = u->last;
    const REAL *const values = u->values;
    const ptrdiff_t n_rows = u->n_rows, value_stride = u->value_stride;
    V squares[GROUP][NV];
    const REAL *mu = u->visible_offset;
    const REAL rate = (REAL)u->learning_rate, momentum = (REAL)u->momentum;
    const REAL decay = (REAL)u->weight_decay, mix = (REAL)u->average_rate;
    V pull[GROUP][NV], change[GROUP][NV], offset[GROUP][NV];
    V decayed[GROUP][NV], by[GROUP][NV];
    V ahead[AHEAD][GROUP][NV]; /* sums of this feature and of the next ones */
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) {
            const int k = p * NV + q;
            pull[p][q] = squares[p][q] = SPLAT(0);
            decayed[p][q] = by[p][q] = SPLAT(0);
            change[p][q] = ((const V *)u->data_total)[k]
                + ((const V *)u->chain_total)[k];
            offset[p][q] = ((const V *)u->hidden_offset)[k];
        }
    for (ptrdiff_t i = 0; i < n_features; i++) {
        const ptrdiff_t at = i * PANEL_BYTES;
        const REAL dv = (REAL)visible_change[i];
        V sums[GROUP][NV], decay_drift[NV], drift[NV];
        for (int q = 0; q < NV; q++) decay_drift[q] = drift[q] = SPLAT(0);
#define START(sums, i)                                                         \
    EACH_CELL if (first) sums[p][q] = SPLAT(0);                                \
    else sums[p][q] = ((const V *)(carry + p * stride + (i) * PANEL_BYTES))[q]
        if (values) {
            const ptrdiff_t left = n_features - i;
            if (i % AHEAD == 0) {
                const int count = left < AHEAD ? (int)left : AHEAD;
                for (int j = 0; j < count; j++) START(ahead[j], i + j);
                if (count == AHEAD)
                    NAME(accumulate_rows)(ahead, u->real_rows, values + i,
                                          value_stride, n_rows, AHEAD, np);
                else for (int j = 0; j < count; j++)
                    NAME(accumulate_rows)(ahead + j, u->real_rows, values + i + j,
                                          value_stride, n_rows, 1, np);
            }
            EACH_CELL sums[p][q] = ahead[i % AHEAD][p][q];
        } else
            START(sums, i);
#undef START
        if (u->reals) {
            const ptrdiff_t a = i * u->reals->stride;
            NAME(accumulate)(sums, u->real_rows, u->real_stride,
                             u->reals->index + a,
                             (const REAL *)u->reals->value + a,
                             u->reals->length[i], np, 0);
        }
        NAME(accumulate)(sums, table, table_stride, bits.index + i * bits.stride,
                         NULL, bits.length[i], np, 0);
        if (!last) {
            EACH_CELL ((V *)(carry + p * stride + at))[q] = sums[p][q];
            continue;
        }
        /* (What is asked for is asked once for all panels.) */
        V x[GROUP][NV];
        EACH_CELL {
            sums[p][q] = sums[p][q] - change[p][q] * mu[i] - offset[p][q] * dv;
            pull[p][q] += sums[p][q] * mu[i];
        }
#define CELL(array) ((V *)((array) + p * stride + at) + q)
#define STEP(kept)                                                             \
    EACH_CELL {                                                                \
        const V w = *CELL(weights);                                            \
        V g = sums[p][q];                                                      \
        if (extras) {                                                          \
            const V old = w * decay;                                           \
            g -= old;                                                          \
            decayed[p][q] += old * mu[i];                                      \
            decay_drift[q] += old * offset[p][q];                              \
        }                                                                      \
        x[p][q] = NAME(step)(w, g, kept, rate, momentum, nesterov);            \
    }
        if (velocity) STEP(CELL(velocity)) else STEP(NULL)
#undef STEP
        if (shrinkage > 0) EACH_CELL {
            const V shrunk = NAME(shrink)(x[p][q], shrinkage);
            by[p][q] += (shrunk - x[p][q]) * mu[i];
            drift[q] += (shrunk - x[p][q]) * offset[p][q];
            x[p][q] = shrunk;
        }
        if (average && !capped) EACH_CELL
            NAME(enter)(x[p][q], CELL(average), mix, NULL, NULL);
        EACH_CELL *CELL(weights) = x[p][q];
        if (pairs && i % 2) EACH_CELL
            *((V *)(pairs + p * stride + i / 2 * PANEL_BYTES) + q) =
                *CELL(weights - PANEL_BYTES) + x[p][q];
        if (fast) EACH_CELL
            *CELL(u->fast) = NAME(follow)(*CELL(u->fast), sums[p][q], fast_rate);
        if (capped) EACH_CELL squares[p][q] += x[p][q] * x[p][q];
        if (fast && !capped) EACH_CELL
            NAME(enter)(x[p][q], NULL, mix, CELL(u->fast), CELL(u->with_fast));
#undef CELL
        if (extras && u->drift) {
            u->drift[2 * i] = NAME(lane_sum)(decay_drift);
            u->drift[2 * i + 1] = NAME(lane_sum)(drift);
        }
    }
    if (!last) return;
    if (capped) NAME(cap_norms)(u, np, squares, offset, by, u->max_norm, mix);
    for (int p = 0; p < np; p++)
        for (int q = 0; q < NV; q++) {
            const int k = p * NV + q;
            V *bias = (V *)u->hidden_bias + k;
            const V mean = ((const V *)u->data_total)[k];
            V g = change[p][q] - pull[p][q];
            V *f = fast ? (V *)u->hidden_fast + k : NULL;
            if (fast) *f = NAME(follow)(*f, g, fast_rate);
            g += decayed[p][q];
            if (u->sparsity_cost > 0)
                g += ((REAL)u->sparsity_target - mean) * (REAL)u->sparsity_cost;
            *bias = NAME(step)(
                *bias, g, u->velocity ? (V *)u->hidden_velocity + k : NULL,
                rate, momentum, nesterov) - by[p][q];
            NAME(enter)(
                *bias, u->hidden_average ? (V *)u->hidden_average + k : NULL, mix,
                f, fast ? (V *)u->hidden_with_fast + k : NULL);
            ((V *)u->next_offset)[k] = offset[p][q]
                + (mean - offset[p][q]) * (REAL)u->offset_rate;
        }
}

#undef EACH_CELL
#undef AHEAD

/* Step of the visible biases start..stop: the change of the mean less the
   centred weight gradient times the hidden offsets, and less what else has
   moved the weights times them. */
static void NAME(visible_step)(const VisibleUpdate *u, ptrdiff_t start,
                               ptrdiff_t stop)
{
    REAL *bias = u->bias, *velocity = u->velocity, *average = u->average;
    REAL *fast = u->fast, *with_fast = u->with_fast;
    const REAL *mu = u->offset;
    for (ptrdiff_t i = start; i < stop; i++) {
        const double change = u->changes[i];
        REAL g = (REAL)(change - (u->projections[i]
                                  - mu[i] * u->projected_change
                                  - change * u->squared_offset));
        double decayed = 0, by = 0;
        if (u->drift)
            for (ptrdiff_t p = 0; p < u->n_groups; p++) {
                decayed += u->drift[2 * (p * u->n_features + i)];
                by += u->drift[2 * (p * u->n_features + i) + 1];
            }
        if (fast) fast[i] = fast[i] * (REAL)FAST_DECAY + g * (REAL)u->fast_rate;
        g += (REAL)decayed;
        if (velocity) {
            const REAL gradient = g;
            g = velocity[i] = (REAL)u->momentum * velocity[i] + g;
            if (u->nesterov) g = gradient + g * (REAL)u->momentum;
        }
        bias[i] += (REAL)u->learning_rate * g - (REAL)by;
        if (average)
            average[i] += (bias[i] - average[i]) * (REAL)u->average_rate;
        if (fast) with_fast[i] = bias[i] + fast[i];
    }
}

/* update_group with any number of panels up to GROUP. */
APART void NAME(update_plainly)(const PanelUpdate *u, int n_panels)
{
    WITH_WIDTH(n_panels, NAME(update_group)(u, WIDTH, 0));
}

APART void NAME(update_with_extras)(const PanelUpdate *u, int n_panels)
{
    WITH_WIDTH(n_panels, NAME(update_group)(u, WIDTH, 1));
}

/* For at most GROUP panels: add up the gradient feature by feature from the
   lists of table entries (and from real rows), take out the offsets, and step;
   each weight is read and written once. */
static void NAME(update_panels)(const PanelUpdate *u, int n_panels)
{
    if (u->shrinkage > 0 || u->max_norm > 0 || u->nesterov || u->fast || u->drift
        || u->weight_decay > 0)
        NAME(update_with_extras)(u, n_panels);
    else
        NAME(update_plainly)(u, n_panels);
}

/* ---- The step of machines with other units, row by row ---- */

/* Step of a row of weights along its centred gradient. */
static void NAME(step_row)(RowUpdate *u)
{
    const REAL mu = (REAL)u->visible_offset, seen = (REAL)u->seen_offset;
    const REAL dv = (REAL)u->visible_change, decay = (REAL)u->weight_decay;
    const REAL rate = (REAL)u->learning_rate, momentum = (REAL)u->momentum;
    const REAL shrinkage = (REAL)u->shrinkage;
    const REAL pulled = (REAL)(u->seen_offset * u->rate_share);
    const V high = SPLAT((REAL)u->clip), low = -high;
    V projection[NV], shift[NV], product[NV];
    for (int q = 0; q < NV; q++)
        projection[q] = shift[q] = product[q] = SPLAT(0);
    for (ptrdiff_t p = 0; p < u->n_panels; p++)
        for (int q = 0; q < NV; q++) {
            const ptrdiff_t k = p * NV + q;
            V *w = (V *)u->weights + k;
            const V raw = ((const V *)u->gradient)[k];
            const V offset = ((const V *)u->hidden_offset)[k];
            const V apart = raw - ((const V *)u->hidden_change)[k] * mu;
            product[q] += *w * apart;
            V g = apart - offset * dv;
            if (u->clip > 0) {
                g = LARGER(low, SMALLER(high, g));
            }
            g = g - *w * decay;
            if (u->mask) g = g * ((const V *)u->mask)[k];
            ((V *)u->pull)[k] += g * pulled;
            projection[q] += g * offset;
            V x = NAME(step)(*w, g, u->velocity ? (V *)u->velocity + k : NULL,
                             rate, momentum, u->nesterov);
            if (shrinkage > 0) {
                const V shrunk = NAME(shrink)(x, shrinkage);
                ((V *)u->by)[k] += (shrunk - x) * seen;
                shift[q] += (shrunk - x) * offset;
                x = shrunk;
            }
            if (u->squares) ((V *)u->squares)[k] += x * x;
            *w = x;
        }
    u->projection = NAME(lane_sum)(projection);
    u->shift = NAME(lane_sum)(shift);
    u->product = NAME(lane_sum)(product);
}

/* Scale n_rows rows of n_panels panels, stride bytes apart, in place; their sum is
   added to total. */
static void NAME(share_rows)(char *rows, ptrdiff_t stride, ptrdiff_t n_rows,
                             ptrdiff_t n_panels, double scale, char *total)
{
    const REAL part = (REAL)scale;
    for (ptrdiff_t p = 0; p < n_panels; p++)
        for (int q = 0; q < NV; q++) {
            char *at = rows + p * PANEL_BYTES + q * sizeof(V);
            V *sum = (V *)(total + p * PANEL_BYTES) + q, x = *sum;
            for (ptrdiff_t r = 0; r < n_rows; r++) {
                V *y = (V *)(at + r * stride);
                *y = *y * part;
                x += *y;
            }
            *sum = x;
        }
}

/* Scale a row of weights, column by column. */
static void NAME(scale_row)(RowUpdate *u, const char *scale)
{
    const REAL seen = (REAL)u->seen_offset;
    V shift[NV];
    for (int q = 0; q < NV; q++) shift[q] = SPLAT(0);
    for (ptrdiff_t p = 0; p < u->n_panels; p++)
        for (int q = 0; q < NV; q++) {
            const ptrdiff_t k = p * NV + q;
            V *w = (V *)u->weights + k;
            const V x = *w * ((const V *)scale)[k], d = x - *w;
            ((V *)u->by)[k] += d * seen;
            shift[q] += d * ((const V *)u->hidden_offset)[k];
            *w = x;
        }
    u->shift += NAME(lane_sum)(shift);
}

/* A step of Adam: running means of n gradients and of their squares; parameters x move
   along the ratio.  (No array need be aligned.) */
static void NAME(adam)(char *x, const char *gradient, char *mean, char *square,
                       ptrdiff_t n, double rate, double mean_decay,
                       double square_decay, double epsilon)
{
    const REAL b1 = (REAL)mean_decay, b2 = (REAL)square_decay;
    const REAL c1 = (REAL)(1 - mean_decay), c2 = (REAL)(1 - square_decay);
    for (ptrdiff_t k = 0; k < n; k += LANES) {
        V p = SPLAT(0), g = SPLAT(0), m = SPLAT(0), s = SPLAT(0);
        const ptrdiff_t at = k * (ptrdiff_t)sizeof(REAL);
        const size_t rest = (size_t)(n - k) * sizeof(REAL);
        /* (The size of a whole vector is known when this is compiled.) */
#define TAKE(to, from) \
    (rest < sizeof(V) ? memcpy(to, from, rest) : memcpy(to, from, sizeof(V)))
        TAKE(&p, x + at);
        TAKE(&g, gradient + at);
        TAKE(&m, mean + at);
        TAKE(&s, square + at);
        m = m * b1 + g * c1;
        s = s * b2 + g * c2 * g;
        p -= m * (REAL)rate / (NAME(root)(s) + (REAL)epsilon);
        TAKE(mean + at, &m);
        TAKE(square + at, &s);
        TAKE(x + at, &p);
#undef TAKE
    }
}
