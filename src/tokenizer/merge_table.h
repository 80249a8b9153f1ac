// The merges of a BPE vocabulary: a pair of token ids to its rank and the token it makes.
#pragma once

#include "tokenizer/vocab.h"

namespace lumi {

class MergeTable {
  public:
    // tokenizer.ggml.merges, every text of which must be in the vocabulary.
    static Result<MergeTable> load(const GgufFile & file, const Tokenizer::Vocab & vocab);

    MergeCandidate find(TokenId left, TokenId right) const;

  private:
    explicit MergeTable(size_t count);
    // False when so many pairs share a slot that someone chose them to. The first of equal pairs
    // stays.
    [[nodiscard]] bool insert(TokenId left, TokenId right, MergeCandidate merge);

    struct Slot {
        uint64_t pair;
        MergeCandidate merge;
    };
    std::vector<Slot> slots_;
    size_t mask_;
};

}  // namespace lumi
