#include "fallback/device.h"

#include <fmt/format.h>

#include "fallback/cublas/matmul.h"
#include "fallback/cudnn/convolution.h"

namespace weft::fallback {

Result<std::unique_ptr<DeviceCall>> PrepareOnDevice(const LibraryCall& call, const void* context) {
  WEFT_TRY(Verify(call));
  if (call.library == Library::kCublas) return cublas::PrepareMatmul(call, context);
  if (call.library == Library::kCudnn) return cudnn::PrepareConvolution(call, context);
  return Usage(fmt::format("{} does not run on a device", LibraryName(call.library)));
}

Status CheckWithoutDevice(const LibraryCall& call, Isa isa) {
  if (call.library == Library::kCudnn) return cudnn::CheckConvolution(call, isa);
  return {};
}

}  // namespace weft::fallback
