// Normalizations: (x - mean) / sqrt(variance + epsilon), over various sets of axes.
#include <algorithm>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

// Where the statistics are taken: `from` reads x with the reduced axes as reduction indices, `kept`
// holds one statistic for `count` elements. Along `parts` sums are taken of their own first.
struct Statistics {
  Operand x;
  Dtype dtype = Dtype::kF32;
  Subs from, kept;
  int64_t count = 1;
  Subs parts = {};
};

std::string Real(const Statistics& s) {
  return Lit(s.dtype == Dtype::kF64 ? s.dtype : Dtype::kF32, static_cast<double>(s.count));
}

// Two passes: the mean, then the mean square of what is left. Gives both as temporaries.
struct Moments {
  Operand mean, inverse;  // 1 / sqrt(variance + epsilon)
};

Operand SumOf(Writer& w, const Statistics& s, const std::string& name, const std::string& term) {
  const Operand sum = w.Temp(name, s.dtype);
  if (s.parts.empty()) {
    w.Reduce("reduction", sum, s.kept, "+=!", term);
    return sum;
  }
  const Operand part = w.Temp(name + "_by_channel", s.dtype);
  const Subs at = Concat(s.kept, s.parts);
  w.Reduce("reduction", part, at, "+=!", term);
  w.Reduce("reduction", sum, s.kept, "+=!", w.At(part, at));
  return sum;
}

Operand Mean(Writer& w, const Statistics& s) {
  const Operand sum = SumOf(w, s, "sum", w.At(s.x, s.from)), mean = w.Temp("mean", s.dtype);
  w.Set("pointwise", mean, s.kept, fmt::format("{} / {}", w.At(sum, s.kept), Real(s)));
  return mean;
}

Operand InverseOf(Writer& w, const Statistics& s, const Operand& squares, double epsilon) {
  const Operand inverse = w.Temp("inv", s.dtype);
  w.Set("pointwise", inverse, s.kept,
        fmt::format("1.0 / sqrt({} / {} + {})", w.At(squares, s.kept), Real(s),
                    Lit(squares.dtype, epsilon)));
  return inverse;
}

Moments TwoPass(Writer& w, const Statistics& s, double epsilon) {
  const Operand mean = Mean(w, s);
  const std::string centred = fmt::format("({} - {})", w.At(s.x, s.from), w.At(mean, s.kept));
  const Operand squares = SumOf(w, s, "squares", fmt::format("{0} * {0}", centred));
  return {mean, InverseOf(w, s, squares, epsilon)};
}

// The axes from `axis` on: statistics index j there is a reduction index k.
struct Tail {
  Operand x, y;
  int64_t axis = 0;
  Subs outer, at, from, kept;  // kept: outer and zeros, as the optional outputs have it
  int64_t count = 1;
};

Tail MakeTail(Writer& w, int64_t axis) {
  Tail t{w.In(0), w.Out(), w.Axis(axis, w.In(0).rank()), {}, {}, {}, {}, 1};
  for (int64_t k = 0; k < t.x.rank(); ++k) {
    const Dim& dim = t.x.dims[static_cast<size_t>(k)];
    t.at.push_back(w.Range(fmt::format("i{}", k), dim));
    if (k < t.axis) {
      t.outer.push_back(t.at.back());
      t.from.push_back(t.at.back());
      t.kept.push_back(t.at.back());
      continue;
    }
    t.count *= w.Extent(t.x, k);
    t.from.push_back(w.Range(fmt::format("k{}", k), dim));
    t.kept.push_back(w.Range(fmt::format("j{}", k), 1));
  }
  return t;
}

// y = (x - mean) * inverse * scale + bias, and the statistics if they are asked for.
void FinishLayer(Writer& w, const Tail& t, const Moments& m) {
  std::string value = fmt::format("({} - {}) * {}", w.At(t.x, t.at), w.At(m.mean, t.outer),
                                  w.At(m.inverse, t.outer));
  if (w.Has(1)) value += " * " + w.AtAligned(w.In(1), t.at, t.x.dims);
  if (w.Has(2)) value += " + " + w.AtAligned(w.In(2), t.at, t.x.dims);
  w.Set("pointwise", t.y, t.at, value);
  if (w.HasOut(1)) w.Set("copy", w.Out(1), t.kept, w.At(m.mean, t.outer));
  if (w.HasOut(2)) w.Set("copy", w.Out(2), t.kept, w.At(m.inverse, t.outer));
}

// How many channels a group has: of an instance normalization, and where there are none, 1.
int64_t SizeOfGroups(Writer& w, const Operand& x) {
  const int64_t channels = w.Extent(x, 1);
  const bool grouped = w.node.op == graph::Op::kGroupNormalization;
  const int64_t groups = grouped ? w.Int("num_groups", 1) : channels;
  if (x.rank() < 2 || (channels > 0 && (groups < 1 || channels % groups != 0)))
    w.Refuse(fmt::format("{} groups of {} channels", groups, channels));
  return channels == 0 || !w.ok() ? 1 : channels / groups;
}

// The planes of x: statistics over all axes but the first and, one by one or `size` together, the
// second. Of a group each channel has sums first: channels that lie side by side are then added up
// in lanes.
Statistics MakePlanes(Writer& w, const Operand& x, int64_t size) {
  Statistics s{.x = x, .dtype = x.dtype, .count = size};
  s.kept = {w.Range("n", x.dims[0]), w.Range(size == 1 ? "c" : "g", w.Extent(x, 1) / size)};
  s.from = {"n", size == 1 ? "c" : Sum({{size, "g"}, {1, w.Range("c", size)}})};
  if (size > 1 && x.rank() > 2) s.parts = {"c"};
  for (int64_t axis = 2; axis < x.rank(); ++axis) {
    s.count *= w.Extent(x, axis);
    s.from.push_back(w.Range(fmt::format("k{}", axis), x.dims[static_cast<size_t>(axis)]));
  }
  return s;
}

// Of what lies near when a pass comes back to it. Caches of half a megabyte and more hold that and
// what is stored meanwhile.
constexpr int64_t kNearBytes = 256 << 10;

// From which axis on x has no more elements in one place of those before than lie near, channels
// being one by one.
int64_t NearFrom(Writer& w, const Operand& x) {
  int64_t axis = x.rank(), elems = 1;
  while (axis > 2 && !__builtin_mul_overflow(elems, w.Extent(x, axis - 1), &elems) &&
         elems <= kNearBytes / SizeBytes(x.dtype))
    --axis;
  return std::min(axis, x.rank() - 1);
}

// Groups of so few channels that those of one would leave lanes without work: all channels are
// summed up side by side, and what is computed of a group is spread over its channels.
void NormalizeFewChannels(Writer& w, int64_t size, double epsilon) {
  const Operand x = w.In(0), y = w.Out(), scale = w.In(1), bias = w.In(2);
  Statistics s = MakePlanes(w, x, 1);  // of channels
  s.count *= size;
  w.Range("g", w.Extent(x, 1) / size);
  w.Range("e", size);
  const Subs group{"n", "g"}, part{"n", Sum({{size, "g"}, {1, "e"}})},
      own{"n", fmt::format("c / {}", size)};
  // The average over a channel's group.
  const auto average = [&](const std::string& name, const std::string& term) {
    const Operand each = w.Temp(name + "_by_channel", s.dtype), sum = w.Temp(name, s.dtype);
    w.Reduce("reduction", each, s.kept, "+=!", term);
    w.Reduce("reduction", sum, group, "+=!", w.At(each, part));
    return fmt::format("{} / {}", w.At(sum, own), Real(s));
  };
  const Operand mean = w.Temp("mean", s.dtype), factor = w.Temp("factor", s.dtype);
  w.Set("pointwise", mean, s.kept, average("sum", w.At(x, s.from)));
  const std::string centred = fmt::format("({} - {})", w.At(x, s.from), w.At(mean, s.kept)),
                    variance = average("squares", fmt::format("{0} * {0}", centred));
  w.Set("pointwise", factor, s.kept,
        fmt::format("{} / sqrt({} + {})", w.At(scale, {"c"}), variance, Lit(s.dtype, epsilon)));
  w.Set("pointwise", y, s.from,
        fmt::format("{} * {} + {}", centred, w.At(factor, s.kept), w.At(bias, {"c"})));
}

}  // namespace

namespace {

// The statistics of channel c that a BatchNormalization takes off.
struct ChannelStatistics {
  std::string mean, variance;
};

// Those of this batch, over all axes but the channels; they move the running ones on.
ChannelStatistics OfBatch(Writer& w, const Operand& x, const Subs& c) {
  Subs from;
  Subs extents;
  for (int64_t k = 0; k < x.rank(); ++k) {
    const Dim& dim = x.dims[static_cast<size_t>(k)];
    from.push_back(k == 1 ? "c" : w.Range(fmt::format("k{}", k), dim));
    if (k != 1) extents.push_back(dim.text());
  }
  const Operand sum = w.Temp("sum", x.dtype), squares = w.Temp("squares", x.dtype),
                mean = w.Temp("mean", x.dtype), variance = w.Temp("variance", x.dtype);
  const std::string count = Cast(mean.dtype, Join(extents, " * "));
  w.Reduce("reduction", sum, c, "+=!", w.At(x, from));
  w.Set("pointwise", mean, c, fmt::format("{} / {}", w.At(sum, c), count));
  const std::string centred = fmt::format("({} - {})", w.At(x, from), w.At(mean, c));
  w.Reduce("reduction", squares, c, "+=!", fmt::format("{0} * {0}", centred));
  w.Set("pointwise", variance, c, fmt::format("{} / {}", w.At(squares, c), count));
  const double kept = w.Float("momentum", 0.9F);
  for (size_t i = 1; i < 3; ++i) {
    if (!w.HasOut(i)) continue;
    const Operand old = w.In(i + 2), running = w.Out(i);
    const Dtype dtype = running.dtype == Dtype::kF64 ? Dtype::kF64 : mean.dtype;
    const std::string now = fmt::format("{} * {} + {} * {}", w.At(old, c), Lit(dtype, kept),
                                        w.At(i == 1 ? mean : variance, c), Lit(dtype, 1 - kept));
    w.Set("pointwise", running, c, mean.dtype == running.dtype ? now : Cast(running.dtype, now));
  }
  return {w.At(mean, c), w.At(variance, c)};
}

}  // namespace

// What does not depend on the place is computed once a channel.
void BatchNormalization(Writer& w) {
  const bool training = w.Int("training_mode", 0) != 0;
  const Operand x = w.In(0), y = w.Out(), factor = w.Temp("factor", y.dtype);
  if (training && x.rank() < 2) return w.Refuse("statistics of a batch without channels");
  const Subs c{w.Range("c", x.rank() < 2 ? Dim(1) : x.dims[1])};
  const Subs channel = x.rank() > 1 ? c : Subs{"0"};
  const ChannelStatistics s =
      training ? OfBatch(w, x, c) : ChannelStatistics{w.At(w.In(3), channel), w.At(w.In(4), c)};
  // An f64 literal says the attribute's float to its last digit.
  const Dtype dtype = w.In(4).dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  w.Set("pointwise", factor, c,
        fmt::format("{} / sqrt({} + {})", w.At(w.In(1), c), s.variance,
                    Lit(dtype, w.Float("epsilon", 1e-5F))));
  Subs at{w.Range("n", x.rank() < 1 ? Dim(1) : x.dims[0])};
  if (x.rank() > 1) at.push_back("c");
  for (int64_t k = 2; k < x.rank(); ++k)
    at.push_back(w.Range(fmt::format("i{}", k), x.dims[static_cast<size_t>(k)]));
  w.Set("pointwise", y, at,
        fmt::format("({} - {}) * {} + {}", w.At(x, at), s.mean, w.At(factor, channel),
                    w.At(w.In(2), channel)));
}

void LayerNormalization(Writer& w) {
  const Tail t = MakeTail(w, w.Int("axis", -1));
  if (!w.ok()) return;
  FinishLayer(w, t,
              TwoPass(w, {t.x, t.x.dtype, t.from, t.outer, t.count}, w.Float("epsilon", 1e-5F)));
}

// One pass over memory: blocks of b elements, each with its own two passes, whose means and squares
// are then combined (Chan, Golub, LeVeque, "Updating formulae", 1979, equation 2.1).
void LayerNormalizationBlocked(Writer& w) {
  const Tail t = MakeTail(w, w.Int("axis", -1));
  if (!w.ok()) return;
  const int64_t b = 16;
  if (t.axis != t.x.rank() - 1 || t.count % b != 0 || t.count <= b)
    return w.Refuse("rows of no whole blocks of 16");
  const Dtype dtype = t.x.dtype;
  w.Range("b", t.count / b);
  w.Range("e", b);
  Subs from = t.from;
  from.back() = Sum({{b, "b"}, {1, "e"}});
  const Subs block = Concat(t.outer, {"b"});
  const Operand part = w.Temp("block_mean", dtype), rest = w.Temp("block_squares", dtype);
  const Operand total = w.Temp("block_sum", dtype), mean = w.Temp("mean", dtype),
                squares = w.Temp("squares", dtype);
  w.Reduce("reduction", total, block, "+=!", w.At(t.x, from));
  const std::string size = Lit(mean.dtype, static_cast<double>(b));
  w.Set("pointwise", part, block, fmt::format("{} / {}", w.At(total, block), size));
  w.Reduce("reduction", rest, block, "+=!",
           fmt::format("({0} - {1}) * ({0} - {1})", w.At(t.x, from), w.At(part, block)));
  const Operand sum = w.Temp("sum", dtype);
  w.Reduce("reduction", sum, t.outer, "+=!", w.At(part, block));
  w.Set("pointwise", mean, t.outer,
        fmt::format("{} / {}", w.At(sum, t.outer),
                    Lit(mean.dtype, static_cast<double>(t.count / b))));
  const std::string away = fmt::format("({} - {})", w.At(part, block), w.At(mean, t.outer));
  w.Reduce("reduction", squares, t.outer, "+=!",
           fmt::format("{0} + {1} * {2} * {2}", w.At(rest, block), size, away));
  const Statistics s{t.x, dtype, t.from, t.outer, t.count};
  FinishLayer(w, t, {mean, InverseOf(w, s, squares, w.Float("epsilon", 1e-5F))});
}

// scale and bias are inputs 1 and 2, one a channel.
void NormalizePlanes(Writer& w) {
  constexpr int64_t kFew = 16;
  const Operand x = w.In(0), y = w.Out(), scale = w.In(1), bias = w.In(2);
  const int64_t size = SizeOfGroups(w, x);
  if (!w.ok()) return;
  const double epsilon = w.Float("epsilon", 1e-5F);
  if (size > 1 && size < kFew && x.rank() > 2) return NormalizeFewChannels(w, size, epsilon);
  const Statistics s = MakePlanes(w, x, size);
  const Moments m = TwoPass(w, s, epsilon);
  const std::string value =
      fmt::format("({} - {}) * {} * {} + {}", w.At(x, s.from), w.At(m.mean, s.kept),
                  w.At(m.inverse, s.kept), w.At(scale, {s.from[1]}), w.At(bias, {s.from[1]}));
  w.Set("pointwise", y, s.from, value);
}

// Blocks of a channel, those from axis `near` on, have moments of their own, of which those of a
// group of `size` channels are combined (Chan, Golub, LeVeque, "Updating formulae", 1979, equation
// 2.1): both passes over a block come before the next block, so that the second finds it near.
// Lanes lie along channels or places, as the value does.
void NormalizePlanesByBlocks(Writer& w) {
  const Operand x = w.In(0), y = w.Out(), scale = w.In(1), bias = w.In(2);
  const int64_t size = SizeOfGroups(w, x);
  if (w.ok() && x.rank() < 3) w.Refuse("channels of one element");
  if (!w.ok()) return;
  const int64_t near = NearFrom(w, x);
  if (!w.ok()) return;
  int64_t count = 1;  // elements of a block
  for (int64_t axis = x.rank(); axis-- > near;) count *= w.Extent(x, axis);
  if (near == 2 && count <= kNearBytes / SizeBytes(x.dtype) / size)
    return w.Refuse("groups that lie near as a whole");
  const Statistics s = MakePlanes(w, x, 1);  // of channels
  w.Range("g", w.Extent(x, 1) / size);
  w.Range("e", size);
  const Subs block(s.from.begin(), s.from.begin() + near), group{"n", "g"},
      own{"n", fmt::format("c / {}", size)};
  Subs part = block;
  part[1] = Sum({{size, "g"}, {1, "e"}});
  int64_t blocks = size;  // of a group
  for (int64_t axis = 2; axis < near; ++axis) blocks *= w.Extent(x, axis);
  const Operand sum = w.Temp("block_sum", s.dtype), middle = w.Temp("block_mean", s.dtype),
                rest = w.Temp("block_squares", s.dtype), total = w.Temp("sum", s.dtype),
                mean = w.Temp("mean", s.dtype), squares = w.Temp("squares", s.dtype),
                factor = w.Temp("factor", s.dtype);
  const auto centred = [&](const Operand& at, const Subs& where) {
    return fmt::format("({} - {})", w.At(x, s.from), w.At(at, where));
  };
  const auto real = [&](int64_t n) { return Lit(mean.dtype, static_cast<double>(n)); };
  w.Reduce("reduction", sum, block, "+=!", w.At(x, s.from));
  w.Set("pointwise", middle, block, fmt::format("{} / {}", w.At(sum, block), real(count)));
  w.Reduce("reduction", rest, block, "+=!", fmt::format("{0} * {0}", centred(middle, block)));
  w.Reduce("reduction", total, group, "+=!", w.At(middle, part));
  w.Set("pointwise", mean, s.kept, fmt::format("{} / {}", w.At(total, own), real(blocks)));
  const std::string away =
      fmt::format("({} - {})", w.At(middle, part), w.At(mean, {part[0], part[1]}));
  w.Reduce("reduction", squares, group, "+=!",
           fmt::format("{0} + {1} * {2} * {2}", w.At(rest, part), real(count), away));
  w.Set("pointwise", factor, s.kept,
        fmt::format("{} / sqrt({} / {} + {})", w.At(scale, {"c"}), w.At(squares, own),
                    real(s.count * size), Lit(mean.dtype, w.Float("epsilon", 1e-5F))));
  w.Set(
      "pointwise", y, s.from,
      fmt::format("{} * {} + {}", centred(mean, s.kept), w.At(factor, s.kept), w.At(bias, {"c"})));
}

void RmsNormalization(Writer& w) {
  const Tail t = MakeTail(w, w.Int("axis", -1));
  if (!w.ok()) return;
  const Operand squares = w.Temp("squares", t.x.dtype);
  w.Reduce("reduction", squares, t.outer, "+=!", fmt::format("{0} * {0}", w.At(t.x, t.from)));
  const Statistics s{t.x, t.x.dtype, t.from, t.outer, t.count};
  const Operand inverse = InverseOf(w, s, squares, w.Float("epsilon", 1e-5F));
  w.Set("pointwise", t.y, t.at,
        fmt::format("{} * {} * {}", w.At(t.x, t.at), w.At(inverse, t.outer),
                    w.AtAligned(w.In(1), t.at, t.x.dims)));
}

void MeanVarianceNormalization(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  Ints axes = graph::IntsAttr(w.node, "axes");
  if (axes.empty()) axes = {0, 2, 3};
  axes = w.Axes(axes, x.rank());
  Statistics s{x, x.dtype, {}, {}, 1};
  const Subs at = w.Indices("i", x.dims);
  for (int64_t k = 0; k < x.rank(); ++k) {
    const auto axis = static_cast<size_t>(k);
    const bool reduced = std::find(axes.begin(), axes.end(), k) != axes.end();
    s.from.push_back(reduced ? w.Range(fmt::format("k{}", k), x.dims[axis]) : at[axis]);
    if (reduced)
      s.count *= w.Extent(x, k);
    else
      s.kept.push_back(at[axis]);
  }
  if (!w.ok()) return;
  const Operand mean = Mean(w, s), squares = w.Temp("squares", x.dtype);
  w.Reduce("reduction", squares, s.kept, "+=!",
           fmt::format("({0} - {1}) * ({0} - {1})", w.At(x, s.from), w.At(mean, s.kept)));
  w.Set("pointwise", y, at,
        fmt::format("({} - {}) / (sqrt({} / {}) + {})", w.At(x, at), w.At(mean, s.kept),
                    w.At(squares, s.kept), Real(s), Lit(mean.dtype, 1e-9)));
}

// Across channels: those from c - (size - 1) / 2 to c + size / 2 that exist.
void Lrn(Writer& w) {
  const Operand x = w.In(0), y = w.Out(), sum = w.Temp("sum", y.dtype);
  const int64_t size = w.Int("size", 1), channels = w.Extent(x, 1);
  Subs at = w.Indices("i", x.dims);
  if (!w.ok() || size < 1) return;
  Subs from = at;
  from[1] = Sum({{1, at[1]}, {1, w.Range("k", size)}}, -((size - 1) / 2));
  const std::string guard = fmt::format("{0} >= 0 && {0} < {1}", from[1], channels);
  w.Reduce("window", sum, at, "+=!",
           fmt::format("({0} ? {1} * {1} : {2})", guard, w.At(x, from), Lit(y.dtype, 0)));
  const double beta = w.Float("beta", 0.75F);
  const std::string base = fmt::format(
      "{} + {} * {}", Lit(sum.dtype, w.Float("bias", 1)),
      Lit(sum.dtype, w.Float("alpha", 1e-4F) / static_cast<double>(size)), w.At(sum, at));
  if (beta != 0.75) {
    return w.Set("pointwise", y, at,
                 fmt::format("{} / pow({}, {})", w.At(x, at), base, Lit(sum.dtype, beta)));
  }
  const Operand root = w.Temp("root", sum.dtype);  // of which a power of 3/2 is left
  w.Set("pointwise", root, at, fmt::format("sqrt({})", base));
  w.Set("pointwise", y, at, fmt::format("{0} / ({1} * sqrt({1}))", w.At(x, at), w.At(root, at)));
}

// A row of zeros stays one.
void LpNormalization(Writer& w) {
  const Operand x = w.In(0), y = w.Out(), sum = w.Temp("norm", y.dtype);
  const auto axis = static_cast<size_t>(w.Axis(w.Int("axis", -1), x.rank()));
  const Subs at = w.Indices("i", x.dims);
  if (!w.ok()) return;
  Subs from = at, kept = at;
  from[axis] = w.Range("k", x.dims[axis]);
  kept.erase(kept.begin() + static_cast<int64_t>(axis));
  const bool one = w.Int("p", 2) == 1;
  w.Reduce("reduction", sum, kept, "+=!",
           fmt::format(fmt::runtime(one ? "abs({0})" : "{0} * {0}"), w.At(x, from)));
  const std::string norm = fmt::format(fmt::runtime(one ? "{}" : "sqrt({})"), w.At(sum, kept));
  w.Set("pointwise", y, at,
        fmt::format("{0} == {1} ? {1} : {2} / {3}", w.At(sum, kept), Lit(sum.dtype, 0), w.At(x, at),
                    norm));
}

}  // namespace weft::tc::ops
