// The tiny models: metadata by hand, tensors from the model's own table, numbers from the
// generator.

#include "unit/model/tiny_file.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include <unistd.h>

namespace lumi {

namespace {

constexpr int kVocabulary = 64;

std::vector<std::byte> random_values(const std::vector<int64_t> & ne, uint64_t seed) {
    size_t count = 1;
    for (const int64_t n : ne) {
        count *= static_cast<size_t>(n);
    }
    Rng rng(seed);
    std::vector<float> values(count);
    for (float & value : values) {
        value = static_cast<float>(rng.normal() * 0.1);
    }
    std::vector<std::byte> bytes(count * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

void set_meta(GgufWriter & writer, const std::string & key, const MetaValue & value) {
    struct Visitor {
        GgufWriter & writer;
        const std::string & key;
        void operator()(uint32_t v) const { writer.set_u32(key, v); }
        void operator()(float v) const { writer.set_f32(key, v); }
        void operator()(const std::string & v) const { writer.set_string(key, v); }
        void operator()(const std::vector<int32_t> & v) const { writer.set_i32s(key, v); }
        void operator()(const std::vector<bool> & v) const { writer.set_bools(key, v); }
        void operator()(const std::vector<std::string> & v) const { writer.set_strings(key, v); }
    };
    std::visit(Visitor{writer, key}, value);
}

void add_vocabulary(TinyFile & file) {
    std::vector<std::string> tokens(kVocabulary);
    for (int i = 0; i < kVocabulary; ++i) {
        tokens[static_cast<size_t>(i)] = std::to_string(i) + "t";
    }
    file.set("tokenizer.ggml.tokens", tokens);
}

// The tensors that the metadata ask for.
void add_tensors(TinyFile & file) {
    Result<Config> config = read_config(file.open());
    EXPECT_TRUE(config.ok()) << config.error().message;
    for (LayerConfig & layer : config->layers) {
        layer.v_is_k = false;  // a file without tensors looks like one without V
    }
    Weights weights;
    for (const TensorRole & role : tensor_roles(*config, weights)) {
        if (role.required || role.name.ends_with("layer_output_scale.weight")) {
            file.add_tensor(role.name, role.ne);
        }
    }
}

}  // namespace

void TinyFile::set(const std::string & key, MetaValue value) {
    for (auto & [name, old] : meta) {
        if (name == key) {
            old = std::move(value);
            return;
        }
    }
    meta.emplace_back(key, std::move(value));
}

void TinyFile::drop(const std::string & key) {
    std::erase_if(meta, [&](const auto & pair) { return pair.first == key; });
}

TinyTensor & TinyFile::tensor(const std::string & name) {
    const auto at = std::find_if(tensors.begin(), tensors.end(),
                                 [&](const TinyTensor & t) { return t.name == name; });
    EXPECT_NE(at, tensors.end()) << name;
    return *at;
}

void TinyFile::drop_tensor(const std::string & name) {
    EXPECT_EQ(std::erase_if(tensors, [&](const TinyTensor & t) { return t.name == name; }), 1U);
}

void TinyFile::add_tensor(const std::string & name, std::vector<int64_t> ne) {
    std::vector<std::byte> data = random_values(ne, tensors.size() + 1);
    tensors.push_back({name, GGML_TYPE_F32, std::move(ne), std::move(data)});
}

std::string fresh_path(const std::string & suffix) {
    static std::atomic<int> counter = 0;
    return testing::TempDir() + "lumi_" + std::to_string(getpid()) + "_" +
           std::to_string(counter++) + suffix;
}

GgufFile TinyFile::open() const {
    GgufWriter writer;
    for (const auto & [key, value] : meta) {
        set_meta(writer, key, value);
    }
    for (const TinyTensor & t : tensors) {
        writer.add_tensor(t.name, t.type, t.ne, t.data);
    }
    const std::string path = fresh_path(".gguf");
    FileOps ops = system_file_ops();
    ops.fsync = [](int) { return 0; };  // a test need not survive a power cut
    const Status written = writer.write(path, ops);
    EXPECT_TRUE(written.ok()) << written.error().message;
    Result<GgufFile> file = GgufFile::open(path);
    EXPECT_TRUE(file.ok()) << file.error().message;
    unlink(path.c_str());  // the mapping keeps the bytes
    return std::move(file).value();
}

TinyFile tiny_gemma4() {
    TinyFile file;
    file.set("general.architecture", std::string("gemma4"));
    file.set("gemma4.block_count", 8U);
    file.set("gemma4.context_length", 128U);
    file.set("gemma4.embedding_length", 64U);
    file.set("gemma4.feed_forward_length", std::vector<int32_t>{96, 96, 96, 96, 96, 128, 128, 128});
    file.set("gemma4.attention.head_count", 2U);
    file.set("gemma4.attention.head_count_kv", 1U);
    file.set("gemma4.attention.layer_norm_rms_epsilon", 1e-6F);
    file.set("gemma4.attention.key_length", 64U);
    file.set("gemma4.attention.value_length", 64U);
    file.set("gemma4.attention.key_length_swa", 32U);
    file.set("gemma4.attention.value_length_swa", 32U);
    file.set("gemma4.attention.sliding_window", 8U);
    file.set("gemma4.attention.sliding_window_pattern",
             std::vector<bool>{true, true, false, true, true, false, true, true});
    file.set("gemma4.attention.shared_kv_layers", 3U);
    file.set("gemma4.embedding_length_per_layer_input", 16U);
    file.set("gemma4.final_logit_softcapping", 30.0F);
    file.set("gemma4.rope.freq_base", 1e6F);
    file.set("gemma4.rope.freq_base_swa", 1e4F);
    add_vocabulary(file);
    add_tensors(file);
    return file;
}

TinyFile tiny_gemma3() {
    TinyFile file;
    file.set("general.architecture", std::string("gemma3"));
    file.set("gemma3.block_count", 7U);
    file.set("gemma3.context_length", 128U);
    file.set("gemma3.embedding_length", 64U);
    file.set("gemma3.feed_forward_length", 96U);
    file.set("gemma3.attention.head_count", 2U);
    file.set("gemma3.attention.head_count_kv", 1U);
    file.set("gemma3.attention.layer_norm_rms_epsilon", 1e-6F);
    file.set("gemma3.attention.key_length", 32U);
    file.set("gemma3.attention.value_length", 32U);
    file.set("gemma3.attention.sliding_window", 8U);
    file.set("gemma3.rope.freq_base", 1e6F);
    add_vocabulary(file);
    add_tensors(file);
    return file;
}

TinyFile tiny_qwen3() {
    TinyFile file;
    file.set("general.architecture", std::string("qwen3"));
    file.set("qwen3.block_count", 3U);
    file.set("qwen3.context_length", 128U);
    file.set("qwen3.embedding_length", 64U);
    file.set("qwen3.feed_forward_length", 96U);
    file.set("qwen3.attention.head_count", 4U);
    file.set("qwen3.attention.head_count_kv", 2U);
    file.set("qwen3.attention.layer_norm_rms_epsilon", 1e-6F);
    file.set("qwen3.attention.key_length", 32U);
    file.set("qwen3.attention.value_length", 32U);
    file.set("qwen3.rope.freq_base", 1e6F);
    add_vocabulary(file);
    add_tensors(file);
    return file;
}

}  // namespace lumi
