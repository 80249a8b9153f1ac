// Reading: memory maps and small text files. Only regular files are opened: a directory or a pipe
// named by mistake is an error, never a hang.
#include "base/file.h"

#include "base/utf8.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lumi {

namespace {

Error system_error(const std::string & what, const std::string & path) {
    return {ErrorKind::io, "cannot " + what + " " + quoted(path, 1024) + ": " + strerror(errno)};
}

struct OpenFile {
    int fd = -1;
    uint64_t size = 0;
    OpenFile() = default;
    OpenFile(OpenFile && other) noexcept : fd(std::exchange(other.fd, -1)), size(other.size) {}
    OpenFile & operator=(OpenFile &&) = delete;
    ~OpenFile() {
        if (fd >= 0) {
            close(fd);
        }
    }
};

Result<OpenFile> open_regular(const std::string & path) {
    OpenFile file;
    // Without O_NONBLOCK, opening a pipe that has no writer would wait for ever.
    file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info = {};
    if (file.fd < 0 || fstat(file.fd, &info) != 0) {
        return system_error("open", path);
    }
    if (!S_ISREG(info.st_mode)) {
        const char * kind = S_ISDIR(info.st_mode) ? "a directory" : "not a regular file";
        return Error{ErrorKind::io, "cannot open " + quoted(path, 1024) + ": it is " + kind};
    }
    file.size = static_cast<uint64_t>(info.st_size);
    return file;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string & path) {
    const OpenFile file = LUMI_TRY(open_regular(path));
    MappedFile map;
    if (file.size == 0) {
        return map;  // mmap refuses an empty range
    }
    void * data = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.fd, 0);
    if (data == MAP_FAILED) {
        return system_error("map", path);
    }
    map.data_ = static_cast<const std::byte *>(data);
    map.size_ = file.size;
    return map;
}

MappedFile::MappedFile(MappedFile && other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile & MappedFile::operator=(MappedFile && other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        munmap(const_cast<std::byte *>(data_), size_);
    }
}

Result<std::string> read_text_file(const std::string & path, uint64_t max_bytes) {
    const OpenFile file = LUMI_TRY(open_regular(path));
    if (file.size > max_bytes) {
        return Error{ErrorKind::invalid_argument,
                     quoted(path, 1024) + " has " + std::to_string(file.size) + " bytes; at most " +
                         std::to_string(max_bytes) + " are read"};
    }
    std::string text(file.size, '\0');
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t n = ::read(file.fd, text.data() + done, text.size() - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return system_error("read", path);
        }
        if (n == 0) {
            break;  // the file shrank meanwhile
        }
        done += static_cast<size_t>(n);
    }
    text.resize(done);
    return text;
}

}  // namespace lumi
