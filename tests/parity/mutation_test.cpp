// A damaged model must not pass for the real one: each mutation has to push logits or gradients out
// of the tolerance that the parity tests hold. Otherwise those tests would prove nothing.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace lumi::test {
namespace {

constexpr double kTolerance = 1e-3;

// The worst gradient error of the damaged model.
double gradient_error(const TinyModel & tiny, const Reference & reference,
                      const RunOptions & options) {
    TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    const RunResult run = run_training(tiny, reference, adapter, options);
    double worst = 0;
    for (const auto & [name, gradient] : run.gradients) {
        worst = std::max(worst, relative_l2(gradient, reference.tensors.at("grad." + name)));
    }
    return worst;
}

struct Mutation {
    const char * name;
    const char * model;
    std::function<void(TinyModel &, RunOptions &)> damage;
};

void for_each_layer(TinyModel & tiny, const std::function<void(LayerConfig &)> & change) {
    std::for_each(tiny.config.layers.begin(), tiny.config.layers.end(), change);
}

std::vector<Mutation> mutations() {
    const char * g4 = "tiny-gemma4";
    const char * g3 = "tiny-gemma3";
    const char * q3 = "tiny-qwen3";
    return {
        {"nothing (control)", g4, [](TinyModel &, RunOptions &) {}},
        {"K/V source of sliding layers shifted", g4,
         [](TinyModel & t, RunOptions &) {
             for_each_layer(t, [](LayerConfig & l) {
                 if (!l.has_kv && l.is_swa) {
                     --l.kv_source;
                     l.kv_source -= l.kv_source == 2 ? 1 : 0;  // stay with sliding layers
                 }
             });
         }},
        {"K/V source of global layers shifted", g4,
         [](TinyModel & t, RunOptions &) {
             for_each_layer(t, [](LayerConfig & l) {
                 if (!l.has_kv && !l.is_swa) {
                     l.kv_source = 2;
                 }
             });
         }},
        {"rope factors dropped", g4,
         [](TinyModel & t, RunOptions &) {
             for_each_layer(t, [](LayerConfig & l) { l.rope_factors = false; });
         }},
        {"window one wider", g4,
         [](TinyModel & t, RunOptions & o) { o.window = t.config.window + 1; }},
        {"window one narrower", g3,
         [](TinyModel & t, RunOptions & o) { o.window = t.config.window - 1; }},
        {"rope base of sliding layers", g3,
         [](TinyModel & t, RunOptions &) {
             for_each_layer(t, [](LayerConfig & l) { l.rope_base *= l.is_swa ? 2.0F : 1.0F; });
         }},
        {"V norm dropped", g4, [](TinyModel & t, RunOptions &) { t.config.v_norm = false; }},
        {"V norm added", g3, [](TinyModel & t, RunOptions &) { t.config.v_norm = true; }},
        {"softcap dropped", g4, [](TinyModel & t, RunOptions &) { t.config.softcap = 0; }},
        {"attention scale", g3,
         [](TinyModel & t, RunOptions &) { t.config.attention_scale *= 1.1F; }},
        {"embedding scale", g4,
         [](TinyModel & t, RunOptions &) { t.config.embedding_scale *= 1.01F; }},
        {"silu for gelu", g4,
         [](TinyModel & t, RunOptions &) { t.config.activation = Activation::silu; }},
        {"layer scale dropped", g4,
         [](TinyModel & t, RunOptions &) { t.weights.layers[5].output_scale = nullptr; }},
        {"post norm dropped", g3,
         [](TinyModel & t, RunOptions &) { t.weights.layers[2].post_ffn_norm = nullptr; }},
        {"q norm dropped", g4,
         [](TinyModel & t, RunOptions &) { t.weights.layers[6].q_norm = nullptr; }},
        {"PLE norm swapped", g4,
         [](TinyModel & t, RunOptions &) {
             t.weights.layers[1].ple_post_norm = t.weights.layers[1].post_ffn_norm;
         }},
        {"nothing (control)", q3, [](TinyModel &, RunOptions &) {}},
        {"gelu for silu", q3,
         [](TinyModel & t, RunOptions &) { t.config.activation = Activation::gelu_tanh; }},
        {"embedding scaled", q3,
         [](TinyModel & t, RunOptions &) {
             t.config.embedding_scale = std::sqrt(static_cast<float>(t.config.n_embd));
         }},
        {"post norm added", q3,
         [](TinyModel & t, RunOptions &) {
             t.weights.layers[4].post_attn_norm = t.weights.layers[4].attn_norm;
         }},
        {"K norm dropped", q3,
         [](TinyModel & t, RunOptions &) { t.weights.layers[3].k_norm = nullptr; }},
        {"rope base", q3,
         [](TinyModel & t, RunOptions &) {
             for_each_layer(t, [](LayerConfig & l) { l.rope_base = 1e4F; });
         }},
        {"head tied to the embedding", q3,
         [](TinyModel & t, RunOptions &) { t.weights.output = t.weights.token_embd; }},
    };
}

TEST(Mutation, EveryDamageIsNoticed) {
    for (const Mutation & mutation : mutations()) {
        TinyModel tiny = load_tiny(mutation.model);
        const Reference reference = load_reference(mutation.model);
        RunOptions options;
        mutation.damage(tiny, options);
        const double error = gradient_error(tiny, reference, options);
        std::printf("%-12s %-40s gradient error %.1e\n", mutation.model, mutation.name, error);
        if (std::string(mutation.name) == "nothing (control)") {
            EXPECT_LT(error, kTolerance);
        } else {
            EXPECT_GT(error, 10 * kTolerance) << mutation.name;
        }
    }
}

// The kinds of gradient bugs public trainers had: an adapter of a K/V source layer that does not
// hear from its consumers.
TEST(Mutation, ConsumersOfASourceLayerContributeToItsGradient) {
    TinyModel tiny = load_tiny("tiny-gemma4");
    const Reference reference = load_reference("tiny-gemma4");
    for_each_layer(tiny, [](LayerConfig & l) {
        if (!l.has_kv && l.is_swa) {
            l.kv_source = 1;  // layer 3 loses its consumers
        }
    });
    TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    const RunResult run = run_training(tiny, reference, adapter, {});
    for (const char * name : {"blk.3.attn_k.weight.lora_b", "blk.3.attn_v.weight.lora_a"}) {
        EXPECT_GT(
            relative_l2(run.gradients.at(name), reference.tensors.at(std::string("grad.") + name)),
            0.05)
            << name;
    }
}

}  // namespace
}  // namespace lumi::test
