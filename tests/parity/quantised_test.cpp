// A quantised base learns like its dequantised F32 self: gradients agree.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace lumi::test {
namespace {

// A tiny model whose matrices are quantised, and one with exactly the numbers those stand for.
struct Twin {
    TinyModel tiny;
    GgmlContext context;
    GgmlBuffer buffer;
    Weights quantised;
    Weights dequantised;
};

Floats numbers_of(const ggml_tensor * t) {
    Floats data(static_cast<size_t>(ggml_nelements(t)));
    ggml_backend_tensor_get(t, data.data(), 0, data.size() * sizeof(float));
    return data;
}

Twin make_twin(const std::string & name, ggml_type type) {
    Twin twin{load_tiny(name), {}, {}, {}, {}};
    twin.context.reset(ggml_init({1024 * ggml_tensor_overhead(), nullptr, true}));
    twin.quantised = twin.tiny.weights;
    twin.dequantised = twin.tiny.weights;
    struct Job {
        ggml_tensor * from;
        ggml_tensor * blocks;
        ggml_tensor * plain;
    };
    std::vector<Job> jobs;
    const auto add = [&](ggml_tensor * from, ggml_tensor *& blocks, ggml_tensor *& plain) {
        if (from == nullptr || from->ne[0] % ggml_blck_size(type) != 0) {
            return;
        }
        blocks = ggml_new_tensor_2d(twin.context.get(), type, from->ne[0], from->ne[1]);
        plain = ggml_new_tensor_2d(twin.context.get(), GGML_TYPE_F32, from->ne[0], from->ne[1]);
        jobs.push_back({from, blocks, plain});
    };
    for (size_t il = 0; il < twin.quantised.layers.size(); ++il) {
        for (size_t m = 0; m < kModuleCount; ++m) {
            add(twin.tiny.weights.layers[il].linear[m], twin.quantised.layers[il].linear[m],
                twin.dequantised.layers[il].linear[m]);
        }
    }
    add(twin.tiny.weights.output, twin.quantised.output, twin.dequantised.output);
    add(twin.tiny.weights.ple_proj, twin.quantised.ple_proj, twin.dequantised.ple_proj);
    twin.buffer = std::move(twin.tiny.model->device().allocate(twin.context.get()).value());
    for (const Job & job : jobs) {
        const Floats values = numbers_of(job.from);
        std::vector<uint8_t> blocks(ggml_nbytes(job.blocks));
        ggml_quantize_chunk(type, values.data(), blocks.data(), 0, job.from->ne[1], job.from->ne[0],
                            nullptr);
        ggml_backend_tensor_set(job.blocks, blocks.data(), 0, blocks.size());
        Floats plain(values.size());
        ggml_get_type_traits(type)->to_float(blocks.data(), plain.data(),
                                             static_cast<int64_t>(plain.size()));
        ggml_backend_tensor_set(job.plain, plain.data(), 0, plain.size() * sizeof(float));
    }
    return twin;
}

double worst_difference(const RunResult & a, const RunResult & b) {
    double worst = 0;
    for (const auto & [name, gradient] : a.gradients) {
        worst = std::max(worst, relative_l2(gradient, b.gradients.at(name)));
    }
    return worst;
}

TEST(QuantisedBase, GradientsEqualThoseOfTheDequantisedBase) {
    for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_F16, GGML_TYPE_BF16}) {
        Twin twin = make_twin("tiny-gemma4", type);
        const Reference reference = load_reference("tiny-gemma4");
        TinyAdapter adapter = make_adapter(reference, twin.tiny.model->device());
        const auto run = [&](const Weights & weights, Products products) {
            twin.tiny.weights = weights;
            RunOptions options;
            options.products = products;
            return run_training(twin.tiny, reference, adapter, options);
        };
        const RunResult exact = run(twin.dequantised, Products::ggml);
        const double panels = worst_difference(run(twin.quantised, Products::panels), exact);
        const double portable = worst_difference(run(twin.quantised, Products::ggml), exact);
        std::printf("%-5s worst gradient difference: panels %.1e, portable %.1e\n",
                    ggml_type_name(type), panels, portable);
        EXPECT_LT(panels, 1e-2) << ggml_type_name(type);
    }
}

}  // namespace
}  // namespace lumi::test
