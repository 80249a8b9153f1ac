// Read from names and shapes alone; loading checks them against a model.
#include "cli/inspect_adapter.h"

#include "adapter/adapter.h"

#include <cstdio>

namespace lumi {

namespace {

constexpr std::string_view kSuffixA = ".lora_a";
constexpr std::string_view kRecordPrefix = "lumi.";

AdapterData outline(const GgufFile & file) {
    AdapterData adapter;
    const auto alpha = file.get_f32("adapter.lora.alpha");
    adapter.alpha = alpha.ok() ? *alpha : 0.0F;
    for (const TensorInfo & tensor : file.tensors()) {
        const std::string_view name = tensor.name;
        LoraMatrixPair pair;
        if (name.ends_with(kSuffixA) &&
            parse_module_weight_name(name.substr(0, name.size() - kSuffixA.size()), pair.layer,
                                     pair.module)) {
            pair.rank = static_cast<int>(tensor.ne[1]);
            adapter.pairs.push_back(std::move(pair));
        }
    }
    return adapter;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> adapter_facts(const GgufFile & file) {
    const auto type = file.get_string("general.type");
    if (!type.ok() || *type != "adapter") {
        return {};
    }
    const AdapterData adapter = outline(file);
    char alpha[64];
    std::snprintf(alpha, sizeof alpha, "%g", static_cast<double>(adapter.alpha));
    std::vector<std::pair<std::string, std::string>> facts = {
        {"rank", rank_text(adapter)},
        {"alpha", alpha},
        {"pairs", std::to_string(adapter.pairs.size())},
        {"adapts", targets_text(adapter)}};
    const auto base = file.get_string("general.base_model.0.name");
    if (base.ok()) {
        facts.emplace_back("base model", *base);
    }
    for (const std::string_view key : file.keys()) {
        const auto value = file.get_string(key);
        if (key.starts_with(kRecordPrefix) && value.ok()) {
            facts.emplace_back(key.substr(kRecordPrefix.size()), *value);
        }
    }
    return facts;
}

}  // namespace lumi
