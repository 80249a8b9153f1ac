// Reads OpenAI-shaped conversations; see the header for what is accepted.
#include "chat/message_json.h"

#include "base/utf8.h"

#include <nlohmann/json.hpp>

namespace lumi {

using nlohmann::json;

namespace {

Error bad(const std::string & path, const std::string & found, const std::string & allowed) {
    return {ErrorKind::invalid_argument, path + ": " + found + "; allowed: " + allowed};
}

std::string type_text(const json & value) {
    return std::string("found ") + value.type_name();
}

Result<Role> role_from(const std::string & name, const std::string & path) {
    if (name == "system" || name == "developer") {
        return Role::system;
    }
    if (name == "user") {
        return Role::user;
    }
    if (name == "assistant" || name == "model") {
        return Role::assistant;
    }
    if (name == "tool" || name == "function") {
        return Role::tool;
    }
    return bad(path, "unknown role", "system, developer, user, assistant, model, tool");
}

// A string member; empty when absent or null.
Result<std::string> text_member(const json & object, const char * key, const std::string & path) {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) {
        return std::string();
    }
    if (!it->is_string()) {
        return bad(path + "." + key, type_text(*it), "a string");
    }
    return it->get<std::string>();
}

// An object as text, or the text of one, which is how parse_json leaves it.
std::string json_or_text(const json & value) {
    return value.is_string() ? value.get<std::string>() : json_text(value);
}

Result<std::string> content_from(const json & message, const std::string & path) {
    const auto it = message.find("content");
    if (it == message.end() || it->is_null()) {
        return std::string();
    }
    if (it->is_string()) {
        return it->get<std::string>();
    }
    if (!it->is_array()) {
        return bad(path + ".content", type_text(*it), "a string or a list of text parts");
    }
    std::string text;
    for (size_t i = 0; i < it->size(); ++i) {
        const json & part = (*it)[i];
        const std::string part_path = path + ".content[" + std::to_string(i) + "]";
        if (part.is_string()) {
            text += part.get<std::string>();
            continue;
        }
        if (!part.is_object()) {
            return bad(part_path, type_text(part), "an object with type and text");
        }
        const std::string type = LUMI_TRY(text_member(part, "type", part_path));
        if (type != "text") {
            return Error{ErrorKind::unsupported,
                         part_path +
                             ".type: only text parts can be read; images and audio are not yet"};
        }
        text += LUMI_TRY(text_member(part, "text", part_path));
    }
    return text;
}

Result<ToolCall> tool_call_from(const json & value, const std::string & path) {
    if (!value.is_object()) {
        return bad(path, type_text(value), "an object");
    }
    const auto function = value.find("function");
    if (function == value.end() || !function->is_object()) {
        return bad(path + ".function", "missing or not an object", "{name, arguments}");
    }
    ToolCall call;
    call.id = LUMI_TRY(text_member(value, "id", path));
    call.name = LUMI_TRY(text_member(*function, "name", path + ".function"));
    if (call.name.empty()) {
        return bad(path + ".function.name", "empty", "a function name");
    }
    const auto arguments = function->find("arguments");
    if (arguments == function->end() || arguments->is_null()) {
        call.arguments = "{}";
    } else if (arguments->is_string()) {
        call.arguments = arguments->get<std::string>();
        const Result<json> parsed = parse_json(call.arguments.empty() ? "{}" : call.arguments);
        if (!parsed.ok()) {
            return parsed.error().within(path + ".function.arguments");
        }
        if (!parsed->is_object()) {
            return bad(path + ".function.arguments", type_text(*parsed), "a JSON object");
        }
    } else if (arguments->is_object()) {
        call.arguments = json_text(*arguments);
    } else {
        return bad(path + ".function.arguments", type_text(*arguments),
                   "a JSON object or its text");
    }
    return call;
}

Result<Message> message_from(const json & value, const std::string & path) {
    if (!value.is_object()) {
        return bad(path, type_text(value), "an object with role and content");
    }
    Message message;
    const std::string role = LUMI_TRY(text_member(value, "role", path));
    message.role = LUMI_TRY(role_from(role, path + ".role"));
    message.content = LUMI_TRY(content_from(value, path));
    message.reasoning = LUMI_TRY(text_member(value, "reasoning_content", path));
    message.tool_call_id = LUMI_TRY(text_member(value, "tool_call_id", path));
    message.name = LUMI_TRY(text_member(value, "name", path));
    if (const auto weight = value.find("weight"); weight != value.end() && !weight->is_null()) {
        if (!weight->is_number() ||
            !(weight->get<double>() >= -1.0 && weight->get<double>() <= 100.0)) {
            return bad(path + ".weight", weight->is_number() ? "out of range" : type_text(*weight),
                       "a number from -1 to 100");
        }
        message.weight = weight->get<float>();
    }
    if (const auto calls = value.find("tool_calls"); calls != value.end() && !calls->is_null()) {
        if (!calls->is_array()) {
            return bad(path + ".tool_calls", type_text(*calls), "a list");
        }
        for (size_t i = 0; i < calls->size(); ++i) {
            const std::string call_path = path + ".tool_calls[" + std::to_string(i) + "]";
            message.tool_calls.push_back(LUMI_TRY(tool_call_from((*calls)[i], call_path)));
        }
    }
    return message;
}

}  // namespace

Result<std::vector<Message>> messages_from_json(const json & value) {
    if (!value.is_array() || value.empty()) {
        return bad("messages", value.is_array() ? "an empty list" : type_text(value),
                   "a list of one or more messages");
    }
    std::vector<Message> messages;
    messages.reserve(value.size());
    for (size_t i = 0; i < value.size(); ++i) {
        messages.push_back(LUMI_TRY(message_from(value[i], "messages[" + std::to_string(i) + "]")));
    }
    return messages;
}

Result<std::vector<Tool>> tools_from_json(const json & value) {
    if (!value.is_array()) {
        return bad("tools", type_text(value), "a list");
    }
    std::vector<Tool> tools;
    for (size_t i = 0; i < value.size(); ++i) {
        const std::string path = "tools[" + std::to_string(i) + "]";
        if (!value[i].is_object() || !value[i].contains("function") ||
            !value[i]["function"].is_object()) {
            return bad(path, "no function object", "{type: function, function: {name, ...}}");
        }
        const json & function = value[i]["function"];
        Tool tool;
        tool.name = LUMI_TRY(text_member(function, "name", path + ".function"));
        if (tool.name.empty()) {
            return bad(path + ".function.name", "empty", "a function name");
        }
        tool.description = LUMI_TRY(text_member(function, "description", path + ".function"));
        if (const auto schema = function.find("parameters"); schema != function.end()) {
            tool.parameters = json_or_text(*schema);
        }
        tools.push_back(std::move(tool));
    }
    return tools;
}

}  // namespace lumi
