// llama.cpp as the reference: its library of the same ggml build, behind the few calls that
// comparisons need. Only for benchmarks and parity; lumi itself never links it.
#pragma once

#include <lumi/error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lumi::bench {

struct PeerOptions {
    int n_ctx = 4096;
    int n_batch = 512;  // both of llama.cpp's batch sizes
    int n_threads = 2;
    bool f32_kv = false;
    bool flash = true;
    bool repack = true;  // llama.cpp's default; false: ggml's plain products
    std::string adapter;
    float adapter_scale = 1.0F;
};

// One greedy answer: ids, and by how much the best logit beat the second at each step.
struct PeerAnswer {
    std::vector<int32_t> tokens;
    std::vector<float> gaps;
};

struct PeerSpeed {
    double prefill_seconds = 0.0;
    double decode_seconds = 0.0;
};

class Peer {
  public:
    static Result<std::unique_ptr<Peer>> load(const std::string & path,
                                              const PeerOptions & options);
    ~Peer();

    int n_vocab() const;
    // Logits of every position of a fresh sequence, computed `chunk` tokens at a time.
    Status evaluate(std::span<const int32_t> tokens, int chunk,
                    const std::function<void(int position, std::span<const float> logits)> & visit);
    // n_tokens greedy tokens after prompt; end tokens do not end it.
    Result<PeerAnswer> greedy(std::span<const int32_t> prompt, int n_tokens);
    // The time of a prompt whose last logits are wanted, and of n_decode tokens after it.
    Result<PeerSpeed> speed(std::span<const int32_t> prompt, int n_decode);

  private:
    struct Impl;
    explicit Peer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace lumi::bench
