#include "fallback/contraction.h"

#include <fmt/format.h>

#include <vector>

#include "fallback/cudnn/calls.h"

namespace weft::fallback::cudnn {
namespace {

// What tensors are called in a graph of operations.
enum Id : int64_t { kX = 1, kW, kY, kAddend, kBias, kInner };

// The graph that stands for a convolution: each operation's result is the next one's operand, and
// stays on the chip but for the last.
class GraphBuilder {
 public:
  GraphBuilder(const Library& library, const Convolution& convolution)
      : library_(library), c_(convolution) {}

  Result<std::vector<Descriptor>> Build() {
    left_ = 1 + (c_.addend ? 1 : 0) + (c_.bias ? 1 : 0) + (c_.relu ? 1 : 0);
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
    if (c_.relu) WEFT_TRY(AddPointwise(kReluForward, nullptr));
    return std::move(operations_);
  }

 private:
  Result<Descriptor> Tensor(int64_t id, const Shape& shape, bool is_virtual = false) {
    return NewTensor(library_, id, shape, is_virtual);
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

}  // namespace

Result<CallGraph> ConvolutionGraph(const Library& library, const LibraryCall& call) {
  const auto convolution = ConvolutionOf(call);
  if (!convolution.yes())
    return Unsupported(fmt::format("no convolution of cuDNN's: {}", convolution.refusal().detail))
        .At("call cudnn." + call.op);
  CallGraph graph;
  WEFT_TRY(graph.operations, GraphBuilder(library, *convolution).Build());
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::string& role = call.inputs[i].role;
    graph.ids.push_back(role == "src"            ? kX
                        : role == "weights"      ? kW
                        : i == convolution->bias ? kBias
                                                 : kAddend);
  }
  graph.ids.push_back(kY);
  return graph;
}

}  // namespace weft::fallback::cudnn
