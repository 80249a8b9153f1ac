// How byte-level vocabularies write bytes as characters: printable ones as themselves, the other 68
// as U+0100 and up in byte order, so that a space is U+0120 and a newline U+010A.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lumi {

std::string byte_symbol(uint8_t byte);  // in UTF-8

// The bytes a token's text stands for. What is no byte symbol stays as it is.
std::string bytes_of_symbols(std::string_view text);

}  // namespace lumi
