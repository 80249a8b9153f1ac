// Reads and checks the vocabulary's arrays. Everything in them was chosen by whoever wrote the
// file.
#include "tokenizer/vocab.h"

#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/byte_symbols.h"
#include "tokenizer/space_mark.h"
#include "tokenizer/vocab_family.h"

#include <algorithm>
#include <optional>

namespace lumi {

namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxTextBytes = size_t{1} << 16;
// Matching walks as deep as the longest special text, at every place of a text.
constexpr size_t kMaxSpecialBytes = 256;

bool one_of(std::string_view text, std::span<const std::string_view> texts) {
    return std::find(texts.begin(), texts.end(), text) != texts.end();
}

std::optional<uint8_t> byte_of(std::string_view text) {
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') {
        return std::nullopt;
    }
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const size_t high = kHex.find(text[3]);
    const size_t low = kHex.find(text[4]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
        return std::nullopt;
    }
    return static_cast<uint8_t>(high * 16 + low);
}

// Structure in disguise: user-defined in the file, but content from a user must not produce it.
bool is_reserved(std::string_view text, const VocabFamily & family) {
    return one_of(text, family.user_defined) || one_of(text, family.reserved) ||
           text.starts_with("<|") || text.ends_with("|>");
}

Error bad_file(std::string message) {
    return {ErrorKind::invalid_file, std::move(message)};
}

}  // namespace

Result<std::unique_ptr<Tokenizer::Vocab>> Tokenizer::Vocab::load(const GgufFile & file,
                                                                 const VocabFamily & family) {
    auto vocab = std::make_unique<Vocab>();
    LUMI_TRY(vocab->load_texts(file));
    LUMI_TRY(vocab->load_types(file));
    vocab->correct_types(family);
    vocab->byte_level = family.byte_level;
    LUMI_TRY(family.byte_level ? vocab->find_byte_symbols() : vocab->find_bytes());
    vocab->find_specials(family);
    LUMI_TRY(vocab->load_ids(file, family));
    return vocab;
}

Status Tokenizer::Vocab::load_texts(const GgufFile & file) {
    const std::vector<std::string_view> texts = LUMI_TRY(file.get_strings("tokenizer.ggml.tokens"));
    if (texts.empty() || texts.size() > kMaxTokens) {
        return bad_file("tokenizer.ggml.tokens: " + std::to_string(texts.size()) +
                        " tokens; 1 to " + std::to_string(kMaxTokens) + " are allowed");
    }
    size_t total = 0;
    for (const std::string_view token : texts) {
        longest_text = std::max(longest_text, token.size());
        total += token.size();
    }
    if (longest_text > kMaxTextBytes || total > UINT32_MAX) {
        return bad_file("tokenizer.ggml.tokens: longest text " + std::to_string(longest_text) +
                        " bytes, together " + std::to_string(total) + "; at most " +
                        std::to_string(kMaxTextBytes) + " and 4 GiB are allowed");
    }
    arena.reserve(total);
    starts.reserve(texts.size() + 1);
    for (const std::string_view token : texts) {
        starts.push_back(static_cast<uint32_t>(arena.size()));
        arena += token;
    }
    starts.push_back(static_cast<uint32_t>(arena.size()));
    table = std::make_unique<TextTable>(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
        // Of equal texts the first id is the one that text becomes.
        const auto id = static_cast<TokenId>(i);
        if (table->insert(text(id), id) == TextTable::Insert::clustered) {
            return bad_file("tokenizer.ggml.tokens: texts chosen to collide, at token " +
                            std::to_string(i));
        }
    }
    return {};
}

Status Tokenizer::Vocab::load_types(const GgufFile & file) {
    const size_t count = starts.size() - 1;
    types.assign(count, TokenType::normal);
    constexpr const char * kKey = "tokenizer.ggml.token_type";
    if (!file.has(kKey)) {
        return {};
    }
    const std::vector<int32_t> numbers = LUMI_TRY(file.get_i32s(kKey));
    if (numbers.size() != count) {
        return bad_file(std::string(kKey) + ": " + std::to_string(numbers.size()) +
                        " elements for " + std::to_string(count) + " tokens");
    }
    for (size_t i = 0; i < count; ++i) {
        if (numbers[i] < 0 || numbers[i] > 6) {
            return bad_file(std::string(kKey) + ": element " + std::to_string(i) + " is " +
                            std::to_string(numbers[i]) + "; 0 to 6 are allowed");
        }
        types[i] = numbers[i] == 0 ? TokenType::normal : static_cast<TokenType>(numbers[i]);
    }
    return {};
}

void Tokenizer::Vocab::correct_types(const VocabFamily & family) {
    std::string corrected;
    const auto correct = [&](TokenId id, TokenType wanted) {
        TokenType & found = types[static_cast<size_t>(id)];
        const bool also_fine = wanted == TokenType::control && found == TokenType::unknown;
        if (found != wanted && !also_fine) {
            found = wanted;
            corrected += (corrected.empty() ? "" : ", ") + std::string(text(id));
        }
    };
    const auto correct_all = [&](std::span<const std::string_view> texts, TokenType wanted) {
        for (const std::string_view wanted_text : texts) {
            if (const TokenId id = find(wanted_text); id >= 0) {
                correct(id, wanted);
            }
        }
    };
    correct_all(family.control, TokenType::control);
    correct_all(family.user_defined, TokenType::user_defined);
    correct_all(family.normal, TokenType::normal);
    if (!corrected.empty()) {
        log(LogLevel::info,
            std::string("token types corrected for ") + family.name + ": " + corrected);
    }
}

Status Tokenizer::Vocab::find_bytes() {
    bytes.fill(-1);
    for (size_t i = 0; i < types.size(); ++i) {
        const auto id = static_cast<TokenId>(i);
        const std::optional<uint8_t> byte = byte_of(text(id));
        if (byte && find(text(id)) == id) {
            bytes[*byte] = id;
            types[i] = TokenType::byte;
        } else if (types[i] == TokenType::byte) {
            return bad_file("token " + std::to_string(i) + " is of type byte but reads " +
                            quoted(text(id), 32) + "; <0x00> to <0xFF> once each are allowed");
        }
    }
    const auto missing = std::find(bytes.begin(), bytes.end(), -1);
    if (missing != bytes.end()) {
        return bad_file("the vocabulary has no token for byte " +
                        std::to_string(missing - bytes.begin()) +
                        "; all of <0x00> to <0xFF> are needed");
    }
    return {};
}

// Bytes are ordinary tokens here, and pieces are made of them.
Status Tokenizer::Vocab::find_byte_symbols() {
    for (size_t byte = 0; byte < bytes.size(); ++byte) {
        bytes[byte] = find(byte_symbol(static_cast<uint8_t>(byte)));
        if (bytes[byte] < 0 || type(bytes[byte]) != TokenType::normal) {
            return bad_file("the vocabulary has no normal token for byte " + std::to_string(byte) +
                            ", " + quoted(byte_symbol(static_cast<uint8_t>(byte))) +
                            "; all 256 are needed");
        }
    }
    const auto wrong = std::find(types.begin(), types.end(), TokenType::byte);
    if (wrong != types.end()) {
        return bad_file("token " + std::to_string(wrong - types.begin()) +
                        " is of type byte, which a byte-level vocabulary does not have");
    }
    return {};
}

void Tokenizer::Vocab::find_specials(const VocabFamily & family) {
    using Entry = std::pair<std::string_view, int32_t>;
    std::array<std::vector<Entry>, 3> entries;
    ordinary.assign(types.size(), true);
    for (size_t i = 0; i < types.size(); ++i) {
        const auto id = static_cast<TokenId>(i);
        const bool user_defined = types[i] == TokenType::user_defined;
        const bool hidden = types[i] == TokenType::control || types[i] == TokenType::unknown;
        const bool reserved = user_defined && is_reserved(text(id), family);
        ordinary[i] = !hidden && !reserved && types[i] != TokenType::byte;
        const Entry entry{text(id), id};
        if ((!user_defined && !hidden) || entry.first.empty() || find(entry.first) != id ||
            entry.first.size() > kMaxSpecialBytes) {
            continue;
        }
        entries[static_cast<size_t>(Specials::parse)].push_back(entry);
        if (user_defined) {
            entries[static_cast<size_t>(Specials::plain)].push_back(entry);
            if (!reserved) {
                entries[static_cast<size_t>(Specials::untrusted)].push_back(entry);
            }
        }
    }
    for (size_t i = 0; i < entries.size(); ++i) {
        matchers[i] = SpecialMatcher(std::move(entries[i]));
    }
}

Status Tokenizer::Vocab::load_ids(const GgufFile & file, const VocabFamily & family) {
    const auto token_of = [&](const char * key) -> Result<TokenId> {
        if (!file.has(key)) {
            return TokenId{-1};
        }
        const uint32_t id = LUMI_TRY(file.get_u32(key));
        if (id >= types.size()) {
            return bad_file(std::string(key) + " is " + std::to_string(id) +
                            "; the vocabulary has " + std::to_string(types.size()) + " tokens");
        }
        return static_cast<TokenId>(id);
    };
    bos = LUMI_TRY(token_of("tokenizer.ggml.bos_token_id"));
    if (bos < 0) {
        bos = find("<bos>");
    }
    add_bos = family.add_bos != BosRule::if_file_says_so;
    if (family.add_bos != BosRule::always && file.has("tokenizer.ggml.add_bos_token")) {
        add_bos = LUMI_TRY(file.get_bool("tokenizer.ggml.add_bos_token"));
    }
    add_bos = add_bos && bos >= 0;
    for (const std::string_view end : family.ends) {
        if (const TokenId id = find(end); id >= 0) {
            ends.push_back(id);
        }
    }
    for (const char * key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
        const TokenId id = LUMI_TRY(token_of(key));
        // Text that a model may write, such as </s>, must not stop it whatever the file says.
        if (id >= 0 && type(id) == TokenType::control) {
            ends.push_back(id);
        } else if (id >= 0) {
            log(LogLevel::warning, std::string(key) + " names " + quoted(text(id), 32) +
                                       ", which is not a control token: it does not end answers");
        }
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    // Nothing here uses these two, so a slip in them is no reason to refuse the file.
    for (const char * key :
         {"tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"}) {
        if (const Result<TokenId> id = token_of(key); !id.ok()) {
            log(LogLevel::warning, id.error().message + ": it is not used");
        }
    }
    constexpr const char * kSuppress = "tokenizer.ggml.suppress_tokens";
    if (file.has(kSuppress)) {
        suppressed = LUMI_TRY(file.get_i32s(kSuppress));
        for (const TokenId id : suppressed) {
            if (!contains(id)) {
                return bad_file(std::string(kSuppress) + " names token " + std::to_string(id) +
                                "; the vocabulary has " + std::to_string(types.size()));
            }
        }
    }
    return {};
}

std::string_view Tokenizer::Vocab::text(TokenId id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(arena).substr(starts[i], starts[i + 1] - starts[i]);
}

TokenId Tokenizer::Vocab::find_ordinary(std::string_view wanted) const {
    const TokenId id = find(wanted);
    return id >= 0 && is_ordinary(id) ? id : -1;
}

void Tokenizer::Vocab::append_symbols(const std::vector<Symbol> & symbols, std::string_view run,
                                      std::vector<TokenId> & out) const {
    for (int32_t i = symbols.empty() ? -1 : 0; i >= 0;) {
        const Symbol & symbol = symbols[static_cast<size_t>(i)];
        if (symbol.id >= 0) {
            out.push_back(symbol.id);
        } else {
            for (const char c : run.substr(symbol.offset, symbol.size)) {
                out.push_back(bytes[static_cast<unsigned char>(c)]);
            }
        }
        i = symbol.next;
    }
}

std::string Tokenizer::Vocab::piece(TokenId id, bool with_special) const {
    if (!contains(id)) {
        return {};
    }
    switch (type(id)) {
    case TokenType::byte:
        return std::string(1, static_cast<char>(*byte_of(text(id))));
    case TokenType::user_defined:
        return std::string(text(id));
    case TokenType::normal:
        break;
    case TokenType::unknown:
    case TokenType::control:
    case TokenType::unused:
        return with_special ? std::string(text(id)) : std::string();
    }
    return byte_level ? bytes_of_symbols(text(id)) : unmark_spaces(text(id));
}

}  // namespace lumi
