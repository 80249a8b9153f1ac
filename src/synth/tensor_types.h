// Which type each tensor of a synthesised file gets: one type for all matrices, or the mix that
// quantised downloads usually have.
#pragma once

#include "model/weights.h"

namespace lumi {

// "Q4_K_M" or a ggml type by name. An unknown name lists the known ones.
class TensorTypes {
  public:
    static Result<TensorTypes> parse(std::string_view name);

    ggml_type of(const TensorRole & role, int n_layer) const;
    uint32_t file_type() const { return file_type_; }  // general.file_type

  private:
    TensorTypes(ggml_type base, bool mixed, uint32_t file_type)
        : base_(base), mixed_(mixed), file_type_(file_type) {}
    ggml_type base_;
    bool mixed_;
    uint32_t file_type_;
};

}  // namespace lumi
