// Panel products against double loops over the dequantised weight: every kind of type, odd shapes,
// several thread counts.
#include "base/rng.h"
#include "device/device.h"
#include "device/panel_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace lumi {
namespace {

struct Case {
    ggml_type type;
    int64_t n_in;
    int64_t n_out;
    int64_t n_tokens;
    int n_threads;
};

std::vector<float> random_floats(Rng & rng, int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float & v : values) {
        v = static_cast<float>(rng.normal());
    }
    return values;
}

class PanelProduct : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        const Case & c = GetParam();
        Result<Device> device = Device::open("cpu", c.n_threads);
        ASSERT_TRUE(device.ok()) << device.error().message;
        device_ = std::make_unique<Device>(std::move(device).value());
        ctx_.reset(ggml_init({ggml_tensor_overhead() * 16 + ggml_graph_overhead(), nullptr, true}));
        w_ = ggml_new_tensor_2d(ctx_.get(), c.type, c.n_in, c.n_out);
        Rng rng(7);
        w_quantised_.resize(ggml_nbytes(w_));
        const std::vector<float> w = random_floats(rng, c.n_in * c.n_out);
        ggml_quantize_chunk(c.type, w.data(), w_quantised_.data(), 0, c.n_out, c.n_in, nullptr);
        w_floats_ = w;
        if (c.type != GGML_TYPE_F32) {
            ggml_get_type_traits(c.type)->to_float(w_quantised_.data(), w_floats_.data(),
                                                   c.n_in * c.n_out);
        }
    }

    // Runs one product on x and compares it with sums in double, element by element.
    void check(bool transposed) {
        const Case & c = GetParam();
        Rng rng(11);
        const int64_t n_x = transposed ? c.n_out : c.n_in;
        const int64_t n_y = transposed ? c.n_in : c.n_out;
        const std::vector<float> x = random_floats(rng, n_x * c.n_tokens);
        ggml_tensor * tx = ggml_new_tensor_2d(ctx_.get(), GGML_TYPE_F32, n_x, c.n_tokens);
        ggml_tensor * ty = transposed ? panel_product_transposed(ctx_.get(), w_, tx)
                                      : panel_product(ctx_.get(), w_, tx);
        ASSERT_EQ(ty->ne[0], n_y);
        ASSERT_EQ(ty->ne[1], c.n_tokens);
        ggml_cgraph * graph = ggml_new_graph(ctx_.get());
        ggml_build_forward_expand(graph, ty);
        const Result<GgmlBuffer> buffer = device_->allocate(ctx_.get());
        ASSERT_TRUE(buffer.ok());
        ggml_backend_tensor_set(w_, w_quantised_.data(), 0, w_quantised_.size());
        ggml_backend_tensor_set(tx, x.data(), 0, ggml_nbytes(tx));
        // Whatever was in the output before must not shine through.
        const std::vector<float> junk(static_cast<size_t>(n_y * c.n_tokens), NAN);
        ggml_backend_tensor_set(ty, junk.data(), 0, ggml_nbytes(ty));
        ASSERT_TRUE(device_->compute(graph).ok());
        std::vector<float> y(junk.size());
        ggml_backend_tensor_get(ty, y.data(), 0, ggml_nbytes(ty));

        for (int64_t t = 0; t < c.n_tokens; ++t) {
            for (int64_t i = 0; i < n_y; ++i) {
                double sum = 0.0;
                double size = 0.0;
                for (int64_t k = 0; k < n_x; ++k) {
                    const int64_t at = transposed ? k * c.n_in + i : i * c.n_in + k;
                    const double term = static_cast<double>(w_floats_[static_cast<size_t>(at)]) *
                                        static_cast<double>(x[static_cast<size_t>(t * n_x + k)]);
                    sum += term;
                    size += std::abs(term);
                }
                ASSERT_NEAR(y[static_cast<size_t>(t * n_y + i)], sum, 1e-6 * size)
                    << "token " << t << ", output " << i;
            }
        }
    }

    std::unique_ptr<Device> device_;
    GgmlContext ctx_;
    ggml_tensor * w_ = nullptr;
    std::vector<char> w_quantised_;
    std::vector<float> w_floats_;
};

TEST_P(PanelProduct, ForwardEqualsTheDoubleLoop) {
    check(false);
}
TEST_P(PanelProduct, TransposedEqualsTheDoubleLoop) {
    check(true);
}

std::string case_name(const testing::TestParamInfo<Case> & info) {
    const Case & c = info.param;
    return std::string(ggml_type_name(c.type)) + "_" + std::to_string(c.n_in) + "x" +
           std::to_string(c.n_out) + "_T" + std::to_string(c.n_tokens) + "_threads" +
           std::to_string(c.n_threads);
}

INSTANTIATE_TEST_SUITE_P(
    Types, PanelProduct,
    testing::Values(Case{GGML_TYPE_F32, 256, 48, 5, 2}, Case{GGML_TYPE_F16, 256, 48, 5, 2},
                    Case{GGML_TYPE_BF16, 256, 48, 5, 2}, Case{GGML_TYPE_Q4_0, 256, 48, 5, 2},
                    Case{GGML_TYPE_Q4_1, 256, 48, 5, 2}, Case{GGML_TYPE_Q5_0, 256, 48, 5, 2},
                    Case{GGML_TYPE_Q5_1, 256, 48, 5, 2}, Case{GGML_TYPE_Q8_0, 256, 48, 5, 2},
                    Case{GGML_TYPE_Q2_K, 512, 48, 5, 2}, Case{GGML_TYPE_Q3_K, 512, 48, 5, 2},
                    Case{GGML_TYPE_Q4_K, 512, 48, 5, 2}, Case{GGML_TYPE_Q5_K, 512, 48, 5, 2},
                    Case{GGML_TYPE_Q6_K, 512, 48, 5, 2}, Case{GGML_TYPE_IQ4_NL, 256, 48, 5, 2},
                    Case{GGML_TYPE_IQ4_XS, 512, 48, 5, 2}),
    case_name);

// Widths that no thread count divides, one row, one token, more threads than blocks or rows, and
// more rows than one panel.
INSTANTIATE_TEST_SUITE_P(
    Shapes, PanelProduct,
    testing::Values(Case{GGML_TYPE_F32, 33, 7, 3, 3}, Case{GGML_TYPE_F32, 1, 1, 1, 4},
                    Case{GGML_TYPE_F16, 31, 129, 17, 3}, Case{GGML_TYPE_Q8_0, 96, 1, 1, 4},
                    Case{GGML_TYPE_Q8_0, 32, 700, 9, 4}, Case{GGML_TYPE_Q4_K, 256, 1100, 3, 3},
                    Case{GGML_TYPE_Q4_K, 768, 65, 13, 5}, Case{GGML_TYPE_Q6_K, 1280, 640, 33, 2}),
    case_name);

}  // namespace
}  // namespace lumi
