#include <fmt/format.h>

#include <algorithm>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

struct Cut {
  Elem start, end;
  int64_t step = 1;
};

// An axis of `in` elements. Bounds below 0 count from its end. A start is clamped to where an
// element is, whatever the direction; only an end may lie before the first.
int64_t CutLength(int64_t start, int64_t end, int64_t step, int64_t in) {
  if (in == 0) return 0;
  const int64_t from =
      std::clamp<int64_t>(start < 0 ? start + in : start, 0, step > 0 ? in : in - 1);
  const int64_t to = step > 0 ? std::clamp<int64_t>(end < 0 ? end + in : end, 0, in)
                              : std::clamp<int64_t>(end < 0 ? end + in : end, -1, in - 1);
  if (step > 0) return to > from ? (to - from - 1) / step + 1 : 0;
  if (step == INT64_MIN) return from > to ? 1 : 0;
  return from > to ? (from - to - 1) / -step + 1 : 0;
}

// A bound of a symbolic axis as an expression in 0 to `in`, where it is one whatever the symbols
// are.
std::optional<Affine> Bound(Context& c, Affine at, Extent in) {
  Affine all = c.Meaning(in);
  if (at == all) return all;
  const Interval range = c.Range(in);
  if (at.IsConstant()) at = std::clamp(at.constant(), -range.hi - 1, range.hi);
  auto sum = Plus(all, at), rest = AddScaled(all, at, -1);
  if (!sum || !rest) return std::nullopt;
  const Interval places = c.Range(at);
  if (places.lo >= 0) {
    if (places.hi <= range.lo || c.Range(*rest).lo >= 0) return at;
    if (places.lo >= range.hi || c.Range(*rest).hi <= 0) return all;
  } else if (places.hi < 0) {
    if (places.lo >= -range.lo || c.Range(*sum).lo >= 0) return sum;
    if (places.hi <= -range.hi || c.Range(*sum).hi <= 0) return Affine(0);
  }
  return std::nullopt;
}

Result<Extent> CutExtent(Context& c, const Cut& cut, Extent in) {
  const Interval range = c.Range(in);
  if (cut.start.kind != Elem::kInteger || cut.end.kind != Elem::kInteger)
    return c.Fresh("sliced", 0, range.hi);
  const Affine& start = cut.start.integer;
  const Affine& end = cut.end.integer;
  if (in.IsConstant() && start.IsConstant() && end.IsConstant()) {
    return Extent(CutLength(start.constant(), end.constant(), cut.step, in.value()));
  }
  if (cut.step == -1 && start == Affine(-1) && end.IsConstant() && end.constant() <= -INT32_MAX)
    return in;
  const auto from = Bound(c, start, in), to = Bound(c, end, in);
  const auto length = from && to ? AddScaled(*to, *from, -1) : std::nullopt;
  if (cut.step > 0 && cut.step < INT32_MAX && length) {
    if (c.Range(*length).hi <= 0) return Extent(0);
    if (*from == Affine(0) || *to == c.Meaning(in) || c.Range(*length).lo >= 0)
      return c.ToExtent(CeilDiv(*length, cut.step), "the length of the slice");
  }
  int64_t most = range.hi;
  if (cut.step > 0 && end.IsConstant() && end.constant() >= 0)
    most = std::min(most, end.constant());
  if (cut.step > 0 && start.IsConstant() && start.constant() < 0 && start.constant() > -most)
    most = -start.constant();
  return c.Opaque(
      fmt::format("slice({}, {}, {}, {})", c.Text(in), c.Text(start), c.Text(end), cut.step), 0,
      most);
}

}  // namespace

Status SliceRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  for (size_t i = 1; i < 5; ++i) WEFT_TRY(c.Rank(i, 1));
  const Facts* starts = c.FactsIn(1);
  const Facts* ends = c.FactsIn(2);
  size_t count = 0;
  bool counted = false;
  for (size_t i = 1; i < 5; ++i) {  // each list is as long as the others
    const Extents* list = c.In(i);
    if (!list || !(*list)[0].IsConstant()) continue;
    const auto here = static_cast<size_t>((*list)[0].value());
    if (counted && here != count)
      return Invalid(fmt::format("input {} has {} elements, expected {} as in the inputs before it",
                                 i, here, count));
    count = here;
    counted = true;
  }
  if (!counted || count > x->size()) {
    return counted ? Invalid(fmt::format("found {} starts for rank {}", count, rank)) : Status();
  }
  std::vector<int64_t> axes(count), steps(count, 1);
  for (size_t i = 0; i < count; ++i) axes[i] = static_cast<int64_t>(i);
  bool any_axis = false, any_step = false;
  if (c.Has(3)) {
    const auto given = c.Ints(3);
    any_axis = !given;
    if (given) {
      WEFT_TRY(axes, c.Axes(*given, rank));
    }
  }
  if (c.Has(4)) {
    const auto given = c.Ints(4);
    any_step = !given;
    if (given) steps = *given;
  }
  if (std::ranges::find(steps, 0) != steps.end()) return Invalid("a step is 0");
  Extents out = *x;
  if (any_axis) {  // some axis is cut, but nobody knows which
    for (Extent& extent : out) extent = c.Fresh("sliced", 0, c.Range(extent).hi);
    c.Out(0, std::move(out));
    return {};
  }
  for (size_t i = 0; i < count; ++i) {
    Extent& extent = out[static_cast<size_t>(axes[i])];
    if (any_step) {
      extent = c.Fresh("sliced", 0, c.Range(extent).hi);
      continue;
    }
    const Cut cut{starts ? (*starts)[i] : Elem(), ends ? (*ends)[i] : Elem(), steps[i]};
    WEFT_TRY(extent, CutExtent(c, cut, extent));
  }
  c.Out(0, std::move(out));
  return {};
}

Status ConcatRule(Context& c) {
  Extents out;
  Affine sum;
  int64_t axis = 0;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const Extents* in = c.In(i);
    if (!in) return {};
    if (i == 0) {
      out = *in;
      WEFT_TRY(axis, c.Axis(c.Int("axis", 0), static_cast<int64_t>(in->size())));
    }
    WEFT_TRY(c.Rank(i, static_cast<int64_t>(out.size())));
    for (size_t k = 0; k < out.size(); ++k) {
      if (static_cast<int64_t>(k) == axis) continue;
      WEFT_TRY(out[k], c.Same(out[k], (*in)[k],
                              fmt::format("axis {} of input {} and those before it", k, i)));
    }
    const auto next = Plus(sum, c.Meaning((*in)[static_cast<size_t>(axis)]));
    if (!next) return Limit("the concatenation is too long");
    sum = *next;
  }
  WEFT_TRY(out[static_cast<size_t>(axis)], c.ToExtent(sum, "the length of the concatenation"));
  c.Out(0, std::move(out));
  return {};
}

Status SplitRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  WEFT_TRY(c.MinRank(0, 1));
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", 0), static_cast<int64_t>(x->size())));
  const Extent in = (*x)[static_cast<size_t>(axis)];
  const size_t count = c.node.outputs.size();
  std::vector<Extent> parts;
  if (c.Has(1)) {
    const Facts* sizes = c.FactsIn(1);
    WEFT_TRY(c.Rank(1, 1));
    if (sizes && sizes->size() != count)
      return Invalid(fmt::format("found {} sizes for {} outputs", sizes->size(), count));
    Affine sum;
    bool known = sizes != nullptr;
    for (size_t i = 0; i < count; ++i) {
      if (!sizes || (*sizes)[i].kind != Elem::kInteger) {
        parts.push_back(c.Fresh("split", 0, c.Range(in).hi));
        known = false;
        continue;
      }
      WEFT_TRY(const Extent part, c.ToExtent((*sizes)[i].integer, "a size of the split"));
      parts.push_back(part);
      const auto next = Plus(sum, (*sizes)[i].integer);
      if (!next) return Invalid("the sizes of the split overflow");
      sum = *next;
    }
    if (known && sum.IsConstant() && in.IsConstant() && sum.constant() != in.value()) {
      return Invalid(fmt::format("the sizes of the split sum to {}, but axis {} has {}",
                                 sum.constant(), axis, in.value()));
    }
  } else {
    const int64_t wanted = c.Int("num_outputs", static_cast<int64_t>(count));
    if (wanted != static_cast<int64_t>(count))
      return Invalid(
          fmt::format("attribute \"num_outputs\" is {}, but there are {} outputs", wanted, count));
    const Affine chunk = CeilDiv(c.Meaning(in), wanted);
    WEFT_TRY(const Extent each, c.ToExtent(chunk, "a part of the split"));
    parts.assign(count, each);
    WEFT_TRY(parts.back(),
             c.ToExtent(c.Meaning(in) - chunk * (wanted - 1), "the last part of the split"));
  }
  for (size_t i = 0; i < count; ++i) {
    Extents out = *x;
    out[static_cast<size_t>(axis)] = parts[i];
    c.Out(i, std::move(out));
  }
  return {};
}

Status PadRule(Context& c) {
  const Extents* x = c.In(0);
  const Facts* pads = c.FactsIn(1);
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  WEFT_TRY(c.Rank(1, 1));
  std::vector<int64_t> axes;
  if (c.Has(3)) {
    const auto given = c.Ints(3);
    if (!given) return {};
    WEFT_TRY(axes, c.Axes(*given, rank));
  } else {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  Extents out = *x;
  if (pads && pads->size() != 2 * axes.size()) {
    return Invalid(fmt::format("found {} pads, expected {}", pads->size(), 2 * axes.size()));
  }
  const std::string mode = StringAttr(c.node, "mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return Invalid("attribute \"mode\" is none of constant, reflect, edge, wrap");
  for (size_t i = 0; i < axes.size(); ++i) {
    Extent& extent = out[static_cast<size_t>(axes[i])];
    if (!pads || (*pads)[i].kind != Elem::kInteger ||
        (*pads)[axes.size() + i].kind != Elem::kInteger) {
      extent = c.Fresh("padded");
      continue;
    }
    const auto sum = Plus((*pads)[i].integer, (*pads)[axes.size() + i].integer);
    const auto total = sum ? Plus(c.Meaning(extent), *sum) : std::nullopt;
    if (!total) return Limit("the padded input is too large");
    WEFT_TRY(extent, c.ToExtent(*total, fmt::format("the padded extent of axis {}", axes[i])));
  }
  c.Out(0, std::move(out));
  return {};
}

Status TileRule(Context& c) {
  const Extents* x = c.In(0);
  const Facts* repeats = c.FactsIn(1);
  if (!x) return {};
  if (repeats && repeats->size() != x->size())
    return Invalid(fmt::format("found {} repeats for rank {}", repeats->size(), x->size()));
  Extents out = *x;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!repeats || (*repeats)[i].kind != Elem::kInteger) {
      out[i] = c.Fresh("tiled");
      continue;
    }
    WEFT_TRY(const Extent times, c.ToExtent((*repeats)[i].integer, "a repeat"));
    const Extent factors[] = {out[i], times};
    out[i] = c.Product(factors);
  }
  c.Out(0, std::move(out));
  return {};
}

}  // namespace weft::graph::infer
