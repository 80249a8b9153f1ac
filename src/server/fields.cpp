// The field readers and the table of sampling fields.
#include "server/fields.h"

#include "base/nearest.h"
#include "base/utf8.h"
#include "chat/message_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lumi {

using nlohmann::json;

namespace {

Error field_error(const std::string & name, const std::string & found,
                  const std::string & allowed) {
    return {ErrorKind::invalid_argument, name + ": found " + found + "; allowed: " + allowed};
}

std::string range_text(double min, double max) {
    const auto text = [](double value) {
        json number = value;
        if (value == std::floor(value) && std::abs(value) < 1e15) {
            number = static_cast<int64_t>(value);
        }
        return number.dump();
    };
    return "a number from " + text(min) + " to " + text(max);
}

std::string found_text(const json & value) {
    return value.is_number() ? value.dump() : std::string("a ") + value.type_name();
}

// The member, or null when absent or null.
const json * member(const json & object, const char * name) {
    const auto it = object.find(name);
    return it == object.end() || it->is_null() ? nullptr : &*it;
}

Status read_logit_bias(const json & object, int n_vocab, std::map<int32_t, float> & out) {
    const json * bias = member(object, "logit_bias");
    if (bias == nullptr) {
        return {};
    }
    const char * allowed = "an object of token id to a number from -100 to 100";
    const auto put = [&](int64_t id, const json & value) -> Status {
        if (id < 0 || id >= n_vocab || !value.is_number() ||
            !(std::abs(value.get<double>()) <= 100.0)) {
            return field_error("logit_bias", "an id or value out of range", allowed);
        }
        out[static_cast<int32_t>(id)] = value.get<float>();
        return {};
    };
    if (!bias->is_object()) {
        return field_error("logit_bias", found_text(*bias), allowed);
    }
    for (const auto & [key, value] : bias->items()) {
        int64_t id = -1;
        const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
        if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) {
            return field_error("logit_bias", "a key that is no token id", allowed);
        }
        LUMI_TRY(put(id, value));
    }
    return {};
}

}  // namespace

bool Fields::has(const char * name) const {
    return member(*object_, name) != nullptr;
}

Status Fields::number(const char * name, double min, double max, double & out) const {
    const json * value = member(*object_, name);
    if (value == nullptr) {
        return {};
    }
    if (!value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max)) {
        return field_error(name, found_text(*value), range_text(min, max));
    }
    out = value->get<double>();
    return {};
}

Status Fields::number(const char * name, double min, double max, float & out) const {
    double wide = static_cast<double>(out);
    LUMI_TRY(number(name, min, max, wide));
    out = static_cast<float>(wide);
    return {};
}

Status Fields::integer(const char * name, int64_t min, int64_t max, int & out) const {
    double wide = out;
    LUMI_TRY(number(name, static_cast<double>(min), static_cast<double>(max), wide));
    if (wide != std::floor(wide)) {
        return field_error(name, json(wide).dump(), "a whole number");
    }
    out = static_cast<int>(wide);
    return {};
}

Status Fields::seed(const char * name, uint64_t & out) const {
    const json * value = member(*object_, name);
    if (value == nullptr) {
        return {};
    }
    if (value->is_number_unsigned()) {
        out = value->get<uint64_t>();
        return {};
    }
    if (!value->is_number_integer() || value->get<int64_t>() != -1) {
        return field_error(name, found_text(*value),
                           "a whole number from 0 to 18446744073709551615, or -1 for the default");
    }
    return {};
}

Status Fields::only(std::span<const char * const> names) const {
    for (const auto & [key, value] : object_->items()) {
        if (std::find(names.begin(), names.end(), key) != names.end()) {
            continue;
        }
        const std::vector<std::string> known(names.begin(), names.end());
        const std::string best = nearest(key.substr(0, 64), known);
        std::string hint = "did you mean " + best + "?";
        if (best.empty()) {
            hint = "allowed:";
            for (const std::string & name : known) {
                hint += (name == known.front() ? " " : ", ") + name;
            }
        }
        return Error{ErrorKind::invalid_argument, "unknown field " + quoted(key, 64) + "; " + hint};
    }
    return {};
}

Status Fields::boolean(const char * name, bool & out) const {
    const json * value = member(*object_, name);
    if (value == nullptr) {
        return {};
    }
    if (!value->is_boolean()) {
        return field_error(name, found_text(*value), "true or false");
    }
    out = value->get<bool>();
    return {};
}

Status Fields::text(const char * name, std::string & out) const {
    const json * value = member(*object_, name);
    if (value == nullptr) {
        return {};
    }
    if (!value->is_string()) {
        return field_error(name, found_text(*value), "a string");
    }
    out = value->get<std::string>();
    return {};
}

Status Fields::texts(const char * name, size_t max_count, std::vector<std::string> & out) const {
    const json * value = member(*object_, name);
    if (value == nullptr) {
        return {};
    }
    const std::string allowed =
        "a string or a list of at most " + std::to_string(max_count) + " strings";
    if (value->is_string()) {
        out = {value->get<std::string>()};
        return {};
    }
    if (!value->is_array() || value->size() > max_count) {
        return field_error(name, found_text(*value), allowed);
    }
    out.clear();
    for (const json & item : *value) {
        if (!item.is_string()) {
            return field_error(name, std::string("a list with a ") + item.type_name(), allowed);
        }
        out.push_back(item.get<std::string>());
    }
    return {};
}

Result<json> request_object(const std::string & body) {
    json object = LUMI_TRY(parse_json(body));
    if (!object.is_object()) {
        return Error{ErrorKind::invalid_argument, std::string("the body: found a ") +
                                                      object.type_name() +
                                                      "; allowed: a JSON object"};
    }
    return object;
}

Status read_sampling(const json & object, int n_vocab, GenerationOptions & options) {
    const Fields fields(object);
    SamplerOptions & s = options.sampler;
    LUMI_TRY(fields.number("temperature", 0, 100, s.temperature));
    LUMI_TRY(fields.integer("top_k", 0, 1 << 30, s.top_k));
    LUMI_TRY(fields.number("top_p", 0, 1, s.top_p));
    LUMI_TRY(fields.number("min_p", 0, 1, s.min_p));
    LUMI_TRY(fields.number("repeat_penalty", 0.01, 10, s.repeat_penalty));
    LUMI_TRY(fields.number("frequency_penalty", -2, 2, s.frequency_penalty));
    LUMI_TRY(fields.number("presence_penalty", -2, 2, s.presence_penalty));
    LUMI_TRY(fields.seed("seed", s.seed));
    LUMI_TRY(fields.texts("stop", 16, options.stops));
    LUMI_TRY(fields.boolean("ignore_eos", options.ignore_end));
    LUMI_TRY(read_logit_bias(object, n_vocab, s.logit_bias));
    return s.check(n_vocab);
}

}  // namespace lumi
