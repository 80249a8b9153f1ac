// See the header. The model file is unlinked as soon as it is mapped.
#include "tiny_session.h"

#include "base/rng.h"
#include "support/temp_dir.h"
#include "synth/synth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace lumi::test {
namespace {

std::unique_ptr<Model> load(const std::string & type, bool repack, const std::string & shape) {
    const TempDir dir;  // the mapping outlives the name
    const std::string path = dir.file("tiny.gguf");
    SynthOptions options;
    options.shape = shape;
    options.type = type;
    const Status written = write_synth_model(options, path);
    EXPECT_TRUE(written.ok()) << written.error().message;
    Result<GgufFile> file = GgufFile::open(path);
    EXPECT_TRUE(file.ok()) << file.error().message;
    ModelOptions model_options;
    model_options.device = "cpu";
    model_options.n_threads = 1;
    model_options.repack = repack;
    Result<std::unique_ptr<Model>> model = Model::load(std::move(file).value(), model_options);
    EXPECT_TRUE(model.ok()) << model.error().message;
    return std::move(model).value();
}

}  // namespace

const Model & tiny_model(const std::string & type, bool repack, const std::string & shape) {
    static std::map<std::string, std::unique_ptr<Model>> models;
    std::unique_ptr<Model> & model = models[shape + type + (repack ? " repacked" : "")];
    if (model == nullptr) {
        model = load(type, repack, shape);
    }
    return *model;
}

SessionOptions reference_options() {
    SessionOptions options;
    options.n_ctx = 512;
    options.n_batch = 512;
    options.kv_type = KvType::f32;
    options.flash = FlashMode::off;
    return options;
}

SessionOptions small_batches(int n_batch) {
    SessionOptions options = reference_options();
    options.n_batch = n_batch;
    return options;
}

std::unique_ptr<Session> make_session(const Model & model, const SessionOptions & options) {
    Result<std::unique_ptr<Session>> session = Session::create(model, options);
    EXPECT_TRUE(session.ok()) << session.error().message;
    return std::move(session).value();
}

std::vector<int32_t> random_tokens(uint64_t seed, int n) {
    Rng rng(seed);
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) {
        tokens.push_back(static_cast<int32_t>(rng.below(512)));
    }
    return tokens;
}

std::vector<float> logits_after(Session & session, const std::vector<int32_t> & tokens) {
    const Status begun = session.begin(tokens);
    EXPECT_TRUE(begun.ok()) << begun.error().message;
    for (;;) {
        const Result<bool> done = session.prefill_step();
        EXPECT_TRUE(done.ok()) << done.error().message;
        if (!done.ok() || *done) {
            break;
        }
    }
    return {session.logits().begin(), session.logits().end()};
}

std::vector<float> fresh_logits(const Model & model, const std::vector<int32_t> & tokens,
                                const std::vector<AppliedAdapter> & adapters) {
    const std::unique_ptr<Session> session = make_session(model, reference_options());
    EXPECT_TRUE(session->set_adapters(adapters).ok());
    return logits_after(*session, tokens);
}

double relative_difference(std::span<const float> a, std::span<const float> b) {
    EXPECT_EQ(a.size(), b.size());
    double worst = 0.0;
    double size = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        worst = d <= worst ? worst : d;  // NaN stays
        size = std::max(size, std::abs(static_cast<double>(b[i])));
    }
    return worst / size;
}

AppliedAdapter random_adapter(const Model & model, std::vector<Module> modules, int first_layer,
                              int last_layer, const std::string & revision, float size) {
    TargetSet targets;
    targets.modules = std::move(modules);
    targets.first_layer = first_layer;
    targets.last_layer = last_layer;
    AdapterData data =
        make_adapter(model.config(), model.plain_weights(), targets, 4, 8.0F, revision.size());
    Rng rng(revision.size() + 1);
    for (LoraMatrixPair & pair : data.pairs) {
        for (float & b : pair.b) {
            b = size * static_cast<float>(rng.normal());
        }
    }
    Result<std::unique_ptr<DeviceAdapter>> adapter = DeviceAdapter::create(data, model.device());
    EXPECT_TRUE(adapter.ok()) << adapter.error().message;
    AppliedAdapter applied;
    applied.adapter = std::move(adapter).value();
    applied.revision = revision;
    return applied;
}

}  // namespace lumi::test
