// Published vectors of SHA-256 and of the random generator, and checked arithmetic at its edges.
#include "base/checked.h"
#include "base/rng.h"
#include "base/sha256.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace lumi {

namespace {

std::string sha(const std::string & text) {
    return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

TEST(Sha256, MatchesThePublishedVectors) {
    EXPECT_EQ(sha(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha(std::string(1000000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths around a block and around where the length still fits (computed with sha256sum).
TEST(Sha256, PadsAtEveryBlockEdge) {
    struct Case {
        size_t length;
        const char * digest;
    };
    for (const Case & c : {
             Case{55, "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
             Case{56, "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e"},
             Case{63, "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2"},
             Case{64, "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
             Case{65, "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9"},
             Case{119, "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
             Case{120, "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98"},
             Case{127, "70156a14adbabf98cff3a71c7084b417abf057a8efd27329ca36b7202c87d81f"},
             Case{128, "24da1b81d0b16df6428eee73c69fcb2a93c76bc6df706f0c6670fe6bfe800464"},
         }) {
        EXPECT_EQ(sha(std::string(c.length, 'x')), c.digest) << c.length;
    }
}

TEST(Rng, GivesTheReferenceSequence) {
    Rng rng(42);
    for (const uint64_t wanted : {1546998764402558742ULL, 6990951692964543102ULL,
                                  12544586762248559009ULL, 17057574109182124193ULL}) {
        EXPECT_EQ(rng.next(), wanted);
    }
}

TEST(Rng, StaysInRangeWithTheRightMoments) {
    Rng rng(7);
    double sum = 0, normal_sum = 0, normal_squares = 0;
    constexpr int kCount = 100000;
    for (int i = 0; i < kCount; ++i) {
        const double u = rng.uniform();
        ASSERT_TRUE(u >= 0 && u < 1);
        sum += u;
        ASSERT_LT(rng.below(10), 10U);
        const double n = rng.normal();
        normal_sum += n;
        normal_squares += n * n;
    }
    EXPECT_NEAR(sum / kCount, 0.5, 0.005);
    EXPECT_NEAR(normal_sum / kCount, 0.0, 0.02);
    EXPECT_NEAR(normal_squares / kCount, 1.0, 0.03);
}

TEST(Rng, ARestoredStateContinuesTheSameSequence) {
    Rng rng(1);
    rng.next();
    const Rng::State state = rng.state();
    const uint64_t wanted = rng.next();
    Rng other(99);
    other.restore(state);
    EXPECT_EQ(other.next(), wanted);
}

TEST(Checked, RefusesWhatDoesNotFit) {
    uint64_t out = 0;
    EXPECT_TRUE(checked_add<uint64_t>(UINT64_MAX - 1, 1, out));
    EXPECT_EQ(out, UINT64_MAX);
    EXPECT_FALSE(checked_add<uint64_t>(UINT64_MAX, 1, out));
    EXPECT_TRUE(checked_mul<uint64_t>(1ULL << 32, (1ULL << 32) - 1, out));
    EXPECT_FALSE(checked_mul<uint64_t>(1ULL << 32, 1ULL << 32, out));
    int64_t product = 0;
    EXPECT_FALSE(checked_mul<int64_t>(INT64_MAX, 2, product));
    EXPECT_TRUE(checked_align(33, 32, out));
    EXPECT_EQ(out, 64U);
    EXPECT_TRUE(checked_align(64, 32, out));
    EXPECT_EQ(out, 64U);
    EXPECT_FALSE(checked_align(UINT64_MAX - 30, 32, out));
    EXPECT_FALSE(checked_align(1, 0, out));
}

}  // namespace

}  // namespace lumi
