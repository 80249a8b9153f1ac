// Text leaves held_ only when neither a stop string nor a code point can still be completed by it.
#include "tokenizer/detokenizer.h"

#include "base/utf8.h"

#include <algorithm>

namespace lumi {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct StopMatch {
    size_t begin = std::string_view::npos;
    size_t end = std::string_view::npos;
    size_t stop = 0;
};

// The match that a stream of single bytes would meet first: the earliest end, then the longest. So
// the result does not depend on how the text was split into tokens.
StopMatch first_match(std::string_view text, const std::vector<std::string> & stops) {
    StopMatch best;
    for (size_t i = 0; i < stops.size(); ++i) {
        const size_t begin = text.find(stops[i]);
        if (begin == std::string_view::npos) {
            continue;
        }
        const size_t end = begin + stops[i].size();
        if (end < best.end || (end == best.end && begin < best.begin)) {
            best = {begin, end, i};
        }
    }
    return best;
}

// Bytes at text's end that may be the beginning of a stop string.
size_t pending_stop_bytes(std::string_view text, const std::vector<std::string> & stops) {
    size_t pending = 0;
    for (const std::string & stop : stops) {
        for (size_t n = std::min(stop.size() - 1, text.size()); n > pending; --n) {
            if (text.ends_with(std::string_view(stop).substr(0, n))) {
                pending = n;
                break;
            }
        }
    }
    return pending;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer & tokenizer, std::vector<std::string> stops,
                             bool with_special)
    : tokenizer_(&tokenizer), stops_(std::move(stops)), with_special_(with_special) {
    std::erase_if(stops_, [](const std::string & stop) { return stop.empty(); });
}

std::string StreamDecoder::push(TokenId id) {
    if (stopped_) {
        return {};
    }
    std::string bytes = tokenizer_->piece(id, with_special_);
    if (bytes.empty()) {
        // A control token that is not shown still matches a stop that names it (S14).
        const std::string_view hidden = tokenizer_->text(id);
        if (std::find(stops_.begin(), stops_.end(), hidden) != stops_.end()) {
            std::string rest = finish();
            stopped_ = true;
            stop_text_ = hidden;
            return rest;
        }
        return {};
    }
    if (first_ && tokenizer_->strips_first_space() && bytes[0] == ' ') {
        bytes.erase(0, 1);
    }
    return push_bytes(bytes);
}

std::string StreamDecoder::push_bytes(std::string_view bytes) {
    if (stopped_) {
        return {};
    }
    first_ = false;
    held_ += bytes;
    const StopMatch match = first_match(held_, stops_);
    if (match.end != std::string_view::npos) {
        stopped_ = true;
        stop_text_ = stops_[match.stop];
        held_.resize(match.begin);
        return finish();
    }
    std::string_view ready = held_;
    ready.remove_suffix(pending_stop_bytes(ready, stops_));
    ready = ready.substr(0, utf8_complete_prefix(ready));
    std::string text = utf8_sanitized(ready);
    held_.erase(0, ready.size());
    return text;
}

std::string StreamDecoder::finish() {
    const size_t complete = utf8_complete_prefix(held_);
    std::string text = utf8_sanitized(std::string_view(held_).substr(0, complete));
    if (complete < held_.size()) {
        text += kReplacement;
    }
    held_.clear();
    return text;
}

}  // namespace lumi
