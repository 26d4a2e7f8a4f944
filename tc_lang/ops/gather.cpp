// Reads at places that are data. A negative index counts from the end; where a constant has none,
// none is looked for.
#include "base/affine_ints.h"
#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

// The place at `subs` that a constant gives, if its elements grow by a fixed step along each axis:
// those of every `columns`-th one from `column` on, where the last axis holds so many.
std::optional<std::string> AffinePlace(const Tensor* constant, const Subs& subs, int64_t extent,
                                       int64_t columns = 1, int64_t column = 0) {
  if (constant == nullptr) return std::nullopt;
  std::vector<int64_t> places;
  for (int64_t i = column; i < constant->elems(); i += columns) {
    const int64_t place = ElemAsInt(*constant, i);
    places.push_back(place < 0 ? place + extent : place);
    if (places.back() < 0 || places.back() >= extent) return std::nullopt;
  }
  const Shape& shape = constant->shape();
  const auto affine = AffineIntsOf(
      places, Shape(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(subs.size())));
  if (!affine) return std::nullopt;
  std::vector<std::pair<int64_t, std::string>> terms;
  for (size_t a = 0; a < subs.size(); ++a) terms.emplace_back(affine->steps[a], subs[a]);
  return Sum(terms, affine->first);
}

// Successive indices that count up by one.
struct Run {
  int64_t begin = 0, end = 0, place = 0;  // of indices; of the first of them
};

// The runs that constant indices along one axis consist of, if those are long and few: the pairs
// below the diagonal of a matrix, say, row by row.
std::vector<Run> RunsOf(const Tensor* constant, int64_t extent) {
  constexpr int64_t kMostRuns = 32, kLeastLength = 4;
  if (constant == nullptr || constant->shape().size() != 1) return {};
  std::vector<Run> runs;
  for (int64_t i = 0; i < constant->elems(); ++i) {
    const int64_t index = ElemAsInt(*constant, i), place = index < 0 ? index + extent : index;
    if (place < 0 || place >= extent) return {};
    const bool goes_on = !runs.empty() && place - runs.back().place == i - runs.back().begin;
    if (!goes_on) runs.push_back({i, i, place});
    runs.back().end = i + 1;
    if (std::ssize(runs) > kMostRuns) return {};
  }
  if (constant->elems() < kLeastLength * std::ssize(runs)) return {};
  return runs;
}

// The place that input 1, the indices, gives at `subs`.
std::string PlaceAt(Writer& w, const Operand& index, const Subs& subs, int64_t extent) {
  const Tensor* constant = w.Constant(1);
  bool from_end = constant == nullptr;
  for (int64_t i = 0; !from_end && i < constant->elems(); ++i)
    from_end = ElemAsInt(*constant, i) < 0;
  const std::string place = w.At(index, subs);
  return from_end ? FromEnd(place, extent) : place;
}

}  // namespace

// y(outer, at, inner) = x(outer, index(at), inner)
void Gather(Writer& w) {
  const Operand x = w.In(0), index = w.In(1), y = w.Out();
  const int64_t axis = w.Axis(w.Int("axis", 0), x.rank());
  const int64_t extent = w.Extent(x, axis);
  if (!w.ok()) return;
  const Subs i = w.Indices("i", y.dims);
  const auto mid = i.begin() + axis, inner = mid + index.rank();
  Subs from(i.begin(), mid);
  const Subs at(mid, inner);
  const auto slice = AffinePlace(w.Constant(1), at, extent);
  const std::vector<Run> runs =
      slice || inner != i.end() ? std::vector<Run>{} : RunsOf(w.Constant(1), extent);
  for (const Run& run : runs) {
    w.Range(at[0], run.end, run.begin);
    from.push_back(Sum({{1, at[0]}}, run.place - run.begin));
    w.Set("copy", y, i, w.At(x, from));
    from.pop_back();
  }
  if (!runs.empty()) return;
  from.push_back(slice ? *slice : PlaceAt(w, index, at, extent));
  from.insert(from.end(), inner, i.end());
  w.Set(slice ? "copy" : "gather", y, i, w.At(x, from));
}

void GatherElements(Writer& w) {
  const Operand x = w.In(0), index = w.In(1), y = w.Out();
  const int64_t axis = w.Axis(w.Int("axis", 0), x.rank());
  const int64_t extent = w.Extent(x, axis);
  if (!w.ok()) return;
  const Subs i = w.Indices("i", y.dims);
  Subs from = i;
  const auto slice = AffinePlace(w.Constant(1), i, extent);
  from[static_cast<size_t>(axis)] = slice ? *slice : PlaceAt(w, index, i, extent);
  w.Set(slice ? "copy" : "gather", y, i, w.At(x, from));
}

// The last axis of the indices holds one subscript a place, after `batch_dims` axes in common.
void GatherND(Writer& w) {
  const Operand x = w.In(0), index = w.In(1), y = w.Out();
  const int64_t batch = w.Int("batch_dims", 0), depth = w.Extent(index, index.rank() - 1);
  if (batch < 0 || batch + depth > x.rank() || batch >= index.rank())
    return w.Refuse("more subscripts than axes");
  const Subs i = w.Indices("i", y.dims);
  if (!w.ok()) return;
  const auto inner = i.begin() + index.rank() - 1;
  Subs from(i.begin(), i.begin() + batch);
  bool gathers = false;
  for (int64_t k = 0; k < depth; ++k) {
    const Subs at(i.begin(), inner);
    const int64_t extent = w.Extent(x, batch + k);
    const auto slice = AffinePlace(w.Constant(1), at, extent, depth, k);
    from.push_back(slice ? *slice : PlaceAt(w, index, Concat(at, {std::to_string(k)}), extent));
    gathers |= !slice;
  }
  from.insert(from.end(), inner, i.end());
  w.Set(gathers ? "gather" : "copy", y, i, w.At(x, from));
}

// The first lengths(batch) steps backwards, the rest as they are.
void ReverseSequence(Writer& w) {
  const Operand x = w.In(0), lengths = w.In(1), y = w.Out();
  const auto time = static_cast<size_t>(w.Axis(w.Int("time_axis", 0), x.rank()));
  const auto batch = static_cast<size_t>(w.Axis(w.Int("batch_axis", 1), x.rank()));
  const Subs i = w.Indices("i", y.dims);
  if (!w.ok()) return;
  const std::string length = w.At(lengths, {i[batch]});
  Subs from = i;
  from[time] = fmt::format("({0} < {1} ? {1} - 1 - {0} : {0})", i[time], length);
  w.Set("gather", y, i, w.At(x, from));
}

// The new axis is `axis`; values are (off, on). An index outside [-depth, depth) gives a row of
// offs. One that is no integer becomes one; one of few bits may not hold the depth.
void OneHot(Writer& w) {
  const Operand index = w.In(0), values = w.In(2), y = w.Out();
  const int64_t axis = w.Axis(w.Int("axis", -1), y.rank());
  const int64_t depth = w.Extent(y, axis);
  const Subs i = w.Indices("i", y.dims);
  if (!w.ok()) return;
  Subs at = i;
  at.erase(at.begin() + axis);
  std::string given = w.At(index, at);
  if (index.dtype == Dtype::kU64)  // the largest of them would be negative
    given = fmt::format("min({}, {})", given, LitInt(Dtype::kU64, depth));
  if (index.dtype != Dtype::kI32) given = Cast(Dtype::kI64, index.dtype, std::move(given));
  const std::string place = FromEnd(given, depth), j = i[static_cast<size_t>(axis)];
  const Tensor* constant = w.Constant(2);
  const auto value = [&](int64_t k) {
    if (constant != nullptr && IsFloat(y.dtype)) return Lit(y.dtype, ElemAsDouble(*constant, k));
    const bool fits =
        constant != nullptr && (y.dtype != Dtype::kU64 || ElemAsInt(*constant, k) >= 0);
    return fits ? LitInt(y.dtype, ElemAsInt(*constant, k)) : w.At(values, {std::to_string(k)});
  };
  w.Set("pointwise", y, i, fmt::format("{} == {} ? {} : {}", place, j, value(1), value(0)));
}

}  // namespace weft::tc::ops
