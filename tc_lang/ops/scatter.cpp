// Writes to places that are data: each cell looks for what is written to it.
#include <functional>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

// A cell looks at this many updates at most; with more of them, writing one after the other is
// less work.
constexpr int64_t kMostUpdates = 64;

// The updates that may meet cell `at` of the output.
struct Updates {
  Subs at;
  Subs hits;                                               // conditions under which this one does
  std::string number;                                      // of this one, from 0
  std::function<std::string(const std::string&)> element;  // of the update with a number
  std::string own;                                         // of this one
};

// A place that counts from the end if it is negative.
std::string Place(const std::string& index, int64_t extent) {
  return fmt::format("within({}, 0, {})", FromEnd(index, extent), extent);
}

void Combine(Writer& w, const Updates& u) {
  const Operand x = w.In(0), y = w.Out();
  const std::string how = graph::StringAttr(w.node, "reduction", "none"), old = w.At(x, u.at);
  const std::string hit = Join(u.hits, " && ");
  if (how == "none") {  // the last one stays
    const Operand last = w.Temp("last", Dtype::kI32);
    w.Reduce("reduction", last, u.at, "max=!", fmt::format("({} ? {} : -1)", hit, u.number));
    const std::string number = w.At(last, u.at);
    return w.Set("gather", y, u.at,
                 fmt::format("{} >= 0 ? {} : {}", number, u.element(number), old));
  }
  if (y.dtype == Dtype::kBool) return w.Refuse("sums of truth values");
  const bool sum = how == "add", product = how == "mul";
  const std::string none = sum            ? Lit(y.dtype, 0)
                           : product      ? Lit(y.dtype, 1)
                           : how == "max" ? Lowest(y.dtype)
                                          : Highest(y.dtype);
  const std::string assign = sum ? "+=!" : product ? "*=!" : how + "=!";
  const Operand all = w.Temp("updates", y.dtype);
  w.Reduce("reduction", all, u.at, assign, fmt::format("({} ? {} : {})", hit, u.own, none));
  const std::string found = w.At(all, u.at);
  w.Set("pointwise", y, u.at,
        sum || product ? fmt::format("{} {} {}", old, sum ? "+" : "*", found)
                       : fmt::format("{}({}, {})", how, old, found));
}

}  // namespace

void ScatterElements(Writer& w) {
  const Operand x = w.In(0), index = w.In(1), update = w.In(2), y = w.Out();
  const auto axis = static_cast<size_t>(w.Axis(w.Int("axis", 0), x.rank()));
  const int64_t extent = w.Extent(x, static_cast<int64_t>(axis)),
                count = w.Extent(index, static_cast<int64_t>(axis));
  if (!w.ok()) return;
  if (count > kMostUpdates) return w.Refuse(fmt::format("{} updates a cell to look at", count));
  Updates u{.at = w.Indices("i", y.dims), .number = w.Range("e", count)};
  for (size_t k = 0; k < u.at.size(); ++k) {
    if (k != axis && !(index.dims[k] == x.dims[k]))
      u.hits.push_back(fmt::format("{} < {}", u.at[k], index.dims[k].text()));
  }
  const auto read = [&w, u, axis](const Operand& of, const std::string& number) {
    Subs from = u.at;
    from[axis] = number;
    return w.At(of, from);
  };
  u.hits.push_back(fmt::format("{} == {}", Place(read(index, "e"), extent), u.at[axis]));
  u.element = [read, update](const std::string& number) { return read(update, number); };
  u.own = read(update, "e");
  Combine(w, u);
}

// The last axis of the indices holds the first subscripts of a place; an update is what lies there.
void ScatterND(Writer& w) {
  const Operand index = w.In(1), update = w.In(2), y = w.Out();
  const int64_t depth = w.Extent(index, index.rank() - 1);
  if (depth < 1 || depth > y.rank()) return w.Refuse("places without subscripts");
  const auto outer = static_cast<size_t>(index.rank()) - 1;
  Ints extents;  // of the list of places
  for (size_t k = 0; k < outer; ++k) extents.push_back(w.Extent(index, static_cast<int64_t>(k)));
  if (!w.ok()) return;
  const int64_t count = Product(extents);
  if (count > kMostUpdates) return w.Refuse(fmt::format("{} updates a cell to look at", count));
  Updates u{.at = w.Indices("i", y.dims), .number = "0"};
  Subs own;
  for (size_t k = 0; k < outer; ++k) {
    own.push_back(w.Range(fmt::format("j{}", k), extents[k]));
    u.number = k == 0 ? own[k] : fmt::format("({})*{} + {}", u.number, extents[k], own[k]);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const std::string place = w.At(index, Concat(own, {std::to_string(k)}));
    u.hits.push_back(
        fmt::format("{} == {}", Place(place, w.Extent(y, k)), u.at[static_cast<size_t>(k)]));
  }
  const Subs inner(u.at.begin() + depth, u.at.end());
  u.own = w.At(update, Concat(own, inner));
  u.element = [&w, update, extents, inner](const std::string& number) {
    Subs from(extents.size());
    int64_t stride = 1;
    for (size_t k = extents.size(); k-- > 0; stride *= extents[k])
      from[k] = fmt::format("({} / {}) % {}", number, std::max<int64_t>(stride, 1),
                            std::max<int64_t>(extents[k], 1));
    return w.At(update, Concat(from, inner));
  };
  Combine(w, u);
}

}  // namespace weft::tc::ops
