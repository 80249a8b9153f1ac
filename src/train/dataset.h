// Training samples: token ids and which of them are targets, made by the same renderer that serves.
#pragma once

#include "chat/chat_format.h"

#include <span>
#include <string>
#include <vector>

namespace lumi {

struct Sample {
    std::vector<int32_t> tokens;
    std::vector<float>
        target_weight;  // per token: weight with which it is a target (0 = context only)
    int line = 0;       // where it came from, 1-based
    int n_targets() const;
};

struct DatasetOptions {
    int max_tokens = 512;        // the training window; longer samples are split and counted
    bool assistant_only = true;  // false: every token but the first is a target
};

struct Dataset {
    std::vector<Sample> samples;
    std::string format;       // "chat JSONL", "text JSONL", "plain text", ...
    int split_samples = 0;    // samples longer than the window, cut into several
    int skipped_samples = 0;  // samples without a target
    uint64_t n_tokens() const;
    uint64_t n_targets() const;
};

// text: the file's content. JSONL with "messages" (OpenAI shape, per-message weight, "tools"
// beside them), "prompt" and "completion" (one exchange of a chat), or "text"; otherwise plain
// text. Errors name the line. Accepts CRLF and a BOM. Zero usable samples is an error that says
// what was found. A sample longer than the window becomes several, each starting with BOS and a
// quarter window of what came before as context, cut at the end of an assistant's turn where one
// lies in the window's second half: every target is trained exactly once. Plain text is BOS and
// windows without context.
Result<Dataset> parse_dataset(std::string_view text, const ChatFormat & format,
                              const Tokenizer & tokenizer, const DatasetOptions & options);
// Conversations given directly (the server).
Result<Dataset> dataset_from_chats(std::span<const std::vector<Message>> chats,
                                   const ChatFormat & format, const DatasetOptions & options);
// Moves a share of the samples, rounded, into a validation set, chosen by seed. Never the last one;
// none when there are so few that the share rounds to nothing: a handful of facts is all taught.
Dataset split_validation(Dataset & dataset, double share, uint64_t seed);

}  // namespace lumi
