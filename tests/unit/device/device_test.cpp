// Devices open by name, refuse what they cannot do, and compute the same numbers whether or not
// the weight is repacked.

#include "device/device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

namespace lumi {
namespace {

GgmlContext make_context() {
    return GgmlContext(
        ggml_init({ggml_tensor_overhead() * 32 + ggml_graph_overhead(), nullptr, true}));
}

Device cpu(int n_threads) {
    Result<Device> device = Device::open("cpu", n_threads);
    EXPECT_TRUE(device.ok()) << device.error().message;
    return std::move(device).value();
}

TEST(Device, BackendsLoadOnceFromManyThreads) {
    std::vector<std::thread> threads;
    std::vector<int> ok(4, 0);
    for (size_t i = 0; i < ok.size(); ++i) {
        threads.emplace_back([&ok, i] { ok[i] = load_backends().ok() ? 1 : 0; });
    }
    for (std::thread & thread : threads) {
        thread.join();
    }
    EXPECT_EQ(std::accumulate(ok.begin(), ok.end(), 0), 4);
    EXPECT_EQ(cpu_variant_text().rfind("libggml-cpu", 0), 0U) << cpu_variant_text();
    EXPECT_FALSE(ggml_version_text().empty());
}

TEST(Device, CpuIsListedAndOpensByAnyCase) {
    bool found = false;
    for (const DeviceInfo & info : list_devices()) {
        found |= info.name == "cpu" && info.is_cpu && info.total_bytes > 0;
    }
    EXPECT_TRUE(found);
    const Result<Device> device = Device::open("CPU", 2);
    ASSERT_TRUE(device.ok());
    EXPECT_EQ(device->name(), "cpu");
    EXPECT_EQ(device->n_threads(), 2);
}

TEST(Device, UnknownNameListsWhatExists) {
    const Result<Device> device = Device::open("CUDA77", 0);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.error().kind, ErrorKind::invalid_argument);
    EXPECT_NE(device.error().message.find("'CUDA77'"), std::string::npos);
    EXPECT_NE(device.error().message.find("cpu"), std::string::npos);
}

TEST(Device, ThreadCountOutOfRangeIsRefused) {
    EXPECT_FALSE(Device::open("cpu", -1).ok());
    EXPECT_FALSE(Device::open("cpu", 100000).ok());
    EXPECT_GE(cpu(0).n_threads(), 1);
}

TEST(Device, AutoNeverPicksASoftwareGpu) {
    const Result<Device> device = Device::open("auto", 1);
    ASSERT_TRUE(device.ok());
    for (const DeviceInfo & info : list_devices()) {
        if (info.name == device->name()) {
            EXPECT_EQ(info.description.find("llvmpipe"), std::string::npos);
        }
    }
}

// y = W x with W in place of the caller's memory, then repacked: both must equal the plain sum.
TEST(Device, ProductsAgreeOnWrappedAndRepackedWeights) {
    const Device device = cpu(2);
    constexpr int64_t kIn = 256;
    constexpr int64_t kOut = 64;
    std::vector<float> weight(kIn * kOut);
    std::vector<float> x(kIn);
    for (size_t i = 0; i < weight.size(); ++i) {
        weight[i] = std::sin(static_cast<float>(i) * 0.37F);
    }
    for (size_t i = 0; i < x.size(); ++i) {
        x[i] = std::cos(static_cast<float>(i) * 0.11F);
    }
    const size_t n_bytes = ggml_row_size(GGML_TYPE_Q8_0, kIn) * kOut;
    std::vector<uint8_t> storage(n_bytes + 64);
    uint8_t * blocks = storage.data() + 64 - reinterpret_cast<uintptr_t>(storage.data()) % 64;
    ggml_quantize_chunk(GGML_TYPE_Q8_0, weight.data(), blocks, 0, kOut, kIn, nullptr);

    std::vector<std::vector<float>> results;
    std::vector<ggml_backend_buffer_type_t> types = device.repack_buffer_types();
    types.insert(types.begin(), nullptr);  // nullptr: wrapped in place
    for (ggml_backend_buffer_type_t type : types) {
        const GgmlContext weights = make_context();
        ggml_tensor * w = ggml_new_tensor_2d(weights.get(), GGML_TYPE_Q8_0, kIn, kOut);
        GgmlBuffer weight_buffer;
        if (type == nullptr) {
            weight_buffer = std::move(device.wrap_host_memory(blocks, n_bytes).value());
            ASSERT_EQ(ggml_backend_tensor_alloc(weight_buffer.get(), w, blocks),
                      GGML_STATUS_SUCCESS);
        } else {
            weight_buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights.get(), type));
            ASSERT_TRUE(weight_buffer);
        }
        const GgmlContext ctx = make_context();
        ggml_tensor * input = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, kIn, 1);
        ggml_tensor * product = ggml_mul_mat(ctx.get(), w, input);
        if (!device.supports(product)) {
            continue;  // this repacking does not take the type
        }
        if (type != nullptr) {
            ggml_backend_tensor_set(w, blocks, 0, n_bytes);
        }
        const GgmlBuffer buffer = std::move(device.allocate(ctx.get()).value());
        ggml_cgraph * graph = ggml_new_graph(ctx.get());
        ggml_build_forward_expand(graph, product);
        ASSERT_TRUE(device.preflight(graph).ok());
        ggml_backend_tensor_set(input, x.data(), 0, kIn * sizeof(float));
        ASSERT_TRUE(device.compute(graph).ok());
        std::vector<float> y(kOut);
        ggml_backend_tensor_get(product, y.data(), 0, kOut * sizeof(float));
        results.push_back(std::move(y));
    }
    ASSERT_FALSE(results.empty());
    for (const std::vector<float> & y : results) {
        for (int64_t row = 0; row < kOut; ++row) {
            double expected = 0;
            for (int64_t i = 0; i < kIn; ++i) {
                expected +=
                    double{weight[static_cast<size_t>(row * kIn + i)]} * x[static_cast<size_t>(i)];
            }
            EXPECT_NEAR(y[static_cast<size_t>(row)], expected, 0.15) << "row " << row;
        }
    }
}

TEST(Device, PreflightNamesAnOperationOnAWeightItMustNotTouch) {
    const Device device = cpu(1);
    const std::vector<ggml_backend_buffer_type_t> types = device.repack_buffer_types();
    if (types.empty()) {
        GTEST_SKIP() << "this CPU backend repacks nothing";
    }
    const GgmlContext weights = make_context();
    ggml_tensor * w = ggml_new_tensor_2d(weights.get(), GGML_TYPE_Q4_0, 256, 64);
    const GgmlBuffer buffer(ggml_backend_alloc_ctx_tensors_from_buft(weights.get(), types.front()));
    ASSERT_TRUE(buffer);
    const GgmlContext ctx = make_context();
    ggml_tensor * rows =
        ggml_get_rows(ctx.get(), w, ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I32, 1));
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, rows);
    const Status status = device.preflight(graph);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
    EXPECT_NE(status.error().message.find("GET_ROWS"), std::string::npos) << status.error().message;
}

TEST(Device, AllocatingNothingIsFine) {
    const GgmlContext ctx = make_context();
    const Result<GgmlBuffer> buffer = cpu(1).allocate(ctx.get());
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->get(), nullptr);
}

}  // namespace
}  // namespace lumi
