// Taps of a filter that meet pads and nothing else, wherever the window is, go: those of windows
// that are dilated beyond an image, or three along a depth of one. No product is made at pads, so
// they do no work; but whoever compares ways to convolve counts them, and keeps their weights.

#include <algorithm>
#include <cstring>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

struct Axis {
  int64_t in = 0, out = 0, taps = 0, stride = 1, dilation = 1, before = 0, after = 0;
};

std::optional<std::vector<Axis>> AxesOf(const Graph& graph, const Node& conv) {
  const auto x = StaticShape(graph[conv.inputs[0]]), y = StaticShape(graph[conv.outputs[0]]);
  const Tensor* filter = ConstantOf(graph, InputAt(conv, 1));
  if (!x || !y || !filter || SharesBytes(filter->dtype())) return std::nullopt;
  const size_t n = filter->shape().size() - 2;
  if (x->size() != n + 2 || y->size() != n + 2) return std::nullopt;
  if (StringAttr(conv, "auto_pad", "NOTSET") != "NOTSET") return std::nullopt;
  const auto ints = [&](std::string_view name, size_t count, int64_t otherwise) {
    std::vector<int64_t> all = IntsAttr(conv, name);
    if (all.empty()) all.assign(count, otherwise);
    return all;
  };
  const std::vector<int64_t> pads = ints("pads", 2 * n, 0), strides = ints("strides", n, 1),
                             dilations = ints("dilations", n, 1);
  if (pads.size() != 2 * n || strides.size() != n || dilations.size() != n) return std::nullopt;
  std::vector<Axis> axes;
  for (size_t i = 0; i < n; ++i)
    axes.push_back({(*x)[i + 2], (*y)[i + 2], filter->shape()[i + 2], strides[i], dilations[i],
                    pads[i], pads[n + i]});
  return axes;
}

// Whether the tap lies within the image for some output o: 0 <= o * stride - shift < in.
bool Meets(const Axis& a, int64_t tap) {
  const int64_t shift = a.before - tap * a.dilation;
  const int64_t first = shift <= 0 ? 0 : (shift + a.stride - 1) / a.stride;
  return first < a.out && first * a.stride < shift + a.in;
}

// The axis with the taps from the first to the last that meet something; as it is, if there is none
// or pads would be fewer than none.
struct Cut {
  Axis axis;
  int64_t first = 0;
};
Cut Shortened(const Axis& a) {
  int64_t first = 0, last = a.taps - 1;
  while (first < a.taps && !Meets(a, first)) ++first;
  while (last > first && !Meets(a, last)) --last;
  Cut cut{a, first};
  cut.axis.taps = last - first + 1;
  cut.axis.before -= first * a.dilation;
  cut.axis.after -= (a.taps - 1 - last) * a.dilation;
  const bool fits = first < a.taps && cut.axis.before >= 0 && cut.axis.after >= 0;
  return fits ? cut : Cut{a, 0};
}

Tensor Part(const Tensor& filter, const std::vector<Cut>& cuts) {
  Shape shape(filter.shape().begin(), filter.shape().begin() + 2);
  for (const Cut& cut : cuts) shape.push_back(cut.axis.taps);
  Tensor part(filter.dtype(), shape);
  const int64_t size = SizeBytes(filter.dtype());
  const auto* from = static_cast<const std::byte*>(filter.data());
  auto* to = static_cast<std::byte*>(part.mutable_data());
  for (int64_t elem = 0; elem < part.elems(); ++elem) {
    int64_t rest = elem, at = 0, stride = 1;
    for (size_t i = cuts.size(); i-- > 0;) {
      at += (rest % cuts[i].axis.taps + cuts[i].first) * stride;
      rest /= cuts[i].axis.taps;
      stride *= filter.shape()[i + 2];
    }
    std::memcpy(to + elem * size, from + (rest * stride + at) * size, static_cast<size_t>(size));
  }
  return part;
}

void Shorten(Rewriter& r, NodeId id) {
  const auto axes = AxesOf(r.graph, r.graph[id]);
  if (!axes) return;
  std::vector<Cut> cuts;
  bool shorter = false;
  for (const Axis& axis : *axes) {
    cuts.push_back(Shortened(axis));
    shorter |= cuts.back().axis.taps < axis.taps;
  }
  if (!shorter) return;
  Node conv = r.graph[id];
  std::vector<int64_t> kernel, pads;
  for (const Cut& cut : cuts) kernel.push_back(cut.axis.taps), pads.push_back(cut.axis.before);
  for (const Cut& cut : cuts) pads.push_back(cut.axis.after);
  const Value& filter = r.graph[conv.inputs[1]];
  conv.inputs[1] = r.NewConstant(filter.name + "_met", Part(filter.constant, cuts));
  SetAttribute(conv, "kernel_shape", std::move(kernel));
  SetAttribute(conv, "pads", std::move(pads));
  r.graph[id] = std::move(conv);
  r.Changed();
}

}  // namespace

Result<int> conv_taps(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].op == Op::kConv) Shorten(r, NodeId(n));
  return r.Finish();
}

}  // namespace weft::graph
