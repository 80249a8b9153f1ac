# Finds ggml, 0.25 to 1.x: an installed package first, else what tools/setup left in .deps/ggml
# (include/, lib/). Makes lumi_ggml and LUMI_GGML_BUNDLED (ON: the libraries are ours to install).
# The dynamic backends are found at run time, beside the library that was linked.
find_package(ggml QUIET)  # its version file accepts one major version only
add_library(lumi_ggml INTERFACE)
if(ggml_FOUND AND ggml_VERSION VERSION_GREATER_EQUAL 0.25 AND ggml_VERSION VERSION_LESS 2)
    message(STATUS "ggml ${ggml_VERSION}: ${ggml_DIR}")
    target_link_libraries(lumi_ggml INTERFACE ggml::ggml)
    set(LUMI_GGML_BUNDLED OFF)
else()
    set(root "${LUMI_DEPS}/ggml")
    if(NOT EXISTS "${root}/include/ggml.h")
        message(FATAL_ERROR "No ggml from 0.25 to 1.x found. Run tools/setup first (it fills ${root}).")
    endif()
    message(STATUS "ggml: prebuilt, ${root}")
    file(GLOB ggml_main "${root}/lib/libggml.so" "${root}/lib/libggml.v*.so" "${root}/lib/libggml.*.v*.so")
    list(GET ggml_main 0 ggml_main)
    target_include_directories(lumi_ggml SYSTEM INTERFACE ${root}/include)
    target_link_libraries(lumi_ggml INTERFACE ${ggml_main} ${root}/lib/libggml-base.so)
    set(LUMI_GGML_BUNDLED ON)
    set(CMAKE_BUILD_RPATH "${root}/lib")
endif()
