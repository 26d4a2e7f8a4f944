// Support vector machines, of ai.onnx.ml (Schölkopf and Smola, "Learning with kernels", 2002).
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/onnx/ml.h"

namespace weft::graph::ml {
namespace {

// Kernels of all rows x [N, F] with all vectors v [S, F]: [N, S].
Result<ValueId> Kernels(Expansion& e, Formula& f, ValueId x, const Tensor& vectors) {
  const std::string kind = StringAttr(e.node(), "kernel_type", "LINEAR");
  const std::vector<float> params = Floats(e.node(), "kernel_params");
  if (kind != "LINEAR" && params.size() != 3)
    return Invalid(fmt::format("found {} kernel_params, expected 3", params.size()));
  const ValueId v = e.Constant("vectors", vectors);
  const auto number = [&](size_t i) { return f.Number(params[i], x); };
  if (kind == "RBF") {
    const ValueId apart = f.Sub(f.Do(Op::kUnsqueeze, {x, e.Ints("vector", {1})}), v);
    const ValueId squares =
        f.Do(Op::kReduceSumSquare, {apart, e.Ints("last", {-1})}, {{"keepdims", int64_t{0}}});
    return f.Do(Op::kExp, {f.Mul(f.Do(Op::kNeg, {number(0)}), squares)});
  }
  const ValueId product = f.Do(Op::kGemm, {x, v}, {{"transB", int64_t{1}}});
  if (kind == "LINEAR") return product;
  if (kind != "POLY" && kind != "SIGMOID")
    return Invalid(fmt::format("attribute \"kernel_type\" is {}", PrintString(kind)));
  const ValueId affine = f.Add(f.Mul(product, number(0)), number(1));
  return kind == "POLY" ? f.Do(Op::kPow, {affine, number(2)}) : f.Do(Op::kTanh, {affine});
}

// A class's turn in each row of p [N, C] that is still `far` from the solution, by rows of N: what
// has to be added so that the class's equation holds, and all of it again a distribution.
constexpr std::string_view kTurn = R"(
graph turn (trip: i64[], going: bool[], p: f32, far: bool, q: f32, diagonal: f32, classes: i64,
            count: i64[], tolerance: f32[]) -> (more, next, active) {
  zero: i64[] = const(0)
  none: i32[] = const(0)
  one: f32[] = const(1)
  middle: i64[1] = const(1)
  last: i64[1] = const(-1)
  turn = Mod(trip, count)
  row = Unsqueeze(p, middle)
  terms = Mul(q, row)
  qp = ReduceSum(terms, last) {keepdims = 0}
  parts = Mul(p, qp)
  pqp = ReduceSum(parts, last)
  gaps = Sub(pqp, qp)
  sizes = Abs(gaps)
  largest = ReduceMax(sizes, last)
  wide = GreaterOrEqual(largest, tolerance)
  first = Equal(turn, zero)
  active = Where(first, wide, far)
  same = Equal(classes, turn)
  mine = Cast(same) {to = 1}
  of_gaps = Mul(gaps, mine)
  gap = ReduceSum(of_gaps, last)
  of_diagonal = Mul(diagonal, mine)
  weight = ReduceSum(of_diagonal, last)
  change = Div(gap, weight)
  added = Mul(change, mine)
  changed = Add(p, added)
  sum = Add(one, change)
  whole = Div(changed, sum)
  next = Where(active, whole, p)
  marks = Cast(active) {to = 6}
  any = ReduceMax(marks) {keepdims = 0}
  more = Greater(any, none)
})";

// Probabilities [N, C] from those of pairs [N, C (C - 1) / 2], that the first of a pair wins: the
// second approach of Wu, Lin and Weng, "Probability estimates for multi-class classification by
// pairwise coupling", 2004, section 4.2, whose algorithm 2 stops where its libraries stop it.
Result<ValueId> Coupled(Expansion& e, Formula& f, ValueId wins, int64_t classes) {
  const auto pairs = classes * (classes - 1) / 2;
  std::vector<int64_t> all;
  Tensor eye(Dtype::kF32, {classes, classes}), others = eye,
                                               places(Dtype::kI64, {classes, classes});
  for (int64_t i = 0, pair = 0; i < classes; ++i) {
    all.push_back(i);
    for (int64_t j = i; j < classes; ++j) {
      if (i == j) {
        SetElem(eye, i * classes + i, 1);
        continue;
      }
      SetElem(others, i * classes + j, 1);
      SetElem(others, j * classes + i, 1);
      SetElemInt(places, i * classes + j, pair);
      SetElemInt(places, j * classes + i, pairs + pair++);
    }
  }
  const ValueId p = f.Do(Op::kClip, {wins, f.Number(1e-7, wins), f.Number(1 - 1e-7, wins)});
  const ValueId both = f.Do(Op::kConcat, {p, f.Sub(f.Number(1, p), p)}, {{"axis", int64_t{1}}});
  const ValueId picked =
      f.Do(Op::kGather, {both, e.Constant("places", std::move(places))}, {{"axis", int64_t{1}}});
  const ValueId r = f.Mul(picked, e.Constant("others", std::move(others)));  // [N, C, C]
  const ValueId turned = f.Do(Op::kTranspose, {r}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  const ValueId diagonal =
      f.Do(Op::kReduceSumSquare, {turned, e.Ints("last", {-1})}, {{"keepdims", int64_t{0}}});
  const ValueId wide = f.Do(Op::kUnsqueeze, {diagonal, e.Ints("last", {-1})});
  const ValueId q = f.Sub(f.Mul(wide, e.Constant("eye", std::move(eye))), f.Mul(turned, r));
  const ValueId shape = f.Do(Op::kShape, {diagonal});
  const ValueId rows = f.Do(Op::kShape, {diagonal}, {{"end", int64_t{1}}});
  const ValueId column = f.Do(Op::kConcat, {rows, e.Ints("one", {1})}, {{"axis", int64_t{0}}});
  const auto filled = [&](Dtype dtype, double number, ValueId extents) {
    return f.Do(Op::kExpand, {e.Constant("start", TensorOfScalar(dtype, number)), extents});
  };
  const ValueId start = filled(Dtype::kF32, 1.0 / static_cast<double>(classes), shape);
  const ValueId far = filled(Dtype::kBool, 1, column);
  const ValueId outer[] = {q, diagonal, e.Ints("classes", std::move(all)), e.Int("count", classes),
                           f.Number(0.005 / static_cast<double>(classes), p)};
  WEFT_TRY(f.status());
  WEFT_TRY(Graph body, ParseGraph(kTurn, "turn", {}));
  constexpr size_t kStates = 4;  // what is no state is captured
  for (size_t i = 0; i < std::size(outer); ++i) {
    const std::string name = e.Known(outer[i]).name;
    if (const ValueId taken = FindValue(body, name); taken.valid())
      body[taken].name = Names(body).Fresh(name);
    body[body.inputs[kStates + i]] = Value{.name = name, .kind = ValueKind::kCaptured};
  }
  body.inputs.resize(kStates);
  constexpr int64_t kRounds = 100;
  WEFT_TRY(const auto made,
           e.MakeAll(Op::kLoop,
                     {e.Int("turns", kRounds * classes),
                      e.Constant("going", TensorOfScalar(Dtype::kBool, 1)), start, far},
                     2, "coupled", {{"body", std::make_shared<Graph>(std::move(body))}}));
  return made[0];
}

}  // namespace

Status ExpandSvmRegressor(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"coefficients", "kernel_params", "kernel_type", "n_supports", "n_targets",
                   "one_class", "post_transform", "rho", "support_vectors"}));
  WEFT_TRY(const Post post, PostTransform(e.node()));
  const std::vector<float> factors = Floats(e.node(), "coefficients"),
                           rho = Floats(e.node(), "rho"),
                           vectors = Floats(e.node(), "support_vectors");
  const int64_t supports = IntAttr(e.node(), "n_supports", 0), count = std::ssize(factors);
  if (rho.size() != 1) return Invalid(fmt::format("found {} rho, expected 1", rho.size()));
  if (count == 0) return Invalid("attribute \"coefficients\" is absent or empty");
  Formula f(e);
  WEFT_TRY(ValueId x, Rows(e, f, e.In(0)));
  if (supports != 0) {
    if (supports != count || vectors.empty() || std::ssize(vectors) % supports != 0)
      return Invalid(fmt::format("found {} coefficients and {} numbers for {} support vectors",
                                 count, vectors.size(), supports));
    WEFT_TRY(x, Kernels(e, f, x, TensorOf(vectors, {supports, std::ssize(vectors) / supports})));
  }
  const ValueId sum = f.Do(Op::kMatMul, {x, e.Constant("factors", TensorOf(factors, {count, 1}))});
  ValueId score = f.Add(sum, f.Number(rho[0], sum));
  if (IntAttr(e.node(), "one_class", 0) != 0) {
    const ValueId inside = f.Do(Op::kGreater, {score, f.Number(0, score)});
    score = f.Do(Op::kWhere, {inside, f.Number(1, score), f.Number(-1, score)});
  }
  return f.Finish(Transformed(f, e, post, score));
}

// Each pair of classes has a machine of its own; the class that most of them vote for is the label.
// Of two classes, scores are that of the pair with either sign; or they are probabilities, of each
// pair by Platt's fit ("Probabilistic outputs for support vector machines", 1999).
Status ExpandSvmClassifier(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1, 2));
  WEFT_TRY(e.Only({"classlabels_ints", "classlabels_strings", "coefficients", "kernel_params",
                   "kernel_type", "post_transform", "prob_a", "prob_b", "rho", "support_vectors",
                   "vectors_per_class"}));
  const Node& node = e.node();
  WEFT_TRY(const Post post, PostTransform(node));
  WEFT_TRY(const Labels labels, LabelsOf(e, "classlabels_ints", "classlabels_strings"));
  const std::vector<int64_t> counts = Ints(node, "vectors_per_class");
  const std::vector<float> factors = Floats(node, "coefficients"), rho = Floats(node, "rho"),
                           vectors = Floats(node, "support_vectors"),
                           slope = Floats(node, "prob_a"), offset = Floats(node, "prob_b");
  if (counts.empty()) return Unsupported("a classifier without support vectors is not supported");
  const int64_t classes = labels.count, numbers = std::ssize(vectors);
  const auto pairs = static_cast<size_t>(classes * (classes - 1) / 2);
  if (classes < 2 || std::ssize(counts) != classes || rho.size() != pairs)
    return Invalid(fmt::format("found {} classes of vectors and {} rho for {} labels",
                               counts.size(), rho.size(), classes));
  std::vector<int64_t> begins = {0};  // of each class's vectors
  for (int64_t count : counts) {
    if (count < 0 || count > numbers)
      return Invalid(fmt::format("attribute \"vectors_per_class\" has {}", count));
    begins.push_back(begins.back() + count);
    if (begins.back() > numbers) break;
  }
  const int64_t supports = begins.back();
  if (supports < 1 || numbers % supports != 0 || std::ssize(factors) != supports * (classes - 1))
    return Invalid(fmt::format("found {} coefficients and {} numbers for {} support vectors",
                               factors.size(), numbers, supports));
  const int64_t most = std::max(supports, classes);
  if (static_cast<int64_t>(pairs) > kMostWeights / most)
    return Limit(
        fmt::format("{} pairs of classes for {} classes and {} support vectors, the limit "
                    "is {} weights",
                    pairs, classes, supports, kMostWeights));
  if (!slope.empty() && (slope.size() != pairs || offset.size() != pairs))
    return Invalid(fmt::format("found {} prob_a and {} prob_b for {} pairs", slope.size(),
                               offset.size(), pairs));

  Tensor machines(Dtype::kF32, {supports, static_cast<int64_t>(pairs)});
  Tensor won(Dtype::kF32, {static_cast<int64_t>(pairs), classes}), lost = won;
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      const auto put = [&](int64_t of, int64_t row) {
        for (auto v = begins[static_cast<size_t>(of)]; v < begins[static_cast<size_t>(of) + 1]; ++v)
          SetElem(machines, v * static_cast<int64_t>(pairs) + pair,
                  factors[static_cast<size_t>(row * supports + v)]);
      };
      put(i, j - 1);
      put(j, i);
      SetElem(won, pair * classes + i, 1);
      SetElem(lost, pair * classes + j, 1);
    }
  }
  Formula f(e);
  WEFT_TRY(const ValueId x, Rows(e, f, e.In(0)));
  WEFT_TRY(const ValueId kernels,
           Kernels(e, f, x, TensorOf(vectors, {supports, numbers / supports})));
  const auto row = [&](std::span<const float> list) {
    return e.Constant("row", TensorOf(list, {std::ssize(list)}));
  };
  ValueId scores =
      f.Do(Op::kGemm, {kernels, e.Constant("machines", std::move(machines)), row(rho)});
  const ValueId first = f.Do(Op::kGreater, {scores, f.Number(0, scores)});
  const auto votes = [&](ValueId which, Tensor whose) {
    return f.Do(Op::kMatMul, {f.Cast(which, Dtype::kF32), e.Constant("votes", std::move(whose))});
  };
  const ValueId all =
      f.Add(votes(first, std::move(won)), votes(f.Do(Op::kNot, {first}), std::move(lost)));
  const ValueId best = f.Do(Op::kArgMax, {all}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  WEFT_TRY(f.Finish(f.Do(Op::kGather, {labels.list, best}), 0));
  const auto both = [&](ValueId of_first, ValueId of_second) {
    return f.Do(Op::kConcat, {of_first, of_second}, {{"axis", int64_t{1}}});
  };
  if (!slope.empty()) {
    const ValueId fit = f.Add(f.Mul(scores, row(slope)), row(offset));
    scores = f.Do(Op::kSigmoid, {f.Do(Op::kNeg, {fit})});
    WEFT_TRY(scores, Coupled(e, f, scores, classes));
  } else if (classes == 2) {
    scores = both(f.Do(Op::kNeg, {scores}), scores);
  }
  return f.Finish(Transformed(f, e, post, scores), 1);
}

}  // namespace weft::graph::ml
