// The optimiser's three small graphs: two norms, kept, and the update, made anew each step because
// its factors are constants of the operations.
#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace lumi {

namespace {

constexpr int64_t kPieceRows = 4096;  // 16 MiB of squares at a time

// The update of one step; its factors are constants of the operations.
struct Update {
    GgmlContext context;
    ggml_tensor * settings = nullptr;
    ggml_cgraph * graph = nullptr;
};

Update build_update(const TrainParameters & parameters, float gradient_factor) {
    Update update;
    update.context.reset(ggml_init(
        {4 * ggml_tensor_overhead() + ggml_graph_overhead_custom(8, false), nullptr, true}));
    ggml_context * ctx = update.context.get();
    update.settings = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 7);
    ggml_tensor * gradients = ggml_scale_inplace(ctx, parameters.gradients(), gradient_factor);
    ggml_tensor * updated =
        ggml_opt_step_adamw(ctx, parameters.weights(), gradients, parameters.first_moment(),
                            parameters.second_moment(), update.settings);
    update.graph = ggml_new_graph_custom(ctx, 8, false);
    ggml_build_forward_expand(update.graph, updated);
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
    LUMI_TRY(device.preflight(build_update(parameters, 1.0F).graph));
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
    const Update update = build_update(*parameters_, step.gradient_factor);
    const GgmlBuffer buffer = LUMI_TRY(device_->allocate(update.context.get()));
    const float values[7] = {step.learning_rate,
                             step.beta1,
                             step.beta2,
                             step.epsilon,
                             step.weight_decay,
                             static_cast<float>(1.0 / (1.0 - std::pow(step.beta1, step.step))),
                             static_cast<float>(1.0 / (1.0 - std::pow(step.beta2, step.step)))};
    ggml_backend_tensor_set(update.settings, values, 0, sizeof values);
    return device_->compute(update.graph);
}

}  // namespace lumi
