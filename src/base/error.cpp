// Names of the error kinds.
#include <lumi/error.h>

namespace lumi {

const char * error_kind_name(ErrorKind kind) {
    switch (kind) {
    case ErrorKind::invalid_file:
        return "invalid_file";
    case ErrorKind::unsupported:
        return "unsupported";
    case ErrorKind::invalid_argument:
        return "invalid_argument";
    case ErrorKind::out_of_memory:
        return "out_of_memory";
    case ErrorKind::io:
        return "io";
    case ErrorKind::cancelled:
        return "cancelled";
    case ErrorKind::numeric:
        return "numeric";
    case ErrorKind::internal:
        return "internal";
    }
    return "internal";
}

}  // namespace lumi
