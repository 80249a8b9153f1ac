// Levenshtein distance over a small list of names.
#include "base/nearest.h"

#include <algorithm>
#include <numeric>

namespace lumi {

namespace {

size_t edit_distance(const std::string & a, const std::string & b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t above = row[j];
            row[j] =
                std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
            diagonal = above;
        }
    }
    return row[b.size()];
}

}  // namespace

std::string nearest(const std::string & typed, const std::vector<std::string> & names) {
    std::string best;
    size_t best_distance = std::max<size_t>(2, typed.size() / 3) + 1;
    for (const std::string & name : names) {
        const size_t distance = edit_distance(typed, name);
        if (distance < best_distance) {
            best_distance = distance;
            best = name;
        }
    }
    return best;
}

}  // namespace lumi
