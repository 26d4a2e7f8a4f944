#include "fallback/native/refusals.h"

#include "fallback/native/args.h"
#include "fallback/native/recurrent.h"
#include "fallback/native/strings.h"

namespace weft::fallback::native {
namespace {

// Kernels that compute with floats only, where a comprehension may do more.
bool IsForFloats(Kernel kernel) {
  for (const Kernel known :
       {RunConv, RunConvTranspose, RunPool, RunGlobalPool, RunBatchNormalization,
        RunGroupNormalization, RunLayerNormalization, RunLrn, RunSoftmax, RunRecurrent})
    if (kernel == known) return true;
  return false;
}

// Products of these wrap as numpy's do.
bool IsFactor(Dtype dtype) {
  return IsFloat(dtype) || dtype == Dtype::kI32 || dtype == Dtype::kI64 || dtype == Dtype::kU32 ||
         dtype == Dtype::kU64;
}

bool Takes(const LibraryCall& call, Kernel kernel, Dtype dtype) {
  if (IsForFloats(kernel)) return IsFloat(dtype);
  if (kernel == RunMaxPool) return IsFloat(dtype) || dtype == Dtype::kI8 || dtype == Dtype::kU8;
  if (kernel == RunResize)
    return StringAttr(call, "mode", "nearest") == "nearest" || IsFloat(dtype) || IsInteger(dtype);
  return (kernel != RunMatMul && kernel != RunGemm) || IsFactor(dtype);
}

}  // namespace

std::string WhyNot(const LibraryCall& call) {
  const Kernel kernel = FindKernel(call.op);
  if (call.inputs.empty() || call.inputs[0].value.empty()) return WhyNoPattern(call);
  const Dtype dtype = call.inputs[0].dtype;
  if (!Takes(call, kernel, dtype))
    return fmt::format("{}: no kernel for {} elements", call.op, DtypeName(dtype));
  const bool scales = FloatAttr(call, "alpha", 1) != 1 || FloatAttr(call, "beta", 1) != 1;
  if (kernel == RunGemm && scales && !IsFloat(dtype)) return "Gemm: integers are not scaled";
  return kernel == RunRecurrent ? WhyNoActivation(call) : WhyNoPattern(call);
}

}  // namespace weft::fallback::native
