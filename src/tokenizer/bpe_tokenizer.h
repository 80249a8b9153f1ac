// tokenizer.ggml.model = "gemma4": rank-ordered BPE over raw UTF-8 with spaces as U+2581, split
// only at runs of newlines, bytes for what the vocabulary lacks. The scores in such files are
// unused.
#pragma once

#include "tokenizer/merge_table.h"

namespace lumi {

class BpeTokenizer final : public Tokenizer {
  public:
    static Result<std::unique_ptr<Tokenizer>> load(const GgufFile & file);

    using Tokenizer::encode;
    void encode(std::string_view text, Specials specials,
                std::vector<TokenId> & out) const override;
    std::string piece(TokenId id, bool with_special) const override;

  private:
    BpeTokenizer(std::unique_ptr<Vocab> vocab, MergeTable merges)
        : Tokenizer(std::move(vocab)), merges_(std::move(merges)) {}
    void encode_run(std::string_view run, std::vector<TokenId> & out) const;

    MergeTable merges_;
};

}  // namespace lumi
