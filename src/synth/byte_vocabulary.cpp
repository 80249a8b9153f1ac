// A small vocabulary of the kind Qwen has: bytes, newline runs, words after a space, specials last.

#include "synth/vocabulary.h"
#include "tokenizer/byte_symbols.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lumi {

namespace {

enum TokenKind : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

constexpr std::string_view kControlTexts[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
constexpr std::string_view kUserDefinedTexts[] = {
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>",
};
constexpr int kLongestNewlineRun = 8;

struct Pieces {
    std::vector<std::string> texts;
    std::vector<int32_t> kinds;
    std::vector<std::string> merges;
    std::set<std::string, std::less<>> known;

    bool add(std::string text, int32_t kind) {
        if (!known.insert(text).second) {
            return false;
        }
        texts.push_back(std::move(text));
        kinds.push_back(kind);
        return true;
    }
    // Grows a piece by one byte; returns the new piece.
    std::string grow(const std::string & left, char byte) {
        const std::string right = byte_symbol(static_cast<uint8_t>(byte));
        if (add(left + right, kNormal)) {
            merges.push_back(left + " " + right);
        }
        return left + right;
    }
};

}  // namespace

Status write_byte_vocabulary(int n_tokens, GgufWriter & writer) {
    Pieces pieces;
    for (int byte = 0; byte < 256; ++byte) {
        pieces.add(byte_symbol(static_cast<uint8_t>(byte)), kNormal);
    }
    std::string run = byte_symbol('\n');
    for (int n = 2; n <= kLongestNewlineRun; ++n) {
        run = pieces.grow(run, '\n');
    }
    for (const std::string_view word : vocabulary_words()) {
        std::string prefix = byte_symbol(' ');
        for (const char c : word) {
            prefix = pieces.grow(prefix, c);
        }
    }
    const auto first_control = static_cast<uint32_t>(pieces.texts.size());
    for (const std::string_view text : kControlTexts) {
        pieces.add(std::string(text), kControl);
    }
    for (const std::string_view text : kUserDefinedTexts) {
        pieces.add(std::string(text), kUserDefined);
    }
    const auto wanted = static_cast<size_t>(n_tokens);
    if (pieces.texts.size() > wanted) {
        return Error{ErrorKind::internal, "the built-in vocabulary has " +
                                              std::to_string(pieces.texts.size()) +
                                              " tokens, the shape only " + std::to_string(wanted)};
    }
    for (size_t i = 0; pieces.texts.size() < wanted; ++i) {
        pieces.add("<unused" + std::to_string(i) + ">", kUnused);
    }
    writer.set_string("tokenizer.ggml.model", "gpt2");
    writer.set_string("tokenizer.ggml.pre", "qwen2");
    writer.set_strings("tokenizer.ggml.tokens", pieces.texts);
    writer.set_i32s("tokenizer.ggml.token_type", pieces.kinds);
    writer.set_strings("tokenizer.ggml.merges", pieces.merges);
    writer.set_u32("tokenizer.ggml.eos_token_id", first_control + 2);
    writer.set_u32("tokenizer.ggml.padding_token_id", first_control);
    writer.set_u32("tokenizer.ggml.bos_token_id", first_control);
    writer.set_bool("tokenizer.ggml.add_bos_token", false);
    return {};
}

}  // namespace lumi
