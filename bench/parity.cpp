// lumi against llama.cpp on the same file: F32 cache and plain attention on both sides, or, with
// --flash, what both use by default (llama.cpp's flash attention rounds an F32 cache to F16).
//   parity greedy MODEL --text FILE [--exact]   ten prompts, 64 greedy tokens each
//   parity freeze MODEL OUT                     llama.cpp's logits as a fixture of tests/parity
//   parity logits MODEL [--text FILE] [--tokens N] [--adapter F --scale S]   every logit, and KL
// Prints what it finds; exit 1 when a bound is broken.
#include "compare.h"
#include "gguf/gguf_writer.h"
#include "peer.h"
#include "session/generation.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>

namespace lumi::bench {
namespace {

struct Options {
    std::string model;
    std::string text;
    std::string adapter;
    std::string out;
    float adapter_scale = 1.0F;
    bool exact = false;
    bool flash = false;
    int n_tokens = 512;
    int n_prompts = 10;
    int prompt_tokens = 600;
    int n_greedy = 64;
    int n_threads = 2;
    double max_kl = 1e-3;
    double max_difference = 1e9;
    double max_gap = 0.1;
    int max_splits = 3;
};

// Both programs on one file.
struct Pair {
    std::unique_ptr<Model> model;
    std::unique_ptr<Tokenizer> tokenizer;
    std::unique_ptr<Session> session;
    std::unique_ptr<Peer> peer;
};

Result<Pair> open_pair(const Options & options) {
    Pair pair;
    GgufFile file = LUMI_TRY(GgufFile::open(options.model));
    pair.tokenizer = LUMI_TRY(Tokenizer::load(file));
    ModelOptions model_options;
    model_options.device = "cpu";
    model_options.n_threads = options.n_threads;
    pair.model = LUMI_TRY(Model::load(std::move(file), model_options));
    SessionOptions session_options;
    session_options.n_ctx = options.prompt_tokens + options.n_tokens + options.n_greedy;
    session_options.kv_type = options.flash ? KvType::f16 : KvType::f32;
    session_options.flash = options.flash ? FlashMode::on : FlashMode::off;
    session_options.exact = options.exact;
    pair.session = LUMI_TRY(Session::create(*pair.model, session_options));
    if (!options.adapter.empty()) {
        const GgufFile adapter_file = LUMI_TRY(GgufFile::open(options.adapter));
        const AdapterData data =
            LUMI_TRY(load_adapter(adapter_file, pair.model->config(), std::string()));
        AppliedAdapter applied;
        applied.adapter = LUMI_TRY(DeviceAdapter::create(data, pair.model->device()));
        applied.scale = options.adapter_scale;
        applied.revision = options.adapter;
        LUMI_TRY(pair.session->set_adapters({applied}));
    }
    PeerOptions peer_options;
    peer_options.n_ctx = pair.session->options().n_ctx;
    peer_options.n_batch = pair.session->options().n_batch;
    peer_options.n_threads = options.n_threads;
    peer_options.f32_kv = !options.flash;
    peer_options.flash = options.flash;
    peer_options.repack = !options.exact;
    peer_options.adapter = options.adapter;
    peer_options.adapter_scale = options.adapter_scale;
    pair.peer = LUMI_TRY(Peer::load(options.model, peer_options));
    return pair;
}

// Tokens of a text, or arbitrary ones without a text.
Result<std::vector<int32_t>> some_tokens(const Pair & pair, const std::string & path) {
    std::vector<int32_t> tokens;
    if (path.empty()) {
        Rng rng(1);
        const auto n_vocab = static_cast<uint64_t>(pair.model->config().n_vocab);
        for (int i = 0; i < 8192; ++i) {
            tokens.push_back(static_cast<int32_t>(rng.below(n_vocab)));
        }
        return tokens;
    }
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        return Error{ErrorKind::io, path + " cannot be read"};
    }
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    pair.tokenizer->encode(text, Tokenizer::Specials::untrusted, tokens);
    return tokens;
}

// Prompt i: BOS where the model wants one, and the i-th stretch of the text.
std::vector<int32_t> prompt_of(const Pair & pair, const std::vector<int32_t> & tokens, int i,
                               int n) {
    std::vector<int32_t> prompt;
    if (pair.tokenizer->add_bos()) {
        prompt.push_back(pair.tokenizer->bos());
    }
    for (size_t k = 0; std::ssize(prompt) < n; ++k) {
        prompt.push_back(tokens[(static_cast<size_t>(i * (n - 1)) + k) % tokens.size()]);
    }
    return prompt;
}

Result<std::vector<int32_t>> our_greedy(Pair & pair, const std::vector<int32_t> & prompt, int n) {
    GenerationOptions options;
    options.max_tokens = n;
    options.ignore_end = true;
    options.sampler.temperature = 0.0F;
    auto generation = LUMI_TRY(Generation::start(*pair.session, *pair.tokenizer, prompt, options));
    for (bool done = false; !done;) {
        done = LUMI_TRY(generation->step()).done;
    }
    return generation->generated();
}

Result<bool> greedy(const Options & options) {
    Pair pair = LUMI_TRY(open_pair(options));
    const std::vector<int32_t> tokens = LUMI_TRY(some_tokens(pair, options.text));
    int n_equal = 0;
    bool close = true;
    for (int i = 0; i < options.n_prompts; ++i) {
        const std::vector<int32_t> prompt = prompt_of(pair, tokens, i, options.prompt_tokens);
        pair.session->clear();
        const std::vector<int32_t> ours = LUMI_TRY(our_greedy(pair, prompt, options.n_greedy));
        const PeerAnswer theirs = LUMI_TRY(pair.peer->greedy(prompt, options.n_greedy));
        const auto split =
            std::mismatch(ours.begin(), ours.end(), theirs.tokens.begin(), theirs.tokens.end());
        if (split.first == ours.end()) {
            ++n_equal;
            std::printf("prompt %d: %d tokens equal\n", i, options.n_greedy);
        } else {
            const auto at = static_cast<size_t>(split.first - ours.begin());
            const double gap = static_cast<double>(theirs.gaps[at]);
            close &= gap < options.max_gap;
            std::printf("prompt %d: differs at token %zu (%d against %d), llama.cpp's two best "
                        "logits are %.4f apart\n",
                        i, at, *split.first, *split.second, gap);
        }
        std::fflush(stdout);
    }
    std::printf("%d of %d equal\n", n_equal, options.n_prompts);
    const int allowed = options.exact ? 0 : options.max_splits;
    return close && options.n_prompts - n_equal <= allowed;
}

Result<bool> logits(const Options & options) {
    Pair pair = LUMI_TRY(open_pair(options));
    const std::vector<int32_t> all = LUMI_TRY(some_tokens(pair, options.text));
    const std::vector<int32_t> tokens = prompt_of(pair, all, 0, options.n_tokens);
    const auto n_vocab = static_cast<size_t>(pair.model->config().n_vocab);
    std::vector<float> ours(n_vocab * tokens.size());
    LUMI_TRY(pair.session->evaluate(tokens, [&](int position, std::span<const float> row) {
        std::copy(row.begin(), row.end(), ours.begin() + position * static_cast<int64_t>(n_vocab));
        return Status();
    }));
    double worst = 0.0;
    double worst_kl = 0.0;
    double sum_kl = 0.0;
    int same_best = 0;
    const int chunk = pair.session->evaluation_batch();
    LUMI_TRY(pair.peer->evaluate(tokens, chunk, [&](int position, std::span<const float> row) {
        const auto mine =
            std::span<const float>(ours).subspan(static_cast<size_t>(position) * n_vocab, n_vocab);
        const double kl = kl_divergence(row, mine);
        worst = std::max(worst, max_difference(row, mine));
        worst_kl = std::max(worst_kl, kl);
        sum_kl += kl;
        same_best += std::max_element(row.begin(), row.end()) - row.begin() ==
                     std::max_element(mine.begin(), mine.end()) - mine.begin();
    }));
    const double mean_kl = sum_kl / static_cast<double>(tokens.size());
    std::printf("%zu tokens: mean KL %.3g, largest KL %.3g, largest |logit difference| %.3g, same "
                "best token %.2f %%\n",
                tokens.size(), mean_kl, worst_kl, worst,
                100.0 * same_best / static_cast<double>(tokens.size()));
    return mean_kl < options.max_kl && worst < options.max_difference;
}

// A fixture: 64 arbitrary tokens and llama.cpp's logits at some of them.
Result<bool> freeze(Options options) {
    options.n_tokens = 64;
    options.n_threads = 1;
    options.exact = true;
    Pair pair = LUMI_TRY(open_pair(options));
    const std::vector<int32_t> all = LUMI_TRY(some_tokens(pair, options.text));
    const std::vector<int32_t> tokens = prompt_of(pair, all, 0, options.n_tokens);
    const std::vector<int32_t> rows = {0, 1, 7, 8, 9, 20, 40, 63};
    std::vector<float> logits;
    LUMI_TRY(pair.peer->evaluate(
        tokens, options.n_tokens, [&](int position, std::span<const float> row) {
            if (std::find(rows.begin(), rows.end(), position) != rows.end()) {
                logits.insert(logits.end(), row.begin(), row.end());
            }
        }));
    GgufWriter writer;
    writer.set_string("general.type", "llama.cpp reference");
    writer.set_i32s("tokens", tokens);
    writer.set_i32s("logit_rows", rows);
    const int64_t ne[] = {pair.model->config().n_vocab, static_cast<int64_t>(rows.size())};
    writer.add_tensor("logits", GGML_TYPE_F32, ne, std::as_bytes(std::span<const float>(logits)));
    LUMI_TRY(writer.write(options.out));
    return true;
}

int report(const Result<bool> & result) {
    if (!result.ok()) {
        std::fprintf(stderr, "%s\n", result.error().message.c_str());
        return 1;
    }
    std::puts(*result ? "within bounds" : "OUT OF BOUNDS");
    return *result ? 0 : 1;
}

}  // namespace
}  // namespace lumi::bench

int main(int argc, char ** argv) {
    using namespace lumi::bench;
    Options options;
    CLI::App app("lumi against llama.cpp on the same file");
    app.require_subcommand(1);
    CLI::App * greedy_command = app.add_subcommand("greedy", "ten prompts, 64 greedy tokens");
    CLI::App * logits_command = app.add_subcommand("logits", "every logit, and KL");
    for (CLI::App * command : {greedy_command, logits_command}) {
        command->add_option("model", options.model)->required();
        command->add_option("--text", options.text, "prompts come from this file");
        command->add_option("--adapter", options.adapter);
        command->add_option("--scale", options.adapter_scale);
        command->add_option("--threads", options.n_threads);
        command->add_option("--tokens", options.n_tokens);
        command->add_option("--prompt-tokens", options.prompt_tokens);
        command->add_option("--prompts", options.n_prompts);
        command->add_option("--max-kl", options.max_kl);
        command->add_option("--max-difference", options.max_difference);
        command->add_flag("--exact", options.exact, "ggml's own products on both sides");
        command->add_flag("--flash", options.flash);
    }
    CLI::App * freeze_command = app.add_subcommand("freeze", "write a fixture of tests/parity");
    freeze_command->add_option("model", options.model)->required();
    freeze_command->add_option("out", options.out)->required();
    CLI11_PARSE(app, argc, argv);
    return report(greedy_command->parsed()   ? greedy(options)
                  : freeze_command->parsed() ? freeze(options)
                                             : logits(options));
}
