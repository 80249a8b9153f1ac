// Arithmetic on numbers that a file or a client gave: the result, or false when it does not fit.
#pragma once

#include <cstdint>
#include <type_traits>

namespace lumi {

template <typename T> [[nodiscard]] bool checked_add(T a, T b, T & out) {
    static_assert(std::is_integral_v<T>);
    return !__builtin_add_overflow(a, b, &out);
}

template <typename T> [[nodiscard]] bool checked_mul(T a, T b, T & out) {
    static_assert(std::is_integral_v<T>);
    return !__builtin_mul_overflow(a, b, &out);
}

// value rounded up to a multiple of align (a power of two).
[[nodiscard]] inline bool checked_align(uint64_t value, uint64_t align, uint64_t & out) {
    uint64_t sum = 0;
    if (align == 0 || !checked_add<uint64_t>(value, align - 1, sum)) {
        return false;
    }
    out = sum / align * align;
    return true;
}

}  // namespace lumi
