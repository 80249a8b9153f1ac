// Chooses how many nodes make a slice from a rough count of operations and the time the last
// slices took.
#include "train/sliced_graph.h"

#include <chrono>

namespace lumi {

namespace {

bool is_free(const ggml_tensor * node) {
    switch (node->op) {
    case GGML_OP_NONE:
    case GGML_OP_VIEW:
    case GGML_OP_RESHAPE:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
        return true;
    default:
        return false;
    }
}

// About how much work a node is, in floating point operations of a matrix product.
double work_units(const ggml_tensor * node) {
    constexpr double kPerNode = 2e5;      // starting it on all threads
    constexpr double kPerElement = 50.0;  // reading and writing it
    if (is_free(node)) {
        return 0.0;
    }
    const auto elements = static_cast<double>(ggml_nelements(node));
    double units = kPerNode + kPerElement * elements;
    if (node->op == GGML_OP_MUL_MAT) {
        units += 2.0 * static_cast<double>(node->src[0]->ne[0]) * elements;
    } else if (node->op == GGML_OP_CUSTOM) {  // a product; in place, its sum comes first
        const ggml_tensor * matrix = node->src[node->view_src == nullptr ? 0 : 1];
        units += 2.0 * static_cast<double>(ggml_nelements(matrix)) *
                 static_cast<double>(ggml_nrows(node));
    }
    return units;
}

}  // namespace

void SlicedGraph::start(ggml_cgraph * graph) {
    graph_ = graph;
    next_ = 0;
    slices_run_ = 0;
    const int n_nodes = ggml_graph_n_nodes(graph);
    if (n_nodes > capacity_) {
        capacity_ = n_nodes;
        const auto size = static_cast<size_t>(capacity_);
        context_.reset(ggml_init({ggml_graph_overhead_custom(size, false), nullptr, true}));
        slice_ = ggml_new_graph_custom(context_.get(), size, false);
    }
}

Result<bool> SlicedGraph::advance() {
    const int n_nodes = ggml_graph_n_nodes(graph_);
    ggml_graph_clear(slice_);
    double units = 0;
    while (next_ < n_nodes) {
        ggml_tensor * node = ggml_graph_node(graph_, next_);
        const double more = work_units(node);
        if (units > 0 && more > 0 && (units + more) * seconds_per_unit_ > slice_seconds_) {
            break;
        }
        ggml_graph_add_node(slice_, node);
        units += more;
        ++next_;
    }
    const auto begin = std::chrono::steady_clock::now();
    LUMI_TRY(device_->compute(slice_));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    ++slices_run_;
    if (units > 0) {
        seconds_per_unit_ = 0.7 * seconds_per_unit_ + 0.3 * taken.count() / units;
    }
    return next_ >= n_nodes;
}

}  // namespace lumi
