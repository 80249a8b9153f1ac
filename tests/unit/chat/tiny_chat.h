// A chat format over a tiny vocabulary, with everything it needs kept alive.
#pragma once

#include "chat/chat_format.h"
#include "support/tiny_vocab.h"

namespace lumi::test {

enum class Size : unsigned char { small, large };

struct TinyChat {
    explicit TinyChat(VocabSpec spec, Size size = Size::small)
        : file(sized(std::move(spec), size)), tokenizer(Tokenizer::load(file.gguf()).value()),
          format(ChatFormat::detect(file.gguf(), *tokenizer).value()) {}

    static VocabSpec sized(VocabSpec spec, Size size) {
        if (spec.architecture == "gemma4") {
            spec.ints.emplace_back("gemma4.embedding_length_per_layer_input",
                                   size == Size::small ? 256 : 0);
        }
        return spec;
    }

    RenderedChat render(const std::vector<Message> & messages,
                        const RenderOptions & options = {}) const {
        return format.render(messages, options).value();
    }

    VocabFile file;
    std::unique_ptr<Tokenizer> tokenizer;
    ChatFormat format;
};

inline Message message(Role role, std::string content) {
    Message made;
    made.role = role;
    made.content = std::move(content);
    return made;
}

inline Message call_message(std::vector<ToolCall> calls) {
    Message made = message(Role::assistant, "");
    made.tool_calls = std::move(calls);
    return made;
}

inline Message result_message(std::string id, std::string content) {
    Message made = message(Role::tool, std::move(content));
    made.tool_call_id = std::move(id);
    return made;
}

}  // namespace lumi::test
