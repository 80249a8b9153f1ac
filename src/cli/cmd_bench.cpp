// lumi bench: prefill, decode and training speed of a model, medians over repetitions.
#include "cli/command.h"
#include "cli/progress.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace lumi {

namespace {

struct BenchFlags {
    ModelFlags model;
    ContextFlags context;
    int prompt_tokens = 512;
    int decode_tokens = 64;
    int train_tokens = 512;
    int repetitions = 3;
    bool no_train = false;
    bool json = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return n == 0 ? 0.0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<int32_t> random_tokens(int count, int n_vocab, uint64_t seed) {
    Rng rng(seed);
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (int32_t & token : tokens) {
        token = static_cast<int32_t>(rng.below(static_cast<uint64_t>(n_vocab)));
    }
    return tokens;
}

struct Speeds {
    std::vector<double> prefill, decode, train;
    double load_seconds = 0;
    double layers_per_prompt_token = 0;  // fewer than the model has where rows are dropped
};

Status measure_inference(const LoadedModel & loaded, const BenchFlags & flags, Speeds & speeds) {
    SessionOptions options = LUMI_TRY(flags.context.resolve(loaded.model->config()));
    options.n_ctx = flags.prompt_tokens + flags.decode_tokens + 1;
    const std::unique_ptr<Session> session = LUMI_TRY(Session::create(*loaded.model, options));
    const std::vector<int32_t> prompt =
        random_tokens(flags.prompt_tokens, loaded.model->config().n_vocab, 1);
    // One untimed round touches every page and builds every graph.
    for (int i = -1; i < flags.repetitions; ++i) {
        session->clear();
        const uint64_t before = session->counters().layer_evaluations;
        auto start = std::chrono::steady_clock::now();
        LUMI_TRY(session->begin(prompt));
        while (!LUMI_TRY(session->prefill_step())) {
        }
        const double prefill = seconds_since(start);
        speeds.layers_per_prompt_token =
            static_cast<double>(session->counters().layer_evaluations - before) /
            flags.prompt_tokens;
        start = std::chrono::steady_clock::now();
        for (int n = 0; n < flags.decode_tokens; ++n) {
            LUMI_TRY(session->decode(prompt[static_cast<size_t>(n) % prompt.size()]));
        }
        if (i >= 0) {
            speeds.prefill.push_back(flags.prompt_tokens / prefill);
            speeds.decode.push_back(flags.decode_tokens / seconds_since(start));
        }
    }
    return {};
}

Status measure_training(const LoadedModel & loaded, const BenchFlags & flags, Speeds & speeds) {
    Dataset data;
    Sample sample;
    sample.tokens = random_tokens(flags.train_tokens, loaded.model->config().n_vocab, 2);
    sample.target_weight.assign(sample.tokens.size(), 1.0F);
    sample.target_weight[0] = 0.0F;
    data.samples.push_back(sample);
    TrainOptions options;
    options.epochs = flags.repetitions;
    options.batch_samples = 1;
    options.window_tokens = flags.train_tokens;
    options.rank = 8;
    options.alpha = 16.0F;
    options.targets = LUMI_TRY(parse_targets("all", loaded.model->config()));
    const std::unique_ptr<Trainer> trainer =
        LUMI_TRY(Trainer::create(*loaded.model, std::move(data), Dataset(), options, nullptr));
    auto start = std::chrono::steady_clock::now();
    while (!trainer->done()) {
        const TrainProgress progress = LUMI_TRY(trainer->advance());
        if (progress.event == TrainProgress::Event::step) {
            speeds.train.push_back(flags.train_tokens / seconds_since(start));
            start = std::chrono::steady_clock::now();
        }
    }
    return {};
}

Status run(const BenchFlags & flags) {
    const auto start = std::chrono::steady_clock::now();
    const LoadedModel loaded = LUMI_TRY(flags.model.load());
    Speeds speeds;
    speeds.load_seconds = seconds_since(start);
    LUMI_TRY(measure_inference(loaded, flags, speeds));
    if (!flags.no_train) {
        LUMI_TRY(measure_training(loaded, flags, speeds));
    }
    if (flags.json) {
        const nlohmann::json out = {{"model", loaded.model->config().name},
                                    {"device", loaded.model->device().name()},
                                    {"threads", loaded.model->device().n_threads()},
                                    {"load_seconds", speeds.load_seconds},
                                    {"prefill_tokens", flags.prompt_tokens},
                                    {"prefill_tokens_per_second", median(speeds.prefill)},
                                    {"layers_per_prompt_token", speeds.layers_per_prompt_token},
                                    {"decode_tokens", flags.decode_tokens},
                                    {"decode_tokens_per_second", median(speeds.decode)},
                                    {"train_tokens", flags.train_tokens},
                                    {"train_tokens_per_second", median(speeds.train)}};
        std::printf("%s\n", out.dump(2).c_str());
        return {};
    }
    std::printf("%s on %s, %d threads, loaded in %.2f s; medians of %d\n",
                loaded.model->config().name.c_str(), loaded.model->device().name().c_str(),
                loaded.model->device().n_threads(), speeds.load_seconds, flags.repetitions);
    std::printf("prefill %5d tokens %10.1f tokens/s, %.2f layers a token\n", flags.prompt_tokens,
                median(speeds.prefill), speeds.layers_per_prompt_token);
    std::printf("decode  %5d tokens %10.1f tokens/s\n", flags.decode_tokens, median(speeds.decode));
    if (!flags.no_train) {
        std::printf(
            "train   %5d tokens %10.1f tokens/s (rank 8, all modules, every token a target)\n",
            flags.train_tokens, median(speeds.train));
    }
    return {};
}

}  // namespace

void declare_bench(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<BenchFlags>();
    CLI::App * command =
        add_command(app, "bench", "measure prefill, decode and training tokens per second",
                    "  lumi bench model.gguf\n  lumi bench model.gguf --no-train --json");
    flags->model.declare(*command);
    flags->context.declare(*command);
    command->add_option("--prompt-tokens", flags->prompt_tokens)
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 20));
    command->add_option("--decode-tokens", flags->decode_tokens)
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 20));
    command->add_option("--train-tokens", flags->train_tokens)
        ->capture_default_str()
        ->check(CLI::Range(2, 1 << 16));
    command->add_option("-r,--repetitions", flags->repetitions)
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    command->add_flag("--no-train", flags->no_train, "inference only");
    command->add_flag("--json", flags->json, "one JSON object");
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
