// Sequences and optionals whose elements are known: what is read of them becomes the element.

#include <algorithm>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

class Resolver {
 public:
  Resolver(Rewriter& r, NodeId at) : r_(r), at_(at), node_(r.graph[at]) {}

  void Run() {
    switch (node_.op) {
      case Op::kConcatFromSequence:
        return Concat();
      case Op::kSequenceAt:
        if (const auto list = List())
          if (const auto at = Position(1, list->size(), -1)) Become(list->at(*at));
        return;
      case Op::kSequenceErase:
        if (auto list = List())
          if (const auto at = Position(1, list->size(), -1)) {
            const ValueId erased = list->at(*at);
            list->erase(list->begin() + static_cast<int64_t>(*at));
            BecomeList(*list, erased);
          }
        return;
      case Op::kSequenceInsert:
        if (auto list = List())
          if (const auto at = Position(2, list->size() + 1, static_cast<int64_t>(list->size()))) {
            list->insert(list->begin() + static_cast<int64_t>(*at), In(1));
            BecomeList(*list, In(1));
          }
        return;
      case Op::kSequenceLength:
        if (const auto list = List()) {
          Tensor length(Dtype::kI64, {});
          SetElemInt(length, 0, static_cast<int64_t>(list->size()));
          Become(r_.NewConstant("length", std::move(length)));
        }
        return;
      case Op::kSplitToSequence:
        return Split();
      case Op::kOptional:
      case Op::kOptionalGetElement:
        if (In(0).valid() && IsThere(In(0))) Become(In(0));
        return;
      case Op::kOptionalHasElement:
        if (const auto has = HasElement(In(0)))
          Become(r_.NewConstant("has_element", TensorOfScalar(Dtype::kBool, *has)));
        return;
      default:
        return;
    }
  }

 private:
  ValueId In(size_t i) const { return r_.Resolve(InputAt(node_, i)); }
  std::optional<std::vector<ValueId>> List() const { return ElementsOf(r_, InputAt(node_, 0)); }
  // A tensor, or a sequence that is known.
  bool IsThere(ValueId id) const {
    return r_.graph[id].dtype.has_value() || ElementsOf(r_, id).has_value();
  }
  std::optional<bool> HasElement(ValueId id) const {
    if (!id.valid()) return false;
    if (IsThere(id)) return true;
    const Node* made = r_.Def(id, Op::kOptional);
    return made ? std::optional(InputAt(*made, 0).valid()) : std::nullopt;
  }
  void Become(ValueId value) { r_.Become(at_, Op::kIdentity, {value}); }
  // A sequence of these, whose elements would be like `one`.
  void BecomeList(const std::vector<ValueId>& list, ValueId one) {
    if (!list.empty()) return r_.Become(at_, Op::kSequenceConstruct, list);
    const auto dtype = r_.graph[one].dtype;
    if (dtype) r_.Become(at_, Op::kSequenceEmpty, {}, {{"dtype", int64_t{DtypeToOnnx(*dtype)}}});
  }

  // The constant position at input i, from the end if negative. As ONNX says for SequenceInsert,
  // places are one more than elements there; the last element is -1 all the same.
  std::optional<size_t> Position(size_t i, size_t places, int64_t otherwise) const {
    std::optional<double> given = static_cast<double>(otherwise);
    if (In(i).valid()) given = ScalarOf(r_.graph, In(i));
    if (!given) return std::nullopt;
    const auto count = static_cast<int64_t>(places);
    const int64_t elements = node_.op == Op::kSequenceInsert ? count - 1 : count;
    auto at = static_cast<int64_t>(*given);
    if (at < 0) at += elements;
    return at >= 0 && at < count ? std::optional(static_cast<size_t>(at)) : std::nullopt;
  }

  void Concat() {
    const auto list = List();
    if (!list || list->empty()) return;  // an empty one is an error when it runs
    const int64_t axis = IntAttr(node_, "axis", 0);
    std::vector<ValueId> parts = *list;
    if (IntAttr(node_, "new_axis", 0) != 0) {
      const int64_t axes[] = {axis};
      const ValueId where = r_.NewConstant("axes", TensorOfInts(axes));
      for (ValueId& part : parts)
        part = r_.Insert(at_, Op::kUnsqueeze, {part, where}, "part", part);
    }
    r_.Become(at_, Op::kConcat, std::move(parts), {{"axis", axis}});
  }

  void Split() {
    const auto shape = StaticShape(r_.graph[In(0)]);
    if (!shape) return;
    const auto rank = static_cast<int64_t>(shape->size());
    int64_t axis = IntAttr(node_, "axis", 0);
    if (axis < -rank || axis >= rank) return;
    if (axis < 0) axis += rank;
    const int64_t extent = (*shape)[static_cast<size_t>(axis)];
    Shape sizes;
    if (!In(1).valid()) {
      sizes.assign(static_cast<size_t>(std::min<int64_t>(extent, kMostParts + 1)), 1);
    } else if (const auto given = ConstantInts(r_.graph, node_, 1)) {
      const bool one = r_.graph[In(1)].shape->empty();
      if (one && (*given)[0] < 1) return;
      for (int64_t left = extent; one && left > 0 && sizes.size() <= kMostParts;
           left -= sizes.back())
        sizes.push_back(std::min(left, (*given)[0]));
      if (!one) sizes = *given;
    } else {
      return;
    }
    if (sizes.size() > kMostParts) return;
    if (sizes.empty()) return extent == 0 ? BecomeList({}, In(0)) : void();
    Node split{.op = Op::kSplit, .op_name = "Split", .name = node_.name};
    split.inputs = {In(0), r_.NewConstant("sizes", TensorOfInts(sizes))};
    SetAttribute(split, "axis", axis);
    std::vector<ValueId> parts;
    for (size_t i = 0; i < sizes.size(); ++i) parts.push_back(r_.NewComputed("part"));
    split.outputs = parts;
    r_.InsertNode(at_, std::move(split));
    if (!In(1).valid() && IntAttr(node_, "keepdims", 1) == 0) {
      const int64_t axes[] = {axis};
      const ValueId where = r_.NewConstant("axes", TensorOfInts(axes));
      for (ValueId& part : parts)
        part = r_.Insert(at_, Op::kSqueeze, {part, where}, "element", part);
    }
    BecomeList(parts, In(0));
  }

  static constexpr size_t kMostParts = 4096;
  Rewriter& r_;
  NodeId at_;
  const Node node_;
};

}  // namespace

std::optional<std::vector<ValueId>> ElementsOf(const Rewriter& r, ValueId id) {
  id = r.Resolve(id);
  const Node* def = r.Def(id);
  while (def && def->op == Op::kIdentity) def = r.Def(r.Resolve(def->inputs[0]));
  if (!def || (def->op != Op::kSequenceConstruct && def->op != Op::kSequenceEmpty))
    return std::nullopt;
  std::vector<ValueId> list;
  for (ValueId element : def->inputs) list.push_back(r.Resolve(element));
  return list;
}

Result<int> resolve_sequences(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) Resolver(r, NodeId(n)).Run();
  return r.Finish();
}

}  // namespace weft::graph
