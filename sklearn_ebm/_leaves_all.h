/* All copies of the leaves, and the choice among them.  Included by _simd.pyx only:
   the other kernels get their leaves from there, compiled once. */
#include "_simd.h"

/* ---- One copy of the leaves for each element type and instruction set ---- */
#define PASTE_(a, b, c) a##_##b##_##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define NAME(leaf) PASTE(leaf, TYPE, ISA)

#if (defined(__GNUC__) || defined(__clang__)) && !defined(SKLEARN_EBM_SCALAR)
#define VECTORS 1
#if defined(__x86_64__)
#define X86 1
#include <immintrin.h>
#endif
#endif

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 16")
#else
#define UNROLL
#endif

/* Makes a call in which WIDTH is the constant that the number np of panels is, from 1 to
   GROUP. */
#define WITH_WIDTH(np, call)                        \
    switch (np) {                                   \
    case 1: { enum { WIDTH = 1 }; call; break; }    \
    case 2: { enum { WIDTH = 2 }; call; break; }    \
    case 3: { enum { WIDTH = 3 }; call; break; }    \
    default: { enum { WIDTH = GROUP }; call; }      \
    }

/* Keeps additions to different vectors in the order of the program.  (A compiler puts
   those to the same vector behind each other, where each waits for the one before.) */
#ifdef X86
#define IN_ORDER(x) __asm__ volatile("" : "+x"(x))
#else
#define IN_ORDER(x) ((void)0)
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

/* Comparisons by name (BITS_WHERE). */
#define OPERATOR_LT <
#define OPERATOR_LE <=
#define OPERATOR_NE !=
#define PREDICATE_LT _CMP_LT_OQ
#define PREDICATE_LE _CMP_LE_OQ
#define PREDICATE_NE _CMP_NEQ_UQ

/* The baseline: 16-byte vectors, which are SSE2, NEON and their like. */
#define ISA base
#define VB 16
#define DOUBLE 0
#include "_leaves.h"
#define DOUBLE 1
#include "_leaves.h"
#undef ISA
#undef VB

#ifdef X86
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define ISA avx2
#define VB 32
#define DOUBLE 0
#include "_leaves.h"
#define DOUBLE 1
#include "_leaves.h"
#undef ISA
#undef VB
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif
#define ISA avx512
#define VB 64
#define DOUBLE 0
#include "_leaves.h"
#define DOUBLE 1
#include "_leaves.h"
#undef ISA
#undef VB
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif /* X86 */

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/* The leaves for elements of this size; SKLEARN_EBM_ISA=base|avx2|avx512 in
   the environment lowers the instruction set (for tests and benchmarks). */
static const Leaves *best_leaves(int itemsize)
{
#ifdef X86
    const char *most = getenv("SKLEARN_EBM_ISA");
    int level = 2;
    if (most && !strcmp(most, "base")) level = 0;
    if (most && !strcmp(most, "avx2")) level = 1;
    __builtin_cpu_init();
    if (level == 2 && __builtin_cpu_supports("avx512f")
        && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl"))
        return itemsize == 4 ? &leaves_f32_avx512 : &leaves_f64_avx512;
    if (level >= 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return itemsize == 4 ? &leaves_f32_avx2 : &leaves_f64_avx2;
#endif
    return itemsize == 4 ? &leaves_f32_base : &leaves_f64_base;
}
