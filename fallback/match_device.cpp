#include "fallback/contraction.h"
#include "fallback/match_internal.h"
#include "fallback/pooling.h"

namespace weft::fallback {

No TakesOnDevice(const LibraryCall& call) {
  const auto refusal = [](const auto& form) -> No { return form.yes() ? No() : form.refusal(); };
  if (call.library == Library::kCublas) return refusal(ProductOf(call));
  return call.op == "pooling" ? refusal(PoolingOf(call)) : refusal(ConvolutionOf(call));
}

}  // namespace weft::fallback
