// What only moves dequantized integers, and quantizes them as they were, moves the integers:
//   QuantizeLinear(Transpose(DequantizeLinear(x, s, z)), s, z) = Transpose(x),
// and so for all that picks elements, for windows' maxima, since larger integers are larger
// numbers, and for what stands between several of them. A quotient by s of an integer times s is
// within half of that integer, so the pair of conversions gives it back.
#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// Of one number each.
struct Quantization {
  Dtype dtype = Dtype::kU8;
  double scale = 0, zero = 0;
  bool operator==(const Quantization&) const = default;
};

// Of a QuantizeLinear or DequantizeLinear whose integers are `integers`.
std::optional<Quantization> QuantizationOf(const Graph& graph, const Node& node, ValueId integers) {
  const ValueId scale = InputAt(node, 1), zero = InputAt(node, 2);
  const auto dtype = graph[integers].dtype;
  const auto s = ScalarOf(graph, scale), z = zero.valid() ? ScalarOf(graph, zero) : 0;
  const bool is_small =
      dtype == Dtype::kU8 || dtype == Dtype::kI8 || dtype == Dtype::kU16 || dtype == Dtype::kI16;
  // Numbers of 16 bits times a scale, and quotients by it, are neither infinite nor subnormal.
  if (!is_small || !s || !z || graph[scale].dtype != Dtype::kF32 || *s < 0x1p-100 || *s > 0x1p100)
    return std::nullopt;
  return Quantization{*dtype, *s, *z};
}

bool IsNearest(const Node& node) {
  return StringAttr(node, "mode", "nearest") == "nearest" && IntAttr(node, "antialias", 0) == 0 &&
         StringAttr(node, "coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize";
}

// Whether each element of the outputs is one of input 0, or of all inputs of a Concat.
bool Moves(const Node& node) {
  switch (node.op) {
    case Op::kIdentity:
    case Op::kReshape:
    case Op::kFlatten:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kSplit:
    case Op::kGather:
    case Op::kExpand:
    case Op::kTile:
    case Op::kDepthToSpace:
    case Op::kSpaceToDepth:
    case Op::kConcat:
      return true;
    case Op::kMaxPool:  // and no places of the maxima
      return node.outputs.size() == 1 || !node.outputs[1].valid();
    case Op::kResize:
      return IsNearest(node);
    default:
      return false;
  }
}

size_t MovedInputs(const Node& node) { return node.op == Op::kConcat ? node.inputs.size() : 1; }

class Mover {
 public:
  explicit Mover(Rewriter& r) : r_(r), wanted_(r.graph.values.size()), known_(wanted_.size()) {}

  // Back from what quantizes: what would be of use as integers.
  void Want(const Node& node) {
    if (node.op == Op::kQuantizeLinear) {
      auto& wanted = wanted_[At(node.inputs[0])];
      if (!wanted) wanted = QuantizationOf(r_.graph, node, node.outputs[0]);
    } else if (const auto out = Moves(node) ? WantedOf(node) : std::nullopt) {
      for (size_t i = 0; i < MovedInputs(node); ++i) {
        auto& wanted = wanted_[At(node.inputs[i])];
        if (!wanted) wanted = out;
      }
    }
  }

  // On from what dequantizes.
  void Move(NodeId id) {
    const Node node = r_.graph[id];
    if (node.op == Op::kDequantizeLinear) {
      const auto found = QuantizationOf(r_.graph, node, node.inputs[0]);
      if (found && found == wanted_[At(node.outputs[0])])
        known_[At(node.outputs[0])] = node.inputs[0];
    } else if (node.op == Op::kQuantizeLinear) {
      const ValueId integers = known_[At(node.inputs[0])];
      const auto own = QuantizationOf(r_.graph, node, node.outputs[0]);
      if (!integers.valid() || !own || own != wanted_[At(node.inputs[0])]) return;
      if (!r_.Replace(node.outputs[0], integers)) r_.Become(id, Op::kIdentity, {integers});
    } else if (Moves(node)) {
      MoveAll(id, node);
    }
  }

 private:
  static size_t At(ValueId v) { return static_cast<size_t>(v.index); }

  // What all outputs that there are would be.
  std::optional<Quantization> WantedOf(const Node& node) const {
    std::optional<Quantization> common;
    for (const ValueId out : node.outputs) {
      if (!out.valid()) continue;
      const auto& wanted = wanted_[At(out)];
      if (!wanted || (common && common != wanted)) return std::nullopt;
      common = wanted;
    }
    return common;
  }

  void MoveAll(NodeId id, Node node) {
    const auto out = WantedOf(node);
    if (!out || (node.op == Op::kMaxPool && SizeBytes(out->dtype) > 1)) return;
    for (size_t i = 0; i < MovedInputs(node); ++i) {
      const ValueId integers = known_[At(node.inputs[i])];
      if (!integers.valid() || wanted_[At(node.inputs[i])] != out) return;
      node.inputs[i] = integers;
    }
    for (ValueId& v : node.outputs) {
      if (!v.valid()) continue;
      const ValueId real = v;
      v = r_.NewComputed(r_.graph[real].name + "_integers");
      r_.graph[v].dtype = out->dtype;
      r_.graph[v].shape = r_.graph[real].shape;
      known_[At(real)] = v;
    }
    node.name.clear();
    r_.InsertNode(id, std::move(node));
  }

  Rewriter& r_;
  std::vector<std::optional<Quantization>> wanted_;
  std::vector<ValueId> known_;  // as integers
};

}  // namespace

Result<int> integer_moves(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  Mover mover(r);
  for (size_t n = graph.nodes.size(); n-- > 0;) mover.Want(graph.nodes[n]);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) mover.Move(NodeId(n));
  return r.Finish();
}

}  // namespace weft::graph
