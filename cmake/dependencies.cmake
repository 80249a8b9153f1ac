# Libraries from the system's packages; tools/setup installs them. ggml has a file of its own.
find_package(dnnl REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)

# Debian ships cpp-httplib as a header and a shared library, described by pkg-config.
find_package(PkgConfig REQUIRED)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
add_library(lumi_httplib INTERFACE)
target_link_libraries(lumi_httplib INTERFACE PkgConfig::httplib)
