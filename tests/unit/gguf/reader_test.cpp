// What a good file gives back, and what each typed getter says to the wrong type.
#include "gguf/gguf_file.h"

#include "support/gguf_bytes.h"
#include "support/gguf_walk.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

namespace lumi {

namespace {

class GgufReader : public testing::Test {
  protected:
    std::string bytes_ = good_gguf().build();
    Result<GgufFile> file_ = GgufFile::from_bytes(as_bytes(bytes_), "good.gguf");
    void SetUp() override { ASSERT_TRUE(file_) << file_.error().message; }
};

TEST_F(GgufReader, GivesEveryScalarTypeBack) {
    EXPECT_EQ(file_->get_string("general.architecture").value(), "tiny");
    EXPECT_EQ(file_->get_u32("tiny.block_count").value(), 2U);
    EXPECT_EQ(file_->get_u32("a.u8").value(), 200U);
    EXPECT_EQ(file_->get_i64("a.i8").value(), -100);
    EXPECT_EQ(file_->get_u32("a.u16").value(), 60000U);
    EXPECT_EQ(file_->get_i64("a.i16").value(), -30000);
    EXPECT_EQ(file_->get_i64("a.i32").value(), -2000000000);
    EXPECT_EQ(file_->get_i64("a.u64").value(), 1LL << 40);
    EXPECT_EQ(file_->get_i64("a.i64").value(), -(1LL << 40));
    EXPECT_EQ(file_->get_f32("a.f32").value(), 0.5F);
    EXPECT_EQ(file_->get_f32("a.f64").value(), 0.25F);
    EXPECT_TRUE(file_->get_bool("a.bool").value());
}

TEST_F(GgufReader, GivesArraysBack) {
    const std::vector<std::string_view> tokens = {"<bos>", "a",
                                                  "\xe2\x96\x81"
                                                  "b"};
    EXPECT_EQ(file_->get_strings("tokenizer.ggml.tokens").value(), tokens);
    EXPECT_EQ(file_->get_f32s("tokenizer.ggml.scores").value(),
              (std::vector<float>{-1.0F, 0.0F, 2.5F}));
    EXPECT_EQ(file_->get_i32s("tokenizer.ggml.token_type").value(),
              (std::vector<int32_t>{3, 1, 1}));
    EXPECT_EQ(file_->get_bools("a.bools").value(), (std::vector<bool>{true, false}));
    EXPECT_EQ(file_->get_i32s("a.empty").value().size(), 0U);
    EXPECT_EQ(file_->array_length("tokenizer.ggml.tokens").value(), 3U);
    EXPECT_EQ(file_->type_of("tokenizer.ggml.tokens").value(), GgufType::array);
    EXPECT_TRUE(file_->is_array("a.empty"));
    EXPECT_FALSE(file_->is_array("a.f32"));
    EXPECT_EQ(walk_gguf(*file_), "");
}

TEST_F(GgufReader, SaysKeyFoundTypeAndWantedType) {
    EXPECT_EQ(file_->get_u32("general.architecture").error().message,
              "good.gguf: the metadata key 'general.architecture' has type string; wanted an "
              "unsigned 32-bit integer");
    EXPECT_EQ(file_->get_f32s("tokenizer.ggml.token_type").error().message,
              "good.gguf: the metadata key 'tokenizer.ggml.token_type' has type array of i32; "
              "wanted an array of floating-point numbers");
    EXPECT_EQ(file_->get_string("no.such").error().message,
              "good.gguf: the metadata key 'no.such' is missing");
    EXPECT_FALSE(file_->get_bool("a.u8"));
    EXPECT_FALSE(file_->get_u32("a.bool"));
    EXPECT_FALSE(file_->get_f32("a.u8"));
    EXPECT_FALSE(file_->get_string("tokenizer.ggml.tokens"));
    EXPECT_FALSE(file_->get_strings("general.architecture"));
    EXPECT_FALSE(file_->get_bools("tokenizer.ggml.token_type"));
    EXPECT_FALSE(file_->array_length("a.f32"));
    EXPECT_FALSE(file_->type_of("no.such"));
}

TEST_F(GgufReader, RefusesIntegersThatDoNotFit) {
    EXPECT_FALSE(file_->get_u32("a.i8")) << "negative";
    EXPECT_FALSE(file_->get_u32("a.u64")) << "past 32 bits";
    GgufBytes wide;
    wide.key("big", 10, raw<uint64_t>(1ULL << 63))
        .array("bigs", 4, 1, raw<uint32_t>(1U << 31))
        .key("far", 12, raw(1e300))
        .key("inf", 12, raw(std::numeric_limits<double>::infinity()));
    const std::string bytes = wide.build();
    const auto file = GgufFile::from_bytes(as_bytes(bytes), "wide.gguf");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_FALSE(file->get_i64("big"));
    EXPECT_FALSE(file->get_i32s("bigs"));
    EXPECT_FALSE(file->get_f32("far"));
    EXPECT_TRUE(file->get_f32("inf")) << "infinity is a value; whoever uses it checks it";
}

TEST_F(GgufReader, GivesTensorsTheirShapesAndBytes) {
    ASSERT_EQ(file_->tensors().size(), 3U);
    const TensorInfo * q = file_->find_tensor("blk.0.attn_q.weight");
    ASSERT_NE(q, nullptr);
    EXPECT_EQ(q->type, GGML_TYPE_Q8_0);
    EXPECT_EQ(q->n_dims, 4);
    EXPECT_EQ(q->ne[0], 64);
    EXPECT_EQ(q->ne[1], 2);
    EXPECT_EQ(q->n_bytes, 136U);
    const size_t data = good_gguf().at("data");
    EXPECT_EQ(q->offset, data + 384);
    EXPECT_EQ(file_->tensor_data(*q).data(), as_bytes(bytes_).data() + data + 384);
    EXPECT_EQ(file_->find_tensor("blk.0.attn_q"), nullptr);
    EXPECT_EQ(file_->find_tensor(""), nullptr);
}

TEST_F(GgufReader, GivesAForeignTensorNothing) {
    TensorInfo foreign;
    foreign.offset = bytes_.size() - 1;
    foreign.n_bytes = 2;
    EXPECT_TRUE(file_->tensor_data(foreign).empty());
    foreign.offset = UINT64_MAX;
    EXPECT_TRUE(file_->tensor_data(foreign).empty());
}

TEST_F(GgufReader, KeysComeInFileOrder) {
    const auto keys = file_->keys();
    ASSERT_EQ(keys.size(), 17U);
    EXPECT_EQ(keys.front(), "general.architecture");
    EXPECT_EQ(keys[12], "tokenizer.ggml.tokens");
}

TEST_F(GgufReader, ShowsValuesShortly) {
    EXPECT_EQ(file_->value_text("general.architecture"), "'tiny'");
    EXPECT_EQ(file_->value_text("a.i64"), "-1099511627776");
    EXPECT_EQ(file_->value_text("a.bool"), "true");
    EXPECT_EQ(file_->value_text("tokenizer.ggml.scores"), "3 x f32 [-1, 0, 2.5]");
    EXPECT_EQ(file_->value_text("a.empty"), "0 x u32 []");
}

TEST_F(GgufReader, FingerprintCoversTheHeaderAndTheTensorsData) {
    std::string data = bytes_;
    data[good_gguf().at("data")] = 1;
    std::string header = bytes_;
    header[good_gguf().at("general.architecture/text") + 1] = 'x';
    const auto other_data = GgufFile::from_bytes(as_bytes(data), "data");
    const auto other_header = GgufFile::from_bytes(as_bytes(header), "header");
    ASSERT_TRUE(other_data && other_header);
    EXPECT_NE(file_->fingerprint(), other_data->fingerprint());
    EXPECT_NE(file_->fingerprint(), other_header->fingerprint());
}

TEST_F(GgufReader, MapsAFileAndOutlivesTheMove) {
    const TempDir dir;
    const std::string path = dir.file("good.gguf");
    ASSERT_TRUE(write_text_file(path, bytes_));
    auto opened = GgufFile::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    const GgufFile moved = std::move(opened).value();
    EXPECT_EQ(moved.path(), path);
    EXPECT_EQ(moved.bytes().size(), bytes_.size());
    EXPECT_EQ(walk_gguf(moved), "");
}

TEST(GgufReaderPaths, MissingFileAndFolderAreIoErrors) {
    const TempDir dir;
    EXPECT_EQ(GgufFile::open(dir.file("none.gguf")).error().kind, ErrorKind::io);
    EXPECT_NE(GgufFile::open(dir.file("")).error().message.find("directory"), std::string::npos);
}

}  // namespace

}  // namespace lumi
