// Convolutions with filters of three taps, along one axis or two, by Winograd's minimal filtering,
// see winograd_form.h. Four statements, where tile (p, q) makes outputs m p to m p + m - 1 of rows,
// m q and so on of columns. An axis in front of those, a volume's depth, stays as it is: its taps
// are summed up as channels are, of the same tiles for each.
//
//   s = B^T d      along columns, where d is the tile's input; not where only one axis has taps
//   v = s B        along rows; tiles are one axis from here on, so that there are (m + 2)^2 matrix
//                  products
//   m = v * u      summed over channels, where u = G g G^T was made beforehand
//   y = A^T m A    by the residues of the output's place
//
// Of integers F(2, 3) is exact: its matrices are of 0, 1 and -1 but for the filter's, which has
// halves. That is taken twice for each axis, and sums modulo 2^32 are divided at the end.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/threads/parallel.h"
#include "graph/edit.h"
#include "tc_lang/ops/families.h"
#include "tc_lang/ops/winograd_tiles.h"

namespace weft::tc {
namespace {

constexpr double kErrorBound = 2;  // of the direct form's

// Which spatial axis of a volume's filter has no tiles: the first, unless that has three taps and
// one behind it has a single tap.
size_t WholeAxis(const Shape& filter) {
  if (filter[2] == 3 && filter[3] == 1) return 1;
  return filter[2] == 3 && filter[4] == 1 ? 2 : 0;
}

}  // namespace

Shape ops::TilesLast(Shape filter) {
  if (filter.size() == 5) {
    const auto whole = filter.begin() + 2 + static_cast<int64_t>(WholeAxis(filter));
    std::rotate(filter.begin() + 2, whole, whole + 1);
  }
  return filter;
}

bool ops::HasTiles(const graph::Graph& graph, const graph::Node& node, size_t filter) {
  const auto ones = [&](std::string_view name) {
    return std::ranges::all_of(graph::IntsAttr(node, name), [](int64_t v) { return v == 1; });
  };
  const graph::ValueId x = graph::InputAt(node, 0), w = graph::InputAt(node, filter);
  if (!x.valid() || !w.valid() || graph[w].kind != graph::ValueKind::kConstant) return false;
  const auto in = graph::StaticShape(graph[x]);
  const Tensor& weights = graph[w].constant;
  const size_t rank = weights.shape().size();
  if (rank < 3 || rank > 5 || !in || in->size() != rank) return false;
  const Shape shape = TilesLast(weights.shape());
  const auto taps = std::span(shape).subspan(shape.size() == 5 ? 3 : 2);
  const bool fits = std::ranges::all_of(taps, [](int64_t n) { return n == 1 || n == 3; }) &&
                    std::ranges::count(taps, 3) > 0;
  return fits && ones("strides") && ones("dilations") && graph::IntAttr(node, "group", 1) == 1 &&
         weights.elems() > 0;
}

namespace {

// The same answer whether or not its filter was prepared.
bool HasTileForm(const graph::Graph& graph, const graph::Node& node) {
  return node.op == graph::Op::kConv && ops::HasTiles(graph, node, 1) &&
         graph[node.inputs[1]].dtype == Dtype::kF32;
}

graph::ValueId PreparedFilter(const graph::Graph& graph, const graph::Node& node,
                              const WinogradForm& form) {
  if (!HasTileForm(graph, node)) return {};
  const auto found = graph.forms.find({node.inputs[1], std::string(form.key)});
  return found == graph.forms.end() ? graph::ValueId() : found->second;
}

}  // namespace

std::vector<Prepared> PrepareConstants(graph::Graph& graph, Winograd winograd, bool judged) {
  std::vector<Prepared> all;
  if (winograd == Winograd::kNever) return all;
  std::vector<graph::ValueId> filters;  // each once, in the order of the nodes
  std::map<graph::ValueId, std::vector<graph::NodeId>> nodes_of;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!HasTileForm(graph, graph.nodes[i])) continue;
    const graph::ValueId filter = graph.nodes[i].inputs[1];
    auto& nodes = nodes_of[filter];
    if (nodes.empty()) filters.push_back(filter);
    nodes.emplace_back(i);
  }
  // Only the first form has ever been seen to keep to the bound.
  const auto forms = WinogradForms().first(winograd == Winograd::kAlways ? 2 : 1);
  const size_t count = filters.size() * forms.size();
  all.resize(count);
  std::vector<Tensor> transformed(count);
  InParallel(count, [&](size_t i) {
    const WinogradForm& form = forms[i % forms.size()];
    const graph::ValueId value = filters[i / forms.size()];
    const Tensor& given = std::as_const(graph)[value].constant;
    const Tensor filter = given.Reshaped(ops::TilesLast(given.shape()));
    transformed[i] = TransformFilters(form, filter);
    all[i] = {.nodes = nodes_of.at(value), .alternative = std::string(form.alternative)};
    if (winograd != Winograd::kWithinBound || judged) return;
    const double ratio = ErrorRatio(form, filter, transformed[i]);
    all[i].error_ratio = ratio;
    if (!(ratio <= kErrorBound))
      all[i].refusal = {Reason::kInaccurate,
                        fmt::format("{:.2f} > {:.2f} times the error", ratio, kErrorBound)};
  });
  graph::Names names(graph);
  for (size_t i = 0; i < count; ++i) {
    if (all[i].refusal) continue;
    const WinogradForm& form = forms[i % forms.size()];
    const graph::ValueId value = filters[i / forms.size()];
    graph.forms[{value, std::string(form.key)}] = graph::AddConstant(
        graph, names.Fresh(fmt::format("{}_{}", graph[value].name, form.alternative)),
        std::move(transformed[i]));
  }
  return all;
}

namespace ops {
namespace {

// The sum of the terms that a line of a matrix does not make zero; zero times infinity is not zero,
// so those are left out.
std::string Line(const std::vector<double>& row, const std::vector<std::string>& d) {
  std::string first, text;
  for (size_t k = 0; k < row.size(); ++k) {
    if (row[k] == 0) continue;
    const double size = std::abs(row[k]);
    const std::string term =
        size == 1 ? d[k] : fmt::format("{} * {}", Lit(Dtype::kF32, size), d[k]);
    if (first.empty() && row[k] > 0)
      first = term;
    else
      text += (row[k] > 0 ? " + " : " - ") + term;
  }
  return "(" + first + text + ")";
}

std::string Zero(Dtype dtype) { return IsFloat(dtype) ? Lit(dtype, 0) : LitInt(dtype, 0); }

// One of several values by the value of an index; a choice that is decided when it is unrolled.
std::string Choice(const std::string& index, const std::vector<std::string>& values) {
  std::string text;
  for (size_t k = 0; k + 1 < values.size(); ++k)
    text += fmt::format("{} == {} ? {} : ", index, k, values[k]);
  return "(" + text + values.back() + ")";
}

// All lines of a matrix over some values.
std::vector<std::string> Lines(const Matrix& matrix, const std::vector<std::string>& values) {
  std::vector<std::string> all;
  for (const auto& row : matrix) all.push_back(Line(row, values));
  return all;
}

// How tiles lie along an axis of an image.
struct Tiling {
  const WinogradForm& form;
  WindowAxis window;
  std::string at;  // the index of the output
  int64_t outs() const { return static_cast<int64_t>(form.outs()); }
  int64_t ins() const { return static_cast<int64_t>(form.ins()); }
  int64_t tiles() const { return (window.out + outs() - 1) / outs(); }
  std::string Tile() const { return outs() == 1 ? at : fmt::format("{} / {}", at, outs()); }
};

// A place of a tile's input along an axis: the tile's index, and an element of it, or the index of
// one.
struct Place {
  const char* tile;
  int64_t element = 0;
  const char* index = nullptr;
};

// An input of a tile; zero where it lies outside of the image. `whole`: the axis that has no tiles,
// along which an input's index is l; behind the last if there is none.
std::string TileInput(const TiledNumbers& numbers, const std::vector<Tiling>& axes, size_t whole,
                      const std::vector<Place>& places) {
  Subs guards, subscripts = {"n", "c"};
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i == whole) subscripts.push_back("l");
    const Place& place = places[i];
    const int64_t pad = axes[i].window.pad_lo, in = axes[i].window.in, outs = axes[i].outs();
    const std::string at = place.index ? Sum({{outs, place.tile}, {1, place.index}}, -pad)
                                       : Sum({{outs, place.tile}}, place.element - pad);
    const int64_t first = place.index ? 0 : place.element,
                  last = place.index ? axes[i].ins() - 1 : place.element;
    if (first < pad) guards.push_back(at + " >= 0");
    if (outs * (axes[i].tiles() - 1) + last - pad >= in)
      guards.push_back(fmt::format("{} < {}", at, in));
    subscripts.push_back(at);
  }
  if (whole == axes.size()) subscripts.push_back("l");
  return "(" + Guarded(guards, numbers.element(subscripts), Zero(numbers.tiles)) + ")";
}

// The place of A^T m A along `down` and `across`, of the tile that it belongs to; `at`: subscripts
// of m behind those of a tile's products.
std::string TileOutput(Writer& w, const Operand& m, const Tiling* down, const Tiling& across,
                       const Subs& at) {
  const Matrix one = {{1}}, &down_lines = down ? down->form.output : one;
  std::vector<std::string> by_row;
  for (const auto& down_line : down_lines) {
    std::vector<std::string> by_column;
    for (int64_t j = 0; j < across.ins(); ++j) {
      std::vector<std::string> products;
      for (size_t i = 0; i < down_line.size(); ++i)
        products.push_back(w.At(m, Concat({std::to_string(i), std::to_string(j)}, at)));
      by_column.push_back(Line(down_line, products));
    }
    by_row.push_back(Choice(fmt::format("{} % {}", across.at, across.outs()),
                            Lines(across.form.output, by_column)));
  }
  return down ? Choice(fmt::format("{} % {}", down->at, down->outs()), by_row) : by_row[0];
}

}  // namespace

std::string TiledSum(Writer& w, const Convolution& conv, const Shape& filters,
                     graph::ValueId prepared, const WinogradForm& form,
                     const TiledNumbers& numbers) {
  const Operand &x = conv.x, u = w.Value(prepared);
  const Windows& win = conv.win;
  const TileForms forms = FormsAlong(form, TilesLast(filters));
  const size_t count = win.axes.size(), whole = count == 3 ? WholeAxis(filters) : count;
  const bool deep = count == 3;
  std::vector<Tiling> axes;
  for (size_t i = 0; i < count; ++i) {
    if (i == whole) continue;
    const bool last = axes.size() + 1 == std::min<size_t>(count, 2);
    axes.push_back({last ? forms.across : forms.down, win.axes[i], win.out[i]});
  }
  const Tiling *down = count >= 2 ? &axes[0] : nullptr, &across = axes.back();
  const int64_t rows = down ? down->tiles() : 1, columns = across.tiles();
  w.Range("i", u.dims[0]);
  w.Range("j", u.dims[1]);
  w.Range("e", across.ins());
  w.Range("n", x.dims[0]);
  w.Range("p", rows);
  w.Range("q", columns);
  w.Range("t", rows * columns);
  w.Range("c", w.Extent(x, 1));
  w.Range("k", w.Extent(conv.y, 1));
  Subs images = {"n"}, outs = {"n"};  // that tiles are of, and their outputs
  // Along the axis that has no tiles: an output's input, the tap that takes it, where it is one.
  std::string image, tap;
  Subs inside;
  if (deep) {
    const WindowAxis& depth = win.axes[whole];
    tap = depth.kernel == 1 ? "0" : w.Range("r", depth.kernel);
    image = Sum({{1, win.out[whole]}, {depth.kernel == 1 ? 0 : 1, tap}}, -depth.pad_lo);
    if (depth.pad_lo > 0) inside.push_back(image + " >= 0");
    if (depth.pad_hi > 0) inside.push_back(fmt::format("{} < {}", image, depth.in));
    images.push_back(w.Range("l", depth.in));
    outs.push_back(win.out[whole]);
  }
  const Operand v = w.Temp("tiles", numbers.tiles), m = w.Temp("products", numbers.sums);
  const std::string tile = Sum({{down ? columns : 0, "p"}, {1, "q"}});
  const Subs of_tile = Concat(Concat({"i", "j"}, images), {tile, "c"});
  // The inputs of a tile along one of its axes.
  const auto inputs_along = [&](const Tiling& axis, const char* across_index) {
    std::vector<std::string> inputs;
    for (int64_t a = 0; a < axis.ins(); ++a) {
      std::vector<Place> places;
      if (down) places.push_back({"p", &axis == down ? a : 0});
      places.push_back({"q", &axis == &across ? a : 0, across_index});
      inputs.push_back(TileInput(numbers, axes, deep ? whole : axes.size() + 1, places));
    }
    return inputs;
  };
  if (down == nullptr || down->ins() == 1) {
    w.Set("pointwise", v, of_tile,
          Choice("j", Lines(across.form.input, inputs_along(across, nullptr))));
  } else if (across.ins() == 1) {
    w.Set("pointwise", v, of_tile,
          Choice("i", Lines(down->form.input, inputs_along(*down, nullptr))));
  } else {
    const Operand s = w.Temp("columns", numbers.tiles);
    w.Set("pointwise", s, Concat(Concat({"i", "e"}, images), {"p", "q", "c"}),
          Choice("i", Lines(down->form.input, inputs_along(*down, "e"))));
    std::vector<std::string> sums;
    for (int64_t a = 0; a < across.ins(); ++a)
      sums.push_back(w.At(s, Concat(Concat({"i", std::to_string(a)}, images), {"p", "q", "c"})));
    w.Set("pointwise", v, of_tile, Choice("j", Lines(across.form.input, sums)));
  }
  const Subs taken = deep ? Subs{"n", image} : Subs{"n"};
  Subs filter = {"i", "j", "k", "c"};
  if (deep) filter.push_back(tap);
  const auto factor = [&](const std::string& e) { return Cast(m.dtype, v.dtype, e); };
  w.Reduce(
      "contraction", m, Concat(Concat({"i", "j"}, outs), {"t", "k"}), "+=!",
      Guarded(inside,
              fmt::format("{} * {}", factor(w.At(v, Concat(Concat({"i", "j"}, taken), {"t", "c"}))),
                          factor(w.At(u, filter))),
              Zero(m.dtype)));
  const std::string from =
      down ? fmt::format("{}*({}) + {}", columns, down->Tile(), across.Tile()) : across.Tile();
  return TileOutput(w, m, down, across, Concat(outs, {from, "k"}));
}

namespace {

void ConvTiled(Writer& w, const WinogradForm& form) {
  const graph::ValueId prepared = PreparedFilter(w.graph, w.node, form);
  if (!prepared.valid()) return w.Refuse("no filter of three taps that was prepared");
  const Convolution conv = MakeConvolution(w, 0, 1);
  if (!w.ok()) return;
  const TiledNumbers numbers{conv.y.dtype, conv.y.dtype,
                             [&](const Subs& at) { return w.At(conv.x, at); }};
  std::string value =
      TiledSum(w, conv, w.graph[w.node.inputs[1]].constant.shape(), prepared, form, numbers);
  if (w.Has(2)) value += " + " + w.At(w.In(2), {"k"});
  w.Set("pointwise", conv.y, Concat({"n", "k"}, conv.win.out), value);
}

}  // namespace

void ConvWinograd(Writer& w) { ConvTiled(w, WinogradForms()[0]); }
void ConvWinograd4(Writer& w) { ConvTiled(w, WinogradForms()[1]); }

}  // namespace ops
}  // namespace weft::tc
