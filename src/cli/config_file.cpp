// The file's two syntaxes, and the way of a setting into CLI11's options and back.
#include "cli/config_file.h"

#include "base/file.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "chat/message_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace lumi {

namespace {

constexpr uint64_t kMaxConfigBytes = 1U << 20U;
constexpr std::string_view kBlank = " \t\r";

Error bad(int line, const std::string & what) {
    return {ErrorKind::invalid_argument, "line " + std::to_string(line) + ": " + what};
}

std::string_view without_blanks(std::string_view text) {
    const size_t first = text.find_first_not_of(kBlank);
    return first == std::string_view::npos
               ? std::string_view()
               : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// true, false or a number: what stands without quotes.
bool is_bare(const std::string & text) {
    if (text == "true" || text == "false") {
        return true;
    }
    char * end = nullptr;
    std::strtod(text.c_str(), &end);
    return !text.empty() && end == text.c_str() + text.size() &&
           text.find_first_not_of("0123456789+-.eE") == std::string::npos;
}

// The text in quotes that begins at pos, which moves behind it.
Result<std::string> quoted_value(std::string_view line, size_t & pos, int number) {
    constexpr std::string_view kEscapes = "\"\\ntr";
    constexpr std::string_view kMeanings = "\"\\\n\t\r";
    const char quote = line[pos++];
    std::string value;
    for (; pos < line.size(); ++pos) {
        if (line[pos] == quote) {
            ++pos;
            return value;
        }
        if (quote == '"' && line[pos] == '\\') {
            const size_t escape =
                ++pos < line.size() ? kEscapes.find(line[pos]) : std::string_view::npos;
            if (escape == std::string_view::npos) {
                return bad(number, "allowed after a backslash: \" \\ n t r");
            }
            value += kMeanings[escape];
        } else {
            value += line[pos];
        }
    }
    return bad(number, "the quotes do not end on this line");
}

Result<std::string> toml_value(std::string_view line, size_t pos, int number) {
    std::string value;
    if (pos < line.size() && (line[pos] == '"' || line[pos] == '\'')) {
        value = LUMI_TRY(quoted_value(line, pos, number));
    } else {
        const size_t end = std::min(line.find('#', pos), line.size());
        value = without_blanks(line.substr(pos, end - pos));
        pos = end;
        if (!is_bare(value)) {
            return bad(number, "found " + lumi::quoted(value) +
                                   "; allowed: a text in quotes, a number, true or false");
        }
    }
    const std::string_view rest = without_blanks(line.substr(pos));
    if (!rest.empty() && rest[0] != '#') {
        return bad(number, "found " + lumi::quoted(rest) + " behind the value");
    }
    return value;
}

Result<Setting> toml_line(std::string_view line, int number) {
    constexpr std::string_view kKey = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789-_";
    const size_t equals = line.find('=');
    const std::string_view key = without_blanks(line.substr(0, equals));
    if (equals == std::string_view::npos || key.empty() ||
        key.find_first_not_of(kKey) != std::string_view::npos) {
        return bad(number, "found " + lumi::quoted(line) + "; allowed: key = value");
    }
    const size_t value = std::min(line.find_first_not_of(kBlank, equals + 1), line.size());
    return Setting{std::string(key), LUMI_TRY(toml_value(line, value, number)), number};
}

Result<std::vector<Setting>> parse_toml(std::string_view text) {
    std::vector<Setting> settings;
    int number = 0;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = without_blanks(text.substr(begin, end - begin));
        begin = end + 1;
        ++number;
        if (!line.empty() && line[0] != '#') {
            settings.push_back(LUMI_TRY(toml_line(line, number)));
        }
    }
    return settings;
}

Result<std::vector<Setting>> parse_json_settings(std::string_view text) {
    const nlohmann::json object = LUMI_TRY(parse_json(text, DuplicateKeys::refused));
    std::vector<Setting> settings;
    for (const auto & [key, value] : object.items()) {
        // The key's place is close enough: values rarely hold it too.
        const size_t place = std::min(text.find('"' + key + '"'), text.size());
        const auto line = std::count(text.begin(), text.begin() + static_cast<long>(place), '\n');
        const int number = static_cast<int>(line) + 1;
        if (!value.is_string() && !value.is_number() && !value.is_boolean()) {
            return bad(number, key + " is " + value.type_name() +
                                   "; allowed: a string, a number, true or false");
        }
        settings.push_back(
            {key, value.is_string() ? value.get<std::string>() : value.dump(), number});
    }
    return settings;
}

std::string key_of(const CLI::Option & option) {
    return option.get_single_name();
}

// What a file may set: everything but what asks for something else than the work itself.
bool is_setting(const CLI::Option & option) {
    const std::string key = key_of(option);
    return key != "help" && key != "config" && key != "print-config" && key != "dry-run";
}

bool is_flag(const CLI::Option & option) {
    return option.get_items_expected_max() == 0;
}

std::vector<CLI::Option *> settable_options(CLI::App & command) {
    return command.get_options(
        std::function([](CLI::Option * option) { return is_setting(*option); }));
}

std::string default_of(const CLI::Option & option) {
    return is_flag(option) ? "false" : option.get_default_str();
}

void apply(CLI::App & command, const Setting & setting) {
    std::vector<std::string> keys;
    for (CLI::Option * option : settable_options(command)) {
        keys.push_back(key_of(*option));
        if (keys.back() != setting.key) {
            continue;
        }
        // The command line wins; a default is not a wish.
        if (option->count() == 0 && setting.value != default_of(*option)) {
            option->add_result(setting.value);
            option->run_callback();
        }
        return;
    }
    const std::string best = nearest(setting.key, keys);
    throw CLI::ConfigError("unknown key " + lumi::quoted(setting.key) +
                               (best.empty() ? "" : "; did you mean " + best + "?"),
                           CLI::ExitCodes::ConfigError);
}

void apply_file(CLI::App & command, const std::string & path) {
    const auto fail = [&](const std::string & what) {
        throw CLI::ConfigError(path + ": " + what, CLI::ExitCodes::ConfigError);
    };
    const Result<std::string> text = read_text_file(path, kMaxConfigBytes);
    if (!text.ok()) {
        throw CLI::ConfigError(text.error().message, CLI::ExitCodes::ConfigError);
    }
    const auto settings = parse_settings(*text);
    if (!settings.ok()) {
        fail(settings.error().message);
    }
    for (const Setting & setting : *settings) {
        try {
            apply(command, setting);
        } catch (const CLI::ParseError & error) {
            fail("line " + std::to_string(setting.line) + ": " + error.what());
        }
    }
}

}  // namespace

Result<std::vector<Setting>> parse_settings(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) {
        text.remove_prefix(3);
    }
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool is_json = first != std::string_view::npos && text[first] == '{';
    std::vector<Setting> settings =
        LUMI_TRY(is_json ? parse_json_settings(text) : parse_toml(text));
    for (size_t i = 0; i < settings.size(); ++i) {
        for (size_t k = 0; k < i; ++k) {
            if (settings[k].key == settings[i].key) {
                return bad(settings[i].line, settings[i].key + " was set before, in line " +
                                                 std::to_string(settings[k].line));
            }
        }
    }
    return settings;
}

std::vector<Setting> settings_of(const CLI::App & command) {
    std::vector<Setting> settings;
    for (const CLI::Option * option : command.get_options()) {
        std::string value = default_of(*option);
        if (option->count() > 0) {
            value = is_flag(*option) ? (option->as<bool>() ? "true" : "false")
                                     : option->results().back();
        }
        if (is_setting(*option) && !value.empty()) {
            settings.push_back({key_of(*option), value, 0});
        }
    }
    return settings;
}

std::string settings_toml(const std::vector<Setting> & settings) {
    std::string text;
    for (const Setting & setting : settings) {
        text += setting.key + " = ";
        if (is_bare(setting.value)) {
            text += setting.value;
        } else {
            text += '"';
            for (const char c : setting.value) {
                constexpr std::string_view kSpecial = "\"\\\n\t\r";
                constexpr std::string_view kLetters = "\"\\ntr";
                const size_t at = kSpecial.find(c);
                text += at == std::string_view::npos ? std::string(1, c)
                                                     : std::string("\\") + kLetters[at];
            }
            text += '"';
        }
        text += '\n';
    }
    return text;
}

void declare_config(CLI::App & command) {
    command
        .add_option_function<std::string>(
            "--config", [&command](const std::string & path) { apply_file(command, path); },
            "read options from this file: TOML or JSON, keys as the options' long names")
        ->type_name("FILE");
    command.add_flag_callback(
        "--print-config",
        [&command] {
            for (CLI::Option * option : settable_options(command)) {
                if (option->count() > 0 && !option->get_callback_run()) {
                    option->run_callback();  // wrong values are told, not printed
                }
            }
            std::printf("%s", settings_toml(settings_of(command)).c_str());
            throw CLI::Success();
        },
        "print all options as a file for --config, and end");
}

}  // namespace lumi
