// Names carry the step; everything else in the folder is left alone.
#include "train/checkpoint_dir.h"

#include "base/utf8.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>

namespace lumi {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".gguf";
constexpr std::string_view kTempMark = ".gguf.tmp-";  // as AtomicFile names them, then the process

Error cannot(const char * what, const std::string & path, const std::error_code & code) {
    return {ErrorKind::io,
            std::string("cannot ") + what + " " + quoted(path, 1024) + ": " + code.message()};
}

// The whole of text as a number; -1 when it is none.
int number_in(std::string_view text) {
    int number = -1;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc() && end == text.data() + text.size() ? number : -1;
}

// -1 for names that are no checkpoint's.
int step_of(std::string_view name) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
        name.size() <= kPrefix.size() + kSuffix.size()) {
        return -1;
    }
    return number_in(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
}

// Whether name is a half-written checkpoint whose process is no more.
bool is_leftover(std::string_view name) {
    const size_t mark = name.find(kTempMark);
    if (!name.starts_with(kPrefix) || mark == std::string_view::npos) {
        return false;
    }
    const std::string_view rest = name.substr(mark + kTempMark.size());
    const int process = number_in(rest.substr(0, rest.find('-')));
    return process > 0 && kill(process, 0) != 0 && errno == ESRCH;
}

// Calls f(path, name) for each entry.
template <typename F> Status each_name(const std::string & folder, F && f) {
    std::error_code code;
    for (fs::directory_iterator it(folder, code); !code && it != fs::directory_iterator();
         it.increment(code)) {
        f(it->path(), it->path().filename().string());
    }
    return code ? Status(cannot("list", folder, code)) : Status();
}

}  // namespace

Result<CheckpointDir> CheckpointDir::open(const std::string & path, int keep) {
    std::error_code code;
    fs::create_directories(path, code);
    if (code) {
        return cannot("make the folder", path, code);
    }
    std::vector<fs::path> leftovers;
    LUMI_TRY(each_name(path, [&](const fs::path & file, const std::string & name) {
        if (is_leftover(name)) {
            leftovers.push_back(file);
        }
    }));
    for (const fs::path & file : leftovers) {
        fs::remove(file, code);  // if it stays, it is still no checkpoint
    }
    return CheckpointDir(path, std::max(keep, 1));
}

std::string CheckpointDir::path_of(int step) const {
    char name[32];
    std::snprintf(name, sizeof name, "step-%06d.gguf", step);
    return (fs::path(path_) / name).string();
}

Result<std::vector<CheckpointEntry>> CheckpointDir::list() const {
    std::vector<CheckpointEntry> entries;
    LUMI_TRY(each_name(path_, [&](const fs::path & file, const std::string & name) {
        const int step = step_of(name);
        if (step >= 0) {
            entries.push_back({step, file.string()});
        }
    }));
    std::sort(entries.begin(), entries.end(),
              [](const auto & a, const auto & b) { return a.step < b.step; });
    return entries;
}

Status CheckpointDir::retain() const {
    const std::vector<CheckpointEntry> entries = LUMI_TRY(list());
    for (size_t i = 0; i + static_cast<size_t>(keep_) < entries.size(); ++i) {
        std::error_code code;
        fs::remove(entries[i].path, code);
        if (code) {
            return cannot("remove", entries[i].path, code);
        }
    }
    return {};
}

Status CheckpointDir::remove() const {
    const std::vector<CheckpointEntry> entries = LUMI_TRY(list());
    for (const CheckpointEntry & entry : entries) {
        std::error_code code;
        fs::remove(entry.path, code);
        if (code) {
            return cannot("remove", entry.path, code);
        }
    }
    std::error_code not_empty;
    fs::remove(path_, not_empty);
    return {};
}

Result<std::string> find_checkpoint(const std::string & folder_or_file) {
    std::error_code code;
    if (!fs::is_directory(folder_or_file, code)) {
        return folder_or_file;
    }
    const CheckpointDir folder = LUMI_TRY(CheckpointDir::open(folder_or_file, 1));
    const std::vector<CheckpointEntry> entries = LUMI_TRY(folder.list());
    if (entries.empty()) {
        return Error{ErrorKind::invalid_argument,
                     "no checkpoint (step-NUMBER.gguf) in " + quoted(folder_or_file, 1024)};
    }
    return entries.back().path;
}

}  // namespace lumi
