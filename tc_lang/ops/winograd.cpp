// Convolutions with 3x3 filters by Winograd's minimal filtering F(2x2, 3x3): 16 products for four
// outputs instead of 36 (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016,
// section 4.1; the names of the matrices are theirs).
//
// Four statements, where tile (p, q) makes outputs 2p and 2p + 1 of rows, 2q and 2q + 1 of columns:
//
//   s = B^T d: along columns, where d is the tile's 4x4 input
//   v = s B: along rows; tiles are one axis from here on, so that there are 16 matrix products
//   m = sum over c of v * u, where u = G g G^T was made beforehand, in double precision
//   y = A^T m A: by the residues of the output's place
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "base/threads/parallel.h"
#include "graph/edit.h"
#include "tc_lang/ops/families.h"
#include "tc_lang/ops/indexing.h"

namespace weft::tc {
namespace {

constexpr char kForm[] = "winograd 2x2 3x3";
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

using Matrix4 = std::array<std::array<double, 4>, 4>;

// A line of G applied to three values.
template <typename T>
std::array<T, 4> FilterLines(T g0, T g1, T g2) {
  return {g0, 0.5 * (g0 + g1 + g2), 0.5 * (g0 - g1 + g2), g2};
}

// u = G g G^T of one 3x3 filter.
Matrix4 TransformFilter(const float* g) {
  std::array<std::array<double, 4>, 3> columns;
  for (size_t b = 0; b < 3; ++b) columns[b] = FilterLines<double>(g[b], g[3 + b], g[6 + b]);
  Matrix4 u;
  for (size_t i = 0; i < 4; ++i) u[i] = FilterLines(columns[0][i], columns[1][i], columns[2][i]);
  return u;
}

// [4, 4, K, C] of filters [K, C, 3, 3].
Tensor TransformFilters(const Tensor& filters) {
  const int64_t pairs = filters.shape()[0] * filters.shape()[1];
  Tensor out(Dtype::kF32, {4, 4, filters.shape()[0], filters.shape()[1]});
  const auto* g = static_cast<const float*>(filters.data());
  auto* to = static_cast<float*>(out.mutable_data());
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const Matrix4 u = TransformFilter(g + 9 * pair);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) to[(4 * i + j) * pairs + pair] = static_cast<float>(u[i][j]);
  }
  return out;
}

template <typename T>
using Tile4 = std::array<std::array<T, 4>, 4>;

// One line of B^T d or of A^T m.
template <typename T>
T InputLine(int i, T d0, T d1, T d2, T d3) {
  return i == 0 ? d0 - d2 : i == 1 ? d1 + d2 : i == 2 ? d2 - d1 : d1 - d3;
}
template <typename T>
T OutputLine(int i, T m0, T m1, T m2, T m3) {
  return i == 0 ? m0 + m1 + m2 : m1 - m2 - m3;
}

// Sums of tiles stay finite where direct ones do if no weight is near the end of the range.
bool IsTame(const Tensor& filters) {
  constexpr float kMost = 1e18F;
  const auto* g = static_cast<const float*>(filters.data());
  return std::all_of(g, g + filters.elems(), [](float w) { return std::abs(w) <= kMost; });
}

// Errors of both forms on one tile of inputs and one filter, squared, computed in float as kernels
// do, against double precision. Inputs and sums are [C][4][4] and over C.
struct Errors {
  double direct = 0, tiled = 0;
};
Errors ErrorsOf(const std::vector<Tile4<float>>& d, const std::vector<Tile4<float>>& v,
                const float* g, const float* u, int64_t pairs) {
  Tile4<float> m{};
  float sum[2][2] = {};
  double exact[2][2] = {};
  for (size_t c = 0; c < d.size(); ++c) {
    for (size_t i = 0; i < 4; ++i)
      for (size_t j = 0; j < 4; ++j)
        m[i][j] =
            std::fma(v[c][i][j],
                     u[static_cast<int64_t>(4 * i + j) * pairs + static_cast<int64_t>(c)], m[i][j]);
    for (size_t tap = 0; tap < 36; ++tap) {
      const size_t y = tap / 18, z = tap / 9 % 2, r = tap / 3 % 3, q = tap % 3;
      const float x = d[c][y + r][z + q], w = g[9 * c + 3 * r + q];
      sum[y][z] = std::fma(x, w, sum[y][z]);
      exact[y][z] += static_cast<double>(x) * w;
    }
  }
  Errors errors;
  for (int y = 0; y < 2; ++y)
    for (int z = 0; z < 2; ++z) {
      const auto column = [&](size_t j) {
        return OutputLine(y, m[0][j], m[1][j], m[2][j], m[3][j]);
      };
      const float out = OutputLine(z, column(0), column(1), column(2), column(3));
      errors.direct += std::pow(sum[y][z] - exact[y][z], 2);
      errors.tiled += std::pow(out - exact[y][z], 2);
    }
  return errors;
}

// The error of the tiled form over that of the direct one, root mean square, over filters drawn
// evenly (each in units of its own size, so that large ones hide no others) and tiles of random
// inputs: signed ones, and such as follow a ReLU; the worse of the two.
double ErrorRatio(const Tensor& filters, const Tensor& transformed) {
  constexpr int64_t kFilters = 32, kMostIns = 256, kTiles = 2;
  if (!IsTame(filters)) return INFINITY;
  const int64_t outs = filters.shape()[0], ins = filters.shape()[1], pairs = outs * ins;
  const auto* g = static_cast<const float*>(filters.data());
  const auto* u = static_cast<const float*>(transformed.data());
  std::mt19937 random(1);
  double worst = 0;
  for (const float low : {-1.0F, 0.0F}) {
    Errors all;
    for (int64_t t = 0; t < kTiles; ++t) {
      std::vector<Tile4<float>> d(static_cast<size_t>(std::min(ins, kMostIns))), v = d;
      for (size_t c = 0; c < d.size(); ++c) {
        for (auto& row : d[c])
          for (float& x : row) x = low + (1 - low) * static_cast<float>(random() >> 8) * 0x1p-24F;
        Tile4<float> s{};
        for (int i = 0; i < 4; ++i)
          for (size_t b = 0; b < 4; ++b)
            s[i][b] = InputLine(i, d[c][0][b], d[c][1][b], d[c][2][b], d[c][3][b]);
        for (size_t i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j) v[c][i][j] = InputLine(j, s[i][0], s[i][1], s[i][2], s[i][3]);
      }
      for (int64_t f = 0; f < std::min(kFilters, outs); ++f) {
        const int64_t k = f * outs / std::min(kFilters, outs);
        const float* filter = g + 9 * k * ins;
        double size = 0;
        for (size_t i = 0; i < 9 * d.size(); ++i)
          size += static_cast<double>(filter[i]) * filter[i];
        if (size == 0) continue;  // both are exact
        const Errors errors = ErrorsOf(d, v, filter, u + k * ins, pairs);
        all.direct += errors.direct / size;
        all.tiled += errors.tiled / size;
      }
    }
    const double ratio = all.tiled == 0 ? 0 : std::sqrt(all.tiled / all.direct);
    worst = std::isnan(ratio) ? INFINITY : std::max(worst, ratio);
  }
  return worst;
}

graph::ValueId PreparedFilter(const graph::Graph& graph, const graph::Node& node) {
  if (!HasTileForm(graph, node)) return {};
  const auto found = graph.forms.find({node.inputs[1], kForm});
  return found == graph.forms.end() ? graph::ValueId() : found->second;
}

}  // namespace

std::vector<Prepared> PrepareConstants(graph::Graph& graph, Winograd winograd) {
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
  all.resize(filters.size());
  std::vector<Tensor> transformed(filters.size());
  InParallel(filters.size(), [&](size_t i) {
    const Tensor& filter = std::as_const(graph)[filters[i]].constant;
    transformed[i] = TransformFilters(filter);
    all[i] = {.nodes = nodes_of.at(filters[i]), .alternative = "winograd"};
    if (winograd != Winograd::kWithinBound) return;
    const double ratio = ErrorRatio(filter, transformed[i]);
    all[i].error_ratio = ratio;
    if (!(ratio <= kErrorBound))
      all[i].refusal = {Reason::kInaccurate,
                        fmt::format("{:.2f} > {:.2f} times the error", ratio, kErrorBound)};
  });
  graph::Names names(graph);
  for (size_t i = 0; i < filters.size(); ++i)
    if (!all[i].refusal)
      graph.forms[{filters[i], kForm}] = graph::AddConstant(
          graph, names.Fresh(graph[filters[i]].name + "_winograd"), std::move(transformed[i]));
  return all;
}

namespace ops {
namespace {

// Line i of a transform by a choice on the index itself, which is decided when it is unrolled.
std::string InputChoice(const std::string& index, const std::array<std::string, 4>& d) {
  return fmt::format(
      "{0} == 0 ? {1} - {3} : {0} == 1 ? {2} + {3} : {0} == 2 ? {3} - {2} : {2} - {4}", index, d[0],
      d[1], d[2], d[3]);
}

std::string OutputLine(int line, const std::array<std::string, 4>& m) {
  return line == 0 ? fmt::format("({} + {} + {})", m[0], m[1], m[2])
                   : fmt::format("({} - {} - {})", m[1], m[2], m[3]);
}

}  // namespace

void ConvWinograd(Writer& w) {
  const graph::ValueId prepared = PreparedFilter(w.graph, w.node);
  if (!prepared.valid()) return w.Refuse("no 3x3 filter that was prepared");
  const Operand x = w.In(0), u = w.Value(prepared), y = w.Out();
  const Windows win = MakeWindows(w, x, y, {3, 3});
  if (!w.ok()) return;
  const WindowAxis &down = win.axes[0], &across = win.axes[1];
  const int64_t rows = (down.out + 1) / 2, columns = (across.out + 1) / 2;
  for (const char* index : {"i", "j", "e"}) w.Range(index, 4);
  w.Range("n", x.dims[0]);
  w.Range("p", rows);
  w.Range("q", columns);
  w.Range("t", rows * columns);
  w.Range("c", w.Extent(x, 1));
  w.Range("k", w.Extent(y, 1));
  const Operand s = w.Temp("columns", y.dtype), v = w.Temp("tiles", y.dtype),
                m = w.Temp("products", y.dtype);
  const auto input = [&](int a) {
    const std::string at_h = Sum({{2, "p"}}, a - down.pad_lo),
                      at_w = Sum({{2, "q"}, {1, "e"}}, -across.pad_lo);
    Subs guards;
    const int64_t last_h = 2 * (rows - 1) + a - down.pad_lo,
                  last_w = 2 * (columns - 1) + 3 - across.pad_lo;
    if (a < down.pad_lo) guards.push_back(at_h + " >= 0");
    if (last_h >= down.in) guards.push_back(fmt::format("{} < {}", at_h, down.in));
    if (across.pad_lo > 0) guards.push_back(at_w + " >= 0");
    if (last_w >= across.in) guards.push_back(fmt::format("{} < {}", at_w, across.in));
    return Guarded(guards, w.At(x, {"n", "c", at_h, at_w}), Lit(y.dtype, 0));
  };
  w.Set("pointwise", s, {"i", "e", "n", "p", "q", "c"},
        InputChoice("i", {input(0), input(1), input(2), input(3)}));
  const auto column = [&](int e) { return w.At(s, {"i", std::to_string(e), "n", "p", "q", "c"}); };
  w.Set("pointwise", v, {"i", "j", "n", Sum({{columns, "p"}, {1, "q"}}), "c"},
        InputChoice("j", {column(0), column(1), column(2), column(3)}));
  w.Reduce(
      "contraction", m, {"i", "j", "n", "t", "k"}, "+=!",
      fmt::format("{} * {}", w.At(v, {"i", "j", "n", "t", "c"}), w.At(u, {"i", "j", "k", "c"})));
  const auto output = [&](int down_line, int across_line) {
    std::array<std::string, 4> lines;
    for (int j = 0; j < 4; ++j) {
      std::array<std::string, 4> products;
      for (int i = 0; i < 4; ++i)
        products[i] = w.At(m, {std::to_string(i), std::to_string(j), "n",
                               fmt::format("{}*(h / 2) + w / 2", columns), "k"});
      lines[j] = OutputLine(down_line, products);
    }
    return OutputLine(across_line, lines);
  };
  std::string value = fmt::format("(h % 2 == 0 ? (w % 2 == 0 ? {} : {}) : (w % 2 == 0 ? {} : {}))",
                                  output(0, 0), output(0, 1), output(1, 0), output(1, 1));
  if (w.Has(2)) value += " + " + w.At(w.In(2), {"k"});
  w.Set("pointwise", y, {"n", "k", "h", "w"}, value);
}

}  // namespace ops
}  // namespace weft::tc
