// NaN and overflow never reach an adapter (cases/training.md L8).
#include "tiny_training.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include <unistd.h>

namespace lumi {

namespace {

// The tiny model with one weight matrix full of NaN.
class BrokenModel {
  public:
    BrokenModel() {
        const auto good = GgufFile::open(parity_path("tiny-gemma4.gguf"));
        EXPECT_TRUE(good.ok());
        const TensorInfo * tensor = good->find_tensor("blk.5.ffn_up.weight");
        EXPECT_NE(tensor, nullptr);
        std::string bytes(reinterpret_cast<const char *>(good->bytes().data()),
                          good->bytes().size());
        const float nan = std::numeric_limits<float>::quiet_NaN();
        for (size_t i = 0; i < tensor->n_bytes; i += sizeof nan) {
            bytes.replace(tensor->offset + i, sizeof nan, reinterpret_cast<const char *>(&nan),
                          sizeof nan);
        }
        path_ = std::filesystem::temp_directory_path() /
                ("lumi-" + std::to_string(getpid()) + "-nan.gguf");
        std::ofstream(path_, std::ios::binary) << bytes;
        auto file = GgufFile::open(path_.string());
        EXPECT_TRUE(file.ok());
        ModelOptions options;
        options.device = "cpu";
        options.n_threads = 1;
        auto model = Model::load(std::move(file).value(), options);
        EXPECT_TRUE(model.ok()) << model.error().message;
        model_ = std::move(model).value();
    }
    ~BrokenModel() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    BrokenModel(const BrokenModel &) = delete;
    BrokenModel & operator=(const BrokenModel &) = delete;
    const Model & model() const { return *model_; }

  private:
    std::filesystem::path path_;
    std::unique_ptr<Model> model_;
};

TEST(NumericTrouble, ABaseOfNaNStopsAtOnceAndLeavesTheFirstAdapter) {
    const BrokenModel broken;
    const TrainingRun run = run_training(broken.model(), quick_options(), rule_dataset({24, 30}));
    EXPECT_EQ(run.error_kind, ErrorKind::numeric);
    EXPECT_NE(run.error.find("not finite at step 1"), std::string::npos) << run.error;
    EXPECT_TRUE(run.steps.empty());
    EXPECT_TRUE(run.adapter().check_finite().ok());
    EXPECT_TRUE(run.trainer->done());
    EXPECT_EQ(run.trainer->summary().stopped_because, run.error);
}

TEST(NumericTrouble, ABaseOfNaNIsFoundByTheFirstValidation) {
    const BrokenModel broken;
    const TrainingRun run =
        run_training(broken.model(), quick_options(), rule_dataset({24}), rule_dataset({30}));
    EXPECT_EQ(run.error_kind, ErrorKind::numeric);
    EXPECT_NE(run.error.find("line 1"), std::string::npos) << run.error;
}

TEST(NumericTrouble, AHostileLearningRateKeepsTheLastGoodAdapter) {
    const std::unique_ptr<Model> model = load_tiny("tiny-gemma4.gguf");
    for (const float rate : {1e19F, 1e30F}) {
        TrainOptions options = quick_options();
        options.learning_rate = rate;
        options.max_steps = 5;
        const TrainingRun run = run_training(*model, options, rule_dataset({24, 30}));
        EXPECT_EQ(run.error_kind, ErrorKind::numeric) << rate;
        EXPECT_NE(run.error, "") << rate;
        const AdapterData kept = run.adapter();
        EXPECT_TRUE(kept.check_finite().ok());
        // The last good one is a state that gave a finite loss: here the first.
        const AdapterData start = make_adapter(model->config(), model->plain_weights(), {},
                                               options.rank, options.alpha, options.seed);
        EXPECT_EQ(adapter_distance(kept, start), 0.0) << rate;
    }
}

TEST(NumericTrouble, AnAdapterThatIsNotFiniteIsRefusedAsAStart) {
    const std::unique_ptr<Model> model = load_tiny("tiny-gemma4.gguf");
    AdapterData start = make_adapter(model->config(), model->plain_weights(), {}, 4, 8.0F, 1);
    start.pairs[1].b[0] = std::numeric_limits<float>::infinity();
    const auto trainer = Trainer::create(*model, rule_dataset({24}), {}, quick_options(), &start);
    ASSERT_FALSE(trainer.ok());
    EXPECT_EQ(trainer.error().kind, ErrorKind::numeric);
}

}  // namespace

}  // namespace lumi
