#include "graph/rewrites/quantization.h"

namespace weft::graph {

std::optional<Quantization> QuantizationOf(const Graph& graph, const Node& node, ValueId integers,
                                           ValueId real) {
  const ValueId scale = InputAt(node, 1), zero = InputAt(node, 2);
  const auto dtype = graph[integers].dtype;
  const auto s = ScalarOf(graph, scale), z = zero.valid() ? ScalarOf(graph, zero) : 0;
  const bool is_small =
      dtype == Dtype::kU8 || dtype == Dtype::kI8 || dtype == Dtype::kU16 || dtype == Dtype::kI16;
  const int64_t precision = IntAttr(node, "precision", 0);
  const bool is_f32 = graph[scale].dtype == Dtype::kF32 && graph[real].dtype == Dtype::kF32 &&
                      (precision == 0 || precision == DtypeToOnnx(Dtype::kF32));
  if (!is_small || !is_f32 || !s || !z || *s < 0x1p-100 || *s > 0x1p100) return std::nullopt;
  return Quantization{*dtype, *s, *z};
}

}  // namespace weft::graph
