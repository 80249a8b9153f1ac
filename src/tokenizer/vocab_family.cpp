// Facts of the families, from their published vocabularies.
#include "tokenizer/vocab_family.h"

namespace lumi {

namespace {

// <|tool_response> is user-defined in files but ends a generation, which makes it control.
constexpr std::string_view kGemma4Control[] = {
    "<pad>",     "<eos>",     "<bos>",    "<unk>",     "<mask>",    "<|tool>",
    "<tool|>",   "<|think|>", "<|turn>",  "<turn|>",   "<|image>",  "<image|>",
    "<|image|>", "<|audio>",  "<audio|>", "<|audio|>", "<|video|>", "<|tool_response>",
};
constexpr std::string_view kGemma4UserDefined[] = {
    "<|tool_call>", "<tool_call|>", "<tool_response|>", "<|\"|>", "<|channel>", "<channel|>",
};
constexpr std::string_view kGemma4Normal[] = {"</s>"};
constexpr std::string_view kGemma4Ends[] = {"<eos>", "<turn|>", "<|tool_response>"};

constexpr std::string_view kGemma3Control[] = {
    "<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>",
};
constexpr std::string_view kGemma3Reserved[] = {
    "[multimodal]",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
};
constexpr std::string_view kGemma3Ends[] = {"<eos>", "<end_of_turn>"};

}  // namespace

const VocabFamily kGemma4Vocab{
    "gemma4", kGemma4Control, kGemma4UserDefined, kGemma4Normal, {}, kGemma4Ends, true};
const VocabFamily kGemma3Vocab{"gemma3",        kGemma3Control, {},   {},
                               kGemma3Reserved, kGemma3Ends,    false};

}  // namespace lumi
