// SHA-256 (FIPS 180-4), for fingerprints of files.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lumi {

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace lumi
