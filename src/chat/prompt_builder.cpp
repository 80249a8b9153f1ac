// Every ordinary text is encoded as untrusted: none of it may turn into structure.
#include "chat/prompt_builder.h"

namespace lumi {

void PromptBuilder::control(std::string_view text) {
    flush();
    chat_.text += text;
    const TokenId id = tokenizer_.find(text);
    if (id < 0) {
        missing_ = missing_.empty() ? std::string(text) : missing_;
        return;
    }
    chat_.tokens.push_back(id);
    chat_.target_weight.push_back(weight_);
}

void PromptBuilder::mark(std::string_view text) {
    if (tokenizer_.find(text) >= 0) {
        control(text);
    } else {
        this->text(text);
    }
}

void PromptBuilder::text(std::string_view text) {
    pending_ += text;
    chat_.text += text;
}

void PromptBuilder::set_weight(float weight) {
    if (weight != weight_) {
        flush();
        weight_ = weight;
    }
}

Result<RenderedChat> PromptBuilder::finish() {
    flush();
    if (!missing_.empty()) {
        return Error{ErrorKind::unsupported, "this conversation needs the token " + missing_ +
                                                 ", which the model's vocabulary does not have"};
    }
    return std::move(chat_);
}

void PromptBuilder::flush() {
    tokenizer_.encode(pending_, Tokenizer::Specials::untrusted, chat_.tokens);
    chat_.target_weight.resize(chat_.tokens.size(), weight_);
    pending_.clear();
}

}  // namespace lumi
