# lumi_flags: what every file of ours is compiled with. Warnings are errors.
find_package(Threads REQUIRED)

add_library(lumi_flags INTERFACE)
target_compile_options(lumi_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 sees overlaps that are not there in "literal" + string (its bug 105651).
    target_compile_options(lumi_flags INTERFACE -Wno-restrict)
endif()
target_include_directories(lumi_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(lumi_flags INTERFACE LUMI_VERSION="${PROJECT_VERSION}")
target_link_libraries(lumi_flags INTERFACE Threads::Threads)

if(LUMI_SANITIZE)
    target_compile_options(lumi_flags INTERFACE -fsanitize=${LUMI_SANITIZE} -fno-omit-frame-pointer -g
        -fno-sanitize-recover=all)
    target_compile_definitions(lumi_flags INTERFACE _GLIBCXX_ASSERTIONS)
    target_link_options(lumi_flags INTERFACE -fsanitize=${LUMI_SANITIZE})
endif()
if(LUMI_FUZZ)
    target_compile_options(lumi_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
