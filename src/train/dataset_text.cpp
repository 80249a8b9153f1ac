// Training data from a file's text: JSONL, a JSON list, JSON objects over several lines, or a plain
// corpus. Which one it is, the first characters decide; what a record says, dataset_record.
#include "train/dataset_builder.h"

#include "base/utf8.h"
#include "chat/message_json.h"
#include "train/dataset_record.h"
#include "train/record_scanner.h"

#include <nlohmann/json.hpp>

#include <set>

namespace lumi {

namespace {

constexpr std::string_view kBlank = " \t\r\n\f\v";
constexpr size_t kWrongLinesTold = 5;

Error bad(const std::string & what) {
    return {ErrorKind::invalid_argument, what};
}

// BOS and the text's tokens, all of them targets.
void add_text(DatasetBuilder & builder, const Tokenizer & tokenizer, std::string_view text,
              SampleKind kind, float weight, int line) {
    const bool bos = tokenizer.add_bos() && tokenizer.bos() >= 0;
    Sample sample;
    sample.line = line;
    if (bos) {
        sample.tokens.push_back(tokenizer.bos());
    }
    tokenizer.encode(text, Tokenizer::Specials::untrusted, sample.tokens);
    sample.target_weight.assign(sample.tokens.size(), weight);
    builder.add(std::move(sample), kind, bos);
}

// Puts records into a builder; remembers which kinds it met and which lines were wrong.
class RecordReader {
  public:
    RecordReader(DatasetBuilder & builder, const ChatFormat & format, const Tokenizer & tokenizer)
        : builder_(&builder), format_(&format), tokenizer_(&tokenizer) {}

    // False once enough wrong lines were seen to stop.
    bool read(const RecordText & record) {
        const Status status = add(record);
        if (!status.ok()) {
            wrong(status.error().within("line " + std::to_string(record.line)));
        }
        return n_wrong_ < kWrongLinesTold;
    }

    void wrong(const Error & error) {
        if (++n_wrong_ == 1) {
            error_ = error;
        } else {
            error_.message += "\n" + error.message;
        }
    }

    Result<Dataset> finish(const char * container) {
        if (n_wrong_ > 0) {
            error_.message += n_wrong_ < kWrongLinesTold ? "" : "\nstopped reading there";
            return error_;
        }
        const std::string kind = kinds_.empty()       ? "empty"
                                 : kinds_.size() == 1 ? *kinds_.begin()
                                                      : "mixed";
        return builder_->finish(kind + container);
    }

  private:
    Status add(const RecordText & text) {
        const nlohmann::json value = LUMI_TRY(parse_json(text.text, DuplicateKeys::refused));
        const Record record = LUMI_TRY(read_record(value));
        kinds_.insert(record.kind);
        if (record.text) {
            add_text(*builder_, *tokenizer_, *record.text, SampleKind::document, record.weight,
                     text.line);
            return {};
        }
        return builder_->add_chat(record.messages, record.tools, *format_, record.weight,
                                  text.line);
    }

    DatasetBuilder * builder_;
    const ChatFormat * format_;
    const Tokenizer * tokenizer_;
    std::set<std::string> kinds_;
    size_t n_wrong_ = 0;
    Error error_;
};

Result<Dataset> read_lines(std::string_view text, RecordReader & reader) {
    RecordText record;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        record.text = text.substr(begin, end - begin);
        ++record.line;
        begin = end + 1;
        if (record.text.find_first_not_of(kBlank) != std::string_view::npos &&
            !reader.read(record)) {
            break;
        }
    }
    return reader.finish(" JSONL");
}

Result<Dataset> read_records(std::string_view text, RecordReader & reader, const char * container) {
    RecordScanner scanner(text);
    while (true) {
        const auto record = scanner.next();
        if (!record.ok()) {
            reader.wrong(record.error());  // where the next one begins, nobody knows
            break;
        }
        if (!record->has_value() || !reader.read(**record)) {
            break;
        }
    }
    return reader.finish(container);
}

// Plain text must be text: a model or a zip given by mistake is not something to learn.
Status check_plain_text(std::string_view text) {
    int line = 1;
    for (size_t begin = 0; begin < text.size(); ++line) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view part = text.substr(begin, end - begin);
        begin = end + 1;
        if (part.find('\0') != std::string_view::npos) {
            return bad("line " + std::to_string(line) +
                       ": found a zero byte; allowed is text in UTF-8");
        }
        if (!utf8_valid(part)) {
            return bad("line " + std::to_string(line) + ": not valid UTF-8; save it as UTF-8");
        }
    }
    return {};
}

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
    RecordReader reader(builder, format, tokenizer);
    if (RecordScanner::is_list(text)) {
        return read_records(text, reader, " JSON list");
    }
    if (RecordScanner::is_spread(text)) {
        return read_records(text, reader, " JSON");
    }
    if (text[first] == '{') {
        return read_lines(text, reader);
    }
    LUMI_TRY(check_plain_text(text));
    add_text(builder, tokenizer, without_carriage_returns(text), SampleKind::corpus, 1.0F, 1);
    return builder.finish("plain text");
}

}  // namespace lumi
