// llama.h behind Peer.
#include "peer.h"

#include "device/device.h"

#include <llama.h>

#include <algorithm>
#include <chrono>

namespace lumi::bench {
namespace {

struct LlamaDeleter {
    void operator()(llama_model * p) const { llama_model_free(p); }
    void operator()(llama_context * p) const { llama_free(p); }
    void operator()(llama_adapter_lora * p) const { llama_adapter_lora_free(p); }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

struct Peer::Impl {
    // In this order: the context goes before what it uses.
    std::unique_ptr<llama_model, LlamaDeleter> model;
    std::unique_ptr<llama_adapter_lora, LlamaDeleter> adapter;
    std::unique_ptr<llama_context, LlamaDeleter> context;
    PeerOptions options;
    int n_past = 0;

    int n_vocab() const { return llama_vocab_n_tokens(llama_model_get_vocab(model.get())); }

    void restart() {
        llama_memory_clear(llama_get_memory(context.get()), true);
        n_past = 0;
    }

    // Appends tokens; logits of the last `n_wanted` exist afterwards.
    Status decode(std::span<const int32_t> tokens, int n_wanted) {
        const int n = static_cast<int>(tokens.size());
        llama_batch batch = llama_batch_init(n, 0, 1);
        batch.n_tokens = n;
        for (int i = 0; i < n; ++i) {
            batch.token[i] = tokens[static_cast<size_t>(i)];
            batch.pos[i] = n_past + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = static_cast<int8_t>(i >= n - n_wanted);
        }
        const int code = llama_decode(context.get(), batch);
        llama_batch_free(batch);
        if (code != 0) {
            return Error{ErrorKind::internal,
                         "llama.cpp could not decode (code " + std::to_string(code) + ")"};
        }
        llama_synchronize(context.get());
        n_past += n;
        return {};
    }

    // A whole prompt, logits of the last token only.
    Status prompt(std::span<const int32_t> tokens) {
        const auto step = static_cast<size_t>(options.n_batch);
        for (size_t at = 0; at < tokens.size(); at += step) {
            const size_t n = std::min(step, tokens.size() - at);
            LUMI_TRY(decode(tokens.subspan(at, n), at + n == tokens.size() ? 1 : 0));
        }
        return {};
    }

    std::span<const float> last_logits() const {
        return {llama_get_logits_ith(context.get(), -1), static_cast<size_t>(n_vocab())};
    }
};

Peer::Peer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Peer::~Peer() = default;

int Peer::n_vocab() const {
    return impl_->n_vocab();
}

Result<std::unique_ptr<Peer>> Peer::load(const std::string & path, const PeerOptions & options) {
    LUMI_TRY(load_backends());
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    model_params.use_extra_bufts = options.repack;
    impl->model.reset(llama_model_load_from_file(path.c_str(), model_params));
    if (!impl->model) {
        return Error{ErrorKind::invalid_file, path + ": llama.cpp could not load it"};
    }
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(options.n_ctx);
    params.n_batch = static_cast<uint32_t>(options.n_batch);
    params.n_ubatch = params.n_batch;
    params.n_threads = options.n_threads;
    params.n_threads_batch = options.n_threads;
    params.swa_full = false;  // as its programs do
    params.flash_attn_type =
        options.flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    if (options.f32_kv) {
        params.type_k = GGML_TYPE_F32;
        params.type_v = GGML_TYPE_F32;
    }
    impl->context.reset(llama_init_from_model(impl->model.get(), params));
    if (!impl->context) {
        return Error{ErrorKind::internal, path + ": llama.cpp could not make a context"};
    }
    if (!options.adapter.empty()) {
        impl->adapter.reset(llama_adapter_lora_init(impl->model.get(), options.adapter.c_str()));
        llama_adapter_lora * adapter = impl->adapter.get();
        float scale = options.adapter_scale;
        if (adapter == nullptr ||
            llama_set_adapters_lora(impl->context.get(), &adapter, 1, &scale) != 0) {
            return Error{ErrorKind::invalid_file,
                         options.adapter + ": llama.cpp could not apply it"};
        }
    }
    return std::unique_ptr<Peer>(new Peer(std::move(impl)));
}

Status Peer::evaluate(std::span<const int32_t> tokens, int chunk,
                      const std::function<void(int, std::span<const float>)> & visit) {
    impl_->restart();
    const auto step = static_cast<size_t>(chunk);
    const auto n_vocab = static_cast<size_t>(impl_->n_vocab());
    for (size_t at = 0; at < tokens.size(); at += step) {
        const size_t n = std::min(step, tokens.size() - at);
        LUMI_TRY(impl_->decode(tokens.subspan(at, n), static_cast<int>(n)));
        for (size_t i = 0; i < n; ++i) {
            visit(static_cast<int>(at + i),
                  {llama_get_logits_ith(impl_->context.get(), static_cast<int32_t>(i)), n_vocab});
        }
    }
    return {};
}

Result<PeerAnswer> Peer::greedy(std::span<const int32_t> prompt, int n_tokens) {
    impl_->restart();
    LUMI_TRY(impl_->prompt(prompt));
    PeerAnswer answer;
    for (int i = 0; i < n_tokens; ++i) {
        const std::span<const float> logits = impl_->last_logits();
        const auto best = std::max_element(logits.begin(), logits.end());
        float second = -1e30F;
        for (auto x = logits.begin(); x != logits.end(); ++x) {
            second = x == best ? second : std::max(second, *x);
        }
        answer.tokens.push_back(static_cast<int32_t>(best - logits.begin()));
        answer.gaps.push_back(*best - second);
        LUMI_TRY(impl_->decode(std::span<const int32_t>(&answer.tokens.back(), 1), 1));
    }
    return answer;
}

Result<PeerSpeed> Peer::speed(std::span<const int32_t> prompt, int n_decode) {
    impl_->restart();
    PeerSpeed speed;
    auto start = std::chrono::steady_clock::now();
    LUMI_TRY(impl_->prompt(prompt));
    speed.prefill_seconds = seconds_since(start);
    start = std::chrono::steady_clock::now();
    for (int i = 0; i < n_decode; ++i) {
        const int32_t token = prompt[static_cast<size_t>(i) % prompt.size()];
        LUMI_TRY(impl_->decode(std::span<const int32_t>(&token, 1), 1));
    }
    speed.decode_seconds = seconds_since(start);
    return speed;
}

}  // namespace lumi::bench
