// com.microsoft::MatMulNBits, onnxruntime's product with weights of few bits (ContribOperators.md),
// in operators of ONNX: DequantizeLinear of a constant [K, N], and MatMul.
//
// Its weights are [N, blocks, bytes of a block], blocks of K elements from the low bits of a byte
// up; scales are [N, blocks], zero points likewise, with rows that end with a whole byte.
#include <fmt/format.h>

#include "graph/onnx/builder.h"

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

Result<const Tensor*> ConstantOf(const Graph& graph, const Node& node, size_t i,
                                 std::string_view what, Dtype dtype, int64_t elems) {
  const ValueId id = InputAt(node, i);
  if (!id.valid()) return Invalid(fmt::format("input {}, the {}, is absent", i, what));
  const Value& value = graph[id];
  if (value.kind != ValueKind::kConstant)
    return Unsupported(fmt::format("{} that are computed are not supported", what));
  const Tensor& t = value.constant;
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

Status AppendMatMulNBits(Draft& draft, Node node) {
  WEFT_TRY(const Sizes s, SizesOf(node));
  if (node.inputs.empty() || !node.inputs[0].valid()) return Invalid("input 0 (A) is absent");
  if (node.outputs.size() != 1 || !node.outputs[0].valid())
    return Invalid(fmt::format("found {} outputs, expected 1", node.outputs.size()));
  if (node.inputs.size() > 6)
    return Invalid(fmt::format("found {} inputs, expected at most 6", node.inputs.size()));
  if (InputAt(node, 4).valid())
    return Unsupported("an order of the groups (g_idx) is not supported");
  Graph& graph = draft.graph;
  const int64_t row_bytes = s.blocks * (s.block * s.bits / 8),
                zero_bytes = (s.blocks * s.bits + 7) / 8;
  WEFT_TRY(const Tensor* w, ConstantOf(graph, node, 1, "weights", Dtype::kU8, s.n * row_bytes));
  WEFT_TRY(const Tensor* scale, ConstantOf(graph, node, 2, "scales", Dtype::kF32, s.n * s.blocks));
  const std::string near = graph[node.outputs[0]].name;
  const auto constant = [&](std::string_view what, Tensor t) {
    return AddConstant(graph, draft.names.Fresh(fmt::format("{}_{}", near, what)), std::move(t));
  };
  Tensor scales(Dtype::kF32, {s.blocks, s.n});
  for (int64_t i = 0; i < s.n * s.blocks; ++i)
    scales.mutable_as<float>()[i % s.blocks * s.n + i / s.blocks] = scale->as<float>()[i];
  Tensor zeros(s.bits == 4 ? Dtype::kU4 : Dtype::kU8, {s.blocks, s.n});
  if (InputAt(node, 3).valid()) {
    WEFT_TRY(const Tensor* zero,
             ConstantOf(graph, node, 3, "zero points", Dtype::kU8, s.n * zero_bytes));
    zeros = Transposed(*zero, s.bits, s.n, s.blocks, zero_bytes);
  } else {
    for (int64_t i = 0; i < zeros.elems(); ++i) SetElemInt(zeros, i, s.bits == 4 ? 8 : 128);
  }
  Tensor weights = Transposed(*w, s.bits, s.n, s.k, row_bytes);
  Node dequantize{
      .op = Op::kDequantizeLinear,
      .op_name = "DequantizeLinear",
      .name = node.name,
      .inputs = {constant("weights", std::move(weights)), constant("scales", std::move(scales)),
                 constant("zeros", std::move(zeros))},
      .attributes = {{"axis", int64_t{0}}, {"block_size", s.block}}};
  const ValueId whole = AddComputed(graph, draft.names.Fresh(near + "_dequantized"));
  dequantize.outputs = {whole};
  WEFT_TRY(AppendUpgraded(draft, std::move(dequantize), kNewestOpset));
  const ValueId bias = InputAt(node, 5);
  Node product{.op = Op::kMatMul,
               .op_name = "MatMul",
               .name = node.name,
               .inputs = {node.inputs[0], whole},
               .outputs = node.outputs};
  if (!bias.valid()) return AppendUpgraded(draft, std::move(product), kNewestOpset);
  const ValueId unbiased = AddComputed(graph, draft.names.Fresh(near + "_product"));
  product.outputs = {unbiased};
  WEFT_TRY(AppendUpgraded(draft, std::move(product), kNewestOpset));
  Node sum{.op = Op::kAdd,
           .op_name = "Add",
           .name = node.name,
           .inputs = {unbiased, bias},
           .outputs = node.outputs};
  return AppendUpgraded(draft, std::move(sum), kNewestOpset);
}

}  // namespace weft::graph
