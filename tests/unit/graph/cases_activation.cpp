// GELU and SiLU alone and gated, at ordinary and at huge inputs; the softcap.
#include "unit/graph/gradient_check.h"

#include <cmath>

namespace lumi::test {
namespace {

double act(double x, Activation activation) {
    if (activation == Activation::silu) {
        return x >= 0 ? x / (1 + std::exp(-x)) : x * std::exp(x) / (1 + std::exp(x));
    }
    const double k = std::sqrt(2.0 / std::acos(-1.0));
    return 0.5 * x * (1 + std::tanh(k * (x + 0.044715 * x * x * x)));
}

// From far below to far above, with the bends, the clamp's edges and both zeros.
Numbers wide_inputs() {
    return {-1e4, -300, -12,  -10.5, -10, -9.5, -5,  -3, -1.5, -0.75, -0.1, -1e-3, 0,
            1e-3, 0.1,  0.75, 1.5,   3,   5,    9.5, 10, 10.5, 12,    300,  1e4};
}

GradientCase activate_case(const std::string & name, Activation activation) {
    GradientCase c;
    c.name = name;
    c.by_element = true;
    c.leaves = {{"x", {5, 5}, wide_inputs()}};
    c.build = [=](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        return activate(g, t[0], activation);
    };
    c.reference = [=](const std::vector<Numbers> & v) {
        Numbers y = v[0];
        for (double & x : y) {
            x = act(x, activation);
        }
        return y;
    };
    return c;
}

GradientCase gated_case(const std::string & name, Activation activation) {
    GradientCase c;
    c.name = name;
    c.leaves = {{"gate", {5, 5}, random_numbers(25, 31, 3.0)},
                {"up", {5, 5}, random_numbers(25, 32)}};
    c.build = [=](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        return gated(g, t[0], t[1], activation);
    };
    c.reference = [=](const std::vector<Numbers> & v) {
        Numbers y = v[1];
        for (size_t i = 0; i < y.size(); ++i) {
            y[i] *= act(v[0][i], activation);
        }
        return y;
    };
    return c;
}

GradientCase softcap_case(const std::string & name, double sd) {
    GradientCase c;
    c.name = name;
    c.leaves = {{"x", {7, 3}, random_numbers(21, 33, sd)}};
    c.build = [](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        return softcap(g, t[0], 30.0F);
    };
    c.reference = [](const std::vector<Numbers> & v) {
        Numbers y = v[0];
        for (double & x : y) {
            x = 30 * std::tanh(x / 30);
        }
        return y;
    };
    return c;
}

}  // namespace

std::vector<GradientCase> activation_cases() {
    return {activate_case("gelu, up to 1e4", Activation::gelu_tanh),
            activate_case("silu, up to 1e4", Activation::silu),
            gated_case("gated gelu", Activation::gelu_tanh),
            gated_case("gated silu", Activation::silu),
            softcap_case("softcap, at the bend", 30.0),
            softcap_case("softcap, small", 0.1)};
}

}  // namespace lumi::test
