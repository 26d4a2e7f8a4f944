// Shapes and element types of every value, from the operators' rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/affine.h"
#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

// Whether inputs of these shapes, in the graph's order, are what it declares: BindShape would take
// each, and none would change what another has.
bool TakesShapes(const Graph& graph, std::span<const Shape> shapes);

// Fixes extents of an input by position: `--shape x=1x3x224x224`. -1 leaves one as it is.
Status BindShape(Graph& graph, std::string_view input, std::span<const int64_t> shape);
// Extents of an input's axis may be lo to hi, both included: `--shape x=1..8x3x224x224`. kUsage if
// they may not, or if the input has no shape that says its rank.
Status BindRange(Graph& graph, std::string_view input, size_t axis, Interval range);
// Fixes a symbol by name: `--dim batch=8`.
Status BindSymbol(Graph& graph, std::string_view symbol, int64_t value);
// Makes a constant of an input: what is bound is no input any more. Its extents are bound first.
Status BindValue(Graph& graph, std::string_view input, Tensor value);
// Inputs whose elements decide extents, or what there is to compile at all: the shape of a Reshape,
// the limit of a Range, the condition of an If, the region of a Resize. Those of known extents that
// are small; with them bound, more extents are known.
Result<std::vector<ValueId>> ShapeInputs(const Graph& graph);
// Names of the symbols that the inputs still have, in order of appearance.
std::vector<std::string> FreeSymbols(const Graph& graph);

// Fills in dtype and shape of every computed value, from scratch (declared shapes of computed
// values are not trusted: exports lie). An extent that isn't an integer or an input's symbol
// becomes a fresh symbol; values of small integer tensors (shape arithmetic) are propagated, so
// that Reshape, Slice and their like come out exact when the extents are known. Each operator's
// operands and attributes are validated here: rank, axes, permutations, groups, strides, pads and
// sizes. An operator without a rule leaves its outputs unknown, which is no error.
Status InferShapes(Graph& graph);

// Verify's point 9: where types of computed values are recorded, inference agrees with them. Apart
// from Verify, since the noun does not know the rules.
Status VerifyShapes(const Graph& graph);

}  // namespace weft::graph
