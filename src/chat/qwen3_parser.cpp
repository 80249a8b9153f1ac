// Thoughts and tool calls of Qwen3, apart from the answer while it streams. Text that may still
// become a marker is held back; a call appears only when it is whole. The newlines that the
// template puts around thoughts and calls belong to neither.
#include "chat/message_json.h"
#include "chat/output_parser.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace lumi {

namespace {

using nlohmann::json;

constexpr std::string_view kThoughtOpen = "<think>";
constexpr std::string_view kThoughtClose = "</think>";
constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallClose = "</tool_call>";

// {"name": ..., "arguments": {...}}; arguments may also be the text of an object, or be missing.
std::optional<ToolCall> read_call(std::string_view text) {
    const Result<json> value = parse_json(text);
    if (!value.ok() || !value->is_object()) {
        return std::nullopt;
    }
    const auto name = value->find("name");
    if (name == value->end() || !name->is_string() || *name == "") {
        return std::nullopt;
    }
    ToolCall call;
    call.name = name->get<std::string>();
    call.arguments = "{}";
    if (const auto arguments = value->find("arguments");
        arguments != value->end() && !arguments->is_null()) {
        if (!arguments->is_string()) {
            return std::nullopt;
        }
        call.arguments = arguments->get<std::string>();
        const Result<json> object = parse_json(call.arguments);
        if (!object.ok() || !object->is_object()) {
            return std::nullopt;
        }
    }
    return call;
}

class Qwen3Parser final : public OutputParser {
  public:
    explicit Qwen3Parser(bool in_thought) : state_(in_thought ? State::thought : State::content) {}

    OutputDelta push(std::string_view text) override {
        held_ += text;
        OutputDelta delta;
        while (advance(delta)) {
        }
        return delta;
    }

    OutputDelta finish() override {
        OutputDelta delta;
        switch (state_) {
        case State::content:
            delta.content = held_;
            break;
        case State::thought:
            delta.reasoning = held_;
            break;
        case State::call:
            delta.content = newline_before_call_ + std::string(kCallOpen) + held_;
            delta.incomplete_call = true;
            break;
        }
        held_.clear();
        state_ = State::content;
        return delta;
    }

  private:
    enum class State : unsigned char { content, thought, call };

    // One step with what is held; false when more text is needed.
    bool advance(OutputDelta & delta) {
        if (skip_newlines_) {
            held_.erase(0, held_.find_first_not_of('\n'));
            skip_newlines_ = held_.empty();
        }
        switch (state_) {
        case State::content:
            return advance_content(delta);
        case State::thought:
            return advance_thought(delta);
        case State::call:
            return advance_call(delta);
        }
        return false;
    }

    bool advance_content(OutputDelta & delta) {
        const size_t thought = held_.find(kThoughtOpen);
        const size_t call = held_.find(kCallOpen);
        if (thought == std::string::npos && call == std::string::npos) {
            const size_t pending =
                std::max(pending_bytes(held_, kThoughtOpen), pending_bytes(held_, kCallOpen));
            release(delta.content, pending + newline_before(held_.size() - pending));
            return false;
        }
        const bool is_thought = thought < call;
        const size_t marker = std::min(thought, call);
        const size_t newline = is_thought ? 0 : newline_before(marker);
        delta.content.append(held_, 0, marker - newline);
        newline_before_call_.assign(newline, '\n');
        held_.erase(0, marker + (is_thought ? kThoughtOpen.size() : kCallOpen.size()));
        state_ = is_thought ? State::thought : State::call;
        skip_newlines_ = is_thought;
        scanned_ = 0;
        in_string_ = false;
        return true;
    }

    bool advance_thought(OutputDelta & delta) {
        const size_t close = held_.find(kThoughtClose);
        if (close == std::string::npos) {
            const size_t pending = pending_bytes(held_, kThoughtClose);
            release(delta.reasoning, pending + newline_before(held_.size() - pending));
            return false;
        }
        delta.reasoning.append(held_, 0, close - newline_before(close));
        held_.erase(0, close + kThoughtClose.size());
        state_ = State::content;
        skip_newlines_ = true;
        return true;
    }

    // The closing marker counts only outside JSON strings, which may hold its text.
    bool advance_call(OutputDelta & delta) {
        while (scanned_ < held_.size()) {
            const char c = held_[scanned_];
            if (in_string_ && c == '\\') {
                if (scanned_ + 1 == held_.size()) {
                    return false;
                }
                ++scanned_;
            } else if (c == '"') {
                in_string_ = !in_string_;
            } else if (!in_string_ && c == kCallClose[0]) {
                const std::string_view rest = std::string_view(held_).substr(scanned_);
                if (rest.starts_with(kCallClose)) {
                    end_call(delta);
                    return true;
                }
                if (kCallClose.starts_with(rest)) {
                    return false;
                }
            }
            ++scanned_;
        }
        return false;
    }

    // scanned_ stands at the closing marker.
    void end_call(OutputDelta & delta) {
        if (auto call = read_call(std::string_view(held_).substr(0, scanned_))) {
            delta.tool_calls.push_back(*std::move(call));
            skip_newlines_ = true;
        } else {
            delta.content.append(newline_before_call_).append(kCallOpen);
            delta.content.append(held_, 0, scanned_ + kCallClose.size());
        }
        held_.erase(0, scanned_ + kCallClose.size());
        state_ = State::content;
    }

    // 1 when the byte before place is a newline.
    size_t newline_before(size_t place) const {
        return place > 0 && held_[place - 1] == '\n' ? 1 : 0;
    }

    void release(std::string & to, size_t keep) {
        to.append(held_, 0, held_.size() - keep);
        held_.erase(0, held_.size() - keep);
    }

    State state_;
    std::string held_;
    bool skip_newlines_ = false;       // the newlines that come next belong to the template
    std::string newline_before_call_;  // "\n" or nothing
    size_t scanned_ = 0;               // of a call: where the search goes on
    bool in_string_ = false;           // of a call
};

}  // namespace

std::unique_ptr<OutputParser> make_qwen3_parser(bool in_thought) {
    return std::make_unique<Qwen3Parser>(in_thought);
}

}  // namespace lumi
