// Renders a conversation to token ids, byte-exact for each model family, and reads the model's
// output back. The one function for serving and training: it renders, tokenises and says which
// tokens are the assistant's. Exactly one BOS where the family has one. Content never yields a
// control id.
#pragma once

#include "chat/message.h"
#include "tokenizer/tokenizer.h"

#include <span>

namespace lumi {

struct RenderOptions {
    bool add_generation_prompt = true;  // false for a whole training conversation
    bool think = false;
    std::span<const Tool> tools;
};

struct RenderedChat {
    std::vector<TokenId> tokens;
    // Per token: the weight with which it is a training target (the assistant's own tokens,
    // end-of-turn included, times the message's weight); 0 for everything else.
    std::vector<float> target_weight;
    std::string text;  // the same as text, control texts included (golden tests, apply-template)
    bool opens_thought = false;  // the prompt ends inside a thought: make_parser needs to know
};

// What one push of the output parser adds.
struct OutputDelta {
    std::string content;
    std::string reasoning;
    std::vector<ToolCall> tool_calls;  // complete calls only; the id is left to the caller
    bool incomplete_call = false;      // finish(): a call was cut off; its text is in content
};

// Reads a generation token by token: thoughts, tool calls and answer apart.
class OutputParser {
  public:
    virtual ~OutputParser() = default;
    // text: what StreamDecoder released (decoded with special texts shown).
    virtual OutputDelta push(std::string_view text) = 0;
    virtual OutputDelta finish() = 0;
};

enum class ChatFamily : unsigned char { gemma4, gemma3, qwen3 };
enum class Thinking : unsigned char;  // render.h

class ChatFormat {
  public:
    // By tokenizer and architecture of the file; a family without a native renderer is an error.
    static Result<ChatFormat> detect(const GgufFile & file, const Tokenizer & tokenizer);

    ChatFamily family() const { return family_; }
    Result<RenderedChat> render(std::span<const Message> messages,
                                const RenderOptions & options) const;
    // in_thought: RenderedChat::opens_thought of the prompt that is being answered.
    std::unique_ptr<OutputParser> make_parser(bool in_thought = false) const;

  private:
    ChatFormat(ChatFamily family, const Tokenizer & tokenizer, bool large, Thinking thinking)
        : family_(family), large_(large), thinking_(thinking), tokenizer_(&tokenizer) {}
    ChatFamily family_;
    bool large_;         // gemma4 without PLE: an empty thought block when thinking is off
    Thinking thinking_;  // qwen3: whether its template can think
    const Tokenizer * tokenizer_;
};

}  // namespace lumi
