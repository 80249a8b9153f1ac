// The optimiser's three small graphs: two norms, kept, and the update, made anew each step because
// its factors are constants of the operations.
#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace lumi {

namespace {

constexpr int64_t kPieceRows = 4096;  // 16 MiB of squares at a time

// The update of one step, in pieces: Vulkan starts one group of threads for 512 numbers, and some
// devices take no more than 65535 groups. Its factors are constants of the operations.
struct Update {
    GgmlContext context;
    ggml_cgraph * graph = nullptr;
};

Update build_update(const TrainParameters & parameters, ggml_tensor * settings,
                    float gradient_factor) {
    const ggml_tensor * flat = parameters.weights();
    const auto n_pieces = static_cast<size_t>((flat->ne[1] + kPieceRows - 1) / kPieceRows);
    const size_t n_nodes = 6 * n_pieces + 4;
    Update update;
    update.context.reset(
        ggml_init({n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false),
                   nullptr, true}));
    ggml_context * ctx = update.context.get();
    update.graph = ggml_new_graph_custom(ctx, n_nodes, false);
    for (int64_t row = 0; row < flat->ne[1]; row += kPieceRows) {
        const int64_t rows = std::min(kPieceRows, flat->ne[1] - row);
        const auto piece = [&](ggml_tensor * t) {
            return ggml_view_2d(ctx, t, t->ne[0], rows, t->nb[1],
                                static_cast<size_t>(row) * t->nb[1]);
        };
        ggml_tensor * weights = piece(parameters.weights());
        weights->flags |= GGML_TENSOR_FLAG_PARAM;
        ggml_tensor * gradients =
            ggml_scale_inplace(ctx, piece(parameters.gradients()), gradient_factor);
        ggml_build_forward_expand(update.graph,
                                  ggml_opt_step_adamw(ctx, weights, gradients,
                                                      piece(parameters.first_moment()),
                                                      piece(parameters.second_moment()), settings));
    }
    // Views only, so no allocator comes by to tell them their buffers.
    for (ggml_tensor * t = ggml_get_first_tensor(ctx); t != nullptr;
         t = ggml_get_next_tensor(ctx, t)) {
        if (t->buffer == nullptr && t->view_src != nullptr) {
            ggml_backend_view_init(t);
        }
    }
    return update;
}

}  // namespace

Optimizer::Squares Optimizer::build_squares(ggml_tensor * flat) {
    ggml_context * ctx = context_.get();
    Squares squares;
    const int64_t n_rows = flat->ne[1];
    const auto n_pieces = static_cast<size_t>((n_rows + kPieceRows - 1) / kPieceRows);
    squares.graph = ggml_new_graph_custom(ctx, 4 * n_pieces + 8, false);
    for (int64_t row = 0; row < n_rows; row += kPieceRows) {
        const int64_t rows = std::min(kPieceRows, n_rows - row);
        ggml_tensor * piece = ggml_view_2d(ctx, flat, flat->ne[0], rows, flat->nb[1],
                                           static_cast<size_t>(row) * flat->nb[1]);
        ggml_tensor * sums = ggml_sum_rows(ctx, ggml_sqr(ctx, piece));  // [1, rows]
        ggml_set_output(sums);
        ggml_build_forward_expand(squares.graph, sums);
        squares.row_sums.push_back(sums);
    }
    return squares;
}

Result<std::unique_ptr<Optimizer>> Optimizer::create(TrainParameters & parameters,
                                                     const Device & device) {
    std::unique_ptr<Optimizer> o(new Optimizer(parameters, device));
    const int64_t n_rows = parameters.weights()->ne[1];
    const auto n_pieces = static_cast<size_t>((n_rows + kPieceRows - 1) / kPieceRows);
    const size_t bytes = 6 * n_pieces * ggml_tensor_overhead() +
                         2 * ggml_graph_overhead_custom(4 * n_pieces + 8, false);
    o->context_.reset(ggml_init({bytes, nullptr, true}));
    o->gradient_squares_ = o->build_squares(parameters.gradients());
    o->weight_squares_ = o->build_squares(parameters.weights());
    o->allocator_.reset(ggml_gallocr_new(device.buffer_type()));
    LUMI_TRY(device.preflight(o->gradient_squares_.graph));
    o->settings_context_.reset(ggml_init({2 * ggml_tensor_overhead(), nullptr, true}));
    o->settings_ = ggml_new_tensor_1d(o->settings_context_.get(), GGML_TYPE_F32, 7);
    o->settings_buffer_ = LUMI_TRY(device.allocate(o->settings_context_.get()));
    LUMI_TRY(device.preflight(build_update(parameters, o->settings_, 1.0F).graph));
    return o;
}

Result<double> Optimizer::norm(const Squares & squares) {
    if (!ggml_gallocr_alloc_graph(allocator_.get(), squares.graph)) {
        return Error{ErrorKind::out_of_memory, "no memory for the gradient norm"};
    }
    LUMI_TRY(device_->compute(squares.graph));
    double sum = 0;
    std::vector<float> host;
    for (ggml_tensor * sums : squares.row_sums) {
        host.resize(static_cast<size_t>(ggml_nelements(sums)));
        ggml_backend_tensor_get(sums, host.data(), 0, ggml_nbytes(sums));
        for (const float x : host) {
            sum += static_cast<double>(x);
        }
    }
    return std::sqrt(sum);
}

Status Optimizer::apply(const AdamwStep & step) {
    const Update update = build_update(*parameters_, settings_, step.gradient_factor);
    const float values[7] = {step.learning_rate,
                             step.beta1,
                             step.beta2,
                             step.epsilon,
                             step.weight_decay,
                             static_cast<float>(1.0 / (1.0 - std::pow(step.beta1, step.step))),
                             static_cast<float>(1.0 / (1.0 - std::pow(step.beta2, step.step)))};
    ggml_backend_tensor_set(settings_, values, 0, sizeof values);
    return device_->compute(update.graph);
}

}  // namespace lumi
