// Makes the transposed copies on the host, a block of columns at a time: exact dequantisation
// whatever the device can or cannot do, and little memory.
#include "train/transposed_weights.h"

#include <algorithm>
#include <numeric>

namespace lumi {

namespace {

constexpr int64_t kColumnsAtOnce = 256;  // a multiple of every block size

// Whether the device multiplies [k, m] of this type by F32.
bool multiplies(const Device & device, ggml_type type) {
    const GgmlContext context(ggml_init({8 * ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor * a = ggml_new_tensor_2d(context.get(), type, 256, 64);
    ggml_tensor * b = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 256, 32);
    return device.supports(ggml_mul_mat(context.get(), a, b));
}

ggml_type copy_type(const Device & device) {
    if (device.is_cpu()) {
        return GGML_TYPE_F32;
    }
    // BF16 first: gradients, rounded to the copy's type by some devices, can be smaller than F16's
    // least number.
    return multiplies(device, GGML_TYPE_BF16) ? GGML_TYPE_BF16 : GGML_TYPE_F16;
}

// Rows [first, first + count) of the copy are columns of the weight.
struct ColumnBlock {
    int64_t first;
    int64_t count;
};

// host: the weight's bytes; out: [n_out] floats for each column, one after the other.
void transpose_block(const ggml_tensor * weight, const char * host, ColumnBlock block,
                     std::vector<float> & out) {
    const int64_t n_out = weight->ne[1];
    const auto to_float = ggml_get_type_traits(weight->type)->to_float;
    std::vector<float> row(static_cast<size_t>(block.count));
    out.resize(static_cast<size_t>(block.count * n_out));
    for (int64_t o = 0; o < n_out; ++o) {
        const char * source = host + static_cast<size_t>(o) * weight->nb[1] +
                              ggml_row_size(weight->type, block.first);
        if (to_float != nullptr) {
            to_float(source, row.data(), block.count);
        } else {
            std::copy_n(reinterpret_cast<const float *>(source), block.count, row.begin());
        }
        for (int64_t c = 0; c < block.count; ++c) {
            out[static_cast<size_t>(c * n_out + o)] = row[static_cast<size_t>(c)];
        }
    }
}

void fill_copy(const ggml_tensor * weight, ggml_tensor * copy) {
    std::vector<char> downloaded;
    const char * host = static_cast<const char *>(weight->data);
    if (!ggml_backend_buffer_is_host(weight->buffer)) {
        downloaded.resize(ggml_nbytes(weight));
        ggml_backend_tensor_get(weight, downloaded.data(), 0, downloaded.size());
        host = downloaded.data();
    }
    std::vector<float> block;
    std::vector<char> packed;
    for (int64_t first = 0; first < weight->ne[0]; first += kColumnsAtOnce) {
        const int64_t count = std::min(kColumnsAtOnce, weight->ne[0] - first);
        transpose_block(weight, host, {first, count}, block);
        packed.resize(ggml_row_size(copy->type, copy->ne[0]) * static_cast<size_t>(count));
        ggml_quantize_chunk(copy->type, block.data(), packed.data(), 0, count, copy->ne[0],
                            nullptr);
        ggml_backend_tensor_set(copy, packed.data(), static_cast<size_t>(first) * copy->nb[1],
                                packed.size());
    }
}

}  // namespace

void TransposedWeights::make_tensors(const Model & model, int first_layer) {
    const Weights & weights = model.plain_weights();
    const ggml_type narrow = copy_type(model.device());
    std::vector<const ggml_tensor *> wanted = {weights.output};
    for (size_t il = static_cast<size_t>(first_layer); il < weights.layers.size(); ++il) {
        for (const ggml_tensor * weight : weights.layers[il].linear) {
            if (weight != nullptr) {
                wanted.push_back(weight);
            }
        }
    }
    context_.reset(ggml_init({wanted.size() * ggml_tensor_overhead(), nullptr, true}));
    for (const ggml_tensor * weight : wanted) {
        const ggml_type type = weight->type == GGML_TYPE_F32 ? GGML_TYPE_F32 : narrow;
        ggml_tensor * copy = ggml_new_tensor_2d(context_.get(), type, weight->ne[1], weight->ne[0]);
        ggml_set_name(copy, weight->name);
        copies_.emplace_back(weight, copy);
        by_weight_[weight] = copy;
    }
}

Result<std::unique_ptr<TransposedWeights>> TransposedWeights::create(const Model & model,
                                                                     int first_layer) {
    std::unique_ptr<TransposedWeights> t(new TransposedWeights);
    t->make_tensors(model, first_layer);
    t->buffer_ = LUMI_TRY(model.device().allocate(t->context_.get()));
    for (const auto & [weight, copy] : t->copies_) {
        fill_copy(weight, copy);
    }
    return t;
}

std::unique_ptr<TransposedWeights> TransposedWeights::describe(const Model & model,
                                                               int first_layer) {
    std::unique_ptr<TransposedWeights> t(new TransposedWeights);
    t->make_tensors(model, first_layer);
    for (const auto & [weight, copy] : t->copies_) {
        copy->data = t.get();  // an address the graph allocator leaves alone; nothing reads it
    }
    return t;
}

ggml_tensor * TransposedWeights::find(const ggml_tensor * weight) const {
    const auto it = by_weight_.find(weight);
    return it == by_weight_.end() ? nullptr : it->second;
}

uint64_t TransposedWeights::bytes() const {
    return std::accumulate(
        copies_.begin(), copies_.end(), uint64_t{0},
        [](uint64_t sum, const auto & c) { return sum + ggml_nbytes(c.second); });
}

}  // namespace lumi
