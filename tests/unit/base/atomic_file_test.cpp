// A written file appears whole or not at all. Faults of the disk are played through GgufWriter in
// tests/unit/gguf/writer_fault_test.cpp, which goes through every call.
#include "base/file.h"

#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace lumi {

namespace {

class AtomicWriting : public testing::Test {
  protected:
    TempDir dir_;
    std::string path_ = dir_.file("out");
    std::string content() { return read_text_file(path_, 1 << 20).value(); }
    mode_t mode() {
        struct stat info = {};
        stat(path_.c_str(), &info);
        return info.st_mode & 07777;
    }
};

TEST_F(AtomicWriting, NothingAppearsBeforeCommit) {
    auto file = AtomicFile::create(path_);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->write("abc"));
    ASSERT_TRUE(file->write_zeros(200000));
    EXPECT_EQ(file->position(), 200003U);
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_TRUE(std::filesystem::exists(file->temp_path()));
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(content(), "abc" + std::string(200000, '\0'));
    EXPECT_EQ(dir_.count(), 1U);
}

TEST_F(AtomicWriting, WithoutCommitTheOldFileStaysAndNoTempDoes) {
    ASSERT_TRUE(write_text_file(path_, "old"));
    {
        auto file = AtomicFile::create(path_);
        ASSERT_TRUE(file->write("new"));
        const AtomicFile moved = std::move(file).value();
        EXPECT_EQ(dir_.count(), 2U);
    }
    EXPECT_EQ(content(), "old");
    EXPECT_EQ(dir_.count(), 1U);
}

TEST_F(AtomicWriting, TwoWritersOfOneNameDoNotMix) {
    auto first = AtomicFile::create(path_);
    auto second = AtomicFile::create(path_);
    ASSERT_TRUE(first->write("first"));
    ASSERT_TRUE(second->write("second"));
    ASSERT_TRUE(second->commit());
    ASSERT_TRUE(first->commit());
    EXPECT_EQ(content(), "first");
}

TEST_F(AtomicWriting, PermissionsFollowTheOldFileOrTheUmask) {
    const mode_t mask = umask(027);
    ASSERT_TRUE(write_text_file(path_, "a"));
    umask(mask);
    EXPECT_EQ(mode(), 0640U);
    ASSERT_EQ(chmod(path_.c_str(), 0604), 0);
    ASSERT_TRUE(write_text_file(path_, "b"));
    EXPECT_EQ(mode(), 0604U);
}

TEST_F(AtomicWriting, ASymbolicLinkIsFollowedAndKept) {
    const std::string target = dir_.file("target");
    ASSERT_TRUE(write_text_file(target, "old"));
    ASSERT_EQ(symlink("target", path_.c_str()), 0);
    ASSERT_TRUE(write_text_file(path_, "new"));
    EXPECT_TRUE(std::filesystem::is_symlink(path_));
    EXPECT_EQ(read_text_file(target, 100).value(), "new");
}

TEST_F(AtomicWriting, FoldersAndMissingFoldersAreErrorsThatNameThePath) {
    for (const std::string & path : {dir_.file(""), dir_.file("none/out")}) {
        const auto file = AtomicFile::create(path);
        ASSERT_FALSE(file);
        EXPECT_EQ(file.error().kind, ErrorKind::io);
        EXPECT_NE(file.error().message.find(path), std::string::npos) << file.error().message;
    }
}

}  // namespace

}  // namespace lumi
