// Every way an adapter file can lie, one test each (cases/training.md L14, L41). Each case differs
// from a file that loads in one thing only.
#include "small_adapter.h"

#include "base/log.h"
#include "gguf/gguf_writer.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

namespace lumi {

namespace {

constexpr float kMarker = 1234.5F;  // replaced in the file's bytes by what the writer would refuse

struct FileTensor {
    std::string name;
    std::vector<int64_t> ne;
    ggml_type type = GGML_TYPE_F32;
};

// What goes into a file, before it is written.
struct Description {
    std::map<std::string, std::string> strings = {
        {"general.type", "adapter"}, {"general.architecture", "gemma4"}, {"adapter.type", "lora"}};
    bool has_alpha = true;
    float alpha = 8.0F;
    std::vector<FileTensor> tensors = {{"blk.0.attn_q.weight.lora_a", {32, 4}},
                                       {"blk.0.attn_q.weight.lora_b", {4, 32}},
                                       {"blk.3.ffn_down.weight.lora_a", {96, 4}},
                                       {"blk.3.ffn_down.weight.lora_b", {4, 32}}};
};

class AdapterRefusal : public testing::Test {
  protected:
    void write(const Description & d) {
        GgufWriter writer;
        for (const auto & [key, value] : d.strings) {
            writer.set_string(key, value);
        }
        if (d.has_alpha) {
            writer.set_f32("adapter.lora.alpha", d.alpha);
        }
        const std::vector<float> data(96 * 96, kMarker);
        for (const FileTensor & t : d.tensors) {
            const size_t bytes = ggml_row_size(t.type, t.ne[0]) * static_cast<size_t>(t.ne[1]);
            writer.add_tensor(t.name, t.type, t.ne, std::as_bytes(std::span(data)).first(bytes));
        }
        const Status status = writer.write(path());
        ASSERT_TRUE(status.ok()) << status.error().message;
    }

    // Replaces the first occurrence of a byte string in the file by another of the same length.
    void patch(std::string_view from, std::string_view to) {
        std::ifstream in(path(), std::ios::binary);
        std::string bytes((std::istreambuf_iterator<char>(in)), {});
        const size_t at = bytes.find(from);
        ASSERT_NE(at, std::string::npos);
        ASSERT_EQ(from.size(), to.size());
        bytes.replace(at, from.size(), to);
        std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
    }

    Result<AdapterData> load() {
        GgufFile file = LUMI_TRY(GgufFile::open(path()));
        return load_adapter(file, small_config(), "");
    }

    // The file must be refused and the message must hold `words`.
    void expect_refused(const std::string & words) {
        const auto loaded = load();
        ASSERT_FALSE(loaded.ok());
        EXPECT_NE(loaded.error().message.find(words), std::string::npos) << loaded.error().message;
    }

    std::string path() const { return folder_.file("a.gguf"); }

  private:
    TempFolder folder_;
};

TEST_F(AdapterRefusal, NothingWhenNothingIsWrong) {
    write({});
    const auto loaded = load();
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->pairs.size(), 2U);
}

TEST_F(AdapterRefusal, OfAModelFile) {
    Description d;
    d.strings["general.type"] = "model";
    write(d);
    expect_refused("general.type is 'model'");
    d.strings.erase("general.type");
    write(d);
    expect_refused("general.type is missing");
}

TEST_F(AdapterRefusal, OfAnotherKindOfAdapter) {
    Description d;
    d.strings["adapter.type"] = "control_vector";
    write(d);
    expect_refused("only LoRA");
}

TEST_F(AdapterRefusal, OfAnotherArchitecture) {
    Description d;
    d.strings["general.architecture"] = "qwen3";
    write(d);
    expect_refused("'qwen3', expected 'gemma4'");
}

TEST_F(AdapterRefusal, OfActivatedLora) {
    Description d;
    d.strings["adapter.alora.invocation_tokens"] = "x";
    write(d);
    expect_refused("activated LoRA");
}

TEST_F(AdapterRefusal, OfMissingZeroNegativeAndNonFiniteAlpha) {
    Description d;
    d.has_alpha = false;
    write(d);
    expect_refused("adapter.lora.alpha is missing");
    d.has_alpha = true;
    for (const float alpha : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity()}) {
        d.alpha = alpha;
        write(d);
        expect_refused("numbers above 0");
    }
}

TEST_F(AdapterRefusal, OfHalfAPair) {
    Description d;
    d.tensors.erase(d.tensors.begin() + 1);
    write(d);
    expect_refused("blk.0.attn_q.weight has a .lora_a but no .lora_b");
    d = {};
    d.tensors.erase(d.tensors.begin());
    write(d);
    expect_refused("blk.0.attn_q.weight has a .lora_b but no .lora_a");
}

TEST_F(AdapterRefusal, OfTensorsTheModelDoesNotHave) {
    for (const char * name :
         {"blk.4.attn_q.weight.lora_a", "blk.0.attn_r.weight.lora_a", "blk.-1.attn_q.weight.lora_a",
          "token_embd.weight.lora_a", "blk.99999999999999999999.attn_q.weight.lora_a"}) {
        Description d;
        d.tensors[0].name = name;
        write(d);
        expect_refused(name);
    }
}

TEST_F(AdapterRefusal, OfTensorsThatAreNotPairs) {
    Description d;
    d.tensors.push_back({"blk.0.attn_norm.weight", {32, 1}});
    write(d);
    expect_refused("neither a .lora_a nor a .lora_b");
}

TEST_F(AdapterRefusal, OfAFileWithoutPairs) {
    Description d;
    d.tensors.clear();
    write(d);
    EXPECT_FALSE(load().ok());
}

TEST_F(AdapterRefusal, OfWrongShapes) {
    Description d;
    d.tensors[0].ne = {64, 4};
    write(d);
    expect_refused("expected [32, rank] and [rank, 32]");
    d = {};
    d.tensors[1].ne = {4, 64};
    write(d);
    expect_refused("expected [32, rank] and [rank, 32]");
    d = {};
    d.tensors[0].ne = {4, 32};  // transposed
    d.tensors[1].ne = {32, 4};
    write(d);
    expect_refused("expected [32, rank] and [rank, 32]");
}

TEST_F(AdapterRefusal, OfUnequalAndHugeRanks) {
    Description d;
    d.tensors[1].ne = {8, 32};
    write(d);
    expect_refused("rank is 4 in lora_a and 8 in lora_b");
    d.tensors[0].ne = {32, 96};
    d.tensors[1].ne = {96, 32};
    write(d);
    expect_refused("from 1 to 32");
}

TEST_F(AdapterRefusal, OfRankZero) {
    write({});
    // The rank of the first lora_a: its dimensions follow the name and the count of dimensions.
    const auto dims = [](int64_t in, int64_t rank) {
        std::string text = "attn_q.weight.lora_a" + std::string("\2\0\0\0", 4);
        for (const int64_t n : {in, rank}) {
            text.append(reinterpret_cast<const char *>(&n), sizeof n);
        }
        return text;
    };
    patch(dims(32, 4), dims(32, 0));
    EXPECT_FALSE(load().ok());
}

TEST_F(AdapterRefusal, OfDuplicateTensors) {
    write({});
    patch("blk.0.attn_q.weight.lora_b", "blk.0.attn_q.weight.lora_a");
    EXPECT_FALSE(load().ok());
}

TEST_F(AdapterRefusal, OfNumbersThatAreNotFinite) {
    const auto bytes = [](float x) {
        return std::string(reinterpret_cast<const char *>(&x), sizeof x);
    };
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        write({});
        patch(bytes(kMarker), bytes(bad));
        expect_refused("blk.0.attn_q.weight.lora_a holds a number that is not finite");
    }
}

TEST_F(AdapterRefusal, OfTypesNobodyWrites) {
    Description d;
    d.tensors[2].type = GGML_TYPE_Q4_0;
    write(d);
    expect_refused("may be F32, F16, BF16 or Q8_0");
}

// Not a refusal: third-party trainers write these pairs, and nothing would read them.
TEST_F(AdapterRefusal, NotOfDeadKeysAndValuesWhichAreDroppedWithAWarning) {
    std::string warning;
    set_log_sink([&](LogLevel, std::string_view text) { warning = text; });
    Description d;
    d.tensors.push_back({"blk.2.attn_k.weight.lora_a", {32, 4}});
    d.tensors.push_back({"blk.2.attn_k.weight.lora_b", {4, 16}});
    write(d);
    const auto loaded = load();
    set_log_sink({});
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->pairs.size(), 2U);
    EXPECT_NE(warning.find("1 pairs adapt K or V"), std::string::npos) << warning;
}

}  // namespace

}  // namespace lumi
