// The layout of the flat tensors and the copies between them and an adapter.
#include "train/parameters.h"

#include <algorithm>

namespace lumi {

namespace {

// 256 bytes: what the strictest driver asks of a buffer offset.
constexpr size_t kAlignFloats = 64;

size_t aligned(size_t n) {
    return (n + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

}  // namespace

void TrainParameters::make_tensors(const AdapterData & start) {
    shape_.alpha = start.alpha;
    shape_.record = start.record;
    shape_.base_fingerprint = start.base_fingerprint;
    size_t end = 0;
    for (const LoraMatrixPair & pair : start.pairs) {
        shape_.pairs.push_back({pair.layer, pair.module, pair.n_in, pair.n_out, pair.rank, {}, {}});
        const size_t a = end;
        const size_t b = a + aligned(pair.a.size());
        offsets_.push_back({a, b});
        end = b + aligned(pair.b.size());
    }
    const size_t n_tensors = 4 + 4 * start.pairs.size();
    context_.reset(ggml_init({n_tensors * ggml_tensor_overhead(), nullptr, true}));
    ggml_context * ctx = context_.get();
    const auto n_rows = static_cast<int64_t>((end + kRowFloats - 1) / kRowFloats);
    const char * names[4] = {"parameters", "gradients", "first_moment", "second_moment"};
    for (int i = 0; i < 4; ++i) {
        flat_[i] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, kRowFloats, n_rows);
        ggml_set_name(flat_[i], names[i]);
    }
    ggml_set_param(flat_[0]);

    for (size_t i = 0; i < shape_.pairs.size(); ++i) {
        const LoraMatrixPair & pair = shape_.pairs[i];
        const auto matrix = [&](ggml_tensor * flat, int64_t ne0, int64_t ne1, size_t offset) {
            return ggml_view_2d(ctx, flat, ne0, ne1, static_cast<size_t>(ne0) * sizeof(float),
                                offset * sizeof(float));
        };
        TrainablePair t;
        t.layer = pair.layer;
        t.module = pair.module;
        t.lora.a = matrix(flat_[0], pair.n_in, pair.rank, offsets_[i].a);
        t.lora.b = matrix(flat_[0], pair.rank, pair.n_out, offsets_[i].b);
        t.lora.scale = shape_.alpha / static_cast<float>(pair.rank);
        t.grad_a = matrix(flat_[1], pair.n_in, pair.rank, offsets_[i].a);
        t.grad_b = matrix(flat_[1], pair.rank, pair.n_out, offsets_[i].b);
        const std::string name = module_weight_name(pair.layer, pair.module);
        ggml_set_name(t.lora.a, (name + ".lora_a").c_str());
        ggml_set_name(t.lora.b, (name + ".lora_b").c_str());
        pairs_.push_back(t);
        view_.add(t.layer, t.module, t.lora);
    }
}

Result<std::unique_ptr<TrainParameters>> TrainParameters::create(const AdapterData & start,
                                                                 const Device & device) {
    std::unique_ptr<TrainParameters> p(new TrainParameters);
    p->make_tensors(start);
    p->buffer_ = LUMI_TRY(device.allocate(p->context_.get()));
    for (ggml_tensor * flat : p->flat_) {
        ggml_backend_tensor_memset(flat, 0, 0, ggml_nbytes(flat));
    }
    std::vector<float> numbers(static_cast<size_t>(ggml_nelements(p->flat_[0])), 0.0F);
    for (size_t i = 0; i < start.pairs.size(); ++i) {
        const LoraMatrixPair & pair = start.pairs[i];
        std::copy(pair.a.begin(), pair.a.end(),
                  numbers.begin() + static_cast<long>(p->offsets_[i].a));
        std::copy(pair.b.begin(), pair.b.end(),
                  numbers.begin() + static_cast<long>(p->offsets_[i].b));
    }
    p->upload(numbers);
    return p;
}

std::unique_ptr<TrainParameters> TrainParameters::describe(const AdapterData & start) {
    std::unique_ptr<TrainParameters> p(new TrainParameters);
    p->make_tensors(start);
    // An address makes the graph allocator leave the tensor alone; nothing ever reads it.
    for (ggml_tensor * t = ggml_get_first_tensor(p->context_.get()); t != nullptr;
         t = ggml_get_next_tensor(p->context_.get(), t)) {
        t->data = p.get();
    }
    return p;
}

void TrainParameters::zero_gradients() {
    ggml_backend_tensor_memset(flat_[1], 0, 0, ggml_nbytes(flat_[1]));
}

std::vector<float> TrainParameters::download() const {
    std::vector<float> flat(static_cast<size_t>(ggml_nelements(flat_[0])));
    ggml_backend_tensor_get(flat_[0], flat.data(), 0, ggml_nbytes(flat_[0]));
    return flat;
}

void TrainParameters::upload(const std::vector<float> & flat) {
    ggml_backend_tensor_set(flat_[0], flat.data(), 0, ggml_nbytes(flat_[0]));
}

std::vector<std::string> TrainParameters::without_gradient() const {
    std::vector<std::string> names;
    std::vector<float> host;
    for (const TrainablePair & pair : pairs_) {
        host.resize(static_cast<size_t>(ggml_nelements(pair.grad_b)));
        ggml_backend_tensor_get(pair.grad_b, host.data(), 0, ggml_nbytes(pair.grad_b));
        if (std::all_of(host.begin(), host.end(), [](float x) { return x == 0.0F; })) {
            names.push_back(module_weight_name(pair.layer, pair.module));
        }
    }
    return names;
}

AdapterData TrainParameters::to_adapter(const std::vector<float> & flat) const {
    AdapterData adapter = shape_;
    for (size_t i = 0; i < adapter.pairs.size(); ++i) {
        LoraMatrixPair & pair = adapter.pairs[i];
        const float * a = flat.data() + offsets_[i].a;
        const float * b = flat.data() + offsets_[i].b;
        pair.a.assign(a, a + pair.n_in * pair.rank);
        pair.b.assign(b, b + pair.n_out * pair.rank);
    }
    return adapter;
}

}  // namespace lumi
