// Losses of a classifier: what the target class got.
#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

// The target's places: those of x without axis 1.
struct Places {
  Subs at;  // of the target
  Dims dims;
};

Places MakePlaces(Writer& w, const Operand& x) {
  Places p;
  if (x.rank() < 2) {
    w.Refuse("scores of rank 1");
    return p;
  }
  p.dims = x.dims;
  p.dims.erase(p.dims.begin() + 1);
  p.at = w.Indices("i", p.dims);
  w.Range("c", w.Extent(x, 1));
  return p;
}

Subs Of(const Places& p, const std::string& kind) {
  Subs at = p.at;
  at.insert(at.begin() + 1, kind);
  return at;
}

// The loss of each place, and their sum or weighted mean, of logarithms x.
void WriteLoss(Writer& w, const Places& p, const Operand& x, int64_t kinds) {
  const Operand target = w.In(1), y = w.Out();
  const std::string kind = w.At(target, p.at);
  const graph::Attribute* given = graph::FindAttribute(w.node, "ignore_index");
  const Dtype dtype = y.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  const std::string zero = Lit(dtype, 0);
  const auto counted = [&](const std::string& value) {
    if (given == nullptr) return value;
    return fmt::format("({} == {} ? {} : {})", kind, LitInt(target.dtype, w.Int("ignore_index", 0)),
                       zero, value);
  };
  const std::string place = fmt::format("within({}, 0, {})", kind, kinds);
  std::string weight = w.Has(2) ? w.At(w.In(2), {place}) : Lit(dtype, 1);
  std::string loss = "-" + w.At(x, Of(p, place));
  if (w.Has(2)) loss = fmt::format("{} * {}", loss, weight);
  const std::string reduction = graph::StringAttr(w.node, "reduction", "mean");
  if (reduction == "none") return w.Set("gather", y, p.at, counted(loss));
  const Operand sum = reduction == "sum" ? y : w.Temp("sum", y.dtype);
  w.Reduce("gather", sum, {}, "+=!", counted(loss));
  if (reduction == "sum") return;
  const Operand total = w.Temp("total", y.dtype);
  if (given == nullptr && !w.Has(2)) {
    Subs extents;
    for (const Dim& dim : p.dims) extents.push_back(dim.text());
    w.Set("pointwise", total, {}, Cast(total.dtype, Join(extents, " * ")));
  } else {
    w.Reduce("gather", total, {}, "+=!", counted(weight));
  }
  w.Set("pointwise", y, {}, fmt::format("{} / {}", w.At(sum, {}), w.At(total, {})));
}

}  // namespace

void NegativeLogLikelihoodLoss(Writer& w) {
  const Operand x = w.In(0);
  const Places p = MakePlaces(w, x);
  if (w.ok()) WriteLoss(w, p, x, w.Extent(x, 1));
}

void SoftmaxCrossEntropyLoss(Writer& w) {
  const Operand x = w.In(0);
  const Places p = MakePlaces(w, x);
  if (!w.ok()) return;
  const Operand max = w.Temp("max", x.dtype), sum = w.Temp("exp_sum", x.dtype);
  const Operand log = w.HasOut(1) ? w.Out(1) : w.Temp("log_prob", x.dtype);
  const Subs at = Of(p, "c");
  w.Reduce("reduction", max, p.at, "max=!", w.At(x, at));
  w.Reduce("reduction", sum, p.at, "+=!",
           fmt::format("exp({} - {})", w.At(x, at), w.At(max, p.at)));
  w.Set("pointwise", log, at,
        fmt::format("{} - {} - log({})", w.At(x, at), w.At(max, p.at), w.At(sum, p.at)));
  WriteLoss(w, p, log, w.Extent(x, 1));
}

}  // namespace weft::tc::ops
