// A scatter whose constant indices fill a box assigns to a slice, as exporters write `x[:, 2:5] =
// y`. It becomes what stands before the box, the updates and what stands behind it, joined along
// each axis on which the box isn't everything:
//
//   x -> ScatterND  becomes  Concat(Slice(x, 0:2), y, Slice(x, 5:))
//
// A part of what was joined in this way is taken from its parts, so that a loop over `x[t] = y_t`
// becomes one Concat of all of them.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/affine_ints.h"
#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

using Box = std::vector<Range>;  // by axis of the data

// None if the axis does not hold it.
std::optional<Range> RangeIn(int64_t extent, int64_t begin, int64_t size) {
  if (begin < 0 || size < 1 || begin > extent || size > extent - begin) return std::nullopt;
  return Range{begin, begin + size};
}

// What would make a join of more parts is taken as a whole: a chain of n would have n * n / 2 of
// them.
constexpr size_t kMostParts = 512;

class Assigner {
 public:
  explicit Assigner(Graph& graph) : r_(graph) {}

  int Run() {
    const size_t count = r_.graph.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      const NodeId id(n);
      const Node& node = r_.graph[id];
      const bool by_tuples = node.op == Op::kScatterND;
      if ((by_tuples || node.op == Op::kScatterElements) &&
          StringAttr(node, "reduction", "none") == "none")
        Assign(id, by_tuples ? BoxOfTuples(node) : BoxOfElements(node));
    }
    return r_.Finish();
  }

 private:
  std::optional<std::vector<int64_t>> IndicesOf(const Node& node) const {
    return ConstantInts(r_.graph, node, 1);
  }
  const Shape& ShapeOfIndices(const Node& node) const {
    return r_.graph[node.inputs[1]].constant.shape();
  }
  std::optional<Shape> DataShape(const Node& node) const {
    return StaticShape(r_.graph[node.inputs[0]]);
  }

  // Along one axis the place is an index, along the others that of the update.
  std::optional<Box> BoxOfElements(const Node& node) const {
    auto indices = IndicesOf(node);
    const auto shape = DataShape(node);
    if (!indices || !shape || indices->empty()) return std::nullopt;
    const Shape& extents = ShapeOfIndices(node);
    const auto rank = static_cast<int64_t>(shape->size());
    int64_t axis = IntAttr(node, "axis", 0);
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank || extents.size() != shape->size()) return std::nullopt;
    const auto k = static_cast<size_t>(axis);
    for (int64_t& index : *indices) index += index < 0 ? (*shape)[k] : 0;
    const auto affine = AffineIntsOf(*indices, extents);
    if (!affine) return std::nullopt;
    Box box;
    for (size_t a = 0; a < extents.size(); ++a) {
      if (extents[a] > 1 && affine->steps[a] != (a == k ? 1 : 0)) return std::nullopt;
      const auto range = RangeIn((*shape)[a], a == k ? affine->first : 0, extents[a]);
      if (!range) return std::nullopt;
      box.push_back(*range);
    }
    return box;
  }

  // The last axis of the indices holds the places on the data's first axes.
  std::optional<Box> BoxOfTuples(const Node& node) const {
    const auto indices = IndicesOf(node);
    const auto shape = DataShape(node);
    if (!indices || !shape || indices->empty()) return std::nullopt;
    Shape places = ShapeOfIndices(node);
    if (places.empty()) return std::nullopt;
    const auto depth = static_cast<size_t>(places.back());
    places.pop_back();
    if (depth > shape->size()) return std::nullopt;
    Box box;
    size_t next = 0;  // axes of the indices before it are taken
    for (size_t a = 0; a < depth; ++a) {
      std::vector<int64_t> along;
      for (size_t i = a; i < indices->size(); i += depth)
        along.push_back((*indices)[i] + ((*indices)[i] < 0 ? (*shape)[a] : 0));
      const auto affine = AffineIntsOf(along, places);
      if (!affine) return std::nullopt;
      int64_t size = 1;
      for (size_t p = 0; p < places.size(); ++p) {
        if (affine->steps[p] == 0) continue;
        const bool in_order =
            p >= next && std::all_of(places.begin() + static_cast<ptrdiff_t>(next),
                                     places.begin() + static_cast<ptrdiff_t>(p),
                                     [](int64_t e) { return e == 1; });
        if (affine->steps[p] != 1 || !in_order || size != 1) return std::nullopt;
        size = places[p];
        next = p + 1;
      }
      const auto range = RangeIn((*shape)[a], affine->first, size);
      if (!range) return std::nullopt;
      box.push_back(*range);
    }
    // Along an axis of the indices that no place follows, updates would meet.
    for (; next < places.size(); ++next)
      if (places[next] != 1) return std::nullopt;
    for (size_t a = depth; a < shape->size(); ++a) box.push_back({0, (*shape)[a]});
    return box;
  }

  // A part of a value along one axis, as operands of a Concat.
  void AppendPart(NodeId at, ValueId v, size_t axis, Range part, std::vector<ValueId>& operands) {
    if (part.size() == 0) return;
    const auto joined = joined_.find(v);
    const Node* concat = joined != joined_.end() && joined->second == axis ? r_.Def(v) : nullptr;
    // What others read is there as a whole.
    if (concat != nullptr &&
        (!r_.OnlyUser(v).valid() || concat->inputs.size() + operands.size() > kMostParts))
      concat = nullptr;
    const int64_t extent = (*StaticShape(r_.graph[v]))[axis];
    if (concat != nullptr) {
      Range place;
      for (const ValueId operand : std::vector<ValueId>(concat->inputs)) {
        place = {place.end, place.end + (*StaticShape(r_.graph[operand]))[axis]};
        const Range common{std::max(place.begin, part.begin), std::min(place.end, part.end)};
        if (common.size() > 0)
          AppendPart(at, operand, axis, {common.begin - place.begin, common.end - place.begin},
                     operands);
      }
    } else if (part == Range{0, extent}) {
      operands.push_back(v);
    } else if (const auto from = parts_.find(v);
               from != parts_.end() && from->second.axis == axis) {
      const int64_t begin = from->second.range.begin;
      AppendPart(at, from->second.of, axis, {begin + part.begin, begin + part.end}, operands);
    } else {
      operands.push_back(Sliced(at, v, {axis}, {part}));
      parts_[operands.back()] = {v, axis, part};
    }
  }

  ValueId Sliced(NodeId at, ValueId v, const std::vector<size_t>& axes, const Box& ranges) {
    std::vector<int64_t> begins, ends, numbers;
    auto extents = *r_.graph[v].shape;
    for (size_t i = 0; i < axes.size(); ++i) {
      begins.push_back(ranges[i].begin);
      ends.push_back(ranges[i].end);
      numbers.push_back(static_cast<int64_t>(axes[i]));
      extents[axes[i]] = Extent(ranges[i].size());
    }
    const std::string name = r_.graph[v].name + "_part";
    const auto ints = [&](std::string_view what, const std::vector<int64_t>& values) {
      return r_.NewConstant(name + std::string(what), TensorOfInts(values));
    };
    std::vector<ValueId> inputs{v, ints("_starts", begins), ints("_ends", ends),
                                ints("_axes", numbers)};
    const ValueId made = r_.Insert(at, Op::kSlice, std::move(inputs), name, v);
    r_.graph[made].shape = std::move(extents);
    return made;
  }

  void Assign(NodeId id, const std::optional<Box>& box) {
    if (!box) return;
    const ValueId data = r_.graph[id].inputs[0], updates = r_.graph[id].inputs[2],
                  y = r_.graph[id].outputs[0];
    const Shape shape = *DataShape(r_.graph[id]);
    const auto given = StaticShape(r_.graph[updates]);
    Shape sizes;
    std::vector<size_t> open;  // axes on which the box isn't everything
    for (size_t a = 0; a < shape.size(); ++a) {
      sizes.push_back((*box)[a].size());
      if (sizes.back() == 0) return;
      if (sizes.back() != shape[a]) open.push_back(a);
    }
    const auto elems = [](const Shape& s) {
      return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>());
    };
    if (!given || elems(*given) != elems(sizes) || r_.graph[data].dtype != r_.graph[updates].dtype)
      return;

    const std::string name = r_.graph[y].name;
    const ValueId to = r_.NewConstant(name + "_box", TensorOfInts(sizes));
    if (open.empty())
      return r_.Become(id, Op::kReshape, {updates, to}, {{"allowzero", int64_t{1}}});
    ValueId inner = updates;
    if (*given != sizes) {
      inner = r_.Insert(id, Op::kReshape, {updates, to}, name + "_updates", y,
                        {{"allowzero", int64_t{1}}});
      r_.graph[inner].shape = ExtentsOf(sizes);
    }
    // From the last of these axes to the first: what is joined along one has the box's places on
    // those before.
    for (size_t k = open.size(); k-- > 0;) {
      const size_t axis = open[k];
      const std::vector<size_t> before(open.begin(), open.begin() + static_cast<ptrdiff_t>(k));
      ValueId around = data;
      if (!before.empty()) {
        Box ranges;
        for (const size_t a : before) ranges.push_back((*box)[a]);
        around = Sliced(id, data, before, ranges);
      }
      std::vector<ValueId> operands;
      const Range& range = (*box)[axis];
      AppendPart(id, around, axis, {0, range.begin}, operands);
      operands.push_back(inner);
      AppendPart(id, around, axis, {range.end, shape[axis]}, operands);
      const std::vector<Attribute> attributes{{"axis", static_cast<int64_t>(axis)}};
      if (k == 0) {
        r_.Become(id, Op::kConcat, std::move(operands), attributes);
        joined_[y] = axis;
        return;
      }
      inner = r_.Insert(id, Op::kConcat, std::move(operands), name + "_joined", y, attributes);
      auto extents = ExtentsOf(shape);
      for (const size_t a : before) extents[a] = Extent((*box)[a].size());
      r_.graph[inner].shape = std::move(extents);
    }
  }

  struct Part {
    ValueId of;
    size_t axis = 0;
    Range range;
  };
  Rewriter r_;
  std::map<ValueId, Part> parts_;     // slices that were made here
  std::map<ValueId, size_t> joined_;  // scatters that became a Concat, and its axis
};

}  // namespace

Result<int> scatter_of_slices(Graph& graph, const Evaluator&) { return Assigner(graph).Run(); }

}  // namespace weft::graph
