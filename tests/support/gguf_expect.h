// One-line expectations about opening GGUF bytes.
#pragma once

#include "gguf/gguf_file.h"
#include "support/gguf_bytes.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace lumi {

// Opening fails with this kind and a message that holds every one of these texts. The bytes are
// copied into a block of exactly their size first, so that a sanitizer sees a read past the end.
inline testing::AssertionResult refuses(const std::string & bytes, ErrorKind kind,
                                        std::initializer_list<const char *> texts) {
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const auto file = GgufFile::from_bytes(std::as_bytes(std::span(exact)), "test.gguf");
    if (file) {
        return testing::AssertionFailure() << "the file was accepted";
    }
    const Error & error = file.error();
    if (error.kind != kind) {
        return testing::AssertionFailure()
               << "kind " << error_kind_name(error.kind) << ": " << error.message;
    }
    for (const char * text : texts) {
        if (error.message.find(text) == std::string::npos) {
            return testing::AssertionFailure() << "no '" << text << "' in: " << error.message;
        }
    }
    return testing::AssertionSuccess();
}

inline testing::AssertionResult refuses(const std::string & bytes,
                                        std::initializer_list<const char *> texts) {
    return refuses(bytes, ErrorKind::invalid_file, texts);
}

}  // namespace lumi
