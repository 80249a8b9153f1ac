# lumi_add_part(name SOURCES... DEPENDS...): a folder's static library with our warnings and flags.
add_library(lumi_flags INTERFACE)
target_compile_options(lumi_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast -Werror)
target_include_directories(lumi_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
if(LUMI_SANITIZE)
    target_compile_options(lumi_flags INTERFACE -fsanitize=${LUMI_SANITIZE} -fno-omit-frame-pointer -g
        -fno-sanitize-recover=all)
    target_link_options(lumi_flags INTERFACE -fsanitize=${LUMI_SANITIZE})
endif()

function(lumi_add_part name)
    cmake_parse_arguments(P "" "" "SOURCES;DEPENDS" ${ARGN})
    add_library(lumi_${name} STATIC ${P_SOURCES})
    target_link_libraries(lumi_${name} PUBLIC lumi_flags lumi_ggml Threads::Threads)
    foreach(d ${P_DEPENDS})
        target_link_libraries(lumi_${name} PUBLIC ${d})
    endforeach()
endfunction()

# lumi_add_test(name SOURCES... DEPENDS...): one GoogleTest binary; its tests are named name.Suite.Case.
function(lumi_add_test name)
    cmake_parse_arguments(P "" "" "SOURCES;DEPENDS" ${ARGN})
    add_executable(test_${name} ${P_SOURCES})
    target_link_libraries(test_${name} PRIVATE ${P_DEPENDS} lumi_flags GTest::gtest GTest::gtest_main)
    target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(test_${name} PRIVATE LUMI_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60)
endfunction()
