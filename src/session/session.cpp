// The sequence of one conversation: what is cached, what is pending, what may be kept.
#include "session/session.h"

#include "session/session_setup.h"

#include <algorithm>
#include <cmath>

namespace lumi {
namespace {

// True when the pairs of view change any K or V: everything below the last layer that owns K and V
// feeds it; in that layer itself only the two projections do.
bool changes_kv(const LoraView & view, const Config & config) {
    const int cut = config.last_kv_layer();
    for (int il = 0; il <= cut; ++il) {
        for (int m = 0; m < kModuleCount; ++m) {
            const Module module = static_cast<Module>(m);
            const bool below = il < cut || module == Module::k || module == Module::v;
            if (below && !view.find(il, module).empty()) {
                return true;
            }
        }
    }
    return false;
}

// What the cached K and V depend on beside the tokens.
std::string kv_key(const std::vector<AppliedAdapter> & adapters, const Config & config) {
    std::string key;
    for (const AppliedAdapter & applied : adapters) {
        LoraView view;
        applied.adapter->add_to(view, applied.scale);
        if (changes_kv(view, config)) {
            key += applied.revision + "\n" + std::to_string(applied.scale) + "\n";
        }
    }
    return key;
}

}  // namespace

struct Session::Impl {
    Impl(const Model & m, const SessionOptions & o)
        : model(m), options(o), parts(m, o), logits(static_cast<size_t>(m.config().n_vocab)) {}

    // Forgets tokens from `length` on.
    void truncate(int length) {
        sequence.resize(static_cast<size_t>(length));
        n_past = length;
        parts.cells.truncate(length);
        has_logits = false;
    }

    // Computes sequence[n_past, n_past + n); on success they are past.
    Status evaluate_next(int n, Wanted wanted) {
        const Batch batch = {std::span<const int32_t>(sequence).subspan(static_cast<size_t>(n_past),
                                                                        static_cast<size_t>(n)),
                             n_past, wanted};
        has_logits = false;
        parts.cells.overwrite(n_past, n);
        LUMI_TRY(parts.evaluator.run(batch));
        parts.cells.confirm(n_past, n);
        n_past += n;
        counters.layer_evaluations += parts.evaluator.layer_evaluations(batch);
        if (wanted == Wanted::last) {
            parts.evaluator.read_logits(0, logits);
            has_logits = true;
        }
        return {};
    }

    Status check_tokens(std::span<const int32_t> tokens) const {
        if (tokens.empty()) {
            return Error{ErrorKind::invalid_argument, "the prompt has no tokens"};
        }
        if (tokens.size() > static_cast<size_t>(options.n_ctx)) {
            return Error{ErrorKind::invalid_argument,
                         "the prompt has " + std::to_string(tokens.size()) +
                             " tokens, the context holds " + std::to_string(options.n_ctx)};
        }
        for (const int32_t token : tokens) {
            LUMI_TRY(check_token(token));
        }
        return {};
    }

    Status check_token(int32_t token) const {
        if (token < 0 || token >= model.config().n_vocab) {
            return Error{ErrorKind::invalid_argument, "token " + std::to_string(token) +
                                                          " is not in the vocabulary of " +
                                                          std::to_string(model.config().n_vocab)};
        }
        return {};
    }

    const Model & model;
    SessionOptions options;
    SessionParts parts;
    std::vector<AppliedAdapter> adapters;
    LoraView loras;
    std::string cache_key;
    std::vector<int32_t> sequence;  // evaluated tokens, then those still pending
    int n_past = 0;
    bool has_logits = false;
    std::vector<float> logits;
    SessionCounters counters;
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(const Model & model,
                                                 const SessionOptions & options) {
    const SessionOptions effective = LUMI_TRY(effective_options(model, options));
    const MemoryPlan needed = LUMI_TRY(plan(model, options));
    LUMI_TRY(needed.enforce(model.device().free_bytes(), "a smaller n_ctx, n_batch or KV type"));
    auto impl = std::make_unique<Impl>(model, effective);
    LUMI_TRY(impl->parts.cache.allocate(model.device()));
    LUMI_TRY(impl->parts.evaluator.reserve(effective.n_batch, Wanted::last));
    return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Result<MemoryPlan> Session::plan(const Model & model, const SessionOptions & options) {
    const SessionOptions effective = LUMI_TRY(effective_options(model, options));
    SessionParts parts(model, effective);
    LUMI_TRY(parts.cache.pretend_allocated(model.device()));
    MemoryPlan plan;
    plan.add("KV cache, " + std::to_string(effective.n_ctx) + " tokens, " +
                 kv_type_name(effective.kv_type),
             parts.cache.bytes(model.device()));
    plan.add("compute buffer, batches of " + std::to_string(effective.n_batch),
             LUMI_TRY(parts.evaluator.measure(effective.n_batch, Wanted::last)));
    plan.add("logits", static_cast<uint64_t>(model.config().n_vocab) * sizeof(float));
    return plan;
}

const Model & Session::model() const {
    return impl_->model;
}
const SessionOptions & Session::options() const {
    return impl_->options;
}
bool Session::flash_in_use() const {
    return uses_flash(impl_->options);
}
const SessionCounters & Session::counters() const {
    return impl_->counters;
}

Status Session::set_adapters(std::vector<AppliedAdapter> adapters) {
    for (const AppliedAdapter & applied : adapters) {
        if (applied.adapter == nullptr) {
            return Error{ErrorKind::internal, "an applied adapter has no tensors"};
        }
        if (!std::isfinite(applied.scale)) {
            return Error{ErrorKind::invalid_argument, "the adapter's scale is not finite"};
        }
    }
    // At scale 0 an adapter is not there: the base answers, bit for bit.
    std::erase_if(adapters, [](const AppliedAdapter & a) { return a.scale == 0.0F; });
    const std::string key = kv_key(adapters, impl_->model.config());
    LoraView view;
    for (const AppliedAdapter & applied : adapters) {
        applied.adapter->add_to(view, applied.scale);
    }
    impl_->adapters = std::move(adapters);
    impl_->loras = std::move(view);
    impl_->parts.evaluator.set_loras(&impl_->loras, static_cast<int>(impl_->adapters.size()));
    if (key != impl_->cache_key) {
        impl_->truncate(0);
        impl_->cache_key = key;
    }
    return {};
}

Status Session::begin(std::span<const int32_t> tokens) {
    LUMI_TRY(impl_->check_tokens(tokens));
    const auto past =
        std::span<const int32_t>(impl_->sequence).first(static_cast<size_t>(impl_->n_past));
    const auto differs = std::mismatch(past.begin(), past.end(), tokens.begin(), tokens.end());
    // The last token is evaluated again when everything is cached: its logits are wanted.
    int kept = std::min(static_cast<int>(differs.first - past.begin()),
                        static_cast<int>(tokens.size()) - 1);
    if (!impl_->parts.cells.can_continue_at(kept)) {
        kept = 0;
    }
    impl_->truncate(kept);
    impl_->sequence.assign(tokens.begin(), tokens.end());
    impl_->counters.prompt_tokens_reused += static_cast<uint64_t>(kept);
    return {};
}

Result<bool> Session::prefill_step() {
    const int pending = static_cast<int>(impl_->sequence.size()) - impl_->n_past;
    if (pending > 0) {
        const int n = std::min(pending, impl_->options.n_batch);
        LUMI_TRY(impl_->evaluate_next(n, n == pending ? Wanted::last : Wanted::none));
        impl_->counters.prompt_tokens_evaluated += static_cast<uint64_t>(n);
        return n == pending;
    }
    if (!impl_->has_logits) {
        return Error{ErrorKind::internal, "prefill without a prompt: call begin first"};
    }
    return true;
}

Status Session::decode(int32_t token) {
    if (!impl_->has_logits) {
        return Error{ErrorKind::internal, "decode before the prompt is evaluated"};
    }
    LUMI_TRY(impl_->check_token(token));
    if (impl_->n_past >= impl_->options.n_ctx) {
        return Error{ErrorKind::invalid_argument,
                     "the context is full (" + std::to_string(impl_->options.n_ctx) + " tokens)"};
    }
    impl_->sequence.push_back(token);
    const Status status = impl_->evaluate_next(1, Wanted::last);
    if (!status.ok()) {
        impl_->sequence.pop_back();
        return status;
    }
    ++impl_->counters.tokens_decoded;
    return {};
}

std::span<const float> Session::logits() const {
    return impl_->has_logits ? std::span<const float>(impl_->logits) : std::span<const float>();
}

int Session::n_past() const {
    return impl_->n_past;
}

std::span<const int32_t> Session::tokens() const {
    return std::span<const int32_t>(impl_->sequence).first(static_cast<size_t>(impl_->n_past));
}

void Session::clear() {
    impl_->truncate(0);
    // A broken run may have left NaN in cells that a mask hides but a product still meets.
    impl_->parts.cache.zero();
}

int Session::evaluation_batch() const {
    return lumi::evaluation_batch(impl_->model, impl_->options);
}

Status Session::evaluate(
    std::span<const int32_t> tokens,
    const std::function<Status(int position, std::span<const float> logits)> & visit) {
    LUMI_TRY(impl_->check_tokens(tokens));
    const int n_batch = evaluation_batch();
    MemoryPlan needed;
    needed.add("compute buffer of an evaluation",
               LUMI_TRY(impl_->parts.evaluator.measure(n_batch, Wanted::all)));
    LUMI_TRY(needed.enforce(impl_->model.device().free_bytes(), "a smaller n_ctx or n_batch"));
    impl_->truncate(0);
    impl_->sequence.assign(tokens.begin(), tokens.end());
    const int n_tokens = static_cast<int>(tokens.size());
    while (impl_->n_past < n_tokens) {
        const int first = impl_->n_past;
        const int n = std::min(n_batch, n_tokens - first);
        const Status status = impl_->evaluate_next(n, Wanted::all);
        for (int i = 0; status.ok() && i < n; ++i) {
            impl_->parts.evaluator.read_logits(i, impl_->logits);
            const Status visited = visit(first + i, impl_->logits);
            if (!visited.ok()) {
                impl_->truncate(0);
                return visited;
            }
        }
        LUMI_TRY(status);
    }
    impl_->has_logits = true;
    return {};
}

}  // namespace lumi
