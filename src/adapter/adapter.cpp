// Adapter numbers on the host: shapes of the maps a pair adapts, creation, checks.
#include "adapter/adapter.h"

#include "base/rng.h"

#include <algorithm>
#include <cmath>

namespace lumi {

ModuleShape module_shape(const Config & config, int layer, Module module) {
    const LayerConfig & l = config.layers[static_cast<size_t>(layer)];
    const int64_t n_embd = config.n_embd;
    switch (module) {
    case Module::q:
        return {n_embd, l.n_q()};
    case Module::k:
        return {n_embd, l.n_kv()};
    case Module::v:
        return {n_embd, l.v_is_k ? 0 : l.n_kv()};
    case Module::o:
        return {l.n_q(), n_embd};
    case Module::gate:
    case Module::up:
        return {n_embd, l.n_ff};
    case Module::down:
        return {l.n_ff, n_embd};
    case Module::ple_gate:
        return {n_embd, config.n_ple};
    case Module::ple_proj:
        return {config.n_ple, n_embd};
    }
    return {};
}

bool module_is_live(const Config & config, int layer, Module module) {
    const LayerConfig & l = config.layers[static_cast<size_t>(layer)];
    const bool is_kv = module == Module::k || module == Module::v;
    return module_shape(config, layer, module).exists() && (!is_kv || l.has_kv);
}

uint64_t AdapterData::n_parameters() const {
    uint64_t n = 0;
    for (const LoraMatrixPair & pair : pairs) {
        n += pair.a.size() + pair.b.size();
    }
    return n;
}

Status AdapterData::check_finite() const {
    const auto finite = [](const std::vector<float> & values) {
        return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
    };
    for (const LoraMatrixPair & pair : pairs) {
        for (const bool is_a : {true, false}) {
            if (!finite(is_a ? pair.a : pair.b)) {
                return Error{ErrorKind::numeric, module_weight_name(pair.layer, pair.module) +
                                                     (is_a ? ".lora_a" : ".lora_b") +
                                                     " holds a number that is not finite"};
            }
        }
    }
    return {};
}

std::string rank_text(const AdapterData & adapter) {
    int low = adapter.pairs.empty() ? 0 : adapter.pairs.front().rank;
    int high = low;
    for (const LoraMatrixPair & pair : adapter.pairs) {
        low = std::min(low, pair.rank);
        high = std::max(high, pair.rank);
    }
    return std::to_string(low) + (low == high ? "" : " to " + std::to_string(high));
}

AdapterData make_adapter(const Config & config, const Weights & weights, const TargetSet & targets,
                         int rank, float alpha, uint64_t seed) {
    AdapterData adapter;
    adapter.alpha = alpha;
    Rng rng(seed);
    const int last = targets.last_layer < 0 ? config.n_layer - 1 : targets.last_layer;
    for (int layer = targets.first_layer; layer <= std::min(last, config.n_layer - 1); ++layer) {
        for (int m = 0; m < kModuleCount; ++m) {
            const Module module = static_cast<Module>(m);
            const bool present = weights.layers[static_cast<size_t>(layer)][module] != nullptr;
            if (!targets.contains(module) || !present || !module_is_live(config, layer, module)) {
                continue;
            }
            const ModuleShape shape = module_shape(config, layer, module);
            LoraMatrixPair pair{layer, module, shape.n_in, shape.n_out, rank, {}, {}};
            pair.a.resize(static_cast<size_t>(shape.n_in) * static_cast<size_t>(rank));
            pair.b.resize(static_cast<size_t>(shape.n_out) * static_cast<size_t>(rank), 0.0F);
            const double bound = 1.0 / std::sqrt(static_cast<double>(shape.n_in));
            for (float & x : pair.a) {
                x = static_cast<float>((2.0 * rng.uniform() - 1.0) * bound);
            }
            adapter.pairs.push_back(std::move(pair));
        }
    }
    return adapter;
}

}  // namespace lumi
