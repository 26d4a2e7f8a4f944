// libnvrtc.so, for tests without a device: kernels' texts compiled for the host. It takes what
// codegen/cuda/nvrtc.cpp asks of NVRTC, and no more.
#include <cstdio>
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

// The names of a text's kernels: what stands before the bracket of each one's operands, behind that
// of its launch bounds.
std::vector<std::string> Functions(const std::string& text) {
  constexpr std::string_view kGlobal = "__global__ void ", kBounds = "__launch_bounds__(";
  std::vector<std::string> names;
  for (size_t at = text.find(kGlobal); at != text.npos; at = text.find(kGlobal, at + 1)) {
    size_t begin = at + kGlobal.size();
    if (text.compare(begin, kBounds.size(), kBounds) == 0) begin = text.find(") ", begin) + 2;
    names.push_back(text.substr(begin, text.find('(', begin) - begin));
  }
  return names;
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
  weft::codegen::CudaText text{.text = p.text, .symbol = p.symbol, .launch = {}};
  for (std::string symbol : Functions(p.text))
    if (symbol != p.symbol) text.then.push_back({.symbol = std::move(symbol), .launch = {}});
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
