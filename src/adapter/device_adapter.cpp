// Adapters as graphs see them: the look-up by weight, and the upload of all pairs into one buffer.
#include "adapter/adapter.h"

#include <iterator>
#include <limits>
#include <unordered_set>

namespace lumi {

namespace {

int view_key(int layer, Module module) {
    return layer * kModuleCount + static_cast<int>(module);
}

}  // namespace

void LoraView::add(int layer, Module module, LoraTensors tensors) {
    pairs_[view_key(layer, module)].push_back(tensors);
}

const std::vector<LoraTensors> & LoraView::find(int layer, Module module) const {
    static const std::vector<LoraTensors> kNone;
    const auto it = pairs_.find(view_key(layer, module));
    return it == pairs_.end() ? kNone : it->second;
}

Status LoraView::check_applied(ggml_cgraph * graph) const {
    std::unordered_set<const ggml_tensor *> factors;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->op == GGML_OP_MUL_MAT) {
            factors.insert(node->src[0]);
        } else if (node->op == GGML_OP_CUSTOM) {  // the CPU's dense products, in any place
            factors.insert(std::begin(node->src), std::end(node->src));
        }
    }
    for (const auto & [key, tensors] : pairs_) {
        for (const LoraTensors & t : tensors) {
            if (factors.count(t.a) == 0 || factors.count(t.b) == 0) {
                return Error{ErrorKind::internal,
                             "the adapter's pair for " +
                                 module_weight_name(key / kModuleCount,
                                                    static_cast<Module>(key % kModuleCount)) +
                                 " takes no part in the model"};
            }
        }
    }
    return {};
}

int LoraView::lowest_layer() const {
    return pairs_.empty() ? std::numeric_limits<int>::max() : pairs_.begin()->first / kModuleCount;
}

Result<std::unique_ptr<DeviceAdapter>> DeviceAdapter::create(const AdapterData & data,
                                                             const Device & device) {
    std::unique_ptr<DeviceAdapter> adapter(new DeviceAdapter);
    if (data.pairs.empty()) {
        return adapter;
    }
    const size_t n_tensors = 2 * data.pairs.size();
    adapter->context_.reset(ggml_init({n_tensors * ggml_tensor_overhead(), nullptr, true}));
    ggml_context * ctx = adapter->context_.get();
    for (const LoraMatrixPair & pair : data.pairs) {
        LoraTensors t;
        t.a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, pair.n_in, pair.rank);
        t.b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, pair.rank, pair.n_out);
        t.scale = data.alpha / static_cast<float>(pair.rank);
        const std::string name = module_weight_name(pair.layer, pair.module);
        ggml_set_name(t.a, (name + ".lora_a").c_str());
        ggml_set_name(t.b, (name + ".lora_b").c_str());
        adapter->entries_.push_back({pair.layer, pair.module, t});
    }
    adapter->buffer_ = LUMI_TRY(device.allocate(ctx));
    for (size_t i = 0; i < data.pairs.size(); ++i) {
        const LoraTensors & t = adapter->entries_[i].tensors;
        ggml_backend_tensor_set(t.a, data.pairs[i].a.data(), 0, ggml_nbytes(t.a));
        ggml_backend_tensor_set(t.b, data.pairs[i].b.data(), 0, ggml_nbytes(t.b));
    }
    return adapter;
}

void DeviceAdapter::add_to(LoraView & view, float user_scale) const {
    for (const Entry & entry : entries_) {
        LoraTensors t = entry.tensors;
        t.scale *= user_scale;
        view.add(entry.layer, entry.module, t);
    }
}

uint64_t DeviceAdapter::bytes() const {
    return buffer_ ? ggml_backend_buffer_get_size(buffer_.get()) : 0;
}

}  // namespace lumi
