// Writes GGUF by hand: a test of the reader's users must not depend on the writer.
#include "support/tiny_vocab.h"

#include "base/utf8.h"
#include "tokenizer/byte_symbols.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

namespace lumi::test {

namespace {

class Bytes {
  public:
    template <typename T> void number(T value) {
        const auto * data = reinterpret_cast<const std::byte *>(&value);
        out.insert(out.end(), data, data + sizeof(T));
    }
    void string(const std::string & text) {
        number<uint64_t>(text.size());
        const auto * data = reinterpret_cast<const std::byte *>(text.data());
        out.insert(out.end(), data, data + text.size());
    }
    void key(const std::string & name, GgufType type) {
        string(name);
        number(static_cast<uint32_t>(type));
    }
    void array(const std::string & name, GgufType element, size_t count) {
        key(name, GgufType::array);
        number(static_cast<uint32_t>(element));
        number<uint64_t>(count);
    }

    std::vector<std::byte> out;
};

std::vector<std::string> merge_lines() {
    std::ifstream in(LUMI_SOURCE_DIR "/tests/support/tiny_merges.txt");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
        lines.push_back(line);
    }
    if (lines.empty()) {
        std::cerr << "tests/support/tiny_merges.txt is missing\n";
        std::abort();
    }
    return lines;
}

void add_merges(VocabSpec & spec) {
    constexpr int kLongestRun = 8;
    for (int length = 1; length <= kLongestRun; ++length) {
        spec.add(std::string(static_cast<size_t>(length), '\n'), 1);
    }
    for (int length = 2; length <= kLongestRun; ++length) {
        spec.merges.push_back(std::string(static_cast<size_t>(length - 1), '\n') + " \n");
    }
    const std::vector<std::string> lines = merge_lines();
    for (size_t rank = 0; rank < lines.size(); ++rank) {
        std::string whole = lines[rank];
        whole.erase(whole.find(' ', 1), 1);
        if (spec.id(whole) < 0) {
            spec.add(whole, 1, -static_cast<float>(rank));
        }
    }
    for (const std::string & line : lines) {
        for (size_t at = 0; at < line.size();) {
            const size_t size = utf8_lead_length(static_cast<unsigned char>(line[at]));
            const std::string character = line.substr(at, size);
            if (character != " " && spec.id(character) < 0) {
                spec.add(character, 1, -5000.0F);
            }
            at += size;
        }
    }
    spec.merges.insert(spec.merges.end(), lines.begin(), lines.end());
}

void add_bytes(VocabSpec & spec) {
    constexpr char kHex[] = "0123456789ABCDEF";
    for (size_t byte = 0; byte < 256; ++byte) {
        spec.add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 6);
    }
}

}  // namespace

void VocabSpec::add(std::string text, int32_t type, float score) {
    tokens.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
}

int32_t VocabSpec::id(const std::string & text) const {
    const auto found = std::find(tokens.begin(), tokens.end(), text);
    return found == tokens.end() ? -1 : static_cast<int32_t>(found - tokens.begin());
}

VocabSpec tiny_gemma4() {
    VocabSpec spec;
    spec.architecture = "gemma4";
    spec.tokenizer_model = "gemma4";
    for (const char * text : {"<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|tool>", "<tool|>"}) {
        spec.add(text, 3);
    }
    for (const char * text : {"<|tool_call>", "<tool_call|>", "<|tool_response>",
                              "<tool_response|>", "<|\"|>", "<|channel>", "<channel|>"}) {
        spec.add(text, 4);
    }
    for (const char * text : {"<|think|>", "<|turn>", "<turn|>", "<|image|>"}) {
        spec.add(text, 3);
    }
    spec.add("</s>", 1);
    add_merges(spec);
    add_bytes(spec);
    spec.ints = {{"tokenizer.ggml.bos_token_id", 2}, {"tokenizer.ggml.eos_token_id", 1}};
    return spec;
}

VocabSpec tiny_gemma3() {
    VocabSpec spec;
    spec.architecture = "gemma3";
    spec.tokenizer_model = "llama";
    for (const char * text :
         {"<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"}) {
        spec.add(text, 3);
    }
    for (const char * text :
         {"[multimodal]", "  ", "   ", "    ", "<table>", "</table>", "<start_of_image>"}) {
        spec.add(text, 4);
    }
    add_merges(spec);
    add_bytes(spec);
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
        if (spec.tokens[i][0] == '\n') {
            spec.types[i] = 4;  // as in Gemma 3's own vocabulary
        }
    }
    spec.merges.clear();
    spec.ints = {{"tokenizer.ggml.bos_token_id", 2}, {"tokenizer.ggml.eos_token_id", 1}};
    spec.flags = {{"tokenizer.ggml.add_space_prefix", false},
                  {"tokenizer.ggml.add_bos_token", true}};
    return spec;
}

namespace {

// A text with U+2581 for spaces, in byte symbols.
std::string in_byte_symbols(std::string text) {
    constexpr std::string_view kSpaceMark = "\xe2\x96\x81";
    for (size_t at = text.find(kSpaceMark); at != std::string::npos; at = text.find(kSpaceMark)) {
        text.replace(at, kSpaceMark.size(), " ");
    }
    std::string symbols;
    for (const char c : text) {
        symbols += byte_symbol(static_cast<uint8_t>(c));
    }
    return symbols;
}

void add_byte_merge(VocabSpec & spec, const std::string & left, const std::string & right) {
    spec.merges.push_back(left + " " + right);
    if (spec.id(left + right) < 0) {
        spec.add(left + right, 1);
    }
}

// Makes sure that a character of several bytes is a token.
void add_character(VocabSpec & spec, const std::string & text) {
    const std::string symbols = in_byte_symbols(text);
    for (size_t at = symbols.empty() ? 0 : utf8_code_point_length(symbols); at < symbols.size();) {
        const size_t size = utf8_code_point_length(symbols.substr(at));
        if (spec.id(symbols.substr(0, at + size)) < 0) {
            add_byte_merge(spec, symbols.substr(0, at), symbols.substr(at, size));
        }
        at += size;
    }
}

}  // namespace

VocabSpec tiny_qwen3() {
    VocabSpec spec;
    spec.architecture = "qwen3";
    spec.tokenizer_model = "gpt2";
    for (size_t byte = 0; byte < 256; ++byte) {
        spec.add(byte_symbol(static_cast<uint8_t>(byte)), 1);
    }
    const std::string newline = byte_symbol('\n');
    for (std::string run = newline; run.size() < 8 * newline.size(); run += newline) {
        add_byte_merge(spec, run, newline);
    }
    for (const std::string & line : merge_lines()) {
        const size_t space = line.find(' ', 1);
        const std::string left = line.substr(0, space);
        const std::string right = line.substr(space + 1);
        for (const std::string & side : {left, right}) {
            if (utf8_code_point_length(side) == side.size()) {
                add_character(spec, side);
            }
        }
        add_byte_merge(spec, in_byte_symbols(left), in_byte_symbols(right));
    }
    for (const char * text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_pad|>"}) {
        spec.add(text, 3);
    }
    for (const char * text : {"<tool_call>", "</tool_call>", "<|fim_pad|>", "<|repo_name|>",
                              "<tool_response>", "</tool_response>", "<think>", "</think>"}) {
        spec.add(text, 4);
    }
    spec.scores.clear();
    spec.ints = {{"tokenizer.ggml.bos_token_id", spec.id("<|endoftext|>")},
                 {"tokenizer.ggml.eos_token_id", spec.id("<|im_end|>")}};
    spec.texts = {{"tokenizer.ggml.pre", "qwen2"}};
    return spec;
}

VocabFile::VocabFile(const VocabSpec & spec) {
    Bytes bytes;
    const size_t arrays = (spec.types.empty() ? 0U : 1U) + (spec.scores.empty() ? 0U : 1U) +
                          (spec.merges.empty() ? 0U : 1U);
    bytes.number<uint32_t>(0x46554747);  // "GGUF"
    bytes.number<uint32_t>(3);
    bytes.number<uint64_t>(0);  // tensors
    bytes.number<uint64_t>(3 + arrays + spec.ints.size() + spec.flags.size() + spec.texts.size() +
                           spec.int_arrays.size());
    bytes.key("general.architecture", GgufType::string);
    bytes.string(spec.architecture);
    bytes.key("tokenizer.ggml.model", GgufType::string);
    bytes.string(spec.tokenizer_model);
    const auto strings = [&](const char * name, const std::vector<std::string> & values) {
        bytes.array(name, GgufType::string, values.size());
        for (const std::string & value : values) {
            bytes.string(value);
        }
    };
    const auto ints = [&](const std::string & name, const std::vector<int32_t> & values) {
        bytes.array(name, GgufType::i32, values.size());
        for (const int32_t value : values) {
            bytes.number(value);
        }
    };
    strings("tokenizer.ggml.tokens", spec.tokens);
    if (!spec.merges.empty()) {
        strings("tokenizer.ggml.merges", spec.merges);
    }
    if (!spec.types.empty()) {
        ints("tokenizer.ggml.token_type", spec.types);
    }
    if (!spec.scores.empty()) {
        bytes.array("tokenizer.ggml.scores", GgufType::f32, spec.scores.size());
        for (const float score : spec.scores) {
            bytes.number(score);
        }
    }
    for (const auto & [name, value] : spec.ints) {
        bytes.key(name, GgufType::u32);
        bytes.number(static_cast<uint32_t>(value));
    }
    for (const auto & [name, value] : spec.flags) {
        bytes.key(name, GgufType::boolean);
        bytes.number<uint8_t>(value ? 1 : 0);
    }
    for (const auto & [name, value] : spec.texts) {
        bytes.key(name, GgufType::string);
        bytes.string(value);
    }
    for (const auto & [name, values] : spec.int_arrays) {
        ints(name, values);
    }
    bytes_ = std::move(bytes.out);
    Result<GgufFile> file = GgufFile::from_bytes(bytes_, "tiny vocabulary");
    if (!file.ok()) {
        std::cerr << "the tiny vocabulary does not open: " << file.error().message << '\n';
        std::abort();
    }
    file_ = std::make_unique<GgufFile>(std::move(file).value());
}

}  // namespace lumi::test
