// What stands before a QuantizeLinear is computed in units of its scale, so that nothing is left to
// divide by:
//   QuantizeLinear(Cast(sum) * a + b, s, z) = QuantizeLinear(Cast(sum) * (a / s) + b / s, 1, z).
// Rounding moves both by as much. Behind a sum of products, an order of which nobody asked for,
// that is as good; where only a few bytes are read, both ways are tried with each value that they
// can have. What saturates anyway need not be bounded before.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "graph/rewrites/quantization.h"

namespace weft::graph {
namespace {

constexpr int kMostNodes = 64;
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
  bool Takes(ValueId v) {
    const Value& value = r_.graph[v];
    if (++nodes_ > kMostNodes || value.dtype != Dtype::kF32) return false;
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
        return Takes(node->inputs[0]) && Takes(node->inputs[1]);
      case Op::kRelu:
      case Op::kLeakyRelu:
      case Op::kClip:
        return std::ranges::all_of(node->inputs,
                                   [&](ValueId input) { return !input.valid() || Takes(input); });
      default:
        return false;
    }
  }

  bool HasProduct() const { return has_product_; }

  // Whether v / scale rounds to the same integer either way, whatever the bytes are: with the
  // nearest quotients of the bytes' scales, or with others close by.
  bool KeepsIntegers(ValueId v, const Quantization& to) {
    if (!is_scalar_ || bytes_.empty() || bytes_.size() > kMostBytes) return false;
    constexpr int kFarthest = 3;  // floats
    for (int far = 0; far <= kFarthest; ++far) {
      for (int a = -far; a <= far; ++a) {
        for (int b = -far; b <= far; ++b) {
          const bool tried = std::max(std::abs(a), std::abs(b)) < far;
          if (tried || (factors_.size() < 2 && b != 0)) continue;
          nudges_[factors_.front()] = a;
          if (factors_.size() > 1) nudges_[factors_.back()] = b;
          if (KeepsEach(v, to)) return true;
        }
      }
    }
    return false;
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
    if (std::ranges::find(factors_, node.inputs[1]) == factors_.end())
      factors_.push_back(node.inputs[1]);
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
      scaled.mutable_as<float>()[i] = Quotient(v, ElemAsDouble(numbers, i));
    return r_.NewConstant(r_.graph[v].name, std::move(scaled));
  }

  // For each value of the last of the bytes.
  static constexpr int64_t kLanes = 256;
  template <typename Real>
  using Lanes = std::array<Real, kLanes>;

  // The value where the first of two bytes is the first_ that there is, or that value over the
  // scale, as Scaled() computes it.
  template <typename Real>
  Lanes<Real> Of(ValueId v, bool scaled) const {
    const auto number = [&](ValueId id) {
      const double x = ElemAsDouble(r_.graph[id].constant, 0);
      return static_cast<Real>(scaled ? Quotient(id, x) : static_cast<float>(x));
    };
    Lanes<Real> lanes;
    if (IsConstant(v)) {
      lanes.fill(number(v));
      return lanes;
    }
    const Node& node = *r_.Def(v);
    const auto change = [&](auto f) {
      for (Real& x : lanes) x = f(x);
      return lanes;
    };
    const auto combine = [&](ValueId other, auto f) {
      const Lanes<Real> y = Of<Real>(other, scaled);
      for (size_t i = 0; i < kLanes; ++i) lanes[i] = f(lanes[i], y[i]);
      return lanes;
    };
    if (node.op == Op::kDequantizeLinear) {
      const Real factor = number(node.inputs[1]);
      const ValueId zero = InputAt(node, 2);
      int64_t least = zero.valid() ? -ElemAsInt(r_.graph[zero].constant, 0) : 0;
      if (r_.graph[node.inputs[0]].dtype == Dtype::kI8) least -= 128;
      const bool varies = node.inputs[0] == bytes_.back();
      for (int64_t i = 0; i < kLanes; ++i)
        lanes[static_cast<size_t>(i)] = static_cast<Real>(least + (varies ? i : first_)) * factor;
      return lanes;
    }
    lanes = Of<Real>(node.inputs[0], scaled);
    switch (node.op) {
      case Op::kAdd:
        return combine(node.inputs[1], [](Real x, Real y) { return x + y; });
      case Op::kSub:
        return combine(node.inputs[1], [](Real x, Real y) { return x - y; });
      case Op::kRelu:
        return change([](Real x) { return std::max(x, Real(0)); });
      case Op::kLeakyRelu: {
        const auto alpha = static_cast<Real>(FloatAttr(node, "alpha", 0.01f));
        return change([&](Real x) { return x < 0 ? x * alpha : x; });
      }
      default: {  // a Clip
        const ValueId low = InputAt(node, 1), high = InputAt(node, 2);
        if (low.valid()) combine(low, [](Real x, Real y) { return std::max(x, y); });
        if (high.valid()) combine(high, [](Real x, Real y) { return std::min(x, y); });
        return lanes;
      }
    }
  }

  bool KeepsEach(ValueId v, const Quantization& to) {
    const int64_t others = bytes_.size() < 2 ? 1 : kLanes;
    for (first_ = 0; first_ < others; ++first_) {
      // Between one rounding for each operation and less, as a target likes it.
      const Lanes<float> meant = Of<float>(v, false), strict = Of<float>(v, true);
      const Lanes<double> exact = Of<double>(v, true);
      for (size_t i = 0; i < kLanes; ++i) {
        const double integer = Saturated(meant[i] / static_cast<float>(scale_), to);
        if (Saturated(strict[i], to) != integer || Saturated(exact[i], to) != integer) return false;
      }
    }
    return true;
  }

  // x over the scale, so many floats off the nearest.
  float Quotient(ValueId v, double x) const {
    auto quotient = static_cast<float>(x / scale_);
    const auto it = nudges_.find(v);
    const int by = it == nudges_.end() ? 0 : it->second;
    for (int i = 0; i < std::abs(by); ++i)
      quotient = std::nextafter(quotient, by < 0 ? -1.0f : std::numeric_limits<float>::max());
    return quotient;
  }

  static double Saturated(double x, const Quantization& to) {
    return std::clamp(std::nearbyint(x) + to.zero, Lowest(to.dtype), Highest(to.dtype));
  }

  Rewriter& r_;
  double scale_;
  std::vector<ValueId> bytes_, factors_;  // what is dequantized, and by what
  std::map<ValueId, int> nudges_;         // floats that a quotient is off the nearest
  int64_t first_ = 0;
  int nodes_ = 0;
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
    if (r.Uses(v) != 1 || r.IsOutput(v)) break;  // it is there anyway
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

// The operands of a QuantizeLinear of v by scale 1 instead, if v can be computed over its scale.
std::optional<std::vector<ValueId>> Over(Rewriter& r, NodeId id, const Quantization& to,
                                         ValueId v) {
  std::vector<ValueId> inputs = r.graph[id].inputs;
  inputs[0] = v;
  Chain chain(r, to.scale);
  if (!chain.Takes(v) || !(chain.HasProduct() || chain.KeepsIntegers(v, to))) return std::nullopt;
  if (to.scale == 1) return inputs;
  inputs[0] = chain.Scaled(id, v);
  const Value scale = r.graph[inputs[1]];
  Tensor one(Dtype::kF32, scale.constant.shape());
  one.mutable_as<float>()[0] = 1;
  inputs[1] = r.NewConstant(scale.name + "_one", std::move(one));
  return inputs;
}

// The largest of some numbers, none of which is a NaN, rounds to the largest of their integers,
// which take less room.
bool MovesBeforePool(Rewriter& r, NodeId id, const Quantization& to) {
  const Node node = r.graph[id];
  const ValueId pooled = node.inputs[0];
  const Node* found = r.Def(pooled, Op::kMaxPool);
  if (!found || r.Uses(pooled) != 1 || r.IsOutput(pooled)) return false;
  if (found->outputs.size() > 1 && found->outputs[1].valid()) return false;
  const Node pool = *found;
  const auto inputs = Over(r, id, to, WithoutBounds(r, pool.inputs[0], to));
  if (!inputs) return false;
  const ValueId integers = r.Insert(id, Op::kQuantizeLinear, *inputs, r.graph[pooled].name,
                                    pool.inputs[0], node.attributes);
  r.graph[integers].dtype = to.dtype;
  r.Become(id, Op::kMaxPool, {integers}, pool.attributes);
  return true;
}

void Match(Rewriter& r, NodeId id) {
  const Node node = r.graph[id];
  const auto to = QuantizationOf(r.graph, node, node.outputs[0], node.inputs[0]);
  if (!to || MovesBeforePool(r, id, *to)) return;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = WithoutBounds(r, inputs[0], *to);
  if (to->scale != 1) {
    if (const auto over = Over(r, id, *to, inputs[0])) inputs = *over;
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
