// Random numbers. All come from one operator of weft's own, which other operators then shape:
//
//   Draw(shape, trip…) {distribution, seed or stream} -> f64[shape]
//
// With `seed` it draws as NumPy's RandomState(seed) does, and so as the standard's reference
// evaluator: "uniform" like rand, "normal" like randn, in row-major order. A node of the model that
// has no seed draws as RandomState([stream, trip…]), where `stream` is its number among such nodes
// of the model and each trip counts a Loop around it, from the inside out. So results are the same
// in each run, and differ between nodes and between trips.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

// Python's int() of a seed, of any size.
int64_t WholeSeed(float seed) {
  constexpr float kEnd = 0x1p63f;
  if (seed >= kEnd) return std::numeric_limits<int64_t>::max();
  if (seed < -kEnd) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(seed);
}

ValueId Draw(Expansion& e, Formula& f, ValueId shape, std::string distribution) {
  std::vector<Attribute> attributes = {{"distribution", std::move(distribution)}};
  const Attribute* seed = FindAttribute(e.node(), "seed");
  const float* real = seed ? std::get_if<float>(&seed->value) : nullptr;
  if (real && !std::isnan(*real))
    attributes.push_back({"seed", WholeSeed(*real)});
  else if (seed && !real)
    attributes.push_back({"seed", IntAttr(e.node(), "seed", 0)});
  else
    attributes.push_back({"stream", IntAttr(e.node(), "stream", 0)});
  return f.Do(Op::kDraw, {shape}, std::move(attributes));
}

// The element type that attribute `dtype` asks for, or none.
Result<std::optional<Dtype>> TypeAsked(Expansion& e) {
  const int64_t code = IntAttr(e.node(), "dtype", 0);
  if (code == 0) return std::optional<Dtype>();
  const auto dtype =
      code > 0 && code < 1000 ? DtypeFromOnnx(static_cast<int32_t>(code)) : std::nullopt;
  if (!dtype || *dtype == Dtype::kString)
    return Invalid(fmt::format("attribute \"dtype\" is {}, which is no type of numbers", code));
  return dtype;
}

// draw * scale + offset. Steps are computed in f32, or in f64 where elements are, and each is
// rounded to the element's type, as the reference does.
Status Scaled(Expansion& e, std::string distribution, float scale, float offset) {
  const bool like = e.Has(0);
  WEFT_TRY(auto dtype, TypeAsked(e));
  if (!dtype && !like) dtype = Dtype::kF32;
  if (!dtype) dtype = e.Known(e.In(0)).dtype;
  if (dtype && !IsFloat(*dtype))
    return Invalid(fmt::format("random numbers are {}, expected a float", DtypeName(*dtype)));
  Formula f(e);
  ValueId shape;
  if (like) {
    shape = f.Do(Op::kShape, {e.In(0)});
  } else {
    const std::vector<int64_t> extents = IntsAttr(e.node(), "shape");
    for (int64_t extent : extents)
      if (extent < 0) return Invalid(fmt::format("attribute \"shape\" has {}", extent));
    shape = e.Ints("shape", extents);
  }
  const ValueId drawn = Draw(e, f, shape, std::move(distribution));
  const Dtype wide = dtype && SizeBytes(*dtype) <= 4 ? Dtype::kF32 : Dtype::kF64;
  const auto rounded = [&](ValueId v) {
    return dtype ? f.Cast(v, *dtype) : f.Do(Op::kCastLike, {v, e.In(0)});
  };
  const auto step = [&](Op op, ValueId v, float number) {
    return rounded(f.Do(op, {f.Cast(v, wide), e.Constant("number", TensorOfScalar(wide, number))}));
  };
  ValueId y = rounded(drawn);
  if (scale != 1) y = step(Op::kMul, y, scale);
  if (offset != 0) y = step(Op::kAdd, y, offset);
  return f.Finish(y);
}

Status ExpandNormal(Expansion& e) {
  return Scaled(e, "normal", FloatAttr(e.node(), "scale", 1), FloatAttr(e.node(), "mean", 0));
}

Status ExpandUniform(Expansion& e) {
  const float low = FloatAttr(e.node(), "low", 0), high = FloatAttr(e.node(), "high", 1);
  return Scaled(e, "uniform", high - low, low);
}

// As RandomState.binomial(1, p), but that a number is drawn where p is 0, too.
Status ExpandBernoulli(Expansion& e) {
  WEFT_TRY(const auto dtype, TypeAsked(e));
  Formula f(e);
  const ValueId p = f.Cast(e.In(0), Dtype::kF64);
  const ValueId u = Draw(e, f, f.Do(Op::kShape, {p}), "uniform");
  const ValueId above = f.Do(Op::kGreater, {u, f.Sub(f.Number(1, p), p)});
  const ValueId within = f.Do(Op::kLessOrEqual, {u, p});
  const ValueId rare = f.Do(Op::kLessOrEqual, {p, f.Number(0.5, p)});
  const ValueId hit = f.Do(Op::kWhere, {rare, above, within});
  return f.Finish(dtype ? f.Cast(hit, *dtype) : f.Do(Op::kCastLike, {hit, e.In(0)}));
}

// Rows of logarithms of probabilities, up to a constant: [batch, classes] -> [batch, samples]. As
// RandomState.choice: a sample is the number of classes up to which the probabilities add up to no
// more than a uniform number.
Status ExpandMultinomial(Expansion& e) {
  const int64_t samples = IntAttr(e.node(), "sample_size", 1);
  if (samples < 1 || samples > INT32_MAX)
    return Invalid(fmt::format("attribute \"sample_size\" is {}", samples));
  WEFT_TRY(const auto asked, TypeAsked(e));
  const Dtype dtype = asked.value_or(Dtype::kI32);
  if (dtype != Dtype::kI32 && dtype != Dtype::kI64)
    return Invalid(fmt::format("attribute \"dtype\" is {}, no type of indices", DtypeName(dtype)));
  Formula f(e);
  const auto axis = [&](int64_t k) { return e.Ints("axis", {k}); };
  const ValueId x = f.Cast(e.In(0), Dtype::kF64);
  const ValueId parts = f.Do(Op::kExp, {f.Sub(x, f.Do(Op::kReduceMax, {x, axis(1)}))});
  const ValueId sums = f.Do(Op::kCumSum, {parts, e.Int("axis", 1)});  // [batch, classes]
  const ValueId last = axis(-1), all = f.Do(Op::kSlice, {sums, last, axis(INT64_MAX), axis(1)});
  const ValueId first = f.Do(Op::kSlice, {f.Div(sums, all), axis(0), last, axis(1)});
  const ValueId batch = f.Do(Op::kShape, {x}, {{"end", int64_t{1}}, {"start", int64_t{0}}});
  const ValueId shape =
      f.Do(Op::kConcat, {batch, e.Ints("samples", {samples})}, {{"axis", int64_t{0}}});
  const ValueId u = Draw(e, f, shape, "uniform");
  // The last class needs no sum: what is past the others is in it.
  const ValueId passed = f.Do(Op::kLessOrEqual, {f.Do(Op::kUnsqueeze, {first, axis(1)}),
                                                 f.Do(Op::kUnsqueeze, {u, axis(2)})});
  return f.Finish(
      f.Do(Op::kReduceSum, {f.Cast(passed, dtype), axis(2)}, {{"keepdims", int64_t{0}}}));
}

// In training an element stays with probability 1 - ratio, and is the larger for it (Srivastava et
// al., "Dropout", 2014). What is not known to train only copies.
Status ExpandDropout(Expansion& e) {
  const Tensor* known = e.ConstantIn(2);
  const bool off =
      known && known->dtype() == Dtype::kBool && known->elems() == 1 && ElemAsInt(*known, 0) == 0;
  const ValueId x = e.In(0);
  if (e.opset() < 10 && e.HasOut(1)) {  // the mask had the type of the data
    WEFT_TRY(const auto both, e.MakeAll(Op::kDropout, {x}, 2, "kept"));
    WEFT_TRY(e.Finish(Op::kIdentity, {both[0]}));
    return e.Finish(Op::kCastLike, {both[1], x}, {}, 1);
  }
  if (!e.Has(2) || off) return e.FinishAll(Op::kDropout, {x}, e.node().outputs);
  Formula f(e);
  ValueId ratio = e.Has(1) ? e.In(1) : e.Constant("ratio", TensorOfScalar(Dtype::kF32, 0.5));
  ratio = f.Do(Op::kWhere, {e.In(2), ratio, f.Number(0, ratio)});
  const ValueId u = Draw(e, f, f.Do(Op::kShape, {x}), "uniform");
  const ValueId kept = f.Do(Op::kGreaterOrEqual, {u, f.Cast(ratio, Dtype::kF64)});
  const ValueId one = f.Number(1, ratio);
  const ValueId scale = f.Do(Op::kCastLike, {f.Div(one, f.Sub(one, ratio)), x});
  WEFT_TRY(f.Finish(f.Mul(f.Mul(f.Do(Op::kCastLike, {kept, x}), x), scale), 0));
  return f.Finish(kept, 1);
}

}  // namespace

Expander FindRandom(std::string_view op) {
  if (op == "RandomUniform" || op == "RandomUniformLike") return ExpandUniform;
  if (op == "RandomNormal" || op == "RandomNormalLike") return ExpandNormal;
  if (op == "Bernoulli") return ExpandBernoulli;
  if (op == "Multinomial") return ExpandMultinomial;
  if (op == "Dropout") return ExpandDropout;
  return nullptr;
}

bool CountTrips(Graph& body, const std::string& trip) {
  const auto counts = [](const Node& node) {
    return node.op == Op::kDraw && !FindAttribute(node, "seed");
  };
  bool inside = std::ranges::any_of(body.nodes, counts);
  for (const Node& node : body.nodes)
    for (const auto& graph : Subgraphs(node)) inside |= CountTrips(*graph, trip);
  if (!inside) return false;
  ValueId id = FindValue(body, trip);
  if (!id.valid()) {
    id = ValueId(body.values.size());
    body.values.push_back(Value{.name = trip, .kind = ValueKind::kCaptured});
  }
  for (Node& node : body.nodes)
    if (counts(node)) node.inputs.push_back(id);
  return true;
}

}  // namespace weft::graph
