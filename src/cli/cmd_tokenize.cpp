// lumi tokenize and lumi devices: two small looks inside.
#include "cli/command.h"
#include "device/panel_product.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>

namespace lumi {

namespace {

struct TokenizeFlags {
    std::string text;
    bool parse_special = false;
    bool ids_only = false;
    bool bos = false;
};

Status run_tokenize(TokenizeFlags & flags, const ModelFlags & model) {
    const GgufFile file = LUMI_TRY(model.open());
    const std::unique_ptr<Tokenizer> tokenizer = LUMI_TRY(Tokenizer::load(file));
    if (flags.text.empty() && isatty(STDIN_FILENO) == 0) {
        flags.text.assign(std::istreambuf_iterator<char>(std::cin), {});
    }
    std::vector<TokenId> ids;
    if (flags.bos && tokenizer->bos() >= 0) {
        ids.push_back(tokenizer->bos());
    }
    tokenizer->encode(flags.text,
                      flags.parse_special ? Tokenizer::Specials::parse : Tokenizer::Specials::plain,
                      ids);
    if (flags.ids_only) {
        std::string line;
        for (const TokenId id : ids) {
            line += (line.empty() ? "" : " ") + std::to_string(id);
        }
        std::printf("%s\n", line.c_str());
        return {};
    }
    for (const TokenId id : ids) {
        const nlohmann::json piece = tokenizer->piece(id, true);
        std::printf("%7d %s\n", id,
                    piece.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    }
    std::fprintf(stderr, "%zu tokens\n", ids.size());
    return {};
}

Status run_devices() {
    LUMI_TRY(load_backends());
    for (const DeviceInfo & device : list_devices()) {
        std::printf("%-10s %-4s %s", device.name.c_str(), device.is_cpu ? "CPU" : "GPU",
                    device.description.c_str());
        if (device.total_bytes > 0) {
            std::printf(" (%s, %s free)", bytes_text(device.total_bytes).c_str(),
                        bytes_text(device.free_bytes).c_str());
        }
        std::printf("\n");
    }
    // Rows of every model we know are multiples of 32.
    std::printf("training products on the CPU: %s\n", panel_kernel_text(panel_kernel(32)));
    return {};
}

}  // namespace

void declare_tokenize(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<TokenizeFlags>();
    auto model = std::make_shared<ModelFlags>();
    CLI::App * command = add_command(app, "tokenize", "show how a text is cut into tokens",
                                     "  lumi tokenize -m model.gguf -p \"Hello world\"\n"
                                     "  lumi tokenize -m model.gguf --ids < text.txt");
    model->declare_path(*command);
    command->add_option("-p,--prompt", flags->text, "the text (default: standard input)");
    command->add_flag("--special", flags->parse_special,
                      "read control texts such as <bos> as control tokens");
    command->add_flag("--bos", flags->bos, "put the beginning-of-sequence token first");
    command->add_flag("--ids", flags->ids_only, "ids only, on one line");
    command->callback(
        [flags, model, &exit_code] { exit_code = exit_code_of(run_tokenize(*flags, *model)); });
}

void declare_devices(CLI::App & app, int & exit_code) {
    CLI::App * command =
        add_command(app, "devices", "list what lumi can compute on", "  lumi devices");
    command->callback([&exit_code] { exit_code = exit_code_of(run_devices()); });
}

}  // namespace lumi
