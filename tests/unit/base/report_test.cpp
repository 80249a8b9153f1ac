// How lumi reports: error kinds, results, and the log sink.
#include "base/log.h"

#include <lumi/error.h>

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

namespace lumi {

namespace {

TEST(Errors, EveryKindHasItsOwnName) {
    std::set<std::string> names;
    for (int kind = 0; kind <= static_cast<int>(ErrorKind::internal); ++kind) {
        names.insert(error_kind_name(static_cast<ErrorKind>(kind)));
    }
    EXPECT_EQ(names.size(), 8U);
    EXPECT_STREQ(error_kind_name(ErrorKind::out_of_memory), "out_of_memory");
}

Result<std::unique_ptr<int>> half(int n) {
    if (n % 2 != 0) {
        return Error{ErrorKind::invalid_argument, "odd"};
    }
    return std::make_unique<int>(n / 2);
}

Status quarter(int n, int & out) {
    const std::unique_ptr<int> once = LUMI_TRY(half(n));
    const std::unique_ptr<int> twice = LUMI_TRY(half(*once));
    out = *twice;
    return {};
}

TEST(Errors, TryPassesValuesOnAndReturnsTheFirstError) {
    int out = 0;
    EXPECT_TRUE(quarter(12, out));
    EXPECT_EQ(out, 3);
    const Status failed = quarter(6, out);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().within("file.txt").message, "file.txt: odd");
    EXPECT_EQ(failed.error().within("x").kind, ErrorKind::invalid_argument);
}

TEST(Log, GoesToTheSinkAndNowhereWithoutOne) {
    std::vector<std::string> lines;
    set_log_sink([&](LogLevel level, std::string_view text) {
        lines.push_back(std::to_string(static_cast<int>(level)) + std::string(text));
    });
    log(LogLevel::warning, "careful");
    set_log_sink({});
    log(LogLevel::error, "dropped");
    EXPECT_EQ(lines, std::vector<std::string>{"2careful"});
}

TEST(Log, ASinkMayLogAndReplaceItself) {
    int calls = 0;
    set_log_sink([&](LogLevel, std::string_view) {
        ++calls;
        set_log_sink({});
        log(LogLevel::info, "inside");
    });
    log(LogLevel::info, "outside");
    EXPECT_EQ(calls, 1);
}

}  // namespace

}  // namespace lumi
