# Every third-party library, under one simple name: weft::isl, weft::llvm, ... DESIGN's rule "one library, one folder"
# is about who links them; tools/check_layers.py keeps it. `./dev setup` installs them.

# weft_dep(isl HEADER isl/cpp.h LIBS isl): an interface target from a header and library names.
function(weft_dep name)
  cmake_parse_arguments(arg "OPTIONAL" "HEADER" "LIBS;HINTS;TARGETS" ${ARGN})
  set(libs ${arg_TARGETS})
  foreach(lib ${arg_LIBS})
    find_library(WEFT_LIB_${lib} ${lib} HINTS ${arg_HINTS} PATH_SUFFIXES lib lib64)
    if(NOT WEFT_LIB_${lib} AND arg_OPTIONAL)
      message(STATUS "weft::${name}: no lib${lib}, left out")
      return()
    elseif(NOT WEFT_LIB_${lib})
      message(FATAL_ERROR "weft::${name}: lib${lib} is missing; run ./dev setup")
    endif()
    list(APPEND libs ${WEFT_LIB_${lib}})
  endforeach()
  add_library(weft_dep_${name} INTERFACE)
  add_library(weft::${name} ALIAS weft_dep_${name})
  target_link_libraries(weft_dep_${name} INTERFACE ${libs})
  if(arg_HEADER)
    find_path(WEFT_INCLUDE_${name} ${arg_HEADER} HINTS ${arg_HINTS} PATH_SUFFIXES include REQUIRED)
    if(NOT WEFT_INCLUDE_${name} STREQUAL "/usr/include") # naming it again would break #include_next
      target_include_directories(weft_dep_${name} SYSTEM INTERFACE ${WEFT_INCLUDE_${name}})
    endif()
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(TBB REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)

set(llvm_root /usr/lib/llvm-19)
weft_dep(llvm HEADER llvm/IR/Module.h LIBS LLVM-19 HINTS ${llvm_root})
weft_dep(lld HEADER lld/Common/Driver.h LIBS lldELF lldCommon LLVM-19 z zstd HINTS ${llvm_root})
weft_dep(isl HEADER isl/cpp.h LIBS isl)
weft_dep(protobuf TARGETS protobuf::libprotobuf)
weft_dep(tbb TARGETS TBB::tbb)
weft_dep(sqlite TARGETS SQLite::SQLite3)
weft_dep(cli11 TARGETS CLI11::CLI11)
weft_dep(fmt TARGETS fmt::fmt)
weft_dep(json TARGETS nlohmann_json::nlohmann_json)
weft_dep(spdlog TARGETS spdlog::spdlog)
weft_dep(openssl TARGETS OpenSSL::Crypto)
weft_dep(zip HEADER zip.h LIBS zip)
weft_dep(png TARGETS PNG::PNG)
weft_dep(jpeg TARGETS JPEG::JPEG)
weft_dep(xgboost HEADER xgboost/c_api.h LIBS xgboost OPTIONAL)

# What PyPI brings, unpacked by `./dev setup`: optional, since weft works without these and says so.
set(WEFT_DEPS_DIR ${CMAKE_SOURCE_DIR}/.deps CACHE PATH "where ./dev setup unpacks wheels")
weft_dep(onednn HEADER oneapi/dnnl/dnnl.hpp LIBS dnnl HINTS ${WEFT_DEPS_DIR}/onednn OPTIONAL)
if(TARGET weft::onednn)
  # libdnnl asks for libimf and libintlc, which lie beside it. It has no run path of its own, and of the two kinds only
  # the older (DT_RPATH) also serves the libraries of a library.
  target_link_options(weft_dep_onednn INTERFACE -Wl,--disable-new-dtags -Wl,-rpath,${WEFT_DEPS_DIR}/onednn/lib
                                                -Wl,-rpath-link,${WEFT_DEPS_DIR}/onednn/lib)
endif()

# NVRTC is loaded at run time; only its headers are wanted here.
find_path(WEFT_CUDA_INCLUDE nvrtc.h HINTS /usr/local/cuda/include ${WEFT_DEPS_DIR}/cuda/include)
if(WEFT_CUDA_INCLUDE)
  weft_dep(nvrtc_headers)
  target_include_directories(weft_dep_nvrtc_headers SYSTEM INTERFACE ${WEFT_CUDA_INCLUDE})
endif()

if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  weft_dep(gtest TARGETS GTest::gtest GTest::gtest_main)
  weft_dep(benchmark TARGETS benchmark::benchmark)
  weft_dep(rapidcheck HEADER rapidcheck.h LIBS rapidcheck OPTIONAL)
endif()

# Python of the virtual environment: generators run under it, the extension module is built for it.
set(WEFT_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "the virtual environment's Python")
if(NOT EXISTS ${WEFT_PYTHON})
  message(FATAL_ERROR "${WEFT_PYTHON} is missing; run ./dev setup")
endif()
set(Python_EXECUTABLE ${WEFT_PYTHON})
set(PYTHON_EXECUTABLE ${WEFT_PYTHON})
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
file(GLOB WEFT_ONNX_PROTO ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/onnx/onnx-ml.proto)
execute_process(COMMAND ${WEFT_PYTHON} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                OUTPUT_STRIP_TRAILING_WHITESPACE)
find_package(nanobind CONFIG) # gives nanobind_add_module()
