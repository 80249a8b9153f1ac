// The disk fails or the process dies at every step of a write: the old file or the new one is
// there, whole, and nothing else.
#include "gguf/gguf_writer.h"

#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

namespace lumi {

namespace {

enum class Fault { none, disk_full, short_write_then_full, killed };

// Function pointers carry no state; one test at a time uses this.
struct Plan {
    Fault fault = Fault::none;
    int at_call = -1;  // of write, fsync and rename together
    int calls = 0;
};
Plan plan;

bool strikes() {
    return plan.calls++ == plan.at_call;
}

ssize_t faulty_write(int fd, const void * data, size_t size) {
    if (!strikes()) {
        return write(fd, data, size);
    }
    if (plan.fault == Fault::killed) {
        [[maybe_unused]] const ssize_t n = write(fd, data, size / 2);
        raise(SIGKILL);
    }
    if (plan.fault == Fault::short_write_then_full) {
        plan = {Fault::disk_full, plan.calls, plan.calls};
        return write(fd, data, (size + 1) / 2);
    }
    errno = ENOSPC;
    return -1;
}

int faulty_fsync(int fd) {
    if (!strikes()) {
        return fsync(fd);
    }
    if (plan.fault == Fault::killed) {
        raise(SIGKILL);
    }
    errno = EIO;
    return -1;
}

int faulty_rename(const char * from, const char * to) {
    if (!strikes()) {
        return rename(from, to);
    }
    if (plan.fault == Fault::killed) {
        raise(SIGKILL);
    }
    errno = EACCES;
    return -1;
}

constexpr FileOps kFaultyOps = {faulty_write, faulty_fsync, faulty_rename};

Status write_generation(const std::string & path, uint32_t generation, const FileOps & ops) {
    const std::vector<float> values(1000, static_cast<float>(generation));
    const std::vector<int64_t> ne = {1000};
    GgufWriter writer;
    writer.set_u32("generation", generation);
    writer.add_tensor("a", GGML_TYPE_F32, ne, std::as_bytes(std::span(values)));
    writer.add_tensor("b", GGML_TYPE_F32, ne, std::as_bytes(std::span(values)));
    return writer.write(path, ops);
}

// The generation of a whole, consistent file; 0 when it is anything else.
uint32_t generation_of(const std::string & path) {
    const auto file = GgufFile::open(path);
    if (!file) {
        return 0;
    }
    const uint32_t generation = file->get_u32("generation").value();
    for (const TensorInfo & tensor : file->tensors()) {
        const auto data = file->tensor_data(tensor);
        for (size_t i = 0; i < data.size(); i += sizeof(float)) {
            float value = 0;
            std::memcpy(&value, data.data() + i, sizeof(float));
            if (value != static_cast<float>(generation)) {
                return 0;
            }
        }
    }
    return file->tensors().size() == 2 ? generation : 0;
}

class GgufWriterFaults : public testing::Test {
  protected:
    TempDir dir_;
    std::string path_ = dir_.file("model.gguf");
    void SetUp() override {
        plan = {};
        ASSERT_TRUE(write_generation(path_, 1, system_file_ops()));
        ASSERT_EQ(generation_of(path_), 1U);
    }
    // Calls of one undisturbed write.
    int count_calls() {
        plan = {};
        EXPECT_TRUE(write_generation(dir_.file("probe.gguf"), 1, kFaultyOps));
        std::remove(dir_.file("probe.gguf").c_str());
        return plan.calls;
    }
    // Every call but the last, which flushes the folder after the rename.
    void fail_at_each_call(Fault fault) {
        const int calls = count_calls();
        ASSERT_GT(calls, 6);
        for (int at = 0; at + 1 < calls; ++at) {
            plan = {fault, at, 0};
            const Status done = write_generation(path_, 2, kFaultyOps);
            ASSERT_FALSE(done) << "call " << at;
            EXPECT_EQ(done.error().kind, ErrorKind::io);
            EXPECT_NE(done.error().message.find("model.gguf"), std::string::npos);
            EXPECT_EQ(generation_of(path_), 1U) << "call " << at;
            EXPECT_EQ(dir_.count(), 1U) << "a temp file was left at call " << at;
        }
    }
};

TEST_F(GgufWriterFaults, AFullDiskKeepsTheOldFile) {
    fail_at_each_call(Fault::disk_full);
}

TEST_F(GgufWriterFaults, ADiskThatFillsInsideAWriteKeepsTheOldFile) {
    plan = {Fault::short_write_then_full, 0, 0};
    const Status done = write_generation(path_, 2, kFaultyOps);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("No space left"), std::string::npos)
        << done.error().message;
    EXPECT_EQ(generation_of(path_), 1U);
}

TEST_F(GgufWriterFaults, AShortWriteIsContinued) {
    const FileOps halves = {
        [](int fd, const void * data, size_t size) { return write(fd, data, (size + 1) / 2); },
        fsync, rename};
    ASSERT_TRUE(write_generation(path_, 2, halves));
    EXPECT_EQ(generation_of(path_), 2U);
}

TEST_F(GgufWriterFaults, AFailedFlushOfTheFolderIsReportedWithTheNewFileWhole) {
    const int calls = count_calls();
    plan = {Fault::disk_full, calls - 1, 0};
    const Status done = write_generation(path_, 2, kFaultyOps);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("flush the directory"), std::string::npos);
    EXPECT_EQ(generation_of(path_), 2U);
}

// A liar of a disk: writes say they worked, and the reopened file is not what was meant.
TEST_F(GgufWriterFaults, AFileThatReadsBackDifferentlyIsNotPublished) {
    const FileOps liar = {[](int fd, const void * data, size_t size) {
                              std::vector<char> copy(size);
                              std::memcpy(copy.data(), data, size);
                              copy[size / 2] = static_cast<char>(copy[size / 2] ^ 1);
                              return write(fd, copy.data(), size);
                          },
                          fsync, rename};
    EXPECT_FALSE(write_generation(path_, 2, liar));
    EXPECT_EQ(generation_of(path_), 1U);
    EXPECT_EQ(dir_.count(), 1U);
}

TEST_F(GgufWriterFaults, AKillAtAnyCallLeavesTheOldOrTheNewFile) {
    const int calls = count_calls();
    int old_files = 0, new_files = 0;
    for (int at = 0; at < calls; ++at) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            plan = {Fault::killed, at, 0};
            [[maybe_unused]] const Status done = write_generation(path_, 2, kFaultyOps);
            _exit(0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "call " << at;
        const uint32_t generation = generation_of(path_);
        ASSERT_TRUE(generation == 1 || generation == 2) << "call " << at;
        ++(generation == 1 ? old_files : new_files);
    }
    EXPECT_EQ(old_files, calls - 1);
    EXPECT_EQ(new_files, 1) << "killed after the rename";
    // What the killed processes left does not stand in the way.
    ASSERT_TRUE(write_generation(path_, 3, system_file_ops()));
    EXPECT_EQ(generation_of(path_), 3U);
}

}  // namespace

}  // namespace lumi
