// Twenty optimiser steps against a float64 PyTorch re-implementation (tests/parity/README.md):
// losses, gradient norms and where the adapter ends. Once on one sample with plain AdamW, once with
// everything on: several samples packed into several runs a step, weights that differ and are
// negative, decay, clipping, warm-up and cosine.
#include "tiny_training.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

namespace lumi {

namespace {

std::vector<float> tensor_floats(const GgufFile & file, const std::string & name) {
    const TensorInfo * info = file.find_tensor(name);
    EXPECT_NE(info, nullptr) << name;
    std::vector<float> out(info->n_bytes / sizeof(float));
    std::memcpy(out.data(), file.tensor_data(*info).data(), info->n_bytes);
    return out;
}

// The reference's adapter: "start." + A and B = 0, or the final numbers.
AdapterData reference_adapter(const GgufFile & file, bool start) {
    AdapterData adapter;
    adapter.alpha = 8.0F;
    const std::string prefix = "start.";
    const std::string suffix = ".lora_a";
    for (const TensorInfo & tensor : file.tensors()) {
        if (!tensor.name.starts_with(prefix) || !tensor.name.ends_with(suffix)) {
            continue;
        }
        const std::string weight =
            tensor.name.substr(prefix.size(), tensor.name.size() - prefix.size() - suffix.size());
        LoraMatrixPair pair;
        EXPECT_TRUE(parse_module_weight_name(weight, pair.layer, pair.module)) << weight;
        const TensorInfo * b = file.find_tensor(weight + ".lora_b");
        EXPECT_NE(b, nullptr) << weight;
        pair.n_in = tensor.ne[0];
        pair.rank = static_cast<int>(tensor.ne[1]);
        pair.n_out = b->ne[1];
        pair.a = tensor_floats(file, (start ? prefix : "") + weight + suffix);
        pair.b = tensor_floats(file, weight + ".lora_b");
        if (start) {
            std::fill(pair.b.begin(), pair.b.end(), 0.0F);
        }
        adapter.pairs.push_back(std::move(pair));
    }
    return adapter;
}

Sample reference_sample(const GgufFile & file) {
    Sample sample;
    sample.tokens = file.get_i32s("tokens").value();
    sample.target_weight.assign(sample.tokens.size(), 0.0F);
    const std::vector<int32_t> supervised = file.get_i32s("supervised").value();
    for (const int32_t position : supervised) {
        sample.target_weight[static_cast<size_t>(position)] = 1.0F;
    }
    return sample;
}

struct Case {
    const char * model;
    bool portable;
    bool recompute;
};

class AdamwParity : public testing::TestWithParam<Case> {};

TEST_P(AdamwParity, TwentyStepsFollowPyTorch) {
    const Case c = GetParam();
    const auto file = GgufFile::open(parity_path(std::string(c.model) + "-adamw.gguf"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const std::unique_ptr<Model> model = load_tiny(std::string(c.model) + ".gguf");
    const AdapterData start = reference_adapter(*file, true);
    ASSERT_GT(start.pairs.size(), 40U);
    Dataset train;
    train.samples.push_back(reference_sample(*file));

    TrainOptions options = quick_options();
    options.learning_rate = 1e-3F;
    options.max_steps = 20;
    options.portable = c.portable;
    options.recompute = c.recompute ? Recompute::on : Recompute::off;
    const TrainingRun run = run_training(*model, options, std::move(train), {}, &start);
    ASSERT_EQ(run.error, "");

    const std::vector<float> losses = file->get_f32s("losses").value();
    const std::vector<float> norms = file->get_f32s("gradient_norms").value();
    ASSERT_EQ(run.steps.size(), losses.size());
    for (size_t i = 0; i < losses.size(); ++i) {
        const auto expected = static_cast<double>(losses[i]);
        const double allowed = (i == 0 ? 1e-4 : 1e-3) * expected;
        EXPECT_NEAR(run.steps[i].loss, expected, allowed) << "step " << i;
        const auto norm = static_cast<double>(norms[i]);
        EXPECT_NEAR(run.steps[i].grad_norm, norm, 2e-3 * norm) << "step " << i;
    }
    const AdapterData last = reference_adapter(*file, false);
    EXPECT_LT(adapter_distance(run.adapter(), last), 5e-3);
    EXPECT_GT(adapter_distance(start, last), 2e-2) << "the reference did not move";
}

Dataset reference_samples(const GgufFile & file) {
    const std::vector<int32_t> tokens = file.get_i32s("tokens").value();
    const std::vector<float> weights = file.get_f32s("target_weights").value();
    const std::vector<int32_t> lengths = file.get_i32s("lengths").value();
    Dataset dataset;
    auto token = tokens.begin();
    auto weight = weights.begin();
    for (const int32_t length : lengths) {
        Sample sample;
        sample.tokens.assign(token, token + length);
        sample.target_weight.assign(weight, weight + length);
        sample.line = static_cast<int>(dataset.samples.size()) + 1;
        token += length;
        weight += length;
        dataset.samples.push_back(std::move(sample));
    }
    return dataset;
}

// The settings that the fixture was made with; all samples make a step, in runs of 64 tokens.
TrainOptions reference_options(const GgufFile & file, const Dataset & train) {
    TrainOptions options = quick_options();
    options.learning_rate = file.get_f32("learning_rate").value();
    options.schedule = LrSchedule::cosine;
    options.warmup_steps = static_cast<int>(file.get_i64("warmup_steps").value());
    options.weight_decay = file.get_f32("weight_decay").value();
    options.clip_norm = file.get_f32("clip_norm").value();
    options.beta2 = file.get_f32("beta2").value();
    options.max_steps = 20;
    options.batch_samples = static_cast<int>(train.samples.size());
    options.window_tokens = 64;
    return options;
}

constexpr double kWholeRunTolerance = 5e-4;
// Of one gradient norm, nineteen steps in: AdamW divides by the size of a gradient, so rounding in
// the smallest ones becomes whole steps. Losses and weights are held far tighter.
constexpr double kLateNormTolerance = 1e-2;

void expect_run_like(const TrainingRun & run, const GgufFile & file) {
    ASSERT_EQ(run.error, "");
    const std::vector<float> losses = file.get_f32s("losses").value();
    const std::vector<float> norms = file.get_f32s("gradient_norms").value();
    ASSERT_EQ(run.steps.size(), losses.size());
    double worst = 0;
    for (size_t i = 0; i < losses.size(); ++i) {
        const auto expected = static_cast<double>(losses[i]);
        worst = std::max(worst, std::abs(run.steps[i].loss / expected - 1.0));
        EXPECT_NEAR(run.steps[i].loss, expected, (i == 0 ? 1e-4 : 1e-3) * expected) << "step " << i;
        const auto norm = static_cast<double>(norms[i]);
        EXPECT_NEAR(run.steps[i].grad_norm, norm, kLateNormTolerance * norm) << "step " << i;
    }
    const double distance = adapter_distance(run.adapter(), reference_adapter(file, false));
    std::printf("step 0 loss %.1e, 20 losses %.1e, adapter %.1e from PyTorch\n",
                std::abs(run.steps[0].loss / static_cast<double>(losses[0]) - 1.0), worst,
                distance);
    EXPECT_LT(distance, kWholeRunTolerance);
}

class WholeRunParity : public testing::TestWithParam<Case> {};

TEST_P(WholeRunParity, EverySettingOnFollowsPyTorch) {
    const Case c = GetParam();
    const auto file = GgufFile::open(parity_path(std::string(c.model) + "-run.gguf"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const std::unique_ptr<Model> model = load_tiny(std::string(c.model) + ".gguf");
    const AdapterData start = reference_adapter(*file, true);
    const Dataset train = reference_samples(*file);
    TrainOptions options = reference_options(*file, train);
    options.portable = c.portable;
    options.recompute = c.recompute ? Recompute::on : Recompute::off;
    expect_run_like(run_training(*model, options, train, {}, &start), *file);
}

// What the fixture holds fast must be settings that matter: without any one of them it is missed.
TEST(WholeRunParityFixture, NoticesEachSettingThatIsOff) {
    const auto file = GgufFile::open(parity_path("tiny-gemma4-run.gguf"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const std::unique_ptr<Model> model = load_tiny("tiny-gemma4.gguf");
    const AdapterData start = reference_adapter(*file, true);
    const AdapterData last = reference_adapter(*file, false);
    const Dataset train = reference_samples(*file);
    const TrainOptions right = reference_options(*file, train);
    std::vector<TrainOptions> wrong(4, right);
    wrong[0].weight_decay = 0;
    wrong[1].clip_norm = 0;
    wrong[2].warmup_steps = 0;
    wrong[3].schedule = LrSchedule::linear;
    for (size_t i = 0; i < wrong.size(); ++i) {
        const TrainingRun run = run_training(*model, wrong[i], train, {}, &start);
        EXPECT_GT(adapter_distance(run.adapter(), last), 2 * kWholeRunTolerance) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, WholeRunParity,
                         testing::Values(Case{"tiny-gemma4", false, true},
                                         Case{"tiny-gemma4", true, false},
                                         Case{"tiny-qwen3", false, true}),
                         [](const auto & test) {
                             return std::string(test.param.model).substr(5) +
                                    (test.param.portable ? "_portable" : "_panels");
                         });

INSTANTIATE_TEST_SUITE_P(
    Models, AdamwParity,
    testing::Values(Case{"tiny-gemma4", false, true}, Case{"tiny-gemma4", true, false},
                    Case{"tiny-gemma3", false, true}, Case{"tiny-gemma3", true, true},
                    Case{"tiny-qwen3", false, true}, Case{"tiny-qwen3", true, false}),
    [](const auto & test) {
        return std::string(test.param.model).substr(5) +
               (test.param.portable ? "_portable" : "_panels") +
               (test.param.recompute ? "_recomputed" : "_kept");
    });

}  // namespace

}  // namespace lumi
