// Of com.microsoft, convolutions, poolings and norms of images whose channels come last
// (ContribOperators.md): those of ONNX between transpositions, which fusing takes away again.
#include <fmt/format.h>

#include <numeric>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

Result<size_t> RankOfImages(Expansion& e, ValueId x) {
  const auto rank = e.RankOf(x);
  if (!rank || *rank < 3)
    return Unsupported("channels that come last, of a rank below 3 or not known");
  return *rank;
}

std::vector<Attribute> ToFront(size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin() + 2, perm.end(), 1);
  perm[1] = static_cast<int64_t>(rank) - 1;
  return {{"perm", std::move(perm)}};
}

std::vector<Attribute> ToBack(size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin() + 1, perm.end() - 1, 2);
  perm[rank - 1] = 1;
  return {{"perm", std::move(perm)}};
}

}  // namespace

Result<ValueId> ChannelsFirst(Expansion& e, ValueId x) {
  WEFT_TRY(const size_t rank, RankOfImages(e, x));
  return e.Make(Op::kTranspose, {x}, "channels_first", ToFront(rank));
}

Result<ValueId> ChannelsLast(Expansion& e, ValueId x) {
  WEFT_TRY(const size_t rank, RankOfImages(e, x));
  return e.Make(Op::kTranspose, {x}, "channels_last", ToBack(rank));
}

Status FinishChannelsLast(Expansion& e, ValueId x) {
  WEFT_TRY(const size_t rank, RankOfImages(e, x));
  return e.Finish(Op::kTranspose, {x}, ToBack(rank));
}

// X, W as everywhere, B, and what is added to the result before its activation.
Status ExpandNhwcConv(Expansion& e) {
  WEFT_TRY(e.Counts(2, 4));
  WEFT_TRY(const ValueId x, ChannelsFirst(e, e.In(0)));
  WEFT_TRY(const ValueId y, e.Make(Op::kConv, {x, e.In(1), e.In(2)}, "conv", WindowOf(e.node())));
  const bool active = !StringAttr(e.node(), "activation", "").empty();
  if (!active && !e.Has(3)) return FinishChannelsLast(e, y);
  WEFT_TRY(ValueId last, ChannelsLast(e, y));
  if (e.Has(3) && !active) return e.Finish(Op::kAdd, {last, e.In(3)});
  if (e.Has(3)) {
    WEFT_TRY(last, e.Make(Op::kAdd, {last, e.In(3)}, "sum"));
  }
  return FinishActivated(e, last);
}

Status ExpandNhwcMaxPool(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  std::vector<Attribute> attributes = WindowOf(e.node());
  if (IntAttr(e.node(), "ceil_mode", 0) != 0) attributes.push_back({"ceil_mode", int64_t{1}});
  WEFT_TRY(const ValueId x, ChannelsFirst(e, e.In(0)));
  WEFT_TRY(const ValueId y, e.Make(Op::kMaxPool, {x}, "pooled", std::move(attributes)));
  return FinishChannelsLast(e, y);
}

// That of ONNX, for channels that come last if `channels_last` says so.
Status ExpandQLinearConv(Expansion& e) {
  WEFT_TRY(e.Counts(8, 9));
  std::vector<ValueId> operands = e.node().inputs;
  if (IntAttr(e.node(), "channels_last", 0) == 0)
    return e.Finish(Op::kQLinearConv, std::move(operands), WindowOf(e.node()));
  WEFT_TRY(operands[0], ChannelsFirst(e, e.In(0)));
  WEFT_TRY(const ValueId y,
           e.Make(Op::kQLinearConv, std::move(operands), "conv", WindowOf(e.node())));
  return FinishChannelsLast(e, y);
}

// Groups of channels without mean and of deviation 1, times gamma, plus beta. SkipGroupNorm does so
// with a sum, which is an output: of the images, others, and a bias for each channel.
Status ExpandGroupNorm(Expansion& e) {
  const bool skips = e.node().op_name == "SkipGroupNorm";
  WEFT_TRY(e.Counts(skips ? 4 : 3, skips ? 5 : 3, skips ? 2 : 1));
  WEFT_TRY(e.Only({"activation", "channels_last", "epsilon", "groups"}));
  const int64_t groups = IntAttr(e.node(), "groups", 0);
  if (groups < 1) return Invalid(fmt::format("found {} groups, expected 1 or more", groups));
  const bool last = IntAttr(e.node(), "channels_last", 1) != 0;
  WEFT_TRY(const size_t rank, RankOfImages(e, e.In(0)));
  std::vector<int64_t> pixels(rank - 2);
  std::iota(pixels.begin(), pixels.end(), last ? 1 : 2);
  std::vector<int64_t> behind(rank - 2);
  std::iota(behind.begin(), behind.end(), 1);
  Formula f(e);
  ValueId x = e.In(0);
  if (skips) {
    ValueId other = e.In(3);  // may be the same for all pixels of an image
    if (e.RankOf(other) == 2) other = f.Do(Op::kUnsqueeze, {other, e.Ints("pixels", pixels)});
    x = f.Add(x, other);
    if (e.Has(4))
      x = f.Add(x, last ? e.In(4) : f.Do(Op::kUnsqueeze, {e.In(4), e.Ints("behind", behind)}));
    WEFT_TRY(f.Finish(x, 1));
  }
  if (last) x = f.Do(Op::kTranspose, {x}, ToFront(rank));
  const auto mean = [&](ValueId v) { return f.Do(Op::kReduceMean, {v, e.Ints("along", {2})}); };
  const auto by_channel = [&](size_t i) {
    return f.Do(Op::kUnsqueeze, {e.In(i), e.Ints("behind", behind)});
  };
  const ValueId flat = f.Do(Op::kReshape, {x, e.Ints("groups", {0, groups, -1})});
  const ValueId apart = f.Sub(flat, mean(flat));
  const ValueId variance =
      f.Add(mean(f.Mul(apart, apart)), f.Number(FloatAttr(e.node(), "epsilon", 1e-5F), apart));
  const ValueId norm =
      f.Do(Op::kReshape, {f.Div(apart, f.Do(Op::kSqrt, {variance})), f.Do(Op::kShape, {x})});
  ValueId y = f.Add(f.Mul(norm, by_channel(1)), by_channel(2));
  if (IntAttr(e.node(), "activation", 0) != 0) y = f.Do(Op::kSwish, {y});
  if (last) y = f.Do(Op::kTranspose, {y}, ToBack(rank));
  return f.Finish(y);
}

}  // namespace weft::graph
