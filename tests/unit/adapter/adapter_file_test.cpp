// Adapters written and read back: llama.cpp's layout, number for number.
#include "small_adapter.h"

#include "base/log.h"
#include "gguf/gguf_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace lumi {

namespace {

Result<AdapterData> load(const std::string & path, const Config & config,
                         const std::string & fingerprint = "") {
    GgufFile file = LUMI_TRY(GgufFile::open(path));
    return load_adapter(file, config, fingerprint);
}

TEST(AdapterFile, KeepsEveryNumberAndTheRecord) {
    const TempFolder folder;
    const Config config = small_config();
    AdapterData saved = filled_adapter(config, 1);
    saved.record["train.epochs"] = "3";
    saved.base_fingerprint = "abc";
    ASSERT_TRUE(save_adapter(saved, config, folder.file("a.gguf")).ok());
    const auto loaded = load(folder.file("a.gguf"), config, "abc");
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->alpha, 6.0F);
    EXPECT_EQ(loaded->record, saved.record);
    EXPECT_EQ(loaded->base_fingerprint, "abc");
    ASSERT_EQ(loaded->pairs.size(), saved.pairs.size());
    for (size_t i = 0; i < saved.pairs.size(); ++i) {
        EXPECT_EQ(loaded->pairs[i].layer, saved.pairs[i].layer);
        EXPECT_EQ(loaded->pairs[i].module, saved.pairs[i].module);
        EXPECT_EQ(loaded->pairs[i].rank, 4);
        EXPECT_EQ(loaded->pairs[i].a, saved.pairs[i].a);
        EXPECT_EQ(loaded->pairs[i].b, saved.pairs[i].b);
    }
}

TEST(AdapterFile, HasLlamaCppKeysNamesAndShapes) {
    const TempFolder folder;
    const Config config = small_config();
    ASSERT_TRUE(save_adapter(filled_adapter(config, 1), config, folder.file("a.gguf")).ok());
    const auto file = GgufFile::open(folder.file("a.gguf"));
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->get_string("general.type").value(), "adapter");
    EXPECT_EQ(file->get_string("general.architecture").value(), "gemma4");
    EXPECT_EQ(file->get_string("adapter.type").value(), "lora");
    EXPECT_EQ(file->type_of("adapter.lora.alpha").value(), GgufType::f32);
    const TensorInfo * a = file->find_tensor("blk.1.attn_output.weight.lora_a");
    const TensorInfo * b = file->find_tensor("blk.1.attn_output.weight.lora_b");
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(a->ne[0], 64);  // two heads of 32
    EXPECT_EQ(a->ne[1], 4);
    EXPECT_EQ(b->ne[0], 4);
    EXPECT_EQ(b->ne[1], 32);
    EXPECT_EQ(a->type, GGML_TYPE_F32);
    EXPECT_EQ(file->find_tensor("blk.2.attn_k.weight.lora_a"), nullptr);
}

TEST(AdapterFile, ReadsHalfPrecisionAndQ8) {
    const TempFolder folder;
    const Config config = small_config();
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
        const int64_t ne[2] = {32, 32};  // rank 32: both halves are the same bytes
        std::vector<float> values(32 * 32);
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>(static_cast<int>(i % 255) - 127) / 64.0F;
        }
        std::vector<std::byte> packed(ggml_row_size(type, 32) * 32);
        ggml_quantize_chunk(type, values.data(), packed.data(), 0, 32, 32, nullptr);
        GgufWriter writer;
        writer.set_string("general.type", "adapter");
        writer.set_string("general.architecture", "gemma4");
        writer.set_string("adapter.type", "lora");
        writer.set_f32("adapter.lora.alpha", 8.0F);
        writer.add_tensor("blk.0.attn_q.weight.lora_a", type, ne, packed);
        writer.add_tensor("blk.0.attn_q.weight.lora_b", type, ne, packed);
        ASSERT_TRUE(writer.write(folder.file("t.gguf")).ok());
        const auto loaded = load(folder.file("t.gguf"), config);
        ASSERT_TRUE(loaded.ok()) << loaded.error().message;
        for (size_t i = 0; i < values.size(); ++i) {
            EXPECT_NEAR(loaded->pairs[0].a[i], values[i], 0.02) << ggml_type_name(type);
        }
    }
}

TEST(AdapterFile, NonFiniteAdapterIsNotSavedAndTheOldFileStays) {
    const TempFolder folder;
    const Config config = small_config();
    const AdapterData good = filled_adapter(config, 1);
    ASSERT_TRUE(save_adapter(good, config, folder.file("a.gguf")).ok());
    AdapterData bad = good;
    bad.pairs[2].b[5] = std::numeric_limits<float>::quiet_NaN();
    const Status status = save_adapter(bad, config, folder.file("a.gguf"));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::numeric);
    EXPECT_NE(status.error().message.find("blk.0.attn_v.weight.lora_b"), std::string::npos);
    const auto loaded = load(folder.file("a.gguf"), config);
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(loaded->pairs[2].b, good.pairs[2].b);
}

TEST(AdapterFile, WarnsAboutAnotherBaseButLoads) {
    const TempFolder folder;
    const Config config = small_config();
    AdapterData saved = filled_adapter(config, 1);
    saved.base_fingerprint = "one";
    ASSERT_TRUE(save_adapter(saved, config, folder.file("a.gguf")).ok());
    std::vector<std::string> warnings;
    set_log_sink([&](LogLevel level, std::string_view text) {
        if (level == LogLevel::warning) {
            warnings.emplace_back(text);
        }
    });
    EXPECT_TRUE(load(folder.file("a.gguf"), config, "one").ok());
    EXPECT_TRUE(warnings.empty());
    EXPECT_TRUE(load(folder.file("a.gguf"), config, "two").ok());
    set_log_sink({});
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].find("another base model"), std::string::npos);
}

// cases/training.md L38: a new adapter changes nothing.
TEST(MakeAdapter, StartsWithBZeroAndAWithinTheBound) {
    const Config config = small_config();
    const PresentWeights present(config);
    const AdapterData adapter = make_adapter(config, present.weights, {}, 4, 8.0F, 7);
    EXPECT_EQ(adapter.pairs.size(), 4U * 7U - 4U);  // no K and V in the two sharing layers
    for (const LoraMatrixPair & pair : adapter.pairs) {
        const double bound = 1.0 / std::sqrt(static_cast<double>(pair.n_in));
        double largest = 0;
        for (const float a : pair.a) {
            largest = std::max(largest, std::abs(static_cast<double>(a)));
        }
        EXPECT_LE(largest, bound);
        EXPECT_GT(largest, 0.8 * bound);
        EXPECT_EQ(std::count(pair.b.begin(), pair.b.end(), 0.0F), static_cast<long>(pair.b.size()));
    }
}

// cases/training.md L35, L42: the seed decides every number, and different seeds differ.
TEST(MakeAdapter, SeedDecidesEveryNumber) {
    const Config config = small_config();
    const PresentWeights present(config);
    const auto make = [&](uint64_t seed) {
        return make_adapter(config, present.weights, {}, 4, 8.0F, seed);
    };
    const AdapterData one = make(7);
    const AdapterData same = make(7);
    const AdapterData other = make(8);
    for (size_t i = 0; i < one.pairs.size(); ++i) {
        EXPECT_EQ(one.pairs[i].a, same.pairs[i].a);
        EXPECT_NE(one.pairs[i].a, other.pairs[i].a);
    }
}

}  // namespace

}  // namespace lumi
