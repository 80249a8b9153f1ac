// Dense products against double loops, for narrow and odd shapes and several thread counts.
#include "base/rng.h"
#include "device/dense_product.h"
#include "device/device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lumi {
namespace {

struct Shape {
    int64_t k;
    int64_t m;
    int64_t n_tokens;
    int n_threads;
};

class DenseProduct : public testing::TestWithParam<Shape> {
  protected:
    void SetUp() override {
        const Shape s = GetParam();
        Result<Device> device = Device::open("cpu", s.n_threads);
        ASSERT_TRUE(device.ok()) << device.error().message;
        device_ = std::make_unique<Device>(std::move(device).value());
        ctx_.reset(ggml_init({ggml_tensor_overhead() * 16 + ggml_graph_overhead(), nullptr, true}));
        a_ = ggml_new_tensor_2d(ctx_.get(), GGML_TYPE_F32, s.k, s.m);
        x_ = ggml_new_tensor_2d(ctx_.get(), GGML_TYPE_F32, s.k, s.n_tokens);
        y_ = ggml_new_tensor_2d(ctx_.get(), GGML_TYPE_F32, s.m, s.n_tokens);
    }

    // Fills the operands, computes result and returns its numbers.
    std::vector<float> compute(ggml_tensor * result) {
        ggml_cgraph * graph = ggml_new_graph(ctx_.get());
        ggml_build_forward_expand(graph, result);
        const Result<GgmlBuffer> buffer = device_->allocate(ctx_.get());
        EXPECT_TRUE(buffer.ok());
        Rng rng(21);
        for (ggml_tensor * t : {a_, x_, y_}) {
            std::vector<float> & values = values_[t];
            values.resize(static_cast<size_t>(ggml_nelements(t)));
            for (float & v : values) {
                v = static_cast<float>(rng.normal());
            }
            ggml_backend_tensor_set(t, values.data(), 0, ggml_nbytes(t));
        }
        EXPECT_TRUE(device_->compute(graph).ok());
        std::vector<float> out(static_cast<size_t>(ggml_nelements(result)));
        ggml_backend_tensor_get(result, out.data(), 0, ggml_nbytes(result));
        return out;
    }

    double at(ggml_tensor * t, int64_t i, int64_t j) {
        return static_cast<double>(values_[t][static_cast<size_t>(j * t->ne[0] + i)]);
    }

    // The value at (i, j) of a result is the sum of n terms.
    template <typename Term>
    void expect(const std::vector<float> & out, int64_t ne0, int64_t ne1, int64_t n, Term term) {
        for (int64_t j = 0; j < ne1; ++j) {
            for (int64_t i = 0; i < ne0; ++i) {
                double sum = 0.0;
                double size = 0.0;
                for (int64_t l = 0; l < n; ++l) {
                    sum += term(i, j, l);
                    size += std::abs(term(i, j, l));
                }
                ASSERT_NEAR(out[static_cast<size_t>(j * ne0 + i)], sum, 1e-6 * size + 1e-6)
                    << i << ", " << j;
            }
        }
    }

    std::unique_ptr<Device> device_;
    GgmlContext ctx_;
    ggml_tensor * a_ = nullptr;
    ggml_tensor * x_ = nullptr;
    ggml_tensor * y_ = nullptr;
    std::map<ggml_tensor *, std::vector<float>> values_;
};

TEST_P(DenseProduct, OfAMatrix) {
    const Shape s = GetParam();
    expect(compute(dense_product(ctx_.get(), a_, x_)), s.m, s.n_tokens, s.k,
           [&](int64_t i, int64_t t, int64_t l) { return at(a_, l, i) * at(x_, l, t); });
}

TEST_P(DenseProduct, OfItsTranspose) {
    const Shape s = GetParam();
    expect(compute(dense_product_transposed(ctx_.get(), a_, y_)), s.k, s.n_tokens, s.m,
           [&](int64_t i, int64_t t, int64_t l) { return at(a_, i, l) * at(y_, l, t); });
}

TEST_P(DenseProduct, AddedInPlace) {
    const Shape s = GetParam();
    expect(compute(add_dense_product(ctx_.get(), y_, a_, x_)), s.m, s.n_tokens, s.k + 1,
           [&](int64_t i, int64_t t, int64_t l) {
               return l == s.k ? at(y_, i, t) : at(a_, l, i) * at(x_, l, t);
           });
}

TEST_P(DenseProduct, OfItsTransposeAddedInPlace) {
    const Shape s = GetParam();
    expect(compute(add_dense_product_transposed(ctx_.get(), x_, a_, y_)), s.k, s.n_tokens, s.m + 1,
           [&](int64_t i, int64_t t, int64_t l) {
               return l == s.m ? at(x_, i, t) : at(a_, i, l) * at(y_, l, t);
           });
}

TEST_P(DenseProduct, OuterOverTokens) {
    const Shape s = GetParam();
    expect(compute(outer_product(ctx_.get(), x_, y_)), s.k, s.m, s.n_tokens,
           [&](int64_t i, int64_t j, int64_t t) { return at(x_, i, t) * at(y_, j, t); });
}

INSTANTIATE_TEST_SUITE_P(Shapes, DenseProduct,
                         testing::Values(Shape{64, 8, 24, 1}, Shape{8, 200, 24, 2},
                                         Shape{37, 5, 3, 4}, Shape{1, 1, 1, 2},
                                         Shape{300, 16, 130, 3}),
                         [](const auto & test) {
                             const Shape s = test.param;
                             return std::to_string(s.k) + "x" + std::to_string(s.m) + "_T" +
                                    std::to_string(s.n_tokens) + "_threads" +
                                    std::to_string(s.n_threads);
                         });

}  // namespace
}  // namespace lumi
