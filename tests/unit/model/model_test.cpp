// A model loads whole or not at all: every tensor is found, shaped right and known; what graphs see
// is the file's numbers, in place, uploaded or repacked.

#include "model/model.h"

#include "unit/model/tiny_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace lumi {
namespace {

Result<std::unique_ptr<Model>> load(const TinyFile & tiny, bool repack = false) {
    ModelOptions options;
    options.device = "cpu";
    options.n_threads = 2;
    options.repack = repack;
    return Model::load(tiny.open(), options);
}

void expect_refused(const TinyFile & tiny, std::initializer_list<const char *> parts,
                    ErrorKind kind = ErrorKind::invalid_file) {
    const Result<std::unique_ptr<Model>> model = load(tiny);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().kind, kind) << model.error().message;
    for (const char * part : parts) {
        EXPECT_NE(model.error().message.find(part), std::string::npos)
            << part << " in: " << model.error().message;
    }
}

// The same values in another type.
void convert(TinyTensor & tensor, ggml_type type) {
    const int64_t n_in = tensor.ne[0];
    const int64_t n_rows = tensor.ne.size() > 1 ? tensor.ne[1] : 1;
    std::vector<float> values(static_cast<size_t>(n_in * n_rows));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    tensor.data.resize(ggml_row_size(type, n_in) * static_cast<size_t>(n_rows));
    ggml_quantize_chunk(type, values.data(), tensor.data.data(), 0, n_rows, n_in, nullptr);
    tensor.type = type;
}

TEST(Model, WeightsAreTheMappedFileItself) {
    const TinyFile tiny = tiny_gemma4();
    const Result<std::unique_ptr<Model>> model = load(tiny);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const std::span<const std::byte> file = (*model)->file().bytes();
    const Weights & weights = (*model)->plain_weights();
    ASSERT_EQ(weights.layers.size(), 8U);
    for (const ggml_tensor * tensor :
         {weights.token_embd, weights.ple_table, weights.rope_freqs, weights.output_norm,
          weights.layers[0][Module::q], weights.layers[7][Module::down],
          weights.layers[4].output_scale}) {
        ASSERT_NE(tensor, nullptr);
        const auto * data = static_cast<const std::byte *>(tensor->data);
        EXPECT_TRUE(data >= file.data() && data < file.data() + file.size()) << tensor->name;
    }
    EXPECT_EQ(weights.output, weights.token_embd);
    EXPECT_EQ(weights.layers[0][Module::q]->ne[1], 64);
    EXPECT_EQ((*model)->memory_plan().anonymous_bytes(), 0U);
    EXPECT_GT((*model)->memory_plan().mapped_bytes(), 100000U);
}

TEST(Model, DeadKvOfSharedLayersMayBePresentOrAbsent) {
    TinyFile tiny = tiny_gemma4();
    ASSERT_TRUE(load(tiny).ok());
    for (const char * name : {"blk.6.attn_k.weight", "blk.6.attn_v.weight"}) {
        tiny.add_tensor(name, {64, 32});
    }
    tiny.add_tensor("blk.6.attn_k_norm.weight", {32});
    const Result<std::unique_ptr<Model>> model = load(tiny, true);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ((*model)->plain_weights().layers[6][Module::k], nullptr);
    EXPECT_EQ((*model)->inference_weights().layers[6][Module::v], nullptr);
}

TEST(Model, MissingMisshapenAndUnknownTensorsAreDifferentErrors) {  // cases/gguf.md G33, G34
    TinyFile missing = tiny_gemma4();
    missing.drop_tensor("blk.3.ffn_norm.weight");
    expect_refused(missing, {"'blk.3.ffn_norm.weight' is missing"});

    TinyFile renamed = tiny_gemma4();
    renamed.tensor("blk.3.ffn_norm.weight").name = "blk.3.norm_ffn.weight";
    expect_refused(renamed, {"'blk.3.ffn_norm.weight' is missing", "'blk.3.norm_ffn.weight'"});

    TinyFile extra = tiny_gemma4();
    extra.add_tensor("blk.0.ffn_gate_exps.weight", {64, 32, 4});
    extra.add_tensor("blk.8.attn_q.weight", {64, 64});
    expect_refused(extra, {"has no tensor 'blk.0.ffn_gate_exps.weight' and 1 more"},
                   ErrorKind::unsupported);

    TinyFile transposed = tiny_gemma4();
    std::swap(transposed.tensor("blk.0.ffn_up.weight").ne[0],
              transposed.tensor("blk.0.ffn_up.weight").ne[1]);
    expect_refused(transposed, {"'blk.0.ffn_up.weight'", "[96, 64]", "[64, 96]"});
}

TEST(Model, NullRopeFactorsAreAnError) {  // cases/inference.md M16
    TinyFile tiny = tiny_gemma4();
    tiny.drop_tensor("rope_freqs.weight");
    expect_refused(tiny, {"'rope_freqs.weight' is missing"});
}

TEST(Model, EncodersOfAMultimodalFileAreIgnored) {  // cases/gguf.md G35
    TinyFile tiny = tiny_gemma4();
    for (const char * name :
         {"v.blk.0.attn_q.weight", "a.conv1d.0.weight", "mm.input_projection.weight"}) {
        tiny.add_tensor(name, {8, 8});
    }
    EXPECT_TRUE(load(tiny).ok());
}

TEST(Model, IntegerWeightsAndQuantisedNormsAreRefused) {
    TinyFile integers = tiny_gemma4();
    integers.tensor("blk.0.ffn_up.weight").type = GGML_TYPE_I32;
    expect_refused(integers, {"'blk.0.ffn_up.weight'", "i32"}, ErrorKind::unsupported);
    TinyFile norm = tiny_gemma4();
    convert(norm.tensor("blk.0.attn_norm.weight"), GGML_TYPE_Q8_0);
    expect_refused(norm, {"'blk.0.attn_norm.weight'", "F32, F16 and BF16"}, ErrorKind::unsupported);
}

TEST(Model, HalfPrecisionNormsBecomeF32) {
    TinyFile tiny = tiny_gemma4();
    const std::vector<std::byte> before = tiny.tensor("blk.1.attn_norm.weight").data;
    convert(tiny.tensor("blk.1.attn_norm.weight"), GGML_TYPE_F16);
    convert(tiny.tensor("output_norm.weight"), GGML_TYPE_BF16);
    const Result<std::unique_ptr<Model>> model = load(tiny);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const ggml_tensor * norm = (*model)->plain_weights().layers[1].attn_norm;
    ASSERT_EQ(norm->type, GGML_TYPE_F32);
    EXPECT_EQ((*model)->plain_weights().output_norm->type, GGML_TYPE_F32);
    for (size_t i = 0; i < 64; ++i) {
        float expected = 0;
        std::memcpy(&expected, before.data() + i * sizeof(float), sizeof(float));
        EXPECT_NEAR(static_cast<const float *>(norm->data)[i], expected, 1e-3F);
    }
    EXPECT_EQ((*model)->memory_plan().anonymous_bytes(), 2 * 64 * sizeof(float));
}

TEST(Model, AHeadOfItsOwnIsUsed) {
    TinyFile tiny = tiny_gemma4();
    tiny.add_tensor("output.weight", {64, 64});
    const Result<std::unique_ptr<Model>> model = load(tiny);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_NE((*model)->plain_weights().output, (*model)->plain_weights().token_embd);
}

TEST(Model, KEqualsVModelsLoadWithoutV) {
    TinyFile tiny = tiny_gemma4();
    tiny.drop_tensor("blk.2.attn_v.weight");
    const Result<std::unique_ptr<Model>> model = load(tiny);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_TRUE((*model)->config().layers[2].v_is_k);
    EXPECT_EQ((*model)->plain_weights().layers[2][Module::v], nullptr);
}

TEST(Model, GatheredRowsEqualTheDequantisedTable) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
        TinyFile tiny = tiny_gemma4();
        TinyTensor & table = tiny.tensor("per_layer_token_embd.weight");  // [128, 64], 16 a layer
        std::vector<float> values(128 * 64);
        std::memcpy(values.data(), table.data.data(), table.data.size());
        if (type != GGML_TYPE_F32) {
            convert(table, type);
            const size_t row = ggml_row_size(type, 128);
            for (size_t r = 0; r < 64; ++r) {
                ggml_get_type_traits(type)->to_float(table.data.data() + r * row,
                                                     values.data() + r * 128, 128);
            }
        }
        const Result<std::unique_ptr<Model>> model = load(tiny);
        ASSERT_TRUE(model.ok()) << model.error().message;
        const std::vector<int32_t> ids = {63, 0, 17};
        std::vector<float> out(3 * 16 * 3);
        // Layers 3 to 5: starts inside a block of 32, so a partial block must be cut right.
        ASSERT_TRUE((*model)->gather_ple(ids, 3, 3, out).ok());
        for (size_t t = 0; t < ids.size(); ++t) {
            for (size_t i = 0; i < 48; ++i) {
                EXPECT_EQ(out[t * 48 + i], values[static_cast<size_t>(ids[t]) * 128 + 48 + i]);
            }
        }
        std::vector<float> embedding(64);
        const int32_t outside[] = {64};
        const Status status = (*model)->gather_embeddings(outside, embedding);
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().kind, ErrorKind::invalid_argument);
        const int32_t negative[] = {-1};
        EXPECT_FALSE((*model)->gather_embeddings(negative, embedding).ok());
        EXPECT_FALSE((*model)->gather_ple(ids, 6, 3, out).ok());
    }
}

// W x for one weight of a model, on the model's device.
std::vector<float> product(const Model & model, ggml_tensor * weight) {
    const GgmlContext ctx(
        ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, true}));
    ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, weight->ne[0], 3);
    ggml_tensor * y = ggml_mul_mat(ctx.get(), weight, x);
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    EXPECT_TRUE(model.device().preflight(graph).ok());
    const GgmlBuffer buffer = std::move(model.device().allocate(ctx.get()).value());
    std::vector<float> input(static_cast<size_t>(ggml_nelements(x)));
    for (size_t i = 0; i < input.size(); ++i) {
        input[i] = std::sin(static_cast<float>(i));
    }
    ggml_backend_tensor_set(x, input.data(), 0, ggml_nbytes(x));
    EXPECT_TRUE(model.device().compute(graph).ok());
    std::vector<float> out(static_cast<size_t>(ggml_nelements(y)));
    ggml_backend_tensor_get(y, out.data(), 0, ggml_nbytes(y));
    return out;
}

TEST(Model, TheRepackedTwinMultipliesLikeTheFile) {
    TinyFile tiny = tiny_gemma4();
    for (const char * name :
         {"token_embd.weight", "blk.0.attn_q.weight", "blk.7.ffn_gate.weight"}) {
        convert(tiny.tensor(name), GGML_TYPE_Q8_0);
    }
    convert(tiny.tensor("blk.1.ffn_gate.weight"), GGML_TYPE_Q4_0);
    const Result<std::unique_ptr<Model>> model = load(tiny, true);
    ASSERT_TRUE(model.ok()) << model.error().message;
    if (!(*model)->repacked()) {
        GTEST_SKIP() << "this CPU backend repacks none of these types";
    }
    const Weights & plain = (*model)->plain_weights();
    const Weights & fast = (*model)->inference_weights();
    EXPECT_GT((*model)->memory_plan().anonymous_bytes(), 0U);
    EXPECT_EQ(fast.token_embd, plain.token_embd);
    EXPECT_EQ(fast.ple_proj, plain.ple_proj);
    int differ = 0;
    const std::pair<ggml_tensor *, ggml_tensor *> pairs[] = {
        {plain.output, fast.output},
        {plain.layers[0][Module::q], fast.layers[0][Module::q]},
        {plain.layers[7][Module::gate], fast.layers[7][Module::gate]},
        {plain.layers[1][Module::gate], fast.layers[1][Module::gate]}};
    for (const auto & [from, to] : pairs) {
        differ += from != to ? 1 : 0;
        const std::vector<float> expected = product(**model, from);
        const std::vector<float> got = product(**model, to);
        for (size_t i = 0; i < expected.size(); ++i) {
            EXPECT_NEAR(got[i], expected[i], 0.02F) << from->name << " " << i;
        }
    }
    EXPECT_GT(differ, 0);
}

TEST(Model, NoTwinWhenMemoryIsShortOrNotWanted) {
    TinyFile tiny = tiny_gemma4();
    convert(tiny.tensor("blk.0.attn_q.weight"), GGML_TYPE_Q8_0);
    EXPECT_FALSE(load(tiny, false).value()->repacked());
    ModelOptions options;
    options.device = "cpu";
    options.memory_limit_bytes = 1 << 20;
    const Result<std::unique_ptr<Model>> model = Model::load(tiny.open(), options);
    ASSERT_TRUE(model.ok());
    EXPECT_FALSE((*model)->repacked());
    EXPECT_EQ((*model)->inference_weights().layers[0][Module::q],
              (*model)->plain_weights().layers[0][Module::q]);
}

TEST(Model, Gemma3Loads) {
    const Result<std::unique_ptr<Model>> model = load(tiny_gemma3());
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ((*model)->plain_weights().ple_table, nullptr);
    EXPECT_EQ((*model)->plain_weights().rope_freqs, nullptr);
    std::vector<float> none;
    EXPECT_FALSE((*model)->gather_ple(std::vector<int32_t>{1}, 0, 1, none).ok());
}

TEST(Model, Qwen3LoadsWithAHeadOfItsOwnOrTheTables) {
    TinyFile tiny = tiny_qwen3();
    const Result<std::unique_ptr<Model>> tied = load(tiny);
    ASSERT_TRUE(tied.ok()) << tied.error().message;
    EXPECT_EQ((*tied)->plain_weights().output, (*tied)->plain_weights().token_embd);
    EXPECT_EQ((*tied)->plain_weights().layers[0].post_attn_norm, nullptr);
    const std::vector<int64_t> table = tiny.tensor("token_embd.weight").ne;
    tiny.add_tensor("output.weight", table);
    const Result<std::unique_ptr<Model>> untied = load(tiny);
    ASSERT_TRUE(untied.ok()) << untied.error().message;
    EXPECT_NE((*untied)->plain_weights().output, (*untied)->plain_weights().token_embd);
}

TEST(Model, BiasesAndFusedProjectionsOfQwen3AreRefusedByName) {
    TinyFile tiny = tiny_qwen3();
    tiny.add_tensor("blk.0.attn_q.bias", {128});
    expect_refused(tiny, {"'blk.0.attn_q.bias'"}, ErrorKind::unsupported);
    tiny = tiny_qwen3();
    tiny.drop_tensor("blk.1.attn_q.weight");
    tiny.add_tensor("blk.1.attn_qkv.weight", {64, 256});
    expect_refused(tiny, {"attn_q.weight", "'blk.1.attn_qkv.weight'"});
}

TEST(Model, ProgressReachesOne) {
    double last = 0;
    ModelOptions options;
    options.device = "cpu";
    options.progress = [&](double fraction) {
        EXPECT_GE(fraction, last);
        last = fraction;
    };
    TinyFile tiny = tiny_gemma4();
    convert(tiny.tensor("token_embd.weight"), GGML_TYPE_Q8_0);
    ASSERT_TRUE(Model::load(tiny.open(), options).ok());
    EXPECT_EQ(last, 1.0);
}

TEST(Model, ModuleNamesAreReadBackExactly) {
    for (int m = 0; m < kModuleCount; ++m) {
        int layer = -1;
        Module module = Module::q;
        ASSERT_TRUE(parse_module_weight_name(module_weight_name(31, static_cast<Module>(m)), layer,
                                             module));
        EXPECT_EQ(layer, 31);
        EXPECT_EQ(module, static_cast<Module>(m));
    }
    int layer = 0;
    Module module = Module::q;
    for (const char * name :
         {"blk.03.attn_q.weight", "blk.3.attn_q.weight.lora_a", "blk.-1.attn_q.weight",
          "blk..attn_q.weight", "blk.3.attn_norm.weight", "attn_q.weight", "",
          "blk.99999999999.attn_q.weight"}) {
        EXPECT_FALSE(parse_module_weight_name(name, layer, module)) << name;
    }
}

}  // namespace
}  // namespace lumi
