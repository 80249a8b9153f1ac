// --config FILE and --print-config of a subcommand: its options from a file, and back to one.
#pragma once

#include <CLI/CLI.hpp>

#include <lumi/error.h>

#include <string>
#include <string_view>
#include <vector>

namespace lumi {

// To be called before the subcommand's own options are declared: CLI11 runs callbacks in the order
// of declaration, and an option that a file sets must still meet its checks. What the command line
// gives wins over the file. Errors name the file and the line.
void declare_config(CLI::App & command);

struct Setting {
    std::string key;    // the option's long name without dashes
    std::string value;  // as text
    int line = 0;       // of the file, 1-based
};

// TOML, of which a file needs `key = value` with a text in quotes, a number, true or false; or one
// JSON object of the same. Errors name the line.
Result<std::vector<Setting>> parse_settings(std::string_view text);

// Every option with a value, in force or by default, in the order of declaration.
std::vector<Setting> settings_of(const CLI::App & command);
// As TOML; parse_settings gives the same settings back.
std::string settings_toml(const std::vector<Setting> & settings);

}  // namespace lumi
