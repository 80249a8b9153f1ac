// The names and shapes of a model's tensors: one table for reading, checking and writing them.

#include "model/weights.h"

#include <charconv>

namespace lumi {

namespace {

struct ModuleNames {
    const char * target;  // what --targets takes
    const char * tensor;  // what files call it
};

constexpr std::array<ModuleNames, kModuleCount> kModules = {{
    {"q", "attn_q"},
    {"k", "attn_k"},
    {"v", "attn_v"},
    {"o", "attn_output"},
    {"gate", "ffn_gate"},
    {"up", "ffn_up"},
    {"down", "ffn_down"},
    {"ple_gate", "inp_gate"},
    {"ple_proj", "proj"},
}};

const ModuleNames & names_of(Module module) {
    return kModules[static_cast<size_t>(module)];
}

// Collects the rows of one model.
class RoleTable {
  public:
    RoleTable(const Config & config, Weights & weights) : config_(config), weights_(weights) {}

    std::vector<TensorRole> build() {
        weights_.layers.assign(config_.layers.size(), LayerWeights{});
        add_globals();
        for (int il = 0; il < config_.n_layer; ++il) {
            add_layer(il);
        }
        return std::move(roles_);
    }

  private:
    TensorRole & add(std::string name, std::vector<int64_t> ne, ggml_tensor ** slot) {
        roles_.push_back({std::move(name), std::move(ne), true, slot, false, false});
        return roles_.back();
    }

    void add_globals() {
        const int64_t n_embd = config_.n_embd;
        const int64_t n_vocab = config_.n_vocab;
        add("token_embd.weight", {n_embd, n_vocab}, &weights_.token_embd).repackable = true;
        TensorRole & output = add("output.weight", {n_embd, n_vocab}, &weights_.output);
        output.required = false;
        output.repackable = true;
        add("output_norm.weight", {n_embd}, &weights_.output_norm);
        for (const LayerConfig & layer : config_.layers) {
            if (layer.rope_factors) {  // one tensor for all layers that use it
                add("rope_freqs.weight", {layer.head_dim / 2}, &weights_.rope_freqs);
                break;
            }
        }
        if (config_.n_ple > 0) {
            const int64_t n_all = int64_t{config_.n_ple} * config_.n_layer;
            add("per_layer_token_embd.weight", {n_all, n_vocab}, &weights_.ple_table).host_only =
                true;
            add("per_layer_model_proj.weight", {n_embd, n_all}, &weights_.ple_proj);
            add("per_layer_proj_norm.weight", {config_.n_ple}, &weights_.ple_norm);
        }
    }

    void add_linear(int il, Module module, int64_t n_in, int64_t n_out) {
        ggml_tensor *& slot =
            weights_.layers[static_cast<size_t>(il)].linear[static_cast<size_t>(module)];
        add(module_weight_name(il, module), {n_in, n_out}, &slot).repackable = true;
    }

    // Files may keep the K and V weights that sharing layers never use, or leave them out; both
    // load, and nothing points at them.
    void add_unused(std::string name, std::vector<int64_t> ne) {
        add(std::move(name), std::move(ne), nullptr).required = false;
    }

    void add_kv(int il) {
        const LayerConfig & layer = config_.layers[static_cast<size_t>(il)];
        LayerWeights & w = weights_.layers[static_cast<size_t>(il)];
        const std::string k_norm = "blk." + std::to_string(il) + ".attn_k_norm.weight";
        if (layer.has_kv) {
            add_linear(il, Module::k, config_.n_embd, layer.n_kv());
            if (!layer.v_is_k) {
                add_linear(il, Module::v, config_.n_embd, layer.n_kv());
            }
            add(k_norm, {layer.head_dim}, &w.k_norm);
        } else {
            add_unused(module_weight_name(il, Module::k), {config_.n_embd, layer.n_kv()});
            add_unused(module_weight_name(il, Module::v), {config_.n_embd, layer.n_kv()});
            add_unused(k_norm, {layer.head_dim});
        }
    }

    void add_layer(int il) {
        const LayerConfig & layer = config_.layers[static_cast<size_t>(il)];
        LayerWeights & w = weights_.layers[static_cast<size_t>(il)];
        const std::string prefix = "blk." + std::to_string(il) + ".";
        const int64_t n_embd = config_.n_embd;
        add(prefix + "attn_norm.weight", {n_embd}, &w.attn_norm);
        add_linear(il, Module::q, n_embd, layer.n_q());
        add_kv(il);
        add_linear(il, Module::o, layer.n_q(), n_embd);
        add(prefix + "attn_q_norm.weight", {layer.head_dim}, &w.q_norm);
        if (config_.post_norms) {
            add(prefix + "post_attention_norm.weight", {n_embd}, &w.post_attn_norm);
        }
        add(prefix + "ffn_norm.weight", {n_embd}, &w.ffn_norm);
        add_linear(il, Module::gate, n_embd, layer.n_ff);
        add_linear(il, Module::up, n_embd, layer.n_ff);
        add_linear(il, Module::down, layer.n_ff, n_embd);
        if (config_.post_norms) {
            add(prefix + "post_ffw_norm.weight", {n_embd}, &w.post_ffn_norm);
        }
        if (config_.n_ple > 0) {
            add_linear(il, Module::ple_gate, n_embd, config_.n_ple);
            add_linear(il, Module::ple_proj, config_.n_ple, n_embd);
            add(prefix + "post_norm.weight", {n_embd}, &w.ple_post_norm);
        }
        if (config_.arch == Arch::gemma4) {
            add(prefix + "layer_output_scale.weight", {1}, &w.output_scale).required = false;
        }
    }

    const Config & config_;
    Weights & weights_;
    std::vector<TensorRole> roles_;
};

}  // namespace

const char * module_name(Module module) {
    return names_of(module).target;
}
const char * module_tensor_name(Module module) {
    return names_of(module).tensor;
}

std::string module_weight_name(int layer, Module module) {
    return "blk." + std::to_string(layer) + "." + module_tensor_name(module) + ".weight";
}

bool parse_module_weight_name(std::string_view name, int & layer, Module & module) {
    constexpr std::string_view kPrefix = "blk.";
    if (!name.starts_with(kPrefix)) {
        return false;
    }
    int number = -1;
    const char * digits = name.data() + kPrefix.size();
    if (std::from_chars(digits, name.data() + name.size(), number).ec != std::errc{} ||
        number < 0) {
        return false;
    }
    for (int m = 0; m < kModuleCount; ++m) {
        // The whole name is compared, so that "blk.03." or a suffix does not pass.
        if (name == module_weight_name(number, static_cast<Module>(m))) {
            layer = number;
            module = static_cast<Module>(m);
            return true;
        }
    }
    return false;
}

std::vector<TensorRole> tensor_roles(const Config & config, Weights & weights) {
    return RoleTable(config, weights).build();
}

}  // namespace lumi
