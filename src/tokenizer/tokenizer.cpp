// Chooses the tokenizer by the file's own word, and what all of them share.
#include "tokenizer/tokenizer.h"

#include "base/utf8.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/byte_level_tokenizer.h"
#include "tokenizer/sentencepiece_tokenizer.h"
#include "tokenizer/vocab.h"

#include <algorithm>

namespace lumi {

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const GgufFile & file) {
    // Files may carry merges and scores both, so only this key decides (cases/tokenizers.md T2).
    const std::string_view model = LUMI_TRY(file.get_string("tokenizer.ggml.model"));
    if (model == "gemma4") {
        return BpeTokenizer::load(file);
    }
    if (model == "llama") {
        return SentencePieceTokenizer::load(file);
    }
    if (model == "gpt2") {
        return ByteLevelTokenizer::load(file);
    }
    return Error{ErrorKind::unsupported, "tokenizer.ggml.model is " + quoted(model, 64) +
                                             "; 'gemma4', 'llama' and 'gpt2' are supported"};
}

Tokenizer::Tokenizer(std::unique_ptr<Vocab> vocab) : vocab_(std::move(vocab)) {}
Tokenizer::~Tokenizer() = default;

int32_t Tokenizer::n_tokens() const {
    return static_cast<int32_t>(vocab_->types.size());
}

std::string_view Tokenizer::text(TokenId id) const {
    return vocab_->contains(id) ? vocab_->text(id) : std::string_view();
}

TokenType Tokenizer::type(TokenId id) const {
    return vocab_->contains(id) ? vocab_->type(id) : TokenType::unused;
}

TokenId Tokenizer::find(std::string_view text) const {
    return vocab_->find(text);
}

TokenId Tokenizer::bos() const {
    return vocab_->bos;
}

bool Tokenizer::add_bos() const {
    return vocab_->add_bos;
}

bool Tokenizer::is_end(TokenId id) const {
    return std::binary_search(vocab_->ends.begin(), vocab_->ends.end(), id);
}

std::vector<TokenId> Tokenizer::end_tokens() const {
    return vocab_->ends;
}

const std::vector<TokenId> & Tokenizer::suppressed() const {
    return vocab_->suppressed;
}

std::string Tokenizer::decode(const std::vector<TokenId> & ids, bool with_special) const {
    std::string text;
    bool strip = strips_first_space();
    for (const TokenId id : ids) {
        std::string bytes = piece(id, with_special);
        if (strip && !bytes.empty()) {
            strip = false;
            bytes.erase(0, bytes[0] == ' ' ? 1 : 0);
        }
        text += bytes;
    }
    return text;
}

}  // namespace lumi
