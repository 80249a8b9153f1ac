// Every hyper-parameter is read once, checked there, and refused by name.

#include "unit/model/tiny_file.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lumi {
namespace {

Config config_of(const TinyFile & tiny) {
    Result<Config> config = read_config(tiny.open());
    EXPECT_TRUE(config.ok()) << config.error().message;
    return config.ok() ? *config : Config{};
}

// The message names the key and is not the fallout of something else.
void expect_refused(const TinyFile & tiny, const std::string & part,
                    ErrorKind kind = ErrorKind::invalid_file) {
    const Result<Config> config = read_config(tiny.open());
    ASSERT_FALSE(config.ok()) << part;
    EXPECT_EQ(config.error().kind, kind) << config.error().message;
    EXPECT_NE(config.error().message.find(part), std::string::npos) << config.error().message;
}

TEST(Config, PerLayerTableOfGemma4IsTheOneSourceOfTruth) {  // cases/inference.md M16
    const Config config = config_of(tiny_gemma4());
    ASSERT_EQ(config.layers.size(), 8U);
    const int sources[] = {0, 1, 2, 3, 4, 2, 4, 4};
    for (size_t il = 0; il < 8; ++il) {
        const LayerConfig & layer = config.layers[il];
        const bool global = il == 2 || il == 5;
        EXPECT_EQ(layer.is_swa, !global) << il;
        EXPECT_EQ(layer.head_dim, global ? 64 : 32) << il;
        EXPECT_EQ(layer.n_rot, global ? 64 : 32) << il;
        EXPECT_EQ(layer.rope_base, global ? 1e6F : 1e4F) << il;
        EXPECT_EQ(layer.rope_factors, global) << il;
        EXPECT_EQ(layer.rope_scale, 1.0F) << il;
        EXPECT_EQ(layer.has_kv, il < 5) << il;
        EXPECT_EQ(layer.kv_source, sources[il]) << il;
        EXPECT_EQ(layer.n_ff, il < 5 ? 96 : 128) << il;
        EXPECT_FALSE(layer.v_is_k) << il;
    }
    EXPECT_EQ(config.last_kv_layer(), 4);
    EXPECT_EQ(config.n_kv_layers(), 5);
    EXPECT_EQ(config.attention_scale, 1.0F);
    EXPECT_EQ(config.embedding_scale, 8.0F);
    EXPECT_EQ(config.softcap, 30.0F);
    EXPECT_TRUE(config.v_norm);
    EXPECT_EQ(config.n_vocab, 64);
    EXPECT_EQ(config.kv_bytes_per_token(true, 2.0), 4U * 2 * 32 * 2);
    EXPECT_EQ(config.kv_bytes_per_token(false, 2.0), 1U * 2 * 64 * 2);
}

TEST(Config, SoftcapExistsOnlyWhenTheKeyDoes) {  // cases/inference.md M15
    TinyFile tiny = tiny_gemma4();
    tiny.drop("gemma4.final_logit_softcapping");
    EXPECT_EQ(config_of(tiny).softcap, 0.0F);
    tiny.set("gemma4.attn_logit_softcapping", 50.0F);
    expect_refused(tiny, "attn_logit_softcapping", ErrorKind::unsupported);
}

TEST(Config, Gemma3DefaultsFollowTheFamily) {
    const Config config = config_of(tiny_gemma3());
    for (size_t il = 0; il < 7; ++il) {
        EXPECT_EQ(config.layers[il].is_swa, il != 5) << il;
        EXPECT_EQ(config.layers[il].rope_base, il == 5 ? 1e6F : 1e4F) << il;
        EXPECT_EQ(config.layers[il].kv_source, static_cast<int>(il));
        EXPECT_FALSE(config.layers[il].rope_factors);
    }
    EXPECT_FLOAT_EQ(config.attention_scale, 1.0F / std::sqrt(32.0F));
    EXPECT_EQ(config.softcap, 0.0F);
    EXPECT_FALSE(config.v_norm);
    EXPECT_EQ(config.n_ple, 0);
}

TEST(Config, Gemma3LinearRopeScalingStretchesGlobalLayersOnly) {
    TinyFile tiny = tiny_gemma3();
    tiny.set("gemma3.rope.scaling.type", std::string("linear"));
    tiny.set("gemma3.rope.scaling.factor", 8.0F);
    const Config config = config_of(tiny);
    EXPECT_EQ(config.layers[5].rope_scale, 0.125F);
    EXPECT_EQ(config.layers[4].rope_scale, 1.0F);
    tiny.set("gemma3.rope.scaling.type", std::string("yarn"));
    expect_refused(tiny, "rope.scaling.type", ErrorKind::unsupported);
}

TEST(Config, TheLargestGemma3ScalesByItsWidth) {
    TinyFile tiny = tiny_gemma3();
    tiny.set("gemma3.block_count", 62U);
    EXPECT_FLOAT_EQ(config_of(tiny).attention_scale, 1.0F / std::sqrt(64.0F / 2.0F));
}

TEST(Config, WithoutAWindowGemma3HasNoSlidingLayers) {
    TinyFile tiny = tiny_gemma3();
    tiny.drop("gemma3.attention.sliding_window");
    const Config config = config_of(tiny);
    for (const LayerConfig & layer : config.layers) {
        EXPECT_FALSE(layer.is_swa);
    }
}

TEST(Config, HeadSizeOfQwen3DoesNotFollowFromItsWidth) {
    const Config config = config_of(tiny_qwen3());
    for (const LayerConfig & layer : config.layers) {
        EXPECT_FALSE(layer.is_swa);
        EXPECT_TRUE(layer.has_kv);
        EXPECT_EQ(layer.head_dim, 32);
        EXPECT_EQ(layer.n_q(), 128);
        EXPECT_EQ(layer.rope_base, 1e6F);
    }
    EXPECT_FLOAT_EQ(config.attention_scale, 1.0F / std::sqrt(32.0F));
    EXPECT_EQ(config.embedding_scale, 1.0F);
    EXPECT_EQ(config.activation, Activation::silu);
    EXPECT_FALSE(config.post_norms);
    EXPECT_FALSE(config.v_norm);
    EXPECT_EQ(config.softcap, 0.0F);
}

TEST(Config, LongContextVariantsOfQwen3AreRefusedByName) {
    TinyFile tiny = tiny_qwen3();
    tiny.set("qwen3.rope.scaling.type", std::string("yarn"));
    expect_refused(tiny, "'qwen3.rope.scaling.type' is 'yarn'", ErrorKind::unsupported);
    tiny.set("qwen3.rope.scaling.type", std::string("none"));
    EXPECT_TRUE(read_config(tiny.open()).ok());
    tiny.set("qwen3.rope.dimension_count", 16U);
    expect_refused(tiny, "rope.dimension_count", ErrorKind::invalid_file);
}

TEST(Config, GlobalLayersWithoutVUseK) {
    TinyFile tiny = tiny_gemma4();
    tiny.drop_tensor("blk.2.attn_v.weight");
    const Config config = config_of(tiny);
    EXPECT_TRUE(config.layers[2].v_is_k);
    EXPECT_FALSE(config.layers[3].v_is_k);
    EXPECT_FALSE(config.layers[5].v_is_k);
}

TEST(Config, OneMissingVAmongPresentOnesIsNotKEqualsV) {
    TinyFile tiny = tiny_gemma4();
    tiny.set("gemma4.attention.sliding_window_pattern",
             std::vector<bool>{true, false, false, true, true, false, true, true});
    tiny.drop_tensor("blk.2.attn_v.weight");
    const Config config = config_of(tiny);
    EXPECT_FALSE(config.layers[1].v_is_k);
    EXPECT_FALSE(config.layers[2].v_is_k);
}

TEST(Config, MixtureOfExpertsIsRefusedByName) {
    TinyFile tiny = tiny_gemma4();
    tiny.set("gemma4.expert_count", 128U);
    expect_refused(tiny, "mixture-of-experts", ErrorKind::unsupported);
}

TEST(Config, UnknownArchitectureListsTheKnownOnes) {
    TinyFile tiny = tiny_gemma4();
    tiny.set("general.architecture", std::string("gemma9"));
    expect_refused(tiny, "gemma4, gemma3, qwen3", ErrorKind::unsupported);
}

TEST(Config, AnAdapterIsNotAModel) {
    TinyFile tiny = tiny_gemma4();
    tiny.set("general.type", std::string("adapter"));
    expect_refused(tiny, "--adapter", ErrorKind::invalid_argument);
}

TEST(Config, HeaderWithoutBlocksOrTensorsIsNoModel) {  // cases/gguf.md G28
    TinyFile tiny;
    tiny.set("general.architecture", std::string("gemma4"));
    expect_refused(tiny, "no blocks");
}

TEST(Config, KeyOrderDoesNotMatter) {  // cases/gguf.md G42
    TinyFile tiny = tiny_gemma4();
    Rng rng(7);
    for (int round = 0; round < 20; ++round) {
        for (size_t i = tiny.meta.size() - 1; i > 0; --i) {
            std::swap(tiny.meta[i], tiny.meta[rng.below(i + 1)]);
        }
        const Config config = config_of(tiny);
        EXPECT_EQ(config.layers[6].kv_source, 4);
        EXPECT_EQ(config.layers[5].head_dim, 64);
    }
}

struct BadValue {
    const char * key;
    MetaValue value;
};

// cases/gguf.md G22, G25: zero, one too many, huge, wrong type, wrong length.
TEST(Config, EveryHyperParameterOutOfRangeIsNamed) {
    const std::vector<BadValue> bad = {
        {"block_count", 0U},
        {"block_count", 513U},
        {"block_count", 0xffffffffU},
        {"block_count", std::string("8")},
        {"block_count", 8.0F},
        {"block_count", std::vector<int32_t>{8}},
        {"embedding_length", 0U},
        {"embedding_length", 0xffffffffU},
        {"context_length", 0U},
        {"context_length", 0xffffffffU},
        {"feed_forward_length", 0U},
        {"feed_forward_length", 0x7fffffffU},
        {"feed_forward_length", std::vector<int32_t>{96, 96}},
        {"feed_forward_length", std::vector<int32_t>{96, 96, 96, 96, 96, 96, 96, -1}},
        {"feed_forward_length", std::vector<int32_t>{}},
        {"attention.head_count", 0U},
        {"attention.head_count", 100000U},
        {"attention.head_count_kv", 0U},
        {"attention.head_count_kv", 3U},
        {"attention.head_count_kv", std::vector<int32_t>{1, 1, 1, 1, 1, 1, 1}},
        {"attention.head_count_kv", std::vector<int32_t>{1, 1, 1, 1, 1, 1, 1, 2}},
        {"attention.key_length", 0U},
        {"attention.key_length", 33U},
        {"attention.key_length", 4096U},
        {"attention.value_length", 32U},
        {"attention.key_length_swa", 0U},
        {"attention.value_length_swa", 64U},
        {"attention.sliding_window", 0U},
        {"attention.sliding_window", 0xffffffffU},
        {"attention.sliding_window_pattern", std::vector<bool>{true, false}},
        {"attention.sliding_window_pattern", 0U},
        {"attention.shared_kv_layers", 8U},
        {"attention.shared_kv_layers", 7U},  // no global owner is left for layer 2
        {"attention.layer_norm_rms_epsilon", 0.0F},
        {"attention.layer_norm_rms_epsilon", std::nanf("")},
        {"attention.layer_norm_rms_epsilon", 1U},
        {"rope.freq_base", 0.0F},
        {"rope.freq_base_swa", -1.0F},
        {"rope.dimension_count", 0U},
        {"rope.dimension_count", 128U},
        {"rope.dimension_count_swa", 31U},
        {"final_logit_softcapping", -30.0F},
        {"final_logit_softcapping", std::numeric_limits<float>::infinity()},
        {"embedding_length_per_layer_input", 0xffffffffU},
        {"expert_count", 0xffffffffU},
    };
    for (const BadValue & row : bad) {
        TinyFile tiny = tiny_gemma4();
        tiny.tensors.resize(1);  // token_embd is enough here, and fast
        const std::string key = std::string("gemma4.") + row.key;
        tiny.set(key, row.value);
        SCOPED_TRACE(key);
        const Result<Config> config = read_config(tiny.open());
        ASSERT_FALSE(config.ok());
        EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
    }
}

TEST(Config, EveryRequiredKeyIsNamedWhenItIsMissing) {
    for (const char * name :
         {"block_count", "context_length", "embedding_length", "feed_forward_length",
          "attention.head_count", "attention.layer_norm_rms_epsilon", "attention.key_length",
          "attention.key_length_swa", "attention.sliding_window",
          "attention.sliding_window_pattern", "embedding_length_per_layer_input",
          "rope.freq_base"}) {
        TinyFile tiny = tiny_gemma4();
        tiny.tensors.resize(1);
        const std::string key = std::string("gemma4.") + name;
        tiny.drop(key);
        SCOPED_TRACE(key);
        const Result<Config> config = read_config(tiny.open());
        ASSERT_FALSE(config.ok());
        EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
    }
}

TEST(Config, VocabularyAndEmbeddingRowsMustAgree) {
    TinyFile tiny = tiny_gemma4();
    tiny.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
    expect_refused(tiny, "64 rows");
}

TEST(Config, SamplingDefaultsComeFromTheFile) {
    TinyFile tiny = tiny_gemma4();
    EXPECT_EQ(config_of(tiny).sampling.top_k, 64);
    tiny.set("general.sampling.top_k", 40U);
    tiny.set("general.sampling.temp", 0.5F);
    EXPECT_EQ(config_of(tiny).sampling.top_k, 40);
    EXPECT_EQ(config_of(tiny).sampling.temperature, 0.5F);
    tiny.set("general.sampling.top_p", 7.0F);
    expect_refused(tiny, "general.sampling.top_p");
}

}  // namespace
}  // namespace lumi
