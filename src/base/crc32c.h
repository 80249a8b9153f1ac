// CRC-32C (Castagnoli), as record files use it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lumi {

// before: the sum of the bytes that precede these.
inline uint32_t crc32c(std::string_view bytes, uint32_t before = 0) {
    static constexpr auto kTable = [] {
        constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
        std::array<uint32_t, 256> table{};
        for (uint32_t i = 0; i < 256; ++i) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; ++bit) {
                c = (c & 1U) != 0 ? c >> 1U ^ kPolynomial : c >> 1U;
            }
            table[i] = c;
        }
        return table;
    }();
    uint32_t crc = ~before;
    for (const char byte : bytes) {
        crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xffU] ^ crc >> 8U;
    }
    return ~crc;
}

}  // namespace lumi
