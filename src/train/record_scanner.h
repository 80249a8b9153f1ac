// Finds the records of a JSON file that is not one record a line: a list of them, or objects
// printed over several lines one after the other. It never holds more than one record and knows its
// line. Internal to train/.
#pragma once

#include <lumi/error.h>

#include <optional>
#include <string_view>

namespace lumi {

struct RecordText {
    std::string_view text;
    int line = 0;  // where it begins, 1-based
};

class RecordScanner {
  public:
    // Whether text is a list of objects or strings, or an empty one.
    static bool is_list(std::string_view text);
    // Whether text begins with an object that goes over several lines.
    static bool is_spread(std::string_view text);

    explicit RecordScanner(std::string_view text) : text_(text), in_list_(is_list(text)) {}

    // The next record; empty at the end. Errors name the line.
    Result<std::optional<RecordText>> next();

  private:
    void skip_blanks();
    Result<bool> enter_list_record();
    // The end of the record at pos_; npos when it does not end.
    size_t record_end() const;

    std::string_view text_;
    bool in_list_;
    bool first_ = true;
    size_t pos_ = 0;
    int line_ = 1;
};

}  // namespace lumi
