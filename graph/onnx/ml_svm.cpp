// Support vector machines, of ai.onnx.ml (Schölkopf and Smola, "Learning with kernels", 2002).
#include <fmt/format.h>

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
// Of two classes, scores are that of the pair with either sign, or by Platt's fit ("Probabilistic
// outputs for support vector machines", 1999) the probabilities.
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
  if (!slope.empty() && (slope.size() != pairs || offset.size() != pairs))
    return Invalid(fmt::format("found {} prob_a and {} prob_b for {} pairs", slope.size(),
                               offset.size(), pairs));
  if (!slope.empty() && classes > 2)
    return Unsupported("probabilities of more than two classes are not supported");

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
    scores = both(f.Do(Op::kSigmoid, {f.Do(Op::kNeg, {fit})}), f.Do(Op::kSigmoid, {fit}));
  } else if (classes == 2) {
    scores = both(f.Do(Op::kNeg, {scores}), scores);
  }
  return f.Finish(Transformed(f, e, post, scores), 1);
}

}  // namespace weft::graph::ml
