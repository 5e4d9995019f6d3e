/* Sources of independent component analysis: energies and their derivatives.
   Included by _leaves.h, which defines V, NAME, ... */
/* ---- Sources ---- */

#define FLUSH_ROWS 64 /* rows between two look-ups of a logarithm */

/* What a vector of sources gives at y: the energy is linear + weight log(factor),
   without its constant, where only the kind and the shape say what weight is. */
typedef struct {
    V score, slope, linear, factor;
} NAME(Source);

/* E' = k + a x + s tanh(c x / 2) at x = y + shift, of which the logistic density and
   mixtures of two Gaussians are cases. */
INLINE NAME(Source) NAME(tanh_source)(V y, V c, V s, V a, V shift, V k)
{
    NAME(Source) at;
    const V x = y + shift, size = SELECT(x < SPLAT(0), -x, x);
    const V e = NAME(exp_minus_abs)(size * c), d = e + (REAL)1;
    const V inverse = (REAL)1 / d, t = ((REAL)1 - e) * inverse;
    at.score = k + a * x + s * SELECT(x < SPLAT(0), -t, t);
    at.slope = a + s * c * (e * inverse * inverse) * (REAL)2;
    at.linear = (k + a * x * (REAL)0.5) * x + s * size;
    at.factor = d;
    return at;
}

/* E = sqrt(y^2 + tip^2) */
INLINE NAME(Source) NAME(hyperbolic_source)(V y, V tip)
{
    NAME(Source) at;
    const V radius = NAME(root)(y * y + tip * tip), inverse = (REAL)1 / radius;
    const V cosine = tip * inverse;
    at.score = y * inverse;
    at.slope = cosine * cosine * inverse;
    at.linear = radius;
    at.factor = SPLAT(1);
    return at;
}

/* E = (df + 1) / 2 log(1 + y^2 / df) */
INLINE NAME(Source) NAME(student_source)(V y, V df)
{
    NAME(Source) at;
    const V square = y * y, inverse = (REAL)1 / (df + square);
    const V by = (df + (REAL)1) * inverse;
    at.score = by * y;
    at.slope = by * inverse * (df - square);
    at.linear = SPLAT(0);
    at.factor = (REAL)1 + square / df;
    return at;
}

/* One vector of columns of `sources`; kind is a constant. */
INLINE void NAME(source_columns)(const int kind, const REAL *shape,
                                 ptrdiff_t width, const char *y,
                                 ptrdiff_t n_rows, ptrdiff_t stride, char *score,
                                 char *slope, char *square, double *energy)
{
    V c[5];
    for (int i = 0; i < 5; i++) memcpy(&c[i], shape + i * width, sizeof c[i]);
    for (ptrdiff_t r0 = 0; r0 < n_rows; r0 += FLUSH_ROWS) {
        V sum = SPLAT(0), product = SPLAT(1);
        IV exponent = AS_INT(SPLAT(0));
        ptrdiff_t n = n_rows - r0 < FLUSH_ROWS ? n_rows - r0 : FLUSH_ROWS;
        for (ptrdiff_t r = r0; r < r0 + n; r++) {
            const V x = *(const V *)(y + r * stride);
            const NAME(Source) at =
                kind == TANH_SOURCE
                ? NAME(tanh_source)(x, c[0], c[1], c[2], c[3], c[4])
                : kind == STUDENT_SOURCE ? NAME(student_source)(x, c[0])
                                         : NAME(hyperbolic_source)(x, c[0]);
            *(V *)(score + r * stride) = at.score;
            *(V *)(slope + r * stride) = at.slope;
            *(V *)(square + r * stride) = x * x;
            sum += at.linear;
            if (kind == HYPERBOLIC_SOURCE) continue;
            /* Mantissa and exponent of the product of all factors. */
            product *= at.factor;
            NAME(take_exponent)(&product, &exponent);
        }
        for (int k = 0; k < LANES; k++) {
            const double weight =
                kind == TANH_SOURCE ? 2 * (double)shape[width + k] / (double)shape[k]
                : kind == STUDENT_SOURCE ? ((double)shape[k] + 1) / 2 : 0;
            const double twos = (double)((const INT *)&exponent)[k]
                - (double)EXPONENT_ONE * (double)n;
            energy[k] += (double)((const REAL *)&sum)[k];
            if (weight != 0)
                energy[k] += weight * (log((double)((const REAL *)&product)[k])
                                       + 0.69314718055994530942 * twos);
        }
    }
}

/* Columns of sources of one kind, a panel of them in n_rows rows of y, `stride`
   bytes apart: the derivatives of their energies and y^2, laid out as y is;
   energies without their constants are added to `energy`, by columns.
   shape: what the kind takes, for each column, in rows of `width` numbers. */
static void NAME(sources)(int kind, const char *shape, ptrdiff_t width,
                          const char *y, ptrdiff_t n_rows, ptrdiff_t stride,
                          char *score, char *slope, char *square, double *energy)
{
    for (int q = 0; q < NV; q++) {
        const ptrdiff_t at = q * (ptrdiff_t)sizeof(V);
        const REAL *own = (const REAL *)(shape + at);
        double *sum = energy + q * LANES;
#define COLUMNS(kind)                                                          \
    NAME(source_columns)(kind, own, width, y + at, n_rows, stride, score + at, \
                         slope + at, square + at, sum)
        if (kind == TANH_SOURCE) COLUMNS(TANH_SOURCE);
        else if (kind == STUDENT_SOURCE) COLUMNS(STUDENT_SOURCE);
        else COLUMNS(HYPERBOLIC_SOURCE);
#undef COLUMNS
    }
}
#undef FLUSH_ROWS
