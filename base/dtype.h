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

enum class DtypeKind : uint8_t { kBool, kUnsigned, kSigned, kFloat, kText };

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

inline bool IsFloat(Dtype dtype) { return KindOf(dtype) == DtypeKind::kFloat; }
inline bool IsInteger(Dtype dtype) {
  return KindOf(dtype) == DtypeKind::kUnsigned || KindOf(dtype) == DtypeKind::kSigned;
}

}  // namespace weft
