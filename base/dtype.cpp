#include "base/dtype.h"

#include <array>

namespace weft {
namespace {

struct Row {
  std::string_view name;
  int64_t bits;
  DtypeKind kind;
  int32_t onnx;
};

constexpr auto kRows = std::to_array<Row>({
#define WEFT_DTYPE(name, text, bits, kind, onnx) {text, bits, DtypeKind::k##kind, onnx},
#include "base/dtype.def"
#undef WEFT_DTYPE
});

constexpr const Row& RowOf(Dtype dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view DtypeName(Dtype dtype) { return RowOf(dtype).name; }
DtypeKind KindOf(Dtype dtype) { return RowOf(dtype).kind; }
int64_t Bits(Dtype dtype) { return RowOf(dtype).bits; }
int64_t SizeBytes(Dtype dtype) { return (RowOf(dtype).bits + 7) / 8; }
int64_t StorageBytes(Dtype dtype, int64_t elems) {
  return SharesBytes(dtype) ? elems / 2 + elems % 2 : elems * SizeBytes(dtype);
}
int64_t CodeBits(Dtype dtype) {
  if (dtype == Dtype::kU2 || dtype == Dtype::kI2) return 2;
  return dtype == Dtype::kF4E2M1 ? 4 : Bits(dtype);
}
int32_t DtypeToOnnx(Dtype dtype) { return RowOf(dtype).onnx; }

std::optional<Dtype> ParseDtype(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::optional<Dtype> DtypeFromOnnx(int32_t data_type) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].onnx == data_type) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

}  // namespace weft
