// Follows brackets and strings only; whether a record is valid JSON, its own parser says.
#include "train/record_scanner.h"

#include "base/utf8.h"

#include <string>

namespace lumi {

namespace {

constexpr std::string_view kBlank = " \t\r\n\f\v";
constexpr size_t kNone = std::string_view::npos;

Error bad(int line, const std::string & what) {
    return {ErrorKind::invalid_argument, "line " + std::to_string(line) + ": " + what};
}

}  // namespace

bool RecordScanner::is_list(std::string_view text) {
    const size_t first = text.find_first_not_of(kBlank);
    if (first == kNone || text[first] != '[') {
        return false;
    }
    const size_t second = text.find_first_not_of(kBlank, first + 1);
    return second != kNone && (text[second] == '{' || text[second] == '"' || text[second] == ']');
}

bool RecordScanner::is_spread(std::string_view text) {
    const size_t first = text.find_first_not_of(kBlank);
    if (first == kNone || text[first] != '{') {
        return false;
    }
    const size_t second = text.find_first_not_of(" \t\r\f\v", first + 1);
    return second != kNone && text[second] == '\n';
}

void RecordScanner::skip_blanks() {
    while (pos_ < text_.size() && kBlank.find(text_[pos_]) != kNone) {
        line_ += text_[pos_] == '\n' ? 1 : 0;
        ++pos_;
    }
}

size_t RecordScanner::record_end() const {
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = pos_; i < text_.size(); ++i) {
        const char c = text_[i];
        if (in_string) {
            i += c == '\\' ? 1 : 0;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            ++depth;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0 ? 1 : 0;
        }
        if (depth == 0 && !in_string) {
            return i + 1;
        }
    }
    return kNone;
}

// Steps over what stands before a record of the list; false at the list's end.
Result<bool> RecordScanner::enter_list_record() {
    const bool was_first = first_;
    first_ = false;
    pos_ += was_first ? 1 : 0;  // '[', as is_list saw
    skip_blanks();
    if (pos_ < text_.size() && text_[pos_] == ']') {
        ++pos_;
        skip_blanks();
        return pos_ < text_.size() ? Result<bool>(bad(line_, "something follows the list")) : false;
    }
    if (was_first) {
        return true;
    }
    if (pos_ < text_.size() && text_[pos_] != ',') {
        return bad(line_, "found " + quoted(text_.substr(pos_, 1)) +
                              "; allowed is , or ] after a record of the list");
    }
    pos_ += pos_ < text_.size() ? 1 : 0;
    skip_blanks();
    return true;
}

Result<std::optional<RecordText>> RecordScanner::next() {
    skip_blanks();
    if (in_list_ ? !LUMI_TRY(enter_list_record()) : pos_ >= text_.size()) {
        return std::optional<RecordText>();
    }
    if (pos_ >= text_.size()) {
        return bad(line_, "the list does not end; allowed is ]");
    }
    if (text_[pos_] != '{' && (text_[pos_] != '"' || !in_list_)) {
        return bad(line_, "found " + quoted(text_.substr(pos_, 1)) + "; allowed is a JSON object");
    }
    const size_t end = record_end();
    if (end == kNone) {
        return bad(line_, "the JSON record that begins here does not end");
    }
    const RecordText record{text_.substr(pos_, end - pos_), line_};
    for (; pos_ < end; ++pos_) {
        line_ += text_[pos_] == '\n' ? 1 : 0;
    }
    return std::optional(record);
}

}  // namespace lumi
