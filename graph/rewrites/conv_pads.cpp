// Zeros around an image that a node of its own adds, and rows of a convolution over such zeros that
// a Slice cuts off again (causal filters are exported so), become the convolution's own pads, at
// which no product is made: a weight that is infinite makes no NaN of a zero there.

#include <algorithm>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// By spatial axis: what is added before and after it, or cut off where it is negative.
struct Border {
  int64_t before = 0, after = 0;
};
using Borders = std::vector<Border>;

// A convolution's pads, and how many elements beside its first a window reaches over.
struct Windows {
  std::vector<int64_t> pads, reach;
};

std::optional<Windows> WindowsOf(const Graph& graph, const Node& conv) {
  const auto weights = StaticShape(graph[conv.inputs[1]]);
  const std::string mode = StringAttr(conv, "auto_pad", "NOTSET");
  if (!weights || weights->size() < 3 || (mode != "NOTSET" && mode != "VALID")) return std::nullopt;
  const size_t n = weights->size() - 2;
  std::vector<int64_t> pads = IntsAttr(conv, "pads"), dilations = IntsAttr(conv, "dilations");
  if (pads.empty() || mode == "VALID") pads.assign(2 * n, 0);
  if (dilations.empty()) dilations.assign(n, 1);
  if (pads.size() != 2 * n || dilations.size() != n) return std::nullopt;
  Windows windows{pads, {}};
  for (size_t i = 0; i < n; ++i) windows.reach.push_back(((*weights)[i + 2] - 1) * dilations[i]);
  return windows;
}

// With borders added; nothing where a pad would be negative, or more than a window reaches.
std::optional<Windows> With(Windows windows, const Borders& borders) {
  const size_t n = windows.reach.size();
  if (borders.size() != n) return std::nullopt;
  for (size_t i = 0; i < n; ++i) {
    const auto add = [&](int64_t& pad, int64_t border) {
      if (border < -pad || border > windows.reach[i] - pad) return false;
      pad += border;
      return true;
    };
    if (!add(windows.pads[i], borders[i].before) || !add(windows.pads[n + i], borders[i].after))
      return std::nullopt;
  }
  return windows;
}

// A node's borders by axis, of which only spatial ones may be anything.
std::optional<Borders> Spatial(const std::vector<Border>& by_axis) {
  const auto none = [](const Border& b) { return b.before == 0 && b.after == 0; };
  if (by_axis.size() < 3 || !none(by_axis[0]) || !none(by_axis[1])) return std::nullopt;
  return Borders(by_axis.begin() + 2, by_axis.end());
}

// The axes that input `i` of a node names, all if there is none.
std::optional<std::vector<size_t>> AxesOf(const Graph& graph, const Node& node, size_t i,
                                          size_t rank) {
  std::vector<size_t> axes;
  if (!InputAt(node, i).valid()) {
    for (size_t a = 0; a < rank; ++a) axes.push_back(a);
    return axes;
  }
  const auto named = ConstantInts(graph, node, i);
  if (!named) return std::nullopt;
  const auto count = static_cast<int64_t>(rank);
  for (const int64_t axis : *named) {
    if (axis < -count || axis >= count) return std::nullopt;
    axes.push_back(static_cast<size_t>(axis < 0 ? axis + count : axis));
  }
  return axes;
}

std::optional<Borders> AddedBy(const Graph& graph, const Node& pad) {
  const auto pads = ConstantInts(graph, pad, 1);
  const auto& shape = graph[pad.inputs[0]].shape;
  if (StringAttr(pad, "mode", "constant") != "constant" || !pads || !shape) return std::nullopt;
  if (InputAt(pad, 2).valid() && ScalarOf(graph, pad.inputs[2]) != 0.0) return std::nullopt;
  const auto axes = AxesOf(graph, pad, 3, shape->size());
  if (!axes || pads->size() != 2 * axes->size()) return std::nullopt;
  Borders by_axis(shape->size());
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t before = (*pads)[i], after = (*pads)[axes->size() + i];
    if (before < 0 || after < 0) return std::nullopt;
    by_axis[(*axes)[i]] = {before, after};
  }
  return Spatial(by_axis);
}

// Elements that a Slice with steps of 1 leaves out at both ends.
std::optional<Borders> CutBy(const Graph& graph, const Node& slice) {
  const auto starts = ConstantInts(graph, slice, 1), ends = ConstantInts(graph, slice, 2),
             steps = ConstantInts(graph, slice, 4);
  const auto &whole = graph[slice.inputs[0]].shape, &part = graph[slice.outputs[0]].shape;
  if (!starts || !ends || !whole || !part || (InputAt(slice, 4).valid() && !steps))
    return std::nullopt;
  const auto axes = AxesOf(graph, slice, 3, whole->size());
  if (!axes || starts->size() != axes->size() || ends->size() != axes->size()) return std::nullopt;
  if (steps && std::ranges::any_of(*steps, [](int64_t s) { return s != 1; })) return std::nullopt;
  Borders by_axis(whole->size());
  for (size_t i = 0; i < axes->size(); ++i) {
    const size_t axis = (*axes)[i];
    const int64_t start = (*starts)[i], end = (*ends)[i];
    const Extent in = (*whole)[axis], out = (*part)[axis];
    Border& border = by_axis[axis];
    if (in.IsConstant() && out.IsConstant()) {
      const int64_t from =
          std::clamp<int64_t>(start < 0 ? start + in.value() : start, 0, in.value());
      border = {-from, out.value() + from - in.value()};
    } else if (start >= 0 && end < 0) {  // of any extent, as long as something is left
      border = {-start, end};
    } else {
      return std::nullopt;
    }
  }
  return Spatial(by_axis);
}

void SetPads(Node& conv, std::vector<int64_t> pads) {
  std::erase_if(conv.attributes, [](const Attribute& a) { return a.name == "auto_pad"; });
  SetAttribute(conv, "pads", std::move(pads));
}

void TakeZeros(Rewriter& r, NodeId id) {
  const Node* pad = r.Def(r.graph[id].inputs[0], Op::kPad);
  const auto windows = WindowsOf(r.graph, r.graph[id]);
  const auto added = pad && windows ? AddedBy(r.graph, *pad) : std::nullopt;
  auto padded = added ? With(*windows, *added) : std::nullopt;
  if (!padded) return;
  Node conv = r.graph[id];
  conv.inputs[0] = pad->inputs[0];
  SetPads(conv, std::move(padded->pads));
  r.graph[id] = std::move(conv);
  r.Changed();
}

void CutRows(Rewriter& r, NodeId id) {
  const Node& slice = r.graph[id];
  const Node* conv = r.Def(slice.inputs[0], Op::kConv);
  if (!conv || !r.OnlyUser(slice.inputs[0]).valid()) return;
  const auto strides = IntsAttr(*conv, "strides");
  if (std::ranges::any_of(strides, [](int64_t s) { return s != 1; })) return;
  const auto windows = WindowsOf(r.graph, *conv);
  const auto cut = windows ? CutBy(r.graph, slice) : std::nullopt;
  auto rest = cut ? With(*windows, *cut) : std::nullopt;
  if (!rest) return;
  // An image of few elements, of which the Slice leaves none, has no windows at all.
  const size_t n = rest->reach.size();
  for (size_t i = 0; i < n; ++i) {
    const Extent out = (*r.graph[slice.outputs[0]].shape)[i + 2];
    if (out.IsConstant() ? out.value() < 1 : rest->pads[i] + rest->pads[n + i] < rest->reach[i])
      return;
  }
  Node shorter = *conv;
  shorter.outputs = slice.outputs;
  SetPads(shorter, std::move(rest->pads));
  r.graph[id] = std::move(shorter);
  r.Changed();
}

}  // namespace

Result<int> conv_pads(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == Op::kConv) TakeZeros(r, NodeId(n));
    if (graph.nodes[n].op == Op::kSlice) CutRows(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
