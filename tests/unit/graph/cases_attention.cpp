// Plain attention: grouped heads, causal and window masks, fewer rows than keys, large scores.
#include "unit/graph/gradient_check.h"

#include <cmath>
#include <limits>

namespace lumi::test {
namespace {

struct Shape {
    size_t head_dim, n_head, n_kv, rows, keys;
};

// mask[r, j] is added to scale * q.k; head h reads K/V head h / (n_head / n_kv).
Numbers attention_loop(const Numbers & q, const Numbers & k, const Numbers & v,
                       const Numbers & mask, const Shape & s, double scale) {
    Numbers out(s.head_dim * s.n_head * s.rows);
    for (size_t r = 0; r < s.rows; ++r) {
        for (size_t h = 0; h < s.n_head; ++h) {
            const size_t kv = h / (s.n_head / s.n_kv);
            Numbers scores(s.keys);
            double largest = -std::numeric_limits<double>::infinity();
            for (size_t j = 0; j < s.keys; ++j) {
                double sum = 0;
                for (size_t d = 0; d < s.head_dim; ++d) {
                    sum += q[(r * s.n_head + h) * s.head_dim + d] *
                           k[(j * s.n_kv + kv) * s.head_dim + d];
                }
                scores[j] = scale * sum + mask[r * s.keys + j];
                largest = std::max(largest, scores[j]);
            }
            double total = 0;
            for (double & x : scores) {
                x = std::exp(x - largest);
                total += x;
            }
            for (size_t j = 0; j < s.keys; ++j) {
                for (size_t d = 0; d < s.head_dim; ++d) {
                    out[(r * s.n_head + h) * s.head_dim + d] +=
                        scores[j] / total * v[(j * s.n_kv + kv) * s.head_dim + d];
                }
            }
        }
    }
    return out;
}

// The last `rows` tokens of `keys` see themselves and before, at most `window` of them.
Numbers causal_mask(size_t rows, size_t keys, size_t window) {
    Numbers mask(rows * keys);
    for (size_t r = 0; r < rows; ++r) {
        const size_t i = keys - rows + r;
        for (size_t j = 0; j < keys; ++j) {
            const bool seen = j <= i && i - j < window;
            mask[r * keys + j] = seen ? 0.0 : -std::numeric_limits<double>::infinity();
        }
    }
    return mask;
}

GradientCase attention_case(const std::string & name, const Shape & s, size_t window, float scale,
                            double sd) {
    const auto n = [](size_t x) { return static_cast<int64_t>(x); };
    GradientCase c;
    c.name = name;
    c.leaves = {
        {"q",
         {n(s.head_dim), n(s.n_head), n(s.rows)},
         random_numbers(n(s.head_dim * s.n_head * s.rows), 21, sd)},
        {"k",
         {n(s.head_dim), n(s.n_kv), n(s.keys)},
         random_numbers(n(s.head_dim * s.n_kv * s.keys), 22, sd)},
        {"v",
         {n(s.head_dim), n(s.n_kv), n(s.keys)},
         random_numbers(n(s.head_dim * s.n_kv * s.keys), 23)},
        {"mask", {n(s.keys), n(s.rows)}, causal_mask(s.rows, s.keys, window), false},
    };
    c.build = [=](GraphContext & g, const std::vector<ggml_tensor *> & t) {
        return attention(g, t[0], t[1], t[2], t[3], scale);
    };
    c.reference = [=](const std::vector<Numbers> & v) {
        return attention_loop(v[0], v[1], v[2], v[3], s, static_cast<double>(scale));
    };
    return c;
}

}  // namespace

std::vector<GradientCase> attention_cases() {
    return {
        attention_case("attention, causal", {4, 2, 2, 5, 5}, 100, 1.0F, 0.7),
        attention_case("attention, grouped, window", {6, 6, 2, 7, 7}, 3, 0.5F, 1.0),
        attention_case("attention, one K/V head, few rows", {8, 4, 1, 3, 9}, 5, 0.35F, 1.0),
        attention_case("attention, one row", {3, 2, 1, 1, 5}, 100, 1.0F, 1.0),
        attention_case("attention, saturated", {4, 2, 1, 5, 5}, 100, 1.0F, 100.0),
    };
}

}  // namespace lumi::test
