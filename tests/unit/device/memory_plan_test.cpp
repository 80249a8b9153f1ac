// A memory plan adds up, keeps mapped bytes apart and refuses with numbers and a way out.

#include "device/memory_plan.h"

#include <gtest/gtest.h>

#include <limits>

namespace lumi {
namespace {

TEST(MemoryPlan, AnonymousAndMappedBytesAreSummedApart) {
    MemoryPlan plan;
    plan.add("weights", 5000, true);
    plan.add("KV cache", 300);
    plan.add("activations", 20);
    EXPECT_EQ(plan.anonymous_bytes(), 320U);
    EXPECT_EQ(plan.mapped_bytes(), 5000U);
    EXPECT_NE(plan.text().find("KV cache"), std::string::npos);
    EXPECT_NE(plan.text().find("mapped"), std::string::npos);
}

TEST(MemoryPlan, RefusalNamesTheNumbersTheLimitAndTheFlag) {
    MemoryPlan plan;
    plan.add("KV cache", 3ULL << 30);
    EXPECT_TRUE(plan.enforce(3ULL << 30, "--ctx-size").ok());
    const Status status = plan.enforce(2ULL << 30, "a smaller --ctx-size");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::out_of_memory);
    for (const char * part : {"3.00 GiB", "2.00 GiB", "--ctx-size", "KV cache"}) {
        EXPECT_NE(status.error().message.find(part), std::string::npos) << part;
    }
}

TEST(MemoryPlan, MappedBytesDoNotCountAgainstTheLimit) {
    MemoryPlan plan;
    plan.add("weights", 1ULL << 50, true);
    EXPECT_TRUE(plan.enforce(1, "nothing").ok());
}

TEST(MemoryPlan, WithoutALimitTheSystemsMemoryCounts) {
    EXPECT_GT(available_memory_bytes(), 1U << 20);
    MemoryPlan plan;
    plan.add("a petabyte", 1ULL << 50);
    EXPECT_FALSE(plan.enforce(0, "less").ok());
}

TEST(MemoryPlan, SumsThatDoNotFitStayTooBig) {
    MemoryPlan plan;
    plan.add("a", std::numeric_limits<uint64_t>::max());
    plan.add("b", 2);
    EXPECT_FALSE(plan.enforce(1ULL << 60, "less").ok());
}

TEST(MemoryPlan, BytesReadAsPeopleWriteThem) {
    EXPECT_EQ(bytes_text(0), "0 B");
    EXPECT_EQ(bytes_text(1023), "1023 B");
    EXPECT_EQ(bytes_text(1536), "1.50 KiB");
    EXPECT_EQ(bytes_text(4960000000ULL), "4.62 GiB");
}

}  // namespace
}  // namespace lumi
