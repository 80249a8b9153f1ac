// What the readers of training data share: samples in, a Dataset out. Internal to train/.
#pragma once

#include "train/dataset.h"

namespace lumi {

Status check_dataset_options(const DatasetOptions & options);

// A document is one unit (a chat, a text of a record); a corpus is running text.
enum class SampleKind : unsigned char { document, corpus };

class DatasetBuilder {
  public:
    explicit DatasetBuilder(const DatasetOptions & options) : options_(options) {}

    // Adds a sample, cut into windows when it is too long; one without targets is counted as
    // skipped.
    void add(Sample sample, SampleKind kind, bool starts_with_bos);
    // Renders a conversation through the function that serves it. weight: of a token that is not
    // the assistant's, where all tokens are learnt.
    Status add_chat(std::span<const Message> messages, std::span<const Tool> tools,
                    const ChatFormat & format, float weight, int line);
    Result<Dataset> finish(std::string format);

    const DatasetOptions & options() const { return options_; }

  private:
    DatasetOptions options_;
    Dataset dataset_;
    int documents_ = 0;
};

// Windows of at most `window` tokens that together train every target once. Each but the first
// begins with `context` tokens of the one before, as context only, and with the first token (BOS)
// when repeat_first. A window ends where an assistant's turn ends if that loses less than half of
// it.
std::vector<Sample> cut_into_windows(const Sample & sample, size_t window, size_t context,
                                     bool repeat_first);

}  // namespace lumi
