// Convolutions of one value whose results are summed are one convolution, whose weights are the sum
// of theirs, each laid where its window lies. A batch normalization of that value is a convolution
// with a window of one element. So networks with parallel branches become those they are trained
// for (Ding et al., RepVGG, 2021, section 3.3; Ding et al., Diverse Branch Block, 2021).
#include <algorithm>
#include <cmath>

#include "graph/rewrites/fold_affine.h"

namespace weft::graph {
namespace {

// Where a window of one axis lies: taps at first, first + step, ..., relative to stride * output.
struct Window {
  int64_t first = 0, count = 1, step = 1;
  int64_t behind = 0;  // elements of padding at the axis' end
  int64_t last() const { return first + (count - 1) * step; }
};

struct Branch {
  ValueId input;
  int64_t groups = 0;
  std::vector<Window> windows;  // by spatial axis
  std::vector<int64_t> strides;
  const Tensor* weights = nullptr;  // [m, c / groups, taps...]
  const Tensor* bias = nullptr;     // [m], or none
  PerChannel affine;                // of a batch normalization, instead of the weights
};

const Tensor* ConstantFloats(const Graph& graph, ValueId id) {
  const Tensor* tensor = ConstantOf(graph, id);
  const bool is_wide = tensor && (tensor->dtype() == Dtype::kF32 || tensor->dtype() == Dtype::kF64);
  return is_wide ? tensor : nullptr;
}

std::optional<Branch> BranchOf(const Rewriter& r, ValueId id) {
  const Graph& graph = r.graph;
  const Node* node = r.Def(id);
  if (!node || !graph[id].shape || graph[id].shape->size() < 3) return std::nullopt;
  const size_t spatial = graph[id].shape->size() - 2;
  Branch out{.input = node->inputs[0]};
  if (node->op == Op::kBatchNormalization) {
    auto affine = AffineOfNormalization(graph, *node);
    if (!affine) return std::nullopt;
    out.affine = std::move(*affine);
    out.windows.resize(spatial);
    out.strides.assign(spatial, 1);
    return out;
  }
  if (node->op != Op::kConv || !r.OnlyUser(id).valid() ||
      StringAttr(*node, "auto_pad", "NOTSET") != "NOTSET")
    return std::nullopt;
  out.weights = ConstantFloats(graph, node->inputs[1]);
  const bool has_bias = InputAt(*node, 2).valid();
  out.bias = has_bias ? ConstantFloats(graph, node->inputs[2]) : nullptr;
  if (!out.weights || (has_bias && !out.bias) || out.weights->shape().size() != spatial + 2)
    return std::nullopt;
  out.groups = IntAttr(*node, "group", 1);
  const auto or_all = [&](const char* name, size_t count, int64_t otherwise) {
    auto list = IntsAttr(*node, name);
    if (list.empty()) list.assign(count, otherwise);
    return list;
  };
  out.strides = or_all("strides", spatial, 1);
  const auto dilations = or_all("dilations", spatial, 1), pads = or_all("pads", 2 * spatial, 0);
  if (dilations.size() != spatial || pads.size() != 2 * spatial) return std::nullopt;
  const auto is_small = [](int64_t v) { return v >= 0 && v <= INT32_MAX; };
  for (size_t a = 0; a < spatial; ++a) {
    const int64_t taps = out.weights->shape()[a + 2];
    const bool fits = is_small(taps) && is_small(dilations[a]) && is_small(taps * dilations[a]) &&
                      is_small(pads[a]) && is_small(pads[spatial + a]);
    if (!fits || taps == 0 || dilations[a] == 0) return std::nullopt;
    out.windows.push_back({-pads[a], taps, dilations[a], pads[spatial + a]});
  }
  return out;
}

// How many taps two windows have in common, whose steps agree.
int64_t Common(const Window& a, const Window& b, int64_t step) {
  const int64_t first = std::max(a.first, b.first), last = std::min(a.last(), b.last());
  return first > last ? 0 : (last - first) / step + 1;
}

// The window that has the taps of both, if their steps agree.
std::optional<Window> Around(const Window& a, const Window& b) {
  const int64_t step = a.count > 1 ? a.step : b.step;
  if ((b.count > 1 && b.step != step) || (a.first - b.first) % step != 0) return std::nullopt;
  const int64_t first = std::min(a.first, b.first), last = std::max(a.last(), b.last());
  return Window{first, (last - first) / step + 1, step, a.behind + last - a.last()};
}

// Adds a branch's weights to those of a convolution whose windows hold its own, in f64.
void Accumulate(const Branch& branch, double sign, const std::vector<Window>& windows, int64_t each,
                std::vector<double>& weights, std::vector<double>& bias) {
  size_t taps = 1;
  for (const Window& w : windows) taps *= static_cast<size_t>(w.count);
  // The tap of the whole where one of the branch lies.
  const auto place = [&](size_t tap) {
    size_t at = 0, stride = 1;
    for (size_t a = windows.size(); a-- > 0;) {
      const Window& own = branch.windows[a];
      const auto count = static_cast<size_t>(own.count);
      const int64_t position = own.first + static_cast<int64_t>(tap % count) * own.step;
      at += static_cast<size_t>((position - windows[a].first) / windows[a].step) * stride;
      stride *= static_cast<size_t>(windows[a].count);
      tap /= count;
    }
    return at;
  };
  for (size_t m = 0; m < bias.size(); ++m) {
    if (branch.weights == nullptr) {
      const size_t c = m % static_cast<size_t>(each);
      weights[(m * static_cast<size_t>(each) + c) * taps + place(0)] +=
          sign * branch.affine.scale[m];
      bias[m] += sign * branch.affine.shift[m];
    } else if (branch.bias != nullptr) {
      bias[m] += sign * ElemAsDouble(*branch.bias, static_cast<int64_t>(m));
    }
  }
  if (branch.weights == nullptr) return;
  const size_t rows = bias.size() * static_cast<size_t>(each),
               own_taps = static_cast<size_t>(branch.weights->elems()) / rows;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t tap = 0; tap < own_taps; ++tap) {
      weights[row * taps + place(tap)] +=
          sign * ElemAsDouble(*branch.weights, static_cast<int64_t>(row * own_taps + tap));
    }
  }
}

void Merge(Rewriter& r, NodeId id) {
  const Node sum = r.graph[id];
  auto a = BranchOf(r, sum.inputs[0]), b = BranchOf(r, sum.inputs[1]);
  if (!a || !b || a->input != b->input || a->strides != b->strides ||
      sum.inputs[0] == sum.inputs[1] || !SameShape(r.graph, sum.inputs[0], sum.inputs[1]))
    return;
  const Branch& conv = a->weights ? *a : *b;
  if (!conv.weights) return;
  const Shape& shape = conv.weights->shape();
  const int64_t channels = shape[0], each = shape[1], groups = conv.groups;
  if (groups < 1 || channels < 1 || each < 1 || channels % groups != 0) return;
  std::vector<Window> windows;
  int64_t taps = 1, common = 1, taps_apart = 0;
  for (size_t i = 0; i < a->windows.size(); ++i) {
    const auto around = Around(a->windows[i], b->windows[i]);
    if (!around || __builtin_mul_overflow(taps, around->count, &taps)) return;
    windows.push_back(*around);
    common *= Common(a->windows[i], b->windows[i], around->step);
  }
  for (const Branch* branch : {&*a, &*b}) {
    int64_t own = 1;
    for (const Window& w : branch->windows) own *= w.count;
    taps_apart += own;
    if (branch->weights == nullptr) {  // as many channels go in as come out
      if (each != channels / groups ||
          static_cast<int64_t>(branch->affine.scale.size()) != channels)
        return;
    } else if (branch->groups != groups || branch->weights->dtype() != conv.weights->dtype() ||
               branch->weights->shape()[0] != channels || branch->weights->shape()[1] != each ||
               (branch->bias && branch->bias->elems() != channels)) {
      return;
    }
  }
  // A tap of neither would be work for nothing, and no number of an infinite element.
  if (taps != taps_apart - common) return;

  std::vector<double> weights(static_cast<size_t>(channels * each * taps)),
      bias(static_cast<size_t>(channels));
  Accumulate(*a, 1, windows, each, weights, bias);
  Accumulate(*b, sum.op == Op::kSub ? -1 : 1, windows, each, weights, bias);
  Shape merged{channels, each};
  std::vector<int64_t> pads, dilations;
  for (const Window& window : windows) {
    merged.push_back(window.count);
    dilations.push_back(window.step);
    pads.push_back(-window.first);
  }
  for (const Window& window : windows) pads.push_back(window.behind);
  const std::vector<int64_t> kernel(merged.begin() + 2, merged.end());
  const auto all = Rounded(weights, conv.weights->dtype(), merged);
  const auto shifts = Rounded(bias, conv.weights->dtype(), {channels});
  if (!all || !shifts) return;
  const std::string name = r.graph[sum.outputs[0]].name;
  const ValueId w = r.NewConstant(name + "_weights", *all),
                t = r.NewConstant(name + "_bias", *shifts);
  r.Become(id, Op::kConv, {conv.input, w, t},
           {{"dilations", dilations},
            {"group", groups},
            {"kernel_shape", kernel},
            {"pads", pads},
            {"strides", conv.strides}});
}

}  // namespace

Result<int> parallel_convs(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kAdd || op == Op::kSub) Merge(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
