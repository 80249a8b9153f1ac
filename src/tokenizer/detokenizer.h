// Turns a stream of tokens into text that can be shown at once: whole code points only, and nothing
// that may still become a stop string. One stop matcher for run, chat and server.
#pragma once

#include "tokenizer/tokenizer.h"

namespace lumi {

class StreamDecoder {
  public:
    // stops: texts that end the answer; they are never emitted. Empty ones are ignored.
    StreamDecoder(const Tokenizer & tokenizer, std::vector<std::string> stops, bool with_special);

    // Adds one token; returns the text that is now safe to show (possibly empty). After a stop
    // string matched, stopped() is true and further calls return nothing.
    std::string push(TokenId id);
    // The same for bytes that do not come from a token.
    std::string push_bytes(std::string_view bytes);
    // The held-back rest at the end of a generation; an incomplete code point becomes U+FFFD.
    std::string finish();

    bool stopped() const { return stopped_; }
    const std::string & stop_text() const { return stop_text_; }  // which stop matched

  private:
    const Tokenizer * tokenizer_;
    std::vector<std::string> stops_;
    bool with_special_;
    bool first_ = true;
    bool stopped_ = false;
    std::string stop_text_;
    std::string held_;
};

}  // namespace lumi
