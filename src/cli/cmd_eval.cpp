// lumi eval: loss and perplexity of a dataset, with an adapter beside the base when one is given.
#include "cli/command.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace lumi {

namespace {

constexpr uint64_t kMaxDatasetBytes = uint64_t{4} << 30U;

struct EvalFlags {
    ModelFlags model;
    AdapterFlag adapter;
    std::string data;
    int window = 512;
    bool all_tokens = false;
    bool json = false;
};

nlohmann::json result_json(const EvalResult & r) {
    return {{"loss", r.loss},
            {"perplexity", r.perplexity},
            {"targets", r.targets},
            {"sample_loss", r.sample_loss}};
}

void print(const Dataset & data, const EvalResult & base, const EvalResult * adapted) {
    std::printf("%-8s %12s%s\n", "line", "base", adapted != nullptr ? "      adapter" : "");
    for (size_t i = 0; i < data.samples.size(); ++i) {
        std::printf("%-8d %12.4f", data.samples[i].line, base.sample_loss[i]);
        if (adapted != nullptr) {
            std::printf(" %12.4f", adapted->sample_loss[i]);
        }
        std::printf("\n");
    }
    std::printf("%-8s %12.4f", "loss", base.loss);
    if (adapted != nullptr) {
        std::printf(" %12.4f", adapted->loss);
    }
    std::printf("\n%-10s %10.3f", "perplexity", base.perplexity);
    if (adapted != nullptr) {
        std::printf(" %12.3f", adapted->perplexity);
    }
    std::printf("\n");
}

Status run(const EvalFlags & flags) {
    const LoadedModel loaded = LUMI_TRY(flags.model.load());
    if (!loaded.chat) {
        return Error{ErrorKind::unsupported, "this model has no chat format: " + loaded.chat_error};
    }
    const std::string text = LUMI_TRY(read_text_file(flags.data, kMaxDatasetBytes));
    DatasetOptions options;
    options.max_tokens = flags.window;
    options.assistant_only = !flags.all_tokens;
    const Dataset data = LUMI_TRY(parse_dataset(text, *loaded.chat, *loaded.tokenizer, options));
    const std::shared_ptr<CancelToken> cancel = cancel_on_signal();
    const EvalResult base =
        LUMI_TRY(evaluate_dataset(*loaded.model, data, LoraView(), false, cancel.get()));
    std::optional<EvalResult> adapted;
    if (flags.adapter.given()) {
        const AdapterFlag::Loaded adapter = LUMI_TRY(flags.adapter.load(*loaded.model));
        const std::unique_ptr<DeviceAdapter> device =
            LUMI_TRY(DeviceAdapter::create(adapter.data, loaded.model->device()));
        LoraView loras;
        device->add_to(loras, adapter.scale);
        adapted = LUMI_TRY(evaluate_dataset(*loaded.model, data, loras, false, cancel.get()));
    }
    if (flags.json) {
        nlohmann::json out = {{"base", result_json(base)}};
        if (adapted) {
            out["adapter"] = result_json(*adapted);
        }
        std::printf("%s\n", out.dump().c_str());
    } else {
        print(data, base, adapted ? &*adapted : nullptr);
    }
    return {};
}

}  // namespace

void declare_eval(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<EvalFlags>();
    CLI::App * command =
        add_command(app, "eval", "loss and perplexity of a dataset, with and without an adapter",
                    "  lumi eval model.gguf chats.jsonl\n"
                    "  lumi eval model.gguf chats.jsonl --adapter lesson.gguf --json");
    flags->model.declare(*command);
    command->get_option("--model")->required()->description("GGUF file");
    command->add_option("data", flags->data, "JSONL or plain text, as for train")->required();
    flags->adapter.declare(*command);
    command->add_option("--window", flags->window, "longest sample in tokens")
        ->capture_default_str()
        ->check(CLI::Range(2, 1 << 20));
    command->add_flag("--all-tokens", flags->all_tokens,
                      "count every token, not only the assistant's");
    command->add_flag("--json", flags->json, "one JSON object on stdout");
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
