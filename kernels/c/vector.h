/* Vectors of float32 and what decodes codes into them, for AVX-512 and for AVX2. */
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALWAYS inline __attribute__((always_inline))

#ifdef __AVX512F__
enum { LANES = 16, BLOCK = 32 };
typedef __m512 vector;
typedef __m512 sixteen; /* values by code */

static ALWAYS vector load(const float *p) { return _mm512_loadu_ps(p); }
static ALWAYS void store(float *p, vector v) { _mm512_storeu_ps(p, v); }
static ALWAYS vector all(float value) { return _mm512_set1_ps(value); }
static ALWAYS vector two(float low, float high) { return _mm512_mask_blend_ps(0xff00, all(low), all(high)); }
static ALWAYS float sum(vector v) { return _mm512_reduce_add_ps(v); }
static ALWAYS vector from_halves(__m256i halves) { return _mm512_cvtph_ps(halves); }
static ALWAYS __m256i load_block(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static ALWAYS __m256i bytes_to_words(const uint8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)); }
static ALWAYS sixteen scaled(const float *values, float zero, float scale) { return (load(values) - all(zero)) * all(scale); }
static ALWAYS __m512i bytes_to_lanes(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
static ALWAYS __m512i shifted(__m512i codes) { return _mm512_srli_epi32(codes, 4); }
static ALWAYS vector look_up(__m512i codes, sixteen table) { return _mm512_permutexvar_ps(codes, table); }
static ALWAYS __m512i load_words(const uint16_t *p) { return _mm512_loadu_si512(p); }
static ALWAYS vector low_words(__m512i words) { return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)); }
static ALWAYS vector high_words(__m512i words) { return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-65536))); }
/* The sums of LANES / 4 vectors, one behind the other. */
static ALWAYS void sum_some(const vector *v, float *out) {
    __m512 a = _mm512_unpacklo_ps(v[0], v[1]) + _mm512_unpackhi_ps(v[0], v[1]);
    __m512 b = _mm512_unpacklo_ps(v[2], v[3]) + _mm512_unpackhi_ps(v[2], v[3]);
    __m512 four = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))) +
                  _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    __m256 half = _mm512_castps512_ps256(four) + _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(four), 1));
    _mm_storeu_ps(out, _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1));
}
static ALWAYS vector rounded(vector v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT); }
static ALWAYS vector power_of_two(vector v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtps_epi32(v + all(127)), 23)); }
static ALWAYS vector at_least(vector v, float least) { return _mm512_max_ps(all(least), v); }
static ALWAYS void interleave(vector even, vector odd, float *out) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    store(out, _mm512_permutex2var_ps(even, low, odd));
    store(out + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd));
}
#else
enum { LANES = 8, BLOCK = 16 };
typedef __m256 vector;
typedef struct {
    __m256 low, high;
} sixteen;

static ALWAYS vector load(const float *p) { return _mm256_loadu_ps(p); }
static ALWAYS void store(float *p, vector v) { _mm256_storeu_ps(p, v); }
static ALWAYS vector all(float value) { return _mm256_set1_ps(value); }
static ALWAYS vector two(float low, float high) { return _mm256_blend_ps(all(low), all(high), 0xf0); }
static ALWAYS vector from_halves(__m256i halves) { return _mm256_cvtph_ps(_mm256_castsi256_si128(halves)); }
static ALWAYS __m256i load_block(const uint8_t *p) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)); }
static ALWAYS __m256i bytes_to_words(const uint8_t *p) { return _mm256_castsi128_si256(_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)p))); }
static ALWAYS __m256i bytes_to_lanes(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
static ALWAYS __m256i shifted(__m256i codes) { return _mm256_srli_epi32(codes, 4); }
static ALWAYS __m256i load_words(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static ALWAYS vector low_words(__m256i words) { return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16)); }
static ALWAYS vector high_words(__m256i words) { return _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-65536))); }
static ALWAYS vector rounded(vector v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT); }
static ALWAYS vector power_of_two(vector v) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtps_epi32(v + all(127)), 23)); }
static ALWAYS vector at_least(vector v, float least) { return _mm256_max_ps(all(least), v); }
static ALWAYS float sum(vector v) {
    __m128 four = _mm256_castps256_ps128(v) + _mm256_extractf128_ps(v, 1);
    four += _mm_movehl_ps(four, four);
    return four[0] + four[1];
}
static ALWAYS void sum_some(const vector *v, float *out) { out[0] = sum(v[0]), out[1] = sum(v[1]); }
static ALWAYS sixteen scaled(const float *values, float zero, float scale) {
    return (sixteen){(load(values) - all(zero)) * all(scale), (load(values + 8) - all(zero)) * all(scale)};
}
static ALWAYS vector look_up(__m256i codes, sixteen table) {
    __m256 low = _mm256_permutevar8x32_ps(table.low, codes), high = _mm256_permutevar8x32_ps(table.high, codes);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)));
}
static ALWAYS void interleave(vector even, vector odd, float *out) {
    __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    store(out, _mm256_permute2f128_ps(low, high, 0x20));
    store(out + 8, _mm256_permute2f128_ps(low, high, 0x31));
}
#endif

typedef struct {
    vector first, second;
} pair;

/* A block of bfloat16: those with even numbers, those with odd ones. */
static ALWAYS pair even_and_odd(const uint16_t *p) { return (pair){low_words(load_words(p)), high_words(load_words(p))}; }

/* A block of codes, two a byte: those of even columns, those of odd ones. */
static ALWAYS pair four_bits(const uint8_t *codes, sixteen table) {
    return (pair){look_up(bytes_to_lanes(codes), table), look_up(shifted(bytes_to_lanes(codes)), table)};
}

/* E4M3 by way of half precision, whose numbers of the same bits are 256 times smaller: so are these. */
static ALWAYS vector eight(const uint8_t *codes) {
    return from_halves(_mm256_and_si256(_mm256_slli_epi16(bytes_to_words(codes), 7), _mm256_set1_epi16((short)0xbf80)));
}

/* A block of codes, one a byte, a 256th of their values; `broken` is not zero once one was NaN. */
static ALWAYS pair eight_bits(const uint8_t *codes, __m256i *broken) {
    __m256i bytes = _mm256_or_si256(load_block(codes), _mm256_set1_epi8(-128));
    *broken = _mm256_or_si256(*broken, _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(-1)));
    return (pair){eight(codes), eight(codes + LANES)};
}

/* exp of numbers that are at most 0: 2^n times a polynomial in the rest, within 2e-7; 0 from -87 down, NaN stays. */
static ALWAYS vector exponential(vector x) {
    x = at_least(x, -87.3f);
    vector n = rounded(x * all(1.44269504f)), r = x - n * all(0.693359375f) + n * all(2.12194440e-4f);
    vector p = all(1.9875691500e-4f);
    p = p * r + all(1.3981999507e-3f), p = p * r + all(8.3334519073e-3f), p = p * r + all(4.1665795894e-2f);
    p = p * r + all(1.6666665459e-1f), p = p * r + all(5.0000001201e-1f);
    return (p * r * r + r + all(1)) * power_of_two(n);
}

static ALWAYS void round_to_bfloat16(const float *values, int64_t count, uint16_t *out) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, 4);
        out[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}
