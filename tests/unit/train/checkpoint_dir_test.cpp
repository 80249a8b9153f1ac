// Which files of a folder are checkpoints, which stay and which were never finished.
#include "train/checkpoint_dir.h"

#include "base/file.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

namespace lumi {

namespace {

// A process that has ended.
int ended_process() {
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    return child;
}

class CheckpointDirTest : public testing::Test {
  protected:
    void touch(const std::string & name) {
        ASSERT_TRUE(write_text_file((std::filesystem::path(folder_) / name).string(), "x").ok());
    }
    std::vector<int> steps(const CheckpointDir & dir) {
        std::vector<int> found;
        const std::vector<CheckpointEntry> entries = dir.list().value();
        for (const CheckpointEntry & entry : entries) {
            found.push_back(entry.step);
        }
        return found;
    }
    bool exists(const std::string & name) const {
        return std::filesystem::exists(std::filesystem::path(folder_) / name);
    }
    TempDir temp_;
    std::string folder_ = temp_.file("deep/folder");
};

TEST_F(CheckpointDirTest, ListsWholeFilesByStepAndNothingElse) {
    const auto dir = CheckpointDir::open(folder_, 2);
    ASSERT_TRUE(dir.ok()) << dir.error().message;
    EXPECT_TRUE(steps(*dir).empty());
    EXPECT_FALSE(find_checkpoint(folder_).ok());
    for (const char * name :
         {"step-1000000.gguf", "step-000020.gguf", "step-000003.gguf", "step-000021.gguf.tmp-1-0",
          "step-.gguf", "step-12x.gguf", "step--4.gguf", "other.gguf", "step-000022.txt"}) {
        touch(name);
    }
    EXPECT_EQ(steps(*dir), (std::vector<int>{3, 20, 1000000}));
    EXPECT_EQ(*find_checkpoint(folder_), dir->path_of(1000000));
    EXPECT_EQ(*find_checkpoint(dir->path_of(3)), dir->path_of(3));
}

TEST_F(CheckpointDirTest, KeepsTheNewest) {
    const auto dir = CheckpointDir::open(folder_, 2);
    for (const char * name :
         {"step-000001.gguf", "step-000002.gguf", "step-000010.gguf", "notes.txt"}) {
        touch(name);
    }
    ASSERT_TRUE(dir->retain().ok());
    EXPECT_EQ(steps(*dir), (std::vector<int>{2, 10}));
    EXPECT_TRUE(exists("notes.txt"));
    ASSERT_TRUE(dir->remove().ok());
    EXPECT_TRUE(steps(*dir).empty());
    EXPECT_TRUE(exists("notes.txt"));
    std::filesystem::remove(std::filesystem::path(folder_) / "notes.txt");
    ASSERT_TRUE(dir->remove().ok());
    EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(CheckpointDirTest, ClearsAwayWhatADeadProcessLeftAndNothingOfALivingOne) {
    ASSERT_TRUE(CheckpointDir::open(folder_, 2).ok());
    const std::string dead = "step-000001.gguf.tmp-" + std::to_string(ended_process()) + "-0";
    const std::string alive = "step-000001.gguf.tmp-" + std::to_string(getpid()) + "-7";
    touch(dead);
    touch(alive);
    ASSERT_TRUE(CheckpointDir::open(folder_, 2).ok());
    EXPECT_FALSE(exists(dead));
    EXPECT_TRUE(exists(alive));
}

TEST_F(CheckpointDirTest, AFileInTheWayIsNamed) {
    ASSERT_TRUE(write_text_file(temp_.file("file"), "x").ok());
    const auto dir = CheckpointDir::open(temp_.file("file"), 2);
    ASSERT_FALSE(dir.ok());
    EXPECT_NE(dir.error().message.find("file"), std::string::npos);
}

}  // namespace

}  // namespace lumi
