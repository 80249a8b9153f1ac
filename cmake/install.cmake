# What `make install` puts under a prefix: the program, one shared library made of all parts below
# the server, the public headers, a CMake package, the manual page and shell completions, and
# ggml's libraries where tools/setup fetched them (a system ggml stays where it is).
include(CMakePackageConfigHelpers)

set(bundle_dir "${CMAKE_INSTALL_LIBDIR}/lumi")

if(TARGET lumi)
    set_target_properties(lumi PROPERTIES INSTALL_RPATH "$ORIGIN/../${bundle_dir}")
    install(TARGETS lumi RUNTIME)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    add_custom_target(docs COMMENT "Writing the manual page and completions from --help"
        COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/make_docs.py" $<TARGET_FILE:lumi>
            "${PROJECT_BINARY_DIR}/docs"
        DEPENDS lumi)
endif()

# Not part of a normal build: `make install` builds the library first.
set(parts ${LUMI_PARTS})
list(REMOVE_ITEM parts server cli)
if(parts)
    list(TRANSFORM parts PREPEND lumi_)
    # The objects themselves, so that nothing is dropped; linking the parts too brings what they need.
    list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
    add_library(lumi_shared SHARED EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/shared.cpp" ${objects})
    target_link_libraries(lumi_shared PRIVATE ${parts})
    target_include_directories(lumi_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_compile_features(lumi_shared INTERFACE cxx_std_20)
    set_target_properties(lumi_shared PROPERTIES OUTPUT_NAME lumi EXPORT_NAME lumi
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
        INSTALL_RPATH "$ORIGIN/lumi")
    install(TARGETS lumi_shared EXPORT lumiTargets LIBRARY)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/lumi" TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
    install(EXPORT lumiTargets NAMESPACE lumi:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/lumi")
    configure_package_config_file(cmake/lumiConfig.cmake.in "${PROJECT_BINARY_DIR}/lumiConfig.cmake"
        INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/lumi")
    write_basic_package_version_file("${PROJECT_BINARY_DIR}/lumiConfigVersion.cmake"
        COMPATIBILITY SameMinorVersion)
    install(FILES "${PROJECT_BINARY_DIR}/lumiConfig.cmake" "${PROJECT_BINARY_DIR}/lumiConfigVersion.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/lumi")
endif()

if(LUMI_GGML_BUNDLED)
    file(GLOB bundled "${LUMI_DEPS}/ggml/lib/libggml*.so")
    install(PROGRAMS ${bundled} DESTINATION "${bundle_dir}")
    install(FILES "${LUMI_DEPS}/ggml/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        RENAME LICENSE.ggml OPTIONAL)
endif()

# The target docs writes these; `make install` builds it.
install(FILES "${PROJECT_BINARY_DIR}/docs/lumi.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" OPTIONAL)
install(FILES "${PROJECT_BINARY_DIR}/docs/lumi.bash" RENAME lumi OPTIONAL
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${PROJECT_BINARY_DIR}/docs/_lumi" OPTIONAL
    DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(FILES "${PROJECT_BINARY_DIR}/docs/lumi.fish" OPTIONAL
    DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(FILES LICENSE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
