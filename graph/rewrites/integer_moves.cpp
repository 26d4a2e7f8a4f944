// What only moves dequantized integers, and quantizes them as they were, moves the integers:
//   QuantizeLinear(Transpose(DequantizeLinear(x, s, z)), s, z) = Transpose(x),
// and so for all that picks elements, for windows' maxima, since larger integers are larger
// numbers, and for what stands between several of them. In float32 a quotient by s of an integer of
// 16 bits times s is within half of that integer, so the pair of conversions gives it back. Who
// else reads the real numbers has them from the moved integers.
#include <optional>
#include <vector>

#include "graph/rewrites/quantization.h"

namespace weft::graph {
namespace {

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

// What a value of real numbers is made of.
struct Integers {
  ValueId values, scale, zero;
};

class Mover {
 public:
  explicit Mover(Rewriter& r) : r_(r), wanted_(r.graph.values.size()), known_(wanted_.size()) {}

  // Back from what quantizes: what would be of use as integers.
  void Want(const Node& node) {
    if (node.op == Op::kQuantizeLinear) {
      auto& wanted = wanted_[At(node.inputs[0])];
      if (!wanted) wanted = QuantizationOf(r_.graph, node, node.outputs[0], node.inputs[0]);
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
      const ValueId real = node.outputs[0];
      const auto found = QuantizationOf(r_.graph, node, node.inputs[0], real);
      if (found && found == wanted_[At(real)])
        known_[At(real)] = {node.inputs[0], node.inputs[1], InputAt(node, 2)};
    } else if (node.op == Op::kQuantizeLinear) {
      const ValueId real = node.inputs[0], integers = known_[At(real)].values;
      const auto own = QuantizationOf(r_.graph, node, node.outputs[0], real);
      if (!integers.valid() || !own || own != wanted_[At(real)]) return;
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
    // ONNX has no MaxPool of 16 bits.
    if (!out || (node.op == Op::kMaxPool && SizeBytes(out->dtype) > 1)) return;
    const Integers first = known_[At(node.inputs[0])];
    for (size_t i = 0; i < MovedInputs(node); ++i) {
      const ValueId integers = known_[At(node.inputs[i])].values;
      if (!integers.valid() || wanted_[At(node.inputs[i])] != out) return;
      node.inputs[i] = integers;
    }
    const std::vector<ValueId> reals = node.outputs;
    for (ValueId& v : node.outputs) {
      if (!v.valid()) continue;
      const Value real = r_.graph[v];
      v = r_.NewComputed(real.name + "_integers");
      r_.graph[v].dtype = out->dtype;
      r_.graph[v].shape = real.shape;
    }
    const std::vector<ValueId> moved = node.outputs;
    node.name.clear();
    r_.InsertNode(id, std::move(node));
    for (size_t i = 0; i < reals.size(); ++i) {
      if (!reals[i].valid()) continue;
      known_[At(reals[i])] = {moved[i], first.scale, first.zero};
      r_.Replace(reals[i], r_.Insert(id, Op::kDequantizeLinear, {moved[i], first.scale, first.zero},
                                     r_.graph[reals[i]].name, reals[i]));
    }
  }

  Rewriter& r_;
  std::vector<std::optional<Quantization>> wanted_;
  std::vector<Integers> known_;
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
