// See gradient_check.h.
#include "unit/graph/gradient_check.h"

#include "base/rng.h"
#include "graph/train_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>

namespace lumi::test {
namespace {

struct Run {
    std::vector<float> value;
    std::vector<std::vector<float>> gradients;  // by leaf; empty where not watched
};

std::vector<float> read(const ggml_tensor * t) {
    std::vector<float> data(static_cast<size_t>(ggml_nelements(t)));
    ggml_backend_tensor_get(t, data.data(), 0, data.size() * sizeof(float));
    return data;
}

void write(ggml_tensor * t, const Numbers & values) {
    if (t->type == GGML_TYPE_I32) {
        const std::vector<int32_t> data(values.begin(), values.end());
        ggml_backend_tensor_set(t, data.data(), 0, data.size() * sizeof(int32_t));
        return;
    }
    const std::vector<float> data(values.begin(), values.end());
    ggml_backend_tensor_set(t, data.data(), 0, data.size() * sizeof(float));
}

ggml_tensor * make_leaf(ggml_context * ctx, const Leaf & leaf) {
    ggml_tensor * t =
        ggml_new_tensor(ctx, leaf.type, static_cast<int>(leaf.ne.size()), leaf.ne.data());
    ggml_set_name(t, leaf.name.c_str());
    return t;
}

// [in, out] transposed copies of 2-D leaves, as the training graph gets them for frozen weights.
std::map<const ggml_tensor *, std::pair<ggml_tensor *, Numbers>>
transposed_leaves(ggml_context * ctx, const GradientCase & c,
                  const std::vector<ggml_tensor *> & leaves) {
    std::map<const ggml_tensor *, std::pair<ggml_tensor *, Numbers>> copies;
    for (size_t i = 0; i < leaves.size(); ++i) {
        const Leaf & leaf = c.leaves[i];
        if (leaf.ne.size() != 2 || leaf.type != GGML_TYPE_F32 || leaf.watched) {
            continue;
        }
        Numbers values(leaf.values.size());
        const auto n0 = static_cast<size_t>(leaf.ne[0]);
        const auto n1 = static_cast<size_t>(leaf.ne[1]);
        for (size_t r = 0; r < n1; ++r) {
            for (size_t k = 0; k < n0; ++k) {
                values[k * n1 + r] = leaf.values[r * n0 + k];
            }
        }
        ggml_tensor * t = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, leaf.ne[1], leaf.ne[0]);
        copies[leaves[i]] = {t, values};
    }
    return copies;
}

Run run(const GradientCase & c, const Device & device, const Numbers & seed) {
    constexpr size_t kNodes = 2048;
    const GgmlContext leaf_context(ggml_init({64 * ggml_tensor_overhead(), nullptr, true}));
    const GgmlContext context(ggml_init({graph_context_bytes(kNodes), nullptr, true}));
    std::vector<ggml_tensor *> leaves;
    for (const Leaf & leaf : c.leaves) {
        leaves.push_back(make_leaf(leaf_context.get(), leaf));
    }
    auto copies = transposed_leaves(leaf_context.get(), c, leaves);

    Tape tape(context.get());
    GraphContext g;
    g.ctx = context.get();
    g.tape = &tape;
    g.differentiable = true;
    g.products = c.products;
    g.transposed = [&](const ggml_tensor * weight) { return copies.at(weight).first; };
    for (size_t i = 0; i < leaves.size(); ++i) {
        if (c.leaves[i].watched) {
            tape.watch(leaves[i]);
        }
    }
    ggml_tensor * out = c.build(g, leaves);
    ggml_tensor * d_out = ggml_dup_tensor(leaf_context.get(), out);
    ggml_cgraph * graph = ggml_new_graph_custom(context.get(), kNodes, false);
    tape.backward({{out, d_out}});
    EXPECT_EQ(tape.failure(), "") << c.name;

    ggml_set_output(out);
    ggml_build_forward_expand(graph, out);
    std::vector<ggml_tensor *> gradients;
    for (size_t i = 0; i < leaves.size(); ++i) {
        ggml_tensor * gradient = c.leaves[i].watched ? tape.grad(leaves[i]) : nullptr;
        EXPECT_EQ(gradient != nullptr, c.leaves[i].watched) << c.name << " " << c.leaves[i].name;
        if (gradient != nullptr) {
            ggml_set_output(gradient);
            ggml_build_forward_expand(graph, gradient);
        }
        gradients.push_back(gradient);
    }
    for (int i = 0; c.products == Products::ggml && i < ggml_graph_n_nodes(graph); ++i) {
        std::string why;
        EXPECT_TRUE(in_allowed_set(ggml_graph_node(graph, i), why)) << c.name << ": " << why;
    }

    const GgmlBuffer leaf_buffer = std::move(device.allocate(leaf_context.get()).value());
    const GgmlAllocator allocator(ggml_gallocr_new(device.buffer_type()));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), graph));
    for (size_t i = 0; i < leaves.size(); ++i) {
        write(leaves[i], c.leaves[i].values);
    }
    for (auto & [weight, copy] : copies) {
        write(copy.first, copy.second);
    }
    write(d_out, seed);
    const Status fits = device.preflight(graph);
    EXPECT_TRUE(fits.ok()) << (fits.ok() ? "" : fits.error().message);
    EXPECT_TRUE(device.compute(graph).ok());

    Run result;
    result.value = read(out);
    for (const ggml_tensor * gradient : gradients) {
        result.gradients.push_back(gradient == nullptr ? std::vector<float>() : read(gradient));
    }
    return result;
}

// Relative L2. Below 1e-9 a true value of zero counts as met.
double relative_error(const std::vector<float> & got, const Numbers & wanted) {
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
        difference += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        size += wanted[i] * wanted[i];
    }
    return std::sqrt(difference) / std::max(std::sqrt(size), 1e-6);
}

// The worst single element, relative to its size or to 1e-3.
double worst_element(const std::vector<float> & got, const Numbers & wanted) {
    double worst = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
        worst = std::max(worst, std::abs(got[i] - wanted[i]) / (std::abs(wanted[i]) + 1e-3));
    }
    return worst;
}

// d(sum of seed * f)/d(leaf) by central differences.
Numbers numeric_gradient(const GradientCase & c, std::vector<Numbers> leaves, size_t which,
                         const Numbers & seed) {
    Numbers & x = leaves[which];
    Numbers gradient(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
        const double kept = x[i];
        const double h = c.step * std::max(1.0, std::abs(kept));
        x[i] = kept + h;
        const Numbers above = c.reference(leaves);
        x[i] = kept - h;
        const Numbers below = c.reference(leaves);
        x[i] = kept;
        for (size_t k = 0; k < seed.size(); ++k) {
            gradient[i] += seed[k] * (above[k] - below[k]) / (2 * h);
        }
    }
    return gradient;
}

}  // namespace

Numbers random_numbers(int64_t count, uint64_t seed, double sd) {
    Rng rng(seed);
    Numbers numbers(static_cast<size_t>(count));
    for (double & x : numbers) {
        x = static_cast<double>(static_cast<float>(rng.normal() * sd));
    }
    return numbers;
}

int64_t count_of(const std::vector<int64_t> & ne) {
    int64_t count = 1;
    for (const int64_t n : ne) {
        count *= n;
    }
    return count;
}

void check_gradients(const GradientCase & c, const Device & device, double tolerance) {
    std::vector<Numbers> values;
    for (const Leaf & leaf : c.leaves) {
        values.push_back(leaf.values);
    }
    const Numbers wanted = c.reference(values);
    const Numbers seed = random_numbers(static_cast<int64_t>(wanted.size()), 99);
    const Run got = run(c, device, seed);
    ASSERT_EQ(got.value.size(), wanted.size()) << c.name;
    for (const float x : got.value) {
        ASSERT_TRUE(std::isfinite(x)) << c.name;
    }
    const auto error_of = c.by_element ? worst_element : relative_error;
    const double value_error = error_of(got.value, wanted);
    EXPECT_LT(value_error, tolerance) << c.name << ": value";
    std::printf("%-34s value %8.1e", c.name.c_str(), value_error);
    for (size_t i = 0; i < c.leaves.size(); ++i) {
        if (!c.leaves[i].watched) {
            continue;
        }
        for (const float x : got.gradients[i]) {
            ASSERT_TRUE(std::isfinite(x)) << c.name << ": gradient of " << c.leaves[i].name;
        }
        const double error = error_of(got.gradients[i], numeric_gradient(c, values, i, seed));
        EXPECT_LT(error, tolerance) << c.name << ": gradient of " << c.leaves[i].name;
        std::printf("  d%s %8.1e", c.leaves[i].name.c_str(), error);
    }
    std::printf("\n");
}

Device cpu_device() {
    Result<Device> device = Device::open("cpu", 1);
    EXPECT_TRUE(device.ok()) << device.error().message;
    return std::move(device).value();
}

}  // namespace lumi::test
