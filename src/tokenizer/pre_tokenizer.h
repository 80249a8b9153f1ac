// Cuts text into the words that a byte-level vocabulary merges within: a Unicode pattern by
// tokenizer.ggml.pre, run by PCRE2. Merges never cross a cut.
#pragma once

#include <lumi/error.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace lumi {

class PreTokenizer {
  public:
    // name: "qwen2", "gpt-2", ...; an unknown one lists the known.
    static Result<PreTokenizer> create(std::string_view name);
    PreTokenizer(PreTokenizer && other) noexcept;
    PreTokenizer & operator=(PreTokenizer && other) noexcept;
    ~PreTokenizer();

    // Where each word of text ends; the last is text.size(). Time and memory are linear in the
    // text. Bytes that are not UTF-8 count as symbols.
    std::vector<size_t> word_ends(std::string_view text) const;

  private:
    struct Code;
    explicit PreTokenizer(std::unique_ptr<Code> code);
    std::unique_ptr<Code> code_;
};

}  // namespace lumi
