// Files read whole or mapped, and files written so that a crash leaves the old or the new one.
#pragma once

#include <lumi/error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace lumi {

// The calls that can fail while a file is written, so that a test can make them fail.
struct FileOps {
    ssize_t (*write)(int fd, const void * data, size_t size);
    int (*fsync)(int fd);
    int (*rename)(const char * from, const char * to);
};
const FileOps & system_file_ops();

// A read-only memory map of a whole file. Move-only; unmapped on destruction.
class MappedFile {
  public:
    static Result<MappedFile> open(const std::string & path);
    MappedFile() = default;
    MappedFile(MappedFile && other) noexcept;
    MappedFile & operator=(MappedFile && other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_}; }

  private:
    const std::byte * data_ = nullptr;
    size_t size_ = 0;
};

// A file that appears under its name only when commit() succeeds: temp file beside it, fsync,
// rename, fsync of the directory. Destroyed without commit, the temp file is removed. A symbolic link
// is followed; an existing file's permissions are kept.
class AtomicFile {
  public:
    static Result<AtomicFile> create(const std::string & path,
                                     const FileOps & ops = system_file_ops());
    AtomicFile(AtomicFile && other) noexcept;
    AtomicFile & operator=(AtomicFile && other) noexcept;
    ~AtomicFile();

    Status write(std::span<const std::byte> bytes);
    Status write(std::string_view text);
    Status write_zeros(uint64_t count);
    uint64_t position() const { return position_; }
    const std::string & temp_path() const { return temp_path_; }
    Status commit();

  private:
    AtomicFile() = default;
    void discard();
    const FileOps * ops_ = nullptr;
    int fd_ = -1;
    uint64_t position_ = 0;
    std::string path_;
    std::string temp_path_;
};

// The whole file as text; refuses files over max_bytes by name and size.
Result<std::string> read_text_file(const std::string & path, uint64_t max_bytes);
// Through AtomicFile.
Status write_text_file(const std::string & path, std::string_view text);

}  // namespace lumi
