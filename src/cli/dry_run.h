// lumi train --dry-run: everything a run would be, said without running it.
#pragma once

#include "cli/train_data.h"

namespace lumi {

struct DryRun {
    const CLI::App * command = nullptr;  // whose options are the settings
    const Tokenizer * tokenizer = nullptr;
    const Dataset * train = nullptr;
    const Dataset * validation = nullptr;
    const TrainPlan * plan = nullptr;
};

// On standard output: data, steps, settings, memory, and the first, middle and last training sample
// with what is not learnt dimmed on a terminal and between ‹ and › elsewhere; or one JSON object.
void print_dry_run(const DryRun & dry, bool json);

// A sample as text; what is not learnt stands between the marks.
std::string marked_sample(const Sample & sample, const Tokenizer & tokenizer, std::string_view open,
                          std::string_view close);

}  // namespace lumi
