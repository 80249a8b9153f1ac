// Builds the training graph: forward with checkpoints, loss, then layer by layer a recorded rebuild
// and its adjoint (design, decision 4). It knows the order of things, not a single derivative.
#include "graph/train_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

namespace lumi {
namespace {

int most_adapters(const DecoderModel & model) {
    size_t most = 1;
    for (int il = 0; model.loras != nullptr && il < model.config->n_layer; ++il) {
        for (int m = 0; m < kModuleCount; ++m) {
            most = std::max(most, model.loras->find(il, static_cast<Module>(m)).size());
        }
    }
    return static_cast<int>(most);
}

// One layer as the backward pass needs it.
struct LayerState {
    ggml_tensor * hidden_in = nullptr;  // the checkpoint
    ggml_tensor * ple = nullptr;
    KeyValue source;             // K/V leaves of a sharing layer
    KeyValue own;                // of the plain forward, read by sharing layers
    std::unique_ptr<Tape> tape;  // set once the layer is recorded
    LayerResult recorded;
    // The sum over all sharing layers so far, for layers that own K/V.
    ggml_tensor * d_k = nullptr;
    ggml_tensor * d_v = nullptr;
};

class Builder {
  public:
    Builder(ggml_context * ctx, const DecoderModel & model, const GraphShape & shape,
            std::span<const TrainablePair> trainable, const TrainGraphOptions & options)
        : ctx_(ctx), model_(model), config_(*model.config), shape_(shape), trainable_(trainable),
          options_(options) {
        lowest_ = config_.n_layer;
        for (const TrainablePair & pair : trainable_) {
            lowest_ = std::min(lowest_, pair.layer);
        }
    }

    Result<TrainGraph> build();

  private:
    GraphContext context(Tape * tape) const;
    ggml_tensor * input(ggml_type type, int64_t ne0, int64_t ne1, const char * name);
    void make_loss_inputs();
    void make_dropout();
    ggml_tensor * forward();
    Status backward(ggml_tensor * d_hidden);
    Status adjoint_of_layer(int il, ggml_tensor *& d_hidden);
    // Builds the layer with a tape whose leaves are everything of it that a gradient is wanted for.
    void record(int il);
    Status add_parameter_gradients(int il);
    void pass_to_source(int il);
    // Whether a gradient for K/V of this layer serves anything.
    bool wants_key_value(int source) const;
    LayerState & state(int il) { return layers_[static_cast<size_t>(il)]; }
    const LayerConfig & layer(int il) const { return config_.layers[static_cast<size_t>(il)]; }
    LayerResult build(GraphContext & g, int il) {
        const LayerState & s = state(il);
        return build_layer(g, out_.graph, model_, out_.inputs, il, s.hidden_in, s.ple, s.source,
                           nullptr);
    }
    void expand(ggml_tensor * t) {
        if (t != nullptr) {
            ggml_build_forward_expand(out_.graph, t);
        }
    }

    ggml_context * ctx_;
    const DecoderModel & model_;
    const Config & config_;
    const GraphShape & shape_;
    std::span<const TrainablePair> trainable_;
    const TrainGraphOptions & options_;
    int lowest_ = 0;  // the lowest adapted layer; n_layer when none
    LoraDropout dropout_;
    TrainGraph out_;
    std::vector<LayerState> layers_;
};

GraphContext Builder::context(Tape * tape) const {
    GraphContext g;
    g.ctx = ctx_;
    g.tape = tape;
    g.products = options_.products;
    g.differentiable = true;
    g.transposed = options_.transposed;
    g.dropout = dropout_.factors == nullptr ? nullptr : &dropout_;
    return g;
}

ggml_tensor * Builder::input(ggml_type type, int64_t ne0, int64_t ne1, const char * name) {
    ggml_tensor * t = ggml_new_tensor_2d(ctx_, type, ne0, ne1);
    ggml_set_name(t, name);
    ggml_set_input(t);
    return t;
}

void Builder::make_dropout() {
    if (options_.dropout <= 0.0F || trainable_.empty()) {
        return;
    }
    int64_t widest = 0;
    for (const TrainablePair & pair : trainable_) {
        dropout_.starts[pair.lora.a] = dropout_start(static_cast<int64_t>(dropout_.starts.size()));
        widest = std::max(widest, pair.lora.a->ne[0]);
    }
    const auto n_pairs = static_cast<int64_t>(trainable_.size());
    const int64_t n = dropout_factors(n_pairs, widest * shape_.n_tokens);
    dropout_.factors = out_.dropout = input(GGML_TYPE_F32, n, 1, "dropout");
}

void Builder::make_loss_inputs() {
    out_.label_cells = input(GGML_TYPE_I32, shape_.n_rows, 1, "label_cells");
    out_.weights = input(GGML_TYPE_F32, 1, shape_.n_rows, "row_weights");
    if (!trainable_.empty()) {
        out_.loss_scale = input(GGML_TYPE_F32, 1, 1, "loss_scale");
    }
}

// All layers in order; returns the stream above the last one.
ggml_tensor * Builder::forward() {
    GraphContext g = context(nullptr);
    const StemResult stem = build_stem(g, model_, out_.inputs);
    ggml_tensor * hidden = stem.hidden;
    expand(hidden);
    layers_.resize(static_cast<size_t>(config_.n_layer));
    for (int il = 0; il < config_.n_layer; ++il) {
        LayerState & s = state(il);
        s.hidden_in = hidden;
        s.ple = stem.ple.empty() ? nullptr : stem.ple[static_cast<size_t>(il)];
        if (!layer(il).has_kv) {
            s.source = state(layer(il).kv_source).own;
        }
        if (!options_.recompute && il >= lowest_) {
            record(il);
        }
        const LayerResult result = s.tape != nullptr ? s.recorded : build(g, il);
        s.own = result.own;
        hidden = result.hidden;
        expand(hidden);
    }
    return hidden;
}

bool Builder::wants_key_value(int source) const {
    return lowest_ < source ||
           std::any_of(trainable_.begin(), trainable_.end(), [&](const TrainablePair & pair) {
               return pair.layer == source &&
                      (pair.module == Module::k || pair.module == Module::v);
           });
}

void Builder::record(int il) {
    LayerState & s = state(il);
    s.tape = std::make_unique<Tape>(ctx_);
    if (il > lowest_) {
        s.tape->watch(s.hidden_in);
    }
    if (s.source.k != nullptr && wants_key_value(layer(il).kv_source)) {
        s.tape->watch(s.source.k);
        s.tape->watch(s.source.v);
    }
    for (const TrainablePair & pair : trainable_) {
        if (pair.layer == il) {
            s.tape->watch(pair.lora.a);
            s.tape->watch(pair.lora.b);
        }
    }
    GraphContext g = context(s.tape.get());
    s.recorded = build(g, il);
}

Status Builder::add_parameter_gradients(int il) {
    for (const TrainablePair & pair : trainable_) {
        if (pair.layer != il) {
            continue;
        }
        ggml_tensor * d_a = state(il).tape->grad(pair.lora.a);
        ggml_tensor * d_b = state(il).tape->grad(pair.lora.b);
        if (d_a == nullptr || d_b == nullptr) {
            return Error{ErrorKind::internal,
                         "the trainable pair of " + module_weight_name(il, pair.module) +
                             " takes no part in the model: the loss has no gradient for it"};
        }
        expand(ggml_add_inplace(ctx_, pair.grad_a, d_a));
        expand(ggml_add_inplace(ctx_, pair.grad_b, d_b));
    }
    return {};
}

// The K/V gradients of a sharing layer join those of the other consumers of its source.
void Builder::pass_to_source(int il) {
    const LayerState & s = state(il);
    LayerState & source = state(layer(il).kv_source);
    const auto join = [&](ggml_tensor * sum, ggml_tensor * more) {
        if (more != nullptr) {
            sum = sum == nullptr ? more : ggml_add(ctx_, sum, more);
            expand(sum);
        }
        return sum;
    };
    source.d_k = join(source.d_k, s.tape->grad(s.source.k));
    source.d_v = join(source.d_v, s.tape->grad(s.source.v));
}

Status Builder::adjoint_of_layer(int il, ggml_tensor *& d_hidden) {
    LayerState & s = state(il);
    if (s.tape == nullptr) {
        record(il);
    }
    s.tape->backward(
        {{s.recorded.hidden, d_hidden}, {s.recorded.own.k, s.d_k}, {s.recorded.own.v, s.d_v}});
    if (!s.tape->failure().empty()) {
        return Error{ErrorKind::unsupported,
                     "layer " + std::to_string(il) + ": " + s.tape->failure()};
    }
    LUMI_TRY(add_parameter_gradients(il));
    d_hidden = s.tape->grad(s.hidden_in);
    expand(d_hidden);
    if (s.source.k != nullptr) {
        pass_to_source(il);
    }
    s.tape.reset();
    return {};
}

Status Builder::backward(ggml_tensor * d_hidden) {
    for (int il = config_.n_layer - 1; il >= lowest_; --il) {
        LUMI_TRY(adjoint_of_layer(il, d_hidden));
    }
    return {};
}

Result<TrainGraph> Builder::build() {
    const size_t n_nodes = train_graph_nodes(config_, shape_, options_, most_adapters(model_));
    if (ggml_get_mem_size(ctx_) < ggml_used_mem(ctx_) + graph_context_bytes(n_nodes)) {
        return Error{ErrorKind::internal, "training graph: the context has no room for " +
                                              std::to_string(n_nodes) + " nodes"};
    }
    out_.graph = ggml_new_graph_custom(ctx_, n_nodes, false);
    out_.inputs = make_inputs(ctx_, config_, shape_, false, false);
    make_loss_inputs();
    make_dropout();
    ggml_tensor * hidden = forward();

    const bool learns = !trainable_.empty();
    Tape head(ctx_);
    if (learns) {
        head.watch(hidden);
    }
    GraphContext g = context(&head);
    ggml_tensor * x = rms_norm(g, hidden, model_.weights->output_norm, config_.eps);
    const LossTensors loss =
        build_loss(g, out_.graph, model_, x, {out_.label_cells, out_.weights, out_.loss_scale},
                   options_.loss_chunk_rows, learns);
    if (learns && loss.dx == nullptr) {
        return Error{ErrorKind::unsupported, std::string("no transposed copy of ") +
                                                 model_.weights->output->name +
                                                 " for the gradient of the loss"};
    }
    out_.loss_sum = loss.loss_sum;
    out_.row_loss = loss.row_loss;
    for (ggml_tensor * output : {out_.loss_sum, out_.row_loss}) {
        ggml_set_output(output);
    }
    ggml_set_name(out_.loss_sum, "loss_sum");
    ggml_set_name(out_.row_loss, "row_loss");
    if (learns) {
        head.backward({{x, loss.dx}});
        if (!head.failure().empty()) {
            return Error{ErrorKind::unsupported, "output norm: " + head.failure()};
        }
        LUMI_TRY(backward(head.grad(hidden)));
    }
    return std::move(out_);
}

Status check(const DecoderModel & model, const GraphShape & shape,
             std::span<const TrainablePair> trainable, const TrainGraphOptions & options) {
    const Config & config = *model.config;
    const auto refuse = [](const std::string & why) {
        return Error{ErrorKind::invalid_argument, "training graph: " + why};
    };
    if (shape.n_tokens < 1 || shape.n_rows < 1 || shape.n_rows > shape.n_tokens) {
        return refuse(std::to_string(shape.n_rows) + " supervised rows of " +
                      std::to_string(shape.n_tokens) + " tokens; needed: 1 to all of them");
    }
    if (shape.n_kv_full != shape.n_tokens || shape.n_kv_swa != shape.n_tokens) {
        return refuse("K/V lengths must equal the number of tokens: there is no cache");
    }
    const int64_t most = std::numeric_limits<int32_t>::max() / std::max(config.n_vocab, 1);
    if (options.loss_chunk_rows < 1 || options.loss_chunk_rows > most) {
        return refuse("loss_chunk_rows is " + std::to_string(options.loss_chunk_rows) +
                      ", allowed are 1 to " + std::to_string(most));
    }
    if (!(options.dropout >= 0.0F && options.dropout < 1.0F)) {
        return refuse("dropout is " + std::to_string(options.dropout) +
                      ", allowed are 0 up to but not 1");
    }
    for (const TrainablePair & pair : trainable) {
        if (pair.layer < 0 || pair.layer >= config.n_layer || pair.grad_a == nullptr ||
            pair.grad_b == nullptr || !ggml_are_same_shape(pair.grad_a, pair.lora.a) ||
            !ggml_are_same_shape(pair.grad_b, pair.lora.b)) {
            return refuse("the pair of layer " + std::to_string(pair.layer) + ", " +
                          module_name(pair.module) + " lacks accumulators of its shape");
        }
    }
    return {};
}

}  // namespace

size_t train_graph_nodes(const Config & config, const GraphShape & shape,
                         const TrainGraphOptions & options, int adapters) {
    // Counted generously from the builders: a layer's forward is 70 tensors and 6 more for each
    // adapter of its nine modules, built twice; its adjoint 180, and 24 for each adapter's module.
    const auto pairs = static_cast<size_t>(kModuleCount * std::max(adapters, 1));
    const size_t layer = 2 * (70 + 6 * pairs) + 180 + 24 * pairs;
    const auto chunk = static_cast<size_t>(std::max(options.loss_chunk_rows, 1));
    const size_t chunks = static_cast<size_t>(std::max(shape.n_rows, 0)) / chunk + 1;
    return static_cast<size_t>(config.n_layer) * layer + chunks * 56 + 128;
}

size_t graph_context_bytes(size_t n_nodes) {
    return n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false);
}

Result<TrainGraph> build_train_graph(ggml_context * ctx, const DecoderModel & model,
                                     const GraphShape & shape,
                                     std::span<const TrainablePair> trainable,
                                     const TrainGraphOptions & options) {
    LUMI_TRY(check(model, shape, trainable, options));
    return Builder(ctx, model, shape, trainable, options).build();
}

}  // namespace lumi
