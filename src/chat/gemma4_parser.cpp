// Thoughts and tool calls of Gemma 4, apart from the answer while it streams. Text that may still
// become a marker is held back; a call appears only when it is whole.
#include "chat/gemma4_values.h"
#include "chat/output_parser.h"

#include <algorithm>

namespace lumi {

namespace {

constexpr std::string_view kThoughtOpen = "<|channel>";
constexpr std::string_view kThoughtClose = "<channel|>";
constexpr std::string_view kCallOpen = "<|tool_call>";
constexpr std::string_view kCallClose = "<tool_call|>";

class Gemma4Parser final : public OutputParser {
  public:
    explicit Gemma4Parser(bool in_thought) : state_(in_thought ? State::thought : State::content) {}

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
        case State::channel_name:
            break;  // "<|channel>thou": a thought that never began
        case State::thought:
            delta.reasoning = held_;
            break;
        case State::call:
            delta.content = std::string(kCallOpen) + held_;
            delta.incomplete_call = true;
            break;
        }
        held_.clear();
        state_ = State::content;
        return delta;
    }

  private:
    enum class State : unsigned char { content, channel_name, thought, call };

    // One step with what is held; false when more text is needed.
    bool advance(OutputDelta & delta) {
        switch (state_) {
        case State::content:
            return advance_content(delta);
        case State::channel_name:
            return advance_channel_name();
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
            release(delta.content,
                    std::max(pending_bytes(held_, kThoughtOpen), pending_bytes(held_, kCallOpen)));
            return false;
        }
        const bool is_thought = thought < call;
        delta.content.append(held_, 0, std::min(thought, call));
        held_.erase(0, is_thought ? thought + kThoughtOpen.size() : call + kCallOpen.size());
        state_ = is_thought ? State::channel_name : State::call;
        scanned_ = 0;
        in_string_ = false;
        return true;
    }

    // The name ends with its line; every channel is a thought.
    bool advance_channel_name() {
        const size_t line = held_.find('\n');
        const size_t close = held_.find(kThoughtClose);
        if (line == std::string::npos && close == std::string::npos) {
            return false;
        }
        held_.erase(0, line < close ? line + 1 : close);
        state_ = State::thought;
        return true;
    }

    bool advance_thought(OutputDelta & delta) {
        const size_t close = held_.find(kThoughtClose);
        if (close == std::string::npos) {
            // The newline before the closing marker is not part of the thought.
            const size_t pending = pending_bytes(held_, kThoughtClose);
            const size_t before = held_.size() - pending;
            const bool newline = before > 0 && held_[before - 1] == '\n';
            release(delta.reasoning, pending + (newline ? 1 : 0));
            return false;
        }
        const size_t end = close > 0 && held_[close - 1] == '\n' ? close - 1 : close;
        delta.reasoning.append(held_, 0, end);
        held_.erase(0, close + kThoughtClose.size());
        state_ = State::content;
        return true;
    }

    // The closing marker counts only outside strings, which may hold its text.
    bool advance_call(OutputDelta & delta) {
        while (true) {
            const size_t quote = held_.find(kGemma4Quote, scanned_);
            const size_t close = in_string_ ? std::string::npos : held_.find(kCallClose, scanned_);
            if (quote == std::string::npos && close == std::string::npos) {
                const size_t pending =
                    std::max(pending_bytes(held_, kGemma4Quote), pending_bytes(held_, kCallClose));
                scanned_ = std::max(scanned_, held_.size() - pending);
                return false;
            }
            if (quote < close) {
                in_string_ = !in_string_;
                scanned_ = quote + kGemma4Quote.size();
                continue;
            }
            if (auto call = read_gemma4_call(std::string_view(held_).substr(0, close))) {
                delta.tool_calls.push_back(*std::move(call));
            } else {
                delta.content.append(kCallOpen).append(held_, 0, close + kCallClose.size());
            }
            held_.erase(0, close + kCallClose.size());
            state_ = State::content;
            return true;
        }
    }

    void release(std::string & to, size_t keep) {
        to.append(held_, 0, held_.size() - keep);
        held_.erase(0, held_.size() - keep);
    }

    State state_;
    std::string held_;
    size_t scanned_ = 0;      // of a call: where the search goes on
    bool in_string_ = false;  // of a call: between two quote markers
};

}  // namespace

std::unique_ptr<OutputParser> make_gemma4_parser(bool in_thought) {
    return std::make_unique<Gemma4Parser>(in_thought);
}

}  // namespace lumi
