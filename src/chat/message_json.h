// Conversations in OpenAI's JSON shape, read for the server and for training data alike.
#pragma once

#include "chat/message.h"

#include <lumi/error.h>

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace lumi {

// json: the "messages" array. content may be a string, null beside tool calls, or a list of text
// parts; arguments of tool calls may be a JSON text or an object. Roles: system, developer, user,
// assistant, model, tool. Errors name the path, e.g. messages[2].content.
Result<std::vector<Message>> messages_from_json(const nlohmann::json & json);

// json: the "tools" array of {"type":"function","function":{name, description, parameters}}.
Result<std::vector<Tool>> tools_from_json(const nlohmann::json & json);

// A key that an object has twice: the last one wins, as usual in JSON, or it is an error.
enum class DuplicateKeys : unsigned char { last_wins, refused };

// Parses text; the error holds what the parser said and the byte, never the text itself (but a
// duplicate key's name). Objects under the keys "parameters" and "arguments" come back as
// their JSON text, members in the order they were written, spaced as Python writes them: that is
// how templates print them.
Result<nlohmann::json> parse_json(std::string_view text,
                                  DuplicateKeys duplicates = DuplicateKeys::last_wins);

// One line of JSON; invalid UTF-8 becomes U+FFFD instead of an exception.
std::string json_text(const nlohmann::json & value);

}  // namespace lumi
