// Builds a prompt from control tokens and ordinary text. Only control() can put a control id into
// it; neighbouring texts are joined before they are encoded, so that merges fall as they would in
// the whole rendered text.
#pragma once

#include "chat/chat_format.h"

namespace lumi {

class PromptBuilder {
  public:
    explicit PromptBuilder(const Tokenizer & tokenizer) : tokenizer_(tokenizer) {}

    void control(std::string_view text);
    void text(std::string_view text);
    // The template's own text that is one token where the vocabulary has it, else ordinary text.
    void mark(std::string_view text);
    // What follows trains with this weight. Text before and after is encoded apart.
    void set_weight(float weight);

    // The prompt; an error when a control text was not in the vocabulary.
    Result<RenderedChat> finish();

  private:
    void flush();

    const Tokenizer & tokenizer_;
    RenderedChat chat_;
    std::string pending_;
    std::string missing_;
    float weight_ = 0.0F;
};

}  // namespace lumi
