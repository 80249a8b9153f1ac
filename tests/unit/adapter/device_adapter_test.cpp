// Adapters on a device: scale, look-up order, and that what is uploaded is what was given.
#include "small_adapter.h"

#include <memory>

namespace lumi {

namespace {

class DeviceAdapterTest : public testing::Test {
  protected:
    std::unique_ptr<DeviceAdapter> upload(const AdapterData & data) {
        auto device = Device::open("cpu", 1);
        EXPECT_TRUE(device.ok());
        auto adapter = DeviceAdapter::create(data, device.value());
        EXPECT_TRUE(adapter.ok());
        return std::move(adapter).value();
    }
};

TEST_F(DeviceAdapterTest, HoldsTheNumbersAndScalesByAlphaOverRank) {
    const Config config = small_config();
    const AdapterData data = filled_adapter(config, 3);  // alpha 6, rank 4
    const auto adapter = upload(data);
    LoraView view;
    adapter->add_to(view, 0.5F);
    for (const LoraMatrixPair & pair : data.pairs) {
        const std::vector<LoraTensors> & found = view.find(pair.layer, pair.module);
        ASSERT_EQ(found.size(), 1U);
        EXPECT_FLOAT_EQ(found[0].scale, 0.75F);
        EXPECT_EQ(found[0].a->ne[0], pair.n_in);
        EXPECT_EQ(found[0].a->ne[1], 4);
        EXPECT_EQ(found[0].b->ne[1], pair.n_out);
        std::vector<float> b(pair.b.size());
        ggml_backend_tensor_get(found[0].b, b.data(), 0, b.size() * sizeof(float));
        EXPECT_EQ(b, pair.b);
    }
    EXPECT_GE(adapter->bytes(), data.n_parameters() * sizeof(float));
}

TEST_F(DeviceAdapterTest, SeveralAdaptersAreFoundInTheOrderAdded) {
    const Config config = small_config();
    const auto one = upload(filled_adapter(config, 1));
    const auto two = upload(filled_adapter(config, 2));
    LoraView view;
    EXPECT_TRUE(view.empty());
    EXPECT_GT(view.lowest_layer(), 1000000);
    one->add_to(view, 1.0F);
    two->add_to(view, 2.0F);
    const std::vector<LoraTensors> & found = view.find(1, Module::up);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_FLOAT_EQ(found[0].scale, 1.5F);
    EXPECT_FLOAT_EQ(found[1].scale, 3.0F);
    EXPECT_NE(found[0].a, found[1].a);
    EXPECT_TRUE(view.find(2, Module::k).empty());
    EXPECT_EQ(view.lowest_layer(), 0);
}

TEST_F(DeviceAdapterTest, LowestLayerTellsWhetherACacheStaysValid) {
    const Config config = small_config();
    const PresentWeights present(config);
    const auto targets = parse_targets("tail", config);
    const auto adapter = upload(make_adapter(config, present.weights, targets.value(), 2, 4.0F, 1));
    LoraView view;
    adapter->add_to(view, 1.0F);
    EXPECT_EQ(view.lowest_layer(), 2);
}

// cases/training.md L12.
TEST_F(DeviceAdapterTest, APairThatTakesNoPartInAGraphIsNamed) {
    const GgmlContext context(
        ggml_init({8 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
    ggml_context * ctx = context.get();
    ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 3);
    ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 2);
    ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 2, 4);
    LoraView view;
    view.add(3, Module::up, {a, b, 1.0F});
    ggml_tensor * half = ggml_mul_mat(ctx, a, x);
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, half);
    const Status missing = view.check_applied(graph);
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().message.find("blk.3.ffn_up.weight"), std::string::npos);
    ggml_build_forward_expand(graph, ggml_mul_mat(ctx, b, half));
    EXPECT_TRUE(view.check_applied(graph).ok());
    EXPECT_TRUE(LoraView().check_applied(graph).ok());
}

TEST_F(DeviceAdapterTest, AnEmptyAdapterUploadsNothing) {
    const auto adapter = upload(AdapterData{});
    LoraView view;
    adapter->add_to(view, 1.0F);
    EXPECT_TRUE(view.empty());
    EXPECT_EQ(adapter->bytes(), 0U);
}

}  // namespace

}  // namespace lumi
