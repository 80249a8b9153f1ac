// A recursive reader that accepts what the writer writes, and slips that models make: spaces,
// quoted keys, JSON strings. What is none of that is not a call.
#include "chat/gemma4_values.h"
#include "chat/trim.h"

#include <nlohmann/json.hpp>

namespace lumi {

namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;

class ValueReader {
  public:
    explicit ValueReader(std::string_view text) : rest_(text) {}

    // {key:value,...} up to the end of the text.
    bool read_whole_object(Json & out) {
        return read_object(out, 0) && (skip_spaces(), rest_.empty());
    }

  private:
    bool read_value(Json & out, int depth) {
        skip_spaces();
        if (rest_.empty() || depth > kMaxDepth) {
            return false;
        }
        if (rest_.starts_with(kGemma4Quote)) {
            std::string text;
            if (!read_string(text)) {
                return false;
            }
            out = std::move(text);
            return true;
        }
        switch (rest_[0]) {
        case '{':
            return read_object(out, depth + 1);
        case '[':
            return read_array(out, depth + 1);
        case '"':
            return read_json_string(out);
        default:
            return read_bare(out);
        }
    }

    bool read_object(Json & out, int depth) {
        out = Json::object();
        if (!take("{")) {
            return false;
        }
        if (take("}")) {
            return true;
        }
        do {
            std::string key;
            Json value;
            if (!read_key(key) || !take(":") || !read_value(value, depth)) {
                return false;
            }
            out[key] = std::move(value);
        } while (take(","));
        return take("}");
    }

    bool read_array(Json & out, int depth) {
        out = Json::array();
        if (!take("[")) {
            return false;
        }
        if (take("]")) {
            return true;
        }
        do {
            Json value;
            if (!read_value(value, depth)) {
                return false;
            }
            out.push_back(std::move(value));
        } while (take(","));
        return take("]");
    }

    bool read_key(std::string & key) {
        skip_spaces();
        if (rest_.starts_with(kGemma4Quote)) {
            return read_string(key);
        }
        if (rest_.starts_with('"')) {
            Json text;
            const bool read = read_json_string(text);
            key = read ? text.get<std::string>() : "";
            return read;
        }
        const size_t end = rest_.find_first_of(":,{}[]");
        if (end == std::string_view::npos) {
            return false;
        }
        key = trimmed(rest_.substr(0, end));
        rest_.remove_prefix(end);
        return true;
    }

    bool read_string(std::string & out) {
        const size_t end = rest_.find(kGemma4Quote, kGemma4Quote.size());
        if (end == std::string_view::npos) {
            return false;
        }
        out = rest_.substr(kGemma4Quote.size(), end - kGemma4Quote.size());
        rest_.remove_prefix(end + kGemma4Quote.size());
        return true;
    }

    bool read_json_string(Json & out) {
        size_t end = 1;
        while (end < rest_.size() && rest_[end] != '"') {
            end += rest_[end] == '\\' ? 2 : 1;
        }
        if (end >= rest_.size()) {
            return false;
        }
        out = Json::parse(rest_.substr(0, end + 1), nullptr, false);
        rest_.remove_prefix(end + 1);
        return out.is_string();
    }

    // true, false, null or a number; any other bare word is taken as a string.
    bool read_bare(Json & out) {
        const size_t end = rest_.find_first_of(",{}[]");
        const std::string_view word = trimmed(rest_.substr(0, end));
        if (end == std::string_view::npos || word.empty()) {
            return false;
        }
        out = Json::parse(word, nullptr, false);
        if (!out.is_primitive() || out.is_discarded()) {
            out = std::string(word);
        }
        rest_.remove_prefix(end);
        return true;
    }

    bool take(std::string_view wanted) {
        skip_spaces();
        if (!rest_.starts_with(wanted)) {
            return false;
        }
        rest_.remove_prefix(wanted.size());
        return true;
    }

    void skip_spaces() {
        while (!rest_.empty() && (rest_[0] == ' ' || (rest_[0] >= '\t' && rest_[0] <= '\r'))) {
            rest_.remove_prefix(1);
        }
    }

    std::string_view rest_;
};

}  // namespace

std::optional<ToolCall> read_gemma4_call(std::string_view text) {
    constexpr std::string_view kStart = "call:";
    text = trimmed(text);
    const size_t brace = text.find('{');
    if (!text.starts_with(kStart) || brace == std::string_view::npos) {
        return std::nullopt;
    }
    ToolCall call;
    call.name = trimmed(text.substr(kStart.size(), brace - kStart.size()));
    Json arguments;
    if (call.name.empty() || !ValueReader(text.substr(brace)).read_whole_object(arguments)) {
        return std::nullopt;
    }
    call.arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
    return call;
}

}  // namespace lumi
