// Inference against frozen logits of llama.cpp on the tiny models of this folder, and the proof
// that the comparison sees damage: a tensor set to one, a branch off, a window one off.
#include "session/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace lumi {
namespace {

using Bytes = std::vector<std::byte>;

// Where both were written by the same CPU kernels every logit is the same float. Other kernels sum
// in other orders, which ggml's GELU table turns into differences of the size allowed here. Damage
// must be far outside.
struct Bounds {
    double mean_kl;
    double max_difference;
    double visible_kl() const { return 20.0 * mean_kl; }
};

Bounds bounds_of(const std::string & name) {
    return name == "tiny-gemma4" ? Bounds{2e-5, 0.2} : Bounds{1e-6, 0.05};
}

std::string folder() {
    return std::string(LUMI_SOURCE_DIR) + "/tests/parity/";
}

struct Reference {
    std::vector<int32_t> tokens;
    std::vector<int32_t> rows;
    std::vector<float> logits;  // [n_vocab, rows]
};

Reference load_reference(const std::string & name) {
    const Result<GgufFile> file = GgufFile::open(folder() + "llama-" + name + ".gguf");
    EXPECT_TRUE(file.ok()) << file.error().message;
    Reference reference;
    reference.tokens = file->get_i32s("tokens").value();
    reference.rows = file->get_i32s("logit_rows").value();
    const TensorInfo * info = file->find_tensor("logits");
    reference.logits.resize(info->n_bytes / sizeof(float));
    std::memcpy(reference.logits.data(), file->tensor_data(*info).data(), info->n_bytes);
    return reference;
}

Bytes model_bytes(const std::string & name) {
    const Result<GgufFile> file = GgufFile::open(folder() + name + ".gguf");
    EXPECT_TRUE(file.ok()) << file.error().message;
    return {file->bytes().begin(), file->bytes().end()};
}

double log_normaliser(std::span<const float> logits) {
    double sum = 0.0;
    for (const float x : logits) {
        sum += std::exp(static_cast<double>(x));
    }
    return std::log(sum);
}

double kl(std::span<const float> p, std::span<const float> q) {
    const double p_norm = log_normaliser(p);
    const double q_norm = log_normaliser(q);
    double sum = 0.0;
    for (size_t i = 0; i < p.size(); ++i) {
        const double log_p = static_cast<double>(p[i]) - p_norm;
        sum += std::exp(log_p) * (log_p - static_cast<double>(q[i]) + q_norm);
    }
    return sum;
}

struct Distance {
    double mean_kl = 0.0;
    double max_difference = 0.0;
};

// How far the model in bytes is from the reference.
Distance distance(const Bytes & bytes, const Reference & reference, FlashMode flash) {
    Distance result;
    Result<GgufFile> file = GgufFile::from_bytes(bytes, "tiny model");
    EXPECT_TRUE(file.ok()) << file.error().message;
    ModelOptions model_options;
    model_options.device = "cpu";
    model_options.n_threads = 1;
    const auto model = Model::load(std::move(file).value(), model_options);
    EXPECT_TRUE(model.ok()) << model.error().message;
    SessionOptions options;
    options.n_ctx = 64;
    options.kv_type = KvType::f32;
    options.flash = flash;
    const auto session = Session::create(**model, options);
    EXPECT_TRUE(session.ok()) << session.error().message;
    const auto n_vocab = static_cast<size_t>((*model)->config().n_vocab);
    size_t row = 0;
    const Status status = (*session)->evaluate(
        reference.tokens, [&](int position, std::span<const float> logits) -> Status {
            if (row < reference.rows.size() && reference.rows[row] == position) {
                const auto theirs =
                    std::span<const float>(reference.logits).subspan(row * n_vocab, n_vocab);
                result.mean_kl += kl(theirs, logits) / static_cast<double>(reference.rows.size());
                for (size_t i = 0; i < n_vocab; ++i) {
                    const double d = static_cast<double>(std::abs(theirs[i] - logits[i]));
                    result.max_difference = std::max(result.max_difference, d);
                }
                ++row;
            }
            return {};
        });
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(row, reference.rows.size());
    return result;
}

// Sets every element of a tensor of F32.
void fill_tensor(Bytes & bytes, const TensorInfo & info, float value) {
    ASSERT_EQ(info.type, GGML_TYPE_F32);
    for (uint64_t at = 0; at < info.n_bytes; at += sizeof value) {
        std::memcpy(bytes.data() + info.offset + at, &value, sizeof value);
    }
}

// Overwrites a four-byte metadata value.
template <typename T> void set_value(Bytes & bytes, const std::string & key, T value) {
    static_assert(sizeof(T) == 4);
    const Result<GgufFile> file = GgufFile::from_bytes(bytes, "tiny model");
    ASSERT_TRUE(file.ok());
    const GgufValue * found = file->find_value(key);
    ASSERT_NE(found, nullptr) << key;
    ASSERT_EQ(found->data.size(), sizeof value) << key;
    std::memcpy(bytes.data() + (found->data.data() - bytes.data()), &value, sizeof value);
}

class LlamaParity : public testing::TestWithParam<const char *> {
  protected:
    std::string name_ = GetParam();
    Reference reference_ = load_reference(name_);
    Bytes bytes_ = model_bytes(name_);
    Bounds bounds_ = bounds_of(name_);

    void expect_visible(const Bytes & damaged, const std::string & what) {
        const Distance d = distance(damaged, reference_, FlashMode::off);
        // NaN counts as visible.
        EXPECT_FALSE(d.mean_kl < bounds_.visible_kl()) << what << ": KL " << d.mean_kl;
    }
};

TEST_P(LlamaParity, LogitsEqualTheFrozenOnes) {
    const Distance plain = distance(bytes_, reference_, FlashMode::off);
    EXPECT_LT(plain.mean_kl, bounds_.mean_kl);
    EXPECT_LT(plain.max_difference, bounds_.max_difference);
    RecordProperty("largest_logit_difference", std::to_string(plain.max_difference));
    const Distance flash = distance(bytes_, reference_, FlashMode::on);
    EXPECT_LT(flash.mean_kl, 4.0 * bounds_.mean_kl);
}

TEST_P(LlamaParity, EveryTensorMatters) {
    const Result<GgufFile> file = GgufFile::from_bytes(bytes_, name_);
    ASSERT_TRUE(file.ok());
    int n_damaged = 0;
    for (const TensorInfo & info : file->tensors()) {
        Bytes damaged = bytes_;
        fill_tensor(damaged, info, 1.0F);
        // A factor on the whole stream before the last norm is divided out there.
        if (damaged == bytes_ || info.name == "blk.7.layer_output_scale.weight") {
            continue;
        }
        expect_visible(damaged, info.name + " set to one");
        ++n_damaged;
    }
    EXPECT_GT(n_damaged, 80);
}

// The maps that close a branch, set to zero: the rest of the model stays as it is.
TEST_P(LlamaParity, EveryBranchMatters) {
    const Result<GgufFile> file = GgufFile::from_bytes(bytes_, name_);
    ASSERT_TRUE(file.ok());
    int n_branches = 0;
    for (const TensorInfo & info : file->tensors()) {
        for (const char * end : {"attn_output.weight", "ffn_down.weight", ".proj.weight",
                                 "per_layer_model_proj.weight", "per_layer_token_embd.weight"}) {
            const std::string suffix = end;
            if (info.name.size() >= suffix.size() &&
                info.name.compare(info.name.size() - suffix.size(), suffix.size(), suffix) == 0) {
                Bytes damaged = bytes_;
                fill_tensor(damaged, info, 0.0F);
                expect_visible(damaged, info.name + " set to zero");
                ++n_branches;
            }
        }
    }
    EXPECT_GE(n_branches, 14);
}

TEST_P(LlamaParity, EveryNumberOfTheConfigMatters) {
    const std::string arch = name_.substr(5) + ".";
    const Result<GgufFile> file = GgufFile::from_bytes(bytes_, name_);
    ASSERT_TRUE(file.ok());
    if (file->has(arch + "attention.sliding_window")) {
        const uint32_t window = file->get_u32(arch + "attention.sliding_window").value();
        for (const uint32_t other : {window - 1, window + 1}) {
            Bytes damaged = bytes_;
            set_value(damaged, arch + "attention.sliding_window", other);
            expect_visible(damaged, "a window of " + std::to_string(other));
        }
    }
    for (const char * key : {"rope.freq_base", "rope.freq_base_swa", "final_logit_softcapping"}) {
        if (file->has(arch + key)) {
            Bytes damaged = bytes_;
            set_value(damaged, arch + key, 10.0F);
            expect_visible(damaged, arch + key + " = 10");
        }
    }
    Bytes damaged = bytes_;
    set_value(damaged, arch + "attention.layer_norm_rms_epsilon", 0.1F);
    expect_visible(damaged, "a large epsilon");
}

INSTANTIATE_TEST_SUITE_P(Tiny, LlamaParity,
                         testing::Values("tiny-gemma4", "tiny-gemma3", "tiny-qwen3"),
                         [](const auto & test) { return std::string(test.param + 5); });

}  // namespace
}  // namespace lumi
