// A resident engine on the CPU over a file of this repository, for tests.
#pragma once

#include "engine/engine.h"

#include <gtest/gtest.h>

#include <string>

namespace lumi::testing {

// file is relative to the repository; null, and a failure recorded, when it cannot be opened.
inline std::unique_ptr<Engine> opened_engine(const std::string & file, int n_ctx,
                                             int n_batch = SessionOptions().n_batch) {
    const auto open = [&]() -> Result<std::unique_ptr<Engine>> {
        LUMI_TRY(load_backends());
        ModelOptions options;
        options.device = "cpu";
        GgufFile opened = LUMI_TRY(GgufFile::open(std::string(LUMI_SOURCE_DIR "/") + file));
        LoadedModel loaded = LUMI_TRY(load_model(std::move(opened), options));
        SessionOptions session;
        session.n_ctx = n_ctx;
        session.n_batch = n_batch;
        return start_engine(std::move(loaded), session);
    };
    Result<std::unique_ptr<Engine>> engine = open();
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return engine.ok() ? std::move(*engine) : nullptr;
}

inline Message message(Role role, std::string content) {
    Message m;
    m.role = role;
    m.content = std::move(content);
    return m;
}

}  // namespace lumi::testing
