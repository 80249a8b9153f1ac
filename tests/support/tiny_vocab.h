// A vocabulary of some 900 tokens and GGUF bytes around it, so that tests need no downloaded file.
#pragma once

#include "gguf/gguf_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lumi::test {

// What a vocabulary file holds. Tests change fields before they build.
struct VocabSpec {
    std::string architecture;
    std::string tokenizer_model;
    std::vector<std::string> tokens;
    std::vector<int32_t> types;  // empty: the key is left out; the same for the others
    std::vector<float> scores;
    std::vector<std::string> merges;
    std::vector<std::pair<std::string, int32_t>> ints;  // written as u32
    std::vector<std::pair<std::string, bool>> flags;
    std::vector<std::pair<std::string, std::string>> texts;
    std::vector<std::pair<std::string, std::vector<int32_t>>> int_arrays;

    void add(std::string text, int32_t type, float score = -1000.0F);
    int32_t id(const std::string & text) const;  // of the first such token; -1 when absent
};

// Special tokens of the family, newline runs, 256 bytes, characters and merges of tiny_merges.txt.
// Ids differ from the real vocabularies on purpose.
VocabSpec tiny_gemma4();
VocabSpec tiny_gemma3();
VocabSpec tiny_qwen3();  // the same merges over bytes

// The spec as a GGUF file in memory; keep it alive as long as what was loaded from it.
class VocabFile {
  public:
    explicit VocabFile(const VocabSpec & spec);
    const GgufFile & gguf() const { return *file_; }
    const std::vector<std::byte> & bytes() const { return bytes_; }

  private:
    std::vector<std::byte> bytes_;
    std::unique_ptr<GgufFile> file_;
};

}  // namespace lumi::test
