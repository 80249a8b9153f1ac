// What a training run would be, as text and as JSON.
#include "cli/dry_run.h"

#include "base/utf8.h"
#include "chat/message_json.h"
#include "cli/config_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <set>

#include <unistd.h>

namespace lumi {

namespace {

constexpr size_t kTokensShown = 400;  // of a sample

// Tokens that are all learnt, or all not.
struct Part {
    std::string text;
    bool learnt = false;
};

// Text of the data must not steer the terminal.
std::string printable(const std::string & text) {
    std::string out;
    for (const char c : utf8_sanitized(text)) {
        const auto byte = static_cast<unsigned char>(c);
        const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
        out += control ? '?' : c;
    }
    return out;
}

std::vector<Part> parts_of(const Sample & sample, const Tokenizer & tokenizer, size_t most) {
    std::vector<Part> parts;
    const size_t n = std::min(sample.tokens.size(), most);
    for (size_t begin = 0; begin < n;) {
        const bool learnt = sample.target_weight[begin] != 0.0F;
        size_t end = begin;
        std::string text;
        while (end < n && (sample.target_weight[end] != 0.0F) == learnt) {
            text += tokenizer.piece(sample.tokens[end++], true);
        }
        parts.push_back({std::move(text), learnt});
        begin = end;
    }
    return parts;
}

// The first, the middle and the last.
std::vector<const Sample *> shown_samples(const Dataset & data) {
    const size_t n = data.samples.size();
    std::vector<const Sample *> shown;
    for (const size_t i : std::set<size_t>{0, n / 2, n - 1}) {
        shown.push_back(&data.samples[i]);
    }
    return shown;
}

nlohmann::json settings_json(const CLI::App & command) {
    nlohmann::json out = nlohmann::json::object();
    for (const Setting & setting : settings_of(command)) {
        out[setting.key] = setting.value;
    }
    return out;
}

nlohmann::json memory_json(const MemoryPlan & memory) {
    nlohmann::json out = {{"anonymous_bytes", memory.anonymous_bytes()},
                          {"mapped_bytes", memory.mapped_bytes()}};
    for (const MemoryItem & item : memory.items) {
        out["items"].push_back(
            {{"what", item.what}, {"bytes", item.bytes}, {"mapped", item.mapped}});
    }
    return out;
}

nlohmann::json sample_json(const Sample & sample, const Tokenizer & tokenizer) {
    nlohmann::json out = {
        {"line", sample.line}, {"tokens", sample.tokens.size()}, {"targets", sample.n_targets()}};
    for (const Part & part : parts_of(sample, tokenizer, kTokensShown)) {
        out["parts"].push_back({{"text", part.text}, {"learnt", part.learnt}});
    }
    return out;
}

nlohmann::json dry_run_json(const DryRun & dry) {
    nlohmann::json out = {{"training", dataset_json(*dry.train)},
                          {"validation", dataset_json(*dry.validation)},
                          {"shared_samples", count_shared(*dry.train, *dry.validation)},
                          {"steps_per_epoch", dry.plan->steps_per_epoch},
                          {"steps", dry.plan->steps},
                          {"adapter_tensors", dry.plan->n_tensors},
                          {"parameters", dry.plan->n_parameters},
                          {"recompute", dry.plan->recompute},
                          {"memory", memory_json(dry.plan->memory)},
                          {"settings", settings_json(*dry.command)}};
    for (const Sample * sample : shown_samples(*dry.train)) {
        out["samples"].push_back(sample_json(*sample, *dry.tokenizer));
    }
    return out;
}

void print_sample(const Sample & sample, const Tokenizer & tokenizer, bool terminal) {
    std::printf(
        "\nline %d, %zu tokens, %d of them targets:\n%s\n", sample.line, sample.tokens.size(),
        sample.n_targets(),
        marked_sample(sample, tokenizer, terminal ? "\033[2m" : "‹", terminal ? "\033[0m" : "›")
            .c_str());
}

}  // namespace

std::string marked_sample(const Sample & sample, const Tokenizer & tokenizer, std::string_view open,
                          std::string_view close) {
    std::string text;
    for (const Part & part : parts_of(sample, tokenizer, kTokensShown)) {
        const std::string shown = printable(part.text);
        text += part.learnt ? shown : std::string(open) + shown + std::string(close);
    }
    if (sample.tokens.size() > kTokensShown) {
        text += " ... and " + std::to_string(sample.tokens.size() - kTokensShown) + " tokens more";
    }
    return text;
}

void print_dry_run(const DryRun & dry, bool json) {
    if (json) {
        std::printf("%s\n", json_text(dry_run_json(dry)).c_str());
        return;
    }
    const TrainPlan & plan = *dry.plan;
    std::printf("training: %s\n", dataset_text(*dry.train).c_str());
    std::printf("validation: %s\n",
                dry.validation->samples.empty() ? "none" : dataset_text(*dry.validation).c_str());
    std::printf("steps: %d an epoch, %d in all\n", plan.steps_per_epoch, plan.steps);
    std::printf("adapter: %zu tensors, %llu numbers\n", plan.n_tensors,
                static_cast<unsigned long long>(plan.n_parameters));
    std::printf("layers are %s in the backward pass\n", plan.recompute ? "computed again" : "kept");
    std::printf("\nmemory:\n%s", plan.memory.text().c_str());
    std::printf("\nsettings:\n%s", settings_toml(settings_of(*dry.command)).c_str());
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    std::printf("\nsamples; what is not learnt is %s:\n", terminal ? "dim" : "between ‹ and ›");
    for (const Sample * sample : shown_samples(*dry.train)) {
        print_sample(*sample, *dry.tokenizer, terminal);
    }
}

}  // namespace lumi
