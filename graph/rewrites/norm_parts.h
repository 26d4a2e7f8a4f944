// What layer and RMS normalization have in common when they are spelled in parts.
#pragma once

#include "graph/rewrites/rewriter.h"

namespace weft::graph {

// ReduceMean over the last axes of `of`, kept: how many, or 0.
int64_t MeanOfLastAxes(const Rewriter& r, ValueId id, ValueId of);
// The value that is squared, or an invalid id: Pow(v, 2) or Mul(v, v).
ValueId Squared(const Rewriter& r, ValueId id);
// sqrt(v + epsilon), 1 / sqrt(v + epsilon): v, epsilon and whether it is the reciprocal.
struct Root {
  ValueId value;
  double epsilon = 0;
  bool reciprocal = false;
};
std::optional<Root> RootOf(const Rewriter& r, ValueId id);

// y = normalized [* scale] [+ bias], followed from `core`, which computes the normalized value.
struct Affined {
  NodeId last;          // the node that becomes the normalization
  ValueId scale, bias;  // may be absent
};
Affined FollowScale(const Rewriter& r, NodeId core, int64_t axes, bool with_bias);
// Ones, for an operator that wants a scale.
std::optional<Tensor> Ones(const Value& x, int64_t axes);

}  // namespace weft::graph
