// Training data from text: JSONL of chats, prompts or texts, or a plain corpus. Which one it is, is
// decided by the first character that is not white space.
#include "train/dataset_builder.h"

#include "base/utf8.h"
#include "chat/message_json.h"

#include <nlohmann/json.hpp>

#include <set>

namespace lumi {

namespace {

using nlohmann::json;

constexpr std::string_view kBlank = " \t\r\n\f\v";

bool is_blank(std::string_view text) {
    return text.find_first_not_of(kBlank) == std::string_view::npos;
}

Error bad(const std::string & what) {
    return {ErrorKind::invalid_argument, what};
}

std::string key_list(const json & object) {
    std::string text;
    for (auto it = object.begin(); it != object.end() && text.size() < 200; ++it) {
        text += (text.empty() ? "" : ", ") + quoted(it.key(), 40);
    }
    return text.empty() ? "none" : text;
}

Result<std::string> string_field(const json & object, const char * key) {
    const json & value = object[key];
    if (!value.is_string()) {
        return bad(std::string(key) + " is " + value.type_name() + ", allowed is a string");
    }
    return value.get<std::string>();
}

// BOS and the text's tokens, all of them targets.
void add_text(DatasetBuilder & builder, const Tokenizer & tokenizer, std::string_view text,
              SampleKind kind, int number) {
    const bool bos = tokenizer.add_bos() && tokenizer.bos() >= 0;
    Sample sample;
    sample.line = number;
    if (bos) {
        sample.tokens.push_back(tokenizer.bos());
    }
    tokenizer.encode(text, Tokenizer::Specials::untrusted, sample.tokens);
    sample.target_weight.assign(sample.tokens.size(), 1.0F);
    builder.add(std::move(sample), kind, bos);
}

// Reads JSONL line by line into a builder; remembers which kinds of lines it met.
class LineReader {
  public:
    LineReader(DatasetBuilder & builder, const ChatFormat & format, const Tokenizer & tokenizer)
        : builder_(&builder), format_(&format), tokenizer_(&tokenizer) {}

    Status read(std::string_view line, int number) {
        const json value = LUMI_TRY(parse_json(line));
        if (!value.is_object()) {
            return bad(std::string("found ") + value.type_name() + ", allowed is a JSON object");
        }
        if (value.contains("messages")) {
            return read_messages(value, number);
        }
        if (value.contains("prompt") && value.contains("completion")) {
            return read_prompt(value, number);
        }
        if (value.contains("text")) {
            return read_text(value, number);
        }
        return bad("found the keys " + key_list(value) +
                   "; allowed: messages, prompt with completion, or text");
    }

    std::string format_name() const {
        return (kinds_.size() == 1 ? *kinds_.begin() : std::string("mixed")) + " JSONL";
    }

  private:
    Status read_messages(const json & value, int number) {
        kinds_.insert("chat");
        const std::vector<Message> messages = LUMI_TRY(messages_from_json(value["messages"]));
        std::vector<Tool> tools;
        if (value.contains("tools") && !value["tools"].is_null()) {
            tools = LUMI_TRY(tools_from_json(value["tools"]));
        }
        return builder_->add_chat(messages, tools, *format_, number);
    }

    Status read_prompt(const json & value, int number) {
        kinds_.insert("prompt");
        std::vector<Message> messages(2);
        messages[0].role = Role::user;
        messages[0].content = LUMI_TRY(string_field(value, "prompt"));
        messages[1].role = Role::assistant;
        messages[1].content = LUMI_TRY(string_field(value, "completion"));
        return builder_->add_chat(messages, {}, *format_, number);
    }

    Status read_text(const json & value, int number) {
        kinds_.insert("text");
        const std::string text = LUMI_TRY(string_field(value, "text"));
        add_text(*builder_, *tokenizer_, text, SampleKind::document, number);
        return {};
    }

    DatasetBuilder * builder_;
    const ChatFormat * format_;
    const Tokenizer * tokenizer_;
    std::set<std::string> kinds_;
};

std::string without_carriage_returns(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') {
            out += text[i];
        }
    }
    return out;
}

Result<Dataset> parse_lines(std::string_view text, DatasetBuilder & builder,
                            const ChatFormat & format, const Tokenizer & tokenizer) {
    LineReader reader(builder, format, tokenizer);
    int number = 0;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        ++number;
        begin = end + 1;
        if (is_blank(line)) {
            continue;
        }
        const Status status = reader.read(line, number);
        if (!status.ok()) {
            return status.error().within("line " + std::to_string(number));
        }
    }
    return builder.finish(reader.format_name());
}

}  // namespace

Result<Dataset> parse_dataset(std::string_view text, const ChatFormat & format,
                              const Tokenizer & tokenizer, const DatasetOptions & options) {
    LUMI_TRY(check_dataset_options(options));
    if (text.starts_with("\xEF\xBB\xBF")) {
        text.remove_prefix(3);
    }
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
        return bad("training data is UTF-16; save it as UTF-8");
    }
    const size_t first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) {
        return bad("training data is empty (" + std::to_string(text.size()) +
                   " bytes, only white space)");
    }
    DatasetBuilder builder(options);
    if (text[first] == '{') {
        return parse_lines(text, builder, format, tokenizer);
    }
    const size_t second = text.find_first_not_of(kBlank, first + 1);
    if (text[first] == '[' && second != std::string_view::npos && text[second] == '{') {
        return bad("training data is one JSON list; put each of its objects on a line (JSONL)");
    }
    add_text(builder, tokenizer, without_carriage_returns(text), SampleKind::corpus, 1);
    return builder.finish("plain text");
}

}  // namespace lumi
