// Softmax and its relatives along one axis. The maximum is taken off first, so that exp never
// overflows.
#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

struct Row {
  Operand x, y;
  int64_t axis = 0, extent = 1;
  Subs at;    // with the axis as index j
  Subs kept;  // without the axis
};

Row MakeRow(Writer& w) {
  Row r{w.In(0), w.Out(), 0, 1, {}, {}};
  r.axis = w.Axis(w.Int("axis", -1), r.x.rank());
  r.extent = w.Extent(r.x, r.axis);
  if (!w.ok()) return r;
  for (int64_t k = 0; k < r.x.rank(); ++k) {
    const Dim& dim = r.x.dims[static_cast<size_t>(k)];
    r.at.push_back(k == r.axis ? w.Range("j", dim) : w.Range(fmt::format("i{}", k), dim));
    if (k != r.axis) r.kept.push_back(r.at.back());
  }
  return r;
}

// The row's maximum and the sum of exp(x - maximum).
struct Sums {
  std::string max, sum;
};

Sums MaxAndSum(Writer& w, const Row& r) {
  const Operand max = w.Temp("max", r.x.dtype), sum = w.Temp("sum", r.x.dtype);
  w.Reduce("reduction", max, r.kept, "max=!", w.At(r.x, r.at));
  w.Reduce("reduction", sum, r.kept, "+=!",
           fmt::format("exp({} - {})", w.At(r.x, r.at), w.At(max, r.kept)));
  return {w.At(max, r.kept), w.At(sum, r.kept)};
}

// e / sum, by one division a row. The sum is 1 at least; where its inverse could be a subnormal, of
// two bytes, each element is divided.
std::string Normalized(Writer& w, const Row& r, const std::string& e, const std::string& sum) {
  if (SizeBytes(r.x.dtype) < 4) return fmt::format("{} / {}", e, sum);
  const Operand inverse = w.Temp("inverse", r.x.dtype);
  w.Set("pointwise", inverse, r.kept, fmt::format("{} / {}", Lit(r.x.dtype, 1), sum));
  return fmt::format("{} * {}", e, w.At(inverse, r.kept));
}

}  // namespace

// Three passes over x; exp is computed twice.
void Softmax(Writer& w) {
  const Row r = MakeRow(w);
  if (!w.ok()) return;
  const Sums s = MaxAndSum(w, r);
  const std::string e = fmt::format("exp({} - {})", w.At(r.x, r.at), s.max);
  w.Set("pointwise", r.y, r.at, Normalized(w, r, e, s.sum));
}

// The exponentials are kept.
void SoftmaxStored(Writer& w) {
  const Row r = MakeRow(w);
  if (!w.ok()) return;
  const Operand max = w.Temp("max", r.x.dtype), e = w.Temp("exp", r.x.dtype),
                sum = w.Temp("sum", r.x.dtype);
  w.Reduce("reduction", max, r.kept, "max=!", w.At(r.x, r.at));
  w.Set("pointwise", e, r.at, fmt::format("exp({} - {})", w.At(r.x, r.at), w.At(max, r.kept)));
  w.Reduce("reduction", sum, r.kept, "+=!", w.At(e, r.at));
  w.Set("pointwise", r.y, r.at, Normalized(w, r, w.At(e, r.at), w.At(sum, r.kept)));
}

// Two passes: maximum and sum run over blocks of the row together, the sum being rescaled when the
// maximum grows (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, section
// 3). While all is -inf nothing has been seen, and the shift is 0.
void SoftmaxOnline(Writer& w) {
  const Row r = MakeRow(w);
  if (!w.ok()) return;
  const int64_t b = 16;
  if (r.extent % b != 0 || r.extent <= b) return w.Refuse("rows of no whole blocks of 16");
  const Dtype dtype = r.x.dtype;
  const Operand block_max = w.Temp("block_max", dtype), max = w.Temp("max", dtype),
                shift = w.Temp("shift", dtype);
  const Operand block_sum = w.Temp("block_sum", dtype), sum = w.Temp("sum", dtype);
  const int64_t blocks = r.extent / b;
  w.Range("t", blocks);
  w.Range("e", b);
  Subs from = r.at;
  from[static_cast<size_t>(r.axis)] = Sum({{b, "t"}, {1, "e"}});
  const Subs now = Concat({"t"}, r.kept), before = Concat({"t - 1"}, r.kept);
  const Subs last = Concat({std::to_string(blocks - 1)}, r.kept);
  const std::string zero = Lit(max.dtype, 0), low = Lowest(max.dtype), x = w.At(r.x, from);
  w.Reduce("reduction", block_max, now, "max=!", x);
  w.Range("t", 1);
  w.Set("recurrence", max, now, w.At(block_max, now));
  w.Range("t", blocks, 1);
  w.Set("recurrence", max, now,
        fmt::format("max({}, {})", w.At(max, before), w.At(block_max, now)));
  w.Range("t", blocks);
  w.Set("pointwise", shift, now, fmt::format("{0} == {1} ? {2} : {0}", w.At(max, now), low, zero));
  w.Reduce("reduction", block_sum, now, "+=!", fmt::format("exp({} - {})", x, w.At(shift, now)));
  w.Range("t", 1);
  w.Set("recurrence", sum, now, w.At(block_sum, now));
  w.Range("t", blocks, 1);
  w.Set("recurrence", sum, now,
        fmt::format("{} * exp({} - {}) + {}", w.At(sum, before), w.At(max, before),
                    w.At(shift, now), w.At(block_sum, now)));
  const std::string e = fmt::format("exp({} - {})", w.At(r.x, r.at), w.At(shift, last));
  w.Set("pointwise", r.y, r.at, Normalized(w, r, e, w.At(sum, last)));
}

void LogSoftmax(Writer& w) {
  const Row r = MakeRow(w);
  if (!w.ok()) return;
  const Sums s = MaxAndSum(w, r);
  w.Set("pointwise", r.y, r.at, fmt::format("{} - {} - log({})", w.At(r.x, r.at), s.max, s.sum));
}

// One where the maximum first occurs.
void Hardmax(Writer& w) {
  const Row r = MakeRow(w);
  if (!w.ok()) return;
  const Operand max = w.Temp("max", r.x.dtype), place = w.Temp("place", Dtype::kI32);
  w.Pick("reduction", max, place, r.kept, "max=!", w.At(r.x, r.at), "j");
  w.Set(
      "pointwise", r.y, r.at,
      fmt::format("{} == j ? {} : {}", w.At(place, r.kept), Lit(r.y.dtype, 1), Lit(r.y.dtype, 0)));
}

}  // namespace weft::tc::ops
