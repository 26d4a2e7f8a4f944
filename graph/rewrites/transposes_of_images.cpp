// A transpose beside a reshape goes to the side that has more axes, if the reshape only splits and
// joins axes that move together:
//
//   [1, hw, c] -> [1, c, hw] -> [1, c, h, w]  becomes  [1, hw, c] -> [1, h, w, c] -> [1, c, h, w]
//
// and the same the other way round. So what is between tokens and an image with channels last moves
// nothing: a reshape is a view, and a transpose is one where layouts say so.
#include <algorithm>
#include <numeric>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

using Extents = std::vector<Extent>;

// Runs of axes on both sides of a reshape that hold the same elements, each as short as can be.
struct AxisRun {
  size_t from_begin = 0, from_end = 0, to_begin = 0, to_end = 0;
};

std::optional<std::vector<AxisRun>> RunsOf(const Extents& from, const Extents& to) {
  std::vector<AxisRun> runs;
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    AxisRun run{i, i + 1, j, j + 1};
    if (from[i].IsConstant() != to[j].IsConstant()) return std::nullopt;
    if (!from[i].IsConstant() && from[i] != to[j]) return std::nullopt;
    if (from[i].IsConstant()) {
      int64_t a = from[i].value(), b = to[j].value();
      while (a != b) {
        const bool is_less = a < b;
        const Extents& extents = is_less ? from : to;
        size_t& end = is_less ? run.from_end : run.to_end;
        if (end == extents.size() || !extents[end].IsConstant() ||
            __builtin_mul_overflow(is_less ? a : b, extents[end].value(), is_less ? &a : &b))
          return std::nullopt;
        ++end;
      }
      if (a <= 0) return std::nullopt;
    }
    i = run.from_end;
    j = run.to_end;
    runs.push_back(run);
  }
  // What is left has one element an axis.
  const auto is_one = [](const Extent& e) { return e == Extent(1); };
  if (runs.empty() || !std::all_of(from.begin() + static_cast<ptrdiff_t>(i), from.end(), is_one) ||
      !std::all_of(to.begin() + static_cast<ptrdiff_t>(j), to.end(), is_one))
    return std::nullopt;
  runs.back().from_end = from.size();
  runs.back().to_end = to.size();
  return runs;
}

// Where the axes begin to end - 1 are among `places`, if they follow each other there.
std::optional<size_t> PlaceOf(const std::vector<int64_t>& places, size_t begin, size_t end) {
  for (size_t a = begin + 1; a < end; ++a)
    if (places[a] != places[a - 1] + 1) return std::nullopt;
  return static_cast<size_t>(places[begin]);
}

// By the place of each run, which `place` gives.
template <typename Place>
bool SortRuns(std::vector<AxisRun>& runs, Place place) {
  if (!std::ranges::all_of(runs, [&](const AxisRun& run) { return place(run).has_value(); }))
    return false;
  std::ranges::sort(runs, {}, [&](const AxisRun& run) { return *place(run); });
  return true;
}

class Mover {
 public:
  explicit Mover(Graph& graph) : r_(graph) {}

  int Run() {
    const size_t count = r_.graph.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      const NodeId id(n);
      if (IsReshape(&r_.graph[id]))
        Behind(id);
      else if (r_.graph[id].op == Op::kTranspose)
        InFront(id);
    }
    return r_.Finish();
  }

 private:
  const Extents* ShapeOf(ValueId v) const {
    return r_.graph[v].shape ? &*r_.graph[v].shape : nullptr;
  }

  // A reshape of a transpose, whose result has more axes: x -> t -> y.
  void Behind(NodeId id) {
    const ValueId y = r_.graph[id].outputs[0], t = r_.graph[id].inputs[0];
    const Node* transpose = r_.Def(t, Op::kTranspose);
    if (transpose == nullptr || r_.OnlyUser(t) != id) return;
    const ValueId x = transpose->inputs[0];
    const auto perm = IntsAttr(*transpose, "perm");
    const Extents *of_t = ShapeOf(t), *of_y = ShapeOf(y);
    if (!of_t || !of_y || !ShapeOf(x) || perm.size() != of_t->size() ||
        of_y->size() <= of_t->size())
      return;
    auto runs = RunsOf(*of_t, *of_y);
    const auto in_x = [&](const AxisRun& run) {
      return PlaceOf(perm, run.from_begin, run.from_end);
    };
    if (!runs || !SortRuns(*runs, in_x)) return;
    Extents split;
    std::vector<int64_t> places(of_y->size());
    for (const AxisRun& run : *runs) {
      for (size_t a = run.to_begin; a < run.to_end; ++a) {
        places[a] = static_cast<int64_t>(split.size());
        split.push_back((*of_y)[a]);
      }
    }
    const auto shape = AsReshapesTo(split);
    if (!shape) return;
    const std::string name = r_.graph[y].name + "_split";
    const ValueId constant = r_.NewConstant(name + "_shape", TensorOfInts(*shape));
    const ValueId reshaped =
        r_.Insert(id, Op::kReshape, {x, constant}, name, y, {{"allowzero", int64_t{1}}});
    r_.graph[reshaped].shape = std::move(split);
    r_.Become(id, Op::kTranspose, {reshaped}, {{"perm", std::move(places)}});
  }

  // A transpose of a reshape, whose source has more axes: x -> t -> y.
  void InFront(NodeId id) {
    const ValueId y = r_.graph[id].outputs[0], t = r_.graph[id].inputs[0];
    const Node* reshape = r_.Def(t);
    if (!IsReshape(reshape) || r_.OnlyUser(t) != id) return;
    const ValueId x = reshape->inputs[0];
    const auto perm = IntsAttr(r_.graph[id], "perm");
    const Extents *of_t = ShapeOf(t), *of_x = ShapeOf(x), *of_y = ShapeOf(y);
    if (!of_t || !of_x || !of_y || perm.size() != of_t->size() || of_x->size() <= of_t->size())
      return;
    std::vector<int64_t> inverse(perm.size());
    for (size_t a = 0; a < perm.size(); ++a)
      inverse[static_cast<size_t>(perm[a])] = static_cast<int64_t>(a);
    auto runs = RunsOf(*of_x, *of_t);
    const auto in_y = [&](const AxisRun& run) {
      return PlaceOf(inverse, run.to_begin, run.to_end);
    };
    const auto shape = AsReshapesTo(*of_y);
    if (!runs || !shape || !SortRuns(*runs, in_y)) return;
    Extents turned;
    std::vector<int64_t> axes;
    for (const AxisRun& run : *runs) {
      for (size_t a = run.from_begin; a < run.from_end; ++a) {
        axes.push_back(static_cast<int64_t>(a));
        turned.push_back((*of_x)[a]);
      }
    }
    const std::string name = r_.graph[y].name + "_turned";
    const ValueId constant = r_.NewConstant(name + "_shape", TensorOfInts(*shape));
    const ValueId transposed =
        r_.Insert(id, Op::kTranspose, {x}, name, y, {{"perm", std::move(axes)}});
    r_.graph[transposed].shape = std::move(turned);
    r_.Become(id, Op::kReshape, {transposed, constant}, {{"allowzero", int64_t{1}}});
  }

  Rewriter r_;
};

}  // namespace

Result<int> transposes_of_images(Graph& graph, const Evaluator&) { return Mover(graph).Run(); }

}  // namespace weft::graph
