#include "graph/testing.h"

#include <cmath>
#include <functional>
#include <random>

#include "graph/infer.h"

namespace weft::graph::testing {
namespace {

struct Array {
  Shape shape;
  std::vector<double> data;
};

int64_t Count(const Shape& shape) { return *CountElems(shape); }

// Element `flat` of `out` in an operand that broadcasts to it.
size_t Place(size_t flat, const Shape& out, const Shape& in) {
  size_t place = 0, stride = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto extent = static_cast<size_t>(out[out.size() - 1 - i]);
    const size_t index = flat % extent;
    flat /= extent;
    if (i >= in.size()) continue;
    const auto have = static_cast<size_t>(in[in.size() - 1 - i]);
    place += (have == 1 ? 0 : index) * stride;
    stride *= have;
  }
  return place;
}

Array Map(const Array& a, const std::function<double(double)>& f) {
  Array out = a;
  for (double& x : out.data) x = f(x);
  return out;
}

Array Zip(const Array& a, const Array& b, const Shape& shape,
          const std::function<double(double, double)>& f) {
  Array out{shape, {}};
  for (size_t i = 0; i < static_cast<size_t>(Count(shape)); ++i) {
    out.data.push_back(f(a.data[Place(i, shape, a.shape)], b.data[Place(i, shape, b.shape)]));
  }
  return out;
}

// Over the last axes, which is all that the tests need.
Array MeanLast(const Array& x, int64_t axes) {
  int64_t inner = 1;
  Shape shape = x.shape;
  for (size_t i = shape.size() - static_cast<size_t>(axes); i < shape.size(); ++i) {
    inner *= shape[i];
    shape[i] = 1;
  }
  Array out{shape, std::vector<double>(static_cast<size_t>(Count(shape)), 0)};
  for (size_t i = 0; i < x.data.size(); ++i)
    out.data[i / static_cast<size_t>(inner)] += x.data[i] / static_cast<double>(inner);
  return out;
}

// A convolution with a window of one element, groups of one channel each way included.
Array PointwiseConv(const Array& x, const Array& w, const Array* bias, int64_t group) {
  const int64_t n = x.shape[0], c = x.shape[1], m = w.shape[0], each = w.shape[1],
                area = Count(x.shape) / (n * c);
  Shape shape = x.shape;
  shape[1] = m;
  Array out{shape, {}};
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t p = 0; p < area; ++p) {
        double sum = bias ? bias->data[static_cast<size_t>(k)] : 0;
        for (int64_t j = 0; j < each; ++j) {
          const int64_t channel = k / (m / group) * each + j;
          sum += x.data[static_cast<size_t>((b * c + channel) * area + p)] *
                 w.data[static_cast<size_t>(k * each + j)];
        }
        out.data.push_back(sum);
      }
    }
  }
  return out;
}

// The same for weights [C, M / group].
Array PointwiseConvTranspose(const Array& x, const Array& w, const Array* bias, int64_t group) {
  const int64_t c = w.shape[0], each = w.shape[1];
  Array turned{{each * group, c / group}, std::vector<double>(w.data.size())};
  for (int64_t i = 0; i < c; ++i) {
    for (int64_t j = 0; j < each; ++j) {
      const int64_t g = i / (c / group);
      turned.data[static_cast<size_t>((g * each + j) * (c / group) + i % (c / group))] =
          w.data[static_cast<size_t>(i * each + j)];
    }
  }
  return PointwiseConv(x, turned, bias, group);
}

Array Gemm(const Node& node, const Array& a, const Array& b, const Array* bias,
           const Shape& shape) {
  const bool tb = IntAttr(node, "transB", 0) != 0;
  const double alpha = FloatAttr(node, "alpha", 1), beta = FloatAttr(node, "beta", 1);
  Array out{shape, {}};
  const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]),
             inner = static_cast<size_t>(a.shape[1]);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (size_t k = 0; k < inner; ++k)
        sum += a.data[i * inner + k] * b.data[tb ? j * inner + k : k * columns + j];
      out.data.push_back(
          alpha * sum + (bias ? beta * bias->data[Place(i * columns + j, shape, bias->shape)] : 0));
    }
  }
  return out;
}

// A matrix behind any number of rows.
Array MatMul(const Array& a, const Array& b, const Shape& shape) {
  Array out{shape, {}};
  const auto inner = static_cast<size_t>(b.shape[0]), columns = static_cast<size_t>(b.shape[1]);
  for (size_t i = 0; i < a.data.size(); i += inner) {
    for (size_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (size_t k = 0; k < inner; ++k) sum += a.data[i + k] * b.data[k * columns + j];
      out.data.push_back(sum);
    }
  }
  return out;
}

Array Normalized(const Node& node, const std::vector<const Array*>& in, bool centered) {
  const Array& x = *in[0];
  const int64_t axes = -IntAttr(node, "axis", -1);
  const double epsilon = FloatAttr(node, "epsilon", 1e-5f);
  const Array mean =
      centered ? MeanLast(x, axes) : Map(MeanLast(x, axes), [](double) { return 0.0; });
  const Array moved = Zip(x, mean, x.shape, std::minus<>());
  const Array variance = MeanLast(Map(moved, [](double v) { return v * v; }), axes);
  Array y =
      Zip(moved, variance, x.shape, [&](double a, double v) { return a / std::sqrt(v + epsilon); });
  y = Zip(y, *in[1], x.shape, std::multiplies<>());
  return in.size() > 2 ? Zip(y, *in[2], x.shape, std::plus<>()) : y;
}

Array BatchNorm(const Node& node, const std::vector<const Array*>& in) {
  Array out = *in[0];
  const int64_t area = Count(out.shape) / (out.shape[0] * out.shape[1]);
  for (size_t i = 0; i < out.data.size(); ++i) {
    const size_t c = i / static_cast<size_t>(area) % static_cast<size_t>(out.shape[1]);
    out.data[i] = (out.data[i] - in[3]->data[c]) /
                      std::sqrt(in[4]->data[c] + FloatAttr(node, "epsilon", 1e-5f)) *
                      in[1]->data[c] +
                  in[2]->data[c];
  }
  return out;
}

double Gelu(double x, bool tanh) {
  return tanh ? 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))
              : 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

Array Step(const Node& node, const std::vector<const Array*>& in, const Shape& shape) {
  auto clip = [](double x, double low, double high) { return std::min(std::max(x, low), high); };
  switch (node.op) {
    case Op::kAdd:
      return Zip(*in[0], *in[1], shape, std::plus<>());
    case Op::kSub:
      return Zip(*in[0], *in[1], shape, std::minus<>());
    case Op::kMul:
      return Zip(*in[0], *in[1], shape, std::multiplies<>());
    case Op::kDiv:
      return Zip(*in[0], *in[1], shape, std::divides<>());
    case Op::kPow:
      return Zip(*in[0], *in[1], shape, [](double a, double b) { return std::pow(a, b); });
    case Op::kErf:
      return Map(*in[0], [](double x) { return std::erf(x); });
    case Op::kTanh:
      return Map(*in[0], [](double x) { return std::tanh(x); });
    case Op::kSqrt:
      return Map(*in[0], [](double x) { return std::sqrt(x); });
    case Op::kRelu:
      return Map(*in[0], [](double x) { return std::max(x, 0.0); });
    case Op::kReciprocal:
      return Map(*in[0], [](double x) { return 1 / x; });
    case Op::kSigmoid:
      return Map(*in[0], [](double x) { return 1 / (1 + std::exp(-x)); });
    case Op::kSwish:
      return Map(*in[0],
                 [&](double x) { return x / (1 + std::exp(-FloatAttr(node, "alpha", 1) * x)); });
    case Op::kGelu:
      return Map(*in[0], [&](double x) {
        return Gelu(x, StringAttr(node, "approximate", "none") == "tanh");
      });
    case Op::kClip:
      return Map(*in[0], [&](double x) { return clip(x, in[1]->data[0], in[2]->data[0]); });
    case Op::kHardSwish:
      return Map(*in[0], [&](double x) { return x * clip(x / 6 + 0.5, 0, 1); });
    case Op::kHardSigmoid:
      return Map(*in[0], [&](double x) {
        return clip(x * FloatAttr(node, "alpha", 0.2f) + FloatAttr(node, "beta", 0.5f), 0, 1);
      });
    case Op::kReduceMean:
      return MeanLast(*in[0], static_cast<int64_t>(in[1]->data.size()));
    case Op::kLayerNormalization:
      return Normalized(node, in, true);
    case Op::kRMSNormalization:
      return Normalized(node, in, false);
    case Op::kBatchNormalization:
      return BatchNorm(node, in);
    case Op::kGemm:
      return Gemm(node, *in[0], *in[1], in.size() > 2 ? in[2] : nullptr, shape);
    case Op::kMatMul:
      return MatMul(*in[0], *in[1], shape);
    case Op::kReshape:
      return {shape, in[0]->data};
    case Op::kConv:
      return PointwiseConv(*in[0], *in[1], in.size() > 2 ? in[2] : nullptr,
                           IntAttr(node, "group", 1));
    case Op::kConvTranspose:
      return PointwiseConvTranspose(*in[0], *in[1], in.size() > 2 ? in[2] : nullptr,
                                    IntAttr(node, "group", 1));
    default:
      break;
  }
  ADD_FAILURE() << "the tests' interpreter lacks " << node.op_name;
  return {};
}

}  // namespace

Values Run(const Graph& graph, const Values& inputs) {
  Graph typed = Clone(graph);
  EXPECT_TRUE(InferShapes(typed).ok());
  std::vector<Array> arrays(typed.values.size());
  for (size_t i = 0; i < typed.values.size(); ++i) {
    const Value& value = typed.values[i];
    arrays[i].shape = StaticShape(value).value_or(Shape());
    if (value.kind == ValueKind::kInput) arrays[i].data = inputs.at(value.name);
    for (int64_t k = 0; value.kind == ValueKind::kConstant && k < value.constant.elems(); ++k) {
      arrays[i].data.push_back(ElemAsDouble(value.constant, k));
    }
  }
  for (const Node& node : typed.nodes) {
    std::vector<const Array*> in;
    for (ValueId id : node.inputs) in.push_back(&arrays[static_cast<size_t>(id.index)]);
    const auto out = static_cast<size_t>(node.outputs[0].index);
    arrays[out] = Step(node, in, arrays[out].shape);
  }
  Values outputs;
  for (ValueId id : typed.outputs)
    outputs[typed[id].name] = arrays[static_cast<size_t>(id.index)].data;
  return outputs;
}

void ExpectSameResults(const Graph& before, const Graph& after, double tolerance) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 2);
  Values inputs;
  for (ValueId id : before.inputs) {
    auto& data = inputs[before[id].name];
    for (int64_t i = 0; i < Count(*StaticShape(before[id])); ++i) data.push_back(normal(random));
  }
  const Values want = Run(before, inputs), have = Run(after, inputs);
  ASSERT_EQ(want.size(), have.size());
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(have.contains(name)) << name;
    ASSERT_EQ(values.size(), have.at(name).size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], have.at(name)[i], tolerance * (1 + std::abs(values[i])))
          << name << " " << i;
  }
}

}  // namespace weft::graph::testing
