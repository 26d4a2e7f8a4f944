// com.microsoft::MatMulNBits, onnxruntime's product with weights of few bits (ContribOperators.md),
// in operators of ONNX: DequantizeLinear of a constant [K, N], and MatMul.
//
// Its weights are [N, blocks, bytes of a block], blocks of K elements from the low bits of a byte
// up; scales are [N, blocks], zero points likewise, with rows that end with a whole byte.
#include <fmt/format.h>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

struct Sizes {
  int64_t k, n, bits, block, blocks;
};

Result<Sizes> SizesOf(const Node& node) {
  Sizes s{IntAttr(node, "K", 0), IntAttr(node, "N", 0), IntAttr(node, "bits", 4),
          IntAttr(node, "block_size", 0), 0};
  if (s.bits != 4 && s.bits != 8)
    return Unsupported(
        fmt::format("weights of {} bits are not supported, only of 4 and 8", s.bits));
  constexpr int64_t kMost = int64_t{1} << 31;
  if (s.k < 1 || s.n < 1 || s.k > kMost || s.n > kMost)
    return Invalid(fmt::format("K is {} and N is {}, expected sizes of a matrix", s.k, s.n));
  if (s.block < 16 || s.block > kMost || (s.block & (s.block - 1)) != 0)
    return Invalid(fmt::format("block_size is {}, expected a power of two, 16 or more", s.block));
  s.blocks = (s.k + s.block - 1) / s.block;
  return s;
}

Result<const Tensor*> ConstantOf(const Expansion& e, size_t i, std::string_view what, Dtype dtype,
                                 int64_t elems) {
  if (!e.Has(i)) return Invalid(fmt::format("input {}, the {}, is absent", i, what));
  const Tensor* constant = e.ConstantIn(i);
  if (constant == nullptr)
    return Unsupported(fmt::format("{} that are computed are not supported", what));
  const Tensor& t = *constant;
  if (t.dtype() != dtype)
    return Unsupported(fmt::format("{} of type {} are not supported, only of {}", what,
                                   DtypeName(t.dtype()), DtypeName(dtype)));
  if (t.elems() != elems)
    return Invalid(
        fmt::format("found {} bytes or numbers of {}, expected {}", t.elems(), what, elems));
  return &t;
}

// [rows, columns] of unsigned numbers, each row packed on its own into so many bytes, as [columns,
// rows].
Tensor Transposed(const Tensor& packed, int64_t bits, int64_t rows, int64_t columns,
                  int64_t row_bytes) {
  Tensor out(bits == 4 ? Dtype::kU4 : Dtype::kU8, {columns, rows});
  void* to = out.mutable_data();
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      const uint8_t* row = packed.as<uint8_t>() + i * row_bytes;
      if (bits == 4)
        weft::SetNibble(to, j * rows + i, weft::NibbleAt(row, j));
      else
        static_cast<uint8_t*>(to)[j * rows + i] = row[j];
    }
  }
  return out;
}

}  // namespace

Status ExpandMatMulNBits(Expansion& e) {
  const Node& node = e.node();
  WEFT_TRY(const Sizes s, SizesOf(node));
  WEFT_TRY(e.Counts(1, 6));
  WEFT_TRY(e.Absent(4, "an order of the groups (g_idx)"));
  const int64_t row_bytes = s.blocks * (s.block * s.bits / 8),
                zero_bytes = (s.blocks * s.bits + 7) / 8;
  WEFT_TRY(const Tensor* w, ConstantOf(e, 1, "weights", Dtype::kU8, s.n * row_bytes));
  WEFT_TRY(const Tensor* scale, ConstantOf(e, 2, "scales", Dtype::kF32, s.n * s.blocks));
  Tensor scales(Dtype::kF32, {s.blocks, s.n});
  for (int64_t i = 0; i < s.n * s.blocks; ++i)
    scales.mutable_as<float>()[i % s.blocks * s.n + i / s.blocks] = scale->as<float>()[i];
  Tensor zeros(s.bits == 4 ? Dtype::kU4 : Dtype::kU8, {s.blocks, s.n});
  if (e.Has(3)) {
    WEFT_TRY(const Tensor* zero, ConstantOf(e, 3, "zero points", Dtype::kU8, s.n * zero_bytes));
    zeros = Transposed(*zero, s.bits, s.n, s.blocks, zero_bytes);
  } else {
    for (int64_t i = 0; i < zeros.elems(); ++i) SetElemInt(zeros, i, s.bits == 4 ? 8 : 128);
  }
  Tensor weights = Transposed(*w, s.bits, s.n, s.k, row_bytes);
  const std::vector<ValueId> operands = {e.Constant("weights", std::move(weights)),
                                         e.Constant("scales", std::move(scales)),
                                         e.Constant("zeros", std::move(zeros))};
  WEFT_TRY(const ValueId whole, e.Make(Op::kDequantizeLinear, operands, "dequantized",
                                       {{"axis", int64_t{0}}, {"block_size", s.block}}));
  if (!e.Has(5)) return e.Finish(Op::kMatMul, {e.In(0), whole});
  WEFT_TRY(const ValueId product, e.Make(Op::kMatMul, {e.In(0), whole}, "product"));
  return e.Finish(Op::kAdd, {product, e.In(5)});
}

}  // namespace weft::graph
