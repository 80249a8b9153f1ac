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
    int document = -1;  // windows cut from one record share it; -1 = a whole of its own
    int n_targets() const;
};

// Windows of one record; they lie side by side in a dataset.
bool same_record(const Sample & a, const Sample & b);

struct DatasetOptions {
    int max_tokens = 512;        // the training window; longer samples are split and counted
    bool assistant_only = true;  // false: every token but the first is a target
};

struct Dataset {
    std::vector<Sample> samples;
    std::string format;       // "chat JSONL", "instruction JSON list", "plain text", ...
    int split_samples = 0;    // records longer than the window, cut into several samples
    int skipped_samples = 0;  // records without a target
    size_t n_records() const;
    uint64_t n_tokens() const;
    uint64_t n_targets() const;
};

// text: the file's content. JSONL, one JSON list, or JSON objects over several lines, of records
// in the shapes of dataset_record.h; otherwise plain text in UTF-8. Errors name the lines, the
// first five of them. Accepts CRLF and a BOM. Zero usable samples is an error that says what was
// found. A sample longer than the window becomes several, each starting with BOS and a quarter
// window of what came before as context, cut at the end of an assistant's turn where one lies in
// the window's second half: every target is trained exactly once. Plain text is BOS and windows
// without context.
Result<Dataset> parse_dataset(std::string_view text, const ChatFormat & format,
                              const Tokenizer & tokenizer, const DatasetOptions & options);
// Conversations given directly (the server).
Result<Dataset> dataset_from_chats(std::span<const std::vector<Message>> chats,
                                   const ChatFormat & format, const DatasetOptions & options);
// Moves a share of the records, rounded, with all their windows into a validation set, chosen by
// seed. Never the last one; none when there are so few that the share rounds to nothing: a handful
// of facts is all taught.
Dataset split_validation(Dataset & dataset, double share, uint64_t seed);
// How many samples of b are in a too, token for token: what is learnt is no test.
size_t count_shared(const Dataset & a, const Dataset & b);

}  // namespace lumi
