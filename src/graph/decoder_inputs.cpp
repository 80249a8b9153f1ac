// The input tensors of a decoder graph and the count of layers a shape evaluates.
#include "graph/decoder.h"

namespace lumi {
namespace {

ggml_tensor * input(ggml_context * ctx, ggml_type type, int64_t ne0, int64_t ne1,
                    const char * name) {
    ggml_tensor * t = ggml_new_tensor_2d(ctx, type, ne0, ne1);
    ggml_set_name(t, name);
    ggml_set_input(t);
    return t;
}

// Which kinds of layers exist in [first, last).
bool any_layer(const Config & config, int first, int last, bool swa) {
    for (int il = first; il < last; ++il) {
        if (config.layers[static_cast<size_t>(il)].is_swa == swa) {
            return true;
        }
    }
    return false;
}

}  // namespace

GraphInputs make_inputs(ggml_context * ctx, const Config & config, const GraphShape & shape,
                        bool with_cache, bool flash) {
    GraphInputs in;
    const int64_t n_tokens = shape.n_tokens;
    const int64_t n_rows = shape.n_rows;
    const bool all_rows = n_rows == n_tokens;
    const int cut = config.last_kv_layer();
    const ggml_type mask_type = flash ? GGML_TYPE_F16 : GGML_TYPE_F32;

    in.embd = input(ctx, GGML_TYPE_F32, config.n_embd, n_tokens, "embd");
    in.pos = input(ctx, GGML_TYPE_I32, n_tokens, 1, "pos");
    if (config.n_ple > 0 && cut > 0) {
        in.ple_low = input(ctx, GGML_TYPE_F32, int64_t{config.n_ple} * cut, n_tokens, "ple_low");
    }
    if (config.n_ple > 0 && n_rows > 0) {
        in.ple_high = input(ctx, GGML_TYPE_F32, int64_t{config.n_ple} * (config.n_layer - cut),
                            n_rows, "ple_high");
    }
    if (all_rows) {
        in.pos_rows = in.pos;
    } else if (n_rows > 0) {
        in.rows = input(ctx, GGML_TYPE_I32, n_rows, 1, "rows");
        in.pos_rows = input(ctx, GGML_TYPE_I32, n_rows, 1, "pos_rows");
    }

    // Masks exist only where a layer reads them: an input without a reader has no memory to fill.
    // Layers below the cut see all tokens, the others the wanted rows.
    const auto masks = [&](bool swa, int n_kv, const char * name, ggml_tensor *& whole,
                           ggml_tensor *& rows) {
        const bool below = any_layer(config, 0, cut, swa);
        const bool above = n_rows > 0 && any_layer(config, cut, config.n_layer, swa);
        if (below || (above && all_rows)) {
            whole = input(ctx, mask_type, n_kv, n_tokens, name);
        }
        if (above) {
            rows = all_rows
                       ? whole
                       : input(ctx, mask_type, n_kv, n_rows, (std::string(name) + "_rows").c_str());
        }
    };
    masks(false, shape.n_kv_full, "mask_full", in.mask_full, in.mask_full_rows);
    masks(true, shape.n_kv_swa, "mask_swa", in.mask_swa, in.mask_swa_rows);

    if (with_cache) {
        const auto owns_kv = [&](bool swa) {
            for (const LayerConfig & layer : config.layers) {
                if (layer.has_kv && layer.is_swa == swa) {
                    return true;
                }
            }
            return false;
        };
        if (owns_kv(false)) {
            in.cells_full = input(ctx, GGML_TYPE_I64, n_tokens, 1, "cells_full");
        }
        if (owns_kv(true)) {
            in.cells_swa = input(ctx, GGML_TYPE_I64, n_tokens, 1, "cells_swa");
        }
    }
    return in;
}

uint64_t layer_evaluations(const Config & config, const GraphShape & shape) {
    const auto cut = static_cast<uint64_t>(config.last_kv_layer());
    const auto n_layer = static_cast<uint64_t>(config.n_layer);
    return cut * static_cast<uint64_t>(shape.n_tokens) +
           (n_layer - cut) * static_cast<uint64_t>(shape.n_rows);
}

}  // namespace lumi
