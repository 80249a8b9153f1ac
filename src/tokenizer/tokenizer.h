// Text to token ids and back, chosen by tokenizer.ggml.model: "gemma4" (rank-ordered BPE over raw
// UTF-8), "llama" (SentencePiece merges by score) or "gpt2" (BPE over bytes). Immutable after load;
// all methods are const and may run on any thread. Invalid UTF-8 is encoded byte by byte, never
// refused.
#pragma once

#include "gguf/gguf_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lumi {

using TokenId = int32_t;

enum class TokenType : uint8_t {  // tokenizer.ggml.token_type, the format's numbers
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6,
};

class Tokenizer {
  public:
    static Result<std::unique_ptr<Tokenizer>> load(const GgufFile & file);
    virtual ~Tokenizer();

    int32_t n_tokens() const;
    std::string_view text(TokenId id) const;  // as stored in the vocabulary; empty if out of range
    TokenType type(TokenId id) const;
    TokenId find(std::string_view text) const;  // exact vocabulary text; -1 when absent

    TokenId bos() const;  // -1 when the vocabulary has none
    bool add_bos() const;
    // Ends a generation: the family's set plus the metadata's, not eos_token_id alone.
    bool is_end(TokenId id) const;
    std::vector<TokenId> end_tokens() const;
    // Never to be generated: tokenizer.ggml.suppress_tokens.
    const std::vector<TokenId> & suppressed() const;

    // Appends the ids of text. No BOS. With parse_special, literal control texts become their ids
    // (template pieces only); without it no control or unknown-type id can appear, and a
    // user-defined control-like text in it is encoded as ordinary text too when untrusted is true.
    enum class Specials : uint8_t {
        parse,      // template text: control and user-defined texts become their ids
        plain,      // trusted text: user-defined texts only, as llama.cpp with parse_special=false
        untrusted,  // content from a user: neither
    };
    virtual void encode(std::string_view text, Specials specials,
                        std::vector<TokenId> & out) const = 0;
    std::vector<TokenId> encode(std::string_view text, Specials specials) const {
        std::vector<TokenId> ids;
        encode(text, specials, ids);
        return ids;
    }

    // Bytes of one token as they appear in text (spaces restored, byte tokens raw). Control tokens
    // give nothing unless with_special. The bytes need not be valid UTF-8 on their own.
    virtual std::string piece(TokenId id, bool with_special) const = 0;
    // True when the first decoded piece must lose one leading space (SentencePiece's prefix).
    virtual bool strips_first_space() const { return false; }
    std::string decode(const std::vector<TokenId> & ids, bool with_special) const;

    struct Vocab;  // vocab.h

  protected:
    explicit Tokenizer(std::unique_ptr<Vocab> vocab);
    std::unique_ptr<Vocab> vocab_;
};

}  // namespace lumi
