// What the writer writes, read back by our reader and by ggml's, and what it refuses to write.
#include "gguf/gguf_writer.h"

#include "support/gguf_bytes.h"
#include "support/gguf_walk.h"
#include "support/temp_dir.h"

#include <gguf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace lumi {

namespace {

std::span<const std::byte> bytes_of(const std::vector<float> & values) {
    return std::as_bytes(std::span(values));
}

class GgufWriting : public testing::Test {
  protected:
    TempDir dir_;
    std::string path_ = dir_.file("out.gguf");
    GgufWriter writer_;

    std::string error() {
        const Status done = writer_.write(path_);
        EXPECT_FALSE(done) << "it was written";
        EXPECT_EQ(dir_.count(), 0U) << "something was left behind";
        return done ? "" : done.error().message;
    }
    void add(const std::string & name, std::vector<int64_t> ne, const std::vector<float> & values) {
        writer_.add_tensor(name, GGML_TYPE_F32, ne, bytes_of(values));
    }
};

TEST_F(GgufWriting, EveryValueTypeComesBack) {
    writer_.set_string("s", "text \xe2\x96\x81");
    writer_.set_u32("u32", 4000000000U);
    writer_.set_u64("u64", 1ULL << 63);
    writer_.set_i32("i32", -5);
    writer_.set_f32("f32", 0.1F);
    writer_.set_bool("b", true);
    writer_.set_strings("ss", std::vector<std::string>{"", "a", "bc"});
    writer_.set_i32s("is", std::vector<int32_t>{1, -2});
    writer_.set_f32s("fs", std::vector<float>{1.5F});
    writer_.set_bools("bs", {true, false, true});
    ASSERT_TRUE(writer_.write(path_));
    const auto file = GgufFile::open(path_);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->version(), 3U);
    EXPECT_EQ(file->get_string("s").value(), "text \xe2\x96\x81");
    EXPECT_EQ(file->get_u32("u32").value(), 4000000000U);
    EXPECT_EQ(file->value_text("u64"), "9223372036854775808");
    EXPECT_EQ(file->type_of("i32").value(), GgufType::i32);
    EXPECT_EQ(file->get_i64("i32").value(), -5);
    EXPECT_EQ(file->get_f32("f32").value(), 0.1F);
    EXPECT_TRUE(file->get_bool("b").value());
    EXPECT_EQ(file->get_strings("ss").value(), (std::vector<std::string_view>{"", "a", "bc"}));
    EXPECT_EQ(file->get_i32s("is").value(), (std::vector<int32_t>{1, -2}));
    EXPECT_EQ(file->get_f32s("fs").value(), (std::vector<float>{1.5F}));
    EXPECT_EQ(file->get_bools("bs").value(), (std::vector<bool>{true, false, true}));
}

TEST_F(GgufWriting, GgmlReadsTheSameTensors) {
    const std::vector<float> a = {1, 2, 3}, b(64, 0.25F);
    writer_.set_string("general.architecture", "tiny");
    add("a", {3}, a);
    add("b", {32, 2}, b);
    ASSERT_TRUE(writer_.write(path_));
    const auto file = GgufFile::open(path_);
    ASSERT_TRUE(file) << file.error().message;

    gguf_context * theirs = gguf_init_from_file(path_.c_str(), {true, nullptr});
    ASSERT_NE(theirs, nullptr);
    EXPECT_EQ(gguf_get_n_kv(theirs), 1);
    ASSERT_EQ(gguf_get_n_tensors(theirs), 2);
    for (int i = 0; i < 2; ++i) {
        const TensorInfo & ours = file->tensors()[static_cast<size_t>(i)];
        EXPECT_EQ(ours.name, gguf_get_tensor_name(theirs, i));
        EXPECT_EQ(ours.type, gguf_get_tensor_type(theirs, i));
        EXPECT_EQ(ours.offset, gguf_get_data_offset(theirs) + gguf_get_tensor_offset(theirs, i));
    }
    gguf_free(theirs);
    const auto data = file->tensor_data(*file->find_tensor("b"));
    EXPECT_EQ(std::memcmp(data.data(), b.data(), data.size()), 0);
    EXPECT_EQ(file->tensors()[1].offset % 32, 0U);
}

TEST_F(GgufWriting, CopiedKeysKeepTypeAndBytes) {
    GgufBytes source = good_gguf();
    source.u32("general.alignment", 32);
    const std::string bytes = source.build();
    const auto from = GgufFile::from_bytes(as_bytes(bytes), "source");
    ASSERT_TRUE(from) << from.error().message;
    for (const std::string_view key : from->keys()) {
        ASSERT_TRUE(writer_.copy_key(*from, key));
    }
    EXPECT_FALSE(writer_.copy_key(*from, "no.such"));
    ASSERT_TRUE(writer_.write(path_));
    const auto file = GgufFile::open(path_);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->keys().size(), from->keys().size() - 1) << "all but the alignment";
    for (const std::string_view key : file->keys()) {
        const GgufValue & was = *from->find_value(key);
        const GgufValue & is = *file->find_value(key);
        EXPECT_EQ(is.type, was.type) << key;
        EXPECT_EQ(is.count, was.count) << key;
        EXPECT_TRUE(std::equal(is.data.begin(), is.data.end(), was.data.begin(), was.data.end()))
            << key;
    }
}

// 20 MB in rows of 1 MB: more than two pieces.
TEST_F(GgufWriting, ProducedTensorsArriveInWholeRowsInOrder) {
    const std::vector<int64_t> ne = {1 << 18, 20};
    uint64_t next_row = 0;
    int pieces = 0;
    writer_.add_tensor(
        "w", GGML_TYPE_F32, ne, [&](uint64_t first_row, std::span<std::byte> rows) -> Status {
            EXPECT_EQ(first_row, next_row);
            EXPECT_EQ(rows.size() % (1 << 20), 0U);
            const uint64_t count = rows.size() >> 20;
            for (uint64_t r = 0; r < count; ++r) {
                const std::vector<float> row(1 << 18, static_cast<float>(next_row + r));
                std::memcpy(rows.data() + (r << 20), row.data(), 1 << 20);
            }
            next_row += count;
            ++pieces;
            return {};
        });
    ASSERT_TRUE(writer_.write(path_));
    EXPECT_EQ(next_row, 20U);
    EXPECT_GT(pieces, 2);
    const auto file = GgufFile::open(path_);
    ASSERT_TRUE(file) << file.error().message;
    const auto data = file->tensor_data(file->tensors()[0]);
    for (uint64_t row = 0; row < 20; ++row) {
        float last = -1;
        std::memcpy(&last, data.data() + ((row + 1) << 20) - 4, 4);
        EXPECT_EQ(last, static_cast<float>(row));
    }
}

TEST_F(GgufWriting, AProducersErrorStopsTheWrite) {
    const std::vector<int64_t> ne = {4};
    writer_.add_tensor("w", GGML_TYPE_F32, ne, [](uint64_t, std::span<std::byte>) -> Status {
        return Error{ErrorKind::cancelled, "stopped by the caller"};
    });
    const Status done = writer_.write(path_);
    EXPECT_EQ(done.error().kind, ErrorKind::cancelled);
    EXPECT_EQ(dir_.count(), 0U);
}

TEST_F(GgufWriting, G30_RefusesDuplicateKeysAndTensors) {
    const std::vector<float> one = {1};
    writer_.set_u32("k", 1);
    writer_.set_string("k", "again");
    EXPECT_NE(error().find("'k' appears more than once"), std::string::npos);
    writer_ = GgufWriter();
    add("w", {1}, one);
    add("w", {1}, one);
    EXPECT_NE(error().find("tensor 'w' appears more than once"), std::string::npos);
}

TEST_F(GgufWriting, RefusesDataThatIsNotFinite) {
    const float inf = std::numeric_limits<float>::infinity();
    const std::vector<int64_t> ne = {5000};
    for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> values(5000, 1.0F);
        values[4999] = bad;
        for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
            std::vector<std::byte> data(5000 * ggml_type_size(type));
            if (type == GGML_TYPE_F16) {
                ggml_fp32_to_fp16_row(values.data(), reinterpret_cast<ggml_fp16_t *>(data.data()),
                                      5000);
            } else if (type == GGML_TYPE_BF16) {
                ggml_fp32_to_bf16_row(values.data(), reinterpret_cast<ggml_bf16_t *>(data.data()),
                                      5000);
            } else {
                std::memcpy(data.data(), values.data(), data.size());
            }
            writer_ = GgufWriter();
            writer_.add_tensor("w", type, ne, data);
            EXPECT_NE(error().find("tensor 'w': element 4999 is not finite"), std::string::npos);
        }
    }
}

TEST_F(GgufWriting, RefusesProducedDataThatIsNotFinite) {
    const std::vector<int64_t> ne = {1 << 18, 12};
    writer_.add_tensor("w", GGML_TYPE_F32, ne,
                       [](uint64_t first_row, std::span<std::byte> rows) -> Status {
                           std::memset(rows.data(), 0, rows.size());
                           const uint64_t count = rows.size() >> 20;
                           if (first_row <= 11 && 11 < first_row + count) {
                               const float bad = std::numeric_limits<float>::quiet_NaN();
                               std::memcpy(rows.data() + ((11 - first_row) << 20), &bad, 4);
                           }
                           return {};
                       });
    const std::string element = std::to_string(11 << 18);
    EXPECT_NE(error().find("element " + element + " is not finite"), std::string::npos);
}

TEST_F(GgufWriting, AcceptsTheLargestFiniteValues) {
    const float max = std::numeric_limits<float>::max();
    const std::vector<float> values = {max, -max, std::numeric_limits<float>::denorm_min(), -0.0F};
    add("w", {4}, values);
    EXPECT_TRUE(writer_.write(path_));
}

TEST_F(GgufWriting, RefusesShapesNamesAndSizesThatCannotBeRead) {
    const std::vector<float> four = {1, 2, 3, 4};
    const auto refusal = [&](const std::string & name, std::vector<int64_t> ne) {
        writer_ = GgufWriter();
        add(name, std::move(ne), four);
        return error();
    };
    EXPECT_NE(refusal("w", {3}).find("needs 12 bytes, its data has 16"), std::string::npos);
    EXPECT_NE(refusal("w", {0}).find("dimension 0 is 0"), std::string::npos);
    EXPECT_NE(refusal("w", {-4}).find("dimension 0"), std::string::npos);
    EXPECT_NE(refusal("w", {1LL << 62, 4}).find("64 bits"), std::string::npos);
    EXPECT_NE(refusal("w", {4, 1, 1, 1, 1}).find("5 dimensions"), std::string::npos);
    EXPECT_NE(refusal("w", {}).find("0 dimensions"), std::string::npos);
    EXPECT_NE(refusal("", {4}).find("name is empty"), std::string::npos);
    EXPECT_NE(refusal(std::string(64, 'n'), {4}).find("at most 63"), std::string::npos);
    writer_ = GgufWriter();
    writer_.add_tensor("w", static_cast<ggml_type>(31), std::vector<int64_t>{4}, bytes_of(four));
    EXPECT_NE(error().find("tensor type 31"), std::string::npos);
    writer_ = GgufWriter();
    writer_.set_u32("general.alignment", 3);
    EXPECT_NE(error().find("general.alignment is 3"), std::string::npos);
}

TEST_F(GgufWriting, ErrorsAreAboutTheArgumentsAndNameTheFile) {
    writer_.set_u32("", 1);
    const Status done = writer_.write(path_);
    EXPECT_EQ(done.error().kind, ErrorKind::invalid_argument);
    EXPECT_NE(done.error().message.find(path_), std::string::npos);
}

}  // namespace

}  // namespace lumi
