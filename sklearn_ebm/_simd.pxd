# The vector leaves and the random bits (_simd.h) as Cython sees them.
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t

cdef extern from "_simd.h" nogil:
    enum:
        PANEL_BYTES
        GROUP
        MOST_SETS
        FACTOR_ROWS
        PHILOX_ROUNDS
        FLUSH_GAINS
        SCORED_ROWS
        NO_LIST
        TANH_SOURCE
        HYPERBOLIC_SOURCE
        STUDENT_SOURCE

    double LARGEST_TABULATED

    ctypedef struct ActiveRows:
        uint32_t *index
        const uint64_t *bits
        void *value
        int32_t *length
        Py_ssize_t stride
        const uint64_t *words
        Py_ssize_t n_words
        Py_ssize_t n_units
        const void *dense

    ctypedef struct RowSums:
        ActiveRows rows
        Py_ssize_t n_rows
        char *out
        Py_ssize_t out_stride

    ctypedef struct Changes:
        uint64_t *words
        void *value
        int32_t *length
        Py_ssize_t n_words
        Py_ssize_t stride

    ctypedef struct PanelUpdate:
        Py_ssize_t n_features
        Py_ssize_t panel_stride
        char *weights
        char *pairs
        char *velocity
        char *average
        char *fast
        char *with_fast
        char *carry
        const char *table
        Py_ssize_t table_stride
        const ActiveRows *bits
        const ActiveRows *reals
        const void *values
        Py_ssize_t n_rows
        Py_ssize_t value_stride
        const char *real_rows
        Py_ssize_t real_stride
        bint first
        bint last
        const void *visible_offset
        const double *visible_change
        const char *data_total
        const char *chain_total
        const char *hidden_offset
        char *next_offset
        char *hidden_bias
        char *hidden_velocity
        char *hidden_average
        char *hidden_fast
        char *hidden_with_fast
        double learning_rate
        double momentum
        double weight_decay
        double offset_rate
        double average_rate
        double shrinkage
        double max_norm
        double sparsity_target
        double sparsity_cost
        double fast_rate
        bint nesterov
        double *drift

    ctypedef struct VisibleUpdate:
        void *bias
        void *velocity
        void *average
        void *fast
        void *with_fast
        const void *offset
        const double *changes
        const double *projections
        double projected_change
        double squared_offset
        double learning_rate
        double momentum
        double average_rate
        double fast_rate
        bint nesterov
        const double *drift
        Py_ssize_t n_groups
        Py_ssize_t n_features

    ctypedef struct RowUpdate:
        Py_ssize_t n_panels
        const char *gradient
        char *weights
        char *velocity
        char *squares
        const char *hidden_change
        const char *hidden_offset
        const char *mask
        char *pull
        char *by
        double visible_change
        double visible_offset
        double seen_offset
        double rate_share
        double learning_rate
        double momentum
        double weight_decay
        double shrinkage
        double clip
        bint nesterov
        double projection
        double shift
        double product

    ctypedef struct Descent:
        Py_ssize_t n
        Py_ssize_t n_panels
        double *gram
        double *diagonal
        double *correlation
        double *residual
        double *code
        double squared_norm
        double alpha
        bint positive
        Py_ssize_t most
        double *factor
        double *solution
        uint32_t *support

    ctypedef struct Leaves:
        const char *name
        int itemsize
        int lanes
        int slab
        void (*sum_active)(
            const RowSums *sets, int n_sets, const char *panels, Py_ssize_t stride,
            int n_panels, const char *bias, Py_ssize_t bias_stride,
        ) noexcept nogil
        void (*both_means)(
            const char *fields, char *on, char *off, Py_ssize_t n
        ) noexcept nogil
        void (*logistic)(char *fields, Py_ssize_t n) noexcept nogil
        void (*bernoulli)(
            const char *means, Py_ssize_t n_rows, uint32_t panel, uint64_t key,
            uint64_t step, uint32_t row0, uint32_t purpose, uint16_t *draws,
            char *bits, Py_ssize_t stride,
        ) noexcept nogil
        void (*transpose)(
            const char *source, Py_ssize_t stride, char *to, Py_ssize_t n_panels
        ) noexcept nogil
        void (*pack)(
            const char *columns, Py_ssize_t stride, Py_ssize_t n_squares, char *panel
        ) noexcept nogil
        void (*unpack)(
            const char *panel, Py_ssize_t n_squares, char *columns, Py_ssize_t stride
        ) noexcept nogil
        void (*subset_sums)(
            const char *rows, Py_ssize_t n, double scale, char *table, char *total
        ) noexcept nogil
        void (*pair_sums)(
            const char *rows, Py_ssize_t n_pairs, char *sums
        ) noexcept nogil
        void (*scale_rows)(
            const char *rows, Py_ssize_t n, double scale, char *scaled,
            Py_ssize_t stride, char *total,
        ) noexcept nogil
        void (*project)(
            const char *rows, Py_ssize_t stride, Py_ssize_t n_rows,
            Py_ssize_t n_panels, const char *direction, double *out,
        ) noexcept nogil
        void (*weigh_rows)(
            const void *values, Py_ssize_t stride, Py_ssize_t n_rows,
            const double *weights, double scale, Py_ssize_t start, Py_ssize_t stop,
            double *sums,
        ) noexcept nogil
        void (*feature_sums)(
            const ActiveRows *groups, const ActiveRows *reals,
            const double *entries, const double *rows, Py_ssize_t start,
            Py_ssize_t stop, bint first, double *sums,
        ) noexcept nogil
        void (*update_panels)(const PanelUpdate *update, int n_panels) noexcept nogil
        void (*visible_step)(
            const VisibleUpdate *update, Py_ssize_t start, Py_ssize_t stop
        ) noexcept nogil
        void (*nonzero_bits)(
            const char *values, Py_ssize_t n, uint64_t *words
        ) noexcept nogil
        bint (*enter_range)(
            const void *values, Py_ssize_t n, double *low, double *high, bint *finite
        ) noexcept nogil
        void (*temper)(
            char *fields, Py_ssize_t n, const char *base, const double *betas
        ) noexcept nogil
        void (*gain)(
            char *fields, Py_ssize_t n_rows, const char *base,
            const double *start, const double *stop, bint means, char *gains,
        ) noexcept nogil
        void (*start_gains)(char *gains, Py_ssize_t n_rows) noexcept nogil
        void (*end_gains)(
            char *gains, Py_ssize_t n_rows, double *total
        ) noexcept nogil
        double (*softplus_sum)(
            const char *fields, Py_ssize_t stride, Py_ssize_t n_panels
        ) noexcept nogil
        void (*flip_logits)(
            const char *on, const char *off, Py_ssize_t n_rows, const char *up,
            const char *down, Py_ssize_t stride, Py_ssize_t n_features,
            const uint64_t *bits, const void *values, Py_ssize_t n_units,
            double largest, double *logits,
        ) noexcept nogil
        void (*shift_logits)(
            const char *fields, Py_ssize_t n_rows, const char *weights,
            Py_ssize_t stride, Py_ssize_t n_features, const void *values, bint rest,
            Py_ssize_t n_panels, double *logits,
        ) noexcept nogil
        int32_t (*count_bits)(const uint64_t *words, Py_ssize_t n_words) noexcept nogil
        int32_t (*list_bits)(
            const uint64_t *words, Py_ssize_t n_words, uint32_t *index
        ) noexcept nogil
        int32_t (*list_pairs)(
            const uint64_t *words, Py_ssize_t n_words, uint32_t first_pair,
            uint32_t *index,
        ) noexcept nogil
        void (*list_groups)(
            const uint64_t *bits, Py_ssize_t n_rows, Py_ssize_t n_words,
            Py_ssize_t word, uint32_t first, bint every, uint32_t *index,
            Py_ssize_t stride, int32_t *length, double share, double *sums,
        ) noexcept nogil
        double (*gap)(
            const double *correlation, const double *residual,
            const double *code, Py_ssize_t n, double squared_norm, double alpha,
            bint positive,
        ) noexcept nogil
        int (*descend)(
            const Descent *problem, double target, int most, bint *stalled
        ) noexcept nogil

        void (*uniforms)(
            char *out, Py_ssize_t n_panels, uint64_t key, uint64_t step,
            uint32_t row, uint32_t purpose,
        ) noexcept nogil
        void (*normals)(
            char *out, Py_ssize_t n_panels, uint64_t key, uint64_t step,
            uint32_t row, uint32_t purpose,
        ) noexcept nogil
        void (*exponential)(char *values, Py_ssize_t n) noexcept nogil
        void (*counts)(char *means, const char *uniforms, Py_ssize_t n) noexcept nogil
        void (*rectified_means)(char *fields, Py_ssize_t n) noexcept nogil
        void (*rectified_logs)(char *fields, Py_ssize_t n) noexcept nogil
        void (*rectified_draws)(
            char *fields, Py_ssize_t n_panels, uint64_t key, uint64_t step,
            uint32_t row, uint32_t purpose, Py_ssize_t first, Py_ssize_t stride,
        ) noexcept nogil
        void (*step_row)(RowUpdate *update) noexcept nogil
        void (*share_rows)(
            char *rows, Py_ssize_t stride, Py_ssize_t n_rows, Py_ssize_t n_panels,
            double scale, char *total,
        ) noexcept nogil
        void (*scale_row)(RowUpdate *update, const char *scale) noexcept nogil
        int32_t (*list_changes)(
            const char *means, char *told, Py_ssize_t n_panels, double least,
            uint64_t *words, void *value, double *most,
        ) noexcept nogil
        # These two are NULL where BLAS is better.
        void (*multiply)(
            int a_turned, int b_turned, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
            double alpha, const void *a, Py_ssize_t a_stride, const void *b,
            Py_ssize_t b_stride, double beta, void *c, Py_ssize_t c_stride,
        ) noexcept nogil
        void (*multiply_list)(
            const uint32_t *index, const void *value, int32_t length, Py_ssize_t n,
            const void *b, Py_ssize_t b_stride, void *c,
        ) noexcept nogil
        double (*class_means)(
            const char *fields, const char *label, Py_ssize_t n_panels, char *means
        ) noexcept nogil
        void (*add_lists)(
            const ActiveRows *lists, Py_ssize_t n, const char *rows,
            Py_ssize_t stride, Py_ssize_t n_panels, char *out, Py_ssize_t out_stride,
        ) noexcept nogil
        void (*add_changes)(
            const Changes *changes, Py_ssize_t n, const char *rows,
            Py_ssize_t stride, Py_ssize_t n_panels, char *out, Py_ssize_t out_stride,
        ) noexcept nogil
        void (*add_scaled)(
            const char *source, double scale, Py_ssize_t n, char *to
        ) noexcept nogil
        void (*ascend)(
            char *x, const char *g, char *velocity, char *average, Py_ssize_t n,
            double rate, double momentum, double decay, double mix,
        ) noexcept nogil
        void (*adam)(
            char *x, const char *gradient, char *mean, char *square, Py_ssize_t n,
            double rate, double mean_decay, double square_decay, double epsilon,
        ) noexcept nogil
        void (*sources)(
            int kind, const char *shape, Py_ssize_t width, const char *y,
            Py_ssize_t n_rows, Py_ssize_t stride, char *score, char *slope,
            char *square, double *energy,
        ) noexcept nogil
        # Of double precision only.
        double (*deviate)(
            const void *x, const void *mean, const void *scale, Py_ssize_t n,
            void *out,
        ) noexcept nogil
        void (*turn_factors)(
            const void *factors, Py_ssize_t n_factors, Py_ssize_t n, void *turned,
        ) noexcept nogil
        void (*explain)(
            const void *rows, Py_ssize_t n, const void *loadings, const void *root,
            Py_ssize_t n_factors, const char *next, Py_ssize_t share, void *room,
            double *squares,
        ) noexcept nogil

    void fetch(const char *at)
    int lowest_bit(uint64_t word)
    void philox4x32(uint32_t *x, uint64_t key, int rounds)
    void random_words(
        uint32_t *x, uint32_t column, uint32_t row, uint64_t step, uint32_t purpose,
        uint64_t key,
    )


cdef const Leaves *select_leaves(int itemsize) noexcept nogil


cdef inline Py_ssize_t n_panels_of(
    Py_ssize_t n_columns, const Leaves *leaves
) noexcept nogil:
    """Panels that hold so many columns."""
    return (n_columns + leaves.lanes - 1) // leaves.lanes


# Numbers in double precision of which sums over units are made at once, on the stack:
# one logarithm is enough for all.
cdef enum:
    MOST_DOUBLES = 64
    DOUBLES_BYTES = 8 * MOST_DOUBLES + PANEL_BYTES


cdef double *doubles_room(char *memory) noexcept nogil
cdef double softplus_of(const Leaves *leaves, double *x, int n) noexcept nogil
