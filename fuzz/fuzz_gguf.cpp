// Any bytes as a GGUF file: opening says what is wrong or gives a file on which everything holds.
#include "support/gguf_walk.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto file = lumi::GgufFile::from_bytes(bytes, "fuzz.gguf");
    if (file) {
        const std::string broken = lumi::walk_gguf(*file);
        if (!broken.empty()) {
            fprintf(stderr, "does not hold: %s\n", broken.c_str());
            abort();
        }
    } else if (file.error().message.empty()) {
        abort();
    }
    return 0;
}
