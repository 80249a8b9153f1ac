// Specials out, spaces marked, newline runs apart, then merges. See cases/tokenizers.md T1.
#include "tokenizer/bpe_tokenizer.h"

#include "base/utf8.h"
#include "tokenizer/space_mark.h"
#include "tokenizer/vocab_family.h"

namespace lumi {

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::load(const GgufFile & file) {
    std::unique_ptr<Vocab> vocab = LUMI_TRY(Vocab::load(file, kGemma4Vocab));
    MergeTable merges = LUMI_TRY(load_merges(file, *vocab));
    return std::unique_ptr<Tokenizer>(new BpeTokenizer(std::move(vocab), std::move(merges)));
}

Result<MergeTable> BpeTokenizer::load_merges(const GgufFile & file, const Vocab & vocab) {
    constexpr const char * kKey = "tokenizer.ggml.merges";
    const std::vector<std::string_view> merges = LUMI_TRY(file.get_strings(kKey));
    MergeTable table(merges.size());
    std::string joined;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const std::string_view merge = merges[rank];
        const auto bad_merge = [&](const char * why) {
            return Error{ErrorKind::invalid_file, std::string(kKey) + ": element " +
                                                      std::to_string(rank) + ", " +
                                                      quoted(merge, 64) + ", " + why};
        };
        const size_t space = merge.find(' ', 1);
        if (space == std::string_view::npos || space + 1 == merge.size()) {
            return bad_merge("is not two texts with a space between");
        }
        joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        const TokenId left = vocab.find(merge.substr(0, space));
        const TokenId right = vocab.find(merge.substr(space + 1));
        const TokenId whole = vocab.find(joined);
        if (left < 0 || right < 0 || whole < 0) {
            return bad_merge("joins or makes a text that is not in the vocabulary");
        }
        // Ordinary text never merges into a control token, whatever the file wants.
        if (vocab.is_ordinary(whole) &&
            !table.insert(left, right, {static_cast<uint32_t>(rank), whole})) {
            return bad_merge("was chosen to collide with others");
        }
    }
    return table;
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
