// UTF-8 against an oracle that goes by numbers (decode, then range, overlong and surrogate checks)
// instead of by the table of allowed bytes.
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace lumi {

namespace {

// Bytes of the code point at the start of text, 0 when there is none.
size_t oracle_length(const std::string & text) {
    if (text.empty()) {
        return 0;
    }
    const auto byte = [&](size_t i) -> uint32_t { return static_cast<unsigned char>(text[i]); };
    const uint32_t lead = byte(0);
    const size_t length = lead < 0x80       ? 1
                          : lead >> 5 == 6  ? 2
                          : lead >> 4 == 14 ? 3
                          : lead >> 3 == 30 ? 4
                                            : 0;
    if (length == 0 || text.size() < length) {
        return 0;
    }
    uint32_t code = length == 1 ? lead : lead & (0x7fU >> length);
    for (size_t i = 1; i < length; ++i) {
        if (byte(i) >> 6 != 2) {
            return 0;
        }
        code = code << 6 | (byte(i) & 63);
    }
    constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    return code >= kSmallest[length] && code <= 0x10ffff && !surrogate ? length : 0;
}

bool oracle_valid(std::string text) {
    while (!text.empty()) {
        const size_t length = oracle_length(text);
        if (length == 0) {
            return false;
        }
        text.erase(0, length);
    }
    return true;
}

// Whether some bytes behind text would make it one code point.
bool oracle_unfinished(const std::string & text) {
    static const std::vector<std::string> kEnds = [] {
        std::vector<std::string> ends;
        for (const char a : {'\x80', '\x8f', '\x90', '\x9f', '\xa0', '\xbf'}) {
            const std::string one(1, a);
            ends.insert(ends.end(), {one, one + "\x80", one + "\x80\x80"});
        }
        return ends;
    }();
    for (const std::string & end : kEnds) {
        if (oracle_length(text + end) == text.size() + end.size()) {
            return true;
        }
    }
    return false;
}

size_t oracle_complete_prefix(const std::string & text) {
    for (size_t tail = std::min<size_t>(3, text.size()); tail > 0; --tail) {
        if (oracle_unfinished(text.substr(text.size() - tail))) {
            return text.size() - tail;
        }
    }
    return text.size();
}

// Calls check with every string of up to max_length of the bytes at which the rules change.
template <typename Check> void for_all_texts(size_t max_length, Check check) {
    const std::string bytes =
        "a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xed\xef\xf0\xf1\xf4\xf5\xff";
    std::vector<std::string> level = {""};
    for (size_t length = 1; length <= max_length; ++length) {
        std::vector<std::string> next;
        for (const std::string & start : level) {
            for (const char c : bytes) {
                next.push_back(start + c);
                check(next.back());
            }
        }
        level = std::move(next);
    }
}

TEST(Utf8, ValidityAgreesWithDecodingByNumbers) {
    for_all_texts(4, [](const std::string & text) {
        ASSERT_EQ(utf8_valid(text), oracle_valid(text)) << lumi::quoted(text);
    });
}

TEST(Utf8, EveryCodePointIsValidAndNoCutOfItIs) {
    for (uint32_t code = 0x80; code <= 0x10ffff; code += code < 0x11000 ? 1 : 97) {
        if (code >= 0xd800 && code < 0xe000) {
            continue;
        }
        std::string text;
        const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
        if (code < 0x800) {
            add(0xc0 | code >> 6);
        } else {
            if (code < 0x10000) {
                add(0xe0 | code >> 12);
            } else {
                add(0xf0 | code >> 18);
                add(0x80 | (code >> 12 & 63));
            }
            add(0x80 | (code >> 6 & 63));
        }
        add(0x80 | (code & 63));
        ASSERT_TRUE(utf8_valid(text)) << code;
        ASSERT_EQ(utf8_lead_length(static_cast<unsigned char>(text[0])), text.size());
        for (size_t n = 1; n < text.size(); ++n) {
            ASSERT_FALSE(utf8_valid(text.substr(0, n))) << code;
            ASSERT_EQ(utf8_complete_prefix("ab" + text.substr(0, n)), 2U) << code;
        }
        ASSERT_EQ(utf8_complete_prefix("ab" + text), 2 + text.size()) << code;
    }
}

TEST(Utf8, CompletePrefixHoldsBackExactlyWhatMayStillBecomeACodePoint) {
    for_all_texts(4, [](const std::string & text) {
        ASSERT_EQ(utf8_complete_prefix(text), oracle_complete_prefix(text)) << lumi::quoted(text);
    });
    EXPECT_EQ(utf8_complete_prefix(""), 0U);
}

TEST(Utf8, SanitizedTextIsValidAndValidTextUnchanged) {
    for_all_texts(3, [](const std::string & text) {
        const std::string clean = utf8_sanitized(text);
        ASSERT_TRUE(utf8_valid(clean));
        if (oracle_valid(text)) {
            ASSERT_EQ(clean, text);
        }
    });
    EXPECT_EQ(utf8_sanitized("a\xff\xc3z"), "a\xef\xbf\xbd\xef\xbf\xbdz");
    EXPECT_EQ(utf8_sanitized("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd") << "one for each byte";
}

TEST(Utf8, BytesThatCannotLeadCountAsOne) {
    for (const int byte : {0x80, 0xbf, 0xc0, 0xc1, 0xf5, 0xff, 0x00, 0x7f}) {
        EXPECT_EQ(utf8_lead_length(static_cast<unsigned char>(byte)), 1U) << byte;
    }
}

TEST(Utf8, QuotedTextIsSafeToPrint) {
    EXPECT_EQ(lumi::quoted("plain"), "'plain'");
    EXPECT_EQ(lumi::quoted(std::string("a\0b\x1b\n\x7f", 6)), "'a\\x00b\\x1b\\n\\x7f'");
    EXPECT_EQ(lumi::quoted("\xff"), "'\xef\xbf\xbd'");
    EXPECT_EQ(lumi::quoted("abcdef", 3), "'abc...'");
    EXPECT_EQ(lumi::quoted("a\xe2\x96\x81\xe2\x96\x81", 5), "'a\xe2\x96\x81...'")
        << "no half code point";
}

}  // namespace

}  // namespace lumi
