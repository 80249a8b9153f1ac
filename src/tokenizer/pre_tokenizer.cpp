// The published patterns, written so that no match goes back over what it has seen: every repeat is
// possessive or gives back one character at most, which keeps hostile texts linear.
#include "tokenizer/pre_tokenizer.h"

#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <string>

namespace lumi {

namespace {

// White_Space of Unicode, less CR and LF, inside a class. PCRE2's own \s has U+180E besides.
constexpr const char * kBlanks =
    "\\t\\x0b\\x0c \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";

// What both patterns share; the names are those of the parts in the published expressions.
struct Parts {
    const std::string blanks = std::string("[") + kBlanks + "]";
    const std::string space = std::string("[\\r\\n") + kBlanks + "]";       // \s
    const std::string not_space = std::string("[^\\r\\n") + kBlanks + "]";  // \S
    const std::string symbol = std::string("[^\\r\\n\\p{L}\\p{N}") + kBlanks + "]";
    // \s+(?!\S)|\s+ : leaves the last space of a run to the next word.
    const std::string spaces = space + "+(?!" + not_space + ")|" + space + "++";
};

std::string gpt2_pattern() {
    const Parts p;
    return "'(?:[stmd]|re|ve|ll)| ?+\\p{L}++| ?+\\p{N}++| ?+" + p.symbol + "++|" + p.spaces;
}

std::string qwen2_pattern() {
    const Parts p;
    return "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}| ?+" +
           p.symbol + "++[\\r\\n]*+|(?:" + p.blanks + "*+[\\r\\n]++)++|" + p.spaces;
}

struct PatternRow {
    std::string_view name;
    std::string (*pattern)();
};

constexpr PatternRow kPatterns[] = {
    {"qwen2", qwen2_pattern},
    {"deepseek-r1-qwen", qwen2_pattern},
    {"gpt-2", gpt2_pattern},
};

// text with every byte that is not UTF-8 as a control character: a symbol in all patterns, of the
// same length.
std::string well_formed(std::string_view text) {
    std::string out(text);
    for (size_t at = 0; at < text.size();) {
        const size_t length = utf8_code_point_length(text.substr(at));
        if (length == 0) {
            out[at] = '\x01';
        }
        at += std::max<size_t>(length, 1);
    }
    return out;
}

}  // namespace

struct PreTokenizer::Code {
    struct Free {
        void operator()(pcre2_code * code) const { pcre2_code_free(code); }
        void operator()(pcre2_match_data * data) const { pcre2_match_data_free(data); }
        void operator()(pcre2_match_context * context) const { pcre2_match_context_free(context); }
    };
    std::unique_ptr<pcre2_code, Free> pattern;
};

PreTokenizer::PreTokenizer(std::unique_ptr<Code> code) : code_(std::move(code)) {}
PreTokenizer::PreTokenizer(PreTokenizer && other) noexcept = default;
PreTokenizer & PreTokenizer::operator=(PreTokenizer && other) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
    std::string known;
    for (const PatternRow & row : kPatterns) {
        if (row.name == name) {
            const std::string pattern = row.pattern();
            int error = 0;
            size_t place = 0;
            auto code = std::make_unique<Code>();
            code->pattern.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                              pattern.size(), PCRE2_UTF | PCRE2_ANCHORED, &error,
                                              &place, nullptr));
            if (code->pattern == nullptr) {
                return Error{ErrorKind::internal, "PCRE2 does not compile the pattern of " +
                                                      std::string(name) + ": error " +
                                                      std::to_string(error) + " at " +
                                                      std::to_string(place)};
            }
            return PreTokenizer(std::move(code));
        }
        known += (known.empty() ? "'" : ", '") + std::string(row.name) + "'";
    }
    return Error{ErrorKind::unsupported,
                 "tokenizer.ggml.pre is " + quoted(name, 64) + "; supported are " + known};
}

std::vector<size_t> PreTokenizer::word_ends(std::string_view text) const {
    const std::string subject = well_formed(text);
    const std::unique_ptr<pcre2_match_data, Code::Free> data(pcre2_match_data_create(1, nullptr));
    const std::unique_ptr<pcre2_match_context, Code::Free> context(
        pcre2_match_context_create(nullptr));
    // A match steps at most once or twice a byte; more would be a defect of a pattern above.
    const size_t steps = std::min<size_t>(1000 + 4 * text.size(), UINT32_MAX);
    pcre2_set_match_limit(context.get(), static_cast<uint32_t>(steps));
    std::vector<size_t> ends;
    for (size_t at = 0; at < subject.size();) {
        // Checking the text anew for every word would be quadratic.
        const int matched =
            pcre2_match(code_->pattern.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()),
                        subject.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
        const size_t end = matched > 0 ? pcre2_get_ovector_pointer(data.get())[1] : at;
        // Every character begins some alternative; without a match it would stand alone.
        at = end > at ? end
                      : at + std::max<size_t>(
                                 utf8_code_point_length(std::string_view(subject).substr(at)), 1);
        ends.push_back(at);
    }
    return ends;
}

}  // namespace lumi
