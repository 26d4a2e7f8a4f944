// Parts of tensors put together, taken apart, cut and padded.
#include <algorithm>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

// Row-independent padding: which input element stands at e, for e outside [0, extent) too.
std::string Mirror(std::string_view mode, const std::string& e, int64_t extent) {
  if (extent == 1) return "0";
  if (mode == "edge") return fmt::format("min(max({}, 0), {})", e, extent - 1);
  if (mode == "wrap") return fmt::format("({}) % {}", e, extent);
  // Back and forth with period 2 * (extent - 1): m counts up, then down.
  const int64_t period = 2 * (extent - 1);
  return fmt::format("min(({0}) % {1}, {1} - ({0}) % {1})", e, period);
}

// Which input element stands at index i of part 0, 1 or 2 of a padded axis: before, in and behind
// what is repeated. Within one period that is affine in i; the part begins at `begin`.
std::string InPart(std::string_view mode, size_t part, const std::string& i, int64_t begin,
                   int64_t lo, int64_t extent) {
  if (part != 1 && mode == "edge") return part == 0 ? "0" : std::to_string(extent - 1);
  if (part != 1 && mode == "reflect") return Sum({{-1, i}}, part == 0 ? lo : begin + extent - 2);
  return Sum({{1, i}}, part == 0 ? extent - lo : -begin);
}

bool IsOnePeriod(std::string_view mode, int64_t pad, int64_t extent) {
  return pad >= 0 && (mode == "edge" || pad <= (mode == "wrap" ? extent : extent - 1));
}

}  // namespace

// One statement an input, each over its part of the axis.
void ConcatAlong(Writer& w) {
  const Operand y = w.Out();
  const int64_t axis = w.Axis(w.Int("axis", 0), y.rank());
  if (!w.ok()) return;
  const Subs i = w.Indices("i", y.dims);
  int64_t begin = 0;
  for (size_t k = 0; k < w.node.inputs.size(); ++k) {
    const Operand x = w.In(k);
    const int64_t extent = w.Extent(x, axis);
    if (extent == 0) continue;
    const auto place = static_cast<size_t>(axis);
    w.Range(i[place], begin + extent, begin);
    Subs from = i;
    from[place] = Sum({{1, i[place]}}, -begin);
    w.Set("copy", y, i, w.At(x, from));
    begin += extent;
  }
}

void Split(Writer& w) {
  const Operand x = w.In(0);
  const int64_t axis = w.Axis(w.Int("axis", 0), x.rank());
  int64_t begin = 0;
  for (size_t k = 0; k < w.node.outputs.size() && w.ok(); ++k) {
    const Operand y = w.Out(k);
    if (!w.HasOut(k)) return w.Refuse("a part that has no name");
    const Subs i = w.Indices("i", y.dims);
    Subs from = i;
    from[static_cast<size_t>(axis)] = Sum({{1, i[static_cast<size_t>(axis)]}}, begin);
    w.Set("copy", y, i, w.At(x, from));
    begin += w.Extent(y, axis);
  }
}

void Slice(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Ints starts = w.ConstInts(1);
  Ints axes, steps(starts.size(), 1);
  if (w.Has(3))
    axes = w.Axes(w.ConstInts(3), x.rank());
  else
    for (size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  if (w.Has(4)) steps = w.ConstInts(4);
  if (!w.ok() || axes.size() != starts.size() || steps.size() != starts.size())
    return w.Refuse("unequal lists");
  const Subs i = w.Indices("i", y.dims);
  Subs from = i;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto axis = static_cast<size_t>(axes[k]);
    if (x.dims[axis] == y.dims[axis] && steps[k] == 1) continue;
    const int64_t extent = w.Extent(x, axes[k]);
    const int64_t start = starts[k] < 0 ? starts[k] + extent : starts[k];
    const int64_t first = std::clamp<int64_t>(start, 0, steps[k] < 0 ? extent - 1 : extent);
    // The step to an element that there is not may be any number.
    from[axis] =
        w.Extent(y, axes[k]) < 2 ? std::to_string(first) : Sum({{steps[k], i[axis]}}, first);
  }
  w.Set("copy", y, i, w.At(x, from));
}

void Pad(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const std::string mode = graph::StringAttr(w.node, "mode", "constant");
  const Ints pads = w.ConstInts(1);
  Ints axes;
  if (w.Has(3))
    axes = w.Axes(w.ConstInts(3), x.rank());
  else
    for (int64_t k = 0; k < x.rank(); ++k) axes.push_back(k);
  if (!w.ok() || pads.size() != 2 * axes.size()) return w.Refuse("unequal lists");
  const Subs i = w.Indices("i", y.dims);
  Subs from = i, guards;
  Ints parts;  // of the last axis, if it is padded by what it holds
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto axis = static_cast<size_t>(axes[k]);
    const int64_t lo = pads[k], hi = pads[axes.size() + k];
    if (lo == 0 && hi == 0) continue;
    const int64_t extent = w.Extent(x, axes[k]);
    from[axis] = Sum({{1, i[axis]}}, -lo);
    // Along the last axis a part a statement, so that lanes read along it too.
    const bool last = axes[k] + 1 == y.rank() && mode != "constant";
    if (last && IsOnePeriod(mode, lo, extent) && IsOnePeriod(mode, hi, extent)) {
      parts = {lo, extent, hi};
      continue;
    }
    if (mode != "constant") {  // what is cut off is no longer there to be repeated
      const int64_t cut_lo = std::max<int64_t>(-lo, 0), cut_hi = std::max<int64_t>(-hi, 0);
      if (lo <= 0 && hi <= 0) continue;
      from[axis] =
          Mirror(mode, Sum({{1, i[axis]}}, -std::max<int64_t>(lo, 0)), extent - cut_lo - cut_hi);
      if (cut_lo > 0) from[axis] = Sum({{1, from[axis]}}, cut_lo);
      continue;
    }
    if (lo > 0) guards.push_back(from[axis] + " >= 0");
    if (hi > 0) guards.push_back(fmt::format("{} < {}", from[axis], extent));
  }
  int64_t begin = 0;
  for (size_t part = 0; part < parts.size(); begin += parts[part], ++part) {
    if (parts[part] == 0) continue;
    w.Range(i.back(), begin + parts[part], begin);
    from.back() = InPart(mode, part, i.back(), begin, parts[0], parts[1]);
    w.Set("copy", y, i, w.At(x, from));
  }
  if (!parts.empty()) return;
  if (guards.empty()) return w.Set("copy", y, i, w.At(x, from));
  const std::string value =
      w.Has(2) ? w.At(w.Arg(2), w.In(2).dims.empty() ? Subs{} : Subs{"0"}) : LitInt(y.dtype, 0);
  w.Set("copy", y, i, fmt::format("{} ? {} : {}", Join(guards, " && "), w.At(x, from), value));
}

// Of an axis that is cut, its middle; one that grows has what there was in its middle.
void CenterCropPad(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  Subs from = i, guards;
  for (size_t k = 0; k < y.dims.size() && k < x.dims.size(); ++k) {
    if (x.dims[k] == y.dims[k]) continue;
    const auto axis = static_cast<int64_t>(k);
    const int64_t have = w.Extent(x, axis), want = w.Extent(y, axis);
    if (want < have) {
      from[k] = Sum({{1, i[k]}}, (have - want) / 2);
      continue;
    }
    from[k] = Sum({{1, i[k]}}, -((want - have) / 2));
    guards.push_back(fmt::format("{0} >= 0 && {0} < {1}", from[k], have));
  }
  const std::string value = w.At(x, from);
  const std::string none = y.dtype == Dtype::kBool ? "false" : Lit(y.dtype, 0);
  w.Set("copy", y, i,
        guards.empty() ? value : fmt::format("{} ? {} : {}", Join(guards, " && "), value, none));
}

}  // namespace weft::tc::ops
