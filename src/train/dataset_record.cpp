// The shapes of records that people's data has; each becomes messages or a text.
#include "train/dataset_record.h"

#include "base/utf8.h"
#include "chat/message_json.h"

#include <nlohmann/json.hpp>

namespace lumi {

namespace {

using nlohmann::json;

Error bad(const std::string & what) {
    return {ErrorKind::invalid_argument, what};
}

std::string key_list(const json & object) {
    std::string text;
    for (auto it = object.begin(); it != object.end() && text.size() < 200; ++it) {
        text += (text.empty() ? "" : ", ") + quoted(it.key(), 40);
    }
    return text.empty() ? "none" : text;
}

bool has(const json & object, const char * key) {
    const auto it = object.find(key);
    return it != object.end() && !it->is_null();
}

Result<std::string> string_of(const json & value, const std::string & path) {
    if (!value.is_string()) {
        return bad(path + " is " + value.type_name() + ", allowed is a string");
    }
    return value.get<std::string>();
}

// Empty when absent or null.
Result<std::string> string_field(const json & object, const char * key) {
    return has(object, key) ? string_of(object[key], key) : Result<std::string>(std::string());
}

Message make_message(Role role, std::string content) {
    Message message;
    message.role = role;
    message.content = std::move(content);
    return message;
}

// "tools": a list or its text; an entry may be OpenAI's or the bare function.
Result<std::vector<Tool>> read_tools(const json & record) {
    if (!has(record, "tools")) {
        return std::vector<Tool>();
    }
    json tools = record["tools"];
    if (tools.is_string()) {
        const std::string text = tools.get<std::string>();
        if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
            return std::vector<Tool>();
        }
        auto parsed = parse_json(text, DuplicateKeys::refused);
        if (!parsed.ok()) {
            return parsed.error().within("tools");
        }
        tools = std::move(parsed).value();
    }
    if (tools.is_array()) {
        for (json & tool : tools) {
            if (tool.is_object() && !tool.contains("function") && tool.contains("name")) {
                tool = {{"type", "function"}, {"function", tool}};
            }
        }
    }
    return tools_from_json(tools);
}

Result<Record> read_messages(const json & record, const char * key, const char * kind) {
    Record out;
    out.kind = kind;
    auto messages = messages_from_json(record[key]);
    if (!messages.ok()) {
        return messages.error();
    }
    out.messages = std::move(messages).value();
    out.tools = LUMI_TRY(read_tools(record));
    return out;
}

// The role that a ShareGPT speaker has in OpenAI's shape; null when there is none.
const char * role_of(const std::string & speaker) {
    static constexpr std::pair<std::string_view, const char *> kSpeakers[] = {
        {"human", "user"},
        {"user", "user"},
        {"gpt", "assistant"},
        {"assistant", "assistant"},
        {"model", "assistant"},
        {"bot", "assistant"},
        {"chatgpt", "assistant"},
        {"system", "system"},
        {"function_call", "assistant"},
        {"tool_call", "assistant"},
        {"observation", "tool"},
        {"tool", "tool"},
        {"tool_response", "tool"},
        {"function_response", "tool"}};
    for (const auto & [name, role] : kSpeakers) {
        if (name == speaker) {
            return role;
        }
    }
    return nullptr;
}

// A function_call's value, {"name", "arguments"} or a list of them, as OpenAI's tool_calls.
Result<json> calls_of(const std::string & value, const std::string & path) {
    auto parsed = parse_json(value, DuplicateKeys::refused);
    if (!parsed.ok()) {
        return parsed.error().within(path + ".value");
    }
    json calls = json::array();
    for (const json & call : parsed->is_array() ? *parsed : json::array({*parsed})) {
        if (!call.is_object() || !call.contains("name")) {
            return bad(path + ".value: a function_call is {\"name\", \"arguments\"} as JSON");
        }
        calls.push_back({{"type", "function"}, {"function", call}});
    }
    return calls;
}

Result<json> turn_from(const json & turn, const std::string & path) {
    if (!turn.is_object() || !has(turn, "from") || !turn.contains("value")) {
        return bad(path + ": allowed is an object with from and value");
    }
    const std::string speaker = LUMI_TRY(string_of(turn["from"], path + ".from"));
    const std::string value = LUMI_TRY(string_of(turn["value"], path + ".value"));
    const char * role = role_of(speaker);
    if (role == nullptr) {
        return bad(path + ".from: unknown speaker " + quoted(speaker, 40) +
                   "; allowed: human, user, gpt, assistant, model, system, function_call, "
                   "observation, tool");
    }
    json message = {{"role", role}};
    if (speaker == "function_call" || speaker == "tool_call") {
        message["tool_calls"] = LUMI_TRY(calls_of(value, path));
    } else {
        message["content"] = value;
    }
    if (has(turn, "weight")) {
        message["weight"] = turn["weight"];
    }
    return message;
}

Result<Record> read_conversation(const json & record, const char * key) {
    const json & turns = record[key];
    json messages = json::array();
    const std::string system = LUMI_TRY(string_field(record, "system"));
    if (!system.empty()) {
        messages.push_back({{"role", "system"}, {"content", system}});
    }
    for (size_t i = 0; i < turns.size(); ++i) {
        const std::string path = std::string(key) + "[" + std::to_string(i) + "]";
        messages.push_back(LUMI_TRY(turn_from(turns[i], path)));
    }
    Record out;
    out.kind = "conversation";
    out.messages = LUMI_TRY(messages_from_json(messages));
    out.tools = LUMI_TRY(read_tools(record));
    return out;
}

// "messages" or "conversations": whose shape it is, its first entry says.
Result<Record> read_turns(const json & record, const char * key, const char * kind) {
    const json & turns = record[key];
    const bool by_speaker = turns.is_array() && !turns.empty() && turns[0].is_object() &&
                            turns[0].contains("from") && !turns[0].contains("role");
    return by_speaker ? read_conversation(record, key) : read_messages(record, key, kind);
}

Status add_history(const json & history, std::vector<Message> & messages) {
    if (!history.is_array()) {
        return bad(std::string("history is ") + history.type_name() + ", allowed is a list");
    }
    for (size_t i = 0; i < history.size(); ++i) {
        const std::string path = "history[" + std::to_string(i) + "]";
        if (!history[i].is_array() || history[i].size() != 2) {
            return bad(path + ": allowed is a list of two strings, user and assistant");
        }
        std::string user = LUMI_TRY(string_of(history[i][0], path + "[0]"));
        std::string assistant = LUMI_TRY(string_of(history[i][1], path + "[1]"));
        messages.push_back(make_message(Role::user, std::move(user)));
        messages.push_back(make_message(Role::assistant, std::move(assistant)));
    }
    return {};
}

Result<Record> read_instruction(const json & record) {
    Record out;
    out.kind = "instruction";
    const std::string system = LUMI_TRY(string_field(record, "system"));
    if (!system.empty()) {
        out.messages.push_back(make_message(Role::system, system));
    }
    if (has(record, "history")) {
        LUMI_TRY(add_history(record["history"], out.messages));
    }
    std::string user = LUMI_TRY(string_of(record["instruction"], "instruction"));
    const std::string input = LUMI_TRY(string_field(record, "input"));
    user += input.empty() ? "" : (user.empty() ? "" : "\n") + input;
    out.messages.push_back(make_message(Role::user, std::move(user)));
    std::string output = LUMI_TRY(string_of(record["output"], "output"));
    out.messages.push_back(make_message(Role::assistant, std::move(output)));
    return out;
}

// A text said by role, or a list of messages.
Result<std::vector<Message>> read_side(const json & record, const char * key, Role role) {
    const json & side = record[key];
    if (side.is_array()) {
        auto messages = messages_from_json(side);
        return messages.ok() ? std::move(messages) : messages.error().within(key);
    }
    std::string text = LUMI_TRY(string_of(side, key));
    return std::vector<Message>{make_message(role, std::move(text))};
}

Result<Record> read_prompt(const json & record) {
    Record out;
    out.kind = "prompt";
    out.messages = LUMI_TRY(read_side(record, "prompt", Role::user));
    for (Message & message : out.messages) {
        message.weight = 0.0F;  // asked for, not learnt
    }
    const std::vector<Message> completion =
        LUMI_TRY(read_side(record, "completion", Role::assistant));
    out.messages.insert(out.messages.end(), completion.begin(), completion.end());
    out.tools = LUMI_TRY(read_tools(record));
    return out;
}

Result<Record> read_shape(const json & value) {
    Record out;
    out.kind = "text";
    if (value.is_string()) {
        out.text = value.get<std::string>();
        return out;
    }
    if (!value.is_object()) {
        return bad(std::string("found ") + value.type_name() + ", allowed is a JSON object");
    }
    if (value.contains("messages")) {
        return read_turns(value, "messages", "chat");
    }
    if (value.contains("conversations")) {
        return read_turns(value, "conversations", "conversation");
    }
    if (value.contains("instruction") && value.contains("output")) {
        return read_instruction(value);
    }
    if (value.contains("prompt") && value.contains("completion")) {
        return read_prompt(value);
    }
    if (value.contains("text")) {
        out.text = LUMI_TRY(string_of(value["text"], "text"));
        return out;
    }
    return bad("found the keys " + key_list(value) +
               "; allowed: messages, conversations, instruction with output, prompt with "
               "completion, or text");
}

bool weight_allowed(double weight) {
    return weight >= kLeastWeight && weight <= kMostWeight;  // false for what is not a number
}

// The record's own weight goes into its messages'.
Status apply_weight(const json & value, Record & record) {
    if (!value.is_object() || (!has(value, "weight") && !has(value, "reward"))) {
        return {};
    }
    if (has(value, "weight") && has(value, "reward")) {
        return bad("found weight and reward; allowed is one of them");
    }
    const std::string key = has(value, "weight") ? "weight" : "reward";
    const json & weight = value[key];
    if (!weight.is_number() || !weight_allowed(weight.get<double>())) {
        return bad(key + ": found " +
                   (weight.is_number() ? weight.dump() : std::string(weight.type_name())) +
                   "; allowed: a number from -1 to 100");
    }
    record.weight = weight.get<float>();
    for (size_t i = 0; i < record.messages.size(); ++i) {
        record.messages[i].weight *= record.weight;
        if (!weight_allowed(static_cast<double>(record.messages[i].weight))) {
            return bad("messages[" + std::to_string(i) + "].weight times " + key +
                       " is out of range; allowed: a product from -1 to 100");
        }
    }
    return {};
}

}  // namespace

Result<Record> read_record(const json & value) {
    Record record = LUMI_TRY(read_shape(value));
    LUMI_TRY(apply_weight(value, record));
    return record;
}

}  // namespace lumi
