#include "session/session_setup.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace lumi {
namespace {

constexpr int kMaxContextTokens = 1 << 24;
constexpr uint64_t kEvaluationLogitsBytes = 64ULL << 20;

Status check_range(const char * field, int value, int high) {
    if (value < 1 || value > high) {
        return Error{ErrorKind::invalid_argument, std::string(field) + " is " +
                                                      std::to_string(value) + ", allowed is 1 to " +
                                                      std::to_string(high)};
    }
    return {};
}

// Asks the device about one attention operation of every head size in the model, at the shape of
// prompts and of single tokens (cases/inference.md M7: capability first, never an abort).
bool device_has_flash(const Model & model, ggml_type kv_type, std::string & why_not) {
    std::set<std::tuple<int, int, int>> seen;
    for (const LayerConfig & layer : model.config().layers) {
        if (!seen.emplace(layer.head_dim, layer.n_head, layer.n_head_kv).second) {
            continue;
        }
        for (const int n_tokens : {1, 64}) {
            const GgmlContext ctx(ggml_init({ggml_tensor_overhead() * 16, nullptr, true}));
            const auto heads = [&](ggml_type type, int n_head, int n) {
                return ggml_permute(ctx.get(),
                                    ggml_new_tensor_3d(ctx.get(), type, layer.head_dim, n_head, n),
                                    0, 2, 1, 3);
            };
            ggml_tensor * op = ggml_flash_attn_ext(
                ctx.get(), heads(GGML_TYPE_F32, layer.n_head, n_tokens),
                heads(kv_type, layer.n_head_kv, kCellStep),
                heads(kv_type, layer.n_head_kv, kCellStep),
                ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F16, kCellStep, n_tokens), 1.0F, 0.0F,
                0.0F);
            ggml_prec_set_acc(op, GGML_PREC_F32);
            if (!model.device().supports(op)) {
                why_not = "device " + model.device().name() +
                          " has no flash attention for heads of " + std::to_string(layer.head_dim) +
                          " with a " + ggml_type_name(kv_type) + " cache";
                return false;
            }
        }
    }
    return true;
}

Status check_q8_rows(const Config & config) {
    for (const LayerConfig & layer : config.layers) {
        if (layer.head_dim % ggml_blck_size(GGML_TYPE_Q8_0) != 0) {
            return Error{ErrorKind::unsupported,
                         "a q8_0 cache needs head sizes that are multiples of 32, this model has " +
                             std::to_string(layer.head_dim)};
        }
    }
    return {};
}

}  // namespace

ggml_type kv_ggml_type(KvType type) {
    switch (type) {
    case KvType::f32:
        return GGML_TYPE_F32;
    case KvType::q8_0:
        return GGML_TYPE_Q8_0;
    case KvType::f16:
        break;
    }
    return GGML_TYPE_F16;
}

std::string kv_type_name(KvType type) {
    return ggml_type_name(kv_ggml_type(type));
}

bool uses_flash(const SessionOptions & options) {
    return options.flash == FlashMode::on;
}

Result<SessionOptions> effective_options(const Model & model, SessionOptions options) {
    LUMI_TRY(check_range("n_ctx", options.n_ctx, kMaxContextTokens));
    LUMI_TRY(check_range("n_batch", options.n_batch, kMaxContextTokens));
    if (model.config().n_ctx_train > 0) {
        options.n_ctx = std::min(options.n_ctx, model.config().n_ctx_train);
    }
    options.n_batch = std::min(options.n_batch, options.n_ctx);
    if (options.exact && options.flash == FlashMode::on) {
        return Error{ErrorKind::invalid_argument,
                     "exact means plain attention: it cannot be combined with flash on"};
    }
    const ggml_type type = kv_ggml_type(options.kv_type);
    std::string why_not;
    const bool can_flash = device_has_flash(model, type, why_not);
    if (options.flash == FlashMode::on && !can_flash) {
        return Error{ErrorKind::unsupported, why_not + "; use flash auto or off"};
    }
    if (options.exact || !can_flash) {
        options.flash = FlashMode::off;
    } else if (options.flash == FlashMode::automatic) {
        options.flash = FlashMode::on;
    }
    if (options.kv_type == KvType::q8_0) {
        LUMI_TRY(check_q8_rows(model.config()));
        if (options.flash == FlashMode::off) {
            return Error{ErrorKind::unsupported,
                         "a q8_0 cache works with flash attention only, which is off here" +
                             (why_not.empty() ? std::string() : " (" + why_not + ")") +
                             "; use f16 or f32"};
        }
    }
    return options;
}

SessionParts::SessionParts(const Model & model, const SessionOptions & options)
    : cells(model.config(), options.n_ctx, options.n_batch),
      cache(model.config(), cells, kv_ggml_type(options.kv_type)),
      evaluator(model, cells, cache, {uses_flash(options), options.exact}) {}

int evaluation_batch(const Model & model, const SessionOptions & options) {
    const uint64_t row_bytes = static_cast<uint64_t>(model.config().n_vocab) * sizeof(float);
    const uint64_t rows = std::max<uint64_t>(8, kEvaluationLogitsBytes / row_bytes);
    return static_cast<int>(std::min<uint64_t>(rows, static_cast<uint64_t>(options.n_batch)));
}

}  // namespace lumi
