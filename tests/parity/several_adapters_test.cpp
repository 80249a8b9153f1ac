// Training beside a frozen adapter: it takes part in the forward and in the gradient of what lies
// below, and gets none itself. The reference is the same training on a base into which the frozen
// adapter was merged.
#include "parity/tiny_model.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <cstdio>

namespace lumi::test {
namespace {

// A second adapter with numbers of its own, of another rank and scale, on every weight that the
// reference's adapter touches.
struct Frozen {
    static constexpr int kRank = 3;
    static constexpr float kScale = 1.5F;
    struct Pair {
        int layer = 0;
        Module module = Module::q;
        LoraTensors lora;
        Floats a;
        Floats b;
    };
    GgmlContext context;
    GgmlBuffer buffer;
    std::vector<Pair> pairs;
};

Frozen make_frozen(const TinyAdapter & like, const Device & device) {
    Frozen frozen;
    frozen.context.reset(ggml_init({1024 * ggml_tensor_overhead(), nullptr, true}));
    Rng rng(5);
    const auto numbers = [&](int64_t n) {
        Floats values(static_cast<size_t>(n));
        for (float & x : values) {
            x = static_cast<float>(0.1 * rng.normal());
        }
        return values;
    };
    ggml_context * ctx = frozen.context.get();
    for (const TrainablePair & pair : like.pairs) {
        const int64_t n_in = pair.lora.a->ne[0];
        const int64_t n_out = pair.lora.b->ne[1];
        frozen.pairs.push_back(
            {pair.layer,
             pair.module,
             {ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_in, Frozen::kRank),
              ggml_new_tensor_2d(ctx, GGML_TYPE_F32, Frozen::kRank, n_out), Frozen::kScale},
             numbers(n_in * Frozen::kRank),
             numbers(n_out * Frozen::kRank)});
    }
    frozen.buffer = std::move(device.allocate(ctx).value());
    for (const Frozen::Pair & pair : frozen.pairs) {
        ggml_backend_tensor_set(pair.lora.a, pair.a.data(), 0, ggml_nbytes(pair.lora.a));
        ggml_backend_tensor_set(pair.lora.b, pair.b.data(), 0, ggml_nbytes(pair.lora.b));
    }
    return frozen;
}

// The model's weights with the frozen adapter added to them.
struct Merged {
    GgmlContext context;
    GgmlBuffer buffer;
    Weights weights;
};

Merged merge(const TinyModel & tiny, const Frozen & frozen) {
    Merged merged;
    merged.context.reset(ggml_init({1024 * ggml_tensor_overhead(), nullptr, true}));
    merged.weights = tiny.weights;
    std::vector<std::pair<ggml_tensor *, Floats>> values;
    for (const Frozen::Pair & pair : frozen.pairs) {
        ggml_tensor *& slot = merged.weights.layers[static_cast<size_t>(pair.layer)]
                                  .linear[static_cast<size_t>(pair.module)];
        const auto n_in = static_cast<size_t>(slot->ne[0]);
        Floats sum(static_cast<size_t>(ggml_nelements(slot)));
        ggml_backend_tensor_get(slot, sum.data(), 0, ggml_nbytes(slot));
        for (size_t o = 0; o < sum.size() / n_in; ++o) {
            for (size_t i = 0; i < n_in; ++i) {
                double update = 0;
                for (size_t r = 0; r < Frozen::kRank; ++r) {
                    update += static_cast<double>(pair.b[o * Frozen::kRank + r]) *
                              static_cast<double>(pair.a[r * n_in + i]);
                }
                sum[o * n_in + i] += static_cast<float>(Frozen::kScale * update);
            }
        }
        slot = ggml_dup_tensor(merged.context.get(), slot);
        values.emplace_back(slot, std::move(sum));
    }
    merged.buffer = std::move(tiny.model->device().allocate(merged.context.get()).value());
    for (const auto & [tensor, data] : values) {
        ggml_backend_tensor_set(tensor, data.data(), 0, ggml_nbytes(tensor));
    }
    return merged;
}

double worst_difference(const RunResult & a, const RunResult & b) {
    double worst = 0;
    for (const auto & [name, gradient] : a.gradients) {
        worst = std::max(worst, relative_l2(gradient, b.gradients.at(name)));
    }
    return worst;
}

class SeveralAdapters : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Tiny, SeveralAdapters,
                         testing::Values("tiny-gemma4", "tiny-gemma4-kv", "tiny-gemma3",
                                         "tiny-qwen3"),
                         [](const auto & test) {
                             std::string name = test.param + 5;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST_P(SeveralAdapters, FrozenOneBesideEqualsFrozenOneMerged) {
    TinyModel tiny = load_tiny(GetParam());
    const Weights base = tiny.weights;
    const Reference reference = load_reference(GetParam());
    TinyAdapter alone = make_adapter(reference, tiny.model->device());
    TinyAdapter beside = make_adapter(reference, tiny.model->device());
    const Frozen frozen = make_frozen(alone, tiny.model->device());
    for (size_t i = 0; i < frozen.pairs.size(); ++i) {  // cases/training.md L42
        const auto & a = reference.tensors.at(ggml_get_name(alone.pairs[i].lora.a));
        ASSERT_FALSE(std::equal(a.begin(), a.begin() + 8, frozen.pairs[i].a.begin()));
        beside.view.add(frozen.pairs[i].layer, frozen.pairs[i].module, frozen.pairs[i].lora);
    }
    const Merged merged = merge(tiny, frozen);
    for (const Products products : {Products::ggml, Products::panels}) {
        for (const bool recompute : {true, false}) {
            RunOptions options;
            options.products = products;
            options.recompute = recompute;
            tiny.weights = base;
            const RunResult without = run_training(tiny, reference, alone, options);
            const RunResult with = run_training(tiny, reference, beside, options);
            tiny.weights = merged.weights;
            const RunResult wanted = run_training(tiny, reference, alone, options);
            const double worst = worst_difference(with, wanted);
            std::printf("%s frozen adapter, %s recompute %d: loss %.6f (%.6f merged, %.6f without "
                        "it), worst gradient %.1e\n",
                        GetParam(), products == Products::panels ? "panels" : "portable",
                        recompute ? 1 : 0, static_cast<double>(with.loss_sum),
                        static_cast<double>(wanted.loss_sum), static_cast<double>(without.loss_sum),
                        worst);
            EXPECT_EQ(with.gradients.size(), alone.pairs.size() * 2);
            // Each is up to 1e-5 from float64; panels on AMX tiles up to 3e-5.
            EXPECT_LT(worst, products == Products::panels ? 1e-4 : 2e-5);
            EXPECT_NEAR(with.loss_sum / wanted.loss_sum, 1.0, 1e-5);
            EXPECT_GT(worst_difference(without, wanted), 0.1);
        }
    }
}

}  // namespace
}  // namespace lumi::test
