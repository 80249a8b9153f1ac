// Any GGUF file as a vocabulary, and any text through it. The first byte counts the text's bytes,
// which follow; the rest is the file.
#include "tokenizer/tokenizer.h"

#include "must_hold.h"

namespace lumi {

namespace {

using Specials = Tokenizer::Specials;

void encode_and_decode(const Tokenizer & tokenizer, std::string_view text) {
    for (const Specials specials : {Specials::parse, Specials::plain, Specials::untrusted}) {
        const std::vector<TokenId> ids = tokenizer.encode(text, specials);
        for (const TokenId id : ids) {
            must_hold(id >= 0 && id < tokenizer.n_tokens(), "ids lie in the vocabulary");
            must_hold(specials == Specials::parse || tokenizer.type(id) != TokenType::control,
                      "content gives no control id");
        }
        tokenizer.decode(ids, true);
        tokenizer.decode(ids, false);
    }
}

void load_and_use(std::span<const std::byte> bytes, std::string_view text) {
    const auto file = GgufFile::from_bytes(bytes, "fuzz.gguf");
    if (!file) {
        return;
    }
    const auto loaded = Tokenizer::load(*file);
    if (!loaded) {
        must_hold(!loaded.error().message.empty(), "an error has a message");
        return;
    }
    const Tokenizer & tokenizer = **loaded;
    must_hold(tokenizer.bos() >= -1 && tokenizer.bos() < tokenizer.n_tokens(), "bos in range");
    for (const TokenId id : tokenizer.end_tokens()) {
        must_hold(tokenizer.is_end(id), "end tokens end");
    }
    for (const TokenId id : {-1, 0, tokenizer.n_tokens() - 1, tokenizer.n_tokens(), INT32_MAX}) {
        tokenizer.text(id);
        tokenizer.type(id);
        tokenizer.piece(id, true);
    }
    encode_and_decode(tokenizer, text);
}

}  // namespace

}  // namespace lumi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    if (size > 0 && data[0] < size) {
        const auto bytes = std::as_bytes(std::span(data, size));
        const size_t length = data[0];
        const std::string_view text(reinterpret_cast<const char *>(data + 1), length);
        lumi::load_and_use(bytes.subspan(1 + length), text);
    }
    return 0;
}
