// Operators of ai.onnx.preview.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

// What a subgraph of one input and one output makes of x: a branch that is always taken, which the
// simplifier puts in its place.
Result<ValueId> Modified(Expansion& e, std::string_view attribute, ValueId x) {
  const Attribute* given = FindAttribute(e.node(), attribute);
  if (!given) return x;
  const auto* graph = std::get_if<std::shared_ptr<Graph>>(&given->value);
  if (!graph) return Invalid(fmt::format("attribute \"{}\" is no graph", attribute));
  Graph body = Clone(**graph);
  if (body.inputs.size() != 1 || body.outputs.size() != 1)
    return Invalid(fmt::format("graph \"{}\" has {} inputs and {} outputs, expected one of each",
                               attribute, body.inputs.size(), body.outputs.size()));
  // The names inside give way: that of x is seen from there.
  const std::string name = e.Known(x).name;
  Names names(body);
  names.Add(name);
  for (Value& value : body.values) {
    if (value.name == name) value.name = names.Fresh(name);
  }
  body[body.inputs[0]] = Value{.name = name, .kind = ValueKind::kCaptured};
  body.inputs.clear();
  const ValueId always = e.Constant("always", TensorOfScalar(Dtype::kBool, 1));
  return e.Make(Op::kIf, {always}, attribute,
                {{"else_branch", std::make_shared<Graph>(Clone(body))},
                 {"then_branch", std::make_shared<Graph>(std::move(body))}});
}

struct Heads {
  int64_t count = 0, size = 0;
};

Result<Heads> HeadsOf(Expansion& e, size_t input) {
  const Value& value = e.Known(e.In(input));
  if (value.shape && value.shape->size() != 4)
    return Invalid(fmt::format("input {} has rank {}, expected 4", input, value.shape->size()));
  if (!value.shape || !(*value.shape)[1].IsConstant() || !(*value.shape)[3].IsConstant())
    return Unsupported(
        fmt::format("input {} of an unknown count or size of heads is not supported", input));
  return Heads{(*value.shape)[1].value(), (*value.shape)[3].value()};
}

// Each head as often as queries share it.
ValueId Shared(Expansion& e, Formula& f, ValueId x, Heads heads, int64_t times) {
  if (times == 1) return x;
  const ValueId one = f.Do(Op::kUnsqueeze, {x, e.Ints("group", {2})});
  const ValueId all = f.Do(Op::kExpand, {one, e.Ints("times", {1, 1, times, 1, 1})});
  return f.Do(Op::kReshape, {all, e.Ints("heads", {0, heads.count * times, -1, heads.size})});
}

// Scores and probabilities may each be changed by a subgraph. Queries and keys are both scaled
// before their product, by the root of the scale.
Status ExpandFlexAttention(Expansion& e) {
  WEFT_TRY(e.Counts(3, 3));
  WEFT_TRY(e.Only({"prob_mod", "scale", "score_mod", "softmax_precision"}));
  WEFT_TRY(const Heads q, HeadsOf(e, 0));
  WEFT_TRY(const Heads k, HeadsOf(e, 1));
  WEFT_TRY(const Heads v, HeadsOf(e, 2));
  if (k.count < 1 || q.count % k.count != 0 || v.count != k.count || q.size != k.size)
    return Invalid(
        fmt::format("found {} heads of size {} for queries, {} of {} for keys, {} for "
                    "values",
                    q.count, q.size, k.count, k.size, v.count));
  const auto type = e.Known(e.In(0)).dtype;
  if (!type) return Unsupported("queries of an unknown element type are not supported");
  const bool narrow = Bits(*type) < 32;
  const int64_t precision =
      IntAttr(e.node(), "softmax_precision", DtypeToOnnx(narrow ? Dtype::kF32 : *type));
  const auto inner = precision < 0 || precision > INT32_MAX
                         ? std::nullopt
                         : DtypeFromOnnx(static_cast<int32_t>(precision));
  if (!inner || !IsFloat(*inner))
    return Invalid(
        fmt::format("attribute \"softmax_precision\" is {}, no type of floats", precision));
  const float otherwise = 1 / std::sqrt(static_cast<float>(std::max<int64_t>(q.size, 1)));
  const float scale = FloatAttr(e.node(), "scale", otherwise);
  if (!(scale >= 0)) return Unsupported("a negative scale is not supported");

  Formula f(e);
  const ValueId root = f.Number(std::sqrt(scale), e.In(0));
  const int64_t times = q.count / k.count;
  const ValueId keys = Shared(e, f, f.Mul(e.In(1), root), k, times);
  const ValueId turned = f.Do(Op::kTranspose, {keys}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const ValueId product = f.Do(Op::kMatMul, {f.Mul(e.In(0), root), turned});
  ValueId scores = f.Cast(product, *inner);
  WEFT_TRY(f.status());
  WEFT_TRY(scores, Modified(e, "score_mod", scores));
  ValueId weights = f.Do(Op::kSoftmax, {scores}, {{"axis", int64_t{-1}}});
  WEFT_TRY(f.status());
  WEFT_TRY(weights, Modified(e, "prob_mod", weights));
  const ValueId values = f.Cast(Shared(e, f, e.In(2), v, times), *inner);
  return f.Finish(f.Cast(f.Do(Op::kMatMul, {weights, values}), *type));
}

}  // namespace

Expander FindPreview(std::string_view op) {
  return op == "FlexAttention" ? ExpandFlexAttention : nullptr;
}

}  // namespace weft::graph
