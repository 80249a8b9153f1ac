// The special texts of each family, by name. They do not follow from the file alone: publishers
// mistype tokens, so this table overrides a file's types (cases/tokenizers.md T12).
#pragma once

#include "tokenizer/tokenizer.h"

#include <span>

namespace lumi {

enum class BosRule : unsigned char { always, unless_file_says_no, if_file_says_so };

struct VocabFamily {
    const char * name;
    std::span<const std::string_view> control;       // always control tokens
    std::span<const std::string_view> user_defined;  // always shown, structure all the same
    std::span<const std::string_view> normal;        // look like control tokens, are plain text
    std::span<const std::string_view> reserved;      // user-defined in files, never from user text
    std::span<const std::string_view> ends;          // end a generation
    BosRule add_bos;
    bool byte_level;  // texts are byte symbols (byte_symbols.h); else bytes are <0x00> to <0xFF>
};

extern const VocabFamily kGemma4Vocab;
extern const VocabFamily kGemma3Vocab;  // and other SentencePiece vocabularies
extern const VocabFamily kQwenVocab;    // and other byte-level vocabularies

}  // namespace lumi
