// libnvrtc.so, for tests without a device: kernels' texts compiled for the host. It takes what
// codegen/cuda/nvrtc.cpp asks of NVRTC, and no more.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/cuda/emulate/compiler.h"
#include "codegen/cuda/emulate/words.h"
#include "tests/cuda/standin/image.h"

namespace {

constexpr int kOk = 0, kInvalidProgram = 4, kCompilationError = 6;  // nvrtcResult

struct Program {
  std::string text, symbol, log, image;
};

using weft::codegen::CudaText;

// A text's kernels: of each its name, what stands before the bracket of its operands, behind that
// of its launch bounds, and how many blocks its clusters have.
std::vector<CudaText> Functions(const std::string& text) {
  constexpr std::string_view kGlobal = "__global__ void ", kBounds = "__launch_bounds__(",
                             kCluster = "__cluster_dims__(";
  std::vector<CudaText> functions;
  for (size_t at = text.find(kGlobal); at != text.npos; at = text.find(kGlobal, at + 1)) {
    size_t begin = at + kGlobal.size();
    if (text.compare(begin, kBounds.size(), kBounds) == 0) begin = text.find(") ", begin) + 2;
    CudaText& own = functions.emplace_back();
    own.symbol = text.substr(begin, text.find('(', begin) - begin);
    const size_t dims = text.find(kCluster, text.rfind('\n', at));
    if (dims < at) own.launch.cluster = std::atoi(text.c_str() + dims + kCluster.size());
  }
  return functions;
}

Program& Of(void* program) { return *static_cast<Program*>(program); }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names of the library that this stands in for
extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 999;  // that of no NVRTC: what is cached for one is not taken for the other
  return kOk;
}

const char* nvrtcGetErrorString(int code) {
  return code == kCompilationError ? "compilation error" : "invalid program";
}

int nvrtcCreateProgram(void** program, const char* text, const char* name, int, const char* const*,
                       const char* const*) {
  const std::string file = name;
  *program =
      new Program{.text = text, .symbol = file.substr(0, file.rfind('.')), .log = "", .image = ""};
  return kOk;
}

int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return kOk;
}

int nvrtcCompileProgram(void* program, int, const char* const*) {
  Program& p = Of(program);
  CudaText text{.text = p.text, .symbol = p.symbol, .launch = {}};
  for (CudaText& function : Functions(p.text)) {
    if (function.symbol == p.symbol)
      text.launch = std::move(function.launch);
    else
      text.then.push_back(std::move(function));
  }
  const auto code =
      weft::codegen::cuda::CompileToBytes(weft::codegen::cuda::EmulatedText({&text, 1}));
  if (!code.ok()) {
    p.log = code.status().ToString();
    return kCompilationError;
  }
  p.image = weft::standin::Wrap(p.symbol, *code);
  return kOk;
}

int nvrtcGetProgramLogSize(void* program, size_t* size) {
  *size = Of(program).log.size() + 1;
  return kOk;
}

int nvrtcGetProgramLog(void* program, char* log) {
  Of(program).log.copy(log, std::string::npos);
  log[Of(program).log.size()] = '\0';
  return kOk;
}

int nvrtcGetCUBINSize(void* program, size_t* size) {
  *size = Of(program).image.size();
  return *size > 0 ? kOk : kInvalidProgram;
}

int nvrtcGetCUBIN(void* program, char* image) {
  Of(program).image.copy(image, std::string::npos);
  return kOk;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
