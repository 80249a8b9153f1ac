// Writing so that a crash, a full disk or a kill leaves either the old file or the whole new one.
#include "base/file.h"

#include "base/utf8.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lumi {

namespace {

Error system_error(const std::string & what, const std::string & path, int code) {
    return {ErrorKind::io, "cannot " + what + " " + quoted(path, 1024) + ": " + strerror(code)};
}

// The file a symbolic link names, so that the link survives the rename; path itself otherwise.
std::string resolved(const std::string & path) {
    char * real = realpath(path.c_str(), nullptr);
    if (real == nullptr) {
        return path;
    }
    std::string out = real;
    free(real);
    return out;
}

std::string directory_of(const std::string & path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// A fresh file beside path. The name carries the process id and a counter; a leftover of a killed
// process with the same id is stepped over.
int open_temp(const std::string & path, std::string & temp_path) {
    static std::atomic<unsigned> counter = 0;
    for (int attempt = 0; attempt < 1000; ++attempt) {
        temp_path = path + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(counter++);
        const int fd = ::open(temp_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

}  // namespace

const FileOps & system_file_ops() {
    static constexpr FileOps kOps = {::write, ::fsync, ::rename};
    return kOps;
}

Result<AtomicFile> AtomicFile::create(const std::string & path, const FileOps & ops) {
    AtomicFile file;
    file.ops_ = &ops;
    file.path_ = resolved(path);
    struct stat old = {};
    const bool exists = stat(file.path_.c_str(), &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) {
        return Error{ErrorKind::io, "cannot write " + quoted(path, 1024) +
                                        ": something that is not a regular file has that name"};
    }
    file.fd_ = open_temp(file.path_, file.temp_path_);
    if (file.fd_ < 0) {
        const int code = errno;
        file.temp_path_.clear();
        return system_error("create a file beside", path, code);
    }
    if (exists && fchmod(file.fd_, old.st_mode & 07777) != 0) {
        return system_error("set the permissions of", file.temp_path_, errno);
    }
    return file;
}

AtomicFile::AtomicFile(AtomicFile && other) noexcept {
    *this = std::move(other);
}

AtomicFile & AtomicFile::operator=(AtomicFile && other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(fd_, other.fd_);
    std::swap(position_, other.position_);
    std::swap(path_, other.path_);
    std::swap(temp_path_, other.temp_path_);
    return *this;
}

AtomicFile::~AtomicFile() {
    discard();
}

void AtomicFile::discard() {
    if (fd_ >= 0) {
        close(std::exchange(fd_, -1));
    }
    if (!temp_path_.empty()) {
        unlink(temp_path_.c_str());
        temp_path_.clear();
    }
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ops_->write(fd_, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            const int code = n < 0 ? errno : ENOSPC;
            return system_error("write", path_, code);
        }
        position_ += static_cast<uint64_t>(n);
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
}

Status AtomicFile::write(std::string_view text) {
    return write(std::as_bytes(std::span(text.data(), text.size())));
}

Status AtomicFile::write_zeros(uint64_t count) {
    const std::vector<std::byte> zeros(std::min<uint64_t>(count, 64 * 1024));
    while (count > 0) {
        const uint64_t piece = std::min<uint64_t>(count, zeros.size());
        LUMI_TRY(write(std::span(zeros).first(piece)));
        count -= piece;
    }
    return {};
}

Status AtomicFile::commit() {
    if (ops_->fsync(fd_) != 0) {
        return system_error("flush", path_, errno);
    }
    if (ops_->rename(temp_path_.c_str(), path_.c_str()) != 0) {
        return system_error("put the new file in place of", path_, errno);
    }
    temp_path_.clear();
    close(std::exchange(fd_, -1));
    // The rename itself is durable only once the directory is.
    const std::string directory = directory_of(path_);
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return system_error("open", directory, errno);
    }
    const bool flushed = ops_->fsync(fd) == 0;
    const int code = errno;
    close(fd);
    // Some file systems cannot flush a directory and say so; nothing more can be done there.
    if (!flushed && code != EINVAL && code != ENOTSUP) {
        return system_error("flush the directory", directory, code);
    }
    return {};
}

Status write_text_file(const std::string & path, std::string_view text) {
    AtomicFile file = LUMI_TRY(AtomicFile::create(path));
    LUMI_TRY(file.write(text));
    return file.commit();
}

}  // namespace lumi
