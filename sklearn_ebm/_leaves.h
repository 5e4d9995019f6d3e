/* The vector leaves of one element type for one instruction set.

   Included by _leaves_all.h with ISA (a name), VB (bytes in a vector) and DOUBLE (0
   or 1) defined; says what a vector is, and includes the leaves themselves from
   the files beside it.  Sums over active units run in ascending order into a single
   accumulator per column, so every path (lists, weighted lists, any number of
   panels at a time, any vector width) gives the same bits.  Only where weights are
   multiplied by values of data has the base, without fused multiplication, others.
*/
#if DOUBLE
#define TYPE f64
#define REAL double
#define INT int64_t
#define SIGN_BIT INT64_MIN
#define MANTISSA_BITS 52
#define EXPONENT_ONE 1023
#define ROUND_MAGIC 0x1.8p52
#define EXP_LIMIT 708.0
#else
#define TYPE f32
#define REAL float
#define INT int32_t
#define SIGN_BIT INT32_MIN
#define MANTISSA_BITS 23
#define EXPONENT_ONE 127
#define ROUND_MAGIC 0x1.8p23f
#define EXP_LIMIT 87.0f
#endif

#define PANEL_LANES ((int)(PANEL_BYTES / sizeof(REAL)))

#ifdef VECTORS
#define INLINE static inline __attribute__((always_inline))
/* Of its own, so that its loops share registers with no others. */
#define APART static __attribute__((noinline))
#define VECTOR_BYTES VB
typedef REAL NAME(vec) __attribute__((vector_size(VB), may_alias));
typedef INT NAME(ivec) __attribute__((vector_size(VB), may_alias));
typedef uint64_t NAME(uvec) __attribute__((vector_size(VB), may_alias));
typedef uint16_t NAME(half) __attribute__((
    vector_size(2 * VB / sizeof(REAL)), aligned(2), may_alias));
#define V NAME(vec)
#define IV NAME(ivec)
#define UV NAME(uvec)
#define SELECT(mask, a, b) ((V)(((IV)(mask) & (IV)(a)) | (~(IV)(mask) & (IV)(b))))
#define SPLAT(x) ((V){0} + (x))
#define AS_INT(x) ((IV)(x))
#define AS_REAL(x) ((V)(x))
/* a b + c rounded once, where that is as fast as a product; x in every element. */
#if defined(X86) && VB == 64
#define FUSED(a, b, c) (DOUBLE \
    ? (V)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)) \
    : (V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define SPREAD(x) (DOUBLE ? (V)_mm512_set1_pd((double)(x)) \
                          : (V)_mm512_set1_ps((float)(x)))
#elif defined(X86) && VB == 32
#define FUSED(a, b, c) (DOUBLE \
    ? (V)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)) \
    : (V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define SPREAD(x) (DOUBLE ? (V)_mm256_set1_pd((double)(x)) \
                          : (V)_mm256_set1_ps((float)(x)))
#endif
#if defined(X86) && VB == 64
#define MULTIPLY_LOW(a, b) ((UV)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#define SMALLER(a, b) (DOUBLE ? (V)_mm512_min_pd((__m512d)(a), (__m512d)(b)) \
                              : (V)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define LARGER(a, b) (DOUBLE ? (V)_mm512_max_pd((__m512d)(a), (__m512d)(b)) \
                             : (V)_mm512_max_ps((__m512)(a), (__m512)(b)))
#elif defined(X86) && VB == 32
#define MULTIPLY_LOW(a, b) ((UV)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define SMALLER(a, b) (DOUBLE ? (V)_mm256_min_pd((__m256d)(a), (__m256d)(b)) \
                              : (V)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define LARGER(a, b) (DOUBLE ? (V)_mm256_max_pd((__m256d)(a), (__m256d)(b)) \
                             : (V)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define MASK_BITS(m) (DOUBLE ? (uint32_t)_mm256_movemask_pd((__m256d)(m)) \
                             : (uint32_t)_mm256_movemask_ps((__m256)(m)))
#elif defined(X86)
#define MULTIPLY_LOW(a, b) ((UV)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#define SMALLER(a, b) (DOUBLE ? (V)_mm_min_pd((__m128d)(a), (__m128d)(b)) \
                              : (V)_mm_min_ps((__m128)(a), (__m128)(b)))
#define LARGER(a, b) (DOUBLE ? (V)_mm_max_pd((__m128d)(a), (__m128d)(b)) \
                             : (V)_mm_max_ps((__m128)(a), (__m128)(b)))
#define MASK_BITS(m) (DOUBLE ? (uint32_t)_mm_movemask_pd((__m128d)(m)) \
                             : (uint32_t)_mm_movemask_ps((__m128)(m)))
#else
#define MULTIPLY_LOW(a, b) (((a) & 0xFFFFFFFFu) * ((b) & 0xFFFFFFFFu))
#define MASK_BITS(m) NAME(mask_bits)((IV)(m))
#endif
/* In which elements a is LT (less), LE or NE (not equal) b, as bits.  (Masks of
   AVX-512 are bits; a compiler does not see that it could leave out the detour.) */
#if defined(X86) && VB == 64
#define BITS_WHERE(a, how, b) (DOUBLE                                         \
    ? (uint32_t)_mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), PREDICATE_##how) \
    : (uint32_t)_mm512_cmp_ps_mask((__m512)(a), (__m512)(b), PREDICATE_##how))
#define FROM_U16(p) (DOUBLE \
    ? (V)_mm512_cvtepi32_pd(_mm256_cvtepu16_epi32( \
          _mm_loadu_si128((const __m128i *)(p)))) \
    : (V)_mm512_cvtepi32_ps(_mm512_cvtepu16_epi32( \
          _mm256_loadu_si256((const __m256i *)(p)))))
#else
#define BITS_WHERE(a, how, b) MASK_BITS((a) OPERATOR_##how (b))
#define FROM_U16(p) __builtin_convertvector(*(const NAME(half) *)(p), V)
#endif
#else /* one element is a vector */
#define INLINE static inline
#define APART static
#define VECTOR_BYTES sizeof(REAL)
#define V REAL
#define IV INT
#define UV uint64_t
#define SELECT(mask, a, b) ((mask) ? (a) : (b))
#define SPLAT(x) ((REAL)(x))
INLINE INT NAME(as_int)(REAL x) { INT y; memcpy(&y, &x, sizeof y); return y; }
INLINE REAL NAME(as_real)(INT x) { REAL y; memcpy(&y, &x, sizeof y); return y; }
#define AS_INT(x) NAME(as_int)(x)
#define AS_REAL(x) NAME(as_real)(x)
#define FROM_U16(p) ((REAL) * (p))
#define MULTIPLY_LOW(a, b) (((a) & 0xFFFFFFFFu) * ((b) & 0xFFFFFFFFu))
#define BITS_WHERE(a, how, b) ((uint32_t)((a) OPERATOR_##how (b)))
#endif

/* sum + a x for a number x. */
#ifdef FUSED
#define PLUS_PRODUCT(sum, a, x) FUSED(a, SPREAD(x), sum)
#else
#define PLUS_PRODUCT(sum, a, x) ((sum) + (a) * (x))
#endif

/* The smaller and the larger number; b where they are equal or one is none. */
#ifndef SMALLER
#define SMALLER(a, b) SELECT((a) < (b), a, b)
#define LARGER(a, b) SELECT((a) > (b), a, b)
#endif

/* Vectors in a panel's row, elements in a vector, 64-bit words in a vector. */
#define NV ((int)(PANEL_BYTES / VECTOR_BYTES))
#define LANES ((int)(VECTOR_BYTES / sizeof(REAL)))
#define WORDS ((int)(sizeof(UV) / 8))
/* Panels whose sums stay in registers together. */
#define SLAB (8 * VECTOR_BYTES >= PANEL_BYTES ? (int)(8 * VECTOR_BYTES / PANEL_BYTES) : 1)

#if defined(VECTORS) && !defined(X86)
INLINE uint32_t NAME(mask_bits)(IV m)
{
    uint32_t bits = 0;
    for (int k = 0; k < LANES; k++) bits |= (uint32_t)(m[k] & 1) << k;
    return bits;
}
#endif

#include "_leaves_lists.h"
#include "_leaves_sums.h"
#include "_leaves_reading.h"
#include "_leaves_units.h"
#include "_leaves_draws.h"
#include "_leaves_rectified.h"
#include "_leaves_update.h"
#include "_leaves_scores.h"
#if DOUBLE
#include "_leaves_codes.h"
#define SPARSE_CODES LEAF(gap), LEAF(descend),
#else
#define SPARSE_CODES
#endif
#include "_leaves_rows.h"
#include "_leaves_classes.h"
#include "_leaves_products.h"
#include "_leaves_sources.h"
#include "_leaves_factors.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)
/* (What is left out is NULL.) */
#define LEAF(name) .name = NAME(name)
static const Leaves NAME(leaves) = {
    .name = STRING(ISA), .itemsize = (int)sizeof(REAL), .lanes = PANEL_LANES,
    .slab = SLAB,
    LEAF(sum_active), LEAF(both_means), LEAF(logistic), LEAF(bernoulli),
    LEAF(transpose), LEAF(pack), LEAF(unpack), LEAF(subset_sums),
    LEAF(pair_sums), LEAF(scale_rows),
    LEAF(project), LEAF(weigh_rows), LEAF(feature_sums), LEAF(update_panels),
    LEAF(visible_step), LEAF(nonzero_bits), LEAF(enter_range), LEAF(temper), LEAF(gain),
    LEAF(start_gains), LEAF(end_gains), LEAF(softplus_sum), LEAF(flip_logits),
    LEAF(shift_logits), LEAF(uniforms), LEAF(normals), LEAF(exponential), LEAF(counts),
    LEAF(rectified_means), LEAF(rectified_logs), LEAF(rectified_draws),
    LEAF(step_row), LEAF(share_rows), LEAF(scale_row), LEAF(list_changes),
    LEAF(class_means), LEAF(add_lists), LEAF(add_changes),
    LEAF(add_scaled), LEAF(ascend), LEAF(adam),
    LEAF(sources),
    LISTS MULTIPLY SPARSE_CODES FACTORS
};

#undef LEAF
#undef STRING
#undef STRING_
#undef FLUSH
#undef FLIPPED
#undef SPARSE_CODES
#undef LISTS
#undef FACTORS
#undef MULTIPLY
#undef FUSED
#undef PLUS_PRODUCT
#undef SPREAD
#undef NV
#undef LANES
#undef WORDS
#undef SLAB
#undef PANEL_LANES
#undef V
#undef IV
#undef UV
#undef SELECT
#undef SPLAT
#undef AS_INT
#undef AS_REAL
#undef FROM_U16
#undef MULTIPLY_LOW
#undef MASK_BITS
#undef BITS_WHERE
#undef SMALLER
#undef LARGER
#undef INLINE
#undef VECTOR_BYTES
#undef TYPE
#undef REAL
#undef INT
#undef SIGN_BIT
#undef MANTISSA_BITS
#undef EXPONENT_ONE
#undef ROUND_MAGIC
#undef EXP_LIMIT
#undef DOUBLE
