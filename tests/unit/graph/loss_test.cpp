// The chunked loss and its gradient against a plain double loop: softcap, chunks that do not divide
// the rows, row weights, loss scale, labels of vanishing and of almost certain probability.
#include "unit/graph/gradient_check.h"

#include "graph/train_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

namespace lumi::test {
namespace {

struct LossCase {
    std::string name;
    int n_embd = 0, n_vocab = 0, rows = 0, chunk = 0;
    double softcap = 0;
    double logit_size = 1;  // how far logits spread
    double loss_scale = 1;
    bool unlearn = false;  // every other weight is negative
};

struct LossNumbers {
    Numbers head, x, weights;
    std::vector<int32_t> labels;
};

LossNumbers numbers_of(const LossCase & c) {
    LossNumbers n;
    n.head = random_numbers(c.n_embd * c.n_vocab, 51, c.logit_size / std::sqrt(c.n_embd));
    n.x = random_numbers(c.n_embd * c.rows, 52);
    for (int r = 0; r < c.rows; ++r) {
        n.labels.push_back((r * 7 + 3) % c.n_vocab);
        n.weights.push_back(r % 4 == 3 ? 0.0 : 1.0 + 0.5 * (r % 2));
        n.weights.back() *= c.unlearn && r % 2 == 0 ? -0.5 : 1.0;
    }
    return n;
}

struct LossValues {
    Numbers row_loss;
    Numbers dx;
    double sum = 0;
};

// What a loss counts as when it is to rise, and how much it still pushes: the integral of a slope
// that is 1 up to kUnlearnt - 1 and falls to 0 within 1.
std::pair<double, double> rising(double loss) {
    const double from = static_cast<double>(kUnlearnt) - 1;
    if (loss < from) {
        return {loss, 1.0};
    }
    const double past = std::min(loss - from, 1.0);
    return {from + past - past * past / 2, 1 - past};
}

LossValues loss_loop(const LossCase & c, const LossNumbers & n) {
    const auto embd = static_cast<size_t>(c.n_embd);
    const auto vocab = static_cast<size_t>(c.n_vocab);
    LossValues out;
    out.dx.resize(n.x.size());
    for (size_t r = 0; r < n.labels.size(); ++r) {
        Numbers z(vocab);
        Numbers slope(vocab, 1.0);
        double largest = -1e300;
        for (size_t v = 0; v < vocab; ++v) {
            for (size_t i = 0; i < embd; ++i) {
                z[v] += n.head[v * embd + i] * n.x[r * embd + i];
            }
            if (c.softcap > 0) {
                const double t = std::tanh(z[v] / c.softcap);
                z[v] = c.softcap * t;
                slope[v] = 1 - t * t;
            }
            largest = std::max(largest, z[v]);
        }
        double mass = 0;
        for (const double one : z) {
            mass += std::exp(one - largest);
        }
        const double log_sum = largest + std::log(mass);
        const auto label = static_cast<size_t>(n.labels[r]);
        out.row_loss.push_back(log_sum - z[label]);
        const auto [counted, push] =
            n.weights[r] < 0 ? rising(out.row_loss.back()) : std::pair(out.row_loss.back(), 1.0);
        out.sum += n.weights[r] * counted;
        EXPECT_NEAR(weighted_loss(n.weights[r], out.row_loss.back()), n.weights[r] * counted, 1e-9);
        for (size_t v = 0; v < vocab; ++v) {
            const double p = std::exp(z[v] - log_sum) - (v == label ? 1.0 : 0.0);
            const double d = p * slope[v] * n.weights[r] * push * c.loss_scale;
            for (size_t i = 0; i < embd; ++i) {
                out.dx[r * embd + i] += d * n.head[v * embd + i];
            }
        }
    }
    return out;
}

struct LossRun {
    std::vector<float> row_loss, dx;
    float sum = 0;
};

void set(ggml_tensor * t, const Numbers & numbers) {
    const std::vector<float> data(numbers.begin(), numbers.end());
    ggml_backend_tensor_set(t, data.data(), 0, data.size() * sizeof(float));
}

std::vector<float> get(const ggml_tensor * t) {
    std::vector<float> data(static_cast<size_t>(ggml_nelements(t)));
    ggml_backend_tensor_get(t, data.data(), 0, data.size() * sizeof(float));
    return data;
}

LossRun run(const LossCase & c, const LossNumbers & n, const Device & device,
            Products products = Products::ggml) {
    const GgmlContext leaves(ggml_init({16 * ggml_tensor_overhead(), nullptr, true}));
    const GgmlContext context(ggml_init({graph_context_bytes(512), nullptr, true}));
    const auto leaf = [&](ggml_type type, int64_t ne0, int64_t ne1) {
        return ggml_new_tensor_2d(leaves.get(), type, ne0, ne1);
    };
    ggml_tensor * head = leaf(GGML_TYPE_F32, c.n_embd, c.n_vocab);
    ggml_tensor * transposed = leaf(GGML_TYPE_F32, c.n_vocab, c.n_embd);
    ggml_tensor * x = leaf(GGML_TYPE_F32, c.n_embd, c.rows);
    const LossInputs inputs = {leaf(GGML_TYPE_I32, c.rows, 1), leaf(GGML_TYPE_F32, 1, c.rows),
                               leaf(GGML_TYPE_F32, 1, 1)};
    Config config;
    config.n_vocab = c.n_vocab;
    config.softcap = static_cast<float>(c.softcap);
    Weights weights;
    weights.output = head;
    const DecoderModel model = {&config, &weights, nullptr};
    GraphContext g;
    g.ctx = context.get();
    g.differentiable = true;
    g.products = products;
    g.transposed = [&](const ggml_tensor *) { return transposed; };
    ggml_cgraph * graph = ggml_new_graph_custom(context.get(), 512, false);
    const LossTensors loss = build_loss(g, graph, model, x, inputs, c.chunk, true);
    for (ggml_tensor * t : {loss.row_loss, loss.loss_sum, loss.dx}) {
        ggml_set_output(t);
    }
    for (int i = 0; products == Products::ggml && i < ggml_graph_n_nodes(graph); ++i) {
        std::string why;
        EXPECT_TRUE(in_allowed_set(ggml_graph_node(graph, i), why)) << why;
    }

    const GgmlBuffer buffer = std::move(device.allocate(leaves.get()).value());
    const GgmlAllocator allocator(ggml_gallocr_new(device.buffer_type()));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), graph));
    set(head, n.head);
    Numbers flipped(n.head.size());
    for (size_t v = 0; v < static_cast<size_t>(c.n_vocab); ++v) {
        for (size_t i = 0; i < static_cast<size_t>(c.n_embd); ++i) {
            flipped[i * static_cast<size_t>(c.n_vocab) + v] =
                n.head[v * static_cast<size_t>(c.n_embd) + i];
        }
    }
    set(transposed, flipped);
    set(x, n.x);
    set(inputs.weights, n.weights);
    set(inputs.loss_scale, {c.loss_scale});
    std::vector<int32_t> cells(n.labels.size());
    fill_label_cells(n.labels, c.n_vocab, c.chunk, cells);
    ggml_backend_tensor_set(inputs.label_cells, cells.data(), 0, cells.size() * sizeof(int32_t));
    EXPECT_TRUE(device.compute(graph).ok());
    return {get(loss.row_loss), get(loss.dx), get(loss.loss_sum)[0]};
}

double relative(const std::vector<float> & got, const Numbers & wanted) {
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
        difference += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        size += wanted[i] * wanted[i];
    }
    return std::sqrt(difference / size);
}

TEST(Loss, ValueAndGradientMatchDoubleLoop) {
    const Device device = cpu_device();
    const LossCase cases[] = {
        {"softcap, uneven chunks", 16, 37, 11, 4, 30, 40, 1},
        {"no softcap, one chunk", 16, 37, 11, 64, 0, 3, 1},
        {"scaled by 1024", 32, 19, 5, 2, 30, 5, 1024},
        // Logits of hundreds without a cap: exp of them overflows, p of most labels underflows.
        {"huge logits", 16, 50, 9, 4, 0, 400, 1},
        {"one row", 8, 19, 1, 128, 30, 5, 1},
        {"half of them unlearnt", 8, 50, 60, 16, 30, 3, 64, true},
    };
    for (const LossCase & c : cases) {
        const LossNumbers n = numbers_of(c);
        const LossValues wanted = loss_loop(c, n);
        for (const Products products : {Products::ggml, Products::panels}) {
            const LossRun got = run(c, n, device, products);
            const double value = relative(got.row_loss, wanted.row_loss);
            const double gradient = relative(got.dx, wanted.dx);
            std::printf("%-26s %s loss %8.1e  gradient %8.1e\n", c.name.c_str(),
                        products == Products::ggml ? "composed" : "on CPU  ", value, gradient);
            // The products themselves are split in BF16 parts where the CPU has AMX.
            EXPECT_LT(value, products == Products::ggml ? 1e-5 : 1e-4) << c.name;
            EXPECT_LT(gradient, products == Products::ggml ? 1e-4 : 1e-3) << c.name;
            EXPECT_NEAR(got.sum / wanted.sum, 1.0, 1e-4) << c.name;
        }
    }
}

// A learnt row: p of the label is 1 - 1e-5. What is left of the gradient must not be noise.
TEST(Loss, GradientOfALearntRowKeepsItsDirection) {
    const LossCase c = {"learnt", 4, 6, 1, 8, 0, 1, 1};
    LossNumbers n;
    n.labels = {2};
    n.weights = {1};
    n.x = {1, 0, 0, 0};
    n.head = Numbers(24);
    for (size_t v = 0; v < 6; ++v) {
        n.head[v * 4] = v == 2 ? 13.0 : 0.1 * static_cast<double>(v);
        n.head[v * 4 + 1 + v % 3] = 1.0;
    }
    const LossValues wanted = loss_loop(c, n);
    ASSERT_LT(wanted.row_loss[0], 3e-5);
    for (const Products products : {Products::ggml, Products::panels}) {
        const LossRun got = run(c, n, cpu_device(), products);
        EXPECT_LT(relative(got.dx, wanted.dx), 1e-2);
    }
}

// The case above has rows of negative weight before, in and behind the bend of the curve.
TEST(Loss, UnlearningStopsAtItsBound) {
    const LossCase c = {"bend", 8, 50, 60, 16, 30, 3, 1, true};
    const LossNumbers n = numbers_of(c);
    const LossValues wanted = loss_loop(c, n);
    int rows[3] = {};
    for (size_t r = 0; r < n.labels.size(); ++r) {
        const double l = wanted.row_loss[r];
        rows[l < 5 ? 0 : l < 6 ? 1 : 2] += n.weights[r] < 0 ? 1 : 0;
    }
    EXPECT_GT(rows[0], 0);
    EXPECT_GT(rows[1], 0);
    EXPECT_GT(rows[2], 0);
    EXPECT_EQ(weighted_loss(-1.0, 1e6), weighted_loss(-1.0, 6.0));
    EXPECT_EQ(weighted_loss(2.0, 1e6), 2e6);
}

TEST(Loss, LabelCellsStartAnewInEveryChunk) {
    const std::vector<int32_t> tokens = {5, 0, 9, 3, 7};
    std::vector<int32_t> cells(5);
    fill_label_cells(tokens, 10, 2, cells);
    EXPECT_EQ(cells, (std::vector<int32_t>{5, 10, 9, 13, 7}));
}

}  // namespace
}  // namespace lumi::test
