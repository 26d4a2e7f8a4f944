// cuDNN's graph interface, "Graph API: supported graph patterns".
#include "fallback/cudnn/graph.h"

#include <fmt/format.h>

#include "base/layout.h"

namespace weft::fallback::cudnn {
namespace {

constexpr size_t kMostWays = 8;

Result<CudaObject> HandleFor(const Library& library, const void* context) {
  static CudaHandles handles;
  return handles.Get(context, [&]() -> Result<CudaObject> {
    Handle handle = nullptr;
    WEFT_TRY(Check(library, library.create(&handle), "starting"));
    return CudaObject(handle, library.destroy);
  });
}

class Planned : public DeviceCall {
 public:
  Planned(const Library& library, CudaObject handle, std::vector<ExecutionPlan> plans,
          std::vector<int64_t> ids)
      : library_(library),
        handle_(std::move(handle)),
        plans_(std::move(plans)),
        ids_(std::move(ids)) {}

  size_t Ways() const override { return plans_.size(); }
  int64_t ScratchBytes(size_t way) const override { return plans_[way].workspace; }
  std::string Name(size_t way) const override {
    return fmt::format("cudnn engine {}", plans_[way].engine);
  }

  Status Enqueue(size_t way, std::span<const uint64_t> inputs, std::span<const uint64_t> outputs,
                 uint64_t scratch, void* stream) override {
    std::vector<uint64_t> pointers(inputs.begin(), inputs.end());
    pointers.push_back(outputs[0]);
    WEFT_TRY(Descriptor pack, Descriptor::New(library_, kVariantPack));
    WEFT_TRY(pack.SetInts(kPackIds, ids_));
    WEFT_TRY(pack.Set(kPackPointers, kTypePointer, static_cast<int64_t>(pointers.size()),
                      pointers.data()));
    WEFT_TRY(pack.Set(kPackWorkspace, kTypePointer, 1, &scratch));
    WEFT_TRY(pack.Finalize());
    WEFT_TRY(Check(library_, library_.set_stream(handle_.get(), stream), "a stream"));
    return Check(library_, library_.execute(handle_.get(), plans_[way].plan.get(), pack.get()),
                 "a call");
  }

 private:
  const Library& library_;
  CudaObject handle_;
  std::vector<ExecutionPlan> plans_;
  std::vector<int64_t> ids_;
};

}  // namespace

Result<Descriptor> NewTensor(const Library& library, int64_t id, const Shape& shape,
                             bool is_virtual) {
  constexpr int64_t kAlignment = 16;
  WEFT_TRY(Descriptor t, Descriptor::New(library, kTensor));
  WEFT_TRY(t.SetEnum(kTensorType, kTypeDataType, kFloat));
  WEFT_TRY(t.SetInts(kTensorDims, shape));
  WEFT_TRY(t.SetInts(kTensorStrides, PhysicalStrides(Layout::Plain(shape.size()), shape)));
  WEFT_TRY(t.SetInt(kTensorId, id));
  WEFT_TRY(t.SetInt(kTensorAlignment, kAlignment));
  if (is_virtual) WEFT_TRY(t.Set(kTensorIsVirtual, kTypeBoolean, 1, &is_virtual));
  WEFT_TRY(t.Finalize());
  return t;
}

Result<Descriptor> NewGraph(const Library& library, Handle handle,
                            const std::vector<Descriptor>& operations) {
  WEFT_TRY(Descriptor graph, Descriptor::New(library, kOperationGraph));
  if (handle) WEFT_TRY(graph.SetHandle(kGraphHandle, handle));
  WEFT_TRY(graph.SetDescriptors(kGraphOperations, operations));
  WEFT_TRY(graph.Finalize());
  return graph;
}

Result<std::unique_ptr<DeviceCall>> PrepareGraph(const Library& library, const CallGraph& call,
                                                 const void* context) {
  WEFT_TRY(CudaObject handle, HandleFor(library, context));
  WEFT_TRY(const Descriptor graph, NewGraph(library, handle.get(), call.operations));
  WEFT_TRY(auto plans, PlansFor(library, graph, {.handle = handle.get()}, call.tf32, kMostWays));
  return std::unique_ptr<DeviceCall>(
      new Planned(library, std::move(handle), std::move(plans), call.ids));
}

Status CheckGraph(const Library& library, const CallGraph& call, Isa isa) {
  WEFT_TRY(const Where where, Elsewhere(library, isa));
  WEFT_TRY(const Descriptor graph, NewGraph(library, nullptr, call.operations));
  return PlansFor(library, graph, where, call.tf32, 1).status();
}

}  // namespace weft::fallback::cudnn
