// Linear maps with and without LoRA pairs, with and without dropout of what a pair reads.
#include "unit/graph/gradient_check.h"

#include <memory>

namespace lumi::test {
namespace {

struct Pair {
    Numbers a;
    Numbers b;
    int64_t rank;
    double scale;
};

// y[o, t] = sum_i w[i, o] x[i, t] + sum over pairs of scale * sum_r b[r, o] sum_i a[i, r] x[i, t]
Numbers linear_loop(const Numbers & w, const Numbers & x, int64_t n_in, int64_t n_out,
                    const std::vector<Pair> & pairs) {
    const auto in = static_cast<size_t>(n_in);
    const auto out = static_cast<size_t>(n_out);
    const size_t n_tokens = x.size() / in;
    Numbers y(out * n_tokens);
    for (size_t t = 0; t < n_tokens; ++t) {
        for (size_t o = 0; o < out; ++o) {
            double sum = 0;
            for (size_t i = 0; i < in; ++i) {
                sum += w[o * in + i] * x[t * in + i];
            }
            for (const Pair & pair : pairs) {
                const auto rank = static_cast<size_t>(pair.rank);
                for (size_t r = 0; r < rank; ++r) {
                    double u = 0;
                    for (size_t i = 0; i < in; ++i) {
                        u += pair.a[r * in + i] * x[t * in + i];
                    }
                    sum += pair.scale * pair.b[o * rank + r] * u;
                }
            }
            y[t * out + o] = sum;
        }
    }
    return y;
}

GradientCase linear_case(const std::string & name, int64_t n_in, int64_t n_out, int64_t n_tokens,
                         Products products) {
    const int64_t ranks[] = {3, 2};
    const double scales[] = {0.75, -2.0};
    GradientCase c;
    c.name = name;
    c.products = products;
    c.leaves = {
        {"W", {n_in, n_out}, random_numbers(n_in * n_out, 1), false},
        {"x", {n_in, n_tokens}, random_numbers(n_in * n_tokens, 2)},
        {"A", {n_in, ranks[0]}, random_numbers(n_in * ranks[0], 3)},
        {"B", {ranks[0], n_out}, random_numbers(ranks[0] * n_out, 4)},
        // A frozen adapter: no gradient of its own, but its input has one.
        {"A2", {n_in, ranks[1]}, random_numbers(n_in * ranks[1], 5), false},
        {"B2", {ranks[1], n_out}, random_numbers(ranks[1] * n_out, 6), false},
    };
    c.build = [=](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        return linear(g, t[0], t[1],
                      {{t[2], t[3], static_cast<float>(scales[0])},
                       {t[4], t[5], static_cast<float>(scales[1])}});
    };
    c.reference = [=](const std::vector<Numbers> & v) {
        return linear_loop(v[0], v[1], n_in, n_out,
                           {{v[2], v[3], ranks[0], scales[0]}, {v[4], v[5], ranks[1], scales[1]}});
    };
    return c;
}

// Two pairs that learn and one frozen pair. The pairs that learn read x times factors of their own,
// stretches of one tensor; the frozen one reads x.
GradientCase dropout_case(const std::string & name, Products products) {
    constexpr int64_t kIn = 6;
    constexpr int64_t kOut = 5;
    constexpr int64_t kTokens = 4;
    Numbers factors(static_cast<size_t>(dropout_factors(2, kIn * kTokens)));
    std::vector<float> drawn(factors.size());
    fill_dropout(7, 0.4F, drawn);
    std::copy(drawn.begin(), drawn.end(), factors.begin());
    GradientCase c;
    c.name = name;
    c.products = products;
    c.leaves = {{"W", {kIn, kOut}, random_numbers(kIn * kOut, 61), false},
                {"x", {kIn, kTokens}, random_numbers(kIn * kTokens, 62)},
                {"A", {kIn, 2}, random_numbers(kIn * 2, 63)},
                {"B", {2, kOut}, random_numbers(kOut * 2, 64)},
                {"A2", {kIn, 3}, random_numbers(kIn * 3, 65)},
                {"B2", {3, kOut}, random_numbers(kOut * 3, 66)},
                {"Af", {kIn, 2}, random_numbers(kIn * 2, 67), false},
                {"Bf", {2, kOut}, random_numbers(kOut * 2, 68), false},
                {"factors", {static_cast<int64_t>(factors.size())}, factors, false}};
    const auto dropout = std::make_shared<LoraDropout>();  // the adjoint needs it after build
    c.build = [dropout](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        *dropout = {t[8], {{t[2], dropout_start(0)}, {t[4], dropout_start(1)}}};
        g.dropout = dropout.get();
        return linear(g, t[0], t[1],
                      {{t[2], t[3], 0.75F}, {t[4], t[5], -2.0F}, {t[6], t[7], 0.5F}});
    };
    c.reference = [](const std::vector<Numbers> & v) {
        const auto branch = [&](const Numbers & a, const Numbers & b, int64_t rank, double scale,
                                int64_t start) {
            Numbers x = v[1];
            for (size_t i = 0; i < x.size() && start >= 0; ++i) {
                x[i] *= v[8][static_cast<size_t>(start) + i];
            }
            return linear_loop(Numbers(kIn * kOut), x, kIn, kOut, {{a, b, rank, scale}});
        };
        Numbers y = linear_loop(v[0], v[1], kIn, kOut, {});
        for (const Numbers & part :
             {branch(v[2], v[3], 2, 0.75, dropout_start(0)),
              branch(v[4], v[5], 3, -2.0, dropout_start(1)), branch(v[6], v[7], 2, 0.5, -1)}) {
            for (size_t i = 0; i < y.size(); ++i) {
                y[i] += part[i];
            }
        }
        return y;
    };
    return c;
}

}  // namespace

std::vector<GradientCase> linear_cases() {
    std::vector<GradientCase> cases;
    GradientCase frozen;
    frozen.name = "linear, frozen";
    frozen.leaves = {{"W", {7, 5}, random_numbers(35, 1), false},
                     {"x", {7, 3}, random_numbers(21, 2)}};
    frozen.build = [](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        return linear(g, t[0], t[1], {});
    };
    frozen.reference = [](const std::vector<Numbers> & v) {
        return linear_loop(v[0], v[1], 7, 5, {});
    };
    cases.push_back(frozen);
    cases.push_back(linear_case("linear, two LoRA pairs", 9, 5, 7, Products::ggml));
    cases.push_back(linear_case("linear, one token", 33, 17, 1, Products::ggml));

    // Two maps of one input: its transpose is shared, its gradient is the sum.
    GradientCase shared;
    shared.name = "linear, shared input";
    shared.leaves = {{"W", {6, 6}, random_numbers(36, 7), false},
                     {"x", {6, 5}, random_numbers(30, 8)},
                     {"A", {6, 2}, random_numbers(12, 9)},
                     {"B", {2, 6}, random_numbers(12, 10)}};
    shared.build = [](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        ggml_tensor * plain = linear(g, t[0], t[1], {});
        return mul(g, plain, linear(g, t[0], t[1], {{t[2], t[3], 0.5F}}));
    };
    shared.reference = [](const std::vector<Numbers> & v) {
        Numbers y = linear_loop(v[0], v[1], 6, 6, {});
        const Numbers z = linear_loop(v[0], v[1], 6, 6, {{v[2], v[3], 2, 0.5}});
        for (size_t i = 0; i < y.size(); ++i) {
            y[i] *= z[i];
        }
        return y;
    };
    cases.push_back(shared);
    cases.push_back(dropout_case("linear, dropout", Products::ggml));
    return cases;
}

std::vector<GradientCase> panel_cases() {
    return {linear_case("linear, panels", 40, 24, 11, Products::panels),
            dropout_case("linear, dropout, panels", Products::panels)};
}

}  // namespace lumi::test
