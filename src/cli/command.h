// What every subcommand shares: how it is declared, the common flags, and how a failure ends.
#pragma once

#include "engine/engine.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace lumi {

// Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 130 stopped by Ctrl-C or SIGTERM.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

// Declares a subcommand on app; its callback stores the exit code.
void declare_run(CLI::App & app, int & exit_code);
void declare_chat(CLI::App & app, int & exit_code);
void declare_serve(CLI::App & app, int & exit_code);
void declare_train(CLI::App & app, int & exit_code);
void declare_eval(CLI::App & app, int & exit_code);
void declare_inspect(CLI::App & app, int & exit_code);
void declare_tokenize(CLI::App & app, int & exit_code);
void declare_devices(CLI::App & app, int & exit_code);
void declare_bench(CLI::App & app, int & exit_code);
void declare_synth(CLI::App & app, int & exit_code);

// A subcommand with its help text and examples, one a line.
CLI::App * add_command(CLI::App & app, const char * name, const char * what, const char * examples);

// Prints "lumi: error: message" on stderr and returns the exit code for status.
int exit_code_of(const Status & status);

// Flags about the model and the device: MODEL or -m; --device, -t, --gpu-layers, --no-repack.
struct ModelFlags {
    std::string path;  // empty = the small model inside the program
    ModelOptions options;
    std::string gpu_layers = "auto";
    void declare_path(CLI::App & command);  // MODEL or -m alone, for what computes nothing
    void declare(CLI::App & command);
    // Training and evaluation read the plain weights: without --no-repack, never a repacked copy.
    void declare_for_training(CLI::App & command);
    Result<GgufFile> open() const;
    Result<LoadedModel> load() const;

  private:
    void declare_device(CLI::App & command);
};

// -c, --batch, --kv, --flash, --exact.
struct ContextFlags {
    SessionOptions options;
    std::string kv = "f16";
    std::string flash = "auto";
    void declare(CLI::App & command);
    Result<SessionOptions> resolve(const Config & config) const;
};

// -n, --temp, --top-k, --top-p, --min-p, --repeat-penalty, --seed, --stop.
struct SamplingFlags {
    GenerationOptions options;
    CLI::App * command = nullptr;
    void declare(CLI::App & app);
    // The model's defaults where no flag was given.
    GenerationOptions resolve(const LoadedModel & loaded) const;
};

// --adapter FILE[:SCALE]
struct AdapterFlag {
    std::string text;
    void declare(CLI::App & command);
    struct Loaded {
        AdapterData data;
        float scale = 1.0F;
    };
    bool given() const { return !text.empty(); }
    Result<Loaded> load(const Model & model) const;
};

// A seed: a whole number from 0 to 2^64-1. (CLI11 alone would wrap -1 and cut what is larger.)
CLI::Validator seed_range();

// Refuses an output that is one of the files read (by any name) or that cannot be written: before
// the work, not after it.
Status check_output(const std::string & output, const std::vector<std::string> & inputs);

// The engine of a loaded model, with the adapter of --adapter published when one was given.
Result<std::unique_ptr<Engine>> start_engine(LoadedModel loaded, const SessionOptions & options,
                                             const AdapterFlag & adapter);

// A token that Ctrl-C and SIGTERM cancel while it is alive; a second Ctrl-C ends the process.
std::shared_ptr<CancelToken> cancel_on_signal();

}  // namespace lumi
