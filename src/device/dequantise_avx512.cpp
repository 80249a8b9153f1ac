// Blocks of quantised numbers to floats with AVX-512. Block layouts are ggml's; the results are
// those of its own to_float. Compiled for AVX-512: see amx_kernels.cpp for what that forbids.
#include "device/dequantise.h"

#include <cstdint>
#include <immintrin.h>

namespace lumi {
namespace {

constexpr int64_t kSuperBlock = 256;

float half_to_float(const uint8_t * bits) {
    uint16_t half = 0;
    __builtin_memcpy(&half, bits, sizeof half);
    return _cvtsh_ss(half);
}

__m128i load_bytes(const uint8_t * p) {
    __m128i bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

__m512 signed_floats(__m128i bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

// F16 numbers.
void from_f16(const void * blocks, float * to, int64_t n) {
    const auto * p = static_cast<const uint8_t *>(blocks);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i half;
        __builtin_memcpy(&half, p + 2 * i, sizeof half);
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(half));
    }
    for (; i < n; ++i) {
        to[i] = half_to_float(p + 2 * i);
    }
}

// 32 numbers: F16 scale, 32 signed bytes.
void from_q8_0(const void * blocks, float * to, int64_t n) {
    constexpr int64_t kBlockBytes = 34;
    const auto * p = static_cast<const uint8_t *>(blocks);
    for (int64_t i = 0; i < n; i += 32, p += kBlockBytes) {
        const __m512 d = _mm512_set1_ps(half_to_float(p));
        _mm512_storeu_ps(to + i, _mm512_mul_ps(d, signed_floats(load_bytes(p + 2))));
        _mm512_storeu_ps(to + i + 16, _mm512_mul_ps(d, signed_floats(load_bytes(p + 18))));
    }
}

// 32 numbers: F16 scale, 16 bytes of two nibbles less 8: the low ones are the first 16 numbers.
void from_q4_0(const void * blocks, float * to, int64_t n) {
    constexpr int64_t kBlockBytes = 18;
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i eight = _mm_set1_epi8(8);
    const auto * p = static_cast<const uint8_t *>(blocks);
    for (int64_t i = 0; i < n; i += 32, p += kBlockBytes) {
        const __m512 d = _mm512_set1_ps(half_to_float(p));
        const __m128i q = load_bytes(p + 2);
        const __m128i low = _mm_sub_epi8(_mm_and_si128(q, nibble), eight);
        const __m128i high = _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(q, 4), nibble), eight);
        _mm512_storeu_ps(to + i, _mm512_mul_ps(d, signed_floats(low)));
        _mm512_storeu_ps(to + i + 16, _mm512_mul_ps(d, signed_floats(high)));
    }
}

// The eight scales and eight minima of Q4_K and Q5_K, 6 bits each in 12 bytes.
struct ScalesAndMinima {
    uint8_t scale[8];
    uint8_t minimum[8];
};
ScalesAndMinima unpack_scales(const uint8_t * p) {
    ScalesAndMinima s;
    for (int j = 0; j < 4; ++j) {
        s.scale[j] = p[j] & 63;
        s.minimum[j] = p[j + 4] & 63;
        s.scale[j + 4] = static_cast<uint8_t>((p[j + 8] & 15) | (p[j] >> 6 << 4));
        s.minimum[j + 4] = static_cast<uint8_t>((p[j + 8] >> 4) | (p[j + 4] >> 6 << 4));
    }
    return s;
}

// scale * q - minimum through a table of the 16 values that a nibble can mean.
__m512 nibble_values(float scale, float minimum) {
    const __m512 q = _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(scale), q), _mm512_set1_ps(minimum));
}

// 256 numbers: F16 scale and F16 minimum of the eight 6-bit scales and minima, then nibbles: each
// 32 bytes hold 32 numbers in the low halves and the next 32 in the high ones.
void from_q4_k(const void * blocks, float * to, int64_t n) {
    constexpr int64_t kBlockBytes = 144;
    const auto * p = static_cast<const uint8_t *>(blocks);
    for (int64_t i = 0; i < n; i += kSuperBlock, p += kBlockBytes) {
        const float d = half_to_float(p);
        const float dmin = half_to_float(p + 2);
        const ScalesAndMinima s = unpack_scales(p + 4);
        const uint8_t * q = p + 16;
        float * y = to + i;
        for (int j = 0; j < 8; j += 2, q += 32, y += 64) {
            const __m512 low = nibble_values(d * s.scale[j], dmin * s.minimum[j]);
            const __m512 high = nibble_values(d * s.scale[j + 1], dmin * s.minimum[j + 1]);
            for (int half = 0; half < 2; ++half) {
                const __m512i index = _mm512_cvtepu8_epi32(load_bytes(q + 16 * half));
                // A table look-up reads four bits of its index only.
                _mm512_storeu_ps(y + 16 * half, _mm512_permutexvar_ps(index, low));
                _mm512_storeu_ps(y + 32 + 16 * half,
                                 _mm512_permutexvar_ps(_mm512_srli_epi32(index, 4), high));
            }
        }
    }
}

// 256 numbers: low nibbles (128 bytes), upper two bits (64), 16 signed scales, F16 scale of them.
// Each half of 128 numbers is four rows of 32; a scale serves 16 numbers.
void from_q6_k(const void * blocks, float * to, int64_t n) {
    constexpr int64_t kBlockBytes = 210;
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i upper = _mm_set1_epi8(48);
    const __m128i offset = _mm_set1_epi8(32);
    const auto * p = static_cast<const uint8_t *>(blocks);
    for (int64_t i = 0; i < n; i += kSuperBlock, p += kBlockBytes) {
        const float d = half_to_float(p + 208);
        for (int half = 0; half < 2; ++half) {
            for (int part = 0; part < 2; ++part) {
                const uint8_t * ql = p + 64 * half + 16 * part;
                const __m128i first = load_bytes(ql);
                const __m128i second = load_bytes(ql + 32);
                const __m128i qh = load_bytes(p + 128 + 32 * half + 16 * part);
                const __m128i q[4] = {
                    _mm_or_si128(_mm_and_si128(first, nibble),
                                 _mm_and_si128(_mm_slli_epi16(qh, 4), upper)),
                    _mm_or_si128(_mm_and_si128(second, nibble),
                                 _mm_and_si128(_mm_slli_epi16(qh, 2), upper)),
                    _mm_or_si128(_mm_and_si128(_mm_srli_epi16(first, 4), nibble),
                                 _mm_and_si128(qh, upper)),
                    _mm_or_si128(_mm_and_si128(_mm_srli_epi16(second, 4), nibble),
                                 _mm_and_si128(_mm_srli_epi16(qh, 2), upper)),
                };
                const uint8_t * scales = p + 192 + 8 * half + part;
                float * y = to + i + 128 * half + 16 * part;
                for (int row = 0; row < 4; ++row) {
                    const float scale =
                        d * static_cast<float>(static_cast<int8_t>(scales[2 * row]));
                    _mm512_storeu_ps(y + 32 * row,
                                     _mm512_mul_ps(_mm512_set1_ps(scale),
                                                   signed_floats(_mm_sub_epi8(q[row], offset))));
                }
            }
        }
    }
}

}  // namespace

DequantiseRow avx512_dequantiser(ggml_type type) {
    switch (type) {
    case GGML_TYPE_F16:
        return from_f16;
    case GGML_TYPE_Q8_0:
        return from_q8_0;
    case GGML_TYPE_Q4_0:
        return from_q4_0;
    case GGML_TYPE_Q4_K:
        return from_q4_k;
    case GGML_TYPE_Q6_K:
        return from_q6_k;
    default:
        return nullptr;
    }
}

}  // namespace lumi
