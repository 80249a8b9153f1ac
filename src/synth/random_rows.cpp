// Block layouts as ggml stores them (ggml-common.h): a quant of b bits, uniform, has the standard
// deviation sqrt((4^b - 1) / 12), which fixes the scale. Offsets or random signs keep the mean at
// 0: a common offset would grow by sqrt(n_in) in every product and drown the rest.

#include "synth/random_rows.h"

#include <array>
#include <cstring>

namespace lumi {

namespace {

constexpr float kSd4 = 4.61F;   // of 0..15
constexpr float kSd5 = 9.23F;   // of 0..31
constexpr float kSd6 = 18.47F;  // of 0..63
constexpr float kSd8 = 73.6F;   // of -127..127

void put_half(std::byte * at, float value) {
    const ggml_fp16_t half = ggml_fp32_to_fp16(value);
    std::memcpy(at, &half, sizeof(half));
}

void put_random(std::byte * at, size_t count, Rng & rng) {
    for (size_t i = 0; i < count; i += 8) {
        const uint64_t word = rng.next();
        std::memcpy(at + i, &word, std::min<size_t>(8, count - i));
    }
}

// 0.75 to 1.25: blocks differ in scale, as real ones do. bits: the low 16 are used.
float spread(uint64_t bits) {
    return 0.75F + static_cast<float>(bits & 0xffff) / 131072.0F;
}
float sign(uint64_t bits) {
    return (bits & 0x10000) != 0 ? 1.0F : -1.0F;
}

// { half d; [half m;] [4 bytes qh;] 16 bytes qs }, 32 values
template <int n_bits, bool has_min> void fill_simple(float sd, Rng & rng, std::byte * block) {
    const uint64_t bits = rng.next();
    const float d = sd / (n_bits == 4 ? kSd4 : kSd5) * spread(bits) * (has_min ? 1.0F : sign(bits));
    put_half(block, d);
    if (has_min) {
        put_half(block + 2, -d * (n_bits == 4 ? 7.5F : 15.5F));
    }
    constexpr size_t kHeader = has_min ? 4 : 2;
    put_random(block + kHeader, n_bits == 4 ? 16 : 20, rng);
}

// { half d; int8 qs[32] }
void fill_q8_0(float sd, Rng & rng, std::byte * block) {
    put_half(block, sd / kSd8 * spread(rng.next()));
    put_random(block + 2, 32, rng);
    for (size_t i = 2; i < 34;
         ++i) {  // -128 would make the mean -0.5 and is never written by quantisers
        block[i] = block[i] == std::byte{0x80} ? std::byte{0} : block[i];
    }
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes. The scales lie in 28..59, the minima
// within 4 of them.
void put_k_scales(std::byte * at, Rng & rng) {
    std::array<uint8_t, 8> scale{};
    std::array<uint8_t, 8> min{};
    uint64_t bits = rng.next();
    for (size_t j = 0; j < 8; ++j, bits >>= 8) {
        scale[j] = static_cast<uint8_t>(28 + (bits & 31));
        min[j] = static_cast<uint8_t>(scale[j] - 4 + ((bits >> 5) & 7) + ((bits >> 7) & 1));
    }
    for (size_t j = 0; j < 4; ++j) {
        at[j] = static_cast<std::byte>(scale[j] | ((scale[j + 4] >> 4) << 6));
        at[j + 4] = static_cast<std::byte>(min[j] | ((min[j + 4] >> 4) << 6));
        at[j + 8] = static_cast<std::byte>((scale[j + 4] & 15) | ((min[j + 4] & 15) << 4));
    }
}

// { half d; half dmin; 12 bytes of scales; [32 bytes qh;] 128 bytes qs }, 256 values
template <int n_bits> void fill_k(float sd, Rng & rng, std::byte * block) {
    constexpr float kMeanScale = 43.5F;
    const float d = sd / ((n_bits == 4 ? kSd4 : kSd5) * kMeanScale) * spread(rng.next());
    put_half(block, d);
    put_half(block + 2, d * (n_bits == 4 ? 7.5F : 15.5F));
    put_k_scales(block + 4, rng);
    put_random(block + 16, n_bits == 4 ? 128 : 160, rng);
}

// { 128 bytes ql; 64 bytes qh; int8 scales[16]; half d }, 256 values
void fill_q6_k(float sd, Rng & rng, std::byte * block) {
    put_random(block, 192, rng);
    uint64_t bits = 0;
    for (size_t j = 0; j < 16; ++j, bits >>= 8) {
        bits = j % 8 == 0 ? rng.next() : bits;
        const int scale = 32 + static_cast<int>(bits & 63);
        block[192 + j] = static_cast<std::byte>((bits & 64) != 0 ? scale : -scale);
    }
    constexpr float kMeanScale = 63.5F;
    put_half(block + 208, sd / (kSd6 * kMeanScale) * spread(rng.next()));
}

// Sum of four uniform 16-bit numbers, shifted and scaled: near normal, within 3.5 sd, and one call
// of the generator a value.
float near_normal(Rng & rng) {
    const uint64_t bits = rng.next();
    const auto sum = static_cast<float>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                        ((bits >> 32) & 0xffff) + (bits >> 48));
    constexpr float kMean = 2.0F * 65535.0F;
    constexpr float kSd = 37837.0F;  // sqrt(4 / 12) * 65536
    return (sum - kMean) / kSd;
}

void fill_floats(ggml_type type, float sd, Rng & rng, std::span<std::byte> rows) {
    constexpr size_t kPiece = 1024;
    std::array<float, kPiece> values;
    const size_t size = ggml_type_size(type);
    const size_t count = rows.size() / size;
    for (size_t start = 0; start < count; start += kPiece) {
        const size_t n = std::min(kPiece, count - start);
        for (size_t i = 0; i < n; ++i) {
            values[i] = near_normal(rng) * sd;
        }
        std::byte * out = rows.data() + start * size;
        if (type == GGML_TYPE_F32) {
            std::memcpy(out, values.data(), n * size);
        } else {
            ggml_get_type_traits(type)->from_float_ref(values.data(), out, static_cast<int64_t>(n));
        }
    }
}

using BlockFiller = void (*)(float sd, Rng & rng, std::byte * block);

BlockFiller block_filler(ggml_type type) {
    switch (type) {
    case GGML_TYPE_Q4_0:
        return fill_simple<4, false>;
    case GGML_TYPE_Q4_1:
        return fill_simple<4, true>;
    case GGML_TYPE_Q5_0:
        return fill_simple<5, false>;
    case GGML_TYPE_Q5_1:
        return fill_simple<5, true>;
    case GGML_TYPE_Q8_0:
        return fill_q8_0;
    case GGML_TYPE_Q4_K:
        return fill_k<4>;
    case GGML_TYPE_Q5_K:
        return fill_k<5>;
    case GGML_TYPE_Q6_K:
        return fill_q6_k;
    default:
        return nullptr;
    }
}

bool is_float(ggml_type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

}  // namespace

bool can_fill_random(ggml_type type) {
    return is_float(type) || block_filler(type) != nullptr;
}

void fill_random_rows(ggml_type type, float sd, Rng & rng, std::span<std::byte> rows) {
    if (is_float(type)) {
        fill_floats(type, sd, rng, rows);
        return;
    }
    const BlockFiller fill = block_filler(type);
    const size_t size = ggml_type_size(type);
    for (size_t at = 0; at + size <= rows.size(); at += size) {
        fill(sd, rng, rows.data() + at);
    }
}

}  // namespace lumi
