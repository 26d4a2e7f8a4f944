// Convolutions by cuDNN's graph interface, "Graph API: supported graph patterns".
#include "fallback/cudnn/convolution.h"

#include <fmt/format.h>

#include <vector>

#include "base/layout.h"
#include "fallback/contraction.h"
#include "fallback/cudnn/plans.h"

namespace weft::fallback::cudnn {
namespace {

constexpr size_t kMostWays = 8;

// What tensors are called in a graph of operations.
enum Id : int64_t { kX = 1, kW, kY, kAddend, kBias, kInner };

// The graph that stands for a convolution: each operation's result is the next one's operand, and
// stays on the chip but for the last.
class GraphBuilder {
 public:
  GraphBuilder(const Library& library, const Convolution& convolution)
      : library_(library), c_(convolution) {}

  // `handle`: null for a device that is described.
  Result<Descriptor> Build(Handle handle) {
    left_ = 1 + (c_.addend ? 1 : 0) + (c_.bias ? 1 : 0) + (c_.activation != Activation::kNone);
    WEFT_TRY(AddConvolution());
    if (c_.addend) {
      WEFT_TRY(const Descriptor z, Tensor(kAddend, c_.y));
      WEFT_TRY(AddPointwise(kAdd, &z));
    }
    if (c_.bias) {
      Shape shape(c_.y.size(), 1);
      shape[1] = c_.y[1];
      WEFT_TRY(const Descriptor bias, Tensor(kBias, shape));
      WEFT_TRY(AddPointwise(kAdd, &bias));
    }
    if (c_.activation != Activation::kNone) WEFT_TRY(AddPointwise(kReluForward, nullptr));
    WEFT_TRY(Descriptor graph, Descriptor::New(library_, kOperationGraph));
    if (handle) WEFT_TRY(graph.SetHandle(kGraphHandle, handle));
    WEFT_TRY(graph.SetDescriptors(kGraphOperations, operations_));
    WEFT_TRY(graph.Finalize());
    return graph;
  }

 private:
  Result<Descriptor> Tensor(int64_t id, const Shape& shape, bool is_virtual = false) {
    constexpr int64_t kAlignment = 16;
    WEFT_TRY(Descriptor t, Descriptor::New(library_, kTensor));
    WEFT_TRY(t.SetEnum(kTensorType, kTypeDataType, kFloat));
    WEFT_TRY(t.SetInts(kTensorDims, shape));
    WEFT_TRY(t.SetInts(kTensorStrides, PhysicalStrides(Layout::Plain(shape.size()), shape)));
    WEFT_TRY(t.SetInt(kTensorId, id));
    WEFT_TRY(t.SetInt(kTensorAlignment, kAlignment));
    if (is_virtual) WEFT_TRY(t.Set(kTensorIsVirtual, kTypeBoolean, 1, &is_virtual));
    WEFT_TRY(t.Finalize());
    return t;
  }

  // Of the next operation.
  Result<Descriptor> NextResult() {
    --left_;
    return left_ > 0 ? Tensor(kInner + left_, c_.y, /*is_virtual=*/true) : Tensor(kY, c_.y);
  }

  Status AddConvolution() {
    WEFT_TRY(Descriptor how, Descriptor::New(library_, kConvolution));
    WEFT_TRY(how.SetInt(kConvolutionSpatialDims, static_cast<int64_t>(c_.strides.size())));
    WEFT_TRY(how.SetEnum(kConvolutionPrecision, kTypeDataType, kFloat));
    WEFT_TRY(how.SetEnum(kConvolutionMode, kTypeConvolutionMode, kCrossCorrelation));
    WEFT_TRY(how.SetInts(kConvolutionStrides, c_.strides));
    WEFT_TRY(how.SetInts(kConvolutionDilations, c_.dilations));
    WEFT_TRY(how.SetInts(kConvolutionPadsBefore, c_.before));
    WEFT_TRY(how.SetInts(kConvolutionPadsAfter, c_.after));
    WEFT_TRY(how.Finalize());
    WEFT_TRY(const Descriptor x, Tensor(kX, c_.x));
    WEFT_TRY(const Descriptor w, Tensor(kW, c_.w));
    WEFT_TRY(result_, NextResult());
    WEFT_TRY(Descriptor operation, Descriptor::New(library_, kOperationConvolution));
    WEFT_TRY(operation.SetDescriptor(kForwardConvolution, how));
    WEFT_TRY(operation.SetDescriptor(kForwardX, x));
    WEFT_TRY(operation.SetDescriptor(kForwardW, w));
    WEFT_TRY(operation.SetDescriptor(kForwardY, result_));
    WEFT_TRY(operation.SetFloat(kForwardAlpha, 1));
    WEFT_TRY(operation.SetFloat(kForwardBeta, 0));
    WEFT_TRY(operation.Finalize());
    operations_.push_back(std::move(operation));
    return {};
  }

  Status AddPointwise(int mode, const Descriptor* other) {
    WEFT_TRY(Descriptor how, Descriptor::New(library_, kPointwise));
    WEFT_TRY(how.SetEnum(kPointwiseMode, kTypePointwiseMode, mode));
    WEFT_TRY(how.SetEnum(kPointwisePrecision, kTypeDataType, kFloat));
    WEFT_TRY(how.Finalize());
    WEFT_TRY(Descriptor result, NextResult());
    WEFT_TRY(Descriptor operation, Descriptor::New(library_, kOperationPointwise));
    WEFT_TRY(operation.SetDescriptor(kApplyPointwise, how));
    WEFT_TRY(operation.SetDescriptor(kApplyX, result_));
    if (other) WEFT_TRY(operation.SetDescriptor(kApplyB, *other));
    WEFT_TRY(operation.SetDescriptor(kApplyY, result));
    WEFT_TRY(operation.Finalize());
    operations_.push_back(std::move(operation));
    result_ = std::move(result);
    return {};
  }

  const Library& library_;
  const Convolution& c_;
  int64_t left_ = 0;  // operations whose result is not described yet
  Descriptor result_;
  std::vector<Descriptor> operations_;
};

Result<CudaObject> HandleFor(const Library& library, const void* context) {
  static CudaHandles handles;
  return handles.Get(context, [&]() -> Result<CudaObject> {
    Handle handle = nullptr;
    WEFT_TRY(Check(library, library.create(&handle), "starting"));
    return CudaObject(handle, library.destroy);
  });
}

Result<Convolution> Read(const LibraryCall& call) {
  const auto convolution = ConvolutionOf(call);
  if (convolution.yes()) return *convolution;
  return Unsupported(fmt::format("no convolution of cuDNN's: {}", convolution.refusal().detail))
      .At("call cudnn." + call.op);
}

class Convolved : public DeviceCall {
 public:
  Convolved(const Library& library, CudaObject handle, std::vector<ExecutionPlan> plans)
      : library_(library), handle_(std::move(handle)), plans_(std::move(plans)) {}

  // Which operand of the call is which tensor.
  void SetOperands(const LibraryCall& call, const Convolution& convolution) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const std::string& role = call.inputs[i].role;
      const Id id = role == "src"           ? kX
                    : role == "weights"     ? kW
                    : i == convolution.bias ? kBias
                                            : kAddend;
      ids_.push_back(id);
    }
    ids_.push_back(kY);
  }

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
                 "a convolution");
  }

 private:
  const Library& library_;
  CudaObject handle_;
  std::vector<ExecutionPlan> plans_;
  std::vector<int64_t> ids_;
};

}  // namespace

Result<std::unique_ptr<DeviceCall>> PrepareConvolution(const LibraryCall& call,
                                                       const void* context) {
  WEFT_TRY(const Convolution convolution, Read(call));
  WEFT_TRY(const Library* library, Load());
  WEFT_TRY(CudaObject handle, HandleFor(*library, context));
  WEFT_TRY(const Descriptor graph, GraphBuilder(*library, convolution).Build(handle.get()));
  WEFT_TRY(auto plans, PlansFor(*library, graph, {.handle = handle.get()}, kMostWays));
  auto prepared = std::make_unique<Convolved>(*library, std::move(handle), std::move(plans));
  prepared->SetOperands(call, convolution);
  return std::unique_ptr<DeviceCall>(std::move(prepared));
}

Status CheckConvolution(const LibraryCall& call, Isa isa) {
  constexpr size_t kDescribesDevices = 90800;
  WEFT_TRY(const Convolution convolution, Read(call));
  WEFT_TRY(const Library* library, Load());
  if (library->version() < kDescribesDevices) return {};
  WEFT_TRY(const Where where, Elsewhere(*library, isa));
  WEFT_TRY(const Descriptor graph, GraphBuilder(*library, convolution).Build(nullptr));
  return PlansFor(*library, graph, where, 1).status();
}

std::string Version() {
  const auto library = Load();
  if (!library.ok()) return {};
  const size_t version = (*library)->version();  // 91900: 9.19.0
  return fmt::format("cudnn {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace weft::fallback::cudnn
