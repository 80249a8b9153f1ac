// Samples: cutting long ones into windows, counting, taking a validation set away. Reading text
// formats is dataset_text.cpp.
#include "train/dataset.h"

#include "base/rng.h"
#include "chat/trim.h"
#include "train/dataset_builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace lumi {

namespace {

constexpr int kLeastWindow = 16;

// The last place in (middle of [pos, end), end] where an assistant's turn has just ended; end when
// there is none.
size_t turn_border(const Sample & sample, size_t pos, size_t end) {
    for (size_t cut = end; cut > pos + (end - pos) / 2; --cut) {
        if (sample.target_weight[cut - 1] != 0.0F && sample.target_weight[cut] == 0.0F) {
            return cut;
        }
    }
    return end;
}

// A reply of nothing but its end would teach to say nothing.
Status check_answers(std::span<const Message> messages) {
    for (size_t i = 0; i < messages.size(); ++i) {
        const Message & m = messages[i];
        if (m.role == Role::assistant && m.weight != 0.0F && m.tool_calls.empty() &&
            trimmed(m.content).empty() && trimmed(m.reasoning).empty()) {
            return Error{ErrorKind::invalid_argument,
                         "messages[" + std::to_string(i) +
                             "]: the assistant says nothing; allowed: text, tool calls, or the "
                             "weight 0 for a message that is not learnt"};
        }
    }
    return {};
}

uint64_t hash_of(const Sample & sample) {
    uint64_t hash = 0xCBF29CE484222325U;
    for (const int32_t token : sample.tokens) {
        hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001B3U;
    }
    return hash;
}

}  // namespace

bool same_record(const Sample & a, const Sample & b) {
    return a.document >= 0 && a.document == b.document;
}

int Sample::n_targets() const {
    return static_cast<int>(std::count_if(target_weight.begin(), target_weight.end(),
                                          [](float w) { return w != 0.0F; }));
}

size_t Dataset::n_records() const {
    size_t n = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
        n += i == 0 || !same_record(samples[i - 1], samples[i]) ? 1 : 0;
    }
    return n;
}

uint64_t Dataset::n_tokens() const {
    uint64_t n = 0;
    for (const Sample & sample : samples) {
        n += sample.tokens.size();
    }
    return n;
}

uint64_t Dataset::n_targets() const {
    uint64_t n = 0;
    for (const Sample & sample : samples) {
        n += static_cast<uint64_t>(sample.n_targets());
    }
    return n;
}

Status check_dataset_options(const DatasetOptions & options) {
    if (options.max_tokens < kLeastWindow) {
        return Error{ErrorKind::invalid_argument,
                     "training window is " + std::to_string(options.max_tokens) +
                         " tokens, allowed is " + std::to_string(kLeastWindow) + " or more"};
    }
    return {};
}

std::vector<Sample> cut_into_windows(const Sample & sample, size_t window, size_t context,
                                     bool repeat_first) {
    std::vector<Sample> windows;
    const size_t n = sample.tokens.size();
    const size_t head = repeat_first ? 1 : 0;
    for (size_t pos = head; pos < n;) {
        const size_t from = pos - std::min(context, pos - head);
        size_t end = std::min(n, from + window - head);
        if (end < n) {
            end = turn_border(sample, pos, end);
        }
        Sample part;
        part.line = sample.line;
        part.document = sample.document;
        const auto append = [&](size_t first, size_t last) {
            part.tokens.insert(part.tokens.end(), sample.tokens.begin() + static_cast<long>(first),
                               sample.tokens.begin() + static_cast<long>(last));
            part.target_weight.insert(part.target_weight.end(),
                                      sample.target_weight.begin() + static_cast<long>(first),
                                      sample.target_weight.begin() + static_cast<long>(last));
        };
        append(0, head);
        append(from, end);
        // What an earlier window trained is only context here; nothing predicts the first token.
        std::fill_n(part.target_weight.begin(), std::max<size_t>(1, head + pos - from), 0.0F);
        windows.push_back(std::move(part));
        pos = end;
    }
    return windows;
}

void DatasetBuilder::add(Sample sample, SampleKind kind, bool starts_with_bos) {
    if (!sample.target_weight.empty()) {
        sample.target_weight[0] = 0.0F;
    }
    if (sample.n_targets() == 0) {
        ++dataset_.skipped_samples;
        return;
    }
    sample.document = kind == SampleKind::document ? documents_++ : -1;
    const size_t window = static_cast<size_t>(options_.max_tokens);
    if (sample.tokens.size() <= window) {
        dataset_.samples.push_back(std::move(sample));
        return;
    }
    const bool is_corpus = kind == SampleKind::corpus;
    dataset_.split_samples += is_corpus ? 0 : 1;
    const size_t context = is_corpus ? 0 : window / 4;
    for (Sample & part : cut_into_windows(sample, window, context, starts_with_bos)) {
        if (part.n_targets() > 0) {
            dataset_.samples.push_back(std::move(part));
        }
    }
}

Status DatasetBuilder::add_chat(std::span<const Message> messages, std::span<const Tool> tools,
                                const ChatFormat & format, float weight, int line) {
    LUMI_TRY(check_answers(messages));
    RenderOptions render;
    render.add_generation_prompt = false;
    render.tools = tools;
    RenderedChat chat = LUMI_TRY(format.render(messages, render));
    if (!options_.assistant_only) {
        std::fill(chat.target_weight.begin(), chat.target_weight.end(), weight);
    }
    add({std::move(chat.tokens), std::move(chat.target_weight), line}, SampleKind::document, true);
    return {};
}

Result<Dataset> DatasetBuilder::finish(std::string format) {
    dataset_.format = std::move(format);
    if (dataset_.samples.empty()) {
        return Error{
            ErrorKind::invalid_argument,
            "no usable training sample (" + dataset_.format +
                "): " + std::to_string(dataset_.skipped_samples) +
                " samples without a token to learn were skipped; a chat needs an assistant "
                "message whose weight is not 0"};
    }
    return std::move(dataset_);
}

Result<Dataset> dataset_from_chats(std::span<const std::vector<Message>> chats,
                                   const ChatFormat & format, const DatasetOptions & options) {
    LUMI_TRY(check_dataset_options(options));
    DatasetBuilder builder(options);
    for (size_t i = 0; i < chats.size(); ++i) {
        const Status status = builder.add_chat(chats[i], {}, format, 1.0F, static_cast<int>(i) + 1);
        if (!status.ok()) {
            return status.error().within("conversation " + std::to_string(i + 1));
        }
    }
    return builder.finish("chats");
}

Dataset split_validation(Dataset & dataset, double share, uint64_t seed) {
    Dataset validation;
    validation.format = dataset.format;
    const size_t n = dataset.n_records();
    if (n < 2 || !(share > 0.0)) {
        return validation;
    }
    const double wanted = std::round(std::min(share, 1.0) * static_cast<double>(n));
    const size_t n_moved = std::min(static_cast<size_t>(wanted), n - 1);
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    Rng rng(seed);
    for (size_t i = 0; i < n_moved; ++i) {
        std::swap(order[i], order[i + rng.below(n - i)]);
    }
    std::vector<bool> moved(n, false);
    for (size_t i = 0; i < n_moved; ++i) {
        moved[order[i]] = true;
    }
    std::vector<Sample> kept;
    size_t record = 0;
    for (size_t i = 0; i < dataset.samples.size(); ++i) {
        const bool last = i + 1 == dataset.samples.size() ||
                          !same_record(dataset.samples[i], dataset.samples[i + 1]);
        (moved[record] ? validation.samples : kept).push_back(std::move(dataset.samples[i]));
        record += last ? 1 : 0;
    }
    dataset.samples = std::move(kept);
    return validation;
}

size_t count_shared(const Dataset & a, const Dataset & b) {
    std::unordered_multimap<uint64_t, const Sample *> known;
    for (const Sample & sample : a.samples) {
        known.emplace(hash_of(sample), &sample);
    }
    return static_cast<size_t>(
        std::count_if(b.samples.begin(), b.samples.end(), [&](const Sample & sample) {
            const auto [first, last] = known.equal_range(hash_of(sample));
            return std::any_of(first, last, [&](const auto & entry) {
                return entry.second->tokens == sample.tokens;
            });
        }));
}

}  // namespace lumi
