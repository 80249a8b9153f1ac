// lumi synth: random-weight models of exact shapes.
#include "cli/command.h"
#include "cli/progress.h"
#include "synth/synth.h"

#include <cstdio>

namespace lumi {

namespace {

struct SynthFlags {
    std::string shape;
    std::string output;
    std::string vocab;
    std::string type = "Q4_K_M";
    uint64_t seed = 42;
};

Status run(const SynthFlags & flags) {
    LUMI_TRY(check_output(flags.output, {flags.vocab}));
    SynthOptions options;
    options.shape = flags.shape;
    options.type = flags.type;
    options.seed = flags.seed;
    std::optional<GgufFile> vocab;
    if (!flags.vocab.empty()) {
        vocab = LUMI_TRY(GgufFile::open(flags.vocab));
        options.vocab = &*vocab;
    }
    FractionReporter reporter("writing " + flags.output);
    options.progress = [&reporter](double fraction) { reporter.report(fraction); };
    const Status written = write_synth_model(options, flags.output);
    reporter.finish();
    return written;
}

}  // namespace

void declare_synth(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<SynthFlags>();
    CLI::App * command =
        add_command(app, "synth", "write a random-weight model of an exact shape, for measuring",
                    "  lumi synth e4b e4b.gguf --vocab gemma-4-vocab.gguf\n"
                    "  lumi synth tiny tiny.gguf --type F32 --seed 7");
    command
        ->add_option("shape", flags->shape,
                     "e4b, e2b, gemma3-270m, qwen3-0.6b, tiny, tiny-gemma3, tiny-qwen3")
        ->required();
    command->add_option("output", flags->output, "GGUF file to write")->required();
    command->add_option("--type", flags->type, "weight type: F32, F16, BF16, Q8_0, Q4_K_M, ...")
        ->capture_default_str();
    command->add_option("--vocab", flags->vocab, "GGUF file whose vocabulary is copied");
    command->add_option("--seed", flags->seed, "seed of the weights")
        ->capture_default_str()
        ->check(seed_range());
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
