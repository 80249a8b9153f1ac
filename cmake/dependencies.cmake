# Libraries from the system's packages; tools/setup installs them. ggml has a file of its own.

# oneDNN's own CMake package asks for OpenCL's development files, which its CPU side never uses.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")

# The Unicode patterns that byte-level vocabularies split words by.
find_package(PkgConfig REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)

find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)

# Debian ships cpp-httplib as a header and a shared library, described by pkg-config.
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
add_library(lumi_httplib INTERFACE)
target_link_libraries(lumi_httplib INTERFACE PkgConfig::httplib)
