// The table of what all backends run (graph/allowed_ops.cpp) refuses what one of them would not, as
// read in ggml 0.25's support functions and kernels; a table that lets everything through proves
// nothing about the graphs it accepts.
#include "graph/train_graph.h"

#include <gtest/gtest.h>

#include <functional>

namespace lumi {
namespace {

class AllowedOps : public testing::Test {
  protected:
    ggml_tensor * matrix(int64_t ne0, int64_t ne1, ggml_type type = GGML_TYPE_F32) {
        return ggml_new_tensor_2d(ctx(), type, ne0, ne1);
    }
    // The first half of every row: rows are contiguous, the matrix is not.
    ggml_tensor * gaps(int64_t ne0, int64_t ne1) {
        ggml_tensor * whole = matrix(2 * ne0, ne1);
        return ggml_view_2d(ctx(), whole, ne0, ne1, whole->nb[1], 0);
    }
    ggml_context * ctx() { return context_.get(); }
    static std::string objection(const ggml_tensor * node) {
        std::string why;
        return in_allowed_set(node, why) ? "" : why;
    }
    GgmlContext context_{ggml_init({256 * ggml_tensor_overhead(), nullptr, true})};
};

TEST_F(AllowedOps, ContiguousF32PassesEverywhere) {
    ggml_tensor * x = matrix(64, 4);
    ggml_tensor * index = matrix(4, 1, GGML_TYPE_I32);
    const std::vector<ggml_tensor *> nodes = {ggml_mul_mat(ctx(), matrix(64, 8), x),
                                              ggml_add(ctx(), x, x),
                                              ggml_sub(ctx(), x, x),
                                              ggml_mul(ctx(), x, x),
                                              ggml_div(ctx(), x, x),
                                              ggml_sqr(ctx(), x),
                                              ggml_sqrt(ctx(), x),
                                              ggml_log(ctx(), x),
                                              ggml_scale(ctx(), x, 2),
                                              ggml_clamp(ctx(), x, 0, 1),
                                              ggml_fill(ctx(), x, 0),
                                              ggml_sum_rows(ctx(), x),
                                              ggml_sum(ctx(), x),
                                              ggml_soft_max(ctx(), x),
                                              ggml_rms_norm(ctx(), x, 1e-6F),
                                              ggml_sigmoid(ctx(), x),
                                              ggml_tanh(ctx(), x),
                                              ggml_exp(ctx(), x),
                                              ggml_get_rows(ctx(), x, index),
                                              ggml_set_rows(ctx(), matrix(64, 9), x, index),
                                              ggml_concat(ctx(), x, x, 1),
                                              ggml_cont(ctx(), ggml_transpose(ctx(), x)),
                                              ggml_add_inplace(ctx(), x, x)};
    for (const ggml_tensor * node : nodes) {
        EXPECT_EQ(objection(node), "");
    }
}

// CUDA's kernels for these walk memory from the start to the end (of FILL and SOFT_MAX ggml itself
// asks as much).
TEST_F(AllowedOps, ElementwiseFunctionsNeedContiguousInput) {
    ggml_tensor * x = gaps(32, 4);
    for (ggml_tensor * node :
         {ggml_sqr(ctx(), x), ggml_sqrt(ctx(), x), ggml_log(ctx(), x), ggml_scale(ctx(), x, 2),
          ggml_clamp(ctx(), x, 0, 1), ggml_sigmoid(ctx(), x), ggml_sum(ctx(), x)}) {
        EXPECT_NE(objection(node), "") << ggml_op_desc(node);
    }
    for (ggml_tensor * node :
         {ggml_add(ctx(), x, x), ggml_sum_rows(ctx(), x), ggml_rms_norm(ctx(), x, 1e-6F)}) {
        EXPECT_EQ(objection(node), "");
    }
}

TEST_F(AllowedOps, ProductsNeedPlainOperandsAtBindableOffsets) {
    ggml_tensor * x = matrix(64, 4);
    const auto shifted = [&](size_t floats) {
        return ggml_view_2d(ctx(), matrix(64, 9), 64, 4, 64 * sizeof(float),
                            floats * sizeof(float));
    };
    EXPECT_EQ(objection(ggml_mul_mat(ctx(), shifted(64), x)), "");
    EXPECT_NE(objection(ggml_mul_mat(ctx(), shifted(16), x)), "");
    EXPECT_NE(objection(ggml_mul_mat(ctx(), x, shifted(16))), "");
    EXPECT_NE(objection(ggml_mul_mat(ctx(), matrix(256, 4, GGML_TYPE_TQ1_0), matrix(256, 4))), "");
    EXPECT_NE(objection(ggml_mul_mat(ctx(), x, matrix(64, 4, GGML_TYPE_F16))), "");
    ggml_tensor * broadcast = ggml_new_tensor_3d(ctx(), GGML_TYPE_F32, 64, 4, 2);
    EXPECT_NE(objection(ggml_mul_mat(ctx(), x, broadcast)), "");
}

TEST_F(AllowedOps, OperationsThatSomeBackendLacksAreNamed) {
    ggml_tensor * x = matrix(64, 64);
    const std::vector<std::pair<ggml_tensor *, const char *>> nodes = {
        {ggml_out_prod(ctx(), x, x), "OUT_PROD"},
        {ggml_repeat_back(ctx(), x, matrix(64, 1)), "REPEAT_BACK"},
        {ggml_soft_max_ext_back(ctx(), x, x, 1, 0), "SOFT_MAX_BACK"},
        {ggml_rms_norm_back(ctx(), x, x, 1e-6F), "RMS_NORM_BACK"},
        {ggml_diag_mask_inf(ctx(), x, 0), "DIAG_MASK_INF"},
        {ggml_relu(ctx(), x), "RELU"}};
    for (const auto & [node, name] : nodes) {
        EXPECT_EQ(objection(node).rfind(name, 0), 0U) << objection(node);
    }
}

}  // namespace
}  // namespace lumi
