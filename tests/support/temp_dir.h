// A fresh folder for one test, removed with what is in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lumi {

class TempDir {
  public:
    TempDir() {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "lumi-test-XXXXXX").string();
        path_ = mkdtemp(pattern.data()) != nullptr ? pattern : "";
    }
    TempDir(const TempDir &) = delete;
    TempDir & operator=(const TempDir &) = delete;
    ~TempDir() {
        if (!path_.empty()) {
            std::filesystem::remove_all(path_);
        }
    }

    std::string file(const std::string & name) const { return path_ + "/" + name; }
    // Files in the folder now.
    size_t count() const {
        size_t n = 0;
        for ([[maybe_unused]] const auto & entry : std::filesystem::directory_iterator(path_)) {
            ++n;
        }
        return n;
    }

  private:
    std::string path_;
};

}  // namespace lumi
