// Operators of ai.onnx.ml on rows of numbers: what prepares features, and linear models. The
// formulas are those of the domain's operator descriptions.
#include "graph/onnx/ml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

#include "base/text.h"

namespace weft::graph {
namespace ml {
namespace {

template <typename T>
std::vector<T> ListOf(const Node& node, std::string_view name) {
  const Attribute* found = FindAttribute(node, name);
  const auto* list = found ? std::get_if<std::vector<T>>(&found->value) : nullptr;
  return list ? *list : std::vector<T>();
}

std::vector<Attribute> OverLast(bool keep = true) { return {{"keepdims", int64_t{keep}}}; }

ValueId Reduced(Formula& f, Expansion& e, Op op, ValueId x, bool keep = true) {
  return f.Do(op, {x, e.Ints("last", {-1})}, OverLast(keep));
}

// Two numbers whose product is as good as that of the normal distribution's quantile (Winitzki,
// "A handy approximation for the error function and its inverse", 2008).
ValueId Probit(Formula& f, ValueId p) {
  const auto number = [&](double v) { return f.Number(v, p); };
  constexpr double kA = 0.147;
  const ValueId one = number(1), x = f.Sub(f.Mul(p, number(2)), one);
  const ValueId rest = f.Mul(f.Sub(one, x), f.Add(one, x));
  const ValueId log = f.Do(Op::kLog, {rest});
  const ValueId half = f.Add(number(2 / (std::numbers::pi * kA)), f.Mul(number(0.5), log));
  const ValueId root =
      f.Do(Op::kSqrt,
           {f.Sub(f.Do(Op::kSqrt, {f.Sub(f.Mul(half, half), f.Mul(number(1 / kA), log))}), half)});
  const ValueId sign = f.Do(Op::kWhere, {f.Do(Op::kLess, {x, number(0)}), number(-1), one});
  const ValueId value = f.Mul(number(1.41421356), f.Mul(sign, root));
  return f.Do(Op::kWhere, {f.Do(Op::kEqual, {rest, number(0)}), number(0), value});
}

// Softmax that leaves zeros at zero.
ValueId SoftmaxZero(Formula& f, Expansion& e, ValueId x) {
  const ValueId most = Reduced(f, e, Op::kReduceMax, x);
  const ValueId some = f.Do(Op::kGreater, {f.Do(Op::kAbs, {x}), f.Number(1e-7, x)});
  const ValueId power = f.Do(Op::kExp, {f.Sub(x, most)});
  const ValueId small = f.Mul(x, f.Do(Op::kExp, {f.Do(Op::kNeg, {most})}));
  const ValueId parts = f.Do(Op::kWhere, {some, power, small});
  const ValueId sum = Reduced(f, e, Op::kReduceSum, parts);
  const ValueId none = f.Do(Op::kEqual, {sum, f.Number(0, x)});
  return f.Do(Op::kWhere, {none, f.Number(0.5, x), f.Div(parts, sum)});
}

Status ExpandArrayFeatureExtractor(Expansion& e) {
  WEFT_TRY(e.Counts(2, 2));
  const auto rank = e.RankOf(e.In(0));
  if (!rank) return Unsupported("a tensor of unknown rank is not supported");
  if (*rank == 0) return Invalid("input 0 has rank 0, expected 1 or more");
  Formula f(e);
  const ValueId places = f.Do(Op::kReshape, {e.In(1), e.Ints("flat", {-1})});
  ValueId taken = f.Do(Op::kGather, {e.In(0), places}, {{"axis", int64_t{-1}}});
  if (*rank == 1) taken = f.Do(Op::kUnsqueeze, {taken, e.Ints("row", {0})});
  return f.Finish(taken);
}

Status ExpandBinarizer(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"threshold"}));
  Formula f(e);
  const ValueId x = e.In(0);
  const ValueId above = f.Do(Op::kGreater, {x, f.Number(FloatAttr(e.node(), "threshold", 0), x)});
  return f.Finish(f.Do(Op::kCastLike, {above, x}));
}

// The parts' columns side by side, each cut to its number of columns or filled up with zeros.
Status ExpandFeatureVectorizer(Expansion& e) {
  WEFT_TRY(e.Counts(1, SIZE_MAX));
  WEFT_TRY(e.Only({"inputdimensions"}));
  const std::vector<int64_t> widths = Ints(e.node(), "inputdimensions");
  const size_t count = e.node().inputs.size();
  if (widths.size() != count)
    return Invalid(fmt::format("attribute \"inputdimensions\" has {} numbers for {} inputs",
                               widths.size(), count));
  Formula f(e);
  std::vector<ValueId> parts;
  for (size_t i = 0; i < count; ++i) {
    if (!e.Has(i)) return Invalid(fmt::format("input {} is absent", i));
    if (widths[i] < 1 || widths[i] > INT32_MAX)
      return Invalid(fmt::format("attribute \"inputdimensions\" has {}", widths[i]));
    // A copy: values move when there are more of them.
    const auto shape = e.Known(e.In(i)).shape;
    if (!shape || shape->empty() || shape->size() > 2)
      return Unsupported(fmt::format("input {} that is no matrix is not supported", i));
    const Extent columns = shape->back();
    if (!columns.IsConstant())
      return Unsupported(fmt::format("input {} of an unknown width is not supported", i));
    ValueId x = f.Cast(e.In(i), Dtype::kF32);
    if (shape->size() == 1) x = f.Do(Op::kUnsqueeze, {x, e.Ints("row", {0})});
    const int64_t missing = widths[i] - columns.value();
    if (missing != 0)  // a negative pad cuts
      x = f.Do(Op::kPad, {x, e.Ints("pads", {0, 0, 0, missing})});
    parts.push_back(x);
  }
  return f.Finish(f.Do(Op::kConcat, parts, {{"axis", int64_t{1}}}));
}

Status ExpandImputer(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"imputed_value_floats", "imputed_value_int64s", "replaced_value_float",
                   "replaced_value_int64"}));
  const std::vector<float> floats = Floats(e.node(), "imputed_value_floats");
  const std::vector<int64_t> ints = Ints(e.node(), "imputed_value_int64s");
  if (floats.empty() == ints.empty())
    return Invalid("expected either imputed_value_floats or imputed_value_int64s");
  Formula f(e);
  const ValueId x = e.In(0);
  const ValueId values = e.Constant(
      "values", ints.empty() ? TensorOf(floats, {std::ssize(floats)}) : TensorOfInts(ints));
  ValueId missing;
  const float number = FloatAttr(e.node(), "replaced_value_float", 0);
  if (ints.empty() && std::isnan(number)) {
    missing = f.Do(Op::kIsNaN, {x});
  } else {
    Tensor replaced(ints.empty() ? Dtype::kF32 : Dtype::kI64, {});
    if (ints.empty())
      SetElem(replaced, 0, number);
    else
      SetElemInt(replaced, 0, IntAttr(e.node(), "replaced_value_int64", 0));
    const ValueId what = f.Do(Op::kCastLike, {e.Constant("replaced", std::move(replaced)), x});
    missing = f.Do(Op::kEqual, {x, what});
  }
  return f.Finish(f.Do(Op::kWhere, {missing, f.Do(Op::kCastLike, {values, x}), x}));
}

// The last of several attributes that hold a list, as a tensor.
Result<Tensor> ListAsTensor(const Expansion& e, std::string_view what) {
  std::vector<Tensor> found;
  const Node& node = e.node();
  if (const Attribute* a = FindAttribute(node, fmt::format("{}_tensor", what))) {
    const auto* tensor = std::get_if<Tensor>(&a->value);
    if (!tensor || tensor->shape().size() != 1)
      return Invalid(fmt::format("attribute \"{}_tensor\" is no list", what));
    found.push_back(*tensor);
  }
  const auto floats = Floats(node, fmt::format("{}_floats", what));
  if (!floats.empty()) found.push_back(TensorOf(floats, {std::ssize(floats)}));
  const auto ints = Ints(node, fmt::format("{}_int64s", what));
  if (!ints.empty()) found.push_back(TensorOfInts(ints));
  const auto strings = Strings(node, fmt::format("{}_strings", what));
  if (!strings.empty()) found.push_back(TensorOf(strings));
  if (found.size() != 1)
    return Invalid(fmt::format("found {} lists of {}, expected one", found.size(), what));
  if (found[0].elems() == 0) return Invalid(fmt::format("the list of {} is empty", what));
  return found[0];
}

Result<Tensor> DefaultLabel(const Expansion& e, Dtype dtype) {
  const Node& node = e.node();
  if (const Attribute* a = FindAttribute(node, "default_tensor")) {
    const auto* tensor = std::get_if<Tensor>(&a->value);
    if (!tensor || tensor->elems() != 1 || tensor->dtype() != dtype)
      return Invalid(
          fmt::format("attribute \"default_tensor\" is no element of {}", DtypeName(dtype)));
    return tensor->Reshaped({1});
  }
  Tensor one(dtype, {1});
  if (dtype == Dtype::kString)
    one.strings() = {StringAttr(node, "default_string", "_Unused")};
  else if (IsFloat(dtype))
    SetElem(one, 0, FloatAttr(node, "default_float", -0.0F));
  else
    SetElemInt(one, 0, IntAttr(node, "default_int64", -1));
  return one;
}

// Each key is compared; the last that is equal says which value it is.
Status MapTo(Expansion& e, const Tensor& keys, const Tensor& values) {
  if (keys.elems() != values.elems())
    return Invalid(fmt::format("found {} keys and {} values", keys.elems(), values.elems()));
  WEFT_TRY(Tensor otherwise, DefaultLabel(e, values.dtype()));
  Formula f(e);
  const ValueId x = f.Do(Op::kUnsqueeze, {e.In(0), e.Ints("key", {-1})});
  const ValueId key = e.Constant("keys", keys);
  ValueId same = f.Do(Op::kEqual, {x, key});
  if (IsFloat(keys.dtype()))
    same = f.Do(Op::kOr, {same, f.Do(Op::kAnd, {f.Do(Op::kIsNaN, {x}), f.Do(Op::kIsNaN, {key})})});
  std::vector<int64_t> places(static_cast<size_t>(keys.elems()));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i) + 1;
  const ValueId place = Reduced(
      f, e, Op::kReduceMax,
      f.Do(Op::kWhere, {same, e.Ints("places", std::move(places)), e.Int("none", 0)}), false);
  const ValueId all =
      f.Do(Op::kConcat, {e.Constant("default", std::move(otherwise)), e.Constant("values", values)},
           {{"axis", int64_t{0}}});
  return f.Finish(f.Do(Op::kGather, {all, place}));
}

// Strings become integers or the other way around, as the operand is; where its type is not known,
// the default says.
Status MapBetween(Expansion& e, const Tensor& strings, const Tensor& ints) {
  const auto dtype = e.Known(e.In(0)).dtype;
  const bool given = FindAttribute(e.node(), "default_string") != nullptr;
  const bool to_strings = dtype ? *dtype != Dtype::kString : given;
  return to_strings ? MapTo(e, ints, strings) : MapTo(e, strings, ints);
}

Status ExpandCategoryMapper(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"cats_int64s", "cats_strings", "default_int64", "default_string"}));
  const auto strings = Strings(e.node(), "cats_strings");
  const auto ints = Ints(e.node(), "cats_int64s");
  if (strings.empty() || strings.size() != ints.size())
    return Invalid(fmt::format("found {} strings and {} integers, expected as many of both",
                               strings.size(), ints.size()));
  return MapBetween(e, TensorOf(strings), TensorOfInts(ints));
}

// The first form: of strings and their places in a list.
Status FirstLabelEncoder(Expansion& e) {
  WEFT_TRY(e.Only({"classes_strings", "default_int64", "default_string"}));
  const auto strings = Strings(e.node(), "classes_strings");
  if (strings.empty()) return Invalid("attribute \"classes_strings\" is absent or empty");
  std::vector<int64_t> places(strings.size());
  std::iota(places.begin(), places.end(), int64_t{0});
  return MapBetween(e, TensorOf(strings), TensorOfInts(places));
}

Status ExpandLabelEncoder(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  if (e.opset() < 2) return FirstLabelEncoder(e);
  WEFT_TRY(e.Only({"default_float", "default_int64", "default_string", "default_tensor",
                   "keys_floats", "keys_int64s", "keys_strings", "keys_tensor", "values_floats",
                   "values_int64s", "values_strings", "values_tensor"}));
  WEFT_TRY(const Tensor keys, ListAsTensor(e, "keys"));
  WEFT_TRY(const Tensor values, ListAsTensor(e, "values"));
  return MapTo(e, keys, values);
}

// x W^T + b for coefficients W [rows, F], or without `rows` as many as there are.
Result<ValueId> Linear(Expansion& e, Formula& f, int64_t rows) {
  const std::vector<float> weights = Floats(e.node(), "coefficients"),
                           bias = Floats(e.node(), "intercepts");
  const auto count = std::ssize(weights);
  if (count == 0) return Invalid("attribute \"coefficients\" is absent or empty");
  WEFT_TRY(const ValueId x, Rows(e, f, e.In(0)));
  const Value& known = e.Known(x);
  if (rows == 0) {
    const bool static_width = known.shape && (*known.shape)[1].IsConstant();
    const int64_t width = static_width ? (*known.shape)[1].value() : 0;
    rows = width > 0 ? count / width : std::ssize(bias);
  }
  if (rows < 1 || count % rows != 0)
    return Invalid(fmt::format("found {} coefficients for {} results", count, rows));
  if (!bias.empty() && std::ssize(bias) != rows)
    return Invalid(fmt::format("found {} intercepts for {} results", bias.size(), rows));
  const ValueId table = e.Constant("weights", TensorOf(weights, {rows, count / rows}));
  std::vector<ValueId> operands = {x, table};
  if (!bias.empty()) operands.push_back(e.Constant("bias", TensorOf(bias, {rows})));
  return f.Do(Op::kGemm, operands, {{"transB", int64_t{1}}});
}

Status ExpandLinearRegressor(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"coefficients", "intercepts", "post_transform", "targets"}));
  WEFT_TRY(const Post post, PostTransform(e.node()));
  const int64_t targets = IntAttr(e.node(), "targets", 1);
  if (targets < 1) return Invalid(fmt::format("attribute \"targets\" is {}", targets));
  Formula f(e);
  WEFT_TRY(const ValueId scores, Linear(e, f, targets));
  return f.Finish(Transformed(f, e, post, scores));
}

Status ExpandLinearClassifier(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1, 2));
  WEFT_TRY(e.Only({"classlabels_ints", "classlabels_strings", "coefficients", "intercepts",
                   "multi_class", "post_transform"}));
  WEFT_TRY(const Post post, PostTransform(e.node()));
  WEFT_TRY(const Labels labels, LabelsOf(e, "classlabels_ints", "classlabels_strings"));
  Formula f(e);
  WEFT_TRY(ValueId scores, Linear(e, f, 0));
  WEFT_TRY(f.status());
  const Value& known = e.Known(scores);
  if (!known.shape || !(*known.shape)[1].IsConstant())
    return Unsupported("scores of an unknown count are not supported");
  const int64_t count = (*known.shape)[1].value();
  if (count == 1 && labels.count == 2)
    scores = f.Do(Op::kConcat, {f.Do(Op::kNeg, {scores}), scores}, {{"axis", int64_t{1}}});
  else if (count != labels.count || count < 2)
    return Unsupported(
        fmt::format("{} scores for {} labels are not supported", count, labels.count));
  scores = Transformed(f, e, post, scores);
  const ValueId best =
      f.Do(Op::kArgMax, {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  WEFT_TRY(f.Finish(f.Do(Op::kGather, {labels.list, best}), 0));
  return f.Finish(scores, 1);
}

// "MAX" divides by the largest number, as the standard's text and onnxruntime have it, and not by
// the largest magnitude, as its reference evaluator does. A row whose divisor is zero stays.
Status ExpandNormalizer(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"norm"}));
  const std::string norm = StringAttr(e.node(), "norm", "MAX");
  Formula f(e);
  const ValueId x = f.Cast(e.In(0), Dtype::kF32);
  const Op op = norm == "MAX" ? Op::kReduceMax : norm == "L1" ? Op::kReduceL1 : Op::kReduceL2;
  if (op == Op::kReduceL2 && norm != "L2")
    return Invalid(fmt::format("attribute \"norm\" is {}", PrintString(norm)));
  const ValueId size = Reduced(f, e, op, x);
  const ValueId none = f.Do(Op::kEqual, {size, f.Number(0, x)});
  return f.Finish(f.Div(x, f.Do(Op::kWhere, {none, f.Number(1, x), size})));
}

Status ExpandOneHotEncoder(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"cats_int64s", "cats_strings", "zeros"}));
  WEFT_TRY(const Labels categories, LabelsOf(e, "cats_int64s", "cats_strings"));
  Formula f(e);
  ValueId x = e.In(0);
  if (Strings(e.node(), "cats_strings").empty()) x = f.Cast(x, Dtype::kI64);
  x = f.Do(Op::kUnsqueeze, {x, e.Ints("category", {-1})});
  const ValueId same = f.Cast(f.Do(Op::kEqual, {x, categories.list}), Dtype::kF32);
  if (IntAttr(e.node(), "zeros", 1) != 0) return f.Finish(same);
  // What is no category has a place that no table of one row has.
  const ValueId known = f.Cast(Reduced(f, e, Op::kReduceMax, same), Dtype::kI64);
  const ValueId place = f.Sub(e.Int("one", 1), known);
  Tensor one(Dtype::kF32, {1});
  SetElem(one, 0, 1);
  return f.Finish(f.Mul(same, f.Do(Op::kGather, {e.Constant("known", std::move(one)), place})));
}

// A map for each row of x [N, E], whose keys are the labels: their values, a column for each.
Status ExpandZipMap(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"classlabels_int64s", "classlabels_strings"}));
  WEFT_TRY(const Labels labels, LabelsOf(e, "classlabels_int64s", "classlabels_strings"));
  Formula f(e);
  WEFT_TRY(const ValueId x, Rows(e, f, e.In(0)));
  const Extent columns = (*e.Known(x).shape)[1];
  if (columns.IsConstant() && columns.value() != labels.count)
    return Invalid(fmt::format("found {} columns for {} labels", columns.value(), labels.count));
  return f.Finish(x);
}

Status ExpandScaler(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  WEFT_TRY(e.Only({"offset", "scale"}));
  const std::vector<float> offset = Floats(e.node(), "offset"), scale = Floats(e.node(), "scale");
  Formula f(e);
  ValueId x = f.Cast(e.In(0), Dtype::kF32);
  if (!offset.empty()) x = f.Sub(x, e.Constant("offset", TensorOf(offset, {std::ssize(offset)})));
  if (!scale.empty()) x = f.Mul(x, e.Constant("scale", TensorOf(scale, {std::ssize(scale)})));
  return f.Finish(x);
}

}  // namespace

std::vector<float> Floats(const Node& node, std::string_view name) {
  return ListOf<float>(node, name);
}
std::vector<int64_t> Ints(const Node& node, std::string_view name) {
  return ListOf<int64_t>(node, name);
}
std::vector<std::string> Strings(const Node& node, std::string_view name) {
  return ListOf<std::string>(node, name);
}

Tensor TensorOf(std::span<const float> list, Shape shape) {
  Tensor tensor(Dtype::kF32, std::move(shape));
  if (!list.empty()) std::ranges::copy(list, tensor.mutable_as<float>());
  return tensor;
}

Tensor TensorOf(std::span<const std::string> list) {
  Tensor tensor(Dtype::kString, {std::ssize(list)});
  tensor.strings().assign(list.begin(), list.end());
  return tensor;
}

Result<ValueId> Rows(Expansion& e, Formula& f, ValueId x, bool wide) {
  const Value& known = e.Known(x);
  if (!known.shape || !known.dtype)
    return Unsupported("rows of an unknown rank or element type are not supported");
  const size_t rank = known.shape->size();
  if (rank != 1 && rank != 2) return Invalid(fmt::format("input 0 has rank {}, expected 2", rank));
  const Dtype to = wide && *known.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  const ValueId floats = f.Cast(x, to);
  return rank == 2 ? floats : f.Do(Op::kUnsqueeze, {floats, e.Ints("row", {0})});
}

Result<Post> PostTransform(const Node& node) {
  static constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                "PROBIT"};
  const std::string name = StringAttr(node, "post_transform", "NONE");
  const auto* const found = std::ranges::find(kNames, name);
  if (found == std::end(kNames))
    return Invalid(fmt::format("attribute \"post_transform\" is {}", PrintString(name)));
  return static_cast<Post>(found - std::begin(kNames));
}

ValueId Transformed(Formula& f, Expansion& e, Post post, ValueId scores) {
  switch (post) {
    case Post::kNone:
      break;
    case Post::kSoftmax:
      return f.Do(Op::kSoftmax, {scores}, {{"axis", int64_t{-1}}});
    case Post::kLogistic:
      return f.Do(Op::kSigmoid, {scores});
    case Post::kSoftmaxZero:
      return SoftmaxZero(f, e, scores);
    case Post::kProbit:
      return Probit(f, scores);
  }
  return scores;
}

Result<Labels> LabelsOf(Expansion& e, std::string_view ints, std::string_view strings) {
  const std::vector<int64_t> numbers = Ints(e.node(), ints);
  const std::vector<std::string> texts = Strings(e.node(), strings);
  if (numbers.empty() == texts.empty())
    return Invalid(fmt::format("expected either \"{}\" or \"{}\"", ints, strings));
  const bool twice = std::set<int64_t>(numbers.begin(), numbers.end()).size() != numbers.size() ||
                     std::set<std::string>(texts.begin(), texts.end()).size() != texts.size();
  if (twice) return Invalid(fmt::format("\"{}\" has one twice", texts.empty() ? ints : strings));
  if (texts.empty()) return Labels{e.Ints("labels", numbers), std::ssize(numbers)};
  return Labels{e.Constant("labels", TensorOf(texts)), std::ssize(texts)};
}

}  // namespace ml

Expander FindMl(std::string_view op) {
  struct Entry {
    std::string_view op;
    Expander expand;
  };
  static constexpr Entry kEntries[] = {
      {"ArrayFeatureExtractor", ml::ExpandArrayFeatureExtractor},
      {"Binarizer", ml::ExpandBinarizer},
      {"CategoryMapper", ml::ExpandCategoryMapper},
      {"FeatureVectorizer", ml::ExpandFeatureVectorizer},
      {"Imputer", ml::ExpandImputer},
      {"LabelEncoder", ml::ExpandLabelEncoder},
      {"LinearClassifier", ml::ExpandLinearClassifier},
      {"LinearRegressor", ml::ExpandLinearRegressor},
      {"Normalizer", ml::ExpandNormalizer},
      {"OneHotEncoder", ml::ExpandOneHotEncoder},
      {"SVMClassifier", ml::ExpandSvmClassifier},
      {"SVMRegressor", ml::ExpandSvmRegressor},
      {"Scaler", ml::ExpandScaler},
      {"TreeEnsemble", ml::ExpandTreeEnsemble},
      {"TreeEnsembleClassifier", ml::ExpandTreeClassifier},
      {"TreeEnsembleRegressor", ml::ExpandTreeRegressor},
      {"ZipMap", ml::ExpandZipMap},
  };
  const auto* const found = std::ranges::find(kEntries, op, &Entry::op);
  return found == std::end(kEntries) ? nullptr : found->expand;
}

}  // namespace weft::graph
