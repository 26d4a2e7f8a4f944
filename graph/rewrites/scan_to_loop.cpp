// A Scan of known length, too long to unroll, becomes a Loop whose trips gather their rows.

#include <algorithm>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

class Converter {
 public:
  Converter(Rewriter& r, NodeId at) : r_(r), at_(at), node_(r.graph[at]) {}

  void Run() {
    const Attribute* attribute = FindAttribute(node_, "body");
    const auto* graph =
        attribute ? std::get_if<std::shared_ptr<Graph>>(&attribute->value) : nullptr;
    const auto scanned = static_cast<size_t>(IntAttr(node_, "num_scan_inputs", 0));
    if (!graph || scanned < 1 || scanned > node_.inputs.size()) return;
    states_ = node_.inputs.size() - scanned;
    if ((*graph)->inputs.size() != node_.inputs.size() || (*graph)->outputs.size() < states_ ||
        (*graph)->outputs.size() != node_.outputs.size() || !FindLength() || !FindOutputAxes())
      return;
    body_ = std::make_shared<Graph>(Clone(**graph));
    if (!MakeBody()) return;
    Node loop{.op = Op::kLoop, .op_name = "Loop", .name = node_.name};
    Tensor trips(Dtype::kI64, {});
    SetElemInt(trips, 0, trips_);
    loop.inputs = {r_.NewConstant("trips", std::move(trips)), {}};
    loop.inputs.insert(loop.inputs.end(), node_.inputs.begin(),
                       node_.inputs.begin() + static_cast<std::ptrdiff_t>(states_));
    for (ValueId id : node_.outputs)
      loop.outputs.push_back(id.valid() ? r_.NewComputed(r_.graph[id].name) : id);
    SetAttribute(loop, "body", body_);
    const std::vector<ValueId> made = loop.outputs;
    r_.InsertNode(at_, std::move(loop));
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i].valid())
        Give(node_.outputs[i], i < states_ ? made[i] : Placed(made[i], i - states_));
  }

 private:
  int64_t At(std::string_view name, size_t i) const {
    const auto values = IntsAttr(node_, name);
    return i < values.size() ? values[i] : 0;
  }

  bool FindLength() {
    for (size_t i = states_; i < node_.inputs.size(); ++i) {
      const ValueId id = node_.inputs[i];
      const auto& shape = r_.graph[id].shape;
      if (!id.valid() || !shape) return false;
      const auto rank = static_cast<int64_t>(shape->size());
      int64_t axis = At("scan_input_axes", i - states_);
      axis += axis < 0 ? rank : 0;
      if (axis < 0 || axis >= rank) return false;
      const Extent extent = (*shape)[static_cast<size_t>(axis)];
      if (!extent.IsConstant()) return false;
      trips_ = extent.value();
    }
    return true;
  }

  bool FindOutputAxes() {
    for (size_t i = states_; i < node_.outputs.size(); ++i) {
      int64_t axis = At("scan_output_axes", i - states_), rank = 1;
      const ValueId id = node_.outputs[i];
      if (axis != 0 && id.valid()) {
        if (!r_.graph[id].shape) return false;
        rank = static_cast<int64_t>(r_.graph[id].shape->size());
        axis += axis < 0 ? rank : 0;
        if (axis < 0 || axis >= rank) return false;
      }
      axes_.push_back(axis);
      ranks_.push_back(rank);
    }
    return true;
  }

  ValueId Captured(ValueId outer) {
    const std::string& name = r_.graph[outer].name;
    if (const ValueId found = FindValue(*body_, name); found.valid())
      return (*body_)[found].kind == ValueKind::kCaptured ? found : ValueId();
    body_->values.push_back({.name = name, .kind = ValueKind::kCaptured});
    return ValueId(body_->values.size() - 1);
  }

  // Inputs become (iteration, condition, state…), rows are gathered first of all.
  bool MakeBody() {
    Graph& b = *body_;
    const std::vector<ValueId> given = b.inputs;
    const auto old = static_cast<std::ptrdiff_t>(b.nodes.size());
    std::vector<ValueId> sources;
    for (size_t i = states_; i < given.size(); ++i) {
      sources.push_back(Captured(node_.inputs[i]));
      if (!sources.back().valid()) return false;
    }
    Names names(b);
    b.inputs.clear();
    const ValueId trip = AddInput(b, names.Fresh("trip"), Dtype::kI64, {});
    const ValueId go_on = AddInput(b, names.Fresh("go_on"), Dtype::kBool, {});
    b.inputs.insert(b.inputs.end(), given.begin(),
                    given.begin() + static_cast<std::ptrdiff_t>(states_));
    for (size_t i = states_; i < given.size(); ++i) {
      ValueId index = trip;
      if (At("scan_input_directions", i - states_) != 0) {
        Tensor last(Dtype::kI64, {});
        SetElemInt(last, 0, trips_ - 1);
        const ValueId from = AddConstant(b, names.Fresh("last"), std::move(last));
        index = AddNode(b, Op::kSub, {from, trip}, names.Fresh("backward"));
      }
      b[given[i]].kind = ValueKind::kComputed;
      Node gather{.op = Op::kGather, .op_name = "Gather", .outputs = {given[i]}};
      gather.inputs = {sources[i - states_], index};
      SetAttribute(gather, "axis", At("scan_input_axes", i - states_));
      AddNode(b, std::move(gather));
    }
    std::vector<NodeId> order;
    for (auto n = old; n < std::ssize(b.nodes); ++n) order.emplace_back(static_cast<size_t>(n));
    for (std::ptrdiff_t n = 0; n < old; ++n) order.emplace_back(static_cast<size_t>(n));
    Reorder(b, order);
    b.outputs.insert(b.outputs.begin(), go_on);
    return true;
  }

  // Rows are stacked along axis 0, in the order of the trips.
  ValueId Placed(ValueId rows, size_t i) {
    const ValueId like = node_.outputs[states_ + i];
    const auto list = [&](int64_t value) {
      return r_.NewConstant("at", TensorOfInts(std::span(&value, 1)));
    };
    if (At("scan_output_directions", i) != 0)
      rows = r_.Insert(at_, Op::kSlice, {rows, list(-1), list(INT64_MIN), list(0), list(-1)},
                       "backward", like);
    if (axes_[i] == 0) return rows;
    std::vector<int64_t> perm;
    for (int64_t axis = 1; axis < ranks_[i]; ++axis) perm.push_back(axis);
    perm.insert(perm.begin() + axes_[i], 0);
    return r_.Insert(at_, Op::kTranspose, {rows}, "placed", like, {{"perm", std::move(perm)}});
  }

  void Give(ValueId output, ValueId from) {
    if (!r_.Replace(output, from))
      r_.Replace(output, r_.Insert(at_, Op::kIdentity, {from}, "copy", output));
  }

  Rewriter& r_;
  NodeId at_;
  const Node node_;
  std::shared_ptr<Graph> body_;
  size_t states_ = 0;
  int64_t trips_ = 0;
  std::vector<int64_t> axes_, ranks_;  // of what is scanned out
};

}  // namespace

Result<int> scan_to_loop(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n)
    if (graph.nodes[n].op == Op::kScan) Converter(r, NodeId(n)).Run();
  return r.Finish();
}

}  // namespace weft::graph
