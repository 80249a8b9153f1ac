// The frozen tiny models as things to train: loading, samples of tokens, running to the end.
#pragma once

#include "train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace lumi {

inline std::string parity_path(const std::string & name) {
    return std::string(LUMI_SOURCE_DIR) + "/tests/parity/" + name;
}

inline std::unique_ptr<Model> load_tiny(const std::string & name, const char * device = "cpu") {
    auto file = GgufFile::open(parity_path(name));
    EXPECT_TRUE(file.ok()) << file.error().message;
    ModelOptions options;
    options.device = device;
    options.n_threads = 1;  // tests share the cores
    auto model = Model::load(std::move(file).value(), options);
    EXPECT_TRUE(model.ok()) << model.error().message;
    return std::move(model).value();
}

// n tokens that follow a simple rule a model can learn; the second half are targets.
inline Sample rule_sample(int n, int seed) {
    Sample sample;
    sample.line = seed + 1;
    int32_t token = 10 + seed * 7 % 50;
    for (int i = 0; i < n; ++i) {
        sample.tokens.push_back(i == 0 ? 2 : token);
        sample.target_weight.push_back(i >= n / 2 ? 1.0F : 0.0F);
        token = 10 + (token * 5 + 3) % 50;
    }
    return sample;
}

inline Dataset rule_dataset(std::initializer_list<int> lengths) {
    Dataset dataset;
    int seed = 0;
    for (const int n : lengths) {
        dataset.samples.push_back(rule_sample(n, seed++));
    }
    return dataset;
}

inline TrainOptions quick_options() {
    TrainOptions options;
    options.rank = 4;
    options.alpha = 8.0F;
    options.learning_rate = 1e-2F;
    options.schedule = LrSchedule::constant;
    options.warmup_steps = 0;
    options.batch_samples = 2;
    options.window_tokens = 64;
    return options;
}

// What a run to the end leaves behind.
struct TrainingRun {
    std::vector<TrainProgress> steps;   // one for each optimiser step
    std::vector<TrainProgress> events;  // everything but slices
    int slices = 0;
    std::unique_ptr<Trainer> trainer;
    std::string error;  // empty when it ended well
    ErrorKind error_kind = ErrorKind::internal;

    AdapterData adapter() const {
        auto result = trainer->adapter();
        EXPECT_TRUE(result.ok());
        return std::move(result).value();
    }
};

inline TrainingRun run_training(const Model & model, const TrainOptions & options, Dataset train,
                                Dataset validation = {}, const AdapterData * init = nullptr,
                                int stop_after_steps = 0) {
    TrainingRun run;
    auto trainer = Trainer::create(model, std::move(train), std::move(validation), options, init);
    EXPECT_TRUE(trainer.ok()) << trainer.error().message;
    run.trainer = std::move(trainer).value();
    while (!run.trainer->done()) {
        const auto progress = run.trainer->advance();
        if (!progress.ok()) {
            run.error = progress.error().message;
            run.error_kind = progress.error().kind;
            break;
        }
        ++run.slices;
        if (progress->event == TrainProgress::Event::step) {
            run.steps.push_back(*progress);
            if (static_cast<int>(run.steps.size()) == stop_after_steps) {
                run.trainer->request_stop();
            }
        }
        if (progress->event != TrainProgress::Event::slice) {
            run.events.push_back(*progress);
        }
    }
    return run;
}

// Relative L2 distance over all numbers of two adapters of the same pairs.
inline double adapter_distance(const AdapterData & a, const AdapterData & b) {
    double difference = 0;
    double size = 0;
    const auto add = [&](const std::vector<float> & x, const std::vector<float> & y) {
        EXPECT_EQ(x.size(), y.size());
        for (size_t i = 0; i < x.size(); ++i) {
            const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
            difference += d * d;
            size += static_cast<double>(y[i]) * static_cast<double>(y[i]);
        }
    };
    EXPECT_EQ(a.pairs.size(), b.pairs.size());
    for (size_t i = 0; i < a.pairs.size(); ++i) {
        add(a.pairs[i].a, b.pairs[i].a);
        add(a.pairs[i].b, b.pairs[i].b);
    }
    return std::sqrt(difference / size);
}

}  // namespace lumi
