// Convolutions with 3x3 filters by Winograd's minimal filtering, see winograd_form.h. Four
// statements, where tile (p, q) makes outputs m p to m p + m - 1 of rows, m q and so on of columns:
//
//   s = B^T d      along columns, where d is the tile's input
//   v = s B        along rows; tiles are one axis from here on, so that there are (m + 2)^2 matrix
//                  products
//   m = v * u      summed over channels, where u = G g G^T was made beforehand
//   y = A^T m A    by the residues of the output's place
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/threads/parallel.h"
#include "graph/edit.h"
#include "tc_lang/ops/families.h"
#include "tc_lang/ops/indexing.h"
#include "tc_lang/ops/winograd_form.h"

namespace weft::tc {
namespace {

constexpr double kErrorBound = 2;  // of the direct form's

// What a convolution must be. The same answer whether or not its filter was prepared.
bool HasTileForm(const graph::Graph& graph, const graph::Node& node) {
  const auto ones = [&](std::string_view name) {
    return std::ranges::all_of(graph::IntsAttr(node, name), [](int64_t v) { return v == 1; });
  };
  const graph::ValueId x = graph::InputAt(node, 0), w = graph::InputAt(node, 1);
  if (node.op != graph::Op::kConv || !x.valid() || !w.valid()) return false;
  const graph::Value& filter = graph[w];
  if (filter.kind != graph::ValueKind::kConstant || filter.dtype != Dtype::kF32) return false;
  const Shape& shape = filter.constant.shape();
  const auto in = graph::StaticShape(graph[x]);
  return shape.size() == 4 && shape[2] == 3 && shape[3] == 3 && ones("strides") &&
         ones("dilations") && graph::IntAttr(node, "group", 1) == 1 && in && in->size() == 4 &&
         filter.constant.elems() > 0;
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
    const Tensor& filter = std::as_const(graph)[value].constant;
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

// How the tiles of an image lie, of which (p, q) makes rows from outs p and columns from outs q on.
struct Tiling {
  int64_t outs, ins;      // of a tile, along either axis
  int64_t rows, columns;  // tiles
};

// Row `a` and column `e` of a tile's input; zero where it lies outside of the image.
std::string TileInput(Writer& w, const Operand& x, const Windows& win, const Tiling& tiling,
                      int64_t a) {
  const WindowAxis &down = win.axes[0], &across = win.axes[1];
  const std::string at_h = Sum({{tiling.outs, "p"}}, a - down.pad_lo),
                    at_w = Sum({{tiling.outs, "q"}, {1, "e"}}, -across.pad_lo);
  Subs guards;
  const int64_t last_h = tiling.outs * (tiling.rows - 1) + a - down.pad_lo,
                last_w = tiling.outs * (tiling.columns - 1) + tiling.ins - 1 - across.pad_lo;
  if (a < down.pad_lo) guards.push_back(at_h + " >= 0");
  if (last_h >= down.in) guards.push_back(fmt::format("{} < {}", at_h, down.in));
  if (across.pad_lo > 0) guards.push_back(at_w + " >= 0");
  if (last_w >= across.in) guards.push_back(fmt::format("{} < {}", at_w, across.in));
  return "(" + Guarded(guards, w.At(x, {"n", "c", at_h, at_w}), Lit(x.dtype, 0)) + ")";
}

// The place (h, w) of A^T m A, of the tile that it belongs to.
std::string TileOutput(Writer& w, const WinogradForm& form, const Operand& m,
                       const Tiling& tiling) {
  const std::string tile =
      fmt::format("{}*(h / {}) + w / {}", tiling.columns, tiling.outs, tiling.outs);
  std::vector<std::string> by_row;
  for (const auto& down_line : form.output) {
    std::vector<std::string> by_column;
    for (int64_t j = 0; j < tiling.ins; ++j) {
      std::vector<std::string> products;
      for (int64_t i = 0; i < tiling.ins; ++i)
        products.push_back(w.At(m, {std::to_string(i), std::to_string(j), "n", tile, "k"}));
      by_column.push_back(Line(down_line, products));
    }
    by_row.push_back(Choice(fmt::format("w % {}", tiling.outs), Lines(form.output, by_column)));
  }
  return Choice(fmt::format("h % {}", tiling.outs), by_row);
}

void ConvTiled(Writer& w, const WinogradForm& form) {
  const graph::ValueId prepared = PreparedFilter(w.graph, w.node, form);
  if (!prepared.valid()) return w.Refuse("no 3x3 filter that was prepared");
  const Operand x = w.In(0), u = w.Value(prepared), y = w.Out();
  const Windows win = MakeWindows(w, x, y, {3, 3});
  if (!w.ok()) return;
  const auto outs = static_cast<int64_t>(form.outs);
  const Tiling tiling{.outs = outs,
                      .ins = static_cast<int64_t>(form.ins()),
                      .rows = (win.axes[0].out + outs - 1) / outs,
                      .columns = (win.axes[1].out + outs - 1) / outs};
  for (const char* index : {"i", "j", "e"}) w.Range(index, tiling.ins);
  w.Range("n", x.dims[0]);
  w.Range("p", tiling.rows);
  w.Range("q", tiling.columns);
  w.Range("t", tiling.rows * tiling.columns);
  w.Range("c", w.Extent(x, 1));
  w.Range("k", w.Extent(y, 1));
  const Operand s = w.Temp("columns", y.dtype), v = w.Temp("tiles", y.dtype),
                m = w.Temp("products", y.dtype);
  std::vector<std::string> inputs, sums;
  for (int64_t a = 0; a < tiling.ins; ++a) {
    inputs.push_back(TileInput(w, x, win, tiling, a));
    sums.push_back(w.At(s, {"i", std::to_string(a), "n", "p", "q", "c"}));
  }
  w.Set("pointwise", s, {"i", "e", "n", "p", "q", "c"}, Choice("i", Lines(form.input, inputs)));
  w.Set("pointwise", v, {"i", "j", "n", Sum({{tiling.columns, "p"}, {1, "q"}}), "c"},
        Choice("j", Lines(form.input, sums)));
  w.Reduce(
      "contraction", m, {"i", "j", "n", "t", "k"}, "+=!",
      fmt::format("{} * {}", w.At(v, {"i", "j", "n", "t", "c"}), w.At(u, {"i", "j", "k", "c"})));
  std::string value = TileOutput(w, form, m, tiling);
  if (w.Has(2)) value += " + " + w.At(w.In(2), {"k"});
  w.Set("pointwise", y, {"n", "k", "h", "w"}, value);
}

}  // namespace

void ConvWinograd(Writer& w) { ConvTiled(w, WinogradForms()[0]); }
void ConvWinograd4(Writer& w) { ConvTiled(w, WinogradForms()[1]); }

}  // namespace ops
}  // namespace weft::tc
