#include "codegen/cuda/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "codegen/cuda/body.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/places.h"
#include "plan/plan.h"

namespace weft::codegen {

using loops::Access;
using loops::Buffer;
using loops::LoopNest;

namespace {

using cuda::Place;

std::string DimsText(const std::array<LaunchExtent, 3>& extents) {
  std::vector<std::string> words;
  for (const LaunchExtent& e : extents) {
    words.push_back(e.IsConstant() ? fmt::format("{}", e.Eval({})) : "?");
  }
  return fmt::format("{}", fmt::join(words, " x "));
}

// Names come from models: quoted, so that none can end the comment.
std::string Heading(const LoopNest& nest, const Target& target) {
  std::string text = fmt::format("// {}\n", PrintString(nest.name));
  for (const std::string& origin : nest.origins) {
    text += fmt::format("// stands for {}\n", PrintString(origin));
  }
  text += fmt::format("// rebuild: weft opt --from loops --to cu --target cuda:{} FILE.loops\n",
                      CudaArchitecture(target.isa));
  text += fmt::format("// compile without contraction\n");
  return text;
}

// Nobody writes what is only read, as for LLVM (codegen/llvm/memory_buffers.cpp): it need not be
// read again behind a store or a barrier. What is written may be what other threads read.
std::string Parameters(const LoopNest& nest, const cuda::Names& names) {
  std::string text;
  for (size_t i = 0; i < nest.buffers.size(); ++i) {
    const Buffer& b = nest.buffers[i];
    if (b.access == Access::kLocal) continue;
    const bool is_in = b.access == Access::kIn;
    text += fmt::format("{}{}*{} {},  // {}{}\n    ", is_in ? "const " : "",
                        cuda::MemoryType(b.dtype), is_in ? " __restrict__" : "", names.buffers[i],
                        DtypeName(b.dtype), b.layout.IsPlain() ? "" : " " + weft::Print(b.layout));
  }
  for (int32_t p = 0; p < nest.params; ++p) {
    text += fmt::format("long long {},\n    ", names.vars[static_cast<size_t>(p)]);
  }
  return text + "unsigned char* weft_scratch, WeftFault* weft_error";
}

std::string Declarations(const LoopNest& nest, const cuda::Names& names,
                         const cuda::Places& places) {
  std::string text;
  for (size_t i = 0; i < nest.buffers.size(); ++i) {
    if (places.of[i] != Place::kGrid) continue;
    const std::string_view type = cuda::MemoryType(nest.buffers[i].dtype);
    text += fmt::format("  {}* const {} = ({}*)(weft_scratch + {});\n", type, names.buffers[i],
                        type, places.offsets[i]);
  }
  if (places.scratch_bytes > 0) {
    text += fmt::format(
        "  weft_scratch += {}ull + {}ull * ((blockIdx.z * (unsigned long long)gridDim.y + "
        "blockIdx.y) *"
        " gridDim.x + blockIdx.x);\n",
        places.grid_bytes, places.scratch_bytes);
  }
  for (size_t i = 0; i < nest.buffers.size(); ++i) {
    const std::string_view type = cuda::MemoryType(nest.buffers[i].dtype);
    const std::string& name = names.buffers[i];
    const int64_t elems =
        std::max<int64_t>(1, places.of[i] == Place::kOperand
                                 ? 0
                                 : loops::BufferBytes(loops::SliceOf(nest.buffers[i]), {}) /
                                       SizeBytes(nest.buffers[i].dtype));
    switch (places.of[i]) {
      case Place::kOperand:
      case Place::kGrid:
      case Place::kNowhere:
        break;
      case Place::kShared:
        text += fmt::format("  __shared__ __align__(16) {} {}[{}];\n", type, name, elems);
        break;
      case Place::kScratch:
        text += fmt::format("  {}* const {} = ({}*)(weft_scratch + {});\n", type, name, type,
                            places.offsets[i]);
        break;
      case Place::kThread:
        text += fmt::format("  {} {}[{}];\n", type, name, elems);
        break;
    }
  }
  return text;
}

// The function of a launch, whose symbol is known.
Result<std::string> OneLaunch(const LoopNest& nest, const Target& target, const cuda::Names& names,
                              cuda::Helpers& helpers, CudaText& own) {
  WEFT_TRY(own.launch, LaunchOf(nest));
  if (own.launch.cluster > 1 && !HasClusters(target.isa))
    return Unsupported(fmt::format("nest {}: {} has no clusters of blocks, sm_90 and newer have",
                                   nest.name, CudaArchitecture(target.isa)));
  WEFT_TRY(const cuda::Places places, cuda::PlaceBuffers(nest));
  own.shared_bytes = places.shared_bytes;
  own.scratch_bytes = places.scratch_bytes;
  own.local_bytes = places.local_bytes;
  own.grid_bytes = places.grid_bytes;
  const std::string body = cuda::BodyText(nest, names, places, own.launch, helpers);
  const int64_t threads = own.launch.ThreadsPerBlock();
  const bool clusters = own.launch.cluster > 1;
  return fmt::format(
      "\n// grid {}, block {}{}\nextern \"C\" {}__global__ void {}{}(\n    {}) {{\n{}{}}}\n",
      DimsText(own.launch.grid), DimsText(own.launch.block),
      clusters ? fmt::format(", cluster {}", own.launch.cluster) : "",
      clusters ? fmt::format("__cluster_dims__({}, 1, 1) ", own.launch.cluster) : "",
      threads > 0 ? fmt::format("__launch_bounds__({}) ", threads) : "", own.symbol,
      Parameters(nest, names), Declarations(nest, names, places), body);
}

}  // namespace

std::vector<const CudaText*> CudaText::Launches() const {
  std::vector<const CudaText*> all = {this};
  for (const CudaText& next : then) all.push_back(&next);
  return all;
}

Result<CudaText> EmitCudaText(const LoopNest& nest, const Target& target) {
  if (target.kind != TargetKind::kCuda) {
    return Usage(fmt::format("nest {}: {} is no CUDA target", nest.name, weft::Print(target)));
  }
  if (!plan::IsSymbol(nest.name) || cuda::IsWord(nest.name)) {
    return Unsupported(fmt::format("nest {}: its name can be no symbol", PrintString(nest.name)));
  }
  if (loops::Flushes(nest))
    return Unsupported(fmt::format("nest {}: CUDA has no multiply-adds that flush", nest.name));
  const cuda::Names names = cuda::NamesOf(nest);
  cuda::Helpers helpers;
  CudaText result;
  std::string functions;
  const std::vector<LoopNest> launches = loops::LaunchesOf(nest);
  for (size_t k = 0; k < launches.size(); ++k) {
    CudaText& own = k == 0 ? result : result.then.emplace_back();
    own.symbol = k == 0 ? nest.name : fmt::format("{}_{}", nest.name, k);
    WEFT_TRY(const std::string function, OneLaunch(launches[k], target, names, helpers, own));
    functions += function;
  }
  result.text = fmt::format(
      "{}\nstruct WeftFault {{ unsigned long long code, operand; long long found, lo, hi; "
      "}};\n{}{}",
      Heading(nest, target), helpers.Text(), functions);
  return result;
}

}  // namespace weft::codegen
