// Of com.microsoft, tables and scores of tokens (ContribOperators.md).
#include <fmt/format.h>

#include <limits>

#include "graph/onnx/expansion.h"

namespace weft::graph {

// Rows of a table. Padding and frequencies only say what a gradient is.
Status ExpandTorchEmbedding(Expansion& e) {
  WEFT_TRY(e.Obeys("weight:T indices:=i64 padding_idx?:=i64 scale_grad_by_freq?:=bool", "Y:T",
                   "T=bf16|f16|f32|f64|i8|i16|i32|i64|u8|u16|u32|u64"));
  if (const auto rank = e.RankOf(e.In(0)); rank && rank != 2)
    return Invalid(fmt::format("a table of rank {}, expected 2", *rank));
  return e.Finish(Op::kGather, {e.In(0), e.In(1)});
}

// A token that would repeat a sequence of n tokens gets the score of minus infinity: one that came
// behind the last n - 1 tokens before.
Status ExpandNGramRepeatBlock(Expansion& e) {
  WEFT_TRY(e.Obeys("input_ids:=i64 scores:=f32", "scores_out:=f32", "", "ngram_size!:i"));
  const int64_t n = IntAttr(e.node(), "ngram_size", 0);
  constexpr int64_t kMost = 64;
  if (n < 1) return Invalid(fmt::format("ngram_size is {}, expected 1 or more", n));
  if (n > kMost)
    return Unsupported(fmt::format("ngram_size is {}, at most {} is supported", n, kMost));
  for (size_t i = 0; i < 2; ++i) {
    if (const auto rank = e.RankOf(e.In(i)); rank && rank != 2)
      return Invalid(fmt::format("input {} is of rank {}, expected 2", i, *rank));
  }
  Formula f(e);
  // Places before the first token make the last n - 1 ones be there; windows begin behind those.
  const ValueId ids = f.Do(Op::kPad, {e.In(0), e.Ints("before", {0, n, 0, 0}), e.Int("none", -1)});
  const auto slice = [&](int64_t from, int64_t to) {
    if (to == 0) to = std::numeric_limits<int64_t>::max();
    return f.Do(Op::kSlice,
                {ids, e.Ints("from", {from}), e.Ints("to", {to}), e.Ints("along", {1})});
  };
  const ValueId next = slice(2 * n - 1, 0);
  ValueId same = f.Do(Op::kEqual, {next, next});
  for (int64_t k = 0; k < n - 1; ++k) {
    const int64_t from_end = k - (n - 1);
    const ValueId window = slice(n + k, from_end), last = slice(from_end, from_end + 1);
    same = f.Do(Op::kAnd, {same, f.Do(Op::kEqual, {window, last})});
  }
  const auto infinity = [&](double sign) {
    return f.Number(sign * std::numeric_limits<double>::infinity(), e.In(1));
  };
  const ValueId bound = f.Do(Op::kWhere, {same, infinity(-1), infinity(1)});
  return f.Finish(f.Do(Op::kScatterElements, {e.In(1), next, bound},
                       {{"axis", int64_t{1}}, {"reduction", std::string("min")}}));
}

}  // namespace weft::graph
