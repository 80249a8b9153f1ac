// Synthesised models use all that their family has: at every layer each branch carries at least a
// hundredth of the stream, and logits reach where the softcap bends. What is less could be broken
// without a parity test showing it.
#include "base/rng.h"
#include "parity/tiny_model.h"
#include "support/temp_dir.h"
#include "synth/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

namespace lumi::test {
namespace {

constexpr double kLeast = 0.01;
constexpr int kTokens = 48;  // six windows

TinyModel load(const std::string & path) {
    ModelOptions options;
    options.device = "cpu";
    options.n_threads = 1;
    options.repack = false;
    TinyModel tiny;
    tiny.model = Model::load(GgufFile::open(path).value(), options).value();
    tiny.config = tiny.model->config();
    tiny.weights = tiny.model->plain_weights();
    return tiny;
}

// LUMI_SYNTHESISED_GEMMA4, when set, names a larger file to look at in place of the tiny one.
TinyModel synthesised(const std::string & shape) {
    const char * larger = std::getenv("LUMI_SYNTHESISED_GEMMA4");
    if (larger != nullptr && shape == "tiny") {
        return load(larger);
    }
    const TempDir folder;
    SynthOptions synth;
    synth.shape = shape;
    synth.type = "F32";
    const std::string path = folder.file("model.gguf");
    EXPECT_TRUE(write_synth_model(synth, path).ok());
    return load(path);
}

Floats values(const ggml_tensor * tensor) {
    Floats out(static_cast<size_t>(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, out.data(), 0, out.size() * sizeof(float));
    return out;
}

double norm(const Floats & x) {
    double sum = 0;
    for (const float v : x) {
        sum += static_cast<double>(v) * static_cast<double>(v);
    }
    return std::sqrt(sum);
}

// The sums of one layer in order, stream + branch, and its end.
struct LayerNodes {
    std::vector<ggml_tensor *> sums;
    ggml_tensor * hidden = nullptr;
};

// A decoder over random tokens whose sums keep their memory.
class Branches {
  public:
    explicit Branches(const TinyModel & tiny) : tiny_(tiny) {
        const Config & config = tiny.config;
        context_.reset(ggml_init({graph_context_bytes(kNodes), nullptr, true}));
        g_.ctx = context_.get();
        graph_ = ggml_new_graph_custom(context_.get(), kNodes, false);
        const GraphInputs inputs =
            make_inputs(context_.get(), config, {kTokens, kTokens, kTokens, kTokens}, false, false);
        const DecoderModel model = {&config, &tiny.weights, nullptr};
        const StemResult stem = build_stem(g_, model, inputs);
        ggml_tensor * hidden = stem.hidden;
        std::vector<KeyValue> own;
        for (int il = 0; il < config.n_layer; ++il) {
            const auto index = static_cast<size_t>(il);
            const LayerConfig & layer = config.layers[index];
            const KeyValue source =
                layer.has_kv ? KeyValue() : own[static_cast<size_t>(layer.kv_source)];
            const int first = ggml_graph_n_nodes(graph_);
            const LayerResult result =
                build_layer(g_, graph_, model, inputs, il, hidden,
                            index < stem.ple.size() ? stem.ple[index] : nullptr, source, nullptr);
            own.push_back(result.own);
            hidden = result.hidden;
            keep(hidden);
            ggml_build_forward_expand(graph_, hidden);
            layers.push_back({sums_since(first), hidden});
        }
        logits = build_head(g_, model, hidden);
        keep(logits);
        ggml_build_forward_expand(graph_, logits);
        allocator_.reset(ggml_gallocr_new(tiny.model->device().buffer_type()));
        EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator_.get(), graph_));
        Rng rng(7);
        std::vector<int32_t> tokens(kTokens);
        for (int32_t & token : tokens) {
            token = static_cast<int32_t>(rng.below(static_cast<uint64_t>(config.n_vocab)));
        }
        fill_inputs(inputs, tiny, tokens, all_rows(tokens.size()), config.window);
        EXPECT_TRUE(tiny.model->device().compute(graph_).ok());
    }

    std::vector<LayerNodes> layers;
    ggml_tensor * logits = nullptr;

  private:
    static constexpr size_t kNodes = 4096;

    static void keep(ggml_tensor * tensor) { ggml_set_output(tensor); }

    std::vector<ggml_tensor *> sums_since(int first) {
        std::vector<ggml_tensor *> sums;
        for (int i = first; i < ggml_graph_n_nodes(graph_); ++i) {
            ggml_tensor * node = ggml_graph_node(graph_, i);
            if (node->op == GGML_OP_ADD && node->ne[0] == tiny_.config.n_embd &&
                node->ne[1] == kTokens) {
                keep(node);
                keep(node->src[1]);
                sums.push_back(node);
            }
        }
        return sums;
    }

    const TinyModel & tiny_;
    GgmlContext context_;
    GgmlAllocator allocator_;
    GraphContext g_;
    ggml_cgraph * graph_ = nullptr;
};

void expect_every_branch(const char * shape, const std::vector<const char *> & names, bool scaled) {
    const TinyModel tiny = synthesised(shape);
    const Branches run(tiny);
    std::vector<double> least(names.size(), 1e9);
    double least_scaling = 1e9;
    for (size_t il = 0; il < run.layers.size(); ++il) {
        const LayerNodes & layer = run.layers[il];
        ASSERT_EQ(layer.sums.size(), names.size()) << "layer " << il;
        for (size_t i = 0; i < names.size(); ++i) {
            const double share = norm(values(layer.sums[i]->src[1])) / norm(values(layer.sums[i]));
            EXPECT_GE(share, kLeast) << "layer " << il << ", " << names[i];
            least[i] = std::min(least[i], share);
        }
        if (scaled) {
            const double effect = relative_l2(values(layer.hidden), values(layer.sums.back()));
            EXPECT_GE(effect, kLeast) << "layer " << il << ", scale";
            least_scaling = std::min(least_scaling, effect);
        }
    }
    std::cout << tiny.config.name << ": the least share of the stream:";
    for (size_t i = 0; i < names.size(); ++i) {
        std::cout << " " << names[i] << " " << least[i];
    }
    std::cout << (scaled ? ", scale " + std::to_string(least_scaling) : "") << "\n";
    if (tiny.config.softcap <= 0) {
        return;
    }
    double best = 0;
    for (const float logit : values(run.logits)) {
        best = std::max(best, std::abs(static_cast<double>(logit)));
    }
    const double reached = best / static_cast<double>(tiny.config.softcap);
    std::cout << "largest logit: " << reached << " of the softcap\n";
    EXPECT_GE(reached, 0.5);  // the slope there is three quarters
    EXPECT_LT(reached, 1.0);
}

TEST(Branches, EachCountsInASynthesisedGemma4) {
    expect_every_branch("tiny", {"attention", "feed forward", "PLE"}, true);
}

TEST(Branches, EachCountsInASynthesisedGemma3) {
    expect_every_branch("tiny-gemma3", {"attention", "feed forward"}, false);
}

TEST(Branches, EachCountsInASynthesisedQwen3) {
    expect_every_branch("tiny-qwen3", {"attention", "feed forward"}, false);
}

}  // namespace
}  // namespace lumi::test
