// Specials out, words apart, then merges from single bytes: every byte has a token, so nothing can
// be missing from the vocabulary.
#include "tokenizer/byte_level_tokenizer.h"

#include "tokenizer/vocab_family.h"

namespace lumi {

Result<std::unique_ptr<Tokenizer>> ByteLevelTokenizer::load(const GgufFile & file) {
    const std::string_view pre = LUMI_TRY(file.get_string("tokenizer.ggml.pre"));
    PreTokenizer words = LUMI_TRY(PreTokenizer::create(pre));
    std::unique_ptr<Vocab> vocab = LUMI_TRY(Vocab::load(file, kQwenVocab));
    MergeTable merges = LUMI_TRY(MergeTable::load(file, *vocab));
    return std::unique_ptr<Tokenizer>(
        new ByteLevelTokenizer(std::move(vocab), std::move(merges), std::move(words)));
}

void ByteLevelTokenizer::encode(std::string_view text, Specials specials,
                                std::vector<TokenId> & out) const {
    const SpecialMatcher & matcher = vocab_->matcher(specials);
    for (size_t at = 0; at < text.size();) {
        const SpecialMatcher::Match special = matcher.find(text, at);
        const std::string_view fragment = text.substr(at, special.position - at);
        size_t begin = 0;
        for (const size_t end : words_.word_ends(fragment)) {
            for (std::string_view word = fragment.substr(begin, end - begin); !word.empty();) {
                const std::string_view run = word.substr(0, kMaxRunBytes);
                encode_word(run, out);
                word.remove_prefix(run.size());
            }
            begin = end;
        }
        if (special.size > 0) {
            out.push_back(special.id);
        }
        at = special.position + special.size;
    }
}

void ByteLevelTokenizer::encode_word(std::string_view word, std::vector<TokenId> & out) const {
    std::vector<Symbol> symbols(word.size());
    for (size_t i = 0; i < word.size(); ++i) {
        const auto index = static_cast<int32_t>(i);
        symbols[i] = {static_cast<uint32_t>(i), 1, index - 1, index + 1,
                      vocab_->bytes[static_cast<unsigned char>(word[i])]};
    }
    symbols.back().next = -1;
    merge_symbols(symbols, [&](const Symbol & left, const Symbol & right) {
        return merges_.find(left.id, right.id);
    });
    vocab_->append_symbols(symbols, word, out);
}

std::string ByteLevelTokenizer::piece(TokenId id, bool with_special) const {
    return vocab_->piece(id, with_special);
}

}  // namespace lumi
