// Speed of the products a training step is made of: ggml's own MUL_MAT, and the panel products of
// device/panel_product in both directions with each kernel, on the same weight in the same run.
// GFLOP/s per second of CPU time and thread: other work on the machine does not count.
//   bench_products [n_in n_out n_threads]
#include "device/device.h"
#include "device/panel_product.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <time.h>

namespace {

using lumi::GgmlBuffer;
using lumi::GgmlContext;

enum class Kind { mul_mat, forward, transposed };

double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Bench {
    const lumi::Device & device;
    int64_t n_in;
    int64_t n_out;
};

// GFLOP/s of the best of repeated runs of one product: what disturbs a run only makes it slower.
double measure(const Bench & b, ggml_type type, int64_t n_tokens, Kind kind,
               lumi::PanelKernel kernel = lumi::PanelKernel::f32) {
    GgmlContext ctx(
        ggml_init({ggml_tensor_overhead() * 16 + ggml_graph_overhead(), nullptr, true}));
    ggml_tensor * w = ggml_new_tensor_2d(ctx.get(), type, b.n_in, b.n_out);
    const int64_t n_x = kind == Kind::transposed ? b.n_out : b.n_in;
    ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, n_x, n_tokens);
    ggml_tensor * y = kind == Kind::mul_mat ? ggml_mul_mat(ctx.get(), w, x)
                      : kind == Kind::forward
                          ? lumi::panel_product(ctx.get(), w, x, kernel)
                          : lumi::panel_product_transposed(ctx.get(), w, x, kernel);
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    const lumi::Result<GgmlBuffer> buffer = b.device.allocate(ctx.get());
    if (!buffer.ok()) {
        return 0.0;
    }

    std::vector<float> row(static_cast<size_t>(std::max(b.n_in, n_x)));
    uint32_t state = 1;
    const auto refill = [&] {
        for (float & v : row) {
            state = state * 1664525U + 1013904223U;
            v = static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
        }
    };
    for (int64_t r = 0; r < b.n_out; ++r) {
        refill();
        ggml_quantize_chunk(type, row.data(), static_cast<char *>(w->data) + r * w->nb[1], 0, 1,
                            b.n_in, nullptr);
    }
    for (int64_t t = 0; t < n_tokens; ++t) {
        refill();
        ggml_backend_tensor_set(x, row.data(), t * x->nb[1], x->nb[1]);
    }

    bool ok = b.device.compute(graph).ok();  // warm up
    std::vector<double> seconds;
    double total = 0.0;
    while (seconds.size() < 3 || (total < 0.3 && seconds.size() < 50)) {
        const double start = cpu_seconds();
        ok = b.device.compute(graph).ok() && ok;
        const double took = (cpu_seconds() - start);
        seconds.push_back(took);
        total += took;
    }
    const double flops = 2.0 * static_cast<double>(b.n_in) * static_cast<double>(b.n_out) *
                         static_cast<double>(n_tokens);
    return (ok ? flops : 0.0) / *std::min_element(seconds.begin(), seconds.end()) * 1e-9;
}

}  // namespace

int main(int argc, char ** argv) {
    const auto number = [&](int i, int fallback) {
        return argc > i ? std::max(1, std::atoi(argv[i])) : fallback;
    };
    const lumi::Result<lumi::Device> device = lumi::Device::open("cpu", number(3, 0));
    if (!device.ok()) {
        std::fprintf(stderr, "%s\n", device.error().message.c_str());
        return 1;
    }
    const Bench b{*device, number(1, 2560), number(2, 10240)};
    const lumi::PanelKernel best = lumi::panel_kernel(b.n_in);
    std::printf("GFLOP/s a thread, W [%lld, %lld]; the rule's kernel: %s\n"
                "%-6s %6s %8s %8s %8s %8s %8s\n",
                static_cast<long long>(b.n_in), static_cast<long long>(b.n_out),
                lumi::panel_kernel_text(best), "type", "tokens", "mul_mat", "Wx f32", "WTx f32",
                "Wx rule", "WTx rule");
    for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q8_0, GGML_TYPE_BF16,
                                 GGML_TYPE_F16, GGML_TYPE_F32}) {
        for (const int64_t n_tokens : {128, 512}) {
            using lumi::PanelKernel;
            std::printf("%-6s %6lld %8.0f %8.0f %8.0f %8.0f %8.0f\n", ggml_type_name(type),
                        static_cast<long long>(n_tokens), measure(b, type, n_tokens, Kind::mul_mat),
                        measure(b, type, n_tokens, Kind::forward, PanelKernel::f32),
                        measure(b, type, n_tokens, Kind::transposed, PanelKernel::f32),
                        measure(b, type, n_tokens, Kind::forward, best),
                        measure(b, type, n_tokens, Kind::transposed, best));
            std::fflush(stdout);
        }
    }
    return 0;
}
