// By bit pattern: an exponent of all ones is NaN or infinity in every IEEE format. Blocks are first
// scanned without branches, which the compiler vectorises; the element is found only on a hit.
#include "gguf/finite.h"

#include <algorithm>
#include <cstring>

namespace lumi {

namespace {

template <typename Bits>
std::optional<uint64_t> scan(std::span<const std::byte> data, Bits exponent) {
    constexpr uint64_t kBlock = 4096;
    const uint64_t count = data.size() / sizeof(Bits);
    const auto is_bad = [&](uint64_t i) {
        Bits bits;
        std::memcpy(&bits, data.data() + i * sizeof(Bits), sizeof(Bits));
        return (bits & exponent) == exponent;
    };
    for (uint64_t start = 0; start < count; start += kBlock) {
        const uint64_t end = std::min(start + kBlock, count);
        unsigned any = 0;
        for (uint64_t i = start; i < end; ++i) {
            any |= static_cast<unsigned>(is_bad(i));
        }
        for (uint64_t i = start; any != 0 && i < end; ++i) {
            if (is_bad(i)) {
                return i;
            }
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<uint64_t> first_non_finite(ggml_type type, std::span<const std::byte> data) {
    switch (type) {
    case GGML_TYPE_F32:
        return scan<uint32_t>(data, 0x7f800000);
    case GGML_TYPE_F16:
        return scan<uint16_t>(data, 0x7c00);
    case GGML_TYPE_BF16:
        return scan<uint16_t>(data, 0x7f80);
    case GGML_TYPE_F64:
        return scan<uint64_t>(data, 0x7ff0000000000000);
    default:
        return std::nullopt;
    }
}

}  // namespace lumi
