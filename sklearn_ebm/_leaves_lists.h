/* Lists of the bits that are set.  Included by _leaves.h, which defines VB, NAME, ...;
   the same for either element type, so there once for each instruction set. */
#if !DOUBLE
#if defined(X86) && VB == 64
#define PACKED_LISTS 1 /* sixteen bits at a time */
#else
#define PACKED_LISTS 0
#endif

#if PACKED_LISTS
/* Append the elements of x whose bits are set; returns how many they are. */
INLINE int32_t NAME(append)(uint32_t bits, __m512i x, uint32_t *index)
{
    const int n = __builtin_popcount(bits);
    _mm512_mask_storeu_epi32(index, (__mmask16)((1u << n) - 1),
                             _mm512_maskz_compress_epi32((__mmask16)bits, x));
    return n;
}

/* The units from `first` on. */
INLINE __m512i NAME(sixteen_units)(ptrdiff_t first)
{
    return _mm512_add_epi32(
        _mm512_set1_epi32((int)first),
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
#endif

/* How many units are on in a row of bits. */
static int32_t NAME(count_bits)(const uint64_t *words, ptrdiff_t n_words)
{
    int32_t n = 0;
    for (ptrdiff_t w = 0; w < n_words; w++)
#if defined(__GNUC__) || defined(__clang__)
        n += __builtin_popcountll(words[w]);
#else
        for (uint64_t word = words[w]; word; word &= word - 1) n++;
#endif
    return n;
}

/* Units that are on in a row of bits; returns how many they are. */
static int32_t NAME(list_bits)(const uint64_t *words, ptrdiff_t n_words,
                               uint32_t *index)
{
    int32_t n = 0;
    for (ptrdiff_t w = 0; w < n_words; w++) {
        uint64_t word = words[w];
#if PACKED_LISTS
        for (ptrdiff_t k = 0; word; k += 16, word >>= 16)
            n += NAME(append)(word & 0xFFFF, NAME(sixteen_units)(64 * w + k),
                              index + n);
#else
        for (; word; word &= word - 1)
            index[n++] = (uint32_t)(64 * w + lowest_bit(word));
#endif
    }
    return n;
}

/* Like list_bits, but units 2j and 2j + 1 that are both on make one entry,
   first_pair + j. */
static int32_t NAME(list_pairs)(const uint64_t *words, ptrdiff_t n_words,
                                uint32_t first_pair, uint32_t *index)
{
    const uint64_t even = 0x5555555555555555u;
    int32_t n = 0;
    for (ptrdiff_t w = 0; w < n_words; w++) {
        const uint64_t word = words[w], next = word >> 1;
        uint64_t any = (word | next) & even;
#if PACKED_LISTS
        uint64_t both = word & next, second = ~word;
        for (ptrdiff_t k = 0; any; k += 16) {
            const __m512i unit = NAME(sixteen_units)(64 * w + k);
            __m512i x = _mm512_mask_add_epi32(unit, (__mmask16)second, unit,
                                              _mm512_set1_epi32(1));
            x = _mm512_mask_add_epi32(x, (__mmask16)both, _mm512_srli_epi32(unit, 1),
                                      _mm512_set1_epi32((int)first_pair));
            n += NAME(append)(any & 0xFFFF, x, index + n);
            any >>= 16, both >>= 16, second >>= 16;
        }
#else
        for (; any; any &= any - 1) {
            const int k = lowest_bit(any);
            const uint32_t unit = (uint32_t)(64 * w + k);
            index[n++] = (word & next) >> k & 1 ? first_pair + unit / 2
                                               : unit + (~word >> k & 1);
        }
#endif
    }
    return n;
}

/* For 64 features, append to each feature's list the entries 16 * g + mask of
   the groups g of four rows in which it is on; mask says in which of them.  To its sum
   add share for each of these rows.
   bits: (n_rows < 256, n_words); word: which 64 features; first: entry of group 0;
   every: all features get the entries of all groups, also those of no row. */
static void NAME(list_groups)(const uint64_t *bits, ptrdiff_t n_rows,
                              ptrdiff_t n_words, ptrdiff_t word, uint32_t first,
                              int every, uint32_t *index, ptrdiff_t stride,
                              int32_t *length, double share, double *sums)
{
    uint8_t counts[64] = {0};
    for (ptrdiff_t g = 0; 4 * g < n_rows; g++) {
        uint64_t w[4] = {0, 0, 0, 0};
        for (int k = 0; k < 4 && 4 * g + k < n_rows; k++)
            w[k] = bits[(4 * g + k) * n_words + word];
        const uint32_t entry = first + 16 * (uint32_t)g;
#if PACKED_LISTS
        uint8_t masks[64];
        __m512i count = _mm512_loadu_si512(counts);
        for (int k = 0; k < 4; k++)
            count = _mm512_mask_add_epi8(count, w[k], count, _mm512_set1_epi8(1));
        _mm512_storeu_si512(counts, count);
        _mm512_storeu_si512(
            masks, _mm512_or_si512(_mm512_or_si512(_mm512_maskz_set1_epi8(w[0], 1),
                                                   _mm512_maskz_set1_epi8(w[1], 2)),
                                   _mm512_or_si512(_mm512_maskz_set1_epi8(w[2], 4),
                                                   _mm512_maskz_set1_epi8(w[3], 8))));
#define MASK(i) masks[i]
#else
#define MASK(i) ((w[0] >> i & 1) | (w[1] >> i & 1) << 1 | (w[2] >> i & 1) << 2 \
                 | (w[3] >> i & 1) << 3)
#endif
        uint64_t any = every ? ~(uint64_t)0 : w[0] | w[1] | w[2] | w[3];
        for (; any; any &= any - 1) {
            const int i = lowest_bit(any);
            const uint32_t mask = (uint32_t)MASK(i);
            index[i * stride + length[i]++] = entry + mask;
#if !PACKED_LISTS
            /* How many bits of the mask are set. */
            counts[i] += (0x4332322132212110u >> 4 * mask) & 15;
#endif
        }
#undef MASK
    }
    for (int i = 0; i < 64; i++) sums[i] += share * counts[i];
}
#undef PACKED_LISTS
#endif
#define LISTS .count_bits = PASTE(count_bits, f32, ISA), \
    .list_bits = PASTE(list_bits, f32, ISA), \
    .list_pairs = PASTE(list_pairs, f32, ISA), .list_groups = PASTE(list_groups, f32, ISA),
