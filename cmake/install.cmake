# What cmake --install installs of the library: itself, its headers, the CMake package and idmint.pc.
# What belongs to the command stands in src/cli.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/idmint)
install(TARGETS idmint EXPORT idmint FILE_SET HEADERS)
install(EXPORT idmint NAMESPACE idmint:: FILE idmintTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/idmintConfig.cmake.in idmintConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(idmintConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/idmintConfig.cmake ${PROJECT_BINARY_DIR}/idmintConfigVersion.cmake
        DESTINATION ${package_dir})

# The prefix is found from where idmint.pc lies, so that the tree may be moved and --prefix works;
# distributions that set absolute directories get those.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${pc_dir})
  set(IDMINT_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /prefix/${pc_dir} /prefix)
  string(REGEX REPLACE "/$" "" IDMINT_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(dir LIBDIR INCLUDEDIR)
  set(IDMINT_PC_${dir} ${CMAKE_INSTALL_${dir}})
  if(NOT IS_ABSOLUTE ${IDMINT_PC_${dir}})
    string(PREPEND IDMINT_PC_${dir} "\${prefix}/")
  endif()
endforeach()
# A shared library brings what it needs, and its users need no headers of that; a static one must be linked with it,
# --static or not.
if(BUILD_SHARED_LIBS)
  set(IDMINT_PC_REQUIRES "")
  set(IDMINT_PC_THREADS "")
else()
  set(IDMINT_PC_REQUIRES "Requires: libcrypto >= 3.0, sqlite3 >= 3.40")
  set(IDMINT_PC_THREADS " -pthread")
endif()
configure_file(cmake/idmint.pc.in idmint.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/idmint.pc DESTINATION ${pc_dir})

# The documents, for those who have no source tree. Not those of the design.
if(IDMINT_CLI OR IDMINT_RESTORE)
  file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md ${PROJECT_SOURCE_DIR}/docs/*.svg)
  install(FILES ${documents} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
endif()
