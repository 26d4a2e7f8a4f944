// The type rules of the language; see docs/language.md, "Types".
#pragma once

#include <optional>

#include "base/nibbles.h"

namespace weft::tc {

// In which type a value of this type is computed with: 16-bit floats in float32, integers of four
// bits in a byte.
inline Dtype ComputeType(Dtype dtype) { return IsHalf(dtype) ? Dtype::kF32 : WidenedType(dtype); }
// The type of `a + b`, at least a byte; none with bool, which has no arithmetic.
std::optional<Dtype> JoinTypes(Dtype a, Dtype b);
// Whether a value may be stored without a cast: nothing is lost but what int to float rounds.
bool MayStore(Dtype target, Dtype value);

}  // namespace weft::tc
