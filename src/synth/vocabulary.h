// The vocabulary of a synthesised model when none is given: small, of the family's own kind, so
// that tokenizers and chat formats work on it.
#pragma once

#include "gguf/gguf_writer.h"
#include "model/config.h"

namespace lumi {

// Writes tokenizer.* with n_tokens tokens: control texts, 256 byte tokens, ASCII, newline runs,
// pieces of common words, and unused ones up to the number.
Status write_small_vocabulary(Arch arch, int n_tokens, GgufWriter & writer);
// The same for families whose pieces are made of bytes.
Status write_byte_vocabulary(int n_tokens, GgufWriter & writer);

// Each gives the tokens of its prefixes, e.g. "_t", "_th", "_the".
std::span<const std::string_view> vocabulary_words();

}  // namespace lumi
