#include "tests/cuda/device.h"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace weft::cuda_test {

using executor::cuda::Address;
using executor::cuda::Memory;

Result<std::unique_ptr<Device>> Device::Open() {
  WEFT_TRY(const auto devices, executor::CudaDevices());
  const int32_t major = devices[0].major;
  if (major < 8 || major > 10)
    return Unsupported(fmt::format("{} has compute capability {}.{}, expected 8 to 10",
                                   devices[0].name, major, devices[0].minor));
  WEFT_TRY(codegen::NvrtcVersion());
  const Isa isa = std::array{Isa::kSm80, Isa::kSm90, Isa::kSm100}[major - 8];
  WEFT_TRY(auto device, executor::cuda::Device::Open(isa));
  return std::unique_ptr<Device>(new Device(std::move(device), isa));
}

Status Device::Run(const codegen::CudaKernel& kernel, const loops::LoopNest& nest,
                   std::span<void* const> operands, std::span<const int64_t> params,
                   KernelFault* fault) {
  const executor::cuda::Scope scope(*device_);
  plan::Kernel planned{.name = kernel.source.symbol};
  int64_t scratch_bytes = 0;
  const auto launch_of = [&](const codegen::CudaText& text) {
    plan::CudaLaunch launch;
    int64_t blocks = 1;
    for (size_t i = 0; i < 3; ++i) {
      launch.grid[i] = text.launch.grid[i].Eval(params);
      launch.block[i] = text.launch.block[i].Eval(params);
      blocks *= launch.grid[i];
    }
    scratch_bytes = std::max(scratch_bytes, text.grid_bytes + text.scratch_bytes * blocks);
    return launch;
  };
  planned.launch = launch_of(kernel.source);
  for (const codegen::CudaText& next : kernel.source.then)
    planned.launch->then.push_back(launch_of(next));
  WEFT_TRY(const auto function, device_->Load(kernel.cubin.image, planned));
  std::vector<Memory> memory;
  std::vector<Address> values;
  const auto upload = [&](const void* from, int64_t bytes) -> Status {
    WEFT_TRY(memory.emplace_back(), device_->Upload(from, bytes, "an operand"));
    values.push_back(memory.back().at());
    return {};
  };
  const auto ids = loops::Operands(nest);
  for (size_t k = 0; k < ids.size(); ++k)
    WEFT_TRY(upload(operands[k], loops::BufferBytes(nest[ids[k]], {params.begin(), params.end()})));
  for (const int64_t p : params) values.push_back(static_cast<Address>(p));
  const std::vector<std::byte> ones(static_cast<size_t>(scratch_bytes), std::byte{0xff});
  WEFT_TRY(upload(ones.data(), static_cast<int64_t>(ones.size())));
  WEFT_TRY(upload(fault, sizeof *fault));
  std::vector<void*> arguments;
  for (Address& value : values) arguments.push_back(&value);

  const executor::cuda::Driver& driver = device_->driver();
  WEFT_TRY(const auto stream, device_->NewStream());
  const auto at = [](int64_t extent) { return static_cast<unsigned>(extent); };
  const auto all = planned.launch->All();
  for (size_t k = 0; k < all.size(); ++k) {
    const auto &grid = all[k]->grid, &block = all[k]->block;
    const int code =
        driver.launch(function.handles[k], at(grid[0]), at(grid[1]), at(grid[2]), at(block[0]),
                      at(block[1]), at(block[2]), 0, stream.get(), arguments.data(), nullptr);
    WEFT_TRY(device_->Check(code, "a launch"));
  }
  WEFT_TRY(device_->Check(driver.wait_for_stream(stream.get()), "the kernel"));
  for (size_t k = 0; k < ids.size(); ++k)
    if (nest[ids[k]].access != loops::Access::kIn)
      WEFT_TRY(device_->Download(operands[k], memory[k]));
  return device_->Download(fault, memory.back());
}

}  // namespace weft::cuda_test
