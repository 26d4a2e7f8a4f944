# How every folder is built: the flags, and the three functions that a folder's CMakeLists.txt calls.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(WEFT_PYTHON_DIR ${CMAKE_BINARY_DIR}/python) # where `import weft` finds the package

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release | Debug" FORCE)
endif()
# No -march: the binary starts on any x86-64. Kernels are compiled at run time for the CPU at hand.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

add_compile_options(
  -Wall -Wextra -Werror
  -Wno-missing-field-initializers # nouns are built by designated initializers; the rest has defaults
  -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=../=) # __FILE__ reads "base/status.cpp" anywhere
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(
    -Wno-restrict             # false alarm of GCC 12 on "literal" + std::string (its bug 105651)
    -Wno-maybe-uninitialized) # false alarms of GCC 12 on std::optional and std::variant
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  add_compile_options(-Wno-deprecated-declarations) # libstdc++ 12's own sorts use what it calls deprecated
endif()

option(WEFT_SANITIZE "build everything with ASan and UBSan" OFF)
if(WEFT_SANITIZE)
  # -O1: a quarter of the compile time less, and the tests of this build hardly slower.
  add_compile_options(-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    add_compile_options(-fsanitize=fuzzer-no-link) # what a fuzz target calls reports its coverage
  endif()
  add_link_options(-fsanitize=address,undefined)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the base directory are hashed as relative ones and the folder of the build is not, so that two clones
  # share what they compile. Line numbers of a build with -g may then name files of the other clone.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/gen)

# "base" means the target weft_base; a name with "::" is taken as it is.
function(weft_targets out)
  set(targets)
  foreach(name ${ARGN})
    if(name MATCHES "::")
      list(APPEND targets ${name})
    else()
      list(APPEND targets weft_${name})
    endif()
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

# What most files include is read once: for libraries, and again for tests, whose code is compiled for executables. A build
# with sanitizers goes without, and so shows that each file includes what it uses.
if(NOT WEFT_SANITIZE)
  set(precompile ON)
endif()
option(WEFT_PRECOMPILE "use precompiled headers" ${precompile})
if(WEFT_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # More faces of the false alarm above: in a precompiled header a system header is no longer known as such.
  add_compile_options(-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()
set(WEFT_PRECOMPILED
  <algorithm> <array> <cmath> <cstdint> <functional> <limits> <map> <memory> <numeric> <optional> <set> <span> <string>
  <string_view> <utility> <variant> <vector> <fmt/format.h>)

# The first target of a kind makes what all others of it use.
function(weft_precompile target kind)
  if(NOT WEFT_PRECOMPILE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY weft_precompiled_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY weft_precompiled_${kind} ${target})
  endif()
endfunction()

# weft_library(graph_ir SRCS graph.cpp print.cpp DEPS base PRIVATE_LIBS weft::protobuf): a static library weft_graph_ir.
function(weft_library name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS;PRIVATE_LIBS" ${ARGN})
  weft_targets(deps ${arg_DEPS})
  weft_targets(private ${arg_PRIVATE_LIBS})
  if(arg_SRCS)
    add_library(weft_${name} STATIC ${arg_SRCS})
    target_link_libraries(weft_${name} PUBLIC ${deps} PRIVATE ${private})
    weft_precompile(weft_${name} library ${WEFT_PRECOMPILED})
  else()
    add_library(weft_${name} INTERFACE)
    target_link_libraries(weft_${name} INTERFACE ${deps} ${private})
  endif()
endfunction()

# weft_test(graph SRCS a_test.cpp b_test.cpp DEPS graph): one executable bin/graph_test. A second call with the same
# name, say from a sub-folder, adds to it: links are the slow part, so a top-level folder has one test executable.
function(weft_test name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  weft_targets(deps ${arg_DEPS})
  if(NOT TARGET ${name}_test)
    add_executable(${name}_test)
    target_link_libraries(${name}_test PRIVATE weft::gtest)
    target_compile_options(${name}_test PRIVATE -O1) # of what they test, nothing: it is in the libraries
    weft_precompile(${name}_test test ${WEFT_PRECOMPILED} <gtest/gtest.h>)
    add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS gtest)
  endif()
  target_sources(${name}_test PRIVATE ${arg_SRCS})
  target_link_libraries(${name}_test PRIVATE ${deps})
endfunction()

# weft_fuzz(import_onnx SRCS import_onnx.cpp DEPS graph), in tests/fuzz: bin/fuzz_import_onnx, under clang's libFuzzer or,
# with another compiler, cmake/fuzz_replay.cpp. A test runs it over the files kept in seeds/NAME and crashers/NAME.
function(weft_fuzz name)
  cmake_parse_arguments(arg "" "MUTATIONS;SEEDS_OF" "SRCS;DEPS" ${ARGN})
  weft_targets(deps ${arg_DEPS})
  add_executable(fuzz_${name} ${arg_SRCS} ${CMAKE_SOURCE_DIR}/cmake/fuzz_checks.cpp)
  target_link_libraries(fuzz_${name} PRIVATE ${deps})
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/fuzz_replay.cpp)
  endif()
  set(folders seeds/${name}/* crashers/${name}/*)
  if(arg_SEEDS_OF)
    list(APPEND folders seeds/${arg_SEEDS_OF}/* crashers/${arg_SEEDS_OF}/*)
  endif()
  file(GLOB kept CONFIGURE_DEPENDS ${folders})
  if(kept AND NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} -mutations=${arg_MUTATIONS} ${kept})
  elseif(kept)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${kept}) # libFuzzer: the files alone
  endif()
endfunction()
