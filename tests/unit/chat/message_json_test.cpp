// Conversations from clients: every shape that is accepted, and errors that name the place and
// never repeat the client's bytes (cases/server.md S9, S10).
#include "base/utf8.h"
#include "chat/message_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lumi {
namespace {

using nlohmann::json;

TEST(MessageJson, BrokenJsonIsAnErrorWithAByteAndNotAnAbort) {
    const std::string open(1 << 20, '[');
    for (const std::string & text :
         {std::string("{:"), std::string(), std::string("\0", 1), std::string("\xe2"),
          std::string("\"\xc4\xe3\xba\xc3\""), open, open + std::string(open.size(), ']'),
          std::string("{} {}"), std::string("nul")}) {
        const Result<json> value = parse_json(text);
        ASSERT_FALSE(value.ok()) << text.substr(0, 40);
        EXPECT_EQ(value.error().kind, ErrorKind::invalid_argument);
        EXPECT_TRUE(utf8_valid(value.error().message));
        EXPECT_LT(value.error().message.size(), 200U);
    }
}

TEST(MessageJson, ANumberThatDoesNotFitIsCalledThat) {
    const Result<json> value = parse_json(R"({"temperature": 1e999})");
    ASSERT_FALSE(value.ok());
    EXPECT_NE(value.error().message.find("a number that is too large"), std::string::npos);
}

TEST(MessageJson, EveryShapeOfAMessageIsRead) {
    const json value = json::parse(R"([
        {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"user","content":"c"},
        {"role":"model","content":null,"reasoning_content":"r","weight":0.5,"tool_calls":[
            {"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
            {"function":{"name":"g","arguments":{"y":null}}}]},
        {"role":"tool","tool_call_id":"1","name":"f","content":"d"}])");
    const Result<std::vector<Message>> messages = messages_from_json(value);
    ASSERT_TRUE(messages.ok()) << messages.error().message;
    ASSERT_EQ(messages->size(), 4U);
    const Message & system = (*messages)[0];
    const Message & assistant = (*messages)[2];
    EXPECT_EQ(system.role, Role::system);
    EXPECT_EQ(system.content, "ab");
    EXPECT_EQ(assistant.role, Role::assistant);
    EXPECT_EQ(assistant.reasoning, "r");
    EXPECT_EQ(assistant.weight, 0.5F);
    ASSERT_EQ(assistant.tool_calls.size(), 2U);
    EXPECT_EQ(json::parse(assistant.tool_calls[0].arguments), json({{"x", 1}}));
    EXPECT_EQ(json::parse(assistant.tool_calls[1].arguments), json({{"y", nullptr}}));
    EXPECT_EQ((*messages)[3].tool_call_id, "1");
}

TEST(MessageJson, WrongShapesAreNamedByTheirPath) {
    const std::pair<const char *, const char *> cases[] = {
        {"{}", "messages"},
        {"[]", "messages"},
        {"[1]", "messages[0]"},
        {R"([{"role":"robot","content":"x"}])", "messages[0].role"},
        {R"([{"role":"user","content":7}])", "messages[0].content"},
        {R"([{"role":"user","content":[{"type":"image_url"}]}])", "messages[0].content[0]"},
        {R"([{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{}]}])",
         "messages[1].tool_calls[0]"},
        {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}])",
         "messages[0].tool_calls[0].function.arguments"},
        {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{x"}}]}])",
         "messages[0].tool_calls[0].function.arguments: not valid JSON"},
        {R"([{"role":"assistant","content":"x","weight":"big"}])", "messages[0].weight"},
    };
    for (const auto & [text, path] : cases) {
        const Result<std::vector<Message>> messages = messages_from_json(json::parse(text));
        ASSERT_FALSE(messages.ok()) << text;
        EXPECT_NE(messages.error().message.find(path), std::string::npos)
            << messages.error().message;
    }
}

// Templates print schemas and arguments as they were written, and json sorts members.
TEST(MessageJson, SchemasAndArgumentsKeepTheirOrderAndPythonsSpacing) {
    const json tools = parse_json(R"([{"function":{"parameters":{"type":"object","properties":
        {"z":{"enum":["b","a"],"default":1.50},"a":{}},"required":[]},"name":"f"}}])")
                           .value();
    EXPECT_EQ(tools_from_json(tools)->at(0).parameters,
              "{\"type\": \"object\", \"properties\": {\"z\": {\"enum\": [\"b\", \"a\"], "
              "\"default\": 1.5}, \"a\": {}}, \"required\": []}");
    const json messages = parse_json(R"([{"role":"assistant","tool_calls":[
        {"function":{"name":"f","arguments":{"z":[{"arguments":{"y":1,"x":"\"é"}},null],"a":-2}}},
        {"function":{"name":"g","arguments":"{\"b\":1,\"a\":2}"}}]}])")
                              .value();
    const std::vector<ToolCall> calls = messages_from_json(messages)->at(0).tool_calls;
    EXPECT_EQ(calls.at(0).arguments,
              "{\"z\": [{\"arguments\": {\"y\": 1, \"x\": \"\\\"é\"}}, null], \"a\": -2}");
    EXPECT_EQ(calls.at(1).arguments, "{\"b\":1,\"a\":2}");
}

}  // namespace
}  // namespace lumi
