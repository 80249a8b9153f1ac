// Every symbol lies below U+0144, so UTF-8 writes it in one or two bytes.
#include "tokenizer/byte_symbols.h"

#include "base/utf8.h"

#include <array>
#include <optional>

namespace lumi {

namespace {

constexpr uint32_t kFirstStandIn = 0x100;

constexpr bool is_printable(uint32_t byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

constexpr std::array<uint16_t, 256> code_points() {
    std::array<uint16_t, 256> table{};
    uint32_t next = kFirstStandIn;
    for (uint32_t byte = 0; byte < table.size(); ++byte) {
        table[byte] = static_cast<uint16_t>(is_printable(byte) ? byte : next++);
    }
    return table;
}

constexpr std::array<uint16_t, 256> kCodePoints = code_points();
constexpr size_t kCodePointEnd = kFirstStandIn + 68;

// By code point; -1 where it stands for no byte.
constexpr std::array<int16_t, kCodePointEnd> byte_values() {
    std::array<int16_t, kCodePointEnd> table{};
    table.fill(-1);
    for (size_t byte = 0; byte < kCodePoints.size(); ++byte) {
        table[kCodePoints[byte]] = static_cast<int16_t>(byte);
    }
    return table;
}

constexpr std::array<int16_t, kCodePointEnd> kByteValues = byte_values();

std::optional<char> byte_of_symbol(std::string_view symbol) {
    const auto at = [&](size_t i) {
        return static_cast<uint32_t>(static_cast<uint8_t>(symbol[i]));
    };
    uint32_t code_point = kCodePointEnd;
    if (symbol.size() == 1) {
        code_point = at(0);
    } else if (symbol.size() == 2) {
        code_point = ((at(0) & 0x1fU) << 6) | (at(1) & 0x3fU);
    }
    if (code_point >= kCodePointEnd || kByteValues[code_point] < 0) {
        return std::nullopt;
    }
    return static_cast<char>(kByteValues[code_point]);
}

}  // namespace

std::string byte_symbol(uint8_t byte) {
    const uint32_t code_point = kCodePoints[byte];
    if (code_point < 0x80) {
        return {static_cast<char>(code_point)};
    }
    return {static_cast<char>(0xc0U | (code_point >> 6)),
            static_cast<char>(0x80U | (code_point & 0x3fU))};
}

std::string bytes_of_symbols(std::string_view text) {
    std::string bytes;
    while (!text.empty()) {
        const size_t length = utf8_code_point_length(text);
        const std::string_view symbol = text.substr(0, length == 0 ? 1 : length);
        const std::optional<char> byte = length == 0 ? std::nullopt : byte_of_symbol(symbol);
        if (byte) {
            bytes += *byte;
        } else {
            bytes += symbol;
        }
        text.remove_prefix(symbol.size());
    }
    return bytes;
}

}  // namespace lumi
