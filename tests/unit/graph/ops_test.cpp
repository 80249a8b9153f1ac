// Gradients of every graph operation on the CPU: value and adjoint against plain double loops.
#include "unit/graph/gradient_check.h"

#include <gtest/gtest.h>

namespace lumi::test {
namespace {

void check_all(const std::vector<GradientCase> & cases) {
    const Device device = cpu_device();
    for (const GradientCase & c : cases) {
        check_gradients(c, device);
    }
}

TEST(Gradient, LinearAndLoraMatchCentralDifferences) {
    check_all(linear_cases());
}
TEST(Gradient, PanelsMatchCentralDifferences) {
    check_all(panel_cases());
}
TEST(Gradient, NormAndRopeMatchCentralDifferences) {
    check_all(norm_and_rope_cases());
}
TEST(Gradient, AttentionMatchesCentralDifferences) {
    check_all(attention_cases());
}
TEST(Gradient, ActivationsMatchCentralDifferencesAndStayFinite) {
    check_all(activation_cases());
}
TEST(Gradient, BasicOperationsMatchCentralDifferences) {
    check_all(basic_cases());
}

TEST(Gradient, MissingTransposedWeightIsAnErrorWithItsName) {
    const GgmlContext ctx(ggml_init({32 * ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor * weight = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, 4, 3);
    ggml_set_name(weight, "blk.0.ffn_up.weight");
    ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, 4, 2);
    Tape tape(ctx.get());
    tape.watch(x);
    GraphContext g;
    g.ctx = ctx.get();
    g.tape = &tape;
    ggml_tensor * y = linear(g, weight, x, {});
    tape.backward({{y, ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, 3, 2)}});
    EXPECT_NE(tape.failure().find("blk.0.ffn_up.weight"), std::string::npos) << tape.failure();
}

TEST(Gradient, NothingIsRecordedForFrozenInputs) {
    const GgmlContext ctx(ggml_init({32 * ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor * a = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_F32, 4);
    ggml_tensor * b = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_F32, 4);
    Tape tape(ctx.get());
    GraphContext g;
    g.ctx = ctx.get();
    g.tape = &tape;
    ggml_tensor * y = add(g, a, b);
    EXPECT_FALSE(tape.wants(y));
    tape.backward({{y, b}});
    EXPECT_EQ(tape.grad(a), nullptr);
}

}  // namespace
}  // namespace lumi::test
