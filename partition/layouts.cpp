#include "partition/layouts.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace weft::partition {
namespace {

using graph::Op;
using graph::ValueId;

bool IsConvolution(Op op) {
  return op == Op::kConv || op == Op::kConvTranspose || op == Op::kConvInteger ||
         op == Op::kQLinearConv;
}

bool IsImageOp(Op op) {
  if (IsConvolution(op)) return true;
  switch (op) {
    case Op::kMaxPool:
    case Op::kAveragePool:
    case Op::kGlobalAveragePool:
    case Op::kGlobalMaxPool:
    case Op::kBatchNormalization:
    case Op::kInstanceNormalization:
    case Op::kResize:
    case Op::kLRN:
      return true;
    default:
      return false;
  }
}

// Those that treat memory as plain, whatever the axes mean.
bool ReadsPlainMemory(Op op) {
  switch (op) {
    case Op::kReshape:
    case Op::kFlatten:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
      return true;
    default:
      return false;
  }
}

// Of batch and channels there is one axis each, of places one to three.
bool IsImage(const graph::Value& value) {
  return value.shape && value.shape->size() >= 3 && value.shape->size() <= 5;
}

Layout ChannelsLast(size_t rank) {
  std::vector<int32_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return Layout::Permuted(order);
}

// Those whose input and output axes correspond, so that one layout suits both.
bool KeepsAxes(const graph::Graph& graph, const graph::Node& node) {
  if (IsImageOp(node.op)) return true;
  switch (node.op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kMax:
    case Op::kMin:
    case Op::kPow:
    case Op::kRelu:
    case Op::kLeakyRelu:
    case Op::kPRelu:
    case Op::kElu:
    case Op::kSelu:
    case Op::kClip:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kHardSigmoid:
    case Op::kHardSwish:
    case Op::kSwish:
    case Op::kMish:
    case Op::kGelu:
    case Op::kErf:
    case Op::kExp:
    case Op::kSqrt:
    case Op::kAbs:
    case Op::kNeg:
    case Op::kSoftplus:
    case Op::kConcat:
    case Op::kSplit:
    case Op::kSlice:
    case Op::kPad:
    case Op::kIdentity:
    case Op::kCast:
    case Op::kQuantizeLinear:
    case Op::kDequantizeLinear:
    case Op::kReduceMean:
      return std::all_of(node.outputs.begin(), node.outputs.end(),
                         [&](ValueId v) { return !v.valid() || IsImage(graph[v]); });
    default:
      return false;
  }
}

class LayoutPlanner {
 public:
  LayoutPlanner(const graph::Graph& graph, const std::vector<bool>& wants_plain, bool by_library)
      : graph_(graph),
        wants_plain_(wants_plain),
        by_library_(by_library),
        parent_(graph.values.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  std::map<ValueId, Layout> Run() {
    for (const graph::Node& node : graph_.nodes)
      if (KeepsAxes(graph_, node)) Join(node);
    std::vector<bool> image(parent_.size(), false);
    for (const graph::Node& node : graph_.nodes)
      if (IsImageOp(node.op)) {
        Mark(node.inputs, image);
        Mark(node.outputs, image);
      }
    std::vector<bool> plain(parent_.size(), false);
    for (const graph::Node& node : graph_.nodes)
      if (ReadsPlainMemory(node.op) && !node.inputs.empty() && node.inputs[0].valid()) {
        if (!IsPointImage(node.inputs[0])) plain[node.inputs[0].index] = true;
        if (IsRow(node.outputs[0])) plain[node.outputs[0].index] = true;
      }
    for (const graph::Node& node : graph_.nodes) {
      if (node.op != Op::kMatMul) continue;
      for (const auto* values : {&node.inputs, &node.outputs})
        for (ValueId v : *values)
          if (IsManyMatrices(v)) plain[v.index] = true;
    }
    for (size_t n = 0; n < wants_plain_.size(); ++n) {
      if (!wants_plain_[n]) continue;
      for (const auto* values : {&graph_.nodes[n].inputs, &graph_.nodes[n].outputs})
        for (ValueId v : *values)
          if (v.valid()) plain[v.index] = true;
    }
    if (!by_library_) MarkSpread(plain);
    for (ValueId v : graph_.outputs) plain[v.index] = true;
    std::map<ValueId, Layout> layouts;
    for (size_t v = 0; v < parent_.size(); ++v)
      if (IsCandidate(ValueId(v)) && image[Root(static_cast<int32_t>(v))] && !plain[v])
        layouts[ValueId(v)] = ChannelsLast(graph_.values[v].shape->size());
    DropIslands(layouts);
    return layouts;
  }

 private:
  bool IsCandidate(ValueId v) const {
    const graph::Value& value = graph_[v];
    return value.kind == graph::ValueKind::kComputed && IsImage(value) && graph::StaticShape(value);
  }

  // With one axis of places. A row that a reshape makes is normalized as a whole before and after,
  // where an image has been shuffled: statements that run along memory keep doing so.
  bool IsRow(ValueId v) const { return IsCandidate(v) && graph_[v].shape->size() == 3; }

  // Channels of an image in a product are matrices of their own: with channels last no row of one
  // would lie in one piece.
  bool IsManyMatrices(ValueId v) const { return IsCandidate(v) && graph_[v].shape->size() > 3; }

  // A convolution of windows with so few channels of results that these fill no register: lanes
  // along a row of plain images do. Where planes are whole pages, whoever writes some dozens of
  // them in turn finds all of their lines in one set of a cache: a convolution of 3x3 in front of
  // it then loses more (1.2 ms of 4.7, 64 channels of 128x128) than one of 3x3 gains (0.8).
  bool Spreads(const graph::Node& node) const {
    constexpr int64_t kFew = 8, kPage = 4096, kWays = 16, kManyTaps = 16;
    if (node.op != Op::kConv || node.inputs.size() < 2 || graph::IntAttr(node, "group", 1) != 1)
      return false;
    const graph::Value& from = graph_[node.inputs[0]];
    const auto image = graph::StaticShape(from),
               weights = graph::StaticShape(graph_[node.inputs[1]]);
    if (!image || !weights || !from.dtype || weights->size() < 3 || (*weights)[0] >= kFew)
      return false;
    const auto extents = [](const Shape& shape) {
      return std::accumulate(shape.begin() + 2, shape.end(), int64_t{1}, std::multiplies());
    };
    const int64_t taps = extents(*weights), plane = extents(*image) * SizeBytes(*from.dtype);
    return taps > 1 && (plane % kPage != 0 || (*image)[1] <= kWays || taps >= kManyTaps);
  }

  // Images of so few channels that lanes along them fill no register.
  bool IsNarrow(ValueId v) const {
    constexpr int64_t kFew = 3;
    return IsCandidate(v) && (*graph::StaticShape(graph_[v]))[1] <= kFew && !IsPointImage(v);
  }

  // What only such convolutions read, and narrow images.
  void MarkSpread(std::vector<bool>& plain) const {
    std::vector<bool> spread(plain.size(), false), other(plain.size(), false);
    for (const graph::Node& node : graph_.nodes)
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (const ValueId v = node.inputs[i]; v.valid())
          (i == 0 && Spreads(node) ? spread : other)[v.index] = true;
    for (size_t v = 0; v < plain.size(); ++v)
      if ((spread[v] && !other[v]) || IsNarrow(ValueId(static_cast<int32_t>(v)))) plain[v] = true;
  }

  // Of one pixel, where channels last and plain are the same.
  bool IsPointImage(ValueId v) const {
    const auto shape = graph::StaticShape(graph_[v]);
    return shape && IsImage(graph_[v]) &&
           std::all_of(shape->begin() + 2, shape->end(), [](int64_t e) { return e == 1; });
  }

  int32_t Root(int32_t v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }

  void Join(const graph::Node& node) {
    int32_t first = -1;
    size_t rank = 0;
    const auto add = [&](ValueId v) {
      if (!v.valid() || !IsCandidate(v)) return;
      if (rank == 0) rank = graph_[v].shape->size();
      if (graph_[v].shape->size() != rank) return;
      const int32_t root = Root(v.index);
      if (first < 0) first = root;
      parent_[std::max(first, root)] = std::min(first, root);
      first = std::min(first, root);
    };
    for (ValueId v : node.outputs) add(v);
    for (ValueId v : node.inputs) add(v);
  }

  // Between plain values what no convolution and no transpose touches has nothing of channels last:
  // it would be laid out on the way in, and again on the way out.
  void DropIslands(std::map<ValueId, Layout>& layouts) {
    std::iota(parent_.begin(), parent_.end(), 0);
    const auto each = [&](const graph::Node& node, const auto& visit) {
      for (const auto* values : {&node.inputs, &node.outputs})
        for (ValueId v : *values)
          if (v.valid() && layouts.contains(v)) visit(v.index);
    };
    for (const graph::Node& node : graph_.nodes) {
      int32_t first = -1;
      if (!KeepsAxes(graph_, node)) continue;
      each(node, [&](int32_t v) {
        if (first < 0) first = Root(v);
        parent_[Root(v)] = first;
      });
    }
    std::vector<bool> wanted(parent_.size(), false);
    for (const graph::Node& node : graph_.nodes)
      if (IsConvolution(node.op) || node.op == Op::kTranspose)
        each(node, [&](int32_t v) { wanted[Root(v)] = true; });
    std::erase_if(layouts, [&](const auto& item) { return !wanted[Root(item.first.index)]; });
  }

  void Mark(const std::vector<ValueId>& values, std::vector<bool>& image) {
    for (ValueId v : values)
      if (v.valid() && IsCandidate(v)) image[Root(v.index)] = true;
  }

  const graph::Graph& graph_;
  const std::vector<bool>& wants_plain_;
  const bool by_library_;
  std::vector<int32_t> parent_;
};

// Physical axes from outermost to innermost, without those that have one element.
std::vector<Layout::Axis> Essential(const Layout& layout, const Shape& shape) {
  std::vector<Layout::Axis> axes;
  for (const Layout::Axis& a : layout.axes)
    if (shape[static_cast<size_t>(a.axis)] != 1) axes.push_back(a);
  return axes;
}

}  // namespace

std::map<ValueId, Layout> PlanLayouts(const graph::Graph& graph,
                                      const std::vector<bool>& wants_plain, bool by_library) {
  return LayoutPlanner(graph, wants_plain, by_library).Run();
}

Layout LayoutOf(const std::map<ValueId, Layout>& layouts, const graph::Graph& graph, ValueId v) {
  const auto it = layouts.find(v);
  if (it != layouts.end()) return it->second;
  return Layout::Plain(graph[v].shape ? graph[v].shape->size() : 0);
}

bool SamePlaces(const Layout& a, const Layout& b, const Shape& shape) {
  return a == b ||
         (a.row_pad_elems == b.row_pad_elems && Essential(a, shape) == Essential(b, shape));
}

}  // namespace weft::partition
