// lumi eval: loss and perplexity of a dataset under the base and under each adapter, side by side.
#include "chat/message_json.h"
#include "cli/train_data.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace lumi {

namespace {

struct EvalFlags {
    ModelFlags model;
    std::vector<std::string> adapters;
    std::string data;
    int window = 512;
    bool all_tokens = false;
    double validation_share = 0;
    uint64_t seed = 42;
    bool per_sample = false;
    bool json = false;
};

// One column of the table.
struct Column {
    std::string name;
    float scale = 1.0F;
    EvalResult result;
};

nlohmann::json column_json(const Column & column, bool per_sample) {
    nlohmann::json out = {{"loss", column.result.loss},
                          {"perplexity", column.result.perplexity},
                          {"targets", column.result.targets}};
    if (per_sample) {
        for (const SampleLoss & s : column.result.samples) {
            out["samples"].push_back({{"line", s.line}, {"targets", s.targets}, {"loss", s.loss}});
        }
    }
    return out;
}

void print_json(const Dataset & data, const std::vector<Column> & columns, bool per_sample) {
    nlohmann::json out = {{"data", dataset_json(data)},
                          {"base", column_json(columns[0], per_sample)}};
    out["adapters"] = nlohmann::json::array();
    for (size_t i = 1; i < columns.size(); ++i) {
        nlohmann::json column = column_json(columns[i], per_sample);
        column["file"] = columns[i].name;
        column["scale"] = columns[i].scale;
        out["adapters"].push_back(std::move(column));
    }
    std::printf("%s\n", json_text(out).c_str());
}

// Names too long for a column become numbers, which print_table explains.
std::string head(const Column & column, long number) {
    const std::string file = column.name.substr(column.name.rfind('/') + 1);
    return file.size() <= 12 ? file : "adapter " + std::to_string(number);
}

template <typename Value>
void print_row(const std::string & name, const std::vector<Column> & columns, Value value) {
    std::printf("%-10s", name.c_str());
    for (const Column & column : columns) {
        std::printf(" %12.4f", value(column.result));
    }
    std::printf("\n");
}

void print_table(const std::vector<Column> & columns, bool per_sample) {
    for (size_t i = 1; i < columns.size(); ++i) {
        std::fprintf(stderr, "adapter %zu: %s\n", i, columns[i].name.c_str());
    }
    std::printf("%-10s", per_sample ? "line" : "");
    for (const Column & column : columns) {
        std::printf(" %12s", head(column, &column - columns.data()).c_str());
    }
    std::printf("\n");
    for (size_t i = 0; per_sample && i < columns[0].result.samples.size(); ++i) {
        print_row(std::to_string(columns[0].result.samples[i].line), columns,
                  [i](const EvalResult & r) { return r.samples[i].loss; });
    }
    print_row("loss", columns, [](const EvalResult & r) { return r.loss; });
    print_row("perplexity", columns, [](const EvalResult & r) { return r.perplexity; });
}

// adapter: FILE[:SCALE], empty for the base.
Result<Column> evaluate(const std::string & adapter, const Model & model, const Dataset & data,
                        const CancelToken * cancel) {
    Column column{"base", 1.0F, {}};
    LoraView loras;
    std::unique_ptr<DeviceAdapter> device;
    if (!adapter.empty()) {
        const AdapterFlag::Loaded loaded = LUMI_TRY(AdapterFlag{adapter}.load(model));
        device = LUMI_TRY(DeviceAdapter::create(loaded.data, model.device()));
        device->add_to(loras, loaded.scale);
        column.name = adapter;
        column.scale = loaded.scale;
    }
    column.result = LUMI_TRY(evaluate_dataset(model, data, loras, false, cancel));
    return column;
}

Status run(const EvalFlags & flags) {
    const LoadedModel loaded = LUMI_TRY(flags.model.load());
    Dataset data = LUMI_TRY(read_dataset(flags.data, loaded, flags.window, flags.all_tokens));
    if (flags.validation_share > 0) {
        data = split_validation(data, flags.validation_share, flags.seed);
        if (data.samples.empty()) {
            return Error{ErrorKind::invalid_argument,
                         "--val-split: of so few samples none is held out; allowed: a larger "
                         "share, or 0 for all of them"};
        }
    }
    std::fprintf(stderr, "%s: %s\n", flags.data.c_str(), dataset_text(data).c_str());
    const std::shared_ptr<CancelToken> cancel = cancel_on_signal();
    std::vector<std::string> adapters = {""};
    adapters.insert(adapters.end(), flags.adapters.begin(), flags.adapters.end());
    std::vector<Column> columns;
    for (const std::string & adapter : adapters) {
        columns.push_back(LUMI_TRY(evaluate(adapter, *loaded.model, data, cancel.get())));
    }
    if (flags.json) {
        print_json(data, columns, flags.per_sample);
    } else {
        print_table(columns, flags.per_sample);
    }
    return {};
}

}  // namespace

void declare_eval(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<EvalFlags>();
    CLI::App * command =
        add_command(app, "eval", "loss and perplexity of a dataset, with and without adapters",
                    "  lumi eval model.gguf chats.jsonl\n"
                    "  lumi eval model.gguf chats.jsonl --adapter lesson.gguf --per-sample\n"
                    "  lumi eval model.gguf chats.jsonl --val-split 0.05 --json");
    flags->model.declare_for_training(*command);
    command->get_option("--model")->required()->description("GGUF file");
    command->add_option("data", flags->data, "data file, as for train")->required();
    command
        ->add_option("--adapter", flags->adapters,
                     "LoRA adapter FILE[:SCALE] to show beside the base (may be repeated)")
        ->allow_extra_args(false);
    command->add_option("--window", flags->window, "longest sample in tokens")
        ->capture_default_str()
        ->check(CLI::Range(16, 1 << 20));
    command->add_flag("--all-tokens", flags->all_tokens,
                      "count every token, not only the assistant's");
    command
        ->add_option("--val-split", flags->validation_share,
                     "only the share that train holds out with the same --val-split and --seed")
        ->check(CLI::Range(0.0, 0.9));
    command->add_option("--seed", flags->seed, "seed of --val-split")->capture_default_str();
    command->add_flag("--per-sample", flags->per_sample, "the loss of each sample too");
    command->add_flag("--json", flags->json, "one JSON object on stdout");
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
