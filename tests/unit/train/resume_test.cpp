// A run that is stopped and resumed ends with the same bytes as one that was not; a checkpoint of
// another run, or one that is damaged, is refused by name (cases/training.md L32, L33, L35).
#include "tiny_training.h"

#include "support/temp_dir.h"
#include "train/checkpoint.h"

#include "gguf/gguf_writer.h"

#include <cstring>
#include <fstream>
#include <iterator>

namespace lumi {

namespace {

std::string bytes_of(const std::string & path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

class ResumeTest : public testing::Test {
  protected:
    ResumeTest() {
        options_ = quick_options();
        options_.epochs = 4;
        options_.schedule = LrSchedule::cosine;
        options_.warmup_steps = 2;
        options_.dropout = 0.1F;
        options_.learning_rate = 2e-2F;  // the best epoch is not the last
    }

    std::unique_ptr<Trainer> trainer(const Checkpoint * resume = nullptr) {
        auto made = Trainer::create(*model_, train_, validation_, options_, nullptr, resume);
        EXPECT_TRUE(made.ok()) << made.error().message;
        return made.ok() ? std::move(made).value() : nullptr;
    }
    // The adapter's file after the run has come to its end.
    std::string finish(Trainer & trainer) {
        while (!trainer.done()) {
            const auto progress = trainer.advance();
            EXPECT_TRUE(progress.ok()) << progress.error().message;
        }
        const std::string path = dir_.file("adapter.gguf");
        EXPECT_TRUE(save_adapter(trainer.adapter().value(), model_->config(), path).ok());
        return bytes_of(path);
    }
    // Saves at the n-th boundary, throws the trainer away, resumes and finishes.
    std::string interrupted_at(int n) {
        const std::string path = dir_.file("checkpoint.gguf");
        {
            const auto first = trainer();
            for (int seen = 0; seen < n && !first->done();) {
                EXPECT_TRUE(first->advance().ok());
                seen += first->at_boundary() ? 1 : 0;
            }
            const Status saved = first->save_checkpoint(path);
            EXPECT_TRUE(saved.ok()) << saved.error().message;
        }
        const auto checkpoint = read_checkpoint(path);
        EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
        const auto second = trainer(&*checkpoint);
        return finish(*second);
    }
    std::string refusal(const Checkpoint & checkpoint) {
        const auto made =
            Trainer::create(*model_, train_, validation_, options_, nullptr, &checkpoint);
        EXPECT_FALSE(made.ok());
        return made.ok() ? "" : made.error().message;
    }
    Checkpoint checkpoint_after_one_step() {
        const std::string path = dir_.file("first.gguf");
        const auto first = trainer();
        while (first->summary().steps < 1 || !first->at_boundary()) {
            EXPECT_TRUE(first->advance().ok());
        }
        EXPECT_TRUE(first->save_checkpoint(path).ok());
        auto checkpoint = read_checkpoint(path);
        EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
        return std::move(checkpoint).value();
    }

    TempDir dir_;
    std::unique_ptr<Model> model_ = load_tiny("tiny-gemma4.gguf");
    Dataset train_ = rule_dataset({24, 30, 20, 28, 12});
    Dataset validation_ = rule_dataset({9, 21});
    TrainOptions options_;
};

TEST_F(ResumeTest, EndsWithTheBytesOfAnUninterruptedRun) {
    options_.slice_seconds = 1000.0;
    const auto whole = trainer();
    int boundaries = 0;
    while (!whole->done()) {
        ASSERT_TRUE(whole->advance().ok());
        boundaries += whole->at_boundary() ? 1 : 0;
    }
    const std::string wanted = finish(*whole);
    ASSERT_GT(whole->summary().kept_epoch, 0);
    ASSERT_GE(boundaries, 20);
    for (int n = 1; n <= boundaries; n += 3) {
        EXPECT_TRUE(interrupted_at(n) == wanted) << "interrupted at boundary " << n;
    }
}

TEST_F(ResumeTest, EndsAlikeWithoutValidationEvenWhenNothingIsLeftToDo) {
    validation_ = {};
    options_.max_steps = 7;
    const std::string wanted = finish(*trainer());
    for (const int n : {1, 9, 1000}) {  // the last stops after the run's end
        if (n < 1000) {
            EXPECT_TRUE(interrupted_at(n) == wanted) << n;
            continue;
        }
        const std::string path = dir_.file("checkpoint.gguf");
        const auto first = trainer();
        while (first->summary().steps < 7) {
            ASSERT_TRUE(first->advance().ok());
        }
        ASSERT_TRUE(first->save_checkpoint(path).ok());
        const auto checkpoint = read_checkpoint(path);
        ASSERT_TRUE(checkpoint.ok());
        EXPECT_TRUE(finish(*trainer(&*checkpoint)) == wanted);
    }
}

TEST_F(ResumeTest, LossesGoOnWhereTheyStopped) {
    const Checkpoint checkpoint = checkpoint_after_one_step();
    const auto second = trainer(&checkpoint);
    EXPECT_EQ(second->summary().steps, 1);
    EXPECT_EQ(second->summary().step_loss.size(), 1U);
    EXPECT_EQ(second->summary().epoch_validation_loss.size(), 1U);
}

TEST_F(ResumeTest, RefusesChangedDataSettingsAndBaseByName) {
    const Checkpoint checkpoint = checkpoint_after_one_step();
    options_.learning_rate = 1e-3F;
    options_.seed = 7;
    std::string why = refusal(checkpoint);
    EXPECT_NE(why.find("learning_rate was 0.02, is 0.001"), std::string::npos) << why;
    EXPECT_NE(why.find("seed was 42, is 7"), std::string::npos) << why;
    EXPECT_EQ(why.find("epochs"), std::string::npos) << why;
    options_.learning_rate = 2e-2F;
    options_.seed = 42;

    train_.samples[3].tokens[2] += 1;
    why = refusal(checkpoint);
    EXPECT_NE(why.find("; "), 0U);
    EXPECT_NE(why.find(": data was 5 samples, 114 tokens, sha256 "), std::string::npos) << why;
    EXPECT_EQ(why.find("validation_data"), std::string::npos) << why;
    train_.samples[3].tokens[2] -= 1;
    validation_.samples[0].target_weight[8] = 0.5F;
    why = refusal(checkpoint);
    EXPECT_NE(why.find("validation_data was"), std::string::npos) << why;
    validation_.samples[0].target_weight[8] = 1.0F;

    model_ = load_tiny("tiny-gemma3.gguf");
    why = refusal(checkpoint);
    EXPECT_NE(why.find("base was"), std::string::npos) << why;
}

TEST_F(ResumeTest, NeverSavesInTheMiddleOfAStep) {
    validation_ = {};
    options_.slice_seconds = 1e-9;
    const auto running = trainer();
    ASSERT_TRUE(running->advance().ok());
    ASSERT_FALSE(running->at_boundary());
    EXPECT_FALSE(running->save_checkpoint(dir_.file("middle.gguf")).ok());
    EXPECT_EQ(bytes_of(dir_.file("middle.gguf")), "");
}

class CheckpointFile : public ResumeTest {
  protected:
    CheckpointFile() : whole_(checkpoint_after_one_step()) {}

    // The file with one tensor's bytes changed, or without the tensor, reads as this error.
    std::string error_with(const std::string & name, const std::function<void(char *)> & change) {
        std::string bytes = bytes_of(whole_.file.path());
        const TensorInfo * tensor = whole_.file.find_tensor(name);
        EXPECT_NE(tensor, nullptr);
        change(bytes.data() + tensor->offset);
        return error_of(bytes);
    }
    std::string error_of(const std::string & bytes) {
        const std::string path = dir_.file("damaged.gguf");
        std::ofstream(path, std::ios::binary) << bytes;
        const auto checkpoint = read_checkpoint(path);
        EXPECT_FALSE(checkpoint.ok());
        return checkpoint.ok() ? "" : checkpoint.error().message;
    }
    Checkpoint whole_;
};

TEST_F(CheckpointFile, RefusesDamageByName) {
    const auto put = [](const auto value) {
        return [value](char * at) { std::memcpy(at, &value, sizeof value); };
    };
    EXPECT_NE(error_with("second_moment", put(std::nanf(""))).find("'second_moment': element 0"),
              std::string::npos);
    EXPECT_NE(error_with("order", put(int32_t{99})).find("order"), std::string::npos);
    EXPECT_NE(error_with("order", put(int32_t{-1})).find("order"), std::string::npos);
    EXPECT_NE(error_with("state", put(17.0)).find("'state'"), std::string::npos);
    // A number that could be right, but is not the one that was saved.
    EXPECT_NE(error_with("first_moment", put(0.123F)).find("damaged"), std::string::npos);
    const std::string bytes = bytes_of(whole_.file.path());
    EXPECT_NE(error_of(bytes.substr(0, bytes.size() - 64)).find("damaged.gguf"), std::string::npos);
    EXPECT_NE(error_of(bytes.substr(0, 100)).find("damaged.gguf"), std::string::npos);
}

TEST_F(CheckpointFile, IsNoAdapterAndAnAdapterIsNone) {
    const auto loaded = load_adapter(whole_.file, model_->config(), "");
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().message.find("training-checkpoint"), std::string::npos);
    const auto fresh = trainer();
    const std::string path = dir_.file("a.gguf");
    ASSERT_TRUE(save_adapter(fresh->adapter().value(), model_->config(), path).ok());
    EXPECT_NE(error_of(bytes_of(path)).find("this file is no checkpoint"), std::string::npos);
}

}  // namespace

}  // namespace lumi
