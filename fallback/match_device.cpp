#include "fallback/contraction.h"
#include "fallback/match_internal.h"

namespace weft::fallback {

No TakesOnDevice(const LibraryCall& call) {
  const auto refusal = [](const auto& form) -> No { return form.yes() ? No() : form.refusal(); };
  return call.library == Library::kCublas ? refusal(ProductOf(call)) : refusal(ConvolutionOf(call));
}

}  // namespace weft::fallback
