// Random-weight models of an exact shape, to measure load, memory and speed at full size and to
// test at small size. Quantised blocks are written directly; seeded; norms, q/k norms, PLE and
// layer scales are drawn away from 0 and 1 so that every branch contributes.
#pragma once

#include "gguf/gguf_file.h"

#include <ggml.h>

#include <functional>
#include <string>

namespace lumi {

struct SynthOptions {
    std::string shape = "tiny";   // e4b, e2b, tiny, tiny-gemma3, gemma3-270m, qwen3-0.6b, ...
    std::string type = "Q4_K_M";  // F32, F16, BF16, Q8_0, Q4_K_M, Q4_0, Q6_K, ...
    uint64_t seed = 42;
    const GgufFile * vocab =
        nullptr;  // tokenizer.* keys are copied from it; null = a small built-in one
    std::function<void(double fraction)> progress;
};

std::vector<std::string> synth_shapes();
Status write_synth_model(const SynthOptions & options, const std::string & path);

}  // namespace lumi
