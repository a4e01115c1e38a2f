# The functions that the CMakeLists.txt below use.

# The stores that a build may leave out: IDMINT_NAME=OFF.
set(idmint_optional_stores ETCD MARIADB MONGODB POSTGRESQL REDIS ZOOKEEPER)

# idmint_compile_options(TARGET): the warnings of this project. Consumers never see them.
function(idmint_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wnon-virtual-dtor
                         -Woverloaded-virtual -Wimplicit-fallthrough)
  if(IDMINT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 reports false positives for std::string inside std::expected and std::variant when optimising.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict)
    # Sources are compiled together: each is taken for a header, and a local name may be one of another source.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wshadow=local)
  endif()
endfunction()

# idmint_program(TARGET): how a program that users start is compiled and linked.
function(idmint_program target)
  idmint_compile_options(${target})
  if(IDMINT_OLDER_LIBC)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/packaging/tarball/older_libc.cc)
    set(libraries ${IDMINT_OLDER_LIBC}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
    target_link_options(${target} PRIVATE --sysroot=${IDMINT_OLDER_LIBC} -B${libraries} -L${libraries}
                        -L${IDMINT_OLDER_LIBC}/lib/${CMAKE_LIBRARY_ARCHITECTURE} -static-libstdc++)
    target_link_libraries(${target} PRIVATE dl pthread) # a part of libc since 2.34
  elseif(NOT BUILD_SHARED_LIBS)
    # Halves the start of the program; sanitizers want the shared one.
    target_link_options(${target} PRIVATE "$<$<CONFIG:Release>:-static-libstdc++;-static-libgcc>")
  endif()
endfunction()

# idmint_unity(TARGET): builds a few sources at a time as one. For those whose headers (CLI11, Boost, the driver) take
# longer to read than they do.
function(idmint_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  if(NOT CMAKE_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 6)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-shadow=local) # handlers within handlers
  endif()
endfunction()

# idmint_sources(FOLDER file...): sources of the library. Four of one folder are compiled as one, as their headers take
# longer than they do; in a unity build all of them.
function(idmint_sources folder)
  target_sources(idmint PRIVATE ${ARGN})
  set(number 0)
  foreach(source IN LISTS ARGN)
    set(group ${folder})
    if(NOT CMAKE_UNITY_BUILD)
      math(EXPR batch "${number} / 4")
      math(EXPR number "${number} + 1")
      string(APPEND group _${batch})
    endif()
    set_source_files_properties(${source} TARGET_DIRECTORY idmint PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# idmint_command_files(TARGET PROGRAM): the completion scripts in completion/, which the sources of
# TARGET include as terminal/completion_scripts.h, and their installation with that of docs/PROGRAM.1.
# In them @IDMINT_KINDS@ and the others below stand for the names of formats.
function(idmint_command_files target program)
  foreach(words IN ITEMS IDMINT_KINDS IDMINT_KINDS_TO_CONVERT_TO IDMINT_FORMATS_WITH_BOUNDS)
    get_property(${words} GLOBAL PROPERTY ${words})
  endforeach()
  set(completion ${CMAKE_CURRENT_BINARY_DIR}/generated/completion)
  foreach(script IN ITEMS BASH:${program}.bash ZSH:_${program} FISH:${program}.fish)
    string(REPLACE ":" ";" script ${script})
    list(GET script 0 shell)
    list(GET script 1 file)
    configure_file(completion/${file} ${completion}/${file} @ONLY)
    file(READ ${completion}/${file} IDMINT_COMPLETION_${shell})
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/completion_scripts.h.in
                 generated/terminal/completion_scripts.h @ONLY)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
  if(IDMINT_INSTALL)
    idmint_install_command_files(${program} ${completion})
  endif()
endfunction()

# idmint_install_command_files(PROGRAM COMPLETION): installs its manual page, and the scripts in the folder COMPLETION.
function(idmint_install_command_files program completion)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${completion}/${program}.bash RENAME ${program}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completion}/_${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completion}/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()

# idmint_test_options(TARGET): how the sources of tests are compiled. The precompiled header needs the same for all.
function(idmint_test_options target)
  idmint_compile_options(${target})
  # Half the time of compiling a test would go into optimising its expectations. The library is optimised as ever.
  # Without the folder of the checkout in __FILE__, ccache knows the objects of another checkout.
  target_compile_options(${target} PRIVATE -O0 -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # A precompiled header out of ccache is older than the headers of a machine that was set up since.
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# idmint_test(NAME SOURCES file... [LABEL fast|real|slow] [THREADS] [UNSANITIZED]
#             [LIBS target...] [TIMEOUT seconds] [COST seconds])
# One GoogleTest program, one CTest test. "fast" needs nothing but the library, "real" starts real
# processes, servers or installs, "slow" takes minutes and runs only with scripts/test --slow. THREADS: more than one
# thread runs in the program, or in a command that it starts, so that TSan has something to see; labelled "threads" too.
# UNSANITIZED: ASan and UBSan have nothing to see that the tests of its parts do not show them, as its programs are killed,
# or are not of this project; all others are labelled "sanitized" too.
# COST: about what it takes where that is more than half a minute; those begin first, and no run waits for a long one at
# its end.
function(idmint_test name)
  cmake_parse_arguments(ARG "THREADS;UNSANITIZED" "COST;LABEL;TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL fast)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 1)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900) # those that take 100 s under a sanitizer may meet a machine that is slow
  endif()
  add_executable(${name} ${ARG_SOURCES})
  idmint_test_options(${name})
  if(NOT TARGET test_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cc CONTENT "int main() {}\n")
    add_executable(test_headers EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/test_headers.cc)
    idmint_test_options(test_headers)
    set_target_properties(test_headers PROPERTIES UNITY_BUILD OFF)
    target_link_libraries(test_headers PRIVATE GTest::gmock)
    # Of the system only: a header of the project would compile all tests anew whenever it changes.
    target_precompile_headers(test_headers PRIVATE
      <gmock/gmock.h> <gtest/gtest.h> <algorithm> <array> <atomic> <chrono> <cstdint> <cstdlib> <expected> <filesystem>
      <fstream> <functional> <future> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string>
      <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
  endif()
  target_precompile_headers(${name} REUSE_FROM test_headers)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  foreach(store IN LISTS idmint_optional_stores)
    if(IDMINT_${store})
      target_compile_definitions(${name} PRIVATE IDMINT_${store})
    endif()
  endforeach()
  target_link_libraries(${name} PRIVATE idmint GTest::gmock GTest::gtest_main ${ARG_LIBS})
  add_test(NAME ${name} COMMAND ${name})
  if(ARG_THREADS)
    list(APPEND ARG_LABEL threads)
  endif()
  if(NOT ARG_UNSANITIZED)
    list(APPEND ARG_LABEL sanitized)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST})
  foreach(source IN LISTS ARG_SOURCES)
    cmake_path(ABSOLUTE_PATH source)
    set_property(GLOBAL APPEND PROPERTY IDMINT_REGISTERED_TESTS ${source})
  endforeach()
endfunction()

# idmint_slow_test(NAME_test TIMEOUT seconds ENVIRONMENT "variable=value;...")
# Registers NAME_slow_test: the program of that test with variables that have it do more, among the slow tests.
function(idmint_slow_test test)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ENVIRONMENT" ${ARGN})
  string(REGEX REPLACE "_test$" "_slow_test" slow ${test})
  add_test(NAME ${slow} COMMAND ${test})
  set_tests_properties(${slow} PROPERTIES LABELS slow TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

# A *_test.cc that no idmint_test names would never run: that fails the configure. A build without one of the stores leaves
# tests out.
function(idmint_require_all_tests_registered)
  foreach(store IN LISTS idmint_optional_stores)
    if(NOT IDMINT_${store})
      return()
    endif()
  endforeach()
  get_property(registered GLOBAL PROPERTY IDMINT_REGISTERED_TESTS)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_test.cc
       ${PROJECT_SOURCE_DIR}/tests/*_test.cc ${PROJECT_SOURCE_DIR}/restore/*_test.cc)
  foreach(source IN LISTS found)
    if(NOT IDMINT_RESTORE AND source MATCHES "^${PROJECT_SOURCE_DIR}/restore/")
      continue()
    endif()
    if(NOT source IN_LIST registered)
      message(FATAL_ERROR "${source} is not registered: name it in an idmint_test()")
    endif()
  endforeach()
endfunction()
