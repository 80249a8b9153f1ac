// Mapped and whole-text reading.
#include "base/file.h"

#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <utility>

#include <sys/stat.h>

namespace lumi {

namespace {

std::string text_of(const MappedFile & map) {
    return {reinterpret_cast<const char *>(map.bytes().data()), map.bytes().size()};
}

class Reading : public testing::Test {
  protected:
    TempDir dir_;
    std::string path_ = dir_.file("f");
};

TEST_F(Reading, AMapHoldsTheFilesBytesAndMoves) {
    ASSERT_TRUE(write_text_file(path_, "hello"));
    auto opened = MappedFile::open(path_);
    ASSERT_TRUE(opened) << opened.error().message;
    MappedFile moved = std::move(opened).value();
    EXPECT_EQ(text_of(moved), "hello");
    MappedFile assigned;
    EXPECT_TRUE(assigned.bytes().empty());
    assigned = std::move(moved);
    EXPECT_EQ(text_of(assigned), "hello");
}

TEST_F(Reading, AMapOutlivesTheFilesReplacement) {
    ASSERT_TRUE(write_text_file(path_, "old"));
    const auto map = MappedFile::open(path_);
    ASSERT_TRUE(write_text_file(path_, "new text"));
    EXPECT_EQ(text_of(*map), "old");
    EXPECT_EQ(text_of(*MappedFile::open(path_)), "new text");
}

TEST_F(Reading, AnEmptyFileIsAnEmptyMap) {
    ASSERT_TRUE(write_text_file(path_, ""));
    const auto map = MappedFile::open(path_);
    ASSERT_TRUE(map) << map.error().message;
    EXPECT_TRUE(map->bytes().empty());
    EXPECT_EQ(read_text_file(path_, 0).value(), "");
}

// A pipe without a writer would block an ordinary open for ever.
TEST_F(Reading, WhatIsNotARegularFileIsAnErrorAtOnce) {
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    for (const std::string & path : {path_, dir_.file(""), dir_.file("none")}) {
        const auto map = MappedFile::open(path);
        ASSERT_FALSE(map) << path;
        EXPECT_EQ(map.error().kind, ErrorKind::io);
        EXPECT_NE(map.error().message.find(path), std::string::npos) << map.error().message;
        EXPECT_FALSE(read_text_file(path, 100));
    }
}

TEST_F(Reading, TextUpToTheLimitIsReadAndNoMore) {
    const std::string text(100000, 'x');
    ASSERT_TRUE(write_text_file(path_, text));
    EXPECT_EQ(read_text_file(path_, 100000).value(), text);
    const auto refused = read_text_file(path_, 99999);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("has 100000 bytes; at most 99999"), std::string::npos)
        << refused.error().message;
}

}  // namespace

}  // namespace lumi
