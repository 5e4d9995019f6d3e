/* Vector leaves: the innermost loops of the library, in plain C.

   A "panel" is 64 bytes of columns (16 floats or 8 doubles) of a matrix, all
   its rows one after the other: element (row i, column p * lanes + k) of a
   packed matrix is panels[p][i][k].  Every leaf works on whole panels.

   Here is what the kernels see of them.  The leaves themselves are in _leaves.h,
   which _leaves_all.h includes once for each (element type, instruction set);
   select_leaves picks the widest one that the processor has.  All of them do the
   same additions in the same order and let the compiler contract nothing, so they
   return the same bits (but for products with values of data, see _leaves.h); a
   compiler without GNU vector extensions gets the same code with "vectors" of one
   element.
*/
#ifndef SKLEARN_EBM_SIMD_H
#define SKLEARN_EBM_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PANEL_BYTES 64
/* How many panels share one reading of a list of active units. */
#define GROUP 4
/* Lists whose sums of wide rows are added up together, at most (see add_lists). */
#define MOST_LISTS 128
/* Rows of a linear factor model that are worked on together. */
#define FACTOR_ROWS 4
/* Rows that are scored together, at most. */
#define SCORED_ROWS 8
/* Weights up to this size leave room for a product of four factors exp(|weight|). */
#define LARGEST_TABULATED 20.0
/* After so many panels end_gains must be called. */
#define FLUSH_GAINS 32

/* What is left of fast parameters from one minibatch to the next. */
#define FAST_DECAY 0.95

/* Rows given by what is not zero in them: row r has length[r] entries, with
   units index[r * stride + k] in ascending order; or, if index is NULL, those of
   the length[r] bits that are set in bits[r * n_words ...].  value is NULL when every
   entry is 1, otherwise it holds the entries in the same places.  If it is NULL and
   words is not, they are the bits of the same rows, and may be used instead.  If dense
   is not NULL, there are no lists: it has all of the `stride` values of every row. */
typedef struct {
    uint32_t *index;
    const uint64_t *bits;
    void *value;
    int32_t *length;
    ptrdiff_t stride;
    const uint64_t *words;     /* n_words a row, of n_units bits */
    ptrdiff_t n_words, n_units;
    const void *dense;
} ActiveRows;
/* Rows of which sums are wanted, and where these go: those of panel p begin at
   out + p * out_stride. */
typedef struct {
    ActiveRows rows;
    ptrdiff_t n_rows;
    char *out;
    ptrdiff_t out_stride;
} RowSums;
/* Sets of rows that are summed together, at most: so they share a reading. */
#define MOST_SETS 2
/* What has changed in rows of units: row r has length[r] changes, of the units whose bits
   are set in words[r * n_words ...], by value[r * stride + k] of the k-th of them. */
typedef struct {
    uint64_t *words;
    void *value;
    int32_t *length;
    ptrdiff_t n_words, stride;
} Changes;
/* Length of a list that is not made: the row goes by words. */
#define NO_LIST INT32_MAX

/* The longest list that is used; rows with longer ones go by words.

   For a row by words one entry of a table is added for every four units, which takes four
   fifths of the time of one of a list, because tables stay in the nearest cache; but making
   the tables takes as long as adding 20 entries of lists for every four units, and pays for
   many rows only.  (Measured with 500 units and 10 and 100 rows, and with 1 784 units.) */
static inline int32_t longest_list(const ActiveRows *rows, ptrdiff_t n_rows)
{
    if (rows->value || !rows->words || rows->dense) return INT32_MAX;
    const double most = 0.2 * rows->n_units;
    double saved = 0;
    for (ptrdiff_t r = 0; r < n_rows; r++)
        if (rows->length[r] > most) saved += rows->length[r] - most;
    return saved > 5.0 * rows->n_units ? (int32_t)most : INT32_MAX;
}

/* One step of gradient ascent for a group of panels (see update_panels). */
typedef struct {
    ptrdiff_t n_features;      /* rows of the weight panels */
    ptrdiff_t panel_stride;    /* bytes between panels of weights */
    char *weights;             /* IN/OUT */
    char *pairs;               /* OUT sums of rows 2j and 2j + 1 of the weights, or NULL */
    char *velocity;            /* IN/OUT, NULL without momentum */
    char *average;             /* IN/OUT, NULL when none are entered into it */
    char *fast;                /* IN/OUT, NULL without fast weights */
    char *with_fast;           /* OUT, with `fast`: weights + fast weights */
    char *carry;               /* IN/OUT sums of earlier blocks, or NULL */
    const char *table;         /* subset sums of rows */
    ptrdiff_t table_stride;    /* bytes between panels of the table */
    const ActiveRows *bits;    /* per feature: entries of the table */
    /* Real data: per feature, (row, value) of what is not zero, where real_rows are
       panels real_stride bytes apart; or values of n_rows rows, value_stride elements
       apart, where those of a row in all panels are beside each other. */
    const ActiveRows *reals;
    const void *values;
    ptrdiff_t n_rows, value_stride;
    const char *real_rows;
    ptrdiff_t real_stride;
    int first, last;           /* block of the minibatch: start sums, step */
    const void *visible_offset;    /* per feature */
    const double *visible_change;
    /* Per panel: sums of the means over the rows of each phase, offsets and the next
       ones (OUT), biases (IN/OUT), and of these what the weights have. */
    const char *data_total, *chain_total, *hidden_offset;
    char *next_offset, *hidden_bias, *hidden_velocity, *hidden_average;
    char *hidden_fast, *hidden_with_fast;
    double learning_rate, momentum, weight_decay, offset_rate;
    double average_rate;       /* of the parameters in their averages */
    double shrinkage;          /* of the weights after the step */
    double max_norm;           /* of the weights of a unit; 0 for any */
    double sparsity_target, sparsity_cost;  /* of the hidden units' means */
    double fast_rate;
    int nesterov;
    /* OUT, per feature of these panels: what decay adds to the gradient of its
       bias, and what the bias is to give way by to shrinkage and cap; NULL where
       nothing but the gradient moves the weights, or nothing is centred. */
    double *drift;
} PanelUpdate;

/* The step of the visible biases (see visible_step). */
typedef struct {
    void *bias, *velocity, *average, *fast, *with_fast;  /* IN/OUT; NULL as above */
    const void *offset;
    const double *changes;     /* per feature */
    const double *projections; /* of them: rows counted by their h . offset */
    double projected_change;   /* change of the hidden means . offsets */
    double squared_offset;     /* offsets . offsets */
    double learning_rate, momentum, average_rate, fast_rate;
    int nesterov;
    const double *drift;       /* of n_groups groups of panels, or NULL */
    ptrdiff_t n_groups, n_features;
} VisibleUpdate;

/* The step of the weights of one visible unit (see step_row), a row of n_panels
   panels of which those of no hidden unit are zero. */
typedef struct {
    ptrdiff_t n_panels;
    const char *gradient;      /* data less model, not centred */
    char *weights, *velocity;  /* IN/OUT; velocity may be NULL */
    char *squares;             /* IN/OUT of every column, or NULL */
    const char *hidden_change, *hidden_offset;
    const char *mask;          /* 1 for hidden units it goes to, else 0, or NULL */
    char *pull, *by;           /* IN/OUT: what hidden biases give way by */
    double visible_change, visible_offset;
    double seen_offset;        /* visible_offset as hidden units see it */
    double rate_share;         /* of the learning rate of the hidden biases */
    double learning_rate, momentum, weight_decay, shrinkage;
    double clip;               /* of the gradient; 0 for none */
    int nesterov;
    /* OUT: of this row with the hidden offsets, its gradient (decay included)
       and what shrinkage or cap did; weights . gradient, of which only the visible
       offset is taken out. */
    double projection, shift, product;
} RowUpdate;

/* A lasso problem over n coordinates: min |x - W h|^2 / 2 + alpha |h|_1. */
typedef struct {
    ptrdiff_t n, n_panels;     /* n_panels hold n coordinates */
    double *gram;              /* W'W, (n, n_panels) panel rows */
    double *diagonal;          /* its diagonal, > 0 */
    double *correlation;       /* W'x */
    double *residual;          /* IN/OUT n_panels: W'(x - W h) */
    double *code;              /* IN/OUT h */
    double squared_norm;       /* x'x */
    double alpha;
    int positive;              /* h >= 0 */
    ptrdiff_t most;            /* coordinates that are solved for at once */
    double *factor, *solution; /* room for most (most + 1) numbers, and most */
    uint32_t *support;         /* and most */
} Descent;

/* Kinds of the densities of sources (see _leaves_sources.h). */
enum { TANH_SOURCE, HYPERBOLIC_SOURCE, STUDENT_SOURCE };

/* The leaves of one element type for one instruction set. */
typedef struct {
    const char *name;
    int itemsize, lanes;
    int slab; /* panels of a matrix that add_lists reads together */
    void (*sum_active)(const RowSums *, int, const char *, ptrdiff_t, int,
                       const char *, ptrdiff_t);
    void (*both_means)(const char *, char *, char *, ptrdiff_t);
    void (*logistic)(char *, ptrdiff_t);
    void (*bernoulli)(const char *, ptrdiff_t, uint32_t, uint64_t, uint64_t,
                      uint32_t, uint32_t, uint16_t *, char *, ptrdiff_t);
    void (*transpose)(const char *, ptrdiff_t, char *, ptrdiff_t);
    void (*pack)(const char *, ptrdiff_t, ptrdiff_t, char *);
    void (*unpack)(const char *, ptrdiff_t, char *, ptrdiff_t);
    void (*subset_sums)(const char *, ptrdiff_t, double, char *, char *);
    void (*pair_sums)(const char *, ptrdiff_t, char *);
    void (*scale_rows)(const char *, ptrdiff_t, double, char *, ptrdiff_t, char *);
    void (*project)(const char *, ptrdiff_t, ptrdiff_t, ptrdiff_t,
                    const char *, double *);
    void (*weigh_rows)(const void *, ptrdiff_t, ptrdiff_t, const double *, double,
                       ptrdiff_t, ptrdiff_t, double *);
    void (*feature_sums)(const ActiveRows *, const ActiveRows *, const double *,
                         const double *, ptrdiff_t, ptrdiff_t, int, double *);
    void (*update_panels)(const PanelUpdate *, int);
    void (*visible_step)(const VisibleUpdate *, ptrdiff_t, ptrdiff_t);
    void (*nonzero_bits)(const char *, ptrdiff_t, uint64_t *);
    int (*enter_range)(const void *, ptrdiff_t, double *, double *, int *);
    void (*temper)(char *, ptrdiff_t, const char *, const double *);
    void (*gain)(char *, ptrdiff_t, const char *, const double *,
                 const double *, int, char *);
    void (*start_gains)(char *, ptrdiff_t);
    void (*end_gains)(char *, ptrdiff_t, double *);
    double (*softplus_sum)(const char *, ptrdiff_t, ptrdiff_t);
    void (*flip_logits)(const char *, const char *, ptrdiff_t, const char *,
                        const char *, ptrdiff_t, ptrdiff_t, const uint64_t *,
                        const void *, ptrdiff_t, double, double *);
    void (*shift_logits)(const char *, ptrdiff_t, const char *, ptrdiff_t, ptrdiff_t,
                         const void *, int, ptrdiff_t, double *);
    void (*uniforms)(char *, ptrdiff_t, uint64_t, uint64_t, uint32_t, uint32_t);
    void (*normals)(char *, ptrdiff_t, uint64_t, uint64_t, uint32_t, uint32_t);
    void (*exponential)(char *, ptrdiff_t);
    void (*counts)(char *, const char *, ptrdiff_t);
    void (*rectified_means)(char *, ptrdiff_t);
    void (*rectified_logs)(char *, ptrdiff_t);
    void (*rectified_draws)(char *, ptrdiff_t, uint64_t, uint64_t, uint32_t, uint32_t,
                            ptrdiff_t, ptrdiff_t);
    void (*step_row)(RowUpdate *);
    void (*share_rows)(char *, ptrdiff_t, ptrdiff_t, ptrdiff_t, double, char *);
    void (*scale_row)(RowUpdate *, const char *);
    int32_t (*list_changes)(const char *, char *, ptrdiff_t, double, uint64_t *, void *,
                            double *);
    void (*multiply)(int, int, ptrdiff_t, ptrdiff_t, ptrdiff_t, double, const void *,
                     ptrdiff_t, const void *, ptrdiff_t, double, void *, ptrdiff_t);
    void (*multiply_list)(const uint32_t *, const void *, int32_t, ptrdiff_t,
                          const void *, ptrdiff_t, void *);
    int32_t (*count_bits)(const uint64_t *, ptrdiff_t);
    int32_t (*list_bits)(const uint64_t *, ptrdiff_t, uint32_t *);
    int32_t (*list_pairs)(const uint64_t *, ptrdiff_t, uint32_t, uint32_t *);
    void (*list_groups)(const uint64_t *, ptrdiff_t, ptrdiff_t, ptrdiff_t, uint32_t, int,
                        uint32_t *, ptrdiff_t, int32_t *, double, double *);
    double (*gap)(const double *, const double *, const double *, ptrdiff_t,
                  double, double, int);
    int (*descend)(const Descent *, double, int, int *);
    double (*class_means)(const char *, const char *, ptrdiff_t, char *);
    void (*add_lists)(const ActiveRows *, ptrdiff_t, const char *, ptrdiff_t,
                      ptrdiff_t, char *, ptrdiff_t);
    void (*add_changes)(const Changes *, ptrdiff_t, const char *, ptrdiff_t,
                        ptrdiff_t, char *, ptrdiff_t);
    void (*add_scaled)(const char *, double, ptrdiff_t, char *);
    void (*ascend)(char *, const char *, char *, char *, ptrdiff_t, double,
                   double, double, double);
    void (*adam)(char *, const char *, char *, char *, ptrdiff_t, double, double,
                 double, double);
    void (*sources)(int, const char *, ptrdiff_t, const char *, ptrdiff_t, ptrdiff_t,
                    char *, char *, char *, double *);
    /* Of double precision only. */
    double (*deviate)(const void *, const void *, const void *, ptrdiff_t, void *);
    void (*turn_factors)(const void *, ptrdiff_t, ptrdiff_t, void *);
    void (*explain)(const void *, ptrdiff_t, const void *, const void *, ptrdiff_t,
                    const char *, ptrdiff_t, void *, double *);
} Leaves;

/* ---- Philox4x32: Salmon et al. 2011, "Parallel random numbers: as easy as
   1, 2, 3".  Seven rounds pass the standard batteries. ---- */
#define PHILOX_ROUNDS 7
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

static inline void philox4x32(uint32_t x[4], uint64_t key, int rounds)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int i = 0; i < rounds; i++) {
        uint64_t a = (uint64_t)PHILOX_M0 * x[0];
        uint64_t b = (uint64_t)PHILOX_M1 * x[2];
        uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ k0;
        uint32_t y2 = (uint32_t)(a >> 32) ^ x[3] ^ k1;
        x[0] = y0; x[1] = (uint32_t)b; x[2] = y2; x[3] = (uint32_t)a;
        k0 += PHILOX_W0; k1 += PHILOX_W1;
    }
}

/* The counter of a draw is (column, row, step, purpose); a step has 56 bits. */
/* What is added to a purpose for other numbers of the same row. */
#define PURPOSE_REFINE 0x80u
#define PURPOSE_NORMAL 0x40u
#define PURPOSE_RECTIFIED 0x20u
#define COUNTER_STEP(step) ((uint32_t)(step))
#define COUNTER_PURPOSE(step, purpose) \
    (((uint32_t)(purpose) << 24) | ((uint32_t)((step) >> 32) & 0xFFFFFFu))

/* The 128 bits of a draw, as four words. */
static inline void random_words(uint32_t x[4], uint32_t column, uint32_t row,
                                uint64_t step, uint32_t purpose, uint64_t key)
{
    x[0] = column; x[1] = row;
    x[2] = COUNTER_STEP(step); x[3] = COUNTER_PURPOSE(step, purpose);
    philox4x32(x, key, PHILOX_ROUNDS);
}

/* 32 more bits for a unit whose 16-bit draw ties with its probability. */
static inline double philox_refine(uint64_t key, uint64_t step,
                                   uint32_t purpose, uint32_t row,
                                   uint32_t column)
{
    uint32_t x[4];
    random_words(x, column, row, step, purpose | PURPOSE_REFINE, key);
    return x[0] * 0x1p-32;
}

static inline void fetch(const char *at)
{
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(at);
#else
    (void)at;
#endif
}

static inline int lowest_bit(uint64_t word)
{
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctzll(word);
#else
    int k = 0;
    while (!(word & 1)) { word >>= 1; k++; }
    return k;
#endif
}

#endif
