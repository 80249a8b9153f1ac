// tokenizer.ggml.model = "llama": SentencePiece, neighbours merged by the score of what they make,
// bytes for what the vocabulary lacks. Gemma 3 and Llama 2 use it.
#pragma once

#include "tokenizer/vocab.h"

namespace lumi {

class SentencePieceTokenizer final : public Tokenizer {
  public:
    static Result<std::unique_ptr<Tokenizer>> load(const GgufFile & file);

    using Tokenizer::encode;
    void encode(std::string_view text, Specials specials,
                std::vector<TokenId> & out) const override;
    std::string piece(TokenId id, bool with_special) const override;
    bool strips_first_space() const override { return add_space_prefix_; }

  private:
    SentencePieceTokenizer(std::unique_ptr<Vocab> vocab, std::vector<uint32_t> priorities,
                           bool add_space_prefix)
        : Tokenizer(std::move(vocab)), priorities_(std::move(priorities)),
          add_space_prefix_(add_space_prefix) {}
    void encode_run(std::string_view run, std::vector<TokenId> & out) const;

    std::vector<uint32_t> priorities_;  // of each token: the higher its score, the lower
    bool add_space_prefix_;             // a space before text at the start and after specials
};

}  // namespace lumi
