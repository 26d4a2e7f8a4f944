// Discrete Fourier transforms, as products with a table of cosines and sines, and filters for what
// they give.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>

#include "graph/edit.h"
#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

constexpr int64_t kLargestTable = int64_t{1} << 24;     // elements
constexpr int64_t kLargestConstant = int64_t{1} << 22;  // elements of one that is made beforehand
const char* const kTable = "transform_table";

// How numbers of `ins` parts (1: real ones, 2: complex ones) at places n become others at places k.
struct Transform {
  int64_t size = 1;                      // of the whole transform
  int64_t from = 1, to = 1;              // places that are read and made
  int64_t ins = 1, outs = 2;             // parts
  bool inverse = false, halved = false;  // halved: n runs over half of what is symmetric

  auto operator<=>(const Transform&) const = default;
  // Part d of the input adds to part o of the output with a minus.
  bool Subtracts(int64_t o, int64_t d) const { return o != d && (o < d) == inverse; }
};

// The table of e^(-+2 pi j k n / size), as what part d of the input adds to part o of the output:
// (o, d, k, n), with index names "o", "d", "k", "e".
Operand Table(Writer& w, const Transform& t, Dtype dtype, const std::string& factor) {
  w.Range("k", t.to);
  w.Range("e", t.from);
  if (const auto form = w.graph.forms.find({w.node.outputs[0], kTable});
      form != w.graph.forms.end()) {
    w.Range("o", t.outs);
    w.Range("d", t.ins);
    return w.Value(form->second);
  }
  const auto number = [](int64_t v) { return Lit(Dtype::kF64, static_cast<double>(v)); };
  const std::string angle =
      fmt::format("double((k * e) % {}) * {}", t.size,
                  Lit(Dtype::kF64, 2 * std::numbers::pi / static_cast<double>(t.size)));
  std::string scale = t.inverse ? fmt::format(" / {}", number(t.size)) : "";
  if (t.halved)  // all but the ends stand for two
    scale =
        fmt::format(" * (e == 0 || 2 * e == {} ? {} : {}){}", t.size, number(1), number(2), scale);
  const Operand table = w.Temp("table", dtype);
  for (int64_t o = 0; o < t.outs; ++o) {
    for (int64_t d = 0; d < t.ins; ++d) {
      std::string value = fmt::format("{}{}({}){}", t.Subtracts(o, d) ? "-" : "",
                                      o == d ? "cos" : "sin", angle, scale);
      if (table.dtype != Dtype::kF64) value = Cast(table.dtype, value);
      w.Set("pointwise", table, {std::to_string(o), std::to_string(d), "k", "e"}, value + factor);
    }
  }
  w.Range("o", t.outs);
  w.Range("d", t.ins);
  return table;
}

bool Fits(Writer& w, const Transform& t) {
  if (t.size < 1 || t.from < 1 || t.to < 1) {
    w.Refuse("a transform of nothing");
    return false;
  }
  // Neither factor is larger than the limit, so that the product is no wide number.
  const bool fits =
      std::max(t.from, t.to) <= kLargestTable && t.from * t.to <= kLargestTable / (t.ins * t.outs);
  if (!fits) w.Refuse(fmt::format("a transform of {} by {} by a table", t.from, t.to));
  return fits;
}

// What the node says, with the axis that it is along.
std::optional<std::pair<Transform, int64_t>> DftOf(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Ints given = w.Has(2) ? w.ConstInts(2) : Ints{-2};
  const int64_t axis = given.size() == 1 ? w.Axis(given[0], x.rank()) : 0;
  Transform t{.inverse = w.Int("inverse", 0) != 0};
  t.ins = w.Extent(x, x.rank() - 1);
  t.outs = w.Extent(y, y.rank() - 1);
  t.to = w.Extent(y, axis);
  t.from = w.Extent(x, axis);
  t.size = t.to;
  const bool onesided = w.Int("onesided", 0) != 0;
  t.halved = onesided && t.inverse;
  if (w.Has(1)) {
    const Ints length = w.ConstInts(1);
    if (!w.ok() || length.size() != 1) {
      w.Refuse("no length");
      return std::nullopt;
    }
    t.size = length[0];
  } else if (onesided) {
    t.size = t.inverse ? 2 * (t.from - 1) : t.from;
  }
  t.from = std::min(t.from, t.halved ? t.size / 2 + 1 : t.size);
  if (!w.ok() || !Fits(w, t)) return std::nullopt;
  return std::pair(t, axis);
}

// The table's elements, rounded once: the same numbers.
Tensor TableOf(const Transform& t, Dtype dtype) {
  Tensor table(dtype, {t.outs, t.ins, t.to, t.from});
  const double angle = 2 * std::numbers::pi / static_cast<double>(t.size);
  int64_t at = 0;
  for (int64_t o = 0; o < t.outs; ++o) {
    for (int64_t d = 0; d < t.ins; ++d) {
      for (int64_t k = 0; k < t.to; ++k) {
        for (int64_t e = 0; e < t.from; ++e) {
          const double a = static_cast<double>(k * e % t.size) * angle;
          double value = (o == d ? std::cos(a) : std::sin(a)) * (t.Subtracts(o, d) ? -1 : 1);
          if (t.halved && e != 0 && 2 * e != t.size) value *= 2;
          if (t.inverse) value /= static_cast<double>(t.size);
          SetElem(table, at++, value);
        }
      }
    }
  }
  return table;
}

}  // namespace

void Dft(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const auto found = DftOf(w);
  if (!found) return;
  const auto& [t, axis] = *found;
  const Operand table = Table(w, t, x.dtype, "");
  Subs to, from;
  for (int64_t k = 0; k + 1 < x.rank(); ++k) {
    const auto i = static_cast<size_t>(k);
    to.push_back(k == axis ? "k" : w.Range(fmt::format("i{}", k), y.dims[i]));
    from.push_back(k == axis ? "e" : to.back());
  }
  to.push_back("o");
  from.push_back("d");
  w.Reduce("contraction", y, to, "+=!",
           fmt::format("{} * {}", w.At(x, from), w.At(table, {"o", "d", "k", "e"})));
}

// Frames that overlap, each with the same window. The window goes into the table.
void Stft(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Ints step = w.ConstInts(1);
  const bool real = x.rank() == 2;  // without an axis of parts
  Transform t{.ins = real ? 1 : w.Extent(x, 2), .outs = 2};
  t.from = w.Has(2) ? w.Extent(w.In(2), 0) : w.Extent(x, 1);
  if (w.Has(3)) {
    const Ints length = w.ConstInts(3);
    if (length.size() == 1) t.from = length[0];
  }
  t.size = t.from;
  t.to = w.Extent(y, 2);
  if (!w.ok() || step.size() != 1 || !Fits(w, t)) return w.Refuse("no step");
  const std::string window = w.Has(2) ? fmt::format(" * {}", w.At(w.In(2), {"e"})) : "";
  const Operand table = Table(w, t, x.dtype, window);
  w.Range("b", y.dims[0]);
  w.Range("t", w.Extent(y, 1));
  const std::string place = Sum({{step[0], "t"}, {1, "e"}});
  w.Reduce("contraction", y, {"b", "t", "k", "o"}, "+=!",
           fmt::format("{} * {}", w.At(x, real ? Subs{"b", place} : Subs{"b", place, "d"}),
                       w.At(table, {"o", real ? "0" : "d", "k", "e"})));
}

// Triangles over the bins of a spectrum, equally wide in mels (O'Shaughnessy, "Speech
// communication", 1987, page 150), of which one is 700 log(1 + hertz / 700) here: its unit cancels.
void MelWeightMatrix(Writer& w) {
  const Operand y = w.Out();
  const auto scalar = [&](size_t k) {
    const Operand x = w.Arg(k);
    return Cast(Dtype::kF64, w.At(x, Subs(x.dims.size(), "0")));
  };
  const auto number = [](double v) { return Lit(Dtype::kF64, v); };
  const std::string low = fmt::format("log1p({} / {})", scalar(3), number(700)),
                    high = fmt::format("log1p({} / {})", scalar(4), number(700));
  const int64_t bands = w.Extent(y, 1);
  if (!w.ok()) return;
  w.Range("e", bands + 2);
  const Operand edges = w.Temp("edges", Dtype::kF64);
  const std::string mel = fmt::format("{0} + double(e) * ({1} - {0}) / {2}", low, high,
                                      number(static_cast<double>(bands + 2)));
  w.Set("pointwise", edges, {"e"},
        fmt::format("floor(({} + {}) * {} * expm1({}) / {})", scalar(1), number(1), number(700),
                    mel, scalar(2)));
  w.Range("i", w.Extent(y, 0));
  w.Range("j", bands);
  const std::string lo = w.At(edges, {"j"}), mid = w.At(edges, {"j + 1"}),
                    hi = w.At(edges, {"j + 2"});
  const std::string value = fmt::format(
      "(double(i) >= {1} && double(i) < {2} ? ({2} - double(i)) / ({2} - {1}) : "
      "(double(i) >= {0} && double(i) <= {1} ? "
      "({0} == {1} ? {3} : (double(i) - {0}) / ({1} - {0})) : {4}))",
      lo, mid, hi, number(1), number(0));
  w.Set("pointwise", y, {"i", "j"}, y.dtype == Dtype::kF64 ? value : Cast(y.dtype, value));
}

}  // namespace weft::tc::ops

namespace weft::tc {

void PrepareTables(graph::Graph& graph) {
  const auto is_dft = [](const graph::Node& node) { return node.op == graph::Op::kDFT; };
  if (std::ranges::none_of(graph.nodes, is_dft)) return;  // most networks, and each start asks
  graph::Names names(graph);
  std::map<std::pair<ops::Transform, Dtype>, graph::ValueId> known;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_dft(graph.nodes[n])) continue;
    ops::Writer w(graph, graph::NodeId(n));
    const auto found = ops::DftOf(w);
    if (!found) continue;
    const ops::Transform& t = found->first;
    const Dtype dtype = w.In(0).dtype;
    if ((dtype != Dtype::kF32 && dtype != Dtype::kF64) ||
        t.from * t.to * t.ins * t.outs > ops::kLargestConstant)
      continue;
    const graph::ValueId y = graph.nodes[n].outputs[0];
    graph::ValueId& table = known[{t, dtype}];
    if (!table.valid())
      table =
          graph::AddConstant(graph, names.Fresh(graph[y].name + "_table"), ops::TableOf(t, dtype));
    graph.forms[{y, ops::kTable}] = table;
  }
}

}  // namespace weft::tc
