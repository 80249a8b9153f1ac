// Any bytes as a GGUF file: opening says what is wrong or gives a file on which everything holds.
#include "support/gguf_walk.h"

#include "must_hold.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto file = lumi::GgufFile::from_bytes(bytes, "fuzz.gguf");
    if (file) {
        const std::string broken = lumi::walk_gguf(*file);
        lumi::must_hold(broken.empty(), broken.c_str());
    } else {
        lumi::must_hold(!file.error().message.empty(), "an error has a message");
    }
    return 0;
}
