#include "fallback/cudnn/calls.h"

#include <fmt/format.h>

namespace weft::fallback::cudnn {
namespace {

Result<CallGraph> GraphOf(const Library& library, const LibraryCall& call) {
  if (call.op == "pooling") return PoolingGraph(library, call);
  WEFT_TRY(CallGraph graph, ConvolutionGraph(library, call));
  graph.tf32 = IntAttr(call, "tf32", 0) != 0;
  return graph;
}

}  // namespace

Result<std::unique_ptr<DeviceCall>> Prepare(const LibraryCall& call, const void* context) {
  WEFT_TRY(const Library* library, Load());
  WEFT_TRY(const CallGraph graph, GraphOf(*library, call));
  return PrepareGraph(*library, graph, context);
}

Status CheckWithoutDevice(const LibraryCall& call, Isa isa) {
  constexpr size_t kDescribesDevices = 90800;
  WEFT_TRY(const Library* library, Load());
  WEFT_TRY(const CallGraph graph, GraphOf(*library, call));
  if (library->version() < kDescribesDevices) return {};
  return CheckGraph(*library, graph, isa);
}

std::string Version() {
  const auto library = Load();
  if (!library.ok()) return {};
  const size_t version = (*library)->version();  // 91900: 9.19.0
  return fmt::format("cudnn {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace weft::fallback::cudnn
