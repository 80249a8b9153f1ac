// The folder of a run's checkpoints: step-000123.gguf and no other name counts, so a file that is
// still being written is never listed. Keeps the newest few.
#pragma once

#include <lumi/error.h>

#include <string>
#include <vector>

namespace lumi {

struct CheckpointEntry {
    int step = 0;
    std::string path;
};

class CheckpointDir {
  public:
    // Creates the folder if need be and clears away what killed processes left half-written. keep:
    // how many checkpoints stay, at least 1.
    static Result<CheckpointDir> open(const std::string & path, int keep);

    const std::string & path() const { return path_; }
    std::string path_of(int step) const;
    // By step, ascending.
    Result<std::vector<CheckpointEntry>> list() const;
    // Removes all but the newest; called after a new one was written.
    Status retain() const;
    // Removes every checkpoint, and the folder if nothing else is in it.
    Status remove() const;

  private:
    CheckpointDir(std::string path, int keep) : path_(std::move(path)), keep_(keep) {}
    std::string path_;
    int keep_;
};

// The file itself, or the newest checkpoint of a folder; an error when there is none.
Result<std::string> find_checkpoint(const std::string & folder_or_file);

}  // namespace lumi
