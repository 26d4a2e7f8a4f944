// Of com.microsoft, layers of experts of which each token asks a few (ContribOperators.md, MoE and
// QMoE). All experts are computed for all tokens, and those that are not asked count for nothing:
// a plan knows its shapes, and not who will be asked.
#include <fmt/format.h>

#include "base/text.h"
#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

// Where the parts of a layer lie among the inputs; scales and zeros if it is quantized.
struct Layer {
  size_t weights, bias, scales = 0, zeros = 0;
};

class Experts {
 public:
  explicit Experts(Expansion& e) : e_(e), f_(e), node_(e.node()) {}

  Status Build() {
    const bool quantized = node_.op_name == "QMoE";
    WEFT_TRY(e_.Counts(quantized ? 6 : 5, quantized ? 21 : 8));
    if (quantized) {
      WEFT_TRY(CheckQuantized());
    }
    if (IntAttr(node_, "use_sparse_mixer", 0) != 0)
      return Unsupported("the sparse mixer is not supported");
    const Layer first = quantized ? Layer{2, 4, 3, 11} : Layer{2, 3};
    const Layer second = quantized ? Layer{5, 7, 6, 12} : Layer{4, 5};
    const Layer third = quantized ? Layer{8, 10, 9, 13} : Layer{6, 7};
    const auto rank = e_.RankOf(e_.In(0));
    if (!rank || *rank < 2) return Unsupported("tokens of a rank below 2 or not known");

    ValueId x = e_.In(0);
    if (*rank > 2) {
      const ValueId width = f_.Do(Op::kShape, {x}, {{"start", int64_t{-1}}});
      x = f_.Do(Op::kReshape,
                {x, f_.Do(Op::kConcat, {e_.Ints("all", {-1}), width}, {{"axis", int64_t{0}}})});
    }
    WEFT_TRY(const ValueId share, Shares());
    WEFT_TRY(const ValueId one, Affine(x, first, "th,efh->tef"));
    ValueId three;
    if (e_.Has(third.weights)) {
      WEFT_TRY(three, Affine(x, third, "th,efh->tef"));
    }
    WEFT_TRY(const ValueId hidden, Activated(one, three));
    // Not as a factor alone: an expert that nobody asked may well be infinite.
    const ValueId shares = f_.Do(Op::kUnsqueeze, {share, e_.Ints("last", {2})});
    const ValueId zero = f_.Number(0, share);
    const ValueId asked =
        f_.Do(Op::kWhere, {f_.Do(Op::kEqual, {shares, zero}), zero, f_.Mul(hidden, shares)});
    WEFT_TRY(const ValueId weights, Weights(second));
    ValueId y = f_.Do(Op::kEinsum, {asked, weights}, {{"equation", std::string("tei,ehi->th")}});
    if (e_.Has(second.bias)) y = f_.Add(y, f_.Do(Op::kMatMul, {share, e_.In(second.bias)}));
    if (*rank > 2) y = f_.Do(Op::kReshape, {y, f_.Do(Op::kShape, {e_.In(0)})});
    return f_.Finish(y);
  }

 private:
  Status CheckQuantized() const {
    if (const std::string type = StringAttr(node_, "quant_type", "int"); type != "int")
      return Unsupported(fmt::format("weights of type {} are not supported", PrintString(type)));
    if (IntAttr(node_, "weights_prepacked", -1) > 0)
      return Unsupported("weights that are packed for a device are not supported");
    for (size_t i = 15; i <= 20; ++i) WEFT_TRY(e_.Absent(i, "a scale of another quantization"));
    return {};
  }

  // [tokens, experts]: by how much each counts, 0 for most.
  Result<ValueId> Shares() {
    const ValueId odds = f_.Do(Op::kSoftmax, {e_.In(1)}, {{"axis", int64_t{-1}}});
    const ValueId k = e_.Ints("k", {IntAttr(node_, "k", 1)});
    WEFT_TRY(f_.status());
    WEFT_TRY(const auto best, e_.MakeAll(Op::kTopK, {odds, k}, 2, "best"));
    ValueId share = best[0];
    if (node_.op_name == "QMoE" && e_.Has(14))
      share = f_.Do(Op::kGatherElements, {e_.In(14), best[1]}, {{"axis", int64_t{1}}});
    if (IntAttr(node_, "normalize_routing_weights", 0) != 0)
      share = f_.Div(share, f_.Do(Op::kReduceSum, {share, e_.Ints("along", {1})}));
    const ValueId none = f_.Do(Op::kExpand, {f_.Number(0, share), f_.Do(Op::kShape, {odds})});
    return f_.Do(Op::kScatterElements, {none, best[1], share}, {{"axis", int64_t{1}}});
  }

  Result<ValueId> Weights(const Layer& layer) {
    if (!e_.Has(layer.weights)) return Invalid(fmt::format("input {} is absent", layer.weights));
    if (layer.scales == 0) return e_.In(layer.weights);
    return DequantizedRows(e_, {.weights = layer.weights,
                                .scales = layer.scales,
                                .zeros = layer.zeros,
                                .bits = IntAttr(node_, "expert_weight_bits", 4),
                                .block = IntAttr(node_, "block_size", 0)});
  }

  Result<ValueId> Affine(ValueId x, const Layer& layer, const char* equation) {
    WEFT_TRY(const ValueId weights, Weights(layer));
    const ValueId y = f_.Do(Op::kEinsum, {x, weights}, {{"equation", std::string(equation)}});
    return e_.Has(layer.bias) ? f_.Add(y, e_.In(layer.bias)) : y;
  }

  // `gate` by its activation, times `other` if there is one.
  Result<ValueId> Activated(ValueId gate, ValueId other) {
    const std::string name = StringAttr(node_, "activation_type", "relu");
    if (name == "swiglu") return SwiGlu(gate, other);
    ValueId y = gate;
    if (name == "relu") {
      y = f_.Do(Op::kRelu, {gate});
    } else if (name == "gelu") {
      y = f_.Do(Op::kGelu, {gate}, {{"approximate", std::string("tanh")}});
    } else if (name == "silu") {
      y = f_.Do(Op::kSwish, {gate});
    } else if (name != "identity") {
      return Unsupported(fmt::format("the activation {} is not supported", PrintString(name)));
    }
    return other.valid() ? f_.Mul(y, other) : y;
  }

  // g * sigmoid(alpha * g) * (l + beta). Both may lie in one, in turns or one behind the other.
  Result<ValueId> SwiGlu(ValueId g, ValueId l) {
    const int64_t fused = IntAttr(node_, "swiglu_fusion", 0);
    if ((fused == 0) != l.valid() || fused < 0 || fused > 2)
      return Invalid(fmt::format("swiglu_fusion is {} {} a third layer", fused,
                                 l.valid() ? "beside" : "without"));
    if (fused != 0) {
      const std::vector<int64_t> apart =
          fused == 1 ? std::vector<int64_t>{0, 0, -1, 2} : std::vector<int64_t>{0, 0, 2, -1};
      const ValueId pairs = f_.Do(Op::kReshape, {g, e_.Ints("pairs", apart)});
      const auto side = [&](int64_t i) {
        return f_.Do(Op::kGather, {pairs, e_.Int("side", i)},
                     {{"axis", fused == 1 ? int64_t{3} : int64_t{2}}});
      };
      l = side(1);
      g = side(0);
    }
    if (FindAttribute(node_, "swiglu_limit") != nullptr) {
      const float limit = FloatAttr(node_, "swiglu_limit", 0);
      g = f_.Do(Op::kClip, {g, ValueId(), f_.Number(limit, g)});
      l = f_.Do(Op::kClip, {l, f_.Number(-limit, l), f_.Number(limit, l)});
    }
    const ValueId open =
        f_.Do(Op::kSwish, {g}, {{"alpha", FloatAttr(node_, "activation_alpha", 1)}});
    return f_.Mul(open, f_.Add(l, f_.Number(FloatAttr(node_, "activation_beta", 0), l)));
  }

  Expansion& e_;
  Formula f_;
  const Node& node_;
};

}  // namespace

Status ExpandExperts(Expansion& e) { return Experts(e).Build(); }

}  // namespace weft::graph
