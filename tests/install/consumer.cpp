// A program outside lumi that uses the installed package, as an embedding application would.
#include <lumi/error.h>

#include <cstdio>

int main() {
    std::puts(lumi::error_kind_name(lumi::ErrorKind::invalid_file));
    return 0;
}
