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

// Files type the last six as user-defined; three of them end a generation, which makes them
// control.
constexpr std::string_view kQwenControl[] = {
    "<|endoftext|>",      "<|im_start|>",     "<|im_end|>",     "<|object_ref_start|>",
    "<|object_ref_end|>", "<|box_start|>",    "<|box_end|>",    "<|quad_start|>",
    "<|quad_end|>",       "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>",      "<|video_pad|>",    "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>",     "<|fim_pad|>",      "<|repo_name|>",  "<|file_sep|>",
};
constexpr std::string_view kQwenUserDefined[] = {
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>",
};
constexpr std::string_view kQwenEnds[] = {
    "<|endoftext|>", "<|im_end|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
};

}  // namespace

const VocabFamily kGemma4Vocab{.name = "gemma4",
                               .control = kGemma4Control,
                               .user_defined = kGemma4UserDefined,
                               .normal = kGemma4Normal,
                               .reserved = {},
                               .ends = kGemma4Ends,
                               .add_bos = BosRule::always,
                               .byte_level = false};
const VocabFamily kGemma3Vocab{.name = "gemma3",
                               .control = kGemma3Control,
                               .user_defined = {},
                               .normal = {},
                               .reserved = kGemma3Reserved,
                               .ends = kGemma3Ends,
                               .add_bos = BosRule::unless_file_says_no,
                               .byte_level = false};
const VocabFamily kQwenVocab{.name = "qwen",
                             .control = kQwenControl,
                             .user_defined = kQwenUserDefined,
                             .normal = {},
                             .reserved = {},
                             .ends = kQwenEnds,
                             .add_bos = BosRule::if_file_says_so,
                             .byte_level = true};

}  // namespace lumi
