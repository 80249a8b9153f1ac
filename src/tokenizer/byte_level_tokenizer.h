// tokenizer.ggml.model = "gpt2": rank-ordered BPE over the bytes of words that a Unicode pattern
// cuts out. Qwen and GPT-2 use it.
#pragma once

#include "tokenizer/merge_table.h"
#include "tokenizer/pre_tokenizer.h"

namespace lumi {

class ByteLevelTokenizer final : public Tokenizer {
  public:
    static Result<std::unique_ptr<Tokenizer>> load(const GgufFile & file);

    using Tokenizer::encode;
    void encode(std::string_view text, Specials specials,
                std::vector<TokenId> & out) const override;
    std::string piece(TokenId id, bool with_special) const override;

  private:
    ByteLevelTokenizer(std::unique_ptr<Vocab> vocab, MergeTable merges, PreTokenizer words)
        : Tokenizer(std::move(vocab)), merges_(std::move(merges)), words_(std::move(words)) {}
    void encode_word(std::string_view word, std::vector<TokenId> & out) const;

    MergeTable merges_;
    PreTokenizer words_;
};

}  // namespace lumi
