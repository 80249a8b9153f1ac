// RMS norm with and without weight, rotary embedding with and without factors.
#include "unit/graph/gradient_check.h"

#include <cmath>

namespace lumi::test {
namespace {

Numbers norm_loop(const Numbers & x, const Numbers & weight, size_t n, double eps) {
    Numbers y(x.size());
    for (size_t row = 0; row < x.size() / n; ++row) {
        double squares = 0;
        for (size_t i = 0; i < n; ++i) {
            squares += x[row * n + i] * x[row * n + i];
        }
        const double rho = std::sqrt(squares / static_cast<double>(n) + eps);
        for (size_t i = 0; i < n; ++i) {
            y[row * n + i] = x[row * n + i] / rho * (weight.empty() ? 1.0 : weight[i]);
        }
    }
    return y;
}

GradientCase norm_case(const std::string & name, std::vector<int64_t> ne, bool weighted, float eps,
                       double sd) {
    GradientCase c;
    c.name = name;
    c.leaves = {{"x", ne, random_numbers(count_of(ne), 11, sd)}};
    if (weighted) {
        c.leaves.push_back({"w", {ne[0]}, random_numbers(ne[0], 12), false});
    }
    c.step = 1e-4 * std::min(1.0, sd);
    c.build = [=](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        return rms_norm(g, t[0], weighted ? t[1] : nullptr, eps);
    };
    c.reference = [=](const std::vector<Numbers> & v) {
        return norm_loop(v[0], weighted ? v[1] : Numbers(), static_cast<size_t>(ne[0]),
                         static_cast<double>(eps));
    };
    return c;
}

struct Rotation {
    size_t n_rot;
    double base;
    double freq_scale;
};

// Pairs (i, i + n_rot/2) of each head turn by pos * base^(-2i/n_rot) * freq_scale / factor.
Numbers rope_loop(const Numbers & x, const Numbers & pos, const Numbers & factors, size_t head_dim,
                  size_t n_head, const Rotation & r) {
    Numbers y = x;
    for (size_t t = 0; t < pos.size(); ++t) {
        for (size_t h = 0; h < n_head; ++h) {
            const size_t start = (t * n_head + h) * head_dim;
            for (size_t i = 0; i < r.n_rot / 2; ++i) {
                const double exponent =
                    -2.0 * static_cast<double>(i) / static_cast<double>(r.n_rot);
                double angle = pos[t] * std::pow(r.base, exponent) * r.freq_scale;
                angle /= factors.empty() ? 1.0 : factors[i];
                const double a = x[start + i];
                const double b = x[start + i + r.n_rot / 2];
                y[start + i] = a * std::cos(angle) - b * std::sin(angle);
                y[start + i + r.n_rot / 2] = a * std::sin(angle) + b * std::cos(angle);
            }
        }
    }
    return y;
}

GradientCase rope_case(const std::string & name, int64_t head_dim, int64_t n_head,
                       const Numbers & pos, const Numbers & factors, const Rotation & r) {
    const auto n_tokens = static_cast<int64_t>(pos.size());
    GradientCase c;
    c.name = name;
    c.leaves = {
        {"x", {head_dim, n_head, n_tokens}, random_numbers(head_dim * n_head * n_tokens, 13)},
        {"pos", {n_tokens}, pos, false, GGML_TYPE_I32}};
    if (!factors.empty()) {
        c.leaves.push_back({"factors", {static_cast<int64_t>(factors.size())}, factors, false});
    }
    c.build = [=](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        return rope(g, t[0], t[1], factors.empty() ? nullptr : t[2], static_cast<int>(r.n_rot),
                    static_cast<float>(r.base), static_cast<float>(r.freq_scale));
    };
    c.reference = [=](const std::vector<Numbers> & v) {
        return rope_loop(v[0], pos, factors, static_cast<size_t>(head_dim),
                         static_cast<size_t>(n_head), r);
    };
    return c;
}

}  // namespace

std::vector<GradientCase> norm_and_rope_cases() {
    return {
        norm_case("rms_norm, weighted", {7, 3, 5}, true, 1e-6F, 1.0),
        norm_case("rms_norm, weightless", {33, 2, 3}, false, 1e-6F, 1.0),
        norm_case("rms_norm, eps counts", {9, 4}, true, 1e-2F, 0.1),
        norm_case("rms_norm, large input", {16, 3}, false, 1e-6F, 1e4),
        rope_case("rope", 8, 3, {0, 1, 2, 7, 30}, {}, {8, 1e4, 1.0}),
        rope_case("rope, factors", 16, 1, {3, 4, 100}, {1, 1, 2, 1e30, 1e30, 1e30, 1e30, 1e30},
                  {16, 1e6, 1.0}),
        rope_case("rope, part of the head, scaled", 12, 2, {5, 9}, {}, {8, 1e6, 0.125}),
    };
}

}  // namespace lumi::test
