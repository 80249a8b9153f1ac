// Declared in the groups that --help shows.
#include "cli/train_flags.h"

#include "base/utf8.h"
#include "cli/config_file.h"
#include "train/train_settings.h"

#include <cerrno>
#include <cstdio>

namespace lumi {

namespace {

// One word for a POSIX shell.
std::string shell_word(const std::string & text) {
    const bool plain =
        !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                "0123456789_-+=./:,@%") == std::string::npos;
    if (plain) {
        return text;
    }
    std::string word = "'";
    for (const char c : text) {
        word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return word + "'";
}

std::string program_name() {
#ifdef __GLIBC__
    return program_invocation_name;
#else
    return "lumi";
#endif
}

void declare_adapter(CLI::App & app, TrainFlags & f) {
    const char * group = "Adapter";
    TrainOptions & o = f.options;
    app.add_option("--rank", o.rank, "LoRA rank")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024))
        ->group(group);
    app.add_option("--alpha", o.alpha, "LoRA alpha; updates are scaled by alpha / rank")
        ->capture_default_str()
        ->group(group);
    app.add_flag("--rslora", o.rank_stabilised, "scale by alpha / sqrt(rank) instead")
        ->group(group);
    app.add_option("--dropout", o.dropout,
                   "share of the adapter's inputs that is zeroed while it trains (0 = none)")
        ->check(CLI::Range(0.0, 0.95))
        ->group(group);
    app.add_option("--targets", f.targets,
                   "q,k,v,o,gate,up,down, all (those seven), ple, tail (layers that own no K/V)")
        ->capture_default_str()
        ->group(group);
    app.add_option("--layers", f.layers, "A-B: adapt these layers only")->group(group);
    app.add_option("--init-from", f.init,
                   "begin with this adapter; its rank, alpha and targets hold")
        ->group(group);
}

void declare_optimiser(CLI::App & app, TrainFlags & f) {
    const char * group = "Optimiser";
    TrainOptions & o = f.options;
    app.add_option("--epochs", o.epochs, "times through the data")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000))
        ->group(group);
    app.add_option("--max-steps", o.max_steps, "stop after this many steps (0 = epochs decide)")
        ->check(CLI::Range(0, 1 << 30))
        ->group(group);
    app.add_option("--batch", o.batch_samples, "samples of one step")
        ->capture_default_str()
        ->check(CLI::Range(1, 65536))
        ->group(group);
    app.add_option("--lr", o.learning_rate, "learning rate")->capture_default_str()->group(group);
    app.add_option("--schedule", f.schedule, "learning rate over time")
        ->capture_default_str()
        ->check(CLI::IsMember({"constant", "linear", "cosine"}))
        ->group(group);
    app.add_option("--warmup", o.warmup_steps, "warm-up steps")
        ->capture_default_str()
        ->group(group);
    app.add_option("--clip", o.clip_norm, "largest gradient norm (0 = off)")
        ->capture_default_str()
        ->group(group);
    app.add_option("--beta1", o.beta1, "AdamW's first decay")->capture_default_str()->group(group);
    app.add_option("--beta2", o.beta2, "AdamW's second decay")->capture_default_str()->group(group);
    app.add_option("--eps", o.epsilon, "AdamW's epsilon")->capture_default_str()->group(group);
    app.add_option("--weight-decay", o.weight_decay, "AdamW's weight decay")
        ->capture_default_str()
        ->group(group);
    app.add_option("--seed", o.seed, "seed of everything; the same seed gives the same file on CPU")
        ->capture_default_str()
        ->check(seed_range())
        ->group(group);
    app.add_option("--recompute", f.recompute,
                   "compute layers again in the backward pass (less memory) or keep them (faster)")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "on", "off"}))
        ->group(group);
}

void declare_data(CLI::App & app, TrainFlags & f) {
    const char * group = "Data";
    app.add_option("--window", f.options.window_tokens, "longest sample in tokens")
        ->capture_default_str()
        ->check(CLI::Range(16, 1 << 20))
        ->group(group);
    app.add_flag("--all-tokens", f.all_tokens, "learn every token, not only the assistant's")
        ->group(group);
    app.add_option("--val-split", f.validation_share, "share held out for validation (0 = none)")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 0.9))
        ->group(group);
    app.add_flag_callback(
           "--no-packing", [&f] { f.options.packing = false; },
           "compute each sample on its own (the same result, slower)")
        ->group(group);
    app.add_flag("--dry-run", f.dry_run,
                 "say what the run would be and show samples; train nothing")
        ->group(group);
    app.add_option("--val-file", f.validation_file, "validation data of its own")->group(group);
    app.add_option("--early-stop", f.options.early_stop_epochs,
                   "end after N epochs without a better validation loss (0 = off)")
        ->check(CLI::Range(0, 100000))
        ->group(group);
}

void declare_reports(CLI::App & app, TrainFlags & f) {
    const char * group = "Checkpoints and reports";
    app.add_option(
           "--checkpoint-dir", f.checkpoint_dir,
           "where checkpoints go (default: OUTPUT.checkpoints, gone when the run ends well)")
        ->group(group);
    app.add_option("--save-every", f.save_every, "steps between checkpoints (0 = every 5 minutes)")
        ->check(CLI::Range(0, 1 << 30))
        ->group(group);
    app.add_option("--keep", f.keep, "checkpoints that stay")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000000))
        ->group(group);
    app.add_option(
           "--resume", f.resume,
           "continue from a checkpoint, or from the newest of a folder, with the same options")
        ->group(group);
    app.add_option("--metrics", f.metrics, "write losses and speed to FILE.jsonl or FILE.csv")
        ->group(group);
    app.add_option("--tensorboard", f.tensorboard, "write TensorBoard events into this folder")
        ->group(group);
    app.add_option("--loss-svg", f.loss_svg, "draw the losses as SVG")->group(group);
    app.add_flag("--json", f.json, "progress as JSON lines on stdout")->group(group);
}

}  // namespace

void TrainFlags::declare(CLI::App & app) {
    command = &app;
    declare_config(app);
    model.declare_for_training(app);
    app.get_option("--model")->required()->description("GGUF file");
    app.add_option("data", data, "chats or text: JSONL, a JSON list, or plain text")->required();
    app.add_option("-o,--output", output, "adapter file to write")->required();
    declare_adapter(app, *this);
    declare_data(app, *this);
    declare_optimiser(app, *this);
    declare_reports(app, *this);
}

Status TrainFlags::resolve() {
    options.schedule = schedule == "constant" ? LrSchedule::constant
                       : schedule == "linear" ? LrSchedule::linear
                                              : LrSchedule::cosine;
    options.recompute = recompute == "on"    ? Recompute::on
                        : recompute == "off" ? Recompute::off
                                             : Recompute::automatic;
    return options.check();
}

Status TrainFlags::resolve_targets(const Config & config) {
    options.targets = LUMI_TRY(parse_targets(targets, config));
    if (layers.empty()) {
        return {};
    }
    int first = -1;
    int last = -1;
    char rest = 0;
    const int n = std::sscanf(layers.c_str(), "%d-%d%c", &first, &last, &rest);
    if (n != 2 || first < 0 || last < first || last >= config.n_layer) {
        return Error{ErrorKind::invalid_argument, "--layers: found " + quoted(layers, 1024) +
                                                      "; allowed: A-B with 0 <= A <= B <= " +
                                                      std::to_string(config.n_layer - 1)};
    }
    options.targets.first_layer = std::max(options.targets.first_layer, first);
    options.targets.last_layer = last;
    return {};
}

Status TrainFlags::check_init(const AdapterData & start) const {
    const auto refuse = [&](const std::string & flag, const std::string & has) {
        return Error{ErrorKind::invalid_argument, flag + ": the adapter of --init-from has " + has +
                                                      ", and goes on with it; allowed: leave " +
                                                      flag + " out"};
    };
    if (given("--rank") && rank_text(start) != std::to_string(options.rank)) {
        return refuse("--rank", "rank " + rank_text(start));
    }
    if (given("--alpha") && start.alpha != options.alpha) {
        return refuse("--alpha", "alpha " + exact_number(start.alpha));
    }
    for (const char * flag : {"--targets", "--layers", "--rslora"}) {
        if (given(flag)) {
            return refuse(flag, targets_text(start) + ", alpha " + exact_number(start.alpha));
        }
    }
    return {};
}

std::string TrainFlags::resume_command(const std::string & from) const {
    std::string text = shell_word(program_name()) + " train";
    for (const CLI::Option * option : command->get_options()) {
        const bool positional = option->get_positional() && option->get_lnames().empty();
        const std::string name =
            option->get_lnames().empty() ? "" : "--" + option->get_lnames().front();
        if (option->count() == 0 || name == "--resume" || name == "--help" || name == "--config") {
            continue;
        }
        if (!positional) {
            text += " " + name;
        }
        if (option->get_items_expected_max() > 0) {
            for (const std::string & value : option->results()) {
                text += " " + shell_word(value);
            }
        }
    }
    return text + " --resume " + shell_word(from);
}

}  // namespace lumi
