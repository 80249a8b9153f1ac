// Any text as training data for the small model's vocabulary and chat format. The first byte
// chooses the window and whether all tokens are learnt.
#include "train/dataset.h"

#include "must_hold.h"

#include <cmath>

namespace lumi {

namespace {

struct SmallModel {
    GgufFile file = GgufFile::open(LUMI_SOURCE_DIR "/models/lumi-small.gguf").value();
    std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(file).value();
    ChatFormat format = ChatFormat::detect(file, *tokenizer).value();
};

void check_sample(const Sample & sample, const SmallModel & model, const DatasetOptions & options) {
    must_hold(!sample.tokens.empty() && sample.tokens.size() == sample.target_weight.size(),
              "a weight a token");
    must_hold(sample.tokens.size() <= static_cast<size_t>(options.max_tokens), "fits the window");
    must_hold(sample.n_targets() > 0, "something to learn");
    must_hold(sample.target_weight[0] == 0.0F, "nothing predicts the first token");
    must_hold(sample.line >= 1, "a line");
    for (size_t i = 0; i < sample.tokens.size(); ++i) {
        const int32_t token = sample.tokens[i];
        must_hold(token >= 0 && token < model.tokenizer->n_tokens(), "ids lie in the vocabulary");
        must_hold((token == model.tokenizer->bos()) == (i == 0), "exactly one BOS, at the front");
        const float weight = sample.target_weight[i];
        must_hold(weight >= -1.0F && weight <= 100.0F, "weights in range");
    }
}

void read(std::string_view text, const DatasetOptions & options) {
    static const SmallModel model;
    auto dataset = parse_dataset(text, model.format, *model.tokenizer, options);
    if (!dataset.ok()) {
        must_hold(!dataset.error().message.empty(), "an error has a message");
        return;
    }
    must_hold(!dataset->samples.empty() && !dataset->format.empty(), "samples of a format");
    for (const Sample & sample : dataset->samples) {
        check_sample(sample, model, options);
    }
    const size_t n_samples = dataset->samples.size();
    const size_t n_records = dataset->n_records();
    const Dataset validation = split_validation(*dataset, 0.3, 7);
    must_hold(!dataset->samples.empty(), "something is left to learn");
    must_hold(dataset->samples.size() + validation.samples.size() == n_samples, "none is lost");
    must_hold(dataset->n_records() + validation.n_records() == n_records, "none is torn apart");
}

}  // namespace

}  // namespace lumi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    if (size > 0) {
        lumi::DatasetOptions options;
        options.max_tokens = 16 + (data[0] & 0x7F) * 4;
        options.assistant_only = (data[0] & 0x80) == 0;
        lumi::read({reinterpret_cast<const char *>(data + 1), size - 1}, options);
    }
    return 0;
}
