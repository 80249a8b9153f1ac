// Settings at the edge of what is allowed, and data that goes wrong in the middle: the right result
// or one right error, and never an adapter that is not finite.
#include "tiny_training.h"

#include "base/log.h"
#include "support/temp_dir.h"

#include <cstring>
#include <fstream>
#include <limits>

namespace lumi {

namespace {

class Extremes : public testing::Test {
  protected:
    Extremes() { options_.max_steps = 4; }
    ~Extremes() override { set_log_sink({}); }

    TrainingRun run() { return run_training(*model_, options_, train_, validation_); }
    // What is logged as a warning from now on.
    void listen() {
        set_log_sink([this](LogLevel level, std::string_view text) {
            if (level == LogLevel::warning) {
                warnings_ += std::string(text) + "\n";
            }
        });
    }

    std::unique_ptr<Model> model_ = load_tiny("tiny-gemma4.gguf");
    Dataset train_ = rule_dataset({24, 30, 20, 28});
    Dataset validation_;
    TrainOptions options_ = quick_options();
    std::string warnings_;
};

TEST_F(Extremes, HugeLearningRatesGiveAFiniteAdapterOrOneError) {
    for (const float rate : {1.0F, 1e6F}) {
        options_.learning_rate = rate;
        const TrainingRun result = run();
        EXPECT_TRUE(result.error.empty() || result.error_kind == ErrorKind::numeric)
            << result.error;
        EXPECT_TRUE(result.adapter().check_finite().ok());
    }
}

TEST_F(Extremes, NoClippingEqualsClippingThatNeverBites) {
    options_.clip_norm = 0.0F;
    const TrainingRun off = run();
    ASSERT_EQ(off.error, "");
    options_.clip_norm = 1e9F;
    EXPECT_EQ(adapter_distance(run().adapter(), off.adapter()), 0.0);
    options_.clip_norm = 1e-3F;
    EXPECT_GT(adapter_distance(run().adapter(), off.adapter()), 0.0);
}

TEST_F(Extremes, ABatchLargerThanTheDataIsTheWholeData) {
    options_.batch_samples = 65536;
    const TrainingRun huge = run();
    EXPECT_EQ(huge.trainer->plan().steps_per_epoch, 1);
    options_.batch_samples = 4;
    EXPECT_EQ(adapter_distance(run().adapter(), huge.adapter()), 0.0);
}

TEST_F(Extremes, TheSmallestWindowTrains) {
    options_.window_tokens = 16;
    train_ = rule_dataset({2, 3, 16});
    EXPECT_EQ(run().error, "");
}

TEST_F(Extremes, RanksUpToTheWiderSideTrainAndLoadAndLargerOnesAreRefused) {
    options_.targets.modules = {Module::q};
    const ModuleShape shape = module_shape(model_->config(), 0, Module::q);
    options_.rank = static_cast<int>(largest_rank(shape));
    options_.max_steps = 2;
    const TrainingRun largest = run();
    ASSERT_EQ(largest.error, "");
    const TempDir dir;
    ASSERT_TRUE(save_adapter(largest.adapter(), model_->config(), dir.file("a.gguf")).ok());
    const auto file = GgufFile::open(dir.file("a.gguf"));
    EXPECT_TRUE(load_adapter(*file, model_->config(), "").ok());
    options_.rank = 1024;
    ASSERT_GT(options_.rank, largest_rank(shape));
    const auto refused = Trainer::create(*model_, train_, {}, options_, nullptr);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("rank is 1024"), std::string::npos)
        << refused.error().message;
}

TEST_F(Extremes, ARankStabilisedAdapterIsServedWithItsScale) {
    options_.rank = 4;
    options_.alpha = 6.0F;
    options_.rank_stabilised = true;
    const AdapterData adapter = run().adapter();
    EXPECT_FLOAT_EQ(adapter.alpha / 4.0F, 6.0F / 2.0F);
    EXPECT_EQ(adapter.record.at("train.rslora"), "yes");
    options_.rank_stabilised = false;
    options_.alpha = 12.0F;  // the same scale
    EXPECT_EQ(adapter_distance(run().adapter(), adapter), 0.0);
}

TEST_F(Extremes, NaNInOneBatchEndsTheRunWithTheLastGoodAdapter) {
    train_ = rule_dataset({24, 30, 20, 28, 12, 16});
    train_.samples[3].target_weight[20] = std::numeric_limits<float>::quiet_NaN();
    options_.max_steps = 3;  // one epoch: each sample once
    const TrainingRun broken = run();
    EXPECT_EQ(broken.error_kind, ErrorKind::numeric);
    EXPECT_NE(broken.error.find("not finite at step "), std::string::npos) << broken.error;
    ASSERT_LT(broken.steps.size(), 3U);
    const AdapterData kept = broken.adapter();
    EXPECT_TRUE(kept.check_finite().ok());
    // As it was before the step that failed: the last weights whose loss and gradient were finite.
    train_.samples[3].target_weight[20] = 1.0F;
    const TrainingRun whole = run_training(*model_, options_, train_, {}, nullptr,
                                           std::max(static_cast<int>(broken.steps.size()) - 1, 0));
    if (broken.steps.size() >= 2) {
        EXPECT_EQ(adapter_distance(kept, whole.adapter()), 0.0);
    }
}

TEST_F(Extremes, EarlyStopKeepsTheBestEpochAndSaysWhich) {
    options_.max_steps = 0;
    options_.epochs = 40;
    options_.learning_rate = 3e-2F;
    options_.early_stop_epochs = 2;
    validation_ = rule_dataset({20, 22});
    for (Sample & sample : validation_.samples) {  // another rule: learning the first one hurts
        for (int32_t & token : sample.tokens) {
            token = 60 - token % 50;
        }
    }
    const TrainingRun result = run();
    ASSERT_EQ(result.error, "");
    const TrainSummary & summary = result.trainer->summary();
    EXPECT_NE(summary.stopped_because.find("not improved for 2 epochs"), std::string::npos)
        << summary.stopped_because;
    const std::vector<double> & losses = summary.epoch_validation_loss;
    ASSERT_LT(losses.size(), 41U);
    const auto best = std::min_element(losses.begin() + 1, losses.end()) - losses.begin();
    EXPECT_EQ(summary.kept_epoch, best);
    EXPECT_EQ(static_cast<long>(losses.size()) - 1 - best, 2);
    EXPECT_EQ(result.adapter().record.at("train.kept_epoch"), std::to_string(best));
}

TEST_F(Extremes, EarlyStopWithoutValidationIsRefused) {
    options_.early_stop_epochs = 1;
    const auto refused = Trainer::create(*model_, train_, {}, options_, nullptr);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("no validation samples"), std::string::npos);
}

TEST_F(Extremes, RecomputingOrKeepingActivationsGivesTheSameBytes) {
    options_.recompute = Recompute::on;
    const TrainingRun again = run();
    EXPECT_TRUE(again.trainer->plan().recompute);
    options_.recompute = Recompute::off;
    const TrainingRun kept = run();
    EXPECT_FALSE(kept.trainer->plan().recompute);
    EXPECT_EQ(adapter_distance(again.adapter(), kept.adapter()), 0.0);
    EXPECT_GT(kept.trainer->plan().memory.anonymous_bytes(),
              again.trainer->plan().memory.anonymous_bytes());
    options_.recompute = Recompute::automatic;  // tiny: there is memory enough
    EXPECT_FALSE(Trainer::plan(*model_, train_, {}, options_, nullptr)->recompute);
}

// cases/training.md L6, L11.
TEST_F(Extremes, AWeightOfZerosIsNamedAndSoIsWhatLearnsNothing) {
    const TempDir dir;
    {
        std::ifstream in(parity_path("tiny-gemma4.gguf"), std::ios::binary);
        std::string bytes{std::istreambuf_iterator<char>(in), {}};
        const TensorInfo * up = model_->file().find_tensor("blk.5.ffn_up.weight");
        std::memset(bytes.data() + up->offset, 0, up->n_bytes);
        std::ofstream(dir.file("zero.gguf"), std::ios::binary) << bytes;
    }
    ModelOptions model_options;
    model_options.device = "cpu";
    model_options.n_threads = 1;
    auto file = GgufFile::open(dir.file("zero.gguf"));
    auto zeroed = Model::load(std::move(file).value(), model_options);
    ASSERT_TRUE(zeroed.ok());
    options_.max_steps = 1;
    listen();
    const TrainingRun result = run_training(**zeroed, options_, train_);
    EXPECT_EQ(result.error, "");
    EXPECT_NE(warnings_.find("blk.5.ffn_up.weight of the base is all zeros"), std::string::npos)
        << warnings_;
    // Nothing passes through the product with zeros: neither to its gate nor into what follows.
    EXPECT_NE(warnings_.find("2 of "), std::string::npos) << warnings_;
    EXPECT_NE(warnings_.find("no gradient at step 1; first: blk.5.ffn_gate.weight"),
              std::string::npos)
        << warnings_;
    warnings_.clear();
    EXPECT_EQ(run().error, "");
    EXPECT_EQ(warnings_.find("zeros"), std::string::npos) << warnings_;
    EXPECT_EQ(warnings_.find("gradient"), std::string::npos) << warnings_;
}

}  // namespace

}  // namespace lumi
