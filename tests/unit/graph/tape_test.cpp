// No gradient is lost in silence: an operation without an adjoint, an input that a record does not
// name and an adjoint that forgets an input are all errors that name the tensor
// (cases/training.md L10, L11).
#include "unit/graph/gradient_check.h"

#include <gtest/gtest.h>

namespace lumi::test {
namespace {

class TapeAudit : public testing::Test {
  protected:
    TapeAudit() {
        g_.ctx = context_.get();
        g_.tape = &tape_;
    }

    ggml_tensor * leaf(const char * name) {
        ggml_tensor * t = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, 4, 3);
        ggml_set_name(t, name);
        return t;
    }
    std::string failure_of(ggml_tensor * out) {
        tape_.backward({{out, leaf("gradient")}});
        return tape_.failure();
    }
    static bool says(const std::string & text, const char * part) {
        return text.find(part) != std::string::npos;
    }

    GgmlContext context_{ggml_init({128 * ggml_tensor_overhead(), nullptr, true})};
    Tape tape_{context_.get()};
    GraphContext g_;
    ggml_tensor * x_ = leaf("x");
    ggml_tensor * y_ = leaf("y");
};

TEST_F(TapeAudit, OperationWithoutAdjointIsNamed) {
    tape_.watch(x_);
    ggml_tensor * bent = ggml_sqr(context_.get(), x_);  // no graph function: nothing recorded
    ggml_set_name(bent, "bent");
    const std::string failure = failure_of(add(g_, bent, y_));
    EXPECT_TRUE(says(failure, "ADD")) << failure;  // the sum was not recorded for want of inputs
    EXPECT_TRUE(says(failure, "has no adjoint")) << failure;
}

TEST_F(TapeAudit, OperationWithoutAdjointIsNamedThoughAnotherWayIsRecorded) {
    tape_.watch(x_);
    ggml_tensor * bent = ggml_sqr(context_.get(), x_);
    ggml_set_name(bent, "bent");
    const std::string failure = failure_of(add(g_, mul(g_, x_, x_), bent));
    EXPECT_TRUE(says(failure, "SQR 'bent'")) << failure;
}

TEST_F(TapeAudit, UnaryOperationIsNamedByItsFunction) {
    tape_.watch(x_);
    ggml_tensor * t = ggml_tanh(context_.get(), add(g_, x_, y_));
    const std::string failure = failure_of(t);
    EXPECT_TRUE(says(failure, "TANH")) << failure;
}

TEST_F(TapeAudit, ViewWithoutAdjointIsNamed) {
    tape_.watch(x_);
    ggml_tensor * sum = add(g_, x_, y_);
    ggml_tensor * part = ggml_view_1d(context_.get(), sum, 4, 16);
    tape_.backward({{part, ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, 4)}});
    EXPECT_TRUE(says(tape_.failure(), "VIEW")) << tape_.failure();
}

TEST_F(TapeAudit, InputThatTheRecordDoesNotNameIsNamed) {
    tape_.watch(x_);
    tape_.watch(y_);
    ggml_tensor * product = ggml_mul(context_.get(), x_, y_);
    tape_.record(product, {x_},
                 [&](ggml_tensor * dy) { tape_.add_grad(x_, ggml_mul(context_.get(), dy, y_)); });
    const std::string failure = failure_of(product);
    EXPECT_TRUE(says(failure, "its input 'y'")) << failure;
}

TEST_F(TapeAudit, AdjointThatForgetsAnInputIsNamed) {
    tape_.watch(x_);
    tape_.watch(y_);
    ggml_tensor * product = ggml_mul(context_.get(), x_, y_);
    tape_.record(product, {x_, y_},
                 [&](ggml_tensor * dy) { tape_.add_grad(y_, ggml_mul(context_.get(), dy, x_)); });
    const std::string failure = failure_of(product);
    EXPECT_TRUE(says(failure, "no gradient for its input") && says(failure, "'x'")) << failure;
}

TEST_F(TapeAudit, GradientOfAnotherShapeIsNamed) {
    tape_.watch(x_);
    ggml_tensor * row = ggml_sum_rows(context_.get(), x_);
    tape_.record(row, {x_}, [&](ggml_tensor * dy) { tape_.add_grad(x_, dy); });
    tape_.backward({{row, ggml_dup_tensor(context_.get(), row)}});
    EXPECT_TRUE(says(tape_.failure(), "another shape")) << tape_.failure();
}

TEST_F(TapeAudit, FrozenPartsNeedNoAdjoint) {
    tape_.watch(x_);
    ggml_tensor * frozen = ggml_sqr(context_.get(), y_);
    EXPECT_EQ(failure_of(mul(g_, add(g_, x_, frozen), frozen)), "");
    EXPECT_NE(tape_.grad(x_), nullptr);
}

}  // namespace
}  // namespace lumi::test
