// Panel products against double loops over the dequantised weight: every kernel this CPU has, every
// kind of type, odd shapes, several thread counts.
#include "base/rng.h"
#include "device/amx_kernels.h"
#include "device/dequantise.h"
#include "device/device.h"
#include "device/panel_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
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

// The kernels that products with such rows can use here.
std::vector<PanelKernel> kernels(int64_t n_in) {
    std::vector<PanelKernel> all = {PanelKernel::f32};
    if (panel_kernel(n_in) != PanelKernel::f32) {
        all.push_back(panel_kernel(n_in));
    }
    return all;
}

// What each term of a sum may lose: only the gradient's direction is content with two parts.
double term_error(PanelKernel kernel, bool transposed) {
    return 1e-6 + (kernel == PanelKernel::amx && transposed ? kSplitError : 0.0);
}

class PanelProduct : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        const Case & c = GetParam();
        Result<Device> device = Device::open("cpu", c.n_threads);
        ASSERT_TRUE(device.ok()) << device.error().message;
        device_ = std::make_unique<Device>(std::move(device).value());
        ctx_.reset(
            ggml_init({ggml_tensor_overhead() * 16 + 2 * ggml_graph_overhead(), nullptr, true}));
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
        for (const PanelKernel kernel : kernels(GetParam().n_in)) {
            check(transposed, kernel);
        }
    }

    void check(bool transposed, PanelKernel kernel) {
        SCOPED_TRACE(panel_kernel_text(kernel));
        const Case & c = GetParam();
        Rng rng(11);
        const int64_t n_x = transposed ? c.n_out : c.n_in;
        const int64_t n_y = transposed ? c.n_in : c.n_out;
        const std::vector<float> x = random_floats(rng, n_x * c.n_tokens);
        ggml_tensor * tx = ggml_new_tensor_2d(ctx_.get(), GGML_TYPE_F32, n_x, c.n_tokens);
        ggml_tensor * ty = transposed ? panel_product_transposed(ctx_.get(), w_, tx, kernel)
                                      : panel_product(ctx_.get(), w_, tx, kernel);
        ASSERT_EQ(ty->ne[0], n_y);
        ASSERT_EQ(ty->ne[1], c.n_tokens);
        ggml_cgraph * graph = ggml_new_graph(ctx_.get());
        ggml_build_forward_expand(graph, ty);
        Result<GgmlBuffer> buffer = device_->allocate(ctx_.get());
        ASSERT_TRUE(buffer.ok());
        buffers_.push_back(std::move(buffer).value());  // the first one holds the weight
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
                ASSERT_NEAR(y[static_cast<size_t>(t * n_y + i)], sum,
                            term_error(kernel, transposed) * size)
                    << "token " << t << ", output " << i;
            }
        }
    }

    std::unique_ptr<Device> device_;
    GgmlContext ctx_;
    std::vector<GgmlBuffer> buffers_;
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

// More terms, rows and tokens than one block of a kernel, in turn.
INSTANTIATE_TEST_SUITE_P(Blocks, PanelProduct,
                         testing::Values(Case{GGML_TYPE_Q8_0, 4192, 35, 39, 1},
                                         Case{GGML_TYPE_F32, 2080, 530, 7, 2},
                                         Case{GGML_TYPE_BF16, 64, 1061, 520, 2},
                                         Case{GGML_TYPE_F16, 544, 33, 545, 3}),
                         case_name);

// The double loops show errors of single terms; gradients care about all of them together.
TEST(PanelKernels, LoseLittleOfARandomProduct) {
    constexpr int64_t kN = 1024;
    const Result<Device> device = Device::open("cpu", 1);
    ASSERT_TRUE(device.ok());
    for (const PanelKernel kernel : kernels(kN)) {
        for (const bool transposed : {false, true}) {
            GgmlContext ctx(
                ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, true}));
            ggml_tensor * w = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, kN, kN);
            ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, kN, 1);
            ggml_tensor * y = transposed ? panel_product_transposed(ctx.get(), w, x, kernel)
                                         : panel_product(ctx.get(), w, x, kernel);
            ggml_cgraph * graph = ggml_new_graph(ctx.get());
            ggml_build_forward_expand(graph, y);
            const Result<GgmlBuffer> buffer = device->allocate(ctx.get());
            ASSERT_TRUE(buffer.ok());
            Rng rng(3);
            const std::vector<float> ws = random_floats(rng, kN * kN);
            const std::vector<float> xs = random_floats(rng, kN);
            ggml_backend_tensor_set(w, ws.data(), 0, ggml_nbytes(w));
            ggml_backend_tensor_set(x, xs.data(), 0, ggml_nbytes(x));
            ASSERT_TRUE(device->compute(graph).ok());
            std::vector<float> ys(static_cast<size_t>(kN));
            ggml_backend_tensor_get(y, ys.data(), 0, ggml_nbytes(y));
            double error = 0.0;
            double size = 0.0;
            for (size_t i = 0; i < ys.size(); ++i) {
                double sum = 0.0;
                for (size_t k = 0; k < xs.size(); ++k) {
                    const size_t at = transposed ? k * xs.size() + i : i * xs.size() + k;
                    sum += static_cast<double>(ws[at]) * static_cast<double>(xs[k]);
                }
                error += (ys[i] - sum) * (ys[i] - sum);
                size += sum * sum;
            }
            const double relative = std::sqrt(error / size);
            std::printf("%s, %s: %.1e\n", panel_kernel_text(kernel), transposed ? "W^T y" : "W x",
                        relative);
            EXPECT_LT(relative, kernel == PanelKernel::amx && transposed ? 1e-5 : 1e-6);
        }
    }
}

// ggml sets the tiles' shapes once per thread: a product between two of its own must not show.
TEST(PanelKernels, LeaveTheTilesOfGgmlAlone) {
    constexpr int64_t kIn = 256;
    constexpr int64_t kOut = 64;
    const Result<Device> device = Device::open("cpu", 1);
    ASSERT_TRUE(device.ok());
    for (ggml_backend_buffer_type_t type : device->repack_buffer_types()) {
        GgmlContext weights(ggml_init({ggml_tensor_overhead() * 4, nullptr, true}));
        ggml_tensor * w = ggml_new_tensor_2d(weights.get(), GGML_TYPE_Q4_0, kIn, kOut);
        const GgmlBuffer repacked(ggml_backend_alloc_ctx_tensors_from_buft(weights.get(), type));
        GgmlContext ctx(
            ggml_init({ggml_tensor_overhead() * 8 + 2 * ggml_graph_overhead(), nullptr, true}));
        ggml_tensor * plain = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, kIn, kOut);
        ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, kIn, kOut);
        ggml_tensor * y = ggml_mul_mat(ctx.get(), w, x);
        ggml_tensor * between = panel_product(ctx.get(), plain, x);
        ggml_cgraph * own = ggml_new_graph(ctx.get());
        ggml_build_forward_expand(own, y);
        ggml_cgraph * panels = ggml_new_graph(ctx.get());
        ggml_build_forward_expand(panels, between);
        const Result<GgmlBuffer> buffer = device->allocate(ctx.get());
        ASSERT_TRUE(buffer.ok());
        Rng rng(5);
        const std::vector<float> numbers = random_floats(rng, kIn * kOut);
        std::vector<char> blocks(ggml_nbytes(w));
        ggml_quantize_chunk(w->type, numbers.data(), blocks.data(), 0, kOut, kIn, nullptr);
        ggml_backend_tensor_set(w, blocks.data(), 0, blocks.size());
        ggml_backend_tensor_set(x, numbers.data(), 0, ggml_nbytes(x));
        ggml_backend_tensor_set(plain, numbers.data(), 0, ggml_nbytes(plain));
        std::vector<float> before(static_cast<size_t>(kOut * kOut));
        std::vector<float> after(before.size());
        ASSERT_TRUE(device->compute(own).ok());
        ggml_backend_tensor_get(y, before.data(), 0, ggml_nbytes(y));
        ASSERT_TRUE(device->compute(panels).ok());
        ASSERT_TRUE(device->compute(own).ok());
        ggml_backend_tensor_get(y, after.data(), 0, ggml_nbytes(y));
        EXPECT_EQ(before, after) << ggml_backend_buft_name(type);
    }
}

// Vector code gives the numbers that ggml's gives, up to the last bit of a product.
TEST(RowDequantiser, GivesTheNumbersOfGgml) {
    constexpr int64_t kN = 1024;
    Rng rng(9);
    for (int id = 0; id < GGML_TYPE_COUNT; ++id) {
        const auto type = static_cast<ggml_type>(id);
        const ggml_to_float_t reference = ggml_get_type_traits(type)->to_float;
        if (type == GGML_TYPE_F32 || reference == nullptr || row_dequantiser(type) == reference) {
            continue;
        }
        std::vector<float> numbers = random_floats(rng, kN);
        numbers[17] = -0.0F;
        std::vector<char> blocks(ggml_row_size(type, kN));
        ggml_quantize_chunk(type, numbers.data(), blocks.data(), 0, 1, kN, nullptr);
        std::vector<float> expected(numbers.size());
        reference(blocks.data(), expected.data(), kN);
        std::vector<float> actual(numbers.size(), NAN);
        row_dequantiser(type)(blocks.data(), actual.data(), kN);
        for (size_t i = 0; i < expected.size(); ++i) {
            ASSERT_NEAR(actual[i], expected[i], 1e-6F) << ggml_type_name(type) << " number " << i;
        }
    }
}

}  // namespace
}  // namespace lumi
