// Of com.microsoft, onnxruntime's products with weights of few bits and look-ups in tables of such
// (ContribOperators.md), in operators of ONNX: DequantizeLinear of a constant, and MatMul or
// Gather.
//
// The weights of MatMulNBits are [N, blocks, bytes of a block], blocks of K elements from the low
// bits of a byte up; scales are [N, blocks], zero points likewise, with rows that end with a whole
// byte.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

struct Sizes {
  int64_t k, n, bits, block, blocks;
};

Result<Sizes> SizesOf(const Node& node) {
  Sizes s{IntAttr(node, "K", 0), IntAttr(node, "N", 0), IntAttr(node, "bits", 4),
          IntAttr(node, "block_size", 0), 0};
  if (s.bits != 2 && s.bits != 4 && s.bits != 8)
    return Unsupported(
        fmt::format("weights of {} bits are not supported, only of 2, 4 and 8", s.bits));
  constexpr int64_t kMost = int64_t{1} << 31;
  if (s.k < 1 || s.n < 1 || s.k > kMost || s.n > kMost)
    return Invalid(fmt::format("K is {} and N is {}, expected sizes of a matrix", s.k, s.n));
  if (s.block < 16 || s.block > kMost || (s.block & (s.block - 1)) != 0)
    return Invalid(fmt::format("block_size is {}, expected a power of two, 16 or more", s.block));
  s.blocks = (s.k + s.block - 1) / s.block;
  return s;
}

// Of type `dtype`, or of any that floats have.
Result<const Tensor*> ConstantOf(const Expansion& e, size_t i, std::string_view what,
                                 std::optional<Dtype> dtype, int64_t elems) {
  if (!e.Has(i)) return Invalid(fmt::format("input {}, the {}, is absent", i, what));
  const Tensor* constant = e.ConstantIn(i);
  if (constant == nullptr)
    return Unsupported(fmt::format("{} that are computed are not supported", what));
  const Tensor& t = *constant;
  if (dtype ? t.dtype() != *dtype : !IsFloat(t.dtype()))
    return Unsupported(fmt::format("{} of type {} are not supported, only of {}", what,
                                   DtypeName(t.dtype()), dtype ? DtypeName(*dtype) : "floats"));
  if (t.elems() != elems)
    return Invalid(
        fmt::format("found {} bytes or numbers of {}, expected {}", t.elems(), what, elems));
  return &t;
}

// Unsigned number i of those that lie packed in `row`, from the low bits of a byte up.
uint8_t PackedAt(const uint8_t* row, int64_t bits, int64_t i) {
  return static_cast<uint8_t>(row[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1));
}

// The type that holds unsigned numbers of so many bits, and how it stores one.
Dtype Holding(int64_t bits) { return bits <= 4 ? Dtype::kU4 : Dtype::kU8; }
void Store(uint8_t* to, int64_t bits, int64_t i, uint8_t number) {
  if (bits <= 4)
    weft::SetNibble(to, i, number);
  else
    to[i] = number;
}

// [rows, columns] of unsigned numbers, each row packed on its own into so many bytes, as [columns,
// rows].
Tensor Transposed(const Tensor& packed, int64_t bits, int64_t rows, int64_t columns,
                  int64_t row_bytes) {
  Tensor out(Holding(bits), {columns, rows});
  auto* to = static_cast<uint8_t*>(out.mutable_data());
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i)
      Store(to, bits, j * rows + i, PackedAt(packed.as<uint8_t>() + i * row_bytes, bits, j));
  }
  return out;
}

// [rows, columns] of numbers, as [columns, rows].
Tensor Turned(const Tensor& t, int64_t rows, int64_t columns) {
  Tensor out(t.dtype(), {columns, rows});
  for (int64_t i = 0; i < rows * columns; ++i)
    SetElem(out, i % columns * rows + i / columns, ElemAsDouble(t, i));
  return out;
}

// What the zero point is where none is given: half the range.
constexpr int64_t Middle(int64_t bits) { return int64_t{1} << (bits - 1); }

// By row, the block whose scale and zero point it has (g_idx); no list if that is its own for all.
Result<std::vector<int64_t>> OtherBlocks(const Expansion& e, const Sizes& s) {
  if (!e.Has(4)) return std::vector<int64_t>();
  auto order = e.ConstantInts(4);
  if (!order) return Unsupported("groups (g_idx) that are computed are not supported");
  if (std::ssize(*order) != s.k && std::ssize(*order) != s.blocks * s.block)
    return Invalid(fmt::format("found groups (g_idx) of {} rows, expected {}", order->size(), s.k));
  bool own = true;
  for (int64_t k = 0; k < s.k; ++k) {
    const int64_t block = (*order)[static_cast<size_t>(k)];
    if (block < 0 || block >= s.blocks)
      return Invalid(fmt::format("row {} is of group {}, there are {}", k, block, s.blocks));
    own &= block == k / s.block;
  }
  if (own) order->clear();
  return *std::move(order);
}

}  // namespace

Status ExpandMatMulNBits(Expansion& e) {
  const Node& node = e.node();
  WEFT_TRY(const Sizes s, SizesOf(node));
  WEFT_TRY(e.Counts(1, 6));
  const int64_t row_bytes = s.blocks * (s.block * s.bits / 8),
                zero_bytes = (s.blocks * s.bits + 7) / 8;
  WEFT_TRY(const Tensor* w, ConstantOf(e, 1, "weights", Dtype::kU8, s.n * row_bytes));
  WEFT_TRY(const Tensor* scale, ConstantOf(e, 2, "scales", std::nullopt, s.n * s.blocks));
  Tensor scales = Turned(*scale, s.n, s.blocks);
  Tensor weights = Transposed(*w, s.bits, s.n, s.k, row_bytes);
  Tensor zeros(Holding(s.bits), {s.blocks, s.n});
  for (int64_t i = 0; i < zeros.elems(); ++i) SetElemInt(zeros, i, Middle(s.bits));
  if (const Tensor* given = e.ConstantIn(3); given != nullptr && IsFloat(given->dtype())) {
    WEFT_TRY(const Tensor* zero, ConstantOf(e, 3, "zero points", std::nullopt, s.n * s.blocks));
    zeros = Turned(*zero, s.n, s.blocks);
  } else if (e.Has(3)) {
    WEFT_TRY(const Tensor* zero, ConstantOf(e, 3, "zero points", Dtype::kU8, s.n * zero_bytes));
    zeros = Transposed(*zero, s.bits, s.n, s.blocks, zero_bytes);
  }
  WEFT_TRY(const auto others, OtherBlocks(e, s));
  ValueId whole;
  if (!others.empty() || IsFloat(zeros.dtype())) {  // DequantizeLinear takes no such
    Tensor real(scale->dtype(), {s.k, s.n});
    for (int64_t i = 0; i < s.k * s.n; ++i) {
      const int64_t row = i / s.n,
                    block = others.empty() ? row / s.block : others[static_cast<size_t>(row)];
      const int64_t at = block * s.n + i % s.n;
      SetElem(real, i,
              (ElemAsDouble(weights, i) - ElemAsDouble(zeros, at)) * ElemAsDouble(scales, at));
    }
    whole = e.Constant("dequantized", std::move(real));
  } else {
    const std::vector<ValueId> operands = {e.Constant("weights", std::move(weights)),
                                           e.Constant("scales", std::move(scales)),
                                           e.Constant("zeros", std::move(zeros))};
    WEFT_TRY(whole, e.Make(Op::kDequantizeLinear, operands, "dequantized",
                           {{"axis", int64_t{0}}, {"block_size", s.block}}));
  }
  if (!e.Has(5)) return e.Finish(Op::kMatMul, {e.In(0), whole});
  WEFT_TRY(const ValueId product, e.Make(Op::kMatMul, {e.In(0), whole}, "product"));
  return e.Finish(Op::kAdd, {product, e.In(5)});
}

// Scales are [matrices, rows, blocks], or [matrices, rows] where a block is a row; zero points too,
// with rows of blocks, or matrices of rows, that end with a whole byte.
Result<ValueId> DequantizedRows(Expansion& e, const PackedRows& packed) {
  const int64_t bits = packed.bits;
  if (bits != 2 && bits != 4 && bits != 8)
    return Unsupported(
        fmt::format("weights of {} bits are not supported, only of 2, 4 and 8", bits));
  const auto constant = [&](size_t i, std::string_view what) -> Result<const Tensor*> {
    if (const Tensor* t = e.ConstantIn(i)) return t;
    return Unsupported(fmt::format("{} that are absent or computed are not supported", what));
  };
  WEFT_TRY(const Tensor* w, constant(packed.weights, "weights"));
  WEFT_TRY(const Tensor* scale, constant(packed.scales, "scales"));
  if (w->dtype() != Dtype::kU8 || w->shape().size() != 3 || w->elems() == 0)
    return Invalid(fmt::format("weights are {}{}, expected u8 of rank 3", DtypeName(w->dtype()),
                               weft::Print(w->shape())));
  const int64_t matrices = w->shape()[0], rows = w->shape()[1], row_bytes = w->shape()[2];
  const int64_t columns = row_bytes * 8 / bits;
  const int64_t block = packed.block > 0 ? packed.block : columns;
  const int64_t blocks = (columns + block - 1) / block;
  if (!IsFloat(scale->dtype()) || scale->elems() != matrices * rows * blocks)
    return Invalid(
        fmt::format("found {} scales, expected {}", scale->elems(), matrices * rows * blocks));
  const auto unpacked = [bits](const Tensor& from, Shape shape, int64_t lines, int64_t width,
                               int64_t line_bytes) {
    Tensor out(Holding(bits), std::move(shape));
    auto* to = static_cast<uint8_t*>(out.mutable_data());
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t i = 0; i < width; ++i)
        Store(to, bits, line * width + i,
              PackedAt(from.as<uint8_t>() + line * line_bytes, bits, i));
    }
    return out;
  };
  Tensor zeros(Holding(bits), {matrices, rows, blocks});
  for (int64_t i = 0; i < zeros.elems(); ++i) SetElemInt(zeros, i, Middle(bits));
  if (e.Has(packed.zeros)) {
    const bool by_row = packed.block > 0;
    const int64_t lines = by_row ? matrices * rows : matrices, width = by_row ? blocks : rows;
    const int64_t line_bytes = (width * bits + 7) / 8;
    WEFT_TRY(const Tensor* zero,
             ConstantOf(e, packed.zeros, "zero points", Dtype::kU8, lines * line_bytes));
    zeros = unpacked(*zero, {matrices, rows, blocks}, lines, width, line_bytes);
  }
  Tensor scales(scale->dtype(), {matrices, rows, blocks});
  for (int64_t i = 0; i < scales.elems(); ++i) SetElem(scales, i, ElemAsDouble(*scale, i));
  const std::vector<ValueId> operands = {
      e.Constant("weights",
                 unpacked(*w, {matrices, rows, columns}, matrices * rows, columns, row_bytes)),
      e.Constant("scales", std::move(scales)), e.Constant("zeros", std::move(zeros))};
  return e.Make(Op::kDequantizeLinear, operands, "dequantized",
                {{"axis", int64_t{2}}, {"block_size", block}});
}

// Weights [N, K] in a row, two in a byte, the first in its high half: places in a table of 16
// numbers, times the largest of their block (Dettmers et al., QLoRA, appendix E: NF4).
Status ExpandMatMulBnb4(Expansion& e) {
  static constexpr float kNf4[16] = {-1.0F,        -0.69619280F, -0.52507305F, -0.39491749F,
                                     -0.28444138F, -0.18477343F, -0.09105004F, 0.0F,
                                     0.07958030F,  0.16093020F,  0.24611230F,  0.33791524F,
                                     0.44070983F,  0.56261700F,  0.72295684F,  1.0F};
  static constexpr float kFp4[16] = {
      0.0F,  0.00520833F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
      -0.0F, -0.00520833F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
  const Node& node = e.node();
  WEFT_TRY(e.Counts(3, 3));
  WEFT_TRY(const Sizes s, SizesOf(node));
  const int64_t type = IntAttr(node, "quant_type", 0), count = s.k * s.n;
  if (type != 0 && type != 1)
    return Unsupported(fmt::format("weights of type {} are not supported, only 0 and 1", type));
  WEFT_TRY(const Tensor* w, ConstantOf(e, 1, "weights", Dtype::kU8, (count + 1) / 2));
  WEFT_TRY(const Tensor* most,
           ConstantOf(e, 2, "scales", std::nullopt, (count + s.block - 1) / s.block));
  const bool turned = IntAttr(node, "transB", 1) != 0;
  Tensor real(most->dtype(), turned ? Shape{s.k, s.n} : Shape{s.n, s.k});
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t byte = w->as<uint8_t>()[i / 2];
    const int place = i % 2 == 0 ? byte >> 4 : byte & 15;
    const double number = (type == 1 ? kNf4 : kFp4)[place];
    SetElem(real, turned ? i % s.k * s.n + i / s.k : i, number * ElemAsDouble(*most, i / s.block));
  }
  return e.Finish(Op::kMatMul, {e.In(0), e.Constant("dequantized", std::move(real))});
}

// A table in blocks along one axis, of which rows are taken along another. Bytes may hold two
// numbers each, side by side along the last axis.
Status ExpandGatherBlockQuantized(Expansion& e) {
  WEFT_TRY(e.Counts(3, 4));
  const Node& node = e.node();
  const int64_t bits = IntAttr(node, "bits", 4);
  const Value& data = e.Known(e.In(0));
  if (!data.shape || !data.dtype || data.shape->empty() || !data.shape->back().IsConstant())
    return Unsupported("a table of no known shape is not supported");
  const auto rank = static_cast<int64_t>(data.shape->size());
  const int64_t along = IntAttr(node, "quantize_axis", 1), from = IntAttr(node, "gather_axis", 0);
  const bool bytes = *data.dtype == Dtype::kU8;
  if (bytes && bits != 4 && bits != 8)
    return Unsupported(fmt::format("numbers of {} bits are not supported, only of 4 and 8", bits));
  const auto blocks = StaticShape(e.Known(e.In(2)));
  if (!blocks || blocks->empty()) return Unsupported("scales of no known shape are not supported");
  // Two numbers of a byte become neighbours; a row of `columns`, if they are odd, ends with half a
  // byte.
  const auto unpacked = [&](size_t i, std::string_view what, int64_t columns) -> Result<ValueId> {
    if (!bytes || bits == 8 || !e.Has(i)) return e.In(i);
    const Tensor* packed = e.ConstantIn(i);
    if (packed == nullptr || packed->dtype() != Dtype::kU8)
      return Unsupported(fmt::format("{} that are no constant bytes are not supported", what));
    Shape shape = packed->shape();
    if (shape.empty() || shape.back() != (columns + 1) / 2)
      return Invalid(
          fmt::format("{} of shape {} hold no rows of {}", what, weft::Print(shape), columns));
    const int64_t row_bytes = shape.back(),
                  rows = packed->elems() / std::max<int64_t>(row_bytes, 1);
    shape.back() = columns;
    Tensor out(Dtype::kU4, std::move(shape));
    auto* to = static_cast<uint8_t*>(out.mutable_data());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t k = 0; k < columns; ++k)
        Store(to, 4, row * columns + k, PackedAt(packed->as<uint8_t>() + row * row_bytes, 4, k));
    }
    return e.Constant(what, std::move(out));
  };
  const int64_t width = data.shape->back().value();
  WEFT_TRY(const ValueId table, unpacked(0, "numbers", 2 * width));
  WEFT_TRY(ValueId zeros, unpacked(3, "zero points", blocks->back()));
  if (!zeros.valid() && bytes) {
    if (e.ConstantIn(2) == nullptr)  // anyone may say that a value is large
      return Unsupported("scales that are no constant, and no zero points, are not supported");
    Tensor middle(Holding(bits), *blocks);
    for (int64_t k = 0; k < middle.elems(); ++k) SetElemInt(middle, k, Middle(bits));
    zeros = e.Constant("middle", std::move(middle));
  }
  Formula f(e);
  const ValueId whole = f.Do(Op::kDequantizeLinear, {table, e.In(2), zeros},
                             {{"axis", along < 0 ? along + rank : along},
                              {"block_size", IntAttr(node, "block_size", 128)}});
  WEFT_TRY(f.status());
  return e.Finish(Op::kGather, {whole, e.In(1)}, {{"axis", from}});
}

}  // namespace weft::graph
