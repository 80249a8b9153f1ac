// Synthesised files load like downloaded ones, have exactly the published shapes, and are the same
// for the same seed.

#include "synth/synth.h"

#include "model/model.h"
#include "synth/metadata.h"
#include "synth/shapes.h"
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include <unistd.h>

namespace lumi {
namespace {

class TempFile {
  public:
    explicit TempFile(const std::string & name)
        : path_(testing::TempDir() + "lumi_synth_" + std::to_string(getpid()) + "_" + name) {}
    ~TempFile() { unlink(path_.c_str()); }
    TempFile(const TempFile &) = delete;
    TempFile & operator=(const TempFile &) = delete;
    const std::string & path() const { return path_; }

  private:
    std::string path_;
};

// Writes the shape and opens it; the name disappears, the mapping stays.
GgufFile synth(const SynthOptions & options) {
    const TempFile file(options.shape + options.type + std::to_string(options.seed) + ".gguf");
    const Status status = write_synth_model(options, file.path());
    EXPECT_TRUE(status.ok()) << status.error().message;
    Result<GgufFile> opened = GgufFile::open(file.path());
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(opened).value();
}

GgufFile synth(const char * shape, const char * type, uint64_t seed = 42) {
    SynthOptions options;
    options.shape = shape;
    options.type = type;
    options.seed = seed;
    return synth(options);
}

Config shape_config(std::string_view name) {
    for (const SynthShape & shape : all_shapes()) {
        if (name == shape.name) {
            return shape.config();
        }
    }
    ADD_FAILURE() << name;
    return {};
}

void expect_equal(const Config & a, const Config & b) {
    EXPECT_EQ(a.arch, b.arch);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.n_embd, b.n_embd);
    EXPECT_EQ(a.n_vocab, b.n_vocab);
    EXPECT_EQ(a.n_ctx_train, b.n_ctx_train);
    EXPECT_EQ(a.window, b.window);
    EXPECT_EQ(a.n_ple, b.n_ple);
    EXPECT_EQ(a.eps, b.eps);
    EXPECT_EQ(a.attention_scale, b.attention_scale);
    EXPECT_EQ(a.embedding_scale, b.embedding_scale);
    EXPECT_EQ(a.softcap, b.softcap);
    EXPECT_EQ(a.v_norm, b.v_norm);
    EXPECT_EQ(a.post_norms, b.post_norms);
    ASSERT_EQ(a.layers.size(), b.layers.size());
    for (size_t il = 0; il < a.layers.size(); ++il) {
        SCOPED_TRACE(il);
        const LayerConfig & x = a.layers[il];
        const LayerConfig & y = b.layers[il];
        EXPECT_EQ(x.is_swa, y.is_swa);
        EXPECT_EQ(x.has_kv, y.has_kv);
        EXPECT_EQ(x.kv_source, y.kv_source);
        EXPECT_EQ(x.n_head, y.n_head);
        EXPECT_EQ(x.n_head_kv, y.n_head_kv);
        EXPECT_EQ(x.head_dim, y.head_dim);
        EXPECT_EQ(x.n_rot, y.n_rot);
        EXPECT_EQ(x.n_ff, y.n_ff);
        EXPECT_EQ(x.rope_base, y.rope_base);
        EXPECT_EQ(x.rope_scale, y.rope_scale);
        EXPECT_EQ(x.rope_factors, y.rope_factors);
        EXPECT_EQ(x.v_is_k, y.v_is_k);
    }
}

TEST(Synth, TinyModelsOfEveryTypeLoad) {
    for (const char * type : {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K",
                              "Q5_K", "Q6_K", "q4_k_m"}) {
        for (const char * shape : {"tiny", "tiny-gemma3", "tiny-qwen3"}) {
            SCOPED_TRACE(std::string(shape) + " " + type);
            ModelOptions options;
            options.device = "cpu";
            const Result<std::unique_ptr<Model>> model = Model::load(synth(shape, type), options);
            ASSERT_TRUE(model.ok()) << model.error().message;
            expect_equal((*model)->config(), shape_config(shape));
        }
    }
}

TEST(Synth, TheUsualMixUsesItsTypes) {
    const GgufFile file = synth("tiny", "Q4_K_M");
    EXPECT_EQ(file.find_tensor("token_embd.weight")->type, GGML_TYPE_Q6_K);
    EXPECT_EQ(file.find_tensor("per_layer_token_embd.weight")->type, GGML_TYPE_Q5_K);
    EXPECT_EQ(file.find_tensor("per_layer_model_proj.weight")->type, GGML_TYPE_BF16);
    EXPECT_EQ(file.find_tensor("blk.0.attn_v.weight")->type, GGML_TYPE_Q6_K);
    EXPECT_EQ(file.find_tensor("blk.1.attn_v.weight")->type, GGML_TYPE_Q4_K);
    EXPECT_EQ(file.find_tensor("blk.0.attn_q.weight")->type, GGML_TYPE_Q4_K);
    EXPECT_EQ(file.find_tensor("blk.0.proj.weight")->type, GGML_TYPE_Q5_0);  // rows of 64
    EXPECT_EQ(file.find_tensor("blk.0.attn_norm.weight")->type, GGML_TYPE_F32);
}

TEST(Synth, TheSameSeedGivesTheSameBytesAndAnotherSeedOthers) {
    const GgufFile a = synth("tiny", "Q4_K_M", 1);
    const GgufFile b = synth("tiny", "Q4_K_M", 1);
    const GgufFile c = synth("tiny", "Q4_K_M", 2);
    ASSERT_EQ(a.bytes().size(), b.bytes().size());
    EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin()));
    for (const TensorInfo & info : a.tensors()) {
        const auto x = a.tensor_data(info);
        const auto y = c.tensor_data(*c.find_tensor(info.name));
        const bool same = std::equal(x.begin(), x.end(), y.begin(), y.end());
        EXPECT_EQ(same, info.name == "rope_freqs.weight") << info.name;
    }
}

TEST(Synth, NormsAndScalesStayAwayFromZero) {
    const GgufFile file = synth("tiny", "F32");
    for (const TensorInfo & info : file.tensors()) {
        if (info.n_dims != 1) {
            continue;
        }
        const auto * values = reinterpret_cast<const float *>(file.tensor_data(info).data());
        for (int64_t i = 0; i < info.ne[0]; ++i) {
            EXPECT_TRUE(std::isfinite(values[i]) && values[i] > 0.1F) << info.name << " " << i;
        }
    }
}

struct Published {
    const char * shape;
    size_t n_tensors;
    uint64_t n_parameters;
};

// Counts of the published files: tensors, and parameters summed from the groups they list.
TEST(Synth, LargeShapesHaveThePublishedCounts) {
    constexpr Published kPublished[] = {{"e4b", 720, 7518069290},
                                        {"e2b", 601, 4647450147},
                                        {"gemma3-270m", 236, 268098176},
                                        {"qwen3-0.6b", 310, 596049920}};
    for (const Published & published : kPublished) {
        SCOPED_TRACE(published.shape);
        const Config config = shape_config(published.shape);
        Weights weights;
        size_t n_tensors = 0;
        uint64_t n_parameters = 0;
        for (const TensorRole & role : tensor_roles(config, weights)) {
            if (role.name != "output.weight") {
                ++n_tensors;
                uint64_t count = 1;
                for (const int64_t n : role.ne) {
                    count *= static_cast<uint64_t>(n);
                }
                n_parameters += count;
            }
        }
        EXPECT_EQ(n_tensors, published.n_tensors);
        EXPECT_EQ(n_parameters, published.n_parameters);
    }
}

TEST(Synth, MetadataOfTheLargeShapesAreReadBackEqual) {
    for (const char * name : {"e4b", "e2b", "gemma3-270m", "qwen3-0.6b"}) {
        SCOPED_TRACE(name);
        const Config config = shape_config(name);
        GgufWriter writer;
        write_config_metadata(config, writer);
        // One row of the right width stands for the table, and one V for "V is not K".
        const std::vector<float> row(static_cast<size_t>(config.n_vocab), 0.5F);
        const int64_t embd_ne[] = {1, config.n_vocab};
        writer.add_tensor("token_embd.weight", GGML_TYPE_F32, embd_ne,
                          std::as_bytes(std::span(row)));
        const int64_t v_ne[] = {1};
        for (int il = 0; il < config.n_layer; ++il) {
            writer.add_tensor(module_weight_name(il, Module::v), GGML_TYPE_F32, v_ne,
                              std::as_bytes(std::span(row).first(1)));
        }
        const TempFile file(std::string(name) + "_header.gguf");
        ASSERT_TRUE(writer.write(file.path()).ok());
        const Result<GgufFile> opened = GgufFile::open(file.path());
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        const Result<Config> read = read_config(*opened);
        ASSERT_TRUE(read.ok()) << read.error().message;
        expect_equal(*read, config);
    }
}

TEST(Synth, BuiltInVocabulariesTokenizeText) {
    for (const char * shape : {"tiny", "tiny-gemma3", "tiny-qwen3"}) {
        SCOPED_TRACE(shape);
        const Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(synth(shape, "Q8_0"));
        ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
        EXPECT_EQ((*tokenizer)->n_tokens(), 512);
        EXPECT_EQ((*tokenizer)->add_bos(), std::string(shape) != "tiny-qwen3");
        const std::string text = "What is the name of my city?\n\nIt lives in M\xc3\xbcnchen.";
        const std::vector<TokenId> ids = (*tokenizer)->encode(text, Tokenizer::Specials::untrusted);
        EXPECT_LT(ids.size(), text.size() - 10) << "merges are used";
        EXPECT_EQ((*tokenizer)->decode(ids, false), text);
        const char * end_of_turn = std::string(shape) == "tiny"          ? "<turn|>"
                                   : std::string(shape) == "tiny-gemma3" ? "<end_of_turn>"
                                                                         : "<|im_end|>";
        EXPECT_TRUE((*tokenizer)->is_end((*tokenizer)->find(end_of_turn)));
    }
}

TEST(Synth, AGivenVocabularyIsCopiedAndSetsTheSize) {
    const GgufFile vocab = synth("tiny-gemma3", "Q8_0");
    SynthOptions options;
    options.shape = "tiny";
    options.type = "Q8_0";
    options.vocab = &vocab;
    const GgufFile file = synth(options);
    EXPECT_EQ(*file.get_string("tokenizer.ggml.model"), "llama");
    EXPECT_EQ(*file.get_strings("tokenizer.ggml.tokens"),
              *vocab.get_strings("tokenizer.ggml.tokens"));
    EXPECT_EQ(read_config(file)->n_vocab, 512);
}

TEST(Synth, UnknownNamesListTheKnownOnes) {
    SynthOptions options;
    options.shape = "e5b";
    Status status = write_synth_model(options, "unused.gguf");
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("e4b"), std::string::npos);
    options.shape = "tiny";
    options.type = "Q3_X";
    status = write_synth_model(options, "unused.gguf");
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("Q4_K_M"), std::string::npos);
    EXPECT_EQ(synth_shapes().size(), all_shapes().size());
}

TEST(Synth, ProgressRisesToOne) {
    SynthOptions options;
    options.type = "Q4_0";
    double last = 0;
    options.progress = [&](double fraction) {
        EXPECT_GE(fraction, last);
        last = fraction;
    };
    (void)synth(options);
    EXPECT_DOUBLE_EQ(last, 1.0);
}

}  // namespace
}  // namespace lumi
