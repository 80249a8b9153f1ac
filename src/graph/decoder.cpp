// The decoder of Gemma 4, Gemma 3 and Qwen3: stem, layers, head. Differences between models are
// facts of Config and null weights, never a second builder. K/V go through a KvStore when serving
// and stay in the graph when training; everything else is the same code.
#include "graph/decoder.h"

#include <cmath>

namespace lumi {
namespace {

// Everything one layer's pieces share.
struct Layer {
    GraphContext & g;
    const DecoderModel & model;
    const GraphInputs & inputs;
    int il;
    const LayerConfig & config;
    const LayerWeights & weights;

    ggml_tensor * norm(ggml_tensor * x, ggml_tensor * weight) const {
        return rms_norm(g, x, weight, model.config->eps);
    }
    // A norm that some models do not have.
    ggml_tensor * optional_norm(ggml_tensor * x, ggml_tensor * weight) const {
        return weight == nullptr ? x : norm(x, weight);
    }
    ggml_tensor * map(Module module, ggml_tensor * x) const {
        static const std::vector<LoraTensors> kNone;
        return linear(g, weights[module], x,
                      model.loras == nullptr ? kNone : model.loras->find(il, module));
    }
    ggml_tensor * rotate(ggml_tensor * x, ggml_tensor * pos) const {
        return rope(g, x, pos, config.rope_factors ? model.weights->rope_freqs : nullptr,
                    config.n_rot, config.rope_base, config.rope_scale);
    }
    ggml_tensor * mask(bool rows_only) const {
        if (rows_only) {
            return config.is_swa ? inputs.mask_swa_rows : inputs.mask_full_rows;
        }
        return config.is_swa ? inputs.mask_swa : inputs.mask_full;
    }
};

// K and V of every token. x [n_embd, T] normed -> [head_dim, n_head_kv, T] each. V without a
// projection of its own is the raw K projection, before K's norm and rotation.
KeyValue key_value(const Layer & layer, ggml_tensor * x) {
    const LayerConfig & c = layer.config;
    GraphContext & g = layer.g;
    ggml_tensor * k = reshape(g, layer.map(Module::k, x), {c.head_dim, c.n_head_kv, x->ne[1]});
    ggml_tensor * v =
        c.v_is_k ? k : reshape(g, layer.map(Module::v, x), {c.head_dim, c.n_head_kv, x->ne[1]});
    k = layer.rotate(layer.optional_norm(k, layer.weights.k_norm), layer.inputs.pos);
    if (layer.model.config->v_norm) {
        v = layer.norm(v, nullptr);
    }
    return {k, v};
}

// x [n_embd, R] normed -> the attention block's output [n_embd, R].
ggml_tensor * attend(const Layer & layer, ggml_tensor * x, const KeyValue & kv, bool rows_only) {
    const LayerConfig & c = layer.config;
    GraphContext & g = layer.g;
    ggml_tensor * q = reshape(g, layer.map(Module::q, x), {c.head_dim, c.n_head, x->ne[1]});
    q = layer.rotate(layer.optional_norm(q, layer.weights.q_norm),
                     rows_only ? layer.inputs.pos_rows : layer.inputs.pos);
    ggml_tensor * a = attention(g, q, kv.k, kv.v, layer.mask(rows_only),
                                layer.model.config->attention_scale);  // [n_q, R]
    return layer.optional_norm(layer.map(Module::o, a), layer.weights.post_attn_norm);
}

ggml_tensor * feed_forward(const Layer & layer, ggml_tensor * hidden) {
    ggml_tensor * x = layer.norm(hidden, layer.weights.ffn_norm);
    ggml_tensor * gate = layer.map(Module::gate, x);
    ggml_tensor * up = layer.map(Module::up, x);
    ggml_tensor * y = gated(layer.g, gate, up, layer.model.config->activation);  // [n_ff, R]
    return layer.optional_norm(layer.map(Module::down, y), layer.weights.post_ffn_norm);
}

// The per-layer embedding's branch; its input is the stream itself, not normed.
ggml_tensor * ple_branch(const Layer & layer, ggml_tensor * hidden, ggml_tensor * ple) {
    ggml_tensor * gate = layer.map(Module::ple_gate, hidden);  // [n_ple, R]
    gate = activate(layer.g, gate, layer.model.config->activation);
    ggml_tensor * y = layer.map(Module::ple_proj, mul(layer.g, gate, ple));
    return layer.optional_norm(y, layer.weights.ple_post_norm);
}

// PLE inputs of layers [first, first + count), [n_ple, n, count] contiguous. rows F32
// [n_ple*count, n] from the table, hidden the scaled embedding of the same tokens.
ggml_tensor * ple_inputs(GraphContext & g, const DecoderModel & model, ggml_tensor * rows,
                         ggml_tensor * hidden, int first, int count) {
    const Config & c = *model.config;
    const int64_t n_ple = c.n_ple;
    const int64_t n = hidden->ne[1];
    ggml_tensor * weight = model.weights->ple_proj;
    ggml_tensor * part = ggml_view_2d(g.ctx, weight, weight->ne[0], n_ple * count, weight->nb[1],
                                      static_cast<size_t>(n_ple * first) * weight->nb[1]);
    ggml_tensor * proj = frozen_product(g, part, hidden);
    proj = ggml_scale(g.ctx, proj, 1.0F / std::sqrt(static_cast<float>(c.n_embd)));
    proj = ggml_reshape_3d(g.ctx, proj, n_ple, count, n);
    proj = rms_norm(g, proj, model.weights->ple_norm, c.eps);
    ggml_tensor * token = ggml_reshape_3d(g.ctx, rows, n_ple, count, n);
    token = ggml_scale(g.ctx, token, std::sqrt(static_cast<float>(n_ple)));
    ggml_tensor * sum = ggml_scale(g.ctx, ggml_add(g.ctx, proj, token), 1.0F / std::sqrt(2.0F));
    return ggml_cont(g.ctx, ggml_permute(g.ctx, sum, 0, 2, 1, 3));
}

void append_slices(GraphContext & g, ggml_tensor * ple, std::vector<ggml_tensor *> & slices) {
    for (int64_t i = 0; i < ple->ne[2]; ++i) {
        slices.push_back(ggml_view_2d(g.ctx, ple, ple->ne[0], ple->ne[1], ple->nb[1],
                                      static_cast<size_t>(i) * ple->nb[2]));
    }
}

}  // namespace

StemResult build_stem(GraphContext & g, const DecoderModel & model, const GraphInputs & inputs) {
    const Config & c = *model.config;
    const int cut = c.last_kv_layer();
    StemResult stem;
    stem.hidden = ggml_scale(g.ctx, inputs.embd, c.embedding_scale);  // [n_embd, T]
    if (inputs.ple_low != nullptr) {
        append_slices(g, ple_inputs(g, model, inputs.ple_low, stem.hidden, 0, cut), stem.ple);
    }
    if (inputs.ple_high != nullptr) {
        ggml_tensor * wanted =
            inputs.rows == nullptr ? stem.hidden : ggml_get_rows(g.ctx, stem.hidden, inputs.rows);
        append_slices(g, ple_inputs(g, model, inputs.ple_high, wanted, cut, c.n_layer - cut),
                      stem.ple);
    }
    return stem;
}

LayerResult build_layer(GraphContext & g, ggml_cgraph * graph, const DecoderModel & model,
                        const GraphInputs & inputs, int il, ggml_tensor * hidden, ggml_tensor * ple,
                        KeyValue source, KvStore * store) {
    const int cut = model.config->last_kv_layer();
    const Layer layer = {g,
                         model,
                         inputs,
                         il,
                         model.config->layers[static_cast<size_t>(il)],
                         model.weights->layers[static_cast<size_t>(il)]};
    LayerResult result;
    ggml_tensor * x = layer.norm(hidden, layer.weights.attn_norm);
    KeyValue kv = source;
    if (layer.config.has_kv) {
        result.own = key_value(layer, x);
        kv = store == nullptr ? result.own
                              : store->append(g, graph, il, inputs, result.own.k, result.own.v);
    } else if (store != nullptr) {
        kv = store->read(g, layer.config.kv_source);
    }
    // The cut: from here on only rows whose logits somebody wants (design: skip what cannot
    // matter).
    const bool rows_only = il >= cut;
    if (il == cut && inputs.pos_rows == nullptr) {
        return result;
    }
    if (il == cut && inputs.rows != nullptr) {
        x = select_rows(g, x, inputs.rows);
        hidden = select_rows(g, hidden, inputs.rows);
    }
    hidden = add(g, hidden, attend(layer, x, kv, rows_only));
    hidden = add(g, hidden, feed_forward(layer, hidden));
    if (ple != nullptr) {
        hidden = add(g, hidden, ple_branch(layer, hidden, ple));
    }
    if (layer.weights.output_scale != nullptr) {
        hidden = mul_scalar(g, hidden, layer.weights.output_scale);
    }
    result.hidden = hidden;
    return result;
}

ggml_tensor * build_head(GraphContext & g, const DecoderModel & model, ggml_tensor * hidden) {
    const Config & c = *model.config;
    ggml_tensor * x = rms_norm(g, hidden, model.weights->output_norm, c.eps);
    ggml_tensor * logits = frozen_product(g, model.weights->output, x);  // [n_vocab, R]
    return c.softcap > 0.0F ? softcap(g, logits, c.softcap) : logits;
}

ggml_tensor * build_inference_graph(GraphContext & g, ggml_cgraph * graph,
                                    const DecoderModel & model, const GraphInputs & inputs,
                                    KvStore & store) {
    const StemResult stem = build_stem(g, model, inputs);
    ggml_tensor * hidden = stem.hidden;
    for (int il = 0; il < model.config->n_layer; ++il) {
        const auto index = static_cast<size_t>(il);
        ggml_tensor * ple = index < stem.ple.size() ? stem.ple[index] : nullptr;
        const LayerResult layer = build_layer(g, graph, model, inputs, il, hidden, ple, {}, &store);
        if (layer.hidden == nullptr) {
            return nullptr;
        }
        hidden = layer.hidden;
        ggml_build_forward_expand(graph, hidden);
    }
    ggml_tensor * logits = build_head(g, model, hidden);
    ggml_set_name(logits, "logits");
    ggml_set_output(logits);
    ggml_build_forward_expand(graph, logits);
    return logits;
}

}  // namespace lumi
