// A conversation as every part of lumi sees it: server, command line and training data alike.
#pragma once

#include <string>
#include <vector>

namespace lumi {

enum class Role : unsigned char { system, user, assistant, tool };

struct ToolCall {
    std::string id;
    std::string name;
    std::string arguments;  // a JSON object as text; some families print it as it is
};

struct Message {
    Role role = Role::user;
    std::string content;
    std::string reasoning;             // the assistant's thought, empty for none
    std::vector<ToolCall> tool_calls;  // assistant only
    std::string tool_call_id;          // tool only
    std::string name;                  // tool only: which tool answered
    float weight = 1.0F;               // training: how much this assistant turn counts; 0 = not
};

struct Tool {
    std::string name;
    std::string description;
    std::string parameters;  // a JSON schema as text; some families print it as it is
};

}  // namespace lumi
