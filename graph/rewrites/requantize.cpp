// What stands before a QuantizeLinear is computed in units of its scale, so that nothing is left to
// divide by:
//   QuantizeLinear(Cast(sum) * a + b, s, z) = QuantizeLinear(Cast(sum) * (a / s) + b / s, 1, z).
// Rounding moves both by as much. Behind a sum of products, an order of which nobody asked for,
// that is as good; where only a few bytes are read, both ways are tried with each value that they
// can have. What saturates anyway need not be bounded before.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "graph/rewrites/quantization.h"

namespace weft::graph {
namespace {

constexpr int kDeepest = 16;
constexpr size_t kMostBytes = 2;  // whose values are all tried, 2^16 of them

double Lowest(Dtype dtype) {
  return KindOf(dtype) == DtypeKind::kSigned ? -std::exp2(8 * SizeBytes(dtype) - 1) : 0;
}

double Highest(Dtype dtype) { return Lowest(dtype) + std::exp2(8 * SizeBytes(dtype)) - 1; }

// What the scale can be taken off, from the constants at its ends.
class Chain {
 public:
  Chain(Rewriter& r, double scale) : r_(r), scale_(scale) {}

  // Whether it is free to compute v / scale instead of v.
  bool Takes(ValueId v, int depth = 0) {
    const Value& value = r_.graph[v];
    if (depth > kDeepest || value.dtype != Dtype::kF32) return false;
    if (value.kind == ValueKind::kConstant) return TakesNumbers(v);
    const Node* node = r_.Def(v);
    if (!node) return false;
    if (node->op == Op::kDequantizeLinear) return TakesIntegers(*node);
    if (r_.Uses(v) != 1 || r_.IsOutput(v)) return false;
    switch (node->op) {
      case Op::kMul:
        return TakesProduct(*node);
      case Op::kAdd:
      case Op::kSub:
        return Takes(node->inputs[0], depth + 1) && Takes(node->inputs[1], depth + 1);
      case Op::kRelu:
      case Op::kLeakyRelu:
      case Op::kClip:
        return std::ranges::all_of(
            node->inputs, [&](ValueId input) { return !input.valid() || Takes(input, depth + 1); });
      default:
        return false;
    }
  }

  bool HasProduct() const { return has_product_; }

  // Whether to / scale rounds to the same integer either way, whatever the bytes are.
  bool KeepsIntegers(ValueId v, const Quantization& to) {
    if (!is_scalar_ || bytes_.empty() || bytes_.size() > kMostBytes) return false;
    const int64_t second = bytes_.size() < 2 ? 1 : 256;
    for (int64_t i = 0; i < 256 * second; ++i) {
      for (size_t k = 0; k < bytes_.size(); ++k) {
        const int64_t byte = k == 0 ? i % 256 : i / 256;
        at_[k] = r_.graph[bytes_[k]].dtype == Dtype::kI8 ? byte - 128 : byte;
      }
      // Between two and one rounding an operation, as a target likes it.
      const auto meant = std::nearbyint(Of<float>(v, false) / static_cast<float>(scale_));
      if (!Same(meant, std::nearbyint(Of<float>(v, true)), to) ||
          !Same(meant, std::nearbyint(Of<double>(v, true)), to))
        return false;
    }
    return true;
  }

  // v / scale, before the node `at`.
  ValueId Scaled(NodeId at, ValueId v) {
    if (r_.graph[v].kind == ValueKind::kConstant) return ScaledNumbers(v);
    Node node = *r_.Def(v);
    switch (node.op) {
      case Op::kMul:
      case Op::kDequantizeLinear:
        node.inputs[FactorOf(node)] = ScaledNumbers(node.inputs[FactorOf(node)]);
        break;
      default:
        for (ValueId& input : node.inputs) input = input.valid() ? Scaled(at, input) : input;
    }
    return r_.Insert(at, node.op, node.inputs, r_.graph[v].name, v, node.attributes);
  }

 private:
  bool IsConstant(ValueId v) const { return r_.graph[v].kind == ValueKind::kConstant; }

  // Of a product or a DequantizeLinear: which input is the constant one.
  size_t FactorOf(const Node& node) const {
    return node.op == Op::kMul && IsConstant(node.inputs[0]) ? 0 : 1;
  }

  // Quotients that are neither infinite nor subnormal.
  bool TakesNumbers(ValueId v) {
    const Tensor& numbers = r_.graph[v].constant;
    is_scalar_ = is_scalar_ && numbers.elems() == 1;
    for (int64_t i = 0; i < numbers.elems(); ++i) {
      const double number = ElemAsDouble(numbers, i);
      const auto quotient = static_cast<float>(number / scale_);
      if (number != 0 && !std::isinf(number) && !std::isnormal(quotient)) return false;
    }
    return true;
  }

  bool TakesIntegers(const Node& node) {
    if (!QuantizationOf(r_.graph, node, node.inputs[0], node.outputs[0])) return false;
    const auto dtype = r_.graph[node.inputs[0]].dtype;
    is_scalar_ = is_scalar_ && SizeBytes(*dtype) == 1;
    if (std::ranges::find(bytes_, node.inputs[0]) == bytes_.end()) bytes_.push_back(node.inputs[0]);
    return TakesNumbers(node.inputs[1]);
  }

  // Of a sum of integers, which comes out of products, and a constant.
  bool TakesProduct(const Node& node) {
    const size_t factor = FactorOf(node);
    const Node* real = r_.Def(node.inputs[1 - factor], Op::kCast);
    if (!IsConstant(node.inputs[factor]) || !real) return false;
    const Node* sum = r_.Def(real->inputs[0]);
    if (!sum || (sum->op != Op::kConvInteger && sum->op != Op::kMatMulInteger)) return false;
    has_product_ = true;
    return TakesNumbers(node.inputs[factor]);
  }

  ValueId ScaledNumbers(ValueId v) {
    const Tensor& numbers = r_.graph[v].constant;
    Tensor scaled(Dtype::kF32, numbers.shape());
    for (int64_t i = 0; i < numbers.elems(); ++i)
      scaled.mutable_as<float>()[i] = static_cast<float>(ElemAsDouble(numbers, i) / scale_);
    return r_.NewConstant(r_.graph[v].name, std::move(scaled));
  }

  // The value at the bytes at_, or that value over the scale, as Scaled() computes it.
  template <typename Real>
  Real Of(ValueId v, bool scaled) const {
    const auto number = [&](ValueId id) {
      const double x = ElemAsDouble(r_.graph[id].constant, 0);
      return static_cast<Real>(static_cast<float>(scaled ? x / scale_ : x));
    };
    if (IsConstant(v)) return number(v);
    const Node& node = *r_.Def(v);
    const auto operand = [&](size_t k) { return Of<Real>(node.inputs[k], scaled); };
    switch (node.op) {
      case Op::kDequantizeLinear: {
        const auto place = std::ranges::find(bytes_, node.inputs[0]) - bytes_.begin();
        const ValueId zero = InputAt(node, 2);
        const int64_t z = zero.valid() ? ElemAsInt(r_.graph[zero].constant, 0) : 0;
        return static_cast<Real>(at_[static_cast<size_t>(place)] - z) * number(node.inputs[1]);
      }
      case Op::kAdd:
        return operand(0) + operand(1);
      case Op::kSub:
        return operand(0) - operand(1);
      case Op::kRelu:
        return std::max(operand(0), Real(0));
      case Op::kLeakyRelu: {
        const Real x = operand(0);
        return x < 0 ? x * static_cast<Real>(FloatAttr(node, "alpha", 0.01f)) : x;
      }
      default: {  // a Clip
        Real x = operand(0);
        if (InputAt(node, 1).valid()) x = std::max(x, operand(1));
        return InputAt(node, 2).valid() ? std::min(x, operand(2)) : x;
      }
    }
  }

  static bool Same(double a, double b, const Quantization& to) {
    const auto saturated = [&](double x) {
      return std::clamp(x + to.zero, Lowest(to.dtype), Highest(to.dtype));
    };
    return saturated(a) == saturated(b);
  }

  Rewriter& r_;
  double scale_;
  std::vector<ValueId> bytes_;
  std::array<int64_t, kMostBytes> at_{};
  bool is_scalar_ = true;  // all constants are, and the integers are bytes
  bool has_product_ = false;
};

// Before what bounds it, if integers end there or before.
ValueId WithoutBounds(const Rewriter& r, ValueId v, const Quantization& to) {
  const auto integer = [&](double x) {
    return std::nearbyint(static_cast<float>(x) / static_cast<float>(to.scale)) + to.zero;
  };
  const auto bound = [&](const Node& node, size_t input, double otherwise) {
    const ValueId id = InputAt(node, input);
    return id.valid() ? ScalarOf(r.graph, id) : otherwise;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  while (const Node* node = r.Def(v)) {
    std::optional<double> low = 0, high = kInfinity;
    if (node->op == Op::kClip) {
      low = bound(*node, 1, -kInfinity);
      high = bound(*node, 2, kInfinity);
    } else if (node->op != Op::kRelu) {
      break;
    }
    if (!low || !high || *low > *high || !(integer(*low) <= Lowest(to.dtype)) ||
        !(integer(*high) >= Highest(to.dtype)))
      break;
    v = node->inputs[0];
  }
  return v;
}

void Match(Rewriter& r, NodeId id) {
  const Node node = r.graph[id];
  const auto to = QuantizationOf(r.graph, node, node.outputs[0], node.inputs[0]);
  if (!to) return;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = WithoutBounds(r, inputs[0], *to);
  Chain chain(r, to->scale);
  if (to->scale != 1 && chain.Takes(inputs[0]) &&
      (chain.HasProduct() || chain.KeepsIntegers(inputs[0], *to))) {
    inputs[0] = chain.Scaled(id, inputs[0]);
    inputs[1] = r.NewConstant(r.graph[node.inputs[1]].name + "_one",
                              Tensor(Dtype::kF32, r.graph[node.inputs[1]].constant.shape()));
    r.graph[inputs[1]].constant.mutable_as<float>()[0] = 1;
  }
  if (inputs[0] != node.inputs[0]) r.Become(id, Op::kQuantizeLinear, inputs, node.attributes);
}

}  // namespace

Result<int> requantize(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    if (graph.nodes[n].op == Op::kQuantizeLinear) Match(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
