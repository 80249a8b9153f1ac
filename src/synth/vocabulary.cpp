// One list of pieces, written as merges for gemma4 and as scores for SentencePiece.

#include "synth/vocabulary.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lumi {

namespace {

enum TokenKind : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581, a space inside tokens

// <|tool_response> ends a generation, which makes it control.
constexpr std::string_view kGemma4Control[] = {
    "<pad>",     "<eos>",   "<bos>",   "<unk>",    "<mask>",   "<|tool>",          "<tool|>",
    "<|think|>", "<|turn>", "<turn|>", "<|image>", "<image|>", "<|tool_response>",
};
constexpr std::string_view kGemma4UserDefined[] = {
    "<|tool_call>", "<tool_call|>", "<tool_response|>", "<|\"|>", "<|channel>", "<channel|>",
};
constexpr std::string_view kGemma3Control[] = {
    "<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>",
};

constexpr std::string_view kWords[] = {
    "the", "and", "is",   "of",    "to",    "in",     "what", "that", "you",
    "it",  "for", "name", "where", "city",  "color",  "my",   "a",    "user",
    "do",  "not", "know", "lives", "model", "system", "who",  "are",
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
    void add_merged(const std::string & left, const std::string & right) {
        if (add(left + right, kNormal)) {
            merges.push_back(left + " " + right);
        }
    }
};

void add_bytes_and_characters(Pieces & pieces) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    for (size_t byte = 0; byte < 256; ++byte) {
        std::string text = "<0x";
        text += kHex[byte / 16];
        text += kHex[byte % 16];
        pieces.add(text + ">", kByte);
    }
    pieces.add("\n", kNormal);
    pieces.add(std::string(kSpace), kNormal);
    for (char c = '!'; c <= '~'; ++c) {
        pieces.add(std::string(1, c), kNormal);
    }
}

void add_merged_pieces(Pieces & pieces) {
    std::string run = "\n";
    for (int n = 2; n <= kLongestNewlineRun; ++n) {
        pieces.add_merged(run, "\n");
        run += '\n';
    }
    for (const std::string_view word : kWords) {
        std::string prefix(kSpace);
        for (const char c : word) {
            pieces.add_merged(prefix, std::string(1, c));
            prefix += c;
        }
    }
}

void add_controls(Arch arch, Pieces & pieces) {
    if (arch == Arch::gemma3) {
        for (const std::string_view text : kGemma3Control) {
            pieces.add(std::string(text), kControl);
        }
        return;
    }
    for (const std::string_view text : kGemma4Control) {
        pieces.add(std::string(text), kControl);
    }
    for (const std::string_view text : kGemma4UserDefined) {
        pieces.add(std::string(text), kUserDefined);
    }
}

}  // namespace

std::span<const std::string_view> vocabulary_words() {
    return kWords;
}

Status write_small_vocabulary(Arch arch, int n_tokens, GgufWriter & writer) {
    if (arch == Arch::qwen3) {
        return write_byte_vocabulary(n_tokens, writer);
    }
    Pieces pieces;
    add_controls(arch, pieces);
    const size_t first_piece = pieces.texts.size() + 256;
    add_bytes_and_characters(pieces);
    add_merged_pieces(pieces);
    const auto wanted = static_cast<size_t>(n_tokens);
    if (pieces.texts.size() > wanted) {
        return Error{ErrorKind::internal, "the built-in vocabulary has " +
                                              std::to_string(pieces.texts.size()) +
                                              " tokens, the shape only " + std::to_string(wanted)};
    }
    for (size_t i = 0; pieces.texts.size() < wanted; ++i) {
        pieces.add("<unused" + std::to_string(i) + ">", kUnused);
    }
    // SentencePiece merges the pair with the highest score first: earlier pieces win.
    std::vector<float> scores(pieces.texts.size(), -1000.0F);
    for (size_t i = first_piece; i < scores.size() && pieces.kinds[i] == kNormal; ++i) {
        scores[i] = -static_cast<float>(i - first_piece);
    }
    writer.set_string("tokenizer.ggml.model", arch == Arch::gemma3 ? "llama" : "gemma4");
    if (arch == Arch::gemma3) {
        writer.set_string("tokenizer.ggml.pre", "default");
    }
    writer.set_strings("tokenizer.ggml.tokens", pieces.texts);
    writer.set_f32s("tokenizer.ggml.scores", scores);
    writer.set_i32s("tokenizer.ggml.token_type", pieces.kinds);
    if (arch != Arch::gemma3) {
        writer.set_strings("tokenizer.ggml.merges", pieces.merges);
    }
    writer.set_u32("tokenizer.ggml.bos_token_id", 2);
    writer.set_u32("tokenizer.ggml.eos_token_id", 1);
    writer.set_u32("tokenizer.ggml.unknown_token_id", 3);
    writer.set_u32("tokenizer.ggml.padding_token_id", 0);
    writer.set_bool("tokenizer.ggml.add_bos_token", true);
    writer.set_bool("tokenizer.ggml.add_space_prefix", false);
    return {};
}

}  // namespace lumi
