// A pair may merge when its joined text is a token; no table of merges exists.
#include "tokenizer/sentencepiece_tokenizer.h"

#include "tokenizer/space_mark.h"
#include "tokenizer/symbol_merge.h"
#include "tokenizer/vocab_family.h"

#include <bit>
#include <cmath>

namespace lumi {

namespace {

// Orders finite floats as unsigned numbers, the greatest first.
uint32_t descending_order(float score) {
    const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 becomes 0
    const uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    return ~ascending;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> SentencePieceTokenizer::load(const GgufFile & file) {
    std::unique_ptr<Vocab> vocab = LUMI_TRY(Vocab::load(file, kGemma3Vocab));
    constexpr const char * kScores = "tokenizer.ggml.scores";
    const std::vector<float> scores = LUMI_TRY(file.get_f32s(kScores));
    if (scores.size() != vocab->types.size()) {
        return Error{ErrorKind::invalid_file, std::string(kScores) + ": " +
                                                  std::to_string(scores.size()) + " elements for " +
                                                  std::to_string(vocab->types.size()) + " tokens"};
    }
    std::vector<uint32_t> priorities;
    priorities.reserve(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
        if (!std::isfinite(scores[i])) {
            return Error{ErrorKind::invalid_file, std::string(kScores) + ": element " +
                                                      std::to_string(i) + " is not finite"};
        }
        priorities.push_back(descending_order(scores[i]));
    }
    bool add_space_prefix = true;
    constexpr const char * kPrefix = "tokenizer.ggml.add_space_prefix";
    if (file.has(kPrefix)) {
        add_space_prefix = LUMI_TRY(file.get_bool(kPrefix));
    }
    return std::unique_ptr<Tokenizer>(
        new SentencePieceTokenizer(std::move(vocab), std::move(priorities), add_space_prefix));
}

void SentencePieceTokenizer::encode(std::string_view text, Specials specials,
                                    std::vector<TokenId> & out) const {
    const SpecialMatcher & matcher = vocab_->matcher(specials);
    std::string marked;
    for (size_t at = 0; at < text.size();) {
        const SpecialMatcher::Match special = matcher.find(text, at);
        mark_spaces(text.substr(at, special.position - at), marked);
        // Every fragment begins the text or follows a special one.
        if (add_space_prefix_ && !marked.empty()) {
            marked.insert(0, kSpaceMark);
        }
        for (std::string_view rest = marked; !rest.empty();) {
            const std::string_view run = rest.substr(0, kMaxRunBytes);
            encode_run(run, out);
            rest.remove_prefix(run.size());
        }
        if (special.size > 0) {
            out.push_back(special.id);
        }
        at = special.position + special.size;
    }
}

void SentencePieceTokenizer::encode_run(std::string_view run, std::vector<TokenId> & out) const {
    std::vector<Symbol> symbols = split_characters(
        run, [&](std::string_view character) { return vocab_->find_ordinary(character); });
    merge_symbols(symbols, [&](const Symbol & left, const Symbol & right) -> MergeCandidate {
        const size_t size = size_t{left.size} + right.size;
        const TokenId id =
            size > vocab_->longest_text ? -1 : vocab_->find_ordinary(run.substr(left.offset, size));
        return id < 0 ? MergeCandidate{} : MergeCandidate{priorities_[static_cast<size_t>(id)], id};
    });
    vocab_->append_symbols(symbols, run, out);
}

std::string SentencePieceTokenizer::piece(TokenId id, bool with_special) const {
    return vocab_->piece(id, with_special);
}

}  // namespace lumi
