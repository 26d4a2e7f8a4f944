#include "codegen/cuda/kernel.h"

#include "base/hash.h"

namespace weft::codegen {
namespace {

constexpr std::string_view kEmitVersion = "1";  // grows when the text of a nest changes

}  // namespace

Result<CudaKernel> EmitCuda(const loops::LoopNest& nest, const Target& target) {
  CudaKernel kernel;
  WEFT_TRY(kernel.source, EmitCudaText(nest, target));
  WEFT_TRY(kernel.cubin, CompileCuda(kernel.source.text, kernel.source.symbol, target));
  return kernel;
}

Result<std::string> CudaKernelKey(const loops::LoopNest& nest, const Target& target) {
  WEFT_TRY(const std::string version, NvrtcVersion());
  return Hasher()
      .Add(loops::Print(nest))
      .Add(CudaArchitecture(target.isa))
      .Add(version)
      .Add(kEmitVersion)
      .Finish()
      .Hex();
}

}  // namespace weft::codegen
