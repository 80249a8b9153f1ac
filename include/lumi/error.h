// The one error type of lumi and the Result that carries it. No exception crosses a public
// function.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace lumi {

enum class ErrorKind : uint8_t {
    invalid_file,      // a file's bytes are not what its format promises
    unsupported,       // well formed, but lumi cannot do it (the message says what it can)
    invalid_argument,  // a flag, request field or API argument is out of range
    out_of_memory,     // the memory plan does not fit
    io,                // the operating system said no
    cancelled,         // the caller asked to stop
    numeric,           // NaN or infinity where a finite number is required
    internal,          // a defect in lumi
};

// The kind's name in snake case, for JSON errors and logs.
const char * error_kind_name(ErrorKind kind);

// message says what went wrong, where (file, tensor, field), what was found and what is allowed.
struct Error {
    ErrorKind kind = ErrorKind::internal;
    std::string message;

    // The same error with "context: " before its message.
    Error within(const std::string & context) const { return {kind, context + ": " + message}; }
};

// Either a T or an Error. Converts implicitly from both.
template <typename T> class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    T & value() & { return std::get<0>(state_); }
    const T & value() const & { return std::get<0>(state_); }
    T && value() && { return std::get<0>(std::move(state_)); }
    T * operator->() { return &std::get<0>(state_); }
    const T * operator->() const { return &std::get<0>(state_); }
    T & operator*() & { return value(); }
    const T & operator*() const & { return value(); }
    T && operator*() && { return std::move(*this).value(); }

    const Error & error() const { return std::get<1>(state_); }

  private:
    std::variant<T, Error> state_;
};

template <> class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), ok_(false) {}

    bool ok() const { return ok_; }
    explicit operator bool() const { return ok_; }
    void value() const {}
    const Error & error() const { return error_; }

  private:
    Error error_;
    bool ok_ = true;
};

using Status = Result<void>;

// auto x = LUMI_TRY(f());  or  LUMI_TRY(g());  returns f's error from the calling function.
#define LUMI_TRY(expression)                                                                       \
    __extension__({                                                                                \
        auto lumi_result_ = (expression);                                                          \
        if (!lumi_result_.ok()) {                                                                  \
            return lumi_result_.error();                                                           \
        }                                                                                          \
        std::move(lumi_result_).value();                                                           \
    })

}  // namespace lumi
