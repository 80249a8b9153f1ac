// Order, commas and braces follow the vendor's template of 2026-07-09, its oddities included,
// because the weights have seen exactly that.
#include "chat/gemma4_values.h"

#include "base/utf8.h"
#include "chat/message_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace lumi {

namespace {

using Json = nlohmann::json;

std::string lowered(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return text;
}

std::string uppered(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    return text;
}

// The members of an object in the template's order: by key, case ignored.
std::vector<std::pair<std::string, const Json *>> sorted_members(const Json & object) {
    std::vector<std::pair<std::string, const Json *>> members;
    for (const auto & [key, value] : object.items()) {
        members.emplace_back(key, &value);
    }
    std::stable_sort(members.begin(), members.end(), [](const auto & a, const auto & b) {
        return lowered(a.first) < lowered(b.first);
    });
    return members;
}

// A member that counts as true in the template; null otherwise.
const Json * truthy(const Json & object, const char * key) {
    if (!object.is_object()) {
        return nullptr;
    }
    const auto found = object.find(key);
    if (found == object.end() || found->is_null() || *found == false || *found == "" ||
        *found == 0 || (found->is_structured() && found->empty())) {
        return nullptr;
    }
    return &*found;
}

// Writes a comma before every call but the first.
class Commas {
  public:
    explicit Commas(PromptBuilder & out) : out_(out) {}
    void next() {
        if (!first_) {
            out_.text(",");
        }
        first_ = false;
    }

  private:
    PromptBuilder & out_;
    bool first_ = true;
};

std::string plain_text(const Json & value) {
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_value(PromptBuilder & out, const Json & value, bool quote_keys) {
    if (value.is_string()) {
        write_gemma4_string(out, value.get<std::string>());
    } else if (value.is_object()) {
        out.text("{");
        Commas commas(out);
        for (const auto & [key, member] : sorted_members(value)) {
            commas.next();
            if (quote_keys) {
                write_gemma4_string(out, key);
            } else {
                out.text(key);
            }
            out.text(":");
            write_value(out, *member, quote_keys);
        }
        out.text("}");
    } else if (value.is_array()) {
        out.text("[");
        Commas commas(out);
        for (const Json & item : value) {
            commas.next();
            write_value(out, item, quote_keys);
        }
        out.text("]");
    } else {
        out.text(plain_text(value));
    }
}

// A type name in capitals; a list of types as the template prints it.
std::string type_text(const Json & schema) {
    const Json * type = truthy(schema, "type");
    if (type == nullptr || !type->is_array()) {
        return type == nullptr ? "" : uppered(plain_text(*type));
    }
    std::string text = "[";
    for (const Json & one : *type) {
        text += (text.size() > 1 ? ", '" : "'") + uppered(plain_text(one)) + "'";
    }
    return text + "]";
}

void write_required(PromptBuilder & out, const Json & names) {
    out.text("required:[");
    Commas commas(out);
    for (const Json & name : names) {
        commas.next();
        write_gemma4_string(out, plain_text(name));
    }
    out.text("]");
}

void write_properties(PromptBuilder & out, const Json & properties, bool skip_standard_keys);

void write_items(PromptBuilder & out, const Json & items) {
    out.text("items:{");
    Commas commas(out);
    for (const auto & [key, value] : sorted_members(items)) {
        if (value->is_null()) {
            continue;
        }
        commas.next();
        if (key == "properties") {
            out.text("properties:{");
            if (value->is_object()) {
                write_properties(out, *value, false);
            }
            out.text("}");
        } else if (key == "required") {
            write_required(out, *value);
        } else if (key == "type") {
            out.text("type:");
            Json type = *value;
            if (type.is_string()) {
                type = uppered(type.get<std::string>());
            } else if (type.is_array()) {
                for (Json & one : type) {
                    one = uppered(plain_text(one));
                }
            }
            write_value(out, type, true);
        } else {
            out.text(key + ":");
            write_value(out, *value, true);
        }
    }
    out.text("}");
}

// One property's schema, without the braces.
void write_schema(PromptBuilder & out, const Json & schema) {
    Commas commas(out);
    const std::string type = type_text(schema);
    if (const Json * description = truthy(schema, "description")) {
        commas.next();
        out.text("description:");
        write_gemma4_string(out, plain_text(*description));
    }
    if (const Json * choices = type == "STRING" ? truthy(schema, "enum") : nullptr) {
        commas.next();
        out.text("enum:");
        write_value(out, *choices, true);
    }
    if (const Json * items = type == "ARRAY" ? truthy(schema, "items") : nullptr;
        items != nullptr && items->is_object()) {
        commas.next();
        write_items(out, *items);
    }
    if (truthy(schema, "nullable") != nullptr) {
        commas.next();
        out.text("nullable:true");
    }
    if (type == "OBJECT") {
        const auto properties = schema.find("properties");
        const bool own = properties != schema.end() && properties->is_object();
        commas.next();
        out.text("properties:{");
        write_properties(out, own ? *properties : schema, !own);
        out.text("}");
        if (const Json * required = truthy(schema, "required")) {
            commas.next();
            write_required(out, *required);
        }
    }
    commas.next();
    out.text("type:");
    write_gemma4_string(out, type);
}

void write_properties(PromptBuilder & out, const Json & properties, bool skip_standard_keys) {
    constexpr std::string_view kStandard[] = {"description", "type", "properties", "required",
                                              "nullable"};
    Commas commas(out);
    for (const auto & [key, schema] : sorted_members(properties)) {
        if (skip_standard_keys &&
            std::find(std::begin(kStandard), std::end(kStandard), key) != std::end(kStandard)) {
            continue;
        }
        commas.next();
        out.text(key + ":{");
        write_schema(out, *schema);
        out.text("}");
    }
}

// A JSON object from text; empty text and null count as an empty object.
Result<Json> parse_object(std::string_view text, const std::string & what) {
    Result<Json> value = parse_json(text.empty() ? "{}" : text);
    if (!value.ok()) {
        return value.error().within(what);
    }
    if (value->is_null()) {
        return Json::object();
    }
    if (!value->is_object()) {
        return Error{ErrorKind::invalid_argument,
                     what + ": found " + value->type_name() + "; a JSON object is allowed"};
    }
    return value;
}

}  // namespace

void write_gemma4_string(PromptBuilder & out, std::string_view text) {
    out.control(kGemma4Quote);
    out.text(text);
    out.control(kGemma4Quote);
}

Status write_gemma4_declaration(PromptBuilder & out, const Tool & tool) {
    const Json parameters =
        LUMI_TRY(parse_object(tool.parameters, "the parameters of tool " + quoted(tool.name, 64)));
    out.text("declaration:" + tool.name + "{description:");
    write_gemma4_string(out, tool.description);
    if (!parameters.empty()) {
        out.text(",parameters:{");
        if (const Json * properties = truthy(parameters, "properties")) {
            out.text("properties:{");
            write_properties(out, *properties, false);
            out.text("},");
        }
        if (const Json * required = truthy(parameters, "required")) {
            write_required(out, *required);
            out.text(",");
        }
        // The template forgets the closing brace of a schema without a type; such a schema
        // describes an object all the same.
        const std::string type = type_text(parameters);
        out.text("type:");
        write_gemma4_string(out, type.empty() ? "OBJECT" : type);
        out.text("}");
    }
    out.text("}");
    return {};
}

Status write_gemma4_call(PromptBuilder & out, const ToolCall & call) {
    const Json arguments = LUMI_TRY(
        parse_object(call.arguments, "the arguments of a call of " + quoted(call.name, 64)));
    out.text("call:" + call.name);
    write_value(out, arguments, false);
    return {};
}

}  // namespace lumi
