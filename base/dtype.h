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
int64_t SizeBytes(Dtype dtype);  // of one element; 0 for strings

inline bool IsFloat(Dtype dtype) { return KindOf(dtype) == DtypeKind::kFloat; }
inline bool IsInteger(Dtype dtype) {
  return KindOf(dtype) == DtypeKind::kUnsigned || KindOf(dtype) == DtypeKind::kSigned;
}

}  // namespace weft
