// Discrete Fourier transforms, as products with a table of cosines and sines, and filters for what
// they give.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

constexpr int64_t kLargestTable = int64_t{1} << 24;  // elements
constexpr int64_t kMostBands = 1 << 12;              // whose edges the def lists

// How numbers of `ins` parts (1: real ones, 2: complex ones) at places n become others at places k.
struct Transform {
  int64_t size = 1;                      // of the whole transform
  int64_t from = 1, to = 1;              // places that are read and made
  int64_t ins = 1, outs = 2;             // parts
  bool inverse = false, halved = false;  // halved: n runs over half of what is symmetric
};

// The table of e^(-+2 pi j k n / size), as what part d of the input adds to part o of the output:
// (o, d, k, n), with index names "o", "d", "k", "e".
Operand Table(Writer& w, const Transform& t, Dtype dtype, const std::string& factor) {
  w.Range("k", t.to);
  w.Range("e", t.from);
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
      const bool minus = o != d && (o < d) == t.inverse;
      std::string value =
          fmt::format("{}{}({}){}", minus ? "-" : "", o == d ? "cos" : "sin", angle, scale);
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

}  // namespace

void Dft(Writer& w) {
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
    if (!w.ok() || length.size() != 1) return w.Refuse("no length");
    t.size = length[0];
  } else if (onesided) {
    t.size = t.inverse ? 2 * (t.from - 1) : t.from;
  }
  t.from = std::min(t.from, t.halved ? t.size / 2 + 1 : t.size);
  if (!w.ok() || !Fits(w, t)) return;
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
// communication", 1987, page 150).
void MelWeightMatrix(Writer& w) {
  const Operand y = w.Out();
  const Ints bands = w.ConstInts(0), length = w.ConstInts(1), rate = w.ConstInts(2);
  const double low = w.ConstFloat(3, 0), high = w.ConstFloat(4, 0);
  if (!w.ok()) return;
  if (bands.size() != 1 || length.size() != 1 || rate.size() != 1 || rate[0] < 1 ||
      bands[0] > kMostBands)
    return w.Refuse("no numbers of bands, samples and samples a second");
  const auto mels = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mels(high) - mels(low)) / static_cast<double>(bands[0] + 2);
  std::vector<double> bins;
  for (int64_t i = 0; i < bands[0] + 2; ++i) {
    const double hertz =
        700 * (std::pow(10, (mels(low) + static_cast<double>(i) * step) / 2595) - 1);
    const double bin =
        std::floor(static_cast<double>(length[0] + 1) * hertz / static_cast<double>(rate[0]));
    if (!(bin >= INT32_MIN && bin <= INT32_MAX)) return w.Refuse("bins that are no numbers");
    bins.push_back(bin);
  }
  const Operand edges = w.Const("edges", Dtype::kI32, {bands[0] + 2}, bins);
  w.Range("i", w.Extent(y, 0));
  w.Range("j", w.Extent(y, 1));
  const std::string lo = w.At(edges, {"j"}), mid = w.At(edges, {"j + 1"}),
                    hi = w.At(edges, {"j + 2"});
  const Dtype dtype = y.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  const auto ratio = [&](const std::string& a, const std::string& b) {
    return fmt::format("{} / {}", Cast(dtype, a), Cast(dtype, b));
  };
  const std::string value = fmt::format(
      "(i >= {1} && i < {2} ? {3} : (i >= {0} && i <= {1} ? ({0} == {1} ? {5} : {4}) : {6}))", lo,
      mid, hi, ratio(hi + " - i", hi + " - " + mid), ratio("i - " + lo, mid + " - " + lo),
      Lit(dtype, 1), Lit(dtype, 0));
  w.Set("pointwise", y, {"i", "j"}, y.dtype == dtype ? value : Cast(y.dtype, value));
}

}  // namespace weft::tc::ops
