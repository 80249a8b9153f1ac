// JSON text to values and back, for input that may be anything.
#include "base/utf8.h"
#include "chat/message_json.h"

#include <nlohmann/json.hpp>

#include <set>
#include <utility>

namespace lumi {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 64;

// Writes JSON as Python's json.dumps does, from the parser's events.
class OrderedText {
  public:
    void key(const json & name) {
        separate();
        text_ += json_text(name) + ": ";
        after_key_ = true;
    }
    void value(const json & scalar) {
        separate();
        text_ += json_text(scalar);
    }
    void open(char bracket) {
        separate();
        text_ += bracket;
        first_.push_back(true);
    }
    void close(char bracket) {
        text_ += bracket;
        first_.pop_back();
    }
    bool whole() const { return first_.empty(); }
    std::string take() { return std::exchange(text_, {}); }

  private:
    void separate() {
        if (!after_key_ && !first_.empty()) {
            text_ += first_.back() ? "" : ", ";
            first_.back() = false;
        }
        after_key_ = false;
    }

    std::string text_;
    std::vector<bool> first_;  // of every open bracket: nothing written in it yet
    bool after_key_ = false;
};

// Sees the parser's events: refuses deep values (the parser would recurse while destroying them),
// notices keys that an object has twice, and turns the objects whose members' order matters into
// text, because json sorts members.
class ParseWatch {
  public:
    explicit ParseWatch(DuplicateKeys duplicates) : duplicates_(duplicates) {}

    bool see(json::parse_event_t event, json & value) {
        using Event = json::parse_event_t;
        const bool opens = event == Event::object_start || event == Event::array_start;
        const bool closes = event == Event::object_end || event == Event::array_end;
        depth_ += opens ? 1 : closes ? -1 : 0;
        too_deep_ = too_deep_ || depth_ > kMaxDepth;
        if (too_deep_) {
            return false;
        }
        if (duplicates_ == DuplicateKeys::refused) {
            note_key(event, value);
        }
        capture(event, value);
        return true;
    }
    bool too_deep() const { return too_deep_; }
    const std::string & key_twice() const { return twice_; }  // quoted; empty when there is none

  private:
    void note_key(json::parse_event_t event, const json & value) {
        if (event == json::parse_event_t::object_start) {
            keys_.emplace_back();
        } else if (event == json::parse_event_t::object_end) {
            keys_.pop_back();
        } else if (event == json::parse_event_t::key && twice_.empty() &&
                   !keys_.back().insert(value.get<std::string>()).second) {
            twice_ = quoted(value.get<std::string>(), 40);
        }
    }

    void capture(json::parse_event_t event, json & value) {
        if (!capturing_ && ordered_key_ && event == json::parse_event_t::object_start) {
            capturing_ = true;
        }
        ordered_key_ =
            event == json::parse_event_t::key && (value == "parameters" || value == "arguments");
        if (capturing_) {
            write(event, value);
            if (text_.whole()) {
                capturing_ = false;
                value = text_.take();
            }
        }
    }

    void write(json::parse_event_t event, const json & value) {
        switch (event) {
        case json::parse_event_t::object_start:
            return text_.open('{');
        case json::parse_event_t::object_end:
            return text_.close('}');
        case json::parse_event_t::array_start:
            return text_.open('[');
        case json::parse_event_t::array_end:
            return text_.close(']');
        case json::parse_event_t::key:
            return text_.key(value);
        case json::parse_event_t::value:
            return text_.value(value);
        }
    }

    DuplicateKeys duplicates_;
    int depth_ = 0;
    bool too_deep_ = false;
    std::vector<std::set<std::string>> keys_;  // of each open object
    std::string twice_;
    bool ordered_key_ = false;  // the event before was a key whose object becomes text
    bool capturing_ = false;
    OrderedText text_;
};

}  // namespace

Result<json> parse_json(std::string_view text, DuplicateKeys duplicates) {
    ParseWatch watch(duplicates);
    const auto see = [&](int, json::parse_event_t event, json & value) {
        return watch.see(event, value);
    };
    const Error deep{ErrorKind::invalid_argument,
                     "JSON nested deeper than " + std::to_string(kMaxDepth) + " levels"};
    try {
        json value = json::parse(text.begin(), text.end(), see);
        if (watch.too_deep()) {
            return deep;
        }
        if (!watch.key_twice().empty()) {
            return Error{ErrorKind::invalid_argument,
                         "an object has the key " + watch.key_twice() + " twice"};
        }
        return value;
    } catch (const json::parse_error & e) {
        return watch.too_deep() ? deep
                                : Error{ErrorKind::invalid_argument,
                                        "not valid JSON (UTF-8) at byte " + std::to_string(e.byte)};
    } catch (const json::out_of_range &) {
        return Error{ErrorKind::invalid_argument,
                     "JSON with a number that is too large; allowed: up to 1.8e308"};
    } catch (const std::exception &) {
        return Error{ErrorKind::invalid_argument, "JSON could not be read"};
    }
}

std::string json_text(const json & value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace lumi
