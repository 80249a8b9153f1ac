// Writes a model of a known shape with random weights, tensor by tensor, in bounded memory.

#include "synth/synth.h"

#include "base/utf8.h"
#include "gguf/gguf_writer.h"
#include "synth/metadata.h"
#include "synth/random_rows.h"
#include "synth/shapes.h"
#include "synth/tensor_types.h"
#include "synth/values.h"
#include "synth/vocabulary.h"

#include <memory>

namespace lumi {

namespace {

Result<const SynthShape *> find_shape(const std::string & name) {
    std::string known;
    for (const SynthShape & shape : all_shapes()) {
        if (name == shape.name) {
            return &shape;
        }
        known += std::string(known.empty() ? "" : ", ") + shape.name;
    }
    return Error{ErrorKind::invalid_argument,
                 "the shape " + quoted(name) + " is not known; known are " + known};
}

// Every tensor has its own stream of numbers: the bytes of one do not depend on the others.
uint64_t seed_of(uint64_t seed, std::string_view name) {
    uint64_t hash = 0xcbf29ce484222325ULL ^ seed;  // FNV-1a
    for (const char c : name) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    }
    return hash;
}

Status write_vocabulary(const SynthOptions & options, Config & config, GgufWriter & writer) {
    if (options.vocab == nullptr) {
        return write_small_vocabulary(config.arch, config.n_vocab, writer);
    }
    const uint64_t n_tokens = LUMI_TRY(options.vocab->array_length("tokenizer.ggml.tokens"));
    if (n_tokens < 1 || n_tokens > (1U << 24)) {
        return Error{ErrorKind::invalid_argument, options.vocab->path() + ": " +
                                                      std::to_string(n_tokens) +
                                                      " tokens cannot be a vocabulary"};
    }
    config.n_vocab = static_cast<int>(n_tokens);
    for (const std::string_view key : options.vocab->keys()) {
        if (key.starts_with("tokenizer.")) {
            LUMI_TRY(writer.copy_key(*options.vocab, key));
        }
    }
    return {};
}

// Tells the caller how far the file is.
class Progress {
  public:
    explicit Progress(const std::function<void(double)> & report) : report_(report) {}
    void expect(uint64_t bytes) { total_ += bytes; }
    void add(uint64_t bytes) {
        done_ += bytes;
        if (report_ && total_ > 0) {
            report_(static_cast<double>(done_) / static_cast<double>(total_));
        }
    }

  private:
    const std::function<void(double)> & report_;
    uint64_t total_ = 0;
    uint64_t done_ = 0;
};

}  // namespace

std::vector<std::string> synth_shapes() {
    std::vector<std::string> names;
    for (const SynthShape & shape : all_shapes()) {
        names.emplace_back(shape.name);
    }
    return names;
}

Status write_synth_model(const SynthOptions & options, const std::string & path) {
    const SynthShape * shape = LUMI_TRY(find_shape(options.shape));
    const TensorTypes types = LUMI_TRY(TensorTypes::parse(options.type));
    Config config = shape->config();
    GgufWriter writer;
    write_config_metadata(config, writer);
    writer.set_u32("general.file_type", types.file_type());
    writer.set_u32("general.quantization_version", 2);
    LUMI_TRY(write_vocabulary(options, config, writer));

    Weights unused;
    const std::vector<TensorRole> roles = tensor_roles(config, unused);
    std::vector<std::vector<float>> vectors;  // bytes must live until write() returns
    vectors.reserve(roles.size());
    Progress progress(options.progress);
    for (const TensorRole & role : roles) {
        const bool is_dead_kv = role.slot == nullptr;
        if (role.name == "output.weight" || (is_dead_kv && !shape->dead_kv)) {
            continue;  // all shapes have tied heads
        }
        const ggml_type type = types.of(role, config.n_layer);
        auto rng = std::make_shared<Rng>(
            seed_of(options.seed, role.name));  // shared: std::function copies
        if (role.ne.size() < 2) {
            vectors.push_back(vector_values(role, config, *rng));
            writer.add_tensor(role.name, type, role.ne, std::as_bytes(std::span(vectors.back())));
            continue;
        }
        const float sd = matrix_sd(role, config);
        progress.expect(ggml_row_size(type, role.ne[0]) * static_cast<uint64_t>(role.ne[1]));
        writer.add_tensor(
            role.name, type, role.ne,
            [type, sd, rng, &progress](uint64_t, std::span<std::byte> rows) -> Status {
                fill_random_rows(type, sd, *rng, rows);
                progress.add(rows.size());
                return {};
            });
    }
    return writer.write(path);
}

}  // namespace lumi
