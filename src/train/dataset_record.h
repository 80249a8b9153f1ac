// One record of training data, read from JSON: which of the usual shapes it has and what it says.
// Knows nothing of tokens. Internal to train/.
#pragma once

#include "chat/message.h"

#include <lumi/error.h>

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace lumi {

// Weights of samples and messages lie in this range, and so does their product. A negative weight
// teaches the model not to say something (graph/loss.h tells how far).
inline constexpr double kLeastWeight = -1.0;
inline constexpr double kMostWeight = 100.0;

struct Record {
    const char * kind = "";         // "chat", "prompt", "instruction", "conversation", "text"
    std::vector<Message> messages;  // their weights hold the record's own
    std::vector<Tool> tools;
    std::optional<std::string> text;  // instead of messages
    float weight = 1.0F;
};

// Allowed shapes, tried in this order; other keys are ignored:
//   messages       OpenAI's: role, content, tool_calls, weight; "tools" beside them
//   conversations  ShareGPT's: from (human, user, gpt, assistant, model, system, function_call,
//                  observation, tool), value; "system" and "tools" beside them
//   instruction, output   Alpaca's, with input, system and history ([[user, assistant], ...])
//   prompt, completion    two texts, or lists of messages of which only the completion is learnt
//   text                  or a bare JSON string
// and beside any of them "weight" (or "reward") for the whole record.
Result<Record> read_record(const nlohmann::json & json);

}  // namespace lumi
