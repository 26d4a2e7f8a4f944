#include "tc_lang/bind_types.h"

#include <algorithm>

namespace weft::tc {
namespace {

Dtype IntegerOf(bool is_signed, int64_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? Dtype::kI8 : Dtype::kU8;
    case 2:
      return is_signed ? Dtype::kI16 : Dtype::kU16;
    case 4:
      return is_signed ? Dtype::kI32 : Dtype::kU32;
    default:
      return is_signed ? Dtype::kI64 : Dtype::kU64;
  }
}

}  // namespace

std::optional<Dtype> JoinTypes(Dtype a, Dtype b) {
  const auto arithmetic = [](Dtype t) { return IsFloat(t) || IsInteger(t); };
  if (!arithmetic(a) || !arithmetic(b)) return std::nullopt;
  if (a == b) return SharesBytes(a) ? ComputeType(a) : a;
  if (IsFloat(a) && IsFloat(b)) {
    if (IsHalf(a) && IsHalf(b)) return Dtype::kF32;
    return SizeBytes(a) > SizeBytes(b) ? a : b;
  }
  if (IsFloat(a)) return a;
  if (IsFloat(b)) return b;
  const bool is_signed = KindOf(a) == DtypeKind::kSigned || KindOf(b) == DtypeKind::kSigned;
  return IntegerOf(is_signed, std::max(SizeBytes(a), SizeBytes(b)));
}

bool MayStore(Dtype target, Dtype value) {
  if (target == value) return true;
  return JoinTypes(target, value) == target;
}

}  // namespace weft::tc
