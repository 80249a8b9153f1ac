// See amx_kernels.h. Compiled for AVX-512 and AMX whatever the rest is compiled for: so nothing of
// the standard library may be instantiated here (another file could get that copy), and nothing of
// it may run before amx_available() has said yes.
#include "device/amx_kernels.h"

#include <immintrin.h>

namespace lumi {
namespace {

struct TileShapes {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
static_assert(sizeof(TileShapes) == 64);

__m512 as_floats(__m512i bits) {
    return _mm512_castsi512_ps(bits);
}

__m512i as_words(__m512bh x) {
    __m512i bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

// BF16 of 16 floats, each in the low half of a word.
__m512i rounded(__m512 x) {
    const __m256bh half = _mm512_cvtneps_pbh(x);
    __m256i bits;
    __builtin_memcpy(&bits, &half, sizeof bits);
    return _mm512_cvtepu16_epi32(bits);
}

// BF16 of 32 floats in order; the floats those stand for are taken off a and b.
__m512i split_off(__m512 & a, __m512 & b) {
    const __m512i hi = as_words(_mm512_cvtne2ps_pbh(b, a));
    const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(hi));
    const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(hi, 1));
    a = _mm512_sub_ps(a, as_floats(_mm512_slli_epi32(low, 16)));
    b = _mm512_sub_ps(b, as_floats(_mm512_slli_epi32(high, 16)));
    return hi;
}

// Rows of 16 words each; the classic three rounds of shuffles.
void transpose_words(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

// Tiles 0 to 3 are the sums; 4, 5 hold a part of the left pair, 6, 7 one of the right pair.
inline void load_left(StripPair left, int64_t offset) {
    _tile_loadd(4, left.first + offset, 64);
    _tile_loadd(5, left.first + left.strip_bytes + offset, 64);
}

inline void load_right(StripPair right, int64_t offset) {
    _tile_loadd(6, right.first + offset, 64);
    _tile_loadd(7, right.first + right.strip_bytes + offset, 64);
}

inline void add_products() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

// One step's products of parts whose indices add up to less than `parts`, ordered so that a part is
// loaded as rarely as possible.
template <int parts> inline void add_step(StripPair left, StripPair right) {
    constexpr int64_t kHi = 0;
    constexpr int64_t kMid = kTileBytes;
    constexpr int64_t kLast = (parts - 1) * kTileBytes;
    load_left(left, kLast);
    load_right(right, kHi);
    add_products();
    if (parts == 3) {
        load_left(left, kMid);
        add_products();
        load_right(right, kMid);
        add_products();
        load_left(left, kHi);
        add_products();
        load_right(right, kLast);
        add_products();
        load_right(right, kHi);
        add_products();
    } else {
        load_left(left, kHi);
        add_products();
        load_right(right, kLast);
        add_products();
    }
}

template <int parts> void add_steps(StripPair left, StripPair right, int64_t n_steps, int64_t ldc,
                                    const Prefetch & prefetch) {
    constexpr int64_t kStepBytes = step_bytes(parts);
    constexpr int64_t kAheadBytes = kStepBytes / 8;
    const uint8_t * next = prefetch.changing.first + kStepBytes;
    const uint8_t * ahead = prefetch.ahead.first + prefetch.ahead_part * n_steps * kAheadBytes;
    const float * next_c = prefetch.next_c;
    for (int64_t step = 0; step < n_steps; ++step) {
        for (int64_t line = 0; line < kStepBytes; line += 64) {
            _mm_prefetch(next + line, _MM_HINT_T0);
            _mm_prefetch(next + prefetch.changing.strip_bytes + line, _MM_HINT_T0);
        }
        for (int64_t line = 0; line < kAheadBytes; line += 64) {
            _mm_prefetch(ahead + line, _MM_HINT_T1);
            _mm_prefetch(ahead + prefetch.ahead.strip_bytes + line, _MM_HINT_T1);
        }
        for (int i = 0; i < 2; ++i, next_c += ldc) {
            _mm_prefetch(next_c, _MM_HINT_T0);
            _mm_prefetch(next_c + kStrip, _MM_HINT_T0);
        }
        add_step<parts>(left, right);
        left.first += kStepBytes;
        right.first += kStepBytes;
        next += kStepBytes;
        ahead += kAheadBytes;
    }
}

}  // namespace

TileScope::TileScope() {
    TileShapes shapes = {};
    shapes.palette = 1;
    for (int i = 0; i < 8; ++i) {
        shapes.rows[i] = 16;
        shapes.row_bytes[i] = 64;
    }
    // Not by GCC's intrinsics: they tell the compiler that 8 of the 64 bytes are used.
    asm volatile("sttilecfg %0" : "=m"(before_));
    asm volatile("ldtilecfg %0" : : "m"(shapes));
}

TileScope::~TileScope() {
    asm volatile("ldtilecfg %0" : : "m"(before_));
}

void pack_left_row(const float * x, int64_t n, int64_t row, int parts, uint8_t * strip) {
    uint8_t * to = strip + row * 64;
    for (int64_t i = 0; i < n; i += kStep) {
        __m512 a = _mm512_loadu_ps(x + i);
        __m512 b = _mm512_loadu_ps(x + i + 16);
        for (int part = 1; part < parts; ++part, to += kTileBytes) {
            _mm512_store_si512(to, split_off(a, b));
        }
        _mm512_store_si512(to, as_words(_mm512_cvtne2ps_pbh(b, a)));
        to += kTileBytes;
    }
}

void pack_right_pair(const float * x, const float * next, int64_t n, int64_t k, int parts,
                     uint8_t * strips, int64_t strip_bytes) {
    uint8_t * strip = strips + k / kStep * step_bytes(parts) + k % kStep / 2 * 64;
    for (int64_t i = 0; i < n; i += kStrip, strip += strip_bytes) {
        uint8_t * to = strip;
        __m512 a = _mm512_loadu_ps(x + i);
        __m512 b = _mm512_loadu_ps(next + i);
        for (int part = 1; part < parts; ++part, to += kTileBytes) {
            const __m512i of_a = rounded(a);
            const __m512i of_b = _mm512_slli_epi32(rounded(b), 16);
            _mm512_store_si512(to, _mm512_or_si512(of_a, of_b));
            a = _mm512_sub_ps(a, as_floats(_mm512_slli_epi32(of_a, 16)));
            b = _mm512_sub_ps(b, as_floats(of_b));
        }
        _mm512_store_si512(to, _mm512_or_si512(rounded(a), _mm512_slli_epi32(rounded(b), 16)));
    }
}

void left_to_right(uint8_t * strip, int64_t n_tiles) {
    for (int64_t tile = 0; tile < n_tiles; ++tile) {
        uint8_t * rows = strip + tile * kTileBytes;
        __m512i r[16];
        for (int i = 0; i < 16; ++i) {
            r[i] = _mm512_load_si512(rows + i * 64);
        }
        transpose_words(r);
        for (int i = 0; i < 16; ++i) {
            _mm512_store_si512(rows + i * 64, r[i]);
        }
    }
}

void multiply_strips(StripPair left, StripPair right, int64_t n_steps, int parts, float * c,
                     int64_t ldc, bool accumulate, const Prefetch & prefetch) {
    // The tile loads' intrinsics do not say that they read memory: what was stored must be there.
    asm volatile("" : : : "memory");
    const auto stride = static_cast<size_t>(ldc) * sizeof(float);
    float * c2 = c + kStrip * ldc;
    if (accumulate) {
        _tile_loadd(0, c, stride);
        _tile_loadd(1, c + kStrip, stride);
        _tile_loadd(2, c2, stride);
        _tile_loadd(3, c2 + kStrip, stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    if (parts == 3) {
        add_steps<3>(left, right, n_steps, ldc, prefetch);
    } else {
        add_steps<2>(left, right, n_steps, ldc, prefetch);
    }
    _tile_stored(0, c, stride);
    _tile_stored(1, c + kStrip, stride);
    _tile_stored(2, c2, stride);
    _tile_stored(3, c2 + kStrip, stride);
}

void store_transposed(const float * from, int64_t from_stride, int64_t n_rows, int64_t n_columns,
                      float * to, int64_t to_stride, bool accumulate) {
    __m512i r[16];
    for (int i = 0; i < 16; ++i) {
        r[i] = _mm512_loadu_si512(from + i * from_stride);
    }
    transpose_words(r);
    const auto kept = static_cast<__mmask16>((1U << n_rows) - 1);
    for (int64_t i = 0; i < n_columns; ++i) {
        __m512 x = as_floats(r[i]);
        if (accumulate) {
            x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(kept, to + i * to_stride));
        }
        _mm512_mask_storeu_ps(to + i * to_stride, kept, x);
    }
}

}  // namespace lumi
