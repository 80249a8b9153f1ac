// Speed beside llama.cpp on the same file in the same run: rounds of both, interleaved, medians.
// Each at its defaults (F16 cache, flash attention, repacked weights).
//   versus MODEL [--prompt N] [--decode N] [--rounds N] [--threads N]
#include "base/rng.h"
#include "compare.h"
#include "peer.h"
#include "session/session.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>

namespace lumi::bench {
namespace {

struct Options {
    std::string model;
    int n_prompt = 512;
    int n_decode = 64;
    int n_rounds = 3;
    int n_threads = 2;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<PeerSpeed> our_speed(Session & session, const std::vector<int32_t> & prompt, int n_decode) {
    PeerSpeed speed;
    session.clear();
    auto start = std::chrono::steady_clock::now();
    LUMI_TRY(session.begin(prompt));
    while (!LUMI_TRY(session.prefill_step())) {
    }
    speed.prefill_seconds = seconds_since(start);
    start = std::chrono::steady_clock::now();
    for (int i = 0; i < n_decode; ++i) {
        LUMI_TRY(session.decode(prompt[static_cast<size_t>(i) % prompt.size()]));
    }
    speed.decode_seconds = seconds_since(start);
    return speed;
}

Status run(const Options & options) {
    auto start = std::chrono::steady_clock::now();
    GgufFile file = LUMI_TRY(GgufFile::open(options.model));
    ModelOptions model_options;
    model_options.device = "cpu";
    model_options.n_threads = options.n_threads;
    const auto model = LUMI_TRY(Model::load(std::move(file), model_options));
    SessionOptions session_options;
    session_options.n_ctx = options.n_prompt + options.n_decode + 8;
    const auto session = LUMI_TRY(Session::create(*model, session_options));
    std::fprintf(stderr, "lumi loaded in %.1f s\n", seconds_since(start));

    start = std::chrono::steady_clock::now();
    PeerOptions peer_options;
    peer_options.n_ctx = session_options.n_ctx;
    peer_options.n_threads = options.n_threads;
    const auto peer = LUMI_TRY(Peer::load(options.model, peer_options));
    std::fprintf(stderr, "llama.cpp loaded in %.1f s\n", seconds_since(start));

    Rng rng(1);
    std::vector<int32_t> prompt;
    while (static_cast<int>(prompt.size()) < options.n_prompt) {
        prompt.push_back(
            static_cast<int32_t>(rng.below(static_cast<uint64_t>(model->config().n_vocab))));
    }
    const std::vector<int32_t> warm_up(prompt.begin(), prompt.begin() + 8);
    LUMI_TRY(our_speed(*session, warm_up, 1));
    LUMI_TRY(peer->speed(warm_up, 1));

    std::vector<double> ours[2];
    std::vector<double> theirs[2];
    for (int round = 0; round < options.n_rounds; ++round) {
        const PeerSpeed a = LUMI_TRY(our_speed(*session, prompt, options.n_decode));
        const PeerSpeed b = LUMI_TRY(peer->speed(prompt, options.n_decode));
        ours[0].push_back(options.n_prompt / a.prefill_seconds);
        ours[1].push_back(options.n_decode / a.decode_seconds);
        theirs[0].push_back(options.n_prompt / b.prefill_seconds);
        theirs[1].push_back(options.n_decode / b.decode_seconds);
        std::fprintf(stderr, "round %d: prefill %.2f against %.2f, decode %.2f against %.2f\n",
                     round, ours[0].back(), theirs[0].back(), ours[1].back(), theirs[1].back());
    }
    const double p[2] = {median(ours[0]), median(theirs[0])};
    const double d[2] = {median(ours[1]), median(theirs[1])};
    std::printf("{\"prefill\": {\"tokens\": %d, \"lumi\": %.2f, \"llama.cpp\": %.2f, \"ratio\": "
                "%.2f}, \"decode\": {\"tokens\": %d, \"lumi\": %.2f, \"llama.cpp\": %.2f, "
                "\"ratio\": %.2f}}\n",
                options.n_prompt, p[0], p[1], p[0] / p[1], options.n_decode, d[0], d[1],
                d[0] / d[1]);
    return {};
}

}  // namespace
}  // namespace lumi::bench

int main(int argc, char ** argv) {
    lumi::bench::Options options;
    CLI::App app("lumi and llama.cpp, tokens per second on the same file");
    app.add_option("model", options.model)->required();
    app.add_option("--prompt", options.n_prompt)->check(CLI::Range(8, 1 << 20));
    app.add_option("--decode", options.n_decode)->check(CLI::Range(1, 1 << 20));
    app.add_option("--rounds", options.n_rounds)->check(CLI::Range(1, 1000));
    app.add_option("--threads", options.n_threads)->check(CLI::Range(1, 512));
    CLI11_PARSE(app, argc, argv);
    const lumi::Status status = lumi::bench::run(options);
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.error().message.c_str());
        return 1;
    }
    return 0;
}
