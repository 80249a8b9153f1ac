// Loads a model: weights in place over the mapped file (CPU) or uploaded (GPU), then the twin.

#include "model/model.h"

#include "base/log.h"
#include "model/repack.h"
#include "model/tensor_check.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lumi {

namespace {

// What must stay free beside a repacked twin, for the cache and the activations of a usual context.
constexpr uint64_t kRoomBesideTwin = 1ULL << 30;

bool is_vector(const BoundTensor & tensor) {
    return tensor.role.ne.size() == 1;
}

// The tensor as graphs see it; vectors are F32 whatever the file holds.
ggml_tensor * new_tensor(ggml_context * ctx, const BoundTensor & bound) {
    const ggml_type type = is_vector(bound) ? GGML_TYPE_F32 : bound.info->type;
    ggml_tensor * tensor =
        ggml_new_tensor(ctx, type, static_cast<int>(bound.role.ne.size()), bound.role.ne.data());
    ggml_set_name(tensor, bound.info->name.c_str());
    return tensor;
}

// True when ggml can use the file's bytes as they lie.
bool usable_in_place(const BoundTensor & bound, std::span<const std::byte> data) {
    constexpr uintptr_t kAlignment = 32;  // what GGUF files have unless they say otherwise
    return (!is_vector(bound) || bound.info->type == GGML_TYPE_F32) &&
           reinterpret_cast<uintptr_t>(data.data()) % kAlignment == 0;
}

// Puts the file's bytes into an allocated tensor, as F32 for vectors.
void fill_tensor(ggml_tensor * tensor, const BoundTensor & bound, std::span<const std::byte> data) {
    if (tensor->type == bound.info->type) {
        ggml_backend_tensor_set(tensor, data.data(), 0, data.size());
        return;
    }
    std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)));
    ggml_get_type_traits(bound.info->type)
        ->to_float(data.data(), values.data(), static_cast<int64_t>(values.size()));
    ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
}

GgmlContext make_context(size_t n_tensors) {
    return GgmlContext(ggml_init({ggml_tensor_overhead() * (n_tensors + 1), nullptr, true}));
}

// One row, or part of one, of a table in the file, as F32.
void dequantise(const TensorInfo & info, const std::byte * row, int64_t first, std::span<float> out,
                std::vector<float> & scratch) {
    const auto count = static_cast<int64_t>(out.size());
    const int64_t block = ggml_blck_size(info.type);
    const int64_t start = first / block * block;
    const int64_t end = std::min((first + count + block - 1) / block * block, info.ne[0]);
    const std::byte * from = row + ggml_row_size(info.type, start);
    if (info.type == GGML_TYPE_F32) {
        std::memcpy(out.data(), from, out.size_bytes());
        return;
    }
    const auto to_float = ggml_get_type_traits(info.type)->to_float;
    if (start == first && end == first + count) {
        to_float(from, out.data(), count);
        return;
    }
    scratch.resize(static_cast<size_t>(end - start));
    to_float(from, scratch.data(), end - start);
    std::copy_n(scratch.data() + (first - start), out.size(), out.data());
}

Status gather(const GgufFile & file, const char * name, std::span<const int32_t> ids, int64_t first,
              int64_t count, std::span<float> out) {
    const TensorInfo * info = file.find_tensor(name);
    if (info == nullptr || first < 0 || count < 0 || first + count > info->ne[0] ||
        out.size() != ids.size() * static_cast<size_t>(count)) {
        return Error{ErrorKind::internal,
                     std::string("rows of ") + name + " do not fit the buffer"};
    }
    const std::byte * data = file.tensor_data(*info).data();
    const size_t row_bytes = ggml_row_size(info->type, info->ne[0]);
    std::vector<float> scratch;
    for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0 || ids[i] >= info->ne[1]) {
            return Error{ErrorKind::invalid_argument, "token " + std::to_string(ids[i]) +
                                                          " is not in the vocabulary of " +
                                                          std::to_string(info->ne[1])};
        }
        dequantise(*info, data + row_bytes * static_cast<size_t>(ids[i]), first,
                   out.subspan(i * static_cast<size_t>(count), static_cast<size_t>(count)),
                   scratch);
    }
    return {};
}

}  // namespace

// Fills a Model step by step; what it makes belongs to the model.
class ModelLoader {
  public:
    ModelLoader(Model & model, const ModelOptions & options) : model_(model), options_(options) {}

    Status run() {
        model_.config_ = LUMI_TRY(read_config(model_.file_));
        std::vector<TensorRole> roles = tensor_roles(model_.config_, model_.plain_);
        tensors_ = LUMI_TRY(bind_tensors(model_.file_, model_.config_, std::move(roles)));
        untie_embedding();
        LUMI_TRY(check_products());
        LUMI_TRY(model_.device_.is_cpu() ? place_on_cpu() : upload());
        if (model_.plain_.output == nullptr) {
            model_.plain_.output = model_.plain_.token_embd;
        }
        model_.inference_ = model_.plain_;
        if (options_.repack && model_.device_.is_cpu()) {
            LUMI_TRY(repack());
        }
        if (options_.progress) {
            options_.progress(1.0);
        }
        return {};
    }

  private:
    // With a head of its own the embedding table is only gathered from, on the host.
    void untie_embedding() {
        const auto has_head = [](const BoundTensor & t) { return t.role.name == "output.weight"; };
        if (std::any_of(tensors_.begin(), tensors_.end(), has_head)) {
            for (BoundTensor & tensor : tensors_) {
                if (tensor.role.name == "token_embd.weight") {
                    tensor.role.repackable = false;
                    tensor.role.host_only = true;
                }
            }
        }
    }

    // A weight that the device cannot multiply, for its type or its size, is found here and not in
    // the middle of a prompt.
    Status check_products() const {
        for (const BoundTensor & tensor : tensors_) {
            if (is_vector(tensor) || tensor.role.host_only || tensor.role.slot == nullptr) {
                continue;
            }
            const GgmlContext ctx = make_context(4);
            ggml_tensor * weight = new_tensor(ctx.get(), tensor);
            ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, weight->ne[0], 2);
            if (!model_.device_.supports(ggml_mul_mat(ctx.get(), weight, x))) {
                return Error{ErrorKind::unsupported,
                             model_.file_.path() + ": device " + model_.device_.name() +
                                 " cannot multiply with tensor '" + tensor.info->name + "' (" +
                                 ggml_type_name(tensor.info->type) + ", " +
                                 bytes_text(tensor.info->n_bytes) + ")"};
            }
        }
        return {};
    }

    Status place_on_cpu() {
        const std::span<const std::byte> bytes = model_.file_.bytes();
        GgmlBuffer mapped = LUMI_TRY(model_.device_.wrap_host_memory(bytes.data(), bytes.size()));
        GgmlContext in_place = make_context(tensors_.size());
        GgmlContext copies = make_context(tensors_.size());
        std::vector<std::pair<ggml_tensor *, const BoundTensor *>> to_fill;
        for (const BoundTensor & bound : tensors_) {
            if (bound.role.slot == nullptr) {
                continue;
            }
            const std::span<const std::byte> data = model_.file_.tensor_data(*bound.info);
            const bool mapped_in_place = usable_in_place(bound, data);
            ggml_tensor * tensor =
                new_tensor(mapped_in_place ? in_place.get() : copies.get(), bound);
            *bound.role.slot = tensor;
            if (!mapped_in_place) {
                to_fill.emplace_back(tensor, &bound);
                model_.device_bytes_ += ggml_nbytes(tensor);
                continue;
            }
            // ggml's buffers are not const, but nothing writes to a weight (the pages refuse it).
            auto * address = const_cast<std::byte *>(data.data());
            if (ggml_backend_tensor_alloc(mapped.get(), tensor, address) != GGML_STATUS_SUCCESS) {
                return Error{ErrorKind::internal, "ggml refused tensor '" + bound.info->name + "'"};
            }
            model_.mapped_bytes_ += data.size();
        }
        GgmlBuffer copied = LUMI_TRY(model_.device_.allocate(copies.get()));
        for (const auto & [tensor, bound] : to_fill) {
            fill_tensor(tensor, *bound, model_.file_.tensor_data(*bound->info));
        }
        keep(std::move(in_place), std::move(mapped));
        keep(std::move(copies), std::move(copied));
        return {};
    }

    Status upload() {
        GgmlContext on_device = make_context(tensors_.size());
        GgmlContext on_host = make_context(tensors_.size());
        std::vector<std::pair<ggml_tensor *, const BoundTensor *>> to_fill;
        for (const BoundTensor & bound : tensors_) {
            if (bound.role.slot == nullptr) {
                continue;
            }
            ggml_tensor * tensor =
                new_tensor(bound.role.host_only ? on_host.get() : on_device.get(), bound);
            *bound.role.slot = tensor;
            if (bound.role.host_only) {  // its rows come from the mapped file; no graph reads it
                model_.mapped_bytes_ += bound.info->n_bytes;
            } else {
                to_fill.emplace_back(tensor, &bound);
                model_.device_bytes_ += ggml_nbytes(tensor);
            }
        }
        LUMI_TRY(model_.memory_plan().enforce(device_limit(), "a smaller or more quantised model"));
        GgmlBuffer buffer = LUMI_TRY(model_.device_.allocate(on_device.get()));
        uint64_t done = 0;
        for (const auto & [tensor, bound] : to_fill) {
            fill_tensor(tensor, *bound, model_.file_.tensor_data(*bound->info));
            done += ggml_nbytes(tensor);
            if (options_.progress) {
                options_.progress(static_cast<double>(done) /
                                  static_cast<double>(model_.device_bytes_ + 1));
            }
        }
        keep(std::move(on_device), std::move(buffer));
        keep(std::move(on_host), GgmlBuffer());
        return {};
    }

    uint64_t device_limit() const {
        return options_.memory_limit_bytes > 0 ? options_.memory_limit_bytes
                                               : model_.device_.free_bytes();
    }

    Status repack() {
        const RepackPlan plan = plan_repack(model_.device_, tensors_);
        const uint64_t limit = device_limit();
        if (plan.items.empty()) {
            return {};
        }
        if (plan.bytes + kRoomBesideTwin > limit) {
            log(LogLevel::info, "weights stay as they are in the file: a repacked copy needs " +
                                    bytes_text(plan.bytes) + ", there is " + bytes_text(limit));
            return {};
        }
        Twin twin =
            LUMI_TRY(make_twin(model_.file_, plan, model_.device_.n_threads(), options_.progress));
        // The roles' slots point into plain_; the same offset names the slot in inference_.
        Weights & plain = model_.plain_;
        Weights & inference = model_.inference_;
        for (size_t i = 0; i < plan.items.size(); ++i) {
            ggml_tensor ** slot = plan.items[i].tensor->role.slot;
            if (slot == &plain.token_embd || slot == &plain.output) {
                inference.output = twin.tensors[i];
                continue;  // rows are gathered from the file
            }
            for (size_t il = 0; il < plain.layers.size(); ++il) {
                auto & from = plain.layers[il].linear;
                if (slot >= from.data() && slot < from.data() + from.size()) {
                    inference.layers[il].linear[static_cast<size_t>(slot - from.data())] =
                        twin.tensors[i];
                }
            }
        }
        for (size_t i = 0; i < twin.contexts.size(); ++i) {
            keep(std::move(twin.contexts[i]), std::move(twin.buffers[i]));
        }
        model_.repacked_bytes_ = plan.bytes;
        return {};
    }

    void keep(GgmlContext context, GgmlBuffer buffer) {
        model_.contexts_.push_back(std::move(context));
        model_.buffers_.push_back(std::move(buffer));
    }

    Model & model_;
    const ModelOptions & options_;
    std::vector<BoundTensor> tensors_;
};

Model::Model(GgufFile file, Device device) : file_(std::move(file)), device_(std::move(device)) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::load(GgufFile file, const ModelOptions & options) {
    // The products of a tiny model are over before a second thread has woken up; on a busy machine
    // waiting for it cost ten times the work itself (measured on the small model inside lumi).
    constexpr size_t kTinyBytes = size_t{16} << 20;
    const bool tiny = options.n_threads == 0 && file.bytes().size() < kTinyBytes;
    Device device = LUMI_TRY(Device::open(options.device, tiny ? 1 : options.n_threads));
    std::unique_ptr<Model> model(new Model(std::move(file), std::move(device)));
    LUMI_TRY(ModelLoader(*model, options).run());
    return model;
}

Status Model::gather_embeddings(std::span<const int32_t> ids, std::span<float> out) const {
    return gather(file_, "token_embd.weight", ids, 0, config_.n_embd, out);
}

Status Model::gather_ple(std::span<const int32_t> ids, int first_layer, int n_layers,
                         std::span<float> out) const {
    return gather(file_, "per_layer_token_embd.weight", ids, int64_t{config_.n_ple} * first_layer,
                  int64_t{config_.n_ple} * n_layers, out);
}

MemoryPlan Model::memory_plan() const {
    MemoryPlan plan;
    if (mapped_bytes_ > 0) {
        plan.add("weights in the mapped file", mapped_bytes_, true);
    }
    if (device_bytes_ > 0) {
        plan.add(device_.is_cpu() ? "weights converted or realigned"
                                  : "weights on " + device_.name(),
                 device_bytes_);
    }
    if (repacked_bytes_ > 0) {
        plan.add("weights repacked for inference", repacked_bytes_);
    }
    return plan;
}

}  // namespace lumi
