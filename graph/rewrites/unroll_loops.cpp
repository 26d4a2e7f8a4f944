// Loop, Scan and SequenceMap whose trips are known and few become copies of their bodies: what the
// copies compute is then fused, and may have other shapes in each.

#include <algorithm>
#include <utility>

#include "graph/rewrites/inline.h"

namespace weft::graph {
namespace {

constexpr int64_t kMaxNodes = 4096;   // of one loop's copies together
constexpr int64_t kMaxNested = 16;    // trips, where the body has subgraphs, which are copied, too
constexpr int64_t kMaxGraph = 32768;  // loops inside of loops multiply

class Unroller {
 public:
  // `left`: nodes that the graph may still get.
  Unroller(Rewriter& r, NodeId at, const Evaluator& evaluate, int64_t& left)
      : r_(r), at_(at), node_(r.graph[at]), evaluate_(evaluate), left_(left) {}

  void Run() {
    const Attribute* attribute = FindAttribute(node_, "body");
    const auto* graph =
        attribute ? std::get_if<std::shared_ptr<Graph>>(&attribute->value) : nullptr;
    if (!graph) return;
    body_ = graph->get();
    if (node_.op == Op::kLoop) return Loop();
    if (node_.op == Op::kScan) return Scan();
    SequenceMap();
  }

 private:
  ValueId In(size_t i) const { return r_.Resolve(InputAt(node_, i)); }
  ValueId Number(int64_t value) {
    Tensor tensor(Dtype::kI64, {});
    SetElemInt(tensor, 0, value);
    return r_.NewConstant("trip", std::move(tensor));
  }

  // Whether so many copies are few, and no more than are left.
  bool Take(int64_t trips) {
    const bool nested = std::ranges::any_of(
        body_->nodes, [](const Node& node) { return !Subgraphs(node).empty(); });
    if (nested && trips > kMaxNested) return false;
    const auto nodes = static_cast<int64_t>(std::max<size_t>(body_->nodes.size(), 1));
    if (trips > kMaxNodes || trips * nodes > std::min(kMaxNodes, left_)) return false;
    left_ -= trips * nodes;
    return true;
  }

  // How often the body of a Loop runs: as often as counted, if its condition, computed from what is
  // known before, does not end it earlier.
  std::optional<int64_t> Trips() const {
    const auto condition = In(1).valid() ? ScalarOf(r_.graph, In(1)) : 1.0;
    if (!condition) return std::nullopt;
    if (*condition == 0) return 0;
    int64_t most = kMaxNodes + 1;  // more than Take takes
    if (In(0).valid()) {
      const auto count = ScalarOf(r_.graph, In(0));
      if (!count) return std::nullopt;
      most = static_cast<int64_t>(std::clamp(*count, 0.0, static_cast<double>(most)));
    }
    if (body_->outputs[0] == body_->inputs[1]) return most;
    const std::vector<NodeId> deciding = Deciding();
    const auto step = static_cast<int64_t>(std::max<size_t>(deciding.size(), 1));
    std::vector<std::optional<Tensor>> now(body_->values.size());
    const auto at = [&](ValueId id) -> std::optional<Tensor>& {
      return now[static_cast<size_t>(id.index)];
    };
    for (size_t i = 0; i < now.size(); ++i)
      if (body_->values[i].kind == ValueKind::kConstant) now[i] = body_->values[i].constant;
    at(body_->inputs[1]) = TensorOfScalar(Dtype::kBool, 1);
    for (size_t i = 2; i < body_->inputs.size(); ++i)
      if (const Value& first = r_.graph[In(i)]; first.kind == ValueKind::kConstant)
        at(body_->inputs[i]) = first.constant;
    for (int64_t t = 0; t < most; ++t) {
      if ((t + 1) * step > kMaxNodes) return std::nullopt;
      at(body_->inputs[0]) = TensorOfScalar(Dtype::kI64, static_cast<double>(t));
      for (NodeId n : deciding) Evaluate(body_->nodes[static_cast<size_t>(n.index)], now);
      const auto& goes_on = at(body_->outputs[0]);
      if (!goes_on || goes_on->dtype() != Dtype::kBool || goes_on->elems() != 1)
        return std::nullopt;
      if (ElemAsInt(*goes_on, 0) == 0) return t + 1;
      std::vector<std::optional<Tensor>> next;
      for (size_t i = 2; i < body_->inputs.size(); ++i) next.push_back(at(body_->outputs[i - 1]));
      for (size_t i = 2; i < body_->inputs.size(); ++i)
        at(body_->inputs[i]) = std::move(next[i - 2]);
    }
    return most;
  }

  // Nodes of the body that its condition is computed by, in this trip or from an earlier one.
  std::vector<NodeId> Deciding() const {
    std::vector<char> wanted(body_->values.size());
    const auto want = [&](ValueId id) {
      return id.valid() && std::exchange(wanted[static_cast<size_t>(id.index)], 1) == 0;
    };
    want(body_->outputs[0]);
    std::vector<NodeId> found;
    for (bool grew = true; grew;) {
      grew = false;
      found.clear();
      for (size_t n = body_->nodes.size(); n-- > 0;) {
        const Node& node = body_->nodes[n];
        if (std::ranges::none_of(node.outputs, [&](ValueId id) {
              return id.valid() && wanted[static_cast<size_t>(id.index)] != 0;
            }))
          continue;
        found.emplace_back(n);
        for (ValueId id : node.inputs) want(id);
      }
      for (size_t i = 2; i < body_->inputs.size(); ++i)
        if (wanted[static_cast<size_t>(body_->inputs[i].index)] != 0)
          grew |= want(body_->outputs[i - 1]);
    }
    std::ranges::reverse(found);
    return found;
  }

  // What a node of the body gives, where all it reads is known and little.
  void Evaluate(const Node& node, std::vector<std::optional<Tensor>>& now) const {
    constexpr int64_t kMost = 64;  // elements: counters and flags
    std::vector<const Tensor*> inputs;
    bool known = Subgraphs(node).empty();
    for (ValueId id : node.inputs) {
      inputs.push_back(nullptr);
      if (!id.valid()) continue;
      const auto& input = now[static_cast<size_t>(id.index)];
      known = known && input && input->elems() <= kMost;
      if (known) inputs.back() = &*input;
    }
    std::optional<std::vector<Tensor>> results;
    if (known && node.op == Op::kIdentity) {
      results.emplace({*inputs[0]});
    } else if (known && evaluate_) {
      auto found = evaluate_(*body_, node, inputs);
      if (found.ok() && found->size() == node.outputs.size()) results = std::move(*found);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      auto& output = now[static_cast<size_t>(node.outputs[i].index)];
      output.reset();
      if (results) output = std::move((*results)[i]);
    }
  }

  // The parts, one a trip, side by side along a new axis.
  ValueId Stacked(const std::vector<ValueId>& parts, int64_t axis, ValueId like) {
    const int64_t axes[] = {axis};
    const ValueId where = r_.NewConstant("axes", TensorOfInts(axes));
    std::vector<ValueId> rows;
    for (ValueId part : parts)
      rows.push_back(r_.Insert(at_, Op::kUnsqueeze, {part, where}, "row", like));
    return r_.Insert(at_, Op::kConcat, rows, "stacked", like, {{"axis", axis}});
  }

  void Loop() {
    if (body_->inputs.size() < 2) return;
    const size_t carried = body_->inputs.size() - 2, outputs = node_.outputs.size();
    if (node_.inputs.size() < carried + 2 || body_->outputs.size() < carried + 1 ||
        outputs > body_->outputs.size() - 1)
      return;
    const auto trips = Trips();
    // Stacks of no rows have shapes that nobody knows.
    if (!trips || (*trips == 0 && outputs > carried) || !Take(*trips)) return;
    std::vector<ValueId> state = {{}, r_.NewConstant("go_on", TensorOfScalar(Dtype::kBool, 1))};
    for (size_t i = 0; i < carried; ++i) state.push_back(In(i + 2));
    std::vector<std::vector<ValueId>> rows(body_->outputs.size() - 1 - carried);
    Inliner inliner(r_, at_, *body_);
    for (int64_t t = 0; t < *trips; ++t) {
      state[0] = Number(t);
      const std::vector<ValueId> found = inliner.Run(state);
      for (size_t i = 0; i < carried; ++i) state[i + 2] = found[i + 1];
      for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(found[i + 1 + carried]);
    }
    const std::vector<ValueId> out = node_.outputs;
    for (size_t i = 0; i < outputs; ++i) {
      if (!out[i].valid()) continue;
      inliner.Give(out[i], i < carried ? state[i + 2] : Stacked(rows[i - carried], 0, out[i]));
    }
  }

  void Scan() {
    const auto scanned = static_cast<size_t>(IntAttr(node_, "num_scan_inputs", 0));
    const size_t inputs = node_.inputs.size();
    if (scanned < 1 || scanned > inputs || body_->inputs.size() != inputs) return;
    const size_t states = inputs - scanned;
    if (body_->outputs.size() < states || node_.outputs.size() > body_->outputs.size()) return;
    const auto at = [&](std::string_view name, size_t i) {
      const auto list = IntsAttr(node_, name);
      return i < list.size() ? list[i] : 0;
    };
    int64_t trips = 0;
    for (size_t i = 0; i < scanned; ++i) {
      const auto shape = StaticShape(r_.graph[In(states + i)]);
      if (!shape) return;
      const auto rank = static_cast<int64_t>(shape->size());
      const int64_t axis = at("scan_input_axes", i);
      if (axis < -rank || axis >= rank) return;
      trips = (*shape)[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
    }
    if (trips == 0 || !Take(trips)) return;
    std::vector<ValueId> state;
    for (size_t i = 0; i < inputs; ++i) state.push_back(In(i));
    std::vector<std::vector<ValueId>> rows(body_->outputs.size() - states);
    Inliner inliner(r_, at_, *body_);
    for (int64_t t = 0; t < trips; ++t) {
      for (size_t i = 0; i < scanned; ++i) {
        const bool backward = at("scan_input_directions", i) != 0;
        state[states + i] =
            r_.Insert(at_, Op::kGather, {In(states + i), Number(backward ? trips - 1 - t : t)},
                      "row", In(states + i), {{"axis", at("scan_input_axes", i)}});
      }
      const std::vector<ValueId> found = inliner.Run(state);
      for (size_t i = 0; i < states; ++i) state[i] = found[i];
      for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(found[states + i]);
    }
    const std::vector<ValueId> out = node_.outputs;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!out[i].valid()) continue;
      if (i < states) {
        inliner.Give(out[i], state[i]);
        continue;
      }
      auto& parts = rows[i - states];
      if (at("scan_output_directions", i - states) != 0) std::ranges::reverse(parts);
      inliner.Give(out[i], Stacked(parts, at("scan_output_axes", i - states), out[i]));
    }
  }

  void SequenceMap() {
    const auto mapped = ElementsOf(r_, InputAt(node_, 0));
    if (!mapped || body_->inputs.size() != node_.inputs.size() ||
        node_.outputs.size() > body_->outputs.size())
      return;
    std::vector<std::optional<std::vector<ValueId>>> lists;
    for (ValueId id : node_.inputs) lists.push_back(ElementsOf(r_, id));
    for (const auto& list : lists)
      if (list && list->size() != mapped->size()) return;
    if (!Take(static_cast<int64_t>(mapped->size()))) return;
    std::vector<std::vector<ValueId>> results(node_.outputs.size());
    Inliner inliner(r_, at_, *body_);
    for (size_t t = 0; t < mapped->size(); ++t) {
      std::vector<ValueId> inputs;
      for (size_t i = 0; i < lists.size(); ++i) inputs.push_back(lists[i] ? (*lists[i])[t] : In(i));
      const std::vector<ValueId> found = inliner.Run(inputs);
      for (size_t i = 0; i < results.size(); ++i) results[i].push_back(found[i]);
    }
    const std::vector<ValueId> out = node_.outputs;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!out[i].valid()) continue;
      const Op op = results[i].empty() ? Op::kSequenceEmpty : Op::kSequenceConstruct;
      inliner.Give(out[i], r_.Insert(at_, op, results[i], "mapped", out[i]));
    }
  }

  Rewriter& r_;
  NodeId at_;
  const Node node_;
  const Evaluator& evaluate_;
  int64_t& left_;
  const Graph* body_ = nullptr;
};

}  // namespace

Result<int> unroll_loops(Graph& graph, const Evaluator& evaluate) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  int64_t left = kMaxGraph - static_cast<int64_t>(count);
  for (size_t n = 0; n < count; ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kLoop || op == Op::kScan || op == Op::kSequenceMap)
      Unroller(r, NodeId(n), evaluate, left).Run();
  }
  return r.Finish();
}

}  // namespace weft::graph
