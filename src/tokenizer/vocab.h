// A vocabulary as every tokenizer needs it: texts, types (a file's slips corrected), special texts,
// byte tokens, the ids that end a generation. No merging: that is what tells the algorithms apart.
#pragma once

#include "tokenizer/special_matcher.h"
#include "tokenizer/symbol_merge.h"
#include "tokenizer/text_table.h"
#include "tokenizer/tokenizer.h"

#include <array>

namespace lumi {

struct VocabFamily;

struct Tokenizer::Vocab {
    static Result<std::unique_ptr<Vocab>> load(const GgufFile & file, const VocabFamily & family);

    std::string_view text(TokenId id) const;
    TokenType type(TokenId id) const { return types[static_cast<size_t>(id)]; }
    bool contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < types.size(); }
    TokenId find(std::string_view wanted) const { return table->find(wanted); }
    // Like find, but never a token that text must not turn into: control, unknown, byte, reserved.
    TokenId find_ordinary(std::string_view wanted) const;
    bool is_ordinary(TokenId id) const { return ordinary[static_cast<size_t>(id)]; }
    const SpecialMatcher & matcher(Specials specials) const {
        return matchers[static_cast<size_t>(specials)];
    }
    // The ids of what is left after merging; a symbol without one becomes its bytes' tokens.
    void append_symbols(const std::vector<Symbol> & symbols, std::string_view run,
                        std::vector<TokenId> & out) const;
    std::string piece(TokenId id, bool with_special) const;

    std::string arena;             // all texts, one after another
    std::vector<uint32_t> starts;  // of each text in arena, and the end
    std::vector<TokenType> types;
    std::vector<bool> ordinary;
    std::unique_ptr<TextTable> table;
    std::array<SpecialMatcher, 3> matchers;  // by Specials
    std::array<TokenId, 256> bytes{};
    bool byte_level = false;
    std::vector<TokenId> ends;  // sorted
    std::vector<TokenId> suppressed;
    TokenId bos = -1;
    bool add_bos = true;
    size_t longest_text = 0;

  private:
    Status load_texts(const GgufFile & file);
    Status load_types(const GgufFile & file);
    void correct_types(const VocabFamily & family);
    Status find_bytes();
    Status find_byte_symbols();
    void find_specials(const VocabFamily & family);
    Status load_ids(const GgufFile & file, const VocabFamily & family);
};

}  // namespace lumi
