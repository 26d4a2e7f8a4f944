#include "driver/kernels.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/log.h"
#include "codegen/cuda/kernel.h"
#include "codegen/llvm/emit.h"

namespace weft::driver {
namespace {

bool IsCuda(const Target& target) { return target.kind == TargetKind::kCuda; }

Result<plan::CudaLaunch> OneLaunch(const loops::LoopNest& nest, const codegen::CudaText& source) {
  plan::CudaLaunch launch{.shared_bytes = source.shared_bytes,
                          .scratch_bytes = source.scratch_bytes};
  for (size_t i = 0; i < 3; ++i) {
    const codegen::LaunchExtent &grid = source.launch.grid[i], &block = source.launch.block[i];
    if (!grid.IsConstant() || !block.IsConstant())
      return Unsupported("its grid depends on run-time sizes").At("kernel " + nest.name);
    launch.grid[i] = grid.Eval({});
    launch.block[i] = block.Eval({});
  }
  return launch;
}

Result<plan::CudaLaunch> LaunchOf(const loops::LoopNest& nest, const Target& target) {
  WEFT_TRY(const codegen::CudaText source, codegen::EmitCudaText(nest, target));
  WEFT_TRY(plan::CudaLaunch launch, OneLaunch(nest, source));
  launch.grid_bytes = source.grid_bytes;
  for (const codegen::CudaText& next : source.then) {
    WEFT_TRY(launch.then.emplace_back(), OneLaunch(nest, next));
  }
  if (Status status = plan::CheckLaunch(launch); !status.ok())
    return std::move(status).At("kernel " + nest.name);
  return launch;
}

}  // namespace

Result<std::string> CodegenIdentity(const Target& target) {
  return IsCuda(target) ? codegen::CudaCodegenIdentity() : codegen::CodegenIdentity();
}

std::string_view CodeKind(const Target& target) { return IsCuda(target) ? "cubin" : "so"; }

loops::LoopNest WithSymbol(loops::LoopNest nest) {
  nest.name += "_" + Sha256(loops::Print(nest)).Hex().substr(0, 8);
  return nest;
}

Result<plan::Kernel> MakeKernel(const loops::LoopNest& nest, const Target& target,
                                std::string_view identity) {
  plan::Kernel kernel{.name = nest.name, .loops = loops::Print(nest)};
  if (IsCuda(target)) {
    WEFT_TRY(kernel.launch, LaunchOf(nest, target));
  } else {
    kernel.rank_scratch_bytes = loops::RankScratchBytes(nest);
    kernel.team_scratch_bytes = loops::TeamScratchBytes(nest);
  }
  kernel.key = plan::KernelKey(kernel, target.isa, identity);
  return kernel;
}

Result<loops::LoopNest> CheckKernel(const plan::Kernel& kernel, const Target& target,
                                    std::string_view identity) {
  WEFT_TRY(loops::LoopNest nest, loops::Read(kernel.loops, kernel.name + ".loops"));
  for (const loops::Buffer& b : nest.buffers)
    if ((b.space == loops::Space::kGrid || b.space == loops::Space::kCluster) && !IsCuda(target))
      return Invalid(fmt::format("{} lies in memory of a {}, and the target has none", b.name,
                                 loops::SpaceName(b.space)))
          .At("kernel " + kernel.name);
  // The key is what a cache trusts, so it is never taken from a plan.
  WEFT_TRY(plan::Kernel ours, MakeKernel(nest, target, identity));
  ours.loops = kernel.loops;
  if (ours.name != kernel.name || ours.launch != kernel.launch ||
      ours.rank_scratch_bytes != kernel.rank_scratch_bytes ||
      ours.team_scratch_bytes != kernel.team_scratch_bytes ||
      plan::KernelKey(ours, target.isa, identity) != kernel.key)
    return Invalid("its key does not belong to its nest on this compiler")
        .At("kernel " + kernel.name)
        .Try("build the plan again");
  return nest;
}

Result<std::vector<uint8_t>> CompileKernel(const plan::Kernel& kernel, const Target& target) {
  WEFT_TRY(const std::string identity, CodegenIdentity(target));
  WEFT_TRY(const loops::LoopNest nest, CheckKernel(kernel, target, identity));
  if (IsCuda(target)) {
    WEFT_TRY(auto code, codegen::EmitCuda(nest, target));
    const codegen::CudaResources& r = code.cubin.resources;
    WEFT_LOG(kInfo, "cuda", "{}: {} registers, {} local accesses, {} bytes of stack, {} shared",
             nest.name, r.registers, r.local_accesses, r.stack_bytes, r.shared_bytes);
    return std::move(code.cubin.image);
  }
  WEFT_TRY(auto code, codegen::EmitMachineCode(nest, target));
  return std::move(code.shared_object);
}

Result<codegen::CudaResources> ResourcesOf(const plan::Kernel& kernel, const Target& target,
                                           const FileCache* cache) {
  if (cache) {
    if (const auto cached = cache->Get(CodeKind(target), kernel.key))
      return codegen::ReadCubin(*cached);
  }
  WEFT_TRY(const std::vector<uint8_t> image, CompileKernel(kernel, target));
  return codegen::ReadCubin(image);
}

}  // namespace weft::driver
