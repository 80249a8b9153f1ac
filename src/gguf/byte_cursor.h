// A position in bytes that never leaves them: each read succeeds whole or changes nothing.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace lumi {

class ByteCursor {
  public:
    explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

    uint64_t position() const { return position_; }
    uint64_t left() const { return bytes_.size() - position_; }

    bool take(uint64_t count, std::span<const std::byte> & out) {
        if (count > left()) {
            return false;
        }
        out = bytes_.subspan(position_, count);
        position_ += count;
        return true;
    }

    // A little-endian number as this machine holds it.
    template <typename T> bool read(T & out) {
        static_assert(std::is_arithmetic_v<T>);
        std::span<const std::byte> raw;
        if (!take(sizeof(T), raw)) {
            return false;
        }
        std::memcpy(&out, raw.data(), sizeof(T));
        return true;
    }

    // A 64-bit length and that many bytes.
    bool read_string(std::string_view & out) {
        const uint64_t start = position_;
        uint64_t length = 0;
        std::span<const std::byte> raw;
        if (!read(length) || !take(length, raw)) {
            position_ = start;
            return false;
        }
        out = {reinterpret_cast<const char *>(raw.data()), raw.size()};
        return true;
    }

  private:
    std::span<const std::byte> bytes_;
    uint64_t position_ = 0;
};

}  // namespace lumi
