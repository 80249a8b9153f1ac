// Where the time of a training step goes: computes every node of one run's graph alone and adds up
// CPU time by kind of node. Before that, whole runs as training does them.
//   profile_train MODEL [tokens] [threads] [rank]
#include "device/panel_product.h"
#include "gguf/gguf_file.h"
#include "train/graph_runner.h"
#include "train/parameters.h"
#include "train/trainer_plan.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <time.h>

namespace {

using namespace lumi;

double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Floating point operations of a product; 0 for anything else.
double product_flops(const ggml_tensor * node) {
    const auto out = static_cast<double>(ggml_nelements(node));
    if (node->op == GGML_OP_MUL_MAT) {
        return 2.0 * static_cast<double>(node->src[0]->ne[0]) * out;
    }
    if (node->op == GGML_OP_CUSTOM) {  // in place, its sum comes first
        const ggml_tensor * matrix = node->src[node->view_src == nullptr ? 0 : 1];
        return 2.0 * static_cast<double>(ggml_nelements(matrix)) *
               static_cast<double>(ggml_nrows(node));
    }
    return 0.0;
}

std::string kind_of(const ggml_tensor * node, const Config & config, int rank) {
    const auto is_large = [&](const ggml_tensor * t) {
        return t != nullptr && (t->ne[0] == config.n_vocab || t->ne[1] == config.n_vocab);
    };
    std::string kind = ggml_op_desc(node);
    if (is_large(node) || is_large(node->src[0])) {
        return kind + " (vocabulary)";
    }
    if (node->op == GGML_OP_MUL_MAT) {
        kind += node->ne[2] * node->ne[3] > 1 || node->src[0]->ne[2] > 1 ? " (attention)"
                                                                         : " (adapter)";
    } else if (node->op == GGML_OP_CUSTOM) {
        const ggml_tensor * matrix = node->src[node->view_src == nullptr ? 0 : 1];
        kind += node->view_src != nullptr || matrix->view_src != nullptr ||
                        std::min(matrix->ne[0], matrix->ne[1]) <= rank || node->ne[0] <= rank ||
                        node->ne[1] <= rank
                    ? " (adapter)"
                    : " (frozen weight)";
    } else if (node->op == GGML_OP_CONT && ggml_is_transposed(node->src[0])) {
        kind += " (transpose)";
    } else if (node->op == GGML_OP_CONT) {
        kind += " (permute)";
    }
    return kind;
}

struct Sum {
    int count = 0;
    double seconds = 0;
    double flops = 0;
};

Result<Dataset> one_sample(const Model & model, int n_tokens) {
    Dataset data;
    Sample sample;
    for (int i = 0; i < n_tokens; ++i) {
        sample.tokens.push_back((i * 7919 + 11) % model.config().n_vocab);
        sample.target_weight.push_back(i == 0 ? 0.0F : 1.0F);
    }
    data.samples.push_back(sample);
    return data;
}

// Runs as training does them, in slices; the first one reads the file.
Status report_whole_runs(GraphRunner & runner, const PackedBatch & batch) {
    for (int pass = 0; pass < 3; ++pass) {
        LUMI_TRY(runner.begin(batch, true, 1024.0F));
        const double cpu = cpu_seconds();
        const auto begin = std::chrono::steady_clock::now();
        while (!LUMI_TRY(runner.advance())) {
        }
        const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
        std::printf("run %d: %.2f s (%.1f tokens/s), %.2f s of CPU, %d slices\n", pass,
                    wall.count(), static_cast<double>(batch.n_tokens) / wall.count(),
                    cpu_seconds() - cpu, runner.slices_run());
        std::fflush(stdout);
    }
    return {};
}

Status run(const char * path, int n_tokens, int n_threads, int rank) {
    ModelOptions model_options;
    model_options.device = "cpu";
    model_options.n_threads = n_threads;
    model_options.repack = false;
    GgufFile file = LUMI_TRY(GgufFile::open(path));
    const std::unique_ptr<Model> model = LUMI_TRY(Model::load(std::move(file), model_options));
    TrainOptions options;
    options.rank = rank;
    const AdapterData start = LUMI_TRY(starting_adapter(*model, options, nullptr));
    const std::unique_ptr<TrainParameters> parameters =
        LUMI_TRY(TrainParameters::create(start, model->device()));
    RunnerOptions runner_options;
    runner_options.graph = graph_options(*model, false, true);
    GraphRunner runner(*model, parameters->view(), parameters->pairs(), runner_options);
    const Dataset data = LUMI_TRY(one_sample(*model, n_tokens));
    const Sample * sample = &data.samples[0];
    const std::vector<PackedBatch> batches = pack_samples(std::span(&sample, 1), n_tokens);

    LUMI_TRY(report_whole_runs(runner, batches[0]));
    std::map<std::string, Sum> sums;
    Sum all;
    LUMI_TRY(runner.begin(batches[0], true, 1024.0F));
    ggml_cgraph * graph = runner.graph();
    GgmlContext context(ggml_init({ggml_graph_overhead_custom(8, false), nullptr, true}));
    ggml_cgraph * single = ggml_new_graph_custom(context.get(), 8, false);
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE ||
            node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE) {
            continue;
        }
        ggml_graph_clear(single);
        ggml_graph_add_node(single, node);
        const double begin = cpu_seconds();
        ggml_backend_graph_compute(model->device().backend(), single);
        const double seconds = cpu_seconds() - begin;
        for (Sum * sum : {&sums[kind_of(node, model->config(), rank)], &all}) {
            ++sum->count;
            sum->seconds += seconds;
            sum->flops += product_flops(node);
        }
    }
    std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto & a, const auto & b) { return a.second.seconds > b.second.seconds; });
    std::printf("%d tokens, rank %d, %d threads: %.0f ms of CPU, %.2f tokens per CPU second, "
                "%.0f GFLOP/s; products: %s; loss %.4f\n",
                n_tokens, rank, model->device().n_threads(), all.seconds * 1e3,
                n_tokens / all.seconds, all.flops / all.seconds * 1e-9,
                panel_kernel_text(panel_kernel(model->config().n_embd)), runner.loss_sum());
    std::printf("%-28s %7s %10s %7s %9s\n", "node", "count", "ms", "share", "GFLOP/s");
    for (const auto & [kind, sum] : sorted) {
        std::printf("%-28s %7d %10.2f %6.1f%% %9.1f\n", kind.c_str(), sum.count, sum.seconds * 1e3,
                    100.0 * sum.seconds / all.seconds, sum.flops / sum.seconds * 1e-9);
    }
    return {};
}

}  // namespace

int main(int argc, char ** argv) {
    const auto number = [&](int i, int fallback) {
        return argc > i ? std::max(1, std::atoi(argv[i])) : fallback;
    };
    if (argc < 2) {
        std::fprintf(stderr, "usage: profile_train MODEL [tokens] [threads] [rank]\n");
        return 2;
    }
    const Status status = run(argv[1], number(2, 128), number(3, 1), number(4, 8));
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.error().message.c_str());
        return 1;
    }
    return 0;
}
