#include "driver/target.h"

#include <fmt/format.h>

#include "codegen/cuda/nvrtc.h"
#include "executor/cuda/device.h"

namespace weft::driver {

Result<Target> TargetHere(std::string_view text) {
  constexpr std::string_view kCuda = "cuda";
  if (text != kCuda && !text.starts_with("cuda ")) return ParseTarget(text);
  const auto isa = executor::cuda::IsaHere();
  if (!isa.ok())
    return Status(isa.status())
        .Because("--target cuda is the device of this machine; --target cuda:sm_90 needs none");
  return ParseTarget(
      fmt::format("cuda:{}{}", codegen::CudaArchitecture(*isa), text.substr(kCuda.size())));
}

}  // namespace weft::driver
