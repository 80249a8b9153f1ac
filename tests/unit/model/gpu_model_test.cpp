// A model on a GPU backend: everything but the host's tables is uploaded and multiplies like the
// CPU. Runs on Vulkan's software driver where there is no GPU, skips where there is no Vulkan.

#include "model/model.h"

#include "unit/model/tiny_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lumi {
namespace {

// ggml looks at these when the backends are loaded: take software drivers, and compute in F32.
const bool kEnvironmentSet = [] {
    setenv("GGML_VK_VISIBLE_DEVICES", "0", 0);
    setenv("GGML_VK_DISABLE_F16", "1", 0);
    return true;
}();

std::string first_gpu() {
    for (const DeviceInfo & info : list_devices()) {
        if (!info.is_cpu) {
            return info.name;
        }
    }
    return "";
}

std::unique_ptr<Model> load(const TinyFile & tiny, const std::string & device) {
    ModelOptions options;
    options.device = device;
    Result<std::unique_ptr<Model>> model = Model::load(tiny.open(), options);
    EXPECT_TRUE(model.ok()) << model.error().message;
    return model.ok() ? std::move(model).value() : nullptr;
}

std::vector<float> product(const Model & model, ggml_tensor * weight) {
    const GgmlContext ctx(
        ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, true}));
    ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, weight->ne[0], 3);
    ggml_tensor * y = ggml_mul_mat(ctx.get(), weight, x);
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    EXPECT_TRUE(model.device().preflight(graph).ok());
    const GgmlBuffer buffer = std::move(model.device().allocate(ctx.get()).value());
    std::vector<float> values(static_cast<size_t>(ggml_nelements(x)));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = std::sin(static_cast<float>(i));
    }
    ggml_backend_tensor_set(x, values.data(), 0, ggml_nbytes(x));
    EXPECT_TRUE(model.device().compute(graph).ok());
    std::vector<float> out(static_cast<size_t>(ggml_nelements(y)));
    ggml_backend_tensor_get(y, out.data(), 0, ggml_nbytes(y));
    return out;
}

TEST(GpuModel, UploadedWeightsMultiplyLikeTheCpus) {
    ASSERT_TRUE(kEnvironmentSet);
    const std::string gpu = first_gpu();
    if (gpu.empty()) {
        GTEST_SKIP() << "no GPU backend";
    }
    const TinyFile tiny = tiny_gemma4();
    const std::unique_ptr<Model> on_cpu = load(tiny, "cpu");
    const std::unique_ptr<Model> on_gpu = load(tiny, gpu);
    ASSERT_TRUE(on_cpu && on_gpu);
    EXPECT_FALSE(on_gpu->repacked());
    EXPECT_EQ(on_gpu->inference_weights().output, on_gpu->plain_weights().output);
    const Weights & a = on_cpu->plain_weights();
    const Weights & b = on_gpu->plain_weights();
    const std::pair<ggml_tensor *, ggml_tensor *> pairs[] = {
        {a.output, b.output},
        {a.ple_proj, b.ple_proj},
        {a.layers[0][Module::v], b.layers[0][Module::v]},
        {a.layers[7][Module::down], b.layers[7][Module::down]}};
    for (const auto & [cpu_weight, gpu_weight] : pairs) {
        const std::vector<float> expected = product(*on_cpu, cpu_weight);
        const std::vector<float> got = product(*on_gpu, gpu_weight);
        for (size_t i = 0; i < expected.size(); ++i) {
            EXPECT_NEAR(got[i], expected[i], 1e-4F) << cpu_weight->name << " " << i;
        }
    }
}

TEST(GpuModel, TheTablesStayOnTheHost) {
    const std::string gpu = first_gpu();
    if (gpu.empty()) {
        GTEST_SKIP() << "no GPU backend";
    }
    TinyFile tiny = tiny_gemma4();
    tiny.add_tensor("output.weight", {64, 64});
    const std::unique_ptr<Model> model = load(tiny, gpu);
    ASSERT_TRUE(model);
    EXPECT_EQ(model->plain_weights().ple_table->buffer, nullptr);
    EXPECT_EQ(model->plain_weights().token_embd->buffer, nullptr);
    ASSERT_NE(model->plain_weights().output->buffer, nullptr);
    EXPECT_FALSE(ggml_backend_buffer_is_host(model->plain_weights().output->buffer));
    const uint64_t tables = (128 * 64 + 64 * 64) * sizeof(float);
    EXPECT_EQ(model->memory_plan().mapped_bytes(), tables);
    std::vector<float> row(64);
    EXPECT_TRUE(model->gather_embeddings(std::vector<int32_t>{5}, row).ok());
    EXPECT_TRUE(std::any_of(row.begin(), row.end(), [](float x) { return x != 0.0F; }));
}

TEST(GpuModel, AutoStillChoosesTheCpuOverASoftwareDriver) {
    for (const DeviceInfo & info : list_devices()) {
        if (!info.is_cpu && info.description.find("llvmpipe") == std::string::npos) {
            GTEST_SKIP() << "there is a real GPU";
        }
    }
    EXPECT_TRUE(Device::open("auto", 1).value().is_cpu());
}

TEST(GpuModel, AModelLargerThanTheLimitIsRefusedBeforeUpload) {
    const std::string gpu = first_gpu();
    if (gpu.empty()) {
        GTEST_SKIP() << "no GPU backend";
    }
    ModelOptions options;
    options.device = gpu;
    options.memory_limit_bytes = 1000;
    const Result<std::unique_ptr<Model>> model = Model::load(tiny_gemma4().open(), options);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().kind, ErrorKind::out_of_memory);
    EXPECT_NE(model.error().message.find("weights on"), std::string::npos);
}

}  // namespace
}  // namespace lumi
