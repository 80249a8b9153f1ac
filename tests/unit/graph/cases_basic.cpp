// Sums, products, scaling, reshaping and row selection; a value that is used twice.
#include "unit/graph/gradient_check.h"

namespace lumi::test {
namespace {

using Tensors = std::vector<ggml_tensor *>;
using Values = std::vector<Numbers>;

GradientCase two_leaves(const std::string & name, std::vector<int64_t> ne) {
    GradientCase c;
    c.name = name;
    c.leaves = {{"a", ne, random_numbers(count_of(ne), 41)},
                {"b", ne, random_numbers(count_of(ne), 42)}};
    return c;
}

Numbers map2(const Numbers & a, const Numbers & b, double (*f)(double, double)) {
    Numbers y(a.size());
    for (size_t i = 0; i < y.size(); ++i) {
        y[i] = f(a[i], b[i]);
    }
    return y;
}

GradientCase select_case() {
    GradientCase c;
    c.name = "select_rows";
    c.leaves = {{"x", {3, 6}, random_numbers(18, 43)},
                {"rows", {4}, {5, 0, 3, 2}, false, GGML_TYPE_I32}};
    c.build = [](GraphContext & g, const Tensors & t) { return select_rows(g, t[0], t[1]); };
    c.reference = [](const Values & v) {
        Numbers y;
        for (const double row : v[1]) {
            for (size_t i = 0; i < 3; ++i) {
                y.push_back(v[0][static_cast<size_t>(row) * 3 + i]);
            }
        }
        return y;
    };
    return c;
}

// y = (a + b) * a after a reshape: a reaches y on two ways.
GradientCase reuse_case() {
    GradientCase c = two_leaves("reshape, add, mul, scale", {3, 4});
    c.build = [](GraphContext & g, const Tensors & t) {
        ggml_tensor * sum = reshape(g, add(g, t[0], t[1]), {2, 6});
        return scale(g, mul(g, sum, reshape(g, t[0], {2, 6})), -1.5F);
    };
    c.reference = [](const Values & v) {
        return map2(v[0], v[1], [](double a, double b) { return -1.5 * (a + b) * a; });
    };
    return c;
}

}  // namespace

std::vector<GradientCase> basic_cases() {
    GradientCase sum = two_leaves("add", {5, 3});
    sum.build = [](GraphContext & g, const Tensors & t) { return add(g, t[0], t[1]); };
    sum.reference = [](const Values & v) {
        return map2(v[0], v[1], [](double a, double b) { return a + b; });
    };
    GradientCase product = two_leaves("mul", {5, 3, 2});
    product.build = [](GraphContext & g, const Tensors & t) { return mul(g, t[0], t[1]); };
    product.reference = [](const Values & v) {
        return map2(v[0], v[1], [](double a, double b) { return a * b; });
    };
    GradientCase scalar;
    scalar.name = "mul_scalar";
    scalar.leaves = {{"x", {7, 2}, random_numbers(14, 44)}, {"s", {1}, {0.37F}, false}};
    scalar.build = [](GraphContext & g, const Tensors & t) { return mul_scalar(g, t[0], t[1]); };
    scalar.reference = [](const Values & v) {
        Numbers y = v[0];
        for (double & x : y) {
            x *= v[1][0];
        }
        return y;
    };
    return {sum, product, scalar, select_case(), reuse_case()};
}

}  // namespace lumi::test
