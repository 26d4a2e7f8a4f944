#include "codegen/cuda/kernel.h"

#include <fmt/format.h>

namespace weft::codegen {
namespace {

constexpr int kEmittedText = 7;  // grows when the text of a nest changes, or how it is compiled

}  // namespace

Result<CudaKernel> EmitCuda(const loops::LoopNest& nest, const Target& target) {
  CudaKernel kernel;
  WEFT_TRY(kernel.source, EmitCudaText(nest, target));
  WEFT_TRY(kernel.cubin, CompileCuda(kernel.source.text, kernel.source.symbol, target));
  return kernel;
}

Result<std::string> CudaCodegenIdentity() {
  WEFT_TRY(const std::string version, NvrtcVersion());
  return fmt::format("{} text {}", version, kEmittedText);
}

}  // namespace weft::codegen
