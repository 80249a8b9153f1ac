# The three kinds of targets that folders declare. Source lists are explicit.

set(LUMI_PARTS "" CACHE INTERNAL "the parts that exist, in the order the data flows")

# lumi_add_part(name SOURCES... DEPENDS...): a folder's static library.
function(lumi_add_part name)
    cmake_parse_arguments(P "" "" "SOURCES;DEPENDS" ${ARGN})
    add_library(lumi_${name} STATIC ${P_SOURCES})
    target_link_libraries(lumi_${name} PUBLIC lumi_flags lumi_ggml ${P_DEPENDS})
    set(LUMI_PARTS ${LUMI_PARTS} ${name} CACHE INTERNAL "")
endfunction()

# lumi_add_test(name SOURCES... DEPENDS... [LABELS...]): one GoogleTest binary; its tests are named
# name.Suite.Case. The label "threads" makes it one that `make tsan` builds and runs.
add_custom_target(thread_tests)
function(lumi_add_test name)
    cmake_parse_arguments(P "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
    add_executable(test_${name} ${P_SOURCES})
    target_link_libraries(test_${name} PRIVATE ${P_DEPENDS} lumi_flags GTest::gtest GTest::gtest_main)
    target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(test_${name} PRIVATE LUMI_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    set(properties TIMEOUT 300)
    if(LUMI_SANITIZE MATCHES "thread")
        list(APPEND properties ENVIRONMENT
            "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
    endif()
    if(P_LABELS)
        list(APPEND properties LABELS "${P_LABELS}")
    endif()
    if("threads" IN_LIST P_LABELS)
        add_dependencies(thread_tests test_${name})
    endif()
    # PRE_TEST: a build runs no test binary, and a binary that was not built is one failing test.
    gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
        DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
endfunction()

# lumi_add_fuzz(name SOURCES... DEPENDS...): a libFuzzer target fuzz_name, found by `make fuzz`.
function(lumi_add_fuzz name)
    cmake_parse_arguments(P "" "" "SOURCES;DEPENDS" ${ARGN})
    add_executable(fuzz_${name} ${P_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE ${P_DEPENDS} lumi_flags)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endfunction()
