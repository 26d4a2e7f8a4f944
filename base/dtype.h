// Element types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

enum class Dtype : uint8_t {
#define WEFT_DTYPE(name, text, bits, kind, onnx) k##name,
#include "base/dtype.def"
#undef WEFT_DTYPE
};

enum class DtypeKind : uint8_t { kBool, kUnsigned, kSigned, kFloat, kText, kCode };

std::string_view DtypeName(Dtype dtype);                 // "f32"
std::optional<Dtype> ParseDtype(std::string_view name);  // the inverse
std::optional<Dtype> DtypeFromOnnx(int32_t data_type);   // TensorProto.DataType
int32_t DtypeToOnnx(Dtype dtype);
DtypeKind KindOf(Dtype dtype);
int64_t Bits(Dtype dtype);       // of one element; 0 for strings
int64_t SizeBytes(Dtype dtype);  // of one element, rounded up; 0 for strings
// Of `elems` elements side by side. Those of four bits lie two in a byte, the first in its low
// half; what is left of a last byte is 0. (ONNX IR, "TensorProto", int32_data and raw_data.)
int64_t StorageBytes(Dtype dtype, int64_t elems);
// Whether several elements share a byte, so that none has an address of its own.
inline bool SharesBytes(Dtype dtype) { return Bits(dtype) > 0 && Bits(dtype) < 8; }

inline bool IsCode(Dtype dtype) { return KindOf(dtype) == DtypeKind::kCode; }
int64_t CodeBits(Dtype dtype);  // that mean something: of f4e2m1 four; Bits of all others
// The integers that a code's bytes are; others as they are.
inline Dtype CodeStorage(Dtype dtype) {
  return !IsCode(dtype) ? dtype : dtype == Dtype::kI2 ? Dtype::kI8 : Dtype::kU8;
}

inline bool IsHalf(Dtype dtype) { return dtype == Dtype::kF16 || dtype == Dtype::kBF16; }
inline bool IsFloat(Dtype dtype) { return KindOf(dtype) == DtypeKind::kFloat; }
inline bool IsInteger(Dtype dtype) {
  return KindOf(dtype) == DtypeKind::kUnsigned || KindOf(dtype) == DtypeKind::kSigned;
}

}  // namespace weft
