// The text form of a target set: module names and the shorthands all, tail and ple.
#include "adapter/adapter.h"

#include "base/utf8.h"

#include <algorithm>

namespace lumi {

namespace {

constexpr int kUsualModules = 7;  // q, k, v, o, gate, up, down: the first of the enum

// What this model has, for messages.
std::string available_targets(const Config & config) {
    std::string text = "all";
    if (config.last_kv_layer() < config.n_layer - 1) {
        text += ", tail";
    }
    if (config.n_ple > 0) {
        text += ", ple";
    }
    for (int m = 0; m < kModuleCount; ++m) {
        const Module module = static_cast<Module>(m);
        if (module_shape(config, 0, module).exists()) {
            text += std::string(", ") + module_name(module);
        }
    }
    return text;
}

bool some_layer_has(const Config & config, const TargetSet & targets, Module module) {
    for (int layer = targets.first_layer; layer < config.n_layer; ++layer) {
        if (module_is_live(config, layer, module)) {
            return true;
        }
    }
    return false;
}

// Adds what one word names; false when it names nothing.
bool add_word(std::string_view word, const Config & config, TargetSet & targets) {
    if (word == "all" || word == "tail") {
        if (word == "tail") {
            targets.first_layer = config.last_kv_layer() + 1;
        } else {
            for (int m = 0; m < kUsualModules; ++m) {
                targets.modules.push_back(static_cast<Module>(m));
            }
        }
        return targets.first_layer < config.n_layer;
    }
    if (word == "ple") {
        targets.modules.push_back(Module::ple_gate);
        targets.modules.push_back(Module::ple_proj);
        return config.n_ple > 0;
    }
    for (int m = 0; m < kModuleCount; ++m) {
        if (word == module_name(static_cast<Module>(m))) {
            targets.modules.push_back(static_cast<Module>(m));
            return true;
        }
    }
    return false;
}

}  // namespace

bool TargetSet::contains(Module module) const {
    if (modules.empty()) {
        return static_cast<int>(module) < kUsualModules;
    }
    return std::find(modules.begin(), modules.end(), module) != modules.end();
}

std::string targets_text(const AdapterData & adapter) {
    if (adapter.pairs.empty()) {
        return "none";
    }
    bool used[kModuleCount] = {};
    int low = adapter.pairs.front().layer;
    int high = low;
    for (const LoraMatrixPair & pair : adapter.pairs) {
        used[static_cast<int>(pair.module)] = true;
        low = std::min(low, pair.layer);
        high = std::max(high, pair.layer);
    }
    std::string text;
    for (int m = 0; m < kModuleCount; ++m) {
        if (used[m]) {
            text += (text.empty() ? "" : ", ") + std::string(module_name(static_cast<Module>(m)));
        }
    }
    return text + " of layers " + std::to_string(low) + " to " + std::to_string(high);
}

Result<TargetSet> parse_targets(std::string_view text, const Config & config) {
    TargetSet targets;
    const auto refuse = [&](std::string_view word, const char * why) -> Error {
        return {ErrorKind::invalid_argument, "targets: " + quoted(word) + " " + why +
                                                 "; this model has " + available_targets(config)};
    };
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view word = text.substr(begin, end - begin);
        if (!add_word(word, config, targets)) {
            return refuse(word, word == "tail" ? "is nothing here, since every layer has keys and "
                                                 "values of its own (--layers A-B chooses layers)"
                                               : "is not a target");
        }
        begin = end + 1;
    }
    std::sort(targets.modules.begin(), targets.modules.end());
    targets.modules.erase(std::unique(targets.modules.begin(), targets.modules.end()),
                          targets.modules.end());
    bool any = targets.modules.empty();
    for (const Module module : targets.modules) {
        any = any || some_layer_has(config, targets, module);
    }
    if (!any) {
        return refuse(text, "adapts nothing in the layers it names");
    }
    return targets;
}

}  // namespace lumi
