// Specials out, spaces marked, newline runs apart, then merges. See cases/tokenizers.md T1.
#include "tokenizer/bpe_tokenizer.h"

#include "tokenizer/space_mark.h"
#include "tokenizer/vocab_family.h"

namespace lumi {

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::load(const GgufFile & file) {
    std::unique_ptr<Vocab> vocab = LUMI_TRY(Vocab::load(file, kGemma4Vocab));
    MergeTable merges = LUMI_TRY(MergeTable::load(file, *vocab));
    return std::unique_ptr<Tokenizer>(new BpeTokenizer(std::move(vocab), std::move(merges)));
}

void BpeTokenizer::encode(std::string_view text, Specials specials,
                          std::vector<TokenId> & out) const {
    const SpecialMatcher & matcher = vocab_->matcher(specials);
    std::string marked;
    for (size_t at = 0; at < text.size();) {
        const SpecialMatcher::Match special = matcher.find(text, at);
        mark_spaces(text.substr(at, special.position - at), marked);
        for (std::string_view rest = marked; !rest.empty();) {
            const bool newlines = rest[0] == '\n';
            size_t end = newlines ? rest.find_first_not_of('\n') : rest.find('\n');
            end = std::min({end, rest.size(), kMaxRunBytes});
            encode_run(rest.substr(0, end), out);
            rest.remove_prefix(end);
        }
        if (special.size > 0) {
            out.push_back(special.id);
        }
        at = special.position + special.size;
    }
}

void BpeTokenizer::encode_run(std::string_view run, std::vector<TokenId> & out) const {
    if (run[0] == '\n') {
        if (const TokenId id = vocab_->find_ordinary(run); id >= 0) {
            out.push_back(id);
            return;
        }
    }
    std::vector<Symbol> symbols = split_characters(
        run, [&](std::string_view character) { return vocab_->find_ordinary(character); });
    merge_symbols(symbols, [&](const Symbol & left, const Symbol & right) {
        return left.id < 0 || right.id < 0 ? MergeCandidate{} : merges_.find(left.id, right.id);
    });
    vocab_->append_symbols(symbols, run, out);
}

std::string BpeTokenizer::piece(TokenId id, bool with_special) const {
    return vocab_->piece(id, with_special);
}

}  // namespace lumi
