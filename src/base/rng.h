// The one random generator: xoshiro256** seeded by splitmix64 (Blackman and Vigna, 2018).
// Same seed, same numbers, on every platform; std distributions are not used because they differ.
#pragma once

#include <cmath>
#include <cstdint>

namespace lumi {

class Rng {
  public:
    explicit Rng(uint64_t seed) {
        for (uint64_t & word : state_) {
            seed += 0x9e3779b97f4a7c15ULL;
            uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
            word = z ^ (z >> 31);
        }
    }

    uint64_t next() {
        const uint64_t result = rotate(state_[1] * 5, 7) * 9;
        const uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate(state_[3], 45);
        return result;
    }

    // Uniform in [0, 1) with 53 bits.
    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

    // Uniform in [0, n), n > 0. The modulo bias is below 2^-32 for n < 2^32.
    uint64_t below(uint64_t n) { return next() % n; }

    // Standard normal (Box-Muller, one value a call).
    double normal() {
        double u = uniform();
        while (u <= 0.0) {
            u = uniform();
        }
        return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * uniform());
    }

    // The whole state, for checkpoints.
    struct State {
        uint64_t words[4];
    };
    State state() const { return {{state_[0], state_[1], state_[2], state_[3]}}; }
    void restore(const State & s) {
        for (int i = 0; i < 4; ++i) {
            state_[i] = s.words[i];
        }
    }

  private:
    static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
    uint64_t state_[4];
};

}  // namespace lumi
