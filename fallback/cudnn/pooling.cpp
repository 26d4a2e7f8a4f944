#include "fallback/pooling.h"

#include <fmt/format.h>

#include "fallback/cudnn/calls.h"

namespace weft::fallback::cudnn {
namespace {

enum Id : int64_t { kX = 1, kY };

int ModeOf(PoolingKind kind) {
  switch (kind) {
    case PoolingKind::kMax:
      return kMaxPool;
    case PoolingKind::kAverageWithPadding:
      return kAverageWithPadding;
    case PoolingKind::kAverageWithoutPadding:
      break;
  }
  return kAverageWithoutPadding;
}

}  // namespace

Result<CallGraph> PoolingGraph(const Library& library, const LibraryCall& call) {
  const auto read = PoolingOf(call);
  if (!read.yes())
    return Unsupported(fmt::format("no pooling of cuDNN's: {}", read.refusal().detail))
        .At("call cudnn." + call.op);
  const Pooling& p = *read;
  WEFT_TRY(Descriptor how, Descriptor::New(library, kResample));
  WEFT_TRY(how.SetEnum(kResampleMode, kTypeResampleMode, ModeOf(p.kind)));
  WEFT_TRY(how.SetEnum(kResamplePrecision, kTypeDataType, kFloat));
  WEFT_TRY(how.SetInt(kResampleSpatialDims, static_cast<int64_t>(p.window.size())));
  WEFT_TRY(how.SetInts(kResampleWindow, p.window));
  WEFT_TRY(how.SetInts(kResampleStrides, p.strides));
  WEFT_TRY(how.SetInts(kResamplePadsBefore, p.before));
  WEFT_TRY(how.SetInts(kResamplePadsAfter, p.after));
  WEFT_TRY(how.SetEnum(kResampleNan, kTypeNanPropagation, kPropagatesNan));
  WEFT_TRY(how.SetEnum(kResamplePadding, kTypePaddingMode,
                       p.kind == PoolingKind::kMax ? kLowestPad : kZeroPad));
  WEFT_TRY(how.Finalize());
  WEFT_TRY(const Descriptor x, NewTensor(library, kX, p.x));
  WEFT_TRY(const Descriptor y, NewTensor(library, kY, p.y));
  WEFT_TRY(Descriptor operation, Descriptor::New(library, kOperationResample));
  const double one = 1, zero = 0;
  WEFT_TRY(operation.SetDescriptor(kPoolX, x));
  WEFT_TRY(operation.SetDescriptor(kPoolY, y));
  WEFT_TRY(operation.SetDescriptor(kPoolResample, how));
  WEFT_TRY(operation.Set(kPoolAlpha, kTypeDouble, 1, &one));
  WEFT_TRY(operation.Set(kPoolBeta, kTypeDouble, 1, &zero));
  WEFT_TRY(operation.Finalize());
  CallGraph graph{.ids = {kX, kY}};
  graph.operations.push_back(std::move(operation));
  return graph;
}

}  // namespace weft::fallback::cudnn
