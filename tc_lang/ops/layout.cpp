// Operators that only move elements: each output element is one input element.
#include <numeric>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

// A run of input axes and a run of output axes with the same number of elements.
struct Run {
  size_t in = 0, in_end = 0, out = 0, out_end = 0;
};

// The finest split of a reshape into runs.
std::vector<Run> SplitRuns(const Ints& in, const Ints& out) {
  std::vector<Run> runs;
  size_t i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    Run run{i, i, o, o};
    int64_t p = i < in.size() ? in[i++] : 1, q = o < out.size() ? out[o++] : 1;
    while (p != q) {
      if (p < q && i < in.size())
        p *= in[i++];
      else if (q < p && o < out.size())
        q *= out[o++];
      else
        break;
    }
    run.in_end = i;
    run.out_end = o;
    runs.push_back(run);
  }
  return runs;
}

// The row-major number of the element at `subs`: "12*i0 + 4*i1 + i2".
std::string Flat(const Subs& subs, const Ints& extents, const Run& run) {
  std::string flat;
  for (size_t k = run.out; k < run.out_end; ++k) {
    if (extents[k] == 1) continue;
    const int64_t stride = Product(std::span(extents).subspan(k + 1, run.out_end - k - 1));
    flat += (flat.empty() ? "" : " + ") + Sum({{stride, subs[k]}});
  }
  return flat.empty() ? "0" : flat;
}

// Subscripts of the input axes of a run, from the output's indices.
void Unflatten(const std::string& flat, const Ints& in, const Run& run, Subs& from) {
  int64_t stride = Product(std::span(in).subspan(run.in, run.in_end - run.in));
  const bool plain = flat.find(' ') == std::string::npos && flat.find('*') == std::string::npos;
  const std::string e = plain ? flat : "(" + flat + ")";
  bool first = true;
  for (size_t k = run.in; k < run.in_end; ++k) {
    stride /= std::max<int64_t>(in[k], 1);
    if (in[k] == 1 || flat == "0") {
      from.push_back("0");
      continue;
    }
    std::string sub = stride == 1 ? e : fmt::format("{} / {}", e, stride);
    if (!first)
      sub = stride == 1 ? fmt::format("{} % {}", e, in[k]) : fmt::format("({}) % {}", sub, in[k]);
    else if (stride == 1)
      sub = flat;
    first = false;
    from.push_back(std::move(sub));
  }
}

// The same symbol in front of both shapes is an axis that stays.
bool SharesOuter(const Operand& x, const Operand& y) {
  return x.rank() > 0 && y.rank() > 0 && x.dims[0].symbolic() && x.dims[0] == y.dims[0];
}

}  // namespace

// Identity, and whatever else is its input at inference.
void Copy(Writer& w) {
  const Operand x = w.Arg(0), y = w.Out();
  if (w.node.op == graph::Op::kDropout && w.Has(2)) return w.Refuse("training");
  const Subs i = w.Indices("i", y.dims);
  w.Set("copy", y, i, w.AtAligned(x, i, y.dims));
  if (w.HasOut(1)) w.Set("copy", w.Out(1), i, LitInt(w.Out(1).dtype, 1));  // Dropout keeps all
}

void Transpose(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  Ints order = graph::IntsAttr(w.node, "perm");
  if (order.empty()) {
    for (int64_t k = x.rank() - 1; k >= 0; --k) order.push_back(k);
  }
  const Subs i = w.Indices("i", y.dims);
  Subs from(x.dims.size(), "0");
  for (size_t k = 0; k < order.size(); ++k)
    from[static_cast<size_t>(w.Axis(order[k], x.rank()))] = i[k];
  w.Set("copy", y, i, w.At(x, from));
}

// Reshape, Flatten, Squeeze, Unsqueeze: elements keep their row-major number. Axes that a run
// leaves alone keep their index; split and merged ones go through the number within the run.
void Reshape(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const bool outer = SharesOuter(x, y);
  Ints in = w.Extents(x, outer ? 1 : 0), out = w.Extents(y, outer ? 1 : 0);
  const Subs i = w.Indices("i", y.dims);
  if (!w.ok()) return;
  if (outer) in.insert(in.begin(), -1), out.insert(out.begin(), -1);
  Subs from;
  if (Product(in) == 0) {
    from.assign(x.dims.size(), "0");
    return w.Set("copy", y, i, w.At(x, from));
  }
  for (const Run& run : SplitRuns(in, out)) {
    if (run.in_end - run.in == 1 && run.out_end - run.out == 1)
      from.push_back(i[run.out]);
    else
      Unflatten(Flat(i, out, run), in, run, from);
  }
  w.Set("copy", y, i, w.At(x, from));
}

void Expand(Writer& w) {
  const Operand x = w.Arg(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  w.Set("copy", y, i, w.AtAligned(x, i, y.dims));
}

void Tile(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  Subs from = i;
  for (size_t k = 0; k < from.size(); ++k) {
    if (x.dims[k] == y.dims[k]) continue;
    const int64_t extent = w.Extent(x, static_cast<int64_t>(k));
    from[k] = extent == 1 ? "0" : fmt::format("{} % {}", i[k], extent);
  }
  w.Set("copy", y, i, w.At(x, from));
}

// y(n, c, h, w) lies in block place (h % b, w % b) of pixel (h / b, w / b).
void DepthToSpace(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const int64_t b = w.Int("blocksize", 1);
  if (y.rank() != 4 || b < 1) return w.Refuse("a tensor that is no plane");
  const Subs at{w.Range("n", y.dims[0]), w.Range("c", w.Extent(y, 1)), w.Range("h", w.Extent(y, 2)),
                w.Range("w", w.Extent(y, 3))};
  const int64_t channels = w.Extent(y, 1);
  const bool column_row_depth = graph::StringAttr(w.node, "mode", "DCR") == "CRD";
  const std::string channel =
      column_row_depth ? fmt::format("{}*c + {}*(h % {}) + w % {}", b * b, b, b, b)
                       : fmt::format("{}*(h % {}) + {}*(w % {}) + c", b * channels, b, channels, b);
  w.Set("copy", y, at, w.At(x, {"n", channel, fmt::format("h / {}", b), fmt::format("w / {}", b)}));
}

void SpaceToDepth(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const int64_t b = w.Int("blocksize", 1);
  if (y.rank() != 4 || b < 1) return w.Refuse("a tensor that is no plane");
  const Subs at{w.Range("n", y.dims[0]), w.Range("c", w.Extent(y, 1)), w.Range("h", w.Extent(y, 2)),
                w.Range("w", w.Extent(y, 3))};
  if (graph::StringAttr(w.node, "mode", "DCR") == "CRD") {
    return w.Set(
        "copy", y, at,
        w.At(x, {"n", fmt::format("c / {}", b * b), fmt::format("{0}*h + (c / {0}) % {0}", b),
                 fmt::format("{0}*w + c % {0}", b)}));
  }
  const int64_t channels = w.Extent(x, 1);
  w.Set(
      "copy", y, at,
      w.At(x, {"n", fmt::format("c % {}", channels), fmt::format("{}*h + c / {}", b, b * channels),
               fmt::format("{}*w + (c / {}) % {}", b, channels, b)}));
}

}  // namespace weft::tc::ops
