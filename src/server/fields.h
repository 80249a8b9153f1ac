// Reads members of a JSON request object with their ranges: absent or null leaves the default, a
// wrong type or value is an error that names the field, what was found and what is allowed.
#pragma once

#include "session/generation.h"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <vector>

namespace lumi {

class Fields {
  public:
    explicit Fields(const nlohmann::json & object) : object_(&object) {}

    bool has(const char * name) const;  // present and not null
    Status number(const char * name, double min, double max, float & out) const;
    Status number(const char * name, double min, double max, double & out) const;
    Status integer(const char * name, int64_t min, int64_t max, int & out) const;
    // 0 to 2^64-1; -1 leaves the default, as a client of llama.cpp may send it.
    Status seed(const char * name, uint64_t & out) const;
    Status boolean(const char * name, bool & out) const;
    Status text(const char * name, std::string & out) const;
    // Refuses a member that is none of these: a misspelt option must not count as absent.
    Status only(std::span<const char * const> names) const;
    // A string or a list of strings.
    Status texts(const char * name, size_t max_count, std::vector<std::string> & out) const;

  private:
    const nlohmann::json * object_;
};

// The object of a request body; an error when it is not JSON or not an object.
Result<nlohmann::json> request_object(const std::string & body);

// Fields every text endpoint shares: temperature, top_k, top_p, min_p, repeat_penalty,
// frequency_penalty, presence_penalty, seed, stop, logit_bias, ignore_eos.
Status read_sampling(const nlohmann::json & object, int n_vocab, GenerationOptions & options);

}  // namespace lumi
