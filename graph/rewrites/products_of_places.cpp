// A convolution of one tap multiplies each place of an image with one matrix. What makes an image
// larger or smaller and is linear treats all channels alike, so the products are taken where there
// are fewer places: in front of a resize, and behind an average pooling. Where the enlarged image
// is joined with others first, as on the way up in detectors and segmenters, the product of what is
// joined is the sum of the products of the parts, and nothing is joined any more:
//
//   Conv(Concat(Resize(x), y), [V W], b)  becomes  Conv(y, W, b) + Resize(Conv(x, V))
//   AveragePool(Conv(x, W, b))            becomes  Conv(AveragePool(x), W, b)
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// What is multiplied less often costs less than what is resized or pooled instead, with this many
// channels to sum over (to make, of a pooling) and not many times as many that are resized (pooled)
// as were before.
constexpr int64_t kFewestChannels = 32;
constexpr int64_t kMostResized = 2, kMostPooled = 4;  // times as many
constexpr double kLeastGrowth = 2;                    // of the number of places

bool AreAll(const std::vector<int64_t>& list, int64_t value) {
  return std::ranges::all_of(list, [value](int64_t v) { return v == value; });
}

bool IsWide(std::optional<Dtype> dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kF64; }

// A convolution that multiplies each place of an image with one constant matrix.
bool IsProductOfPlaces(const Graph& graph, const Node& node) {
  if (node.op != Op::kConv || !IsWide(graph[node.inputs[0]].dtype)) return false;
  const Tensor* weights = ConstantOf(graph, InputAt(node, 1));
  if (!weights || !IsWide(weights->dtype()) || weights->shape().size() < 3) return false;
  const Shape& shape = weights->shape();
  return shape[0] > 0 &&
         std::all_of(shape.begin() + 2, shape.end(), [](int64_t k) { return k == 1; }) &&
         IntAttr(node, "group", 1) == 1 && AreAll(IntsAttr(node, "strides"), 1) &&
         AreAll(IntsAttr(node, "pads"), 0);
}

// Input channels `first` to `first + count - 1`.
struct Channels {
  int64_t first = 0, count = 0;
};

// The weights of these input channels: [m, c, 1...] -> [m, their number, 1...].
Tensor WeightsOf(const Tensor& all, std::span<const Channels> channels) {
  Shape shape = all.shape();
  const int64_t each = StorageBytes(all.dtype(), 1), row = shape[1] * each;
  shape[1] = 0;
  for (const Channels& c : channels) shape[1] += c.count;
  Tensor part(all.dtype(), shape);
  const auto* from = all.as<std::byte>();
  auto* to = part.mutable_as<std::byte>();
  for (int64_t m = 0; m < shape[0]; ++m, from += row) {
    for (const Channels& c : channels) {
      std::memcpy(to, from + c.first * each, static_cast<size_t>(c.count * each));
      to += c.count * each;
    }
  }
  return part;
}

// The axes that a Resize's lists are of, in the order of the lists.
std::vector<size_t> AxesOf(const Node& resize, size_t rank) {
  const auto named = IntsAttr(resize, "axes");
  std::vector<size_t> axes(named.empty() ? rank : named.size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  for (size_t k = 0; k < named.size(); ++k)
    axes[k] = static_cast<size_t>(named[k] < 0 ? named[k] + static_cast<int64_t>(rank) : named[k]);
  return axes;
}

// Whether a node makes an image larger by blending few elements for each, and does the same to each
// channel; its operands are constants, which can be made anew for another number of channels.
bool Enlarges(const Graph& graph, const Node& resize) {
  const auto &from = graph[resize.inputs[0]].shape, &to = graph[resize.outputs[0]].shape;
  if (!from || !to || from->size() < 3 || from->size() != to->size()) return false;
  if (StringAttr(resize, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" ||
      StringAttr(resize, "keep_aspect_ratio_policy", "stretch") != "stretch" ||
      StringAttr(resize, "mode", "nearest") == "cubic" || IntAttr(resize, "antialias", 0) != 0 ||
      (*from)[0] != (*to)[0] || (*from)[1] != (*to)[1])
    return false;
  const Tensor *scales = ConstantOf(graph, InputAt(resize, 2)),
               *sizes = ConstantOf(graph, InputAt(resize, 3));
  const auto axes = AxesOf(resize, from->size());
  if (!scales == !sizes || (scales ? scales : sizes)->elems() != static_cast<int64_t>(axes.size()))
    return false;
  double growth = 1;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (axes[k] >= from->size()) return false;
    const Extent &in = (*from)[axes[k]], &out = (*to)[axes[k]];
    const bool is_known = in.IsConstant() && out.IsConstant() && in.value() > 0;
    if (!scales && !is_known && axes[k] > 0) return false;
    const double scale = scales ? ElemAsDouble(*scales, static_cast<int64_t>(k))
                         : is_known
                             ? static_cast<double>(out.value()) / static_cast<double>(in.value())
                             : 1;  // of as many images as there are
    if (axes[k] < 2 && scale != 1) return false;
    growth *= scale;
  }
  return growth >= kLeastGrowth;
}

// Whether a pooling is the average of as many elements everywhere, and leaves far fewer places.
bool Reduces(const Node& pool) {
  const auto strides = IntsAttr(pool, "strides");
  const auto places = std::accumulate(strides.begin(), strides.end(), 1.0, std::multiplies<>());
  const std::string pads = StringAttr(pool, "auto_pad", "NOTSET");
  return pool.op == Op::kAveragePool && places >= kLeastGrowth &&
         AreAll(IntsAttr(pool, "pads"), 0) && IntAttr(pool, "ceil_mode", 0) == 0 &&
         (pads == "NOTSET" || pads == "VALID");
}

class Mover {
 public:
  explicit Mover(Graph& graph) : r_(graph) {}

  int Run() {
    std::vector<NodeId> products;
    for (size_t n = 0; n < r_.graph.nodes.size(); ++n) {
      const Node& node = r_.graph.nodes[n];
      if (!IsProductOfPlaces(r_.graph, node)) continue;
      products.push_back(NodeId(n));
      ++products_of_[node.inputs[0].index];
    }
    for (const NodeId id : products) InFront(id);
    for (size_t n = 0; n < r_.graph.nodes.size(); ++n)
      if (Reduces(r_.graph.nodes[n])) Behind(NodeId(n));
    return r_.Finish();
  }

 private:
  // A product of what is pooled.
  void Behind(NodeId id) {
    const Node pool = r_.graph[id];
    const ValueId image = pool.inputs[0];
    const Node* found = r_.Def(image, Op::kConv);
    if (!found || r_.OnlyUser(image) != id || !IsProductOfPlaces(r_.graph, *found)) return;
    const Node conv = *found;
    const ValueId x = conv.inputs[0], y = pool.outputs[0];
    const Shape weights = ConstantOf(r_.graph, InputAt(conv, 1))->shape();
    if (!r_.graph[y].shape || weights[0] < kFewestChannels || weights[1] > kMostPooled * weights[0])
      return;
    auto shape = *r_.graph[y].shape;
    shape[1] = weights[1];
    const std::string name = r_.graph[x].name + "_pooled";
    const ValueId pooled = r_.Insert(id, Op::kAveragePool, {x}, name, x, pool.attributes);
    r_.graph[pooled].shape = std::move(shape);
    auto inputs = conv.inputs;
    inputs[0] = pooled;
    r_.Become(id, Op::kConv, std::move(inputs), conv.attributes);
  }

  // A product of what was resized.
  void InFront(NodeId id) {
    const ValueId x = r_.graph[id].inputs[0];
    const size_t readers = products_of_[x.index];
    if (r_.IsOutput(x) || r_.Uses(x) != readers || !r_.graph[x].shape) return;
    if (r_.Def(x, Op::kResize)) return Split(id, {x}, readers);
    const Node* concat = r_.Def(x, Op::kConcat);
    if (!concat) return;
    const auto rank = static_cast<int64_t>(r_.graph[x].shape->size());
    const int64_t axis = IntAttr(*concat, "axis", 0);
    if (axis == 1 || axis + rank == 1) Split(id, concat->inputs, 1);
  }

  // The convolution of parts that are joined, each of which `readers` nodes read, if nobody else
  // does, becomes a sum.
  void Split(NodeId id, const std::vector<ValueId>& parts, size_t readers) {
    Graph& graph = r_.graph;
    const Node conv = graph[id];
    const Tensor weights = *ConstantOf(graph, InputAt(conv, 1));
    const ValueId bias = InputAt(conv, 2);
    std::vector<ValueId> kept, enlarged;
    std::vector<Channels> of_kept, of_enlarged;
    int64_t channels = 0;
    for (const ValueId part : parts) {
      const auto& shape = graph[part].shape;
      if (!shape || !(*shape)[1].IsConstant()) return;
      const Channels own{channels, (*shape)[1].value()};
      channels += own.count;
      const Node* resize = r_.Def(part, Op::kResize);
      const bool moves = resize && own.count >= kFewestChannels &&
                         weights.shape()[0] <= kMostResized * own.count && !r_.IsOutput(part) &&
                         r_.Uses(part) == readers && Enlarges(graph, *resize);
      (moves ? enlarged : kept).push_back(part);
      (moves ? of_enlarged : of_kept).push_back(own);
    }
    if (enlarged.empty() || channels != weights.shape()[1]) return;
    if (kept.empty() && bias.valid() && graph[bias].kind != ValueKind::kConstant) return;

    std::vector<ValueId> terms;
    if (!kept.empty()) {
      const ValueId joined = kept.size() == 1 ? kept[0] : Joined(id, kept, of_kept);
      terms.push_back(Product(id, conv, joined, WeightsOf(weights, of_kept), bias));
    }
    for (size_t i = 0; i < enlarged.size(); ++i)
      terms.push_back(Resized(id, conv, enlarged[i], WeightsOf(weights, {&of_enlarged[i], 1})));
    if (kept.empty() && bias.valid()) terms.push_back(AsImage(bias, weights.shape()));
    Sum(id, terms);
  }

  ValueId Joined(NodeId at, const std::vector<ValueId>& parts, std::span<const Channels> channels) {
    const ValueId x = r_.graph[at].inputs[0];
    const std::string name = r_.graph[x].name + "_kept";
    const ValueId joined = r_.Insert(at, Op::kConcat, parts, name, x, {{"axis", int64_t{1}}});
    auto shape = *r_.graph[parts[0]].shape;
    shape[1] = std::accumulate(channels.begin(), channels.end(), int64_t{0},
                               [](int64_t sum, const Channels& c) { return sum + c.count; });
    r_.graph[joined].shape = std::move(shape);
    return joined;
  }

  ValueId Product(NodeId at, const Node& conv, ValueId x, Tensor weights, ValueId bias) {
    const ValueId y = conv.outputs[0];
    const std::string name = r_.graph[y].name + "_part";
    auto shape = *r_.graph[x].shape;
    shape[1] = weights.shape()[0];
    std::vector<ValueId> inputs{x, r_.NewConstant(name + "_weights", std::move(weights))};
    if (bias.valid()) inputs.push_back(bias);
    const ValueId made = r_.Insert(at, Op::kConv, std::move(inputs), name, y, conv.attributes);
    r_.graph[made].shape = std::move(shape);
    return made;
  }

  // The product of what was resized, resized as that was.
  ValueId Resized(NodeId at, const Node& conv, ValueId part, Tensor weights) {
    const Node resize = *r_.Def(part, Op::kResize);
    auto inputs = resize.inputs;
    const int64_t channels = weights.shape()[0];
    inputs[0] = Product(at, conv, resize.inputs[0], std::move(weights), {});
    if (const Tensor* listed = ConstantOf(r_.graph, InputAt(resize, 3))) {
      Tensor sizes = *listed;
      const auto axes = AxesOf(resize, r_.graph[part].shape->size());
      const auto of_channels = std::ranges::find(axes, size_t{1}) - axes.begin();
      if (of_channels < sizes.elems()) SetElemInt(sizes, of_channels, channels);
      inputs[3] = r_.NewConstant(r_.graph[part].name + "_sizes", std::move(sizes));
    }
    const std::string name = r_.graph[conv.outputs[0]].name + "_resized";
    auto shape = *r_.graph[part].shape;
    shape[1] = channels;
    const ValueId made =
        r_.Insert(at, Op::kResize, std::move(inputs), name, conv.outputs[0], resize.attributes);
    r_.graph[made].shape = std::move(shape);
    return made;
  }

  // A bias [m] as [m, 1...], to be added to a convolution's result.
  ValueId AsImage(ValueId bias, const Shape& weights) {
    Shape shape(weights.size() - 1, 1);
    shape[0] = weights[0];
    Tensor image = r_.graph[bias].constant.Reshaped(std::move(shape));
    return r_.NewConstant(r_.graph[bias].name + "_image", std::move(image));
  }

  void Sum(NodeId id, const std::vector<ValueId>& terms) {
    const ValueId y = r_.graph[id].outputs[0];
    if (terms.size() == 1) return r_.Become(id, Op::kIdentity, {terms[0]});
    ValueId sum = terms[0];
    for (size_t i = 1; i + 1 < terms.size(); ++i) {
      const std::string name = r_.graph[y].name + "_sum";
      const auto shape = r_.graph[y].shape;
      sum = r_.Insert(id, Op::kAdd, {sum, terms[i]}, name, y);
      r_.graph[sum].shape = shape;
    }
    r_.Become(id, Op::kAdd, {sum, terms.back()});
  }

  Rewriter r_;
  std::unordered_map<int32_t, size_t> products_of_;  // by value, how many read it
};

}  // namespace

Result<int> products_of_places(Graph& graph, const Evaluator&) { return Mover(graph).Run(); }

}  // namespace weft::graph
