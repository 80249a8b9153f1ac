// Reading data files and describing what is in them.
#include "cli/train_data.h"

#include "base/file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace lumi {

namespace {

constexpr uint64_t kMaxDatasetBytes = uint64_t{4} << 30U;

}  // namespace

Result<Dataset> read_dataset(const std::string & path, const LoadedModel & loaded, int window,
                             bool all_tokens) {
    if (!loaded.chat) {
        return Error{ErrorKind::unsupported, "this model has no chat format: " + loaded.chat_error};
    }
    const std::string text = LUMI_TRY(read_text_file(path, kMaxDatasetBytes));
    DatasetOptions options;
    options.max_tokens = window;
    options.assistant_only = !all_tokens;
    Result<Dataset> dataset = parse_dataset(text, *loaded.chat, *loaded.tokenizer, options);
    if (!dataset.ok()) {
        return dataset.error().within(path);
    }
    return dataset;
}

size_t longest_sample(const Dataset & dataset) {
    size_t longest = 0;
    for (const Sample & sample : dataset.samples) {
        longest = std::max(longest, sample.tokens.size());
    }
    return longest;
}

std::string dataset_text(const Dataset & d) {
    std::string text = d.format + ", " + std::to_string(d.samples.size()) + " samples, " +
                       std::to_string(d.n_tokens()) + " tokens, " + std::to_string(d.n_targets()) +
                       " of them targets, the longest sample " + std::to_string(longest_sample(d)) +
                       " tokens";
    if (d.split_samples > 0) {
        text += "; " + std::to_string(d.split_samples) + " longer than the window and cut";
    }
    if (d.skipped_samples > 0) {
        text += "; " + std::to_string(d.skipped_samples) + " without a target left out";
    }
    return text;
}

nlohmann::json dataset_json(const Dataset & d) {
    return {{"format", d.format},          {"records", d.n_records()},
            {"samples", d.samples.size()}, {"tokens", d.n_tokens()},
            {"targets", d.n_targets()},    {"longest_tokens", longest_sample(d)},
            {"cut", d.split_samples},      {"left_out", d.skipped_samples}};
}

void warn_of_shared(const Dataset & train, const Dataset & validation) {
    const size_t n = count_shared(train, validation);
    if (n > 0) {
        std::fprintf(stderr,
                     "lumi: warning: %zu of %zu validation samples are training samples too, token "
                     "for token; the validation loss will look better than it is\n",
                     n, validation.samples.size());
    }
}

}  // namespace lumi
