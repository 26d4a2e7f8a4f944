// Operators of com.microsoft that onnxruntime's optimizers and exporters leave in files: fused
// activations, norms, products and convolutions, and arithmetic on quantized tensors.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

Status ExpandGelu(Expansion& e) {
  WEFT_TRY(e.Counts(1, 2));
  const std::string& name = e.node().op_name;
  ValueId x = e.In(0);
  if (e.Has(1)) {
    WEFT_TRY(x, e.Make(Op::kAdd, {x, e.In(1)}, "biased"));
  }
  const bool by_tanh = name == "FastGelu";
  return e.Finish(Op::kGelu, {x}, {{"approximate", std::string(by_tanh ? "tanh" : "none")}});
}

// x * sigmoid(alpha * x)
Status ExpandQuickGelu(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1));
  return e.Finish(Op::kSwish, {e.In(0)}, {{"alpha", FloatAttr(e.node(), "alpha", 1.702F)}});
}

// Norms of a sum that is an output, too. The simplified ones have no mean.
Status ExpandSkipNorm(Expansion& e) {
  const bool simplified = e.node().op_name == "SkipSimplifiedLayerNormalization";
  WEFT_TRY(e.Counts(3, simplified ? 4 : 5, 4));
  WEFT_TRY(e.Only({"epsilon"}));
  const size_t bias = simplified ? 3 : 4;
  const float epsilon = FloatAttr(e.node(), "epsilon", 1e-12F);
  ValueId sum = e.HasOut(3) ? e.node().outputs[3] : ValueId();
  ValueId x = e.In(0);
  if (e.Has(bias)) {
    WEFT_TRY(x, e.Make(Op::kAdd, {x, e.In(bias)}, "biased"));
  }
  if (sum.valid()) {
    WEFT_TRY(e.Finish(Op::kAdd, {x, e.In(1)}, {}, 3));
  } else {
    WEFT_TRY(sum, e.Make(Op::kAdd, {x, e.In(1)}, "sum"));
  }
  const std::vector<Attribute> attributes = {{"axis", int64_t{-1}}, {"epsilon", epsilon}};
  if (simplified) {
    WEFT_TRY(e.Unused(1, "the mean"));
    WEFT_TRY(e.Unused(2, "the inverse deviation"));
    return e.Finish(Op::kRMSNormalization, {sum, e.In(2)}, attributes);
  }
  std::vector<ValueId> outputs = e.node().outputs;
  outputs.resize(std::min<size_t>(outputs.size(), 3));
  return e.FinishAll(Op::kLayerNormalization, {sum, e.In(2), e.In(3)}, outputs, attributes);
}

Status ExpandSimplifiedNorm(Expansion& e) {
  WEFT_TRY(e.Counts(2, 2, 2));
  WEFT_TRY(e.Unused(1, "the inverse deviation"));
  return e.Finish(Op::kRMSNormalization, {e.In(0), e.In(1)},
                  {{"axis", IntAttr(e.node(), "axis", -1)},
                   {"epsilon", FloatAttr(e.node(), "epsilon", 1e-5F)}});
}

// Rows of three tables, added up and normalized. Without places, row i is that of step i. Behind
// quantized inputs 2 to 6 come their scales, and then their zero points.
Status ExpandEmbedNorm(Expansion& e) {
  const bool quantized = e.node().op_name == "QEmbedLayerNormalization";
  WEFT_TRY(e.Counts(1, quantized ? 18 : 9, 3));
  WEFT_TRY(e.Only({"epsilon", "mask_index_type"}));
  for (size_t i : {2, 3, 5, 6}) {
    if (!e.Has(i)) return Invalid(fmt::format("input {} is absent", i));
  }
  if (e.Has(1) != e.Has(4)) return Invalid("segments and their table only come together");
  Formula f(e);
  const auto real = [&](size_t i) {
    return quantized ? f.Do(Op::kDequantizeLinear, {e.In(i), e.In(i + 6), e.In(i + 11)}) : e.In(i);
  };
  const ValueId ids = e.In(0), places = real(3), gain = real(5), bias = real(6);
  const ValueId word = f.Do(Op::kGather, {real(2), ids});
  WEFT_TRY(f.status());
  ValueId place;
  if (!quantized && e.Has(8)) {
    WEFT_TRY(place, e.Make(Op::kGather, {places, e.In(8)}, "place"));
  } else {
    WEFT_TRY(const ValueId steps,
             e.Make(Op::kShape, {ids}, "steps", {{"end", int64_t{2}}, {"start", int64_t{1}}}));
    const ValueId front = e.Ints("front", {0});
    WEFT_TRY(place, e.Make(Op::kSlice, {places, front, steps, front}, "place"));
  }
  ValueId sum = e.HasOut(2) ? e.node().outputs[2] : ValueId();
  ValueId first = word;
  if (e.Has(1)) {
    first = f.Add(word, f.Do(Op::kGather, {real(4), e.In(1)}));
    WEFT_TRY(f.status());
  }
  if (sum.valid()) {
    WEFT_TRY(e.Finish(Op::kAdd, {first, place}, {}, 2));
  } else {
    WEFT_TRY(sum, e.Make(Op::kAdd, {first, place}, "sum"));
  }
  if (e.HasOut(1)) {  // how many steps each batch has
    ValueId counted = e.In(7);
    if (!counted.valid()) {
      WEFT_TRY(counted, e.Make(Op::kSub, {ids, ids}, "none"));
    }
    WEFT_TRY(
        e.Finish(Op::kReduceSum, {counted, e.Ints("along", {1})}, {{"keepdims", int64_t{0}}}, 1));
  }
  return e.Finish(Op::kLayerNormalization, {sum, gain, bias},
                  {{"axis", int64_t{-1}}, {"epsilon", FloatAttr(e.node(), "epsilon", 1e-12F)}});
}

// x with its first axis behind those between, as the rows of matrices whose batches come first.
Result<ValueId> RowsBehindBatches(Expansion& e, ValueId x) {
  const auto rank = e.RankOf(x);
  if (!rank || *rank < 3)
    return Unsupported("batches that are transposed, of a rank below 3 or not known");
  std::vector<int64_t> perm(*rank);
  std::iota(perm.begin(), perm.end() - 2, 1);
  perm[*rank - 1] = static_cast<int64_t>(*rank) - 1;
  return e.Make(Op::kTranspose, {x}, "batches", {{"perm", std::move(perm)}});
}

// a * b with either transposed, which says nothing of one that is no matrix, times alpha.
Result<ValueId> Product(Expansion& e) {
  const Node& node = e.node();
  const bool row = e.RankOf(e.In(0)) == 1, column = e.RankOf(e.In(1)) == 1;
  const bool a = !row && IntAttr(node, "transA", 0) != 0,
             b = !column && IntAttr(node, "transB", 0) != 0;
  const float alpha = FloatAttr(node, "alpha", 1);
  std::vector<ValueId> operands = {e.In(0), e.In(1)};
  for (size_t i = 0; i < 2; ++i) {
    if (IntAttr(node, i == 0 ? "transBatchA" : "transBatchB", 0) == 0) continue;
    WEFT_TRY(operands[i], RowsBehindBatches(e, operands[i]));
  }
  std::vector<Attribute> attributes;
  if (a || b)
    attributes = {{"equation", fmt::format("{},{}->...{}{}",
                                           row ? "j"
                                           : a ? "...ji"
                                               : "...ij",
                                           column ? "j"
                                           : b    ? "...kj"
                                                  : "...jk",
                                           row ? "" : "i", column ? "" : "k")}};
  WEFT_TRY(const ValueId product,
           e.Make(a || b ? Op::kEinsum : Op::kMatMul, operands, "product", std::move(attributes)));
  if (alpha == 1) return product;
  WEFT_TRY(const ValueId factor, e.Number("alpha", alpha, product));
  return e.Make(Op::kMul, {product, factor}, "scaled");
}

Status ExpandFusedMatMul(Expansion& e) {
  WEFT_TRY(e.Counts(2, 2));
  WEFT_TRY(e.Only({"alpha", "transA", "transB", "transBatchA", "transBatchB"}));
  WEFT_TRY(const ValueId product, Product(e));
  return e.Finish(Op::kIdentity, {product});
}

// The activation of that name, with the attributes that the node has behind "activation_".
struct Activation {
  Op op;
  std::vector<Attribute> attributes;
};
Result<Activation> ActivationOf(const Node& node, std::initializer_list<Op> known) {
  const std::string name = StringAttr(node, "activation", "");
  const auto* op = std::ranges::find(known, name, OpName);
  if (op == known.end())
    return Unsupported(fmt::format("the activation {} is not supported", PrintString(name)));
  Activation found{*op, {}};
  for (const Attribute& a : node.attributes) {
    constexpr std::string_view kPrefix = "activation_";
    if (a.name.starts_with(kPrefix))
      found.attributes.push_back({a.name.substr(kPrefix.size()), a.value});
  }
  return found;
}

// Of which opset a Softmax is nobody says, so it has to be one along the last axis.
Status ExpandFusedMatMulActivation(Expansion& e) {
  WEFT_TRY(e.Obeys("A:T B:T", "Y:T", "T=bf16|f16|f32|f64",
                   "activation!:s activation_alpha:f activation_axis:i activation_beta:f "
                   "activation_gamma:f alpha:f transA:i transB:i transBatchA:i transBatchB:i"));
  WEFT_TRY(auto activation,
           ActivationOf(e.node(), {Op::kElu, Op::kHardSigmoid, Op::kLeakyRelu, Op::kRelu, Op::kSelu,
                                   Op::kSigmoid, Op::kSoftmax, Op::kSoftplus, Op::kSoftsign,
                                   Op::kTanh, Op::kThresholdedRelu}));
  WEFT_TRY(const ValueId product, Product(e));
  if (activation.op == Op::kSoftmax) {
    const auto rank = static_cast<int64_t>(e.RankOf(product).value_or(0));
    const int64_t axis = IntAttr(e.node(), "activation_axis", rank == 2 ? -1 : 0);
    if (axis != -1 && (rank == 0 || axis != rank - 1))
      return Unsupported("a Softmax along another axis than the last is not supported");
    activation.attributes = {{"axis", int64_t{-1}}};
  }
  return e.Finish(activation.op, {product}, std::move(activation.attributes));
}

// Whether no element of any tensor is infinite, nor not a number; or only one of these.
Status ExpandIsAllFinite(Expansion& e) {
  WEFT_TRY(e.Obeys("input*:V", "output:=bool", "V=bf16|f16|f32|f64", "isinf_only:i isnan_only:i"));
  if (!e.Has(0)) return Invalid("input 0 is absent");
  const bool inf_only = IntAttr(e.node(), "isinf_only", 0) != 0,
             nan_only = IntAttr(e.node(), "isnan_only", 0) != 0;
  if (inf_only && nan_only) return Invalid("isinf_only and isnan_only exclude each other");
  Formula f(e);
  ValueId any;
  const auto also = [&](ValueId bad) { any = any.valid() ? f.Do(Op::kOr, {any, bad}) : bad; };
  for (const ValueId x : e.node().inputs) {
    for (const Op op : {Op::kIsInf, Op::kIsNaN}) {
      if (op == Op::kIsInf ? nan_only : inf_only) continue;
      const ValueId found = f.Do(op, {x});
      also(f.Do(Op::kReduceMax, {found}, {{"keepdims", int64_t{0}}}));
    }
  }
  return f.Finish(f.Do(Op::kNot, {any}));
}

std::vector<float> FloatsAttr(const Node& node, std::string_view name) {
  const Attribute* a = FindAttribute(node, name);
  const auto* list = a ? std::get_if<std::vector<float>>(&a->value) : nullptr;
  return list ? *list : std::vector<float>();
}

}  // namespace

Status FinishActivated(Expansion& e, ValueId x) {
  const std::string name = StringAttr(e.node(), "activation", "");
  std::vector<float> p = FloatsAttr(e.node(), "activation_params");
  for (const char* attribute : {"activation_alpha", "activation_beta"}) {
    if (FindAttribute(e.node(), attribute)) p.push_back(FloatAttr(e.node(), attribute, 0));
  }
  const auto param = [&](size_t i, float otherwise) { return i < p.size() ? p[i] : otherwise; };
  if (name == "Relu") return e.Finish(Op::kRelu, {x});
  if (name == "Tanh") return e.Finish(Op::kTanh, {x});
  if (name == "Sigmoid") return e.Finish(Op::kSigmoid, {x});
  if (name == "LeakyRelu") return e.Finish(Op::kLeakyRelu, {x}, {{"alpha", param(0, 0.01F)}});
  if (name == "HardSigmoid")
    return e.Finish(Op::kHardSigmoid, {x}, {{"alpha", param(0, 0.2F)}, {"beta", param(1, 0.5F)}});
  if (name == "Clip") {
    WEFT_TRY(const ValueId low, e.Number("low", param(0, -3.4028234663852886e38F), x));
    WEFT_TRY(const ValueId high, e.Number("high", param(1, 3.4028234663852886e38F), x));
    return e.Finish(Op::kClip, {x, low, high});
  }
  return Unsupported(fmt::format("the activation {} is not supported", PrintString(name)));
}

std::vector<Attribute> Kept(const Node& node, std::initializer_list<std::string_view> names) {
  std::vector<Attribute> kept;
  for (const Attribute& a : node.attributes) {
    if (std::ranges::find(names, a.name) != names.end()) kept.push_back(a);
  }
  return kept;
}

std::vector<Attribute> WindowOf(const Node& node) {
  return Kept(node, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
}

namespace {

Status ExpandFusedConv(Expansion& e) {
  WEFT_TRY(e.Counts(2, 4));
  const auto attributes = WindowOf(e.node());
  const std::vector<ValueId> operands = {e.In(0), e.In(1), e.In(2)};
  const bool active = !StringAttr(e.node(), "activation", "").empty();
  if (!active && !e.Has(3)) return e.Finish(Op::kConv, operands, attributes);
  WEFT_TRY(ValueId y, e.Make(Op::kConv, operands, "conv", attributes));
  if (e.Has(3) && !active) return e.Finish(Op::kAdd, {y, e.In(3)});
  if (e.Has(3)) {
    WEFT_TRY(y, e.Make(Op::kAdd, {y, e.In(3)}, "sum"));
  }
  return FinishActivated(e, y);
}

Status ExpandFusedGemm(Expansion& e) {
  WEFT_TRY(e.Counts(2, 3));
  WEFT_TRY(auto activation,
           ActivationOf(e.node(), {Op::kCelu, Op::kElu, Op::kHardSigmoid, Op::kLeakyRelu, Op::kRelu,
                                   Op::kSelu, Op::kSigmoid, Op::kSoftplus, Op::kSoftsign, Op::kTanh,
                                   Op::kThresholdedRelu}));
  // Attributes of other activations say nothing.
  const auto& own = FindSchema(OpName(activation.op))->attributes;
  std::erase_if(activation.attributes, [&](const Attribute& a) {
    return std::ranges::find(own, a.name, &SchemaAttribute::name) == own.end();
  });
  WEFT_TRY(const ValueId y, e.Make(Op::kGemm, {e.In(0), e.In(1), e.In(2)}, "product",
                                   Kept(e.node(), {"alpha", "beta", "transA", "transB"})));
  return e.Finish(activation.op, {y}, std::move(activation.attributes));
}

// The real numbers of operand `x`, whose scale and zero point follow it.
Result<ValueId> Real(Expansion& e, size_t x, std::string_view what) {
  return e.Make(Op::kDequantizeLinear, {e.In(x), e.In(x + 1), e.In(x + 2)}, what);
}

// Quantized tensors by way of real numbers: (x, scale, zero) for each operand, then (scale, zero).
// Channels come last if the node says so.
Status ExpandQuantized(Expansion& e, Op op, size_t operands, std::vector<Attribute> attributes) {
  WEFT_TRY(e.Counts(2, 3 * operands + 2));
  const bool last = IntAttr(e.node(), "channels_last", 0) != 0;
  for (size_t i = 0; i <= operands; ++i) {
    for (size_t k : {3 * i, 3 * i + 1}) {
      if (!e.Has(k) && (i < operands || k == 3 * i))
        return Invalid(fmt::format("input {} is absent", k));
    }
  }
  std::vector<ValueId> reals;
  for (size_t i = 0; i < operands; ++i) {
    WEFT_TRY(ValueId real, Real(e, 3 * i, "real"));
    if (last) {
      WEFT_TRY(real, ChannelsFirst(e, real));
    }
    reals.push_back(real);
  }
  WEFT_TRY(ValueId y, e.Make(op, reals, "result", std::move(attributes)));
  if (last) {
    WEFT_TRY(y, ChannelsLast(e, y));
  }
  ValueId zero = e.In(3 * operands + 1);
  if (!zero.valid()) {
    WEFT_TRY(zero, e.Number("zero", 0, e.In(0)));
  }
  return e.Finish(Op::kQuantizeLinear, {y, e.In(3 * operands), zero});
}

Status ExpandQLinear(Expansion& e) {
  const Node& node = e.node();
  const std::string& name = node.op_name;
  if (name == "QLinearAdd") return ExpandQuantized(e, Op::kAdd, 2, {});
  if (name == "QLinearMul") return ExpandQuantized(e, Op::kMul, 2, {});
  if (name == "QLinearSigmoid") return ExpandQuantized(e, Op::kSigmoid, 1, {});
  if (name == "QLinearLeakyRelu")
    return ExpandQuantized(e, Op::kLeakyRelu, 1, {{"alpha", FloatAttr(node, "alpha", 0.01F)}});
  if (name == "QLinearGlobalAveragePool") return ExpandQuantized(e, Op::kGlobalAveragePool, 1, {});
  return ExpandQuantized(e, Op::kAveragePool, 1,
                         Kept(node, {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape",
                                     "pads", "strides"}));
}

// condition, (x, scale, zero), (y, scale, zero), and (scale, zero) of the result.
Status ExpandQLinearWhere(Expansion& e) {
  WEFT_TRY(e.Counts(9, 9));
  WEFT_TRY(const ValueId x, Real(e, 1, "real"));
  WEFT_TRY(const ValueId y, Real(e, 4, "real"));
  WEFT_TRY(const ValueId chosen, e.Make(Op::kWhere, {e.In(0), x, y}, "result"));
  return e.Finish(Op::kQuantizeLinear, {chosen, e.In(7), e.In(8)});
}

Status ExpandQLinearSoftmax(Expansion& e) {
  if (IntAttr(e.node(), "opset", 13) < 13)
    return Unsupported("a Softmax older than opset 13 is not supported");
  return ExpandQuantized(e, Op::kSoftmax, 1, {{"axis", IntAttr(e.node(), "axis", -1)}});
}

Status ExpandQLinearConcat(Expansion& e) {
  WEFT_TRY(e.Counts(5, e.node().inputs.size()));
  if ((e.node().inputs.size() - 2) % 3 != 0)
    return Invalid(fmt::format("found {} inputs, expected 2 and triples", e.node().inputs.size()));
  std::vector<ValueId> reals;
  for (size_t i = 2; i < e.node().inputs.size(); i += 3) {
    WEFT_TRY(const ValueId real, Real(e, i, "real"));
    reals.push_back(real);
  }
  WEFT_TRY(const ValueId y,
           e.Make(Op::kConcat, reals, "result", {{"axis", IntAttr(e.node(), "axis", 0)}}));
  return e.Finish(Op::kQuantizeLinear, {y, e.In(0), e.In(1)});
}

// The product of integers, times both scales, plus the bias.
Status FinishScaled(Expansion& e, std::vector<ValueId> operands, ValueId a_scale, ValueId b_scale,
                    ValueId bias) {
  WEFT_TRY(const ValueId sums, e.Make(Op::kMatMulInteger, std::move(operands), "sums"));
  WEFT_TRY(const ValueId real, e.Make(Op::kCastLike, {sums, a_scale}, "real"));
  WEFT_TRY(const ValueId scale, e.Make(Op::kMul, {a_scale, b_scale}, "scale"));
  if (!bias.valid()) return e.Finish(Op::kMul, {real, scale});
  WEFT_TRY(const ValueId scaled, e.Make(Op::kMul, {real, scale}, "scaled"));
  return e.Finish(Op::kAdd, {scaled, bias});
}

Status ExpandMatMulIntegerToFloat(Expansion& e) {
  WEFT_TRY(e.Counts(4, 7));
  return FinishScaled(e, {e.In(0), e.In(1), e.In(4), e.In(5)}, e.In(2), e.In(3), e.In(6));
}

Status ExpandDynamicQuantizeMatMul(Expansion& e) {
  WEFT_TRY(e.Counts(3, 5));
  WEFT_TRY(const auto a, e.MakeAll(Op::kDynamicQuantizeLinear, {e.In(0)}, 3, "quantized"));
  return FinishScaled(e, {a[0], e.In(1), a[2], e.In(3)}, a[1], e.In(2), e.In(4));
}

// Gemm of quantized matrices: (a, scale, zero), (b, scale, zero), a bias of int32 in the scale of
// the sums, and (scale, zero) of the result, which is quantized if it has a zero point.
Status ExpandQGemm(Expansion& e) {
  WEFT_TRY(e.Counts(6, 9));
  WEFT_TRY(e.Only({"alpha", "transA", "transB"}));
  const auto turned = [&](size_t i, const char* attribute) -> Result<ValueId> {
    if (IntAttr(e.node(), attribute, 0) == 0) return e.In(i);
    return e.Make(Op::kTranspose, {e.In(i)}, "turned", {{"perm", std::vector<int64_t>{1, 0}}});
  };
  WEFT_TRY(const ValueId a, turned(0, "transA"));
  WEFT_TRY(const ValueId b, turned(3, "transB"));
  Formula f(e);
  ValueId sums = f.Do(Op::kMatMulInteger, {a, b, e.In(2), e.In(5)});
  if (e.Has(6)) sums = f.Add(sums, e.In(6));
  ValueId scale = f.Mul(e.In(1), e.In(4));
  if (const float alpha = FloatAttr(e.node(), "alpha", 1); alpha != 1)
    scale = f.Mul(scale, f.Number(alpha, scale));
  if (e.Has(7)) scale = f.Div(scale, e.In(7));
  const ValueId y = f.Mul(f.Do(Op::kCastLike, {sums, scale}), scale);
  if (!e.Has(8)) return f.Finish(y);
  const ValueId one = f.Number(1, y);
  WEFT_TRY(f.status());
  return e.Finish(Op::kQuantizeLinear, {y, one, e.In(8)});
}

// Those of ONNX, before that had integers of 4 and 16 bits.
Status ExpandQuantizeLinear(Expansion& e) {
  WEFT_TRY(e.Counts(2, 3));
  WEFT_TRY(e.Only({"axis", "block_size"}));
  const Op op = e.node().op_name == "QuantizeLinear" ? Op::kQuantizeLinear : Op::kDequantizeLinear;
  return e.Finish(op, {e.In(0), e.In(1), e.In(2)}, Kept(e.node(), {"axis", "block_size"}));
}

// Those of which ONNX later had the same.
template <Op Same>
Status ExpandSame(Expansion& e) {
  return e.FinishAll(Same, e.node().inputs, e.node().outputs, e.node().attributes);
}

// Its places may have 32 bits.
Status ExpandGatherND(Expansion& e) {
  WEFT_TRY(e.Counts(2, 2));
  WEFT_TRY(e.Only({}));
  if (const auto dtype = e.Known(e.In(1)).dtype;
      dtype && *dtype != Dtype::kI32 && *dtype != Dtype::kI64)
    return Invalid(fmt::format("input 1 (indices) is {}, expected i32 or i64", DtypeName(*dtype)));
  WEFT_TRY(const ValueId places, e.Make(Op::kCast, {e.In(1)}, "places", {{"to", int64_t{7}}}));
  return e.Finish(Op::kGatherND, {e.In(0), places});
}

// The amounts may be a matrix of one row.
Status ExpandPad(Expansion& e) {
  WEFT_TRY(e.Counts(2, 3));
  std::vector<ValueId> inputs = e.node().inputs;
  if (e.RankOf(inputs[1]) == 2) {
    WEFT_TRY(inputs[1], e.Make(Op::kSqueeze, {inputs[1], e.Ints("row", {0})}, "amounts"));
  }
  return e.FinishAll(Op::kPad, std::move(inputs), e.node().outputs, e.node().attributes);
}

// Steps are 1 where nothing else is said.
Status ExpandRange(Expansion& e) {
  WEFT_TRY(e.Counts(2, 3));
  ValueId step = e.In(2);
  if (!step.valid()) {
    WEFT_TRY(step, e.Number("step", 1, e.In(0)));
  }
  return e.Finish(Op::kRange, {e.In(0), e.In(1), step}, e.node().attributes);
}

// The axis is a number, and no list.
Status ExpandDims(Expansion& e) {
  WEFT_TRY(e.Counts(2, 2));
  WEFT_TRY(const ValueId axis, e.Make(Op::kCast, {e.In(1)}, "axis", {{"to", int64_t{7}}}));
  WEFT_TRY(const ValueId axes, e.Make(Op::kReshape, {axis, e.Ints("one", {1})}, "axes"));
  return e.Finish(Op::kUnsqueeze, {e.In(0), axes});
}

// In the order in which they come, without the places of the first ones.
Status ExpandUnique(Expansion& e) {
  WEFT_TRY(e.Counts(1, 1, 3));
  std::vector<ValueId> outputs = e.node().outputs;
  outputs.insert(outputs.begin() + 1, ValueId());
  return e.FinishAll(Op::kUnique, {e.In(0)}, std::move(outputs), {{"sorted", int64_t{0}}});
}

// As in opset 16 of ONNX, whose modes have other names now.
Status ExpandGridSample(Expansion& e) {
  WEFT_TRY(e.Counts(2, 2));
  std::vector<Attribute> attributes = Kept(e.node(), {"align_corners", "padding_mode"});
  std::string mode = StringAttr(e.node(), "mode", "bilinear");
  if (mode.starts_with("bi")) mode = mode.substr(2) == "linear" ? "linear" : "cubic";
  attributes.push_back({"mode", std::move(mode)});
  return e.Finish(Op::kGridSample, {e.In(0), e.In(1)}, std::move(attributes));
}

// Distances between the rows of a [m, k] and of b [n, k].
Status ExpandCDist(Expansion& e) {
  WEFT_TRY(e.Counts(2, 2));
  const std::string metric = StringAttr(e.node(), "metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    return Unsupported(fmt::format("the metric {} is not supported", PrintString(metric)));
  Formula f(e);
  const ValueId apart = f.Sub(f.Do(Op::kUnsqueeze, {e.In(0), e.Ints("axis", {1})}),
                              f.Do(Op::kUnsqueeze, {e.In(1), e.Ints("axis", {0})}));
  const ValueId squares =
      f.Do(Op::kReduceSumSquare, {apart, e.Ints("along", {2})}, {{"keepdims", int64_t{0}}});
  return f.Finish(metric == "euclidean" ? f.Do(Op::kSqrt, {squares}) : squares);
}

// The mean of squares is that of each group of as many elements as there are scales.
Status ExpandGatedRmsNorm(Expansion& e) {
  WEFT_TRY(e.Counts(3, 3));
  WEFT_TRY(e.Only({"activation", "epsilon"}));
  const std::string gate = StringAttr(e.node(), "activation", "silu");
  if (gate != "silu" && gate != "swish" && gate != "sigmoid")
    return Unsupported(fmt::format("the activation {} is not supported", PrintString(gate)));
  Formula f(e);
  const ValueId width = f.Do(Op::kShape, {e.In(1)});
  const ValueId rows =
      f.Do(Op::kReshape,
           {e.In(0), f.Do(Op::kConcat, {e.Ints("rows", {-1}), width}, {{"axis", int64_t{0}}})});
  const ValueId norm =
      f.Do(Op::kRMSNormalization, {rows, e.In(1)},
           {{"axis", int64_t{-1}}, {"epsilon", FloatAttr(e.node(), "epsilon", 1e-5F)}});
  const ValueId whole = f.Do(Op::kReshape, {norm, f.Do(Op::kShape, {e.In(0)})});
  const ValueId open = f.Do(gate == "sigmoid" ? Op::kSigmoid : Op::kSwish, {e.In(2)});
  return f.Finish(f.Mul(whole, open));
}

// x + y * gate, one for each row.
Status ExpandGatedAdd(Expansion& e) {
  WEFT_TRY(e.Counts(3, 3));
  Formula f(e);
  return f.Finish(f.Add(e.In(0), f.Mul(e.In(1), e.In(2))));
}

// z * sigmoid(z) of z = scale * x
Status ExpandScaledSilu(Expansion& e) {
  WEFT_TRY(e.Counts(1, 2));
  Formula f(e);
  const ValueId scale = e.Has(1) ? e.In(1) : f.Number(FloatAttr(e.node(), "alpha", 1), e.In(0));
  return f.Finish(f.Do(Op::kSwish, {f.Mul(e.In(0), scale)}));
}

// The sum with a bias, the first half of each row times gelu of the second.
Status ExpandBiasSplitGelu(Expansion& e) {
  WEFT_TRY(e.Counts(2, 2));
  Formula f(e);
  const ValueId sum = f.Add(e.In(0), e.In(1));
  WEFT_TRY(f.status());
  WEFT_TRY(const auto halves, e.MakeAll(Op::kSplit, {sum}, 2, "half",
                                        {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}));
  return f.Finish(f.Mul(halves[0], f.Do(Op::kGelu, {halves[1]})));
}

// x + bias of each channel + other, channels last.
Status ExpandBiasAdd(Expansion& e) {
  WEFT_TRY(e.Counts(3, 3));
  Formula f(e);
  return f.Finish(f.Add(f.Add(e.In(0), e.In(1)), e.In(2)));
}

struct Entry {
  std::string_view op;
  Expander expand;
};

constexpr Entry kEntries[] = {
    {"Attention", ExpandPackedAttention},
    {"BiasAdd", ExpandBiasAdd},
    {"BiasGelu", ExpandGelu},
    {"BiasSoftmax", ExpandBiasSoftmax},
    {"BiasSplitGelu", ExpandBiasSplitGelu},
    {"CDist", ExpandCDist},
    {"CausalConvWithState", ExpandCausalConvWithState},
    {"ComplexMul", ExpandComplexMul},
    {"ComplexMulConj", ExpandComplexMul},
    {"ConvTransposeWithDynamicPads", ExpandConvTransposeWithDynamicPads},
    {"CropAndResize", ExpandCropAndResize},
    {"DecoderMaskedMultiHeadAttention", ExpandDecoderMaskedAttention},
    {"DequantizeLinear", ExpandQuantizeLinear},
    {"DynamicQuantizeLSTM", ExpandDynamicQuantizeLSTM},
    {"DynamicQuantizeMatMul", ExpandDynamicQuantizeMatMul},
    {"EmbedLayerNormalization", ExpandEmbedNorm},
    {"ExpandDims", ExpandDims},
    {"FastGelu", ExpandGelu},
    {"FusedConv", ExpandFusedConv},
    {"FusedGemm", ExpandFusedGemm},
    {"FusedMatMul", ExpandFusedMatMul},
    {"FusedMatMulActivation", ExpandFusedMatMulActivation},
    {"GatedAdd", ExpandGatedAdd},
    {"GatedRMSNorm", ExpandGatedRmsNorm},
    {"GatedRelativePositionBias", ExpandGatedRelativePositionBias},
    {"GatherBlockQuantized", ExpandGatherBlockQuantized},
    {"GatherND", ExpandGatherND},
    {"Gelu", ExpandGelu},
    {"GemmaRotaryEmbedding", ExpandGemmaRotaryEmbedding},
    {"GridSample", ExpandGridSample},
    {"GroupNorm", ExpandGroupNorm},
    {"GroupQueryAttention", ExpandGroupQueryAttention},
    {"Inverse", ExpandInverse},
    {"Irfft", ExpandIrfft},
    {"IsAllFinite", ExpandIsAllFinite},
    {"LinearAttention", ExpandLinearAttention},
    {"LinearAttentionGate", ExpandLinearAttentionGate},
    {"MRotaryEmbedding", ExpandMRotaryEmbedding},
    {"MatMulBnb4", ExpandMatMulBnb4},
    {"MatMulInteger16", ExpandMatMulInteger16},
    {"MatMulIntegerToFloat", ExpandMatMulIntegerToFloat},
    {"MatMulNBits", ExpandMatMulNBits},
    {"MoE", ExpandExperts},
    {"MulInteger", ExpandMulInteger},
    {"MultiHeadAttention", ExpandMultiHeadAttention},
    {"NGramRepeatBlock", ExpandNGramRepeatBlock},
    {"NhwcConv", ExpandNhwcConv},
    {"NhwcFusedConv", ExpandNhwcConv},
    {"NhwcMaxPool", ExpandNhwcMaxPool},
    {"Pad", ExpandPad},
    {"QAttention", ExpandPackedAttention},
    {"QEmbedLayerNormalization", ExpandEmbedNorm},
    {"QGemm", ExpandQGemm},
    {"QLinearAdd", ExpandQLinear},
    {"QLinearAveragePool", ExpandQLinear},
    {"QLinearConcat", ExpandQLinearConcat},
    {"QLinearConv", ExpandQLinearConv},
    {"QLinearGlobalAveragePool", ExpandQLinear},
    {"QLinearLeakyRelu", ExpandQLinear},
    {"QLinearMul", ExpandQLinear},
    {"QLinearReduceMean", ExpandQLinearReduceMean},
    {"QLinearSigmoid", ExpandQLinear},
    {"QLinearSoftmax", ExpandQLinearSoftmax},
    {"QLinearWhere", ExpandQLinearWhere},
    {"QMoE", ExpandExperts},
    {"QuantizeLinear", ExpandQuantizeLinear},
    {"QuickGelu", ExpandQuickGelu},
    {"Range", ExpandRange},
    {"ReduceSumInteger", ExpandReduceSumInteger},
    {"RelativePositionBias", ExpandRelativePositionBias},
    {"Rfft", ExpandRfft},
    {"RotaryEmbedding", ExpandRotaryEmbedding},
    {"ScaledSiLU", ExpandScaledSilu},
    {"SimplifiedLayerNormalization", ExpandSimplifiedNorm},
    {"SkipGroupNorm", ExpandGroupNorm},
    {"SkipLayerNormalization", ExpandSkipNorm},
    {"SkipSimplifiedLayerNormalization", ExpandSkipNorm},
    {"SparseAttention", ExpandSparseAttention},
    {"TorchEmbedding", ExpandTorchEmbedding},
    {"TransposeMatMul", ExpandFusedMatMul},
    {"Trilu", ExpandSame<Op::kTrilu>},
    {"UnfoldTensor", ExpandUnfoldTensor},
    {"Unique", ExpandUnique},
};

}  // namespace

Expander FindContrib(std::string_view op) {
  const auto found = std::ranges::find(kEntries, op, &Entry::op);
  return found == std::end(kEntries) ? nullptr : found->expand;
}

}  // namespace weft::graph
