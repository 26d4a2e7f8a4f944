#include "fallback/device.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>

#include "fallback/cublas/matmul.h"
#include "fallback/cudnn/calls.h"

namespace weft::fallback {

Result<std::unique_ptr<DeviceCall>> PrepareOnDevice(const LibraryCall& call, const void* context) {
  WEFT_TRY(Verify(call));
  if (call.library == Library::kCublas) return cublas::PrepareMatmul(call, context);
  if (call.library == Library::kCudnn) return cudnn::Prepare(call, context);
  return Usage(fmt::format("{} does not run on a device", LibraryName(call.library)));
}

Status CheckWithoutDevice(const LibraryCall& call, Isa isa) {
  if (call.library == Library::kCublas) return cublas::CheckPresent();
  if (call.library != Library::kCudnn) return {};
  if (cudnn::Version().empty()) return cudnn::CheckWithoutDevice(call, isa);  // which says why
  static std::mutex mutex;
  static std::map<std::string, Status> answers;  // one takes milliseconds
  const std::string key = fmt::format("{} {}", static_cast<int>(isa), CanonicalText(call));
  const std::lock_guard lock(mutex);
  const auto [answer, is_new] = answers.try_emplace(key);
  if (is_new) answer->second = cudnn::CheckWithoutDevice(call, isa);
  return answer->second;
}

}  // namespace weft::fallback
