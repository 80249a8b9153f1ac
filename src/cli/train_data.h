// Data files as train and eval read them: the samples, and what is said of them before work begins.
#pragma once

#include "cli/command.h"
#include "train/dataset.h"

#include <nlohmann/json_fwd.hpp>

namespace lumi {

// A data file's samples for a model's chat format; errors name the file and its lines.
Result<Dataset> read_dataset(const std::string & path, const LoadedModel & loaded, int window,
                             bool all_tokens);

// Tokens of the longest sample.
size_t longest_sample(const Dataset & dataset);

// "chat JSONL, 300 records, 41203 tokens, 12000 of them targets, ..."
std::string dataset_text(const Dataset & dataset);
nlohmann::json dataset_json(const Dataset & dataset);

// Says how many samples of the validation data were also trained on, when there are any.
void warn_of_shared(const Dataset & train, const Dataset & validation);

}  // namespace lumi
