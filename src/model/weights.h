// The tensors of a model by role, found by name and checked for shape. Pointers are ggml tensors
// whose data is the mapped file, a device buffer or a repacked twin; null where a role is absent.
#pragma once

#include "model/config.h"

#include <ggml.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace lumi {

// A layer's linear maps: what a LoRA can adapt. Order is the order in files we write.
enum class Module : unsigned char { q, k, v, o, gate, up, down, ple_gate, ple_proj };
inline constexpr int kModuleCount = 9;
const char * module_name(Module module);         // "q", "ple_gate": what --targets takes
const char * module_tensor_name(Module module);  // "attn_q", "inp_gate": inside blk.N.*.weight
std::string module_weight_name(int layer, Module module);  // "blk.3.attn_q.weight"
// The inverse of module_weight_name; false when name is not a module's weight.
bool parse_module_weight_name(std::string_view name, int & layer, Module & module);

struct LayerWeights {
    std::array<ggml_tensor *, kModuleCount> linear{};  // by Module, [in, out]
    ggml_tensor * attn_norm = nullptr;                 // [n_embd]
    ggml_tensor * q_norm = nullptr;                    // [head_dim]
    ggml_tensor * k_norm = nullptr;                    // [head_dim]
    ggml_tensor * post_attn_norm = nullptr;            // [n_embd]; null without post norms
    ggml_tensor * ffn_norm = nullptr;                  // [n_embd]
    ggml_tensor * post_ffn_norm = nullptr;             // [n_embd]; null without post norms
    ggml_tensor * ple_post_norm = nullptr;             // [n_embd]
    ggml_tensor * output_scale = nullptr;              // [1]

    ggml_tensor * operator[](Module m) const { return linear[static_cast<size_t>(m)]; }
};

struct Weights {
    ggml_tensor * token_embd = nullptr;   // [n_embd, n_vocab]; rows are gathered on the host
    ggml_tensor * output = nullptr;       // [n_embd, n_vocab]; may be token_embd
    ggml_tensor * output_norm = nullptr;  // [n_embd]
    ggml_tensor * rope_freqs = nullptr;   // [head_dim/2] of global layers
    ggml_tensor * ple_table = nullptr;    // [n_ple*n_layer, n_vocab], always mapped, host gathers
    ggml_tensor * ple_proj = nullptr;     // [n_embd, n_ple*n_layer], never repacked (row views)
    ggml_tensor * ple_norm = nullptr;     // [n_ple]
    std::vector<LayerWeights> layers;
};

// One role of a tensor in the file: where its pointer goes and what shape it must have.
struct TensorRole {
    std::string name;
    std::vector<int64_t> ne;
    bool required = true;
    ggml_tensor ** slot = nullptr;  // into a Weights; null for a tensor that is known but unused
    bool repackable = false;        // used only as first operand of a matrix product
    bool host_only = false;         // never uploaded (ple_table; load adds token_embd when untied)
};

// The table of a model's tensors; slots point into weights, whose layers are resized here.
std::vector<TensorRole> tensor_roles(const Config & config, Weights & weights);

}  // namespace lumi
