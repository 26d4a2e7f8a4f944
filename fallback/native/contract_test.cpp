// Products and convolutions: small ones worked out by hand, many shapes against loops over the
// operator's definition, and operands that make no sense. Elements are small integers, so that
// sums are exact in any order and results of 16 bits are rounded once or wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "fallback/native/testing.h"

namespace weft::fallback::native {
namespace {

using weft::Print;  // of shapes; not the one of calls
using Ints = std::vector<int64_t>;
using Places = std::array<int64_t, 4>;
using Random = std::mt19937;

constexpr Dtype kFloats[] = {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBF16};
constexpr Dtype kFactors[] = {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBF16,
                              Dtype::kI32, Dtype::kI64, Dtype::kU32, Dtype::kU64};

Tensor F32(Shape shape, const std::vector<double>& values) {
  return Make(Dtype::kF32, std::move(shape), values);
}
Tensor Iota(Shape shape, Dtype dtype = Dtype::kF32) {
  Tensor t(dtype, std::move(shape));
  for (int64_t i = 0; i < t.elems(); ++i) SetElem(t, i, static_cast<double>(i));
  return t;
}
Tensor AnyOf(Random& random, Dtype dtype, Shape shape) {
  Tensor t(dtype, std::move(shape));
  const bool is_unsigned = dtype == Dtype::kU32 || dtype == Dtype::kU64;
  for (int64_t i = 0; i < t.elems(); ++i)
    SetElem(t, i, static_cast<double>(random() % 7) - (is_unsigned ? 0 : 3));
  return t;
}

Result<std::vector<Tensor>> Try(const std::string& op, const std::vector<Tensor>& inputs,
                                Attributes attributes) {
  return TryKernel(op, inputs, std::move(attributes), 1, kNativeLimitBytes);
}
Tensor Eval(const std::string& op, const std::vector<Tensor>& inputs, Attributes attributes = {}) {
  auto result = Try(op, inputs, std::move(attributes));
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() ? (*std::move(result))[0] : Tensor();
}

void ExpectTensor(const Tensor& t, const Shape& shape, const std::vector<double>& values) {
  EXPECT_EQ(t.shape(), shape);
  EXPECT_EQ(Values(t), values);
}
// Rounded to the type of the result.
void ExpectSame(const Tensor& t, const Shape& shape, const std::vector<double>& values,
                const std::string& what) {
  ASSERT_EQ(t.shape(), shape) << what;
  const Tensor expected = Make(t.dtype(), shape, values);
  int64_t wrong = 0, at = 0;
  for (int64_t i = t.elems(); i-- > 0;)
    if (ElemAsDouble(t, i) != ElemAsDouble(expected, i)) ++wrong, at = i;
  EXPECT_EQ(wrong, 0) << what << ": " << ElemAsDouble(t, at) << " for "
                      << ElemAsDouble(expected, at) << " at " << at;
}

TEST(MatMul, FollowsNumpy) {
  const Tensor a = Iota({2, 3}), b = Iota({3, 2});
  ExpectTensor(Eval("MatMul", {a, b}), {2, 2}, {10, 13, 28, 40});
  ExpectTensor(Eval("MatMul", {Iota({3}), Iota({3})}), {}, {5});
  ExpectTensor(Eval("MatMul", {Iota({3}), b}), {2}, {10, 13});
  ExpectTensor(Eval("MatMul", {a, Iota({3})}), {2}, {5, 14});
  ExpectTensor(Eval("MatMul", {Iota({2, 1, 2}), Iota({2, 1})}), {2, 1, 1}, {1, 3});
  ExpectTensor(Eval("MatMul", {Iota({1, 2}), Iota({2, 2, 1})}), {2, 1, 1}, {1, 3});
  ExpectTensor(Eval("MatMul", {Iota({2, 1, 1, 1}), Iota({3, 1, 1})}), {2, 3, 1, 1},
               {0, 0, 0, 0, 1, 2});
  ExpectTensor(Eval("MatMul", {Iota({0, 3}), b}), {0, 2}, {});
  ExpectTensor(Eval("MatMul", {Iota({2, 0}), Iota({0, 2})}), {2, 2}, {0, 0, 0, 0});
  const Tensor big = Make(Dtype::kU32, {1, 1}, {65536});
  ExpectTensor(Eval("MatMul", {big, big}), {1, 1}, {0});
}

TEST(MatMul, RefusesWhatDoesNotFit) {
  EXPECT_SAYS(ErrorOf("MatMul", {Iota({2, 3}), Iota({2, 3})}),
              "operand in1 (x1) of shape [2, 3] does not fit operand in0 (x0) of shape [2, 3]");
  EXPECT_SAYS(ErrorOf("MatMul", {Iota({2, 1, 3}), Iota({3, 3, 2})}), "does not fit");
  EXPECT_SAYS(ErrorOf("MatMul", {Iota({}), Iota({1})}), "does not fit");
  EXPECT_SAYS(ErrorOf("MatMul", {Iota({1}), Iota({1}, Dtype::kI64)}), "expected f32");
  EXPECT_SAYS(ErrorOf("MatMul", {Iota({1}, Dtype::kI8), Iota({1}, Dtype::kI8)}),
              "no kernel for i8");
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_SAYS(ErrorOf("MatMul", {Tensor(Dtype::kF32, {kHuge, 0}), Tensor(Dtype::kF32, {0, kHuge})}),
              "2^63 elements");
}

TEST(Gemm, ScalesAndAdds) {
  const Tensor a = Iota({2, 3}), b = Iota({3, 2}), c = F32({2}, {1, 2});
  ExpectTensor(Eval("Gemm", {a, b}), {2, 2}, {10, 13, 28, 40});
  ExpectTensor(Eval("Gemm", {a, b, c}, {{"alpha", 0.5F}, {"beta", 2.0F}}), {2, 2},
               {7, 10.5, 16, 24});
  ExpectTensor(Eval("Gemm", {Iota({3, 2}), Iota({2, 3}), F32({2, 1}, {10, 20})},
                    {{"transA", int64_t{1}}, {"transB", int64_t{1}}}),
               {2, 2}, {20, 38, 33, 60});
  ExpectTensor(Eval("Gemm", {Iota({1, 0}), Iota({0, 2}), c}), {1, 2}, {1, 2});
  EXPECT_SAYS(ErrorOf("Gemm", {a, a}), "does not fit");
  EXPECT_SAYS(ErrorOf("Gemm", {a, Iota({3})}), "does not fit");
  EXPECT_SAYS(ErrorOf("Gemm", {a, b, Iota({3})}), "[3] does not broadcast to [2, 2]");
  const Tensor one = Iota({1, 1}, Dtype::kI32);
  EXPECT_SAYS(ErrorOf("Gemm", {one, one}, {{"alpha", 0.5F}}), "integers scaled");
}

// Extents around those of tiles, panels and blocks.
int64_t AnyExtent(Random& random, int64_t most) {
  constexpr int64_t kExtents[] = {1, 2, 3, 4, 7, 12, 13, 31, 32, 33, 65, 97, 130, 257, 300};
  return std::min(kExtents[random() % std::size(kExtents)], most);
}

TEST(MatMul, MatchesItsDefinition) {
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    const Dtype dtype = kFactors[random() % std::size(kFactors)];
    const int64_t m = AnyExtent(random, 130), n = AnyExtent(random, 130),
                  k = AnyExtent(random, 300);
    const int64_t images = 1 + random() % 3, heads = 1 + random() % 2;
    const bool is_shared = random() % 2 == 0, is_deep = random() % 2 == 0;
    const Tensor a = AnyOf(random, dtype, {images, is_deep ? heads : 1, m, k});
    const Tensor b =
        AnyOf(random, dtype, is_shared ? Shape{k, n} : Shape{is_deep ? 1 : images, heads, k, n});
    const Shape shape{images, is_shared && !is_deep ? 1 : heads, m, n};
    std::vector<double> y;
    for (int64_t i = 0; i < shape[0] * shape[1] * m; ++i) {
      const int64_t image = i / m / shape[1], head = i / m % shape[1];
      const int64_t of_a = is_deep ? i / m : image;
      const int64_t of_b = is_shared ? 0 : (is_deep ? 0 : image) * heads + head;
      std::vector<double> row(n);
      for (int64_t q = 0; q < k; ++q)
        for (int64_t j = 0; j < n; ++j)
          row[j] +=
              ElemAsDouble(a, (of_a * m + i % m) * k + q) * ElemAsDouble(b, (of_b * k + q) * n + j);
      y.insert(y.end(), row.begin(), row.end());
    }
    ExpectSame(Eval("MatMul", {a, b}), shape, y,
               fmt::format("{} {}x{}", DtypeName(dtype), Print(a.shape()), Print(b.shape())));
  }
}

TEST(Gemm, MatchesItsDefinition) {
  Random random(2);
  for (int round = 0; round < 400; ++round) {
    const Dtype dtype = kFactors[random() % std::size(kFactors)];
    const int64_t m = AnyExtent(random, 130), n = AnyExtent(random, 130),
                  k = AnyExtent(random, 300);
    const bool ta = random() % 2 == 0, tb = random() % 2 == 0;
    const Tensor a = AnyOf(random, dtype, ta ? Shape{k, m} : Shape{m, k});
    const Tensor b = AnyOf(random, dtype, tb ? Shape{n, k} : Shape{k, n});
    const Shape shapes[] = {{m, n}, {n}, {m, 1}, {}};
    const size_t form = random() % 4;
    const Tensor c = AnyOf(random, dtype, shapes[form]);
    const float alpha = IsFloat(dtype) ? 2 : 1, beta = IsFloat(dtype) ? 0.5F : 1;
    std::vector<double> y(m * n);
    for (int64_t i = 0; i < m * n; ++i) {
      const int64_t row = i / n, column = i % n;
      for (int64_t q = 0; q < k; ++q)
        y[i] += ElemAsDouble(a, ta ? q * m + row : row * k + q) *
                ElemAsDouble(b, tb ? column * k + q : q * n + column);
      const Ints places{i, column, row, 0};
      y[i] = alpha * y[i] + beta * ElemAsDouble(c, places[form]);
    }
    ExpectSame(
        Eval("Gemm", {a, b, c},
             {{"transA", int64_t{ta}}, {"transB", int64_t{tb}}, {"alpha", alpha}, {"beta", beta}}),
        {m, n}, y,
        fmt::format("{} {}{}x{}{}", DtypeName(dtype), ta, Print(a.shape()), tb, Print(b.shape())));
  }
}

TEST(Conv, SlidesOverAnImage) {
  const Tensor x = Iota({1, 1, 3, 3}), ones = F32({1, 1, 2, 2}, {1, 1, 1, 1});
  ExpectTensor(Eval("Conv", {x, ones}), {1, 1, 2, 2}, {8, 12, 20, 24});
  ExpectTensor(
      Eval("Conv", {x, ones, F32({1}, {1})}, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}}),
      {1, 1, 2, 2}, {1, 4, 10, 25});
  ExpectTensor(Eval("Conv", {Iota({1, 1, 5}), F32({1, 1, 2}, {1, 10})}, {{"dilations", Ints{3}}}),
               {1, 1, 2}, {30, 41});
  ExpectTensor(Eval("Conv", {Iota({1, 2, 2}), Iota({2, 1, 1})}, {{"group", int64_t{2}}}), {1, 2, 2},
               {0, 0, 2, 3});
  ExpectTensor(Eval("Conv", {Iota({0, 1, 3, 3}), ones}), {0, 1, 2, 2}, {});
  ExpectTensor(Eval("Conv", {Iota({1, 1, 0}), Iota({1, 1, 1})}), {1, 1, 0}, {});
  ExpectTensor(Eval("Conv", {Iota({1, 0, 2}), Iota({2, 0, 1}), Iota({2})}), {1, 2, 2},
               {0, 0, 1, 1});
  ExpectTensor(Eval("Conv", {Iota({1, 1, 4}), F32({1, 1, 2}, {1, 10})},
                    {{"auto_pad", std::string("SAME_LOWER")}}),
               {1, 1, 4}, {0, 10, 21, 32});
}

TEST(ConvTranspose, SpreadsAnImage) {
  const Tensor x = F32({1, 1, 2}, {1, 2}), w = F32({1, 1, 3}, {1, 10, 100});
  ExpectTensor(Eval("ConvTranspose", {x, w}), {1, 1, 4}, {1, 12, 120, 200});
  ExpectTensor(Eval("ConvTranspose", {x, w, F32({1}, {5})},
                    {{"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"output_padding", Ints{1}}}),
               {1, 1, 4}, {15, 107, 25, 205});
  ExpectTensor(Eval("ConvTranspose", {x, w}, {{"strides", Ints{2}}, {"output_shape", Ints{4}}}),
               {1, 1, 4}, {10, 102, 20, 200});
  ExpectTensor(Eval("ConvTranspose", {x, w}, {{"auto_pad", std::string("SAME_UPPER")}}), {1, 1, 2},
               {12, 120});
  ExpectTensor(Eval("ConvTranspose", {Iota({1, 0, 2}), Iota({0, 1, 1}), F32({1}, {3})}), {1, 1, 2},
               {3, 3});
}

// A random convolution of one to four axes, and its result by definition.
struct Sliding {
  explicit Sliding(Random& random, bool is_transposed) : transposed(is_transposed) {
    const auto upto = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
    const Dtype dtype = kFloats[random() % std::size(kFloats)];
    axes = static_cast<size_t>(upto(4));
    const bool is_depthwise = random() % 3 == 0;
    groups = is_depthwise ? upto(20) : upto(3);
    channels = is_depthwise ? 1 : upto(12);
    filters = is_depthwise ? upto(2) : upto(40);
    const int64_t images = upto(2);
    Shape xs{images, groups * channels}, ws{groups * filters, channels};
    if (transposed) ws = {groups * channels, filters};
    constexpr const char* kModes[] = {"NOTSET", "NOTSET",     "NOTSET",
                                      "VALID",  "SAME_UPPER", "SAME_LOWER"};
    mode = kModes[random() % 6];
    for (size_t d = 0; d < axes; ++d) {
      kernel[d] = upto(random() % 3 == 0 ? 1 : 4);
      stride[d] = upto(3);
      dilation[d] = upto(2);
      const int64_t reach = (kernel[d] - 1) * dilation[d] + 1;
      in[d] = upto(axes == 1   ? 90
                   : axes == 2 ? 20
                   : axes == 3 ? 6
                               : 3) +
              (transposed ? 0 : reach - 1);
      before[d] = mode == "NOTSET" ? static_cast<int64_t>(random() % 3) : 0;
      after[d] = mode == "NOTSET" ? static_cast<int64_t>(random() % 3) : 0;
      extra[d] = transposed ? static_cast<int64_t>(random() % stride[d]) : 0;
      SetOut(d, reach);
      xs.push_back(in[d]);
      ws.push_back(kernel[d]);
    }
    x = AnyOf(random, dtype, xs);
    w = AnyOf(random, dtype, ws);
    if (random() % 2 == 0) bias = AnyOf(random, dtype, {groups * filters});
  }

  void SetOut(size_t d, int64_t reach) {
    const bool same = mode.starts_with("SAME");
    int64_t total = 0;
    if (transposed) {
      const int64_t whole = (in[d] - 1) * stride[d] + reach + extra[d];
      before[d] = std::min(before[d], whole / 2);
      after[d] = std::min(after[d], whole - before[d]);
      out[d] = same ? in[d] * stride[d] : whole - before[d] - after[d];
      total = whole - out[d];
    } else {
      out[d] = same ? (in[d] + stride[d] - 1) / stride[d]
                    : (in[d] + before[d] + after[d] - reach) / stride[d] + 1;
      total = std::max<int64_t>((out[d] - 1) * stride[d] + reach - in[d], 0);
    }
    const int64_t half = total >= 0 ? total / 2 : -((1 - total) / 2);
    if (same) before[d] = mode == "SAME_UPPER" ? half : total - half;
  }

  std::vector<CallAttribute> Attributes() const {
    const auto list = [&](const auto& numbers) {
      return Ints(numbers.begin(), numbers.begin() + axes);
    };
    Ints pads = list(before), behind = list(after);
    pads.insert(pads.end(), behind.begin(), behind.end());
    std::vector<CallAttribute> attributes = {{"strides", list(stride)},
                                             {"dilations", list(dilation)},
                                             {"group", groups},
                                             {"auto_pad", mode},
                                             {"kernel_shape", list(kernel)}};
    if (mode == "NOTSET") attributes.push_back({"pads", pads});
    if (transposed) attributes.push_back({"output_padding", list(extra)});
    return attributes;
  }

  static int64_t Flat(const Places& extents, const Places& at) {
    int64_t flat = 0;
    for (size_t d = 0; d < at.size(); ++d) flat = flat * extents[d] + at[d];
    return flat;
  }
  static Places Index(const Places& extents, int64_t flat) {
    Places at{};
    for (size_t d = at.size(); d-- > 0; flat /= extents[d]) at[d] = flat % extents[d];
    return at;
  }
  static int64_t Count(const Places& extents) {
    return extents[0] * extents[1] * extents[2] * extents[3];
  }

  // A place of the shorter side that slides, and a tap, meet a place of the other side.
  std::vector<double> Expected() const {
    const auto& slid = transposed ? in : out;
    const auto& met = transposed ? out : in;
    const int64_t ins = Count(in), outs = Count(out);
    const int64_t taps = Count(kernel), all = groups * filters;
    std::vector<double> y(x.shape()[0] * all * outs);
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = bias.data() ? ElemAsDouble(bias, static_cast<int64_t>(i) / outs % all) : 0;
    for (int64_t s = 0; s < Count(slid); ++s) {
      for (int64_t t = 0; t < taps; ++t) {
        const auto from = Index(slid, s), tap = Index(kernel, t);
        Places to{};
        bool inside = true;
        for (size_t d = 0; d < 4; ++d) {
          to[d] = from[d] * stride[d] + tap[d] * dilation[d] - before[d];
          inside &= to[d] >= 0 && to[d] < met[d];
        }
        if (!inside) continue;
        const int64_t at_x = transposed ? s : Flat(met, to), at_y = transposed ? Flat(met, to) : s;
        for (int64_t m = 0; m < x.shape()[0] * all; ++m) {
          const int64_t image = m / all, group = m % all / filters, filter = m % filters;
          for (int64_t c = 0; c < channels; ++c) {
            const int64_t channel = group * channels + c;
            const int64_t at_w =
                transposed ? channel * filters + filter : (group * filters + filter) * channels + c;
            y[m * outs + at_y] +=
                ElemAsDouble(x, (image * groups * channels + channel) * ins + at_x) *
                ElemAsDouble(w, at_w * taps + t);
          }
        }
      }
    }
    return y;
  }

  void Check() const {
    Shape shape{x.shape()[0], groups * filters};
    shape.insert(shape.end(), out.begin(), out.begin() + axes);
    const char* op = transposed ? "ConvTranspose" : "Conv";
    ExpectSame(Eval(op, {x, w, bias}, Attributes()), shape, Expected(),
               fmt::format("{} {} {} by {}, {}, stride {} dilation {} pads {} {}", op,
                           DtypeName(x.dtype()), Print(x.shape()), Print(w.shape()), mode,
                           Print(stride), Print(dilation), Print(before), Print(after)));
  }

  bool transposed;
  size_t axes = 1;
  int64_t groups = 1, channels = 1, filters = 1;
  std::string mode;
  Places in{1, 1, 1, 1}, out{1, 1, 1, 1}, kernel{1, 1, 1, 1}, stride{1, 1, 1, 1},
      dilation{1, 1, 1, 1}, before{}, after{}, extra{};
  Tensor x, w, bias;
};

TEST(Conv, MatchesItsDefinition) {
  Random random(3);
  for (int round = 0; round < 250; ++round) Sliding(random, false).Check();
}

TEST(ConvTranspose, MatchesItsDefinition) {
  Random random(4);
  for (int round = 0; round < 250; ++round) Sliding(random, true).Check();
}

TEST(Conv, RefusesWhatMakesNoSense) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = -kMax - 1;
  const Tensor x = Iota({1, 4, 5, 5}), w = Iota({4, 4, 3, 3});
  for (const char* op : {"Conv", "ConvTranspose"}) {
    EXPECT_SAYS(ErrorOf(op, {x, Iota({4, 4, 3})}), "of shape [4, 4, 3] for operand in0");
    EXPECT_SAYS(ErrorOf(op, {Iota({1, 1}), Iota({1, 1})}), "of shape [1, 1]");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"group", int64_t{3}}}), "4 channels do not divide into 3");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"group", int64_t{0}}}), "0 groups");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"group", kMin}}), "groups");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"strides", Ints{1, 0}}}), "strides holds 0");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"strides", Ints{1}}}), "strides has 1 numbers, expected 2");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"pads", Ints{-1, 0, 0, 0}}}), "pads holds -1");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"pads", Ints{kMax, 0, 0, 0}}}), "pads holds");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"dilations", Ints{1, kMax / 2}}}), "dilations holds");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"dilations", Ints{1, kMax / 8}}}), "too large");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"kernel_shape", Ints{3, 2}}}), "kernel_shape [3, 2]");
    EXPECT_SAYS(ErrorOf(op, {x, w}, {{"auto_pad", std::string("SAME")}}), "auto_pad is \"SAME\"");
    EXPECT_SAYS(ErrorOf(op, {x, w, Iota({3})}), "of shape [3] for 4 filters");
    EXPECT_SAYS(ErrorOf(op, {x, Iota({4, 4, 0, 3})}), "is empty");
    EXPECT_SAYS(ErrorOf(op, {Iota({1, 1, 1}, Dtype::kI32), Iota({1, 1, 1}, Dtype::kI32)}),
                "no kernel for i32");
    // Beside an extent of zero, others may be anything.
    constexpr int64_t kHuge = int64_t{1} << 61;
    EXPECT_SAYS(ErrorOf(op, {Tensor(Dtype::kF32, {0, 4, kHuge, 5}), w}), "too large");
  }
  EXPECT_SAYS(ErrorOf("Conv", {x, Iota({4, 3, 3, 3})}), "1 groups for operand in0");
  EXPECT_SAYS(ErrorOf("Conv", {x, Iota({4, 4, 6, 6})}), "reaches over 6");
  EXPECT_SAYS(ErrorOf("Conv", {x, w}, {{"pads", Ints{int64_t{1} << 50, 0, 0, 0}}}), "limit");
  EXPECT_SAYS(ErrorOf("ConvTranspose", {x, w}, {{"strides", Ints{1, kMax / 9}}}), "too large");
  EXPECT_SAYS(ErrorOf("ConvTranspose", {x, w}, {{"pads", Ints{9, 0, 9, 0}}}), "pads of 9 and 9");
  EXPECT_SAYS(ErrorOf("ConvTranspose", {x, w}, {{"output_padding", Ints{-1, 0}}}), "holds -1");
  EXPECT_SAYS(ErrorOf("ConvTranspose", {x, w}, {{"output_shape", Ints{-1, 4}}}), "holds -1");
  EXPECT_SAYS(ErrorOf("ConvTranspose", {x, w}, {{"output_shape", Ints{4}}}), "output_shape has 1");
}

// Windows that lie far outside or far apart are no reason to make such an image.
TEST(Conv, ReachesFar) {
  constexpr int64_t kFar = int64_t{1} << 40;
  const Tensor x = Iota({1, 1, 3}), w = F32({1, 1, 2}, {1, 10});
  ExpectTensor(Eval("Conv", {x, w}, {{"strides", Ints{kFar}}, {"pads", Ints{kFar - 1, kFar}}}),
               {1, 1, 3}, {0, 21, 0});
  ExpectTensor(Eval("Conv", {x, w}, {{"dilations", Ints{kFar}}, {"pads", Ints{kFar, 0}}}),
               {1, 1, 3}, {0, 10, 20});
  ExpectTensor(Eval("ConvTranspose", {x, w}, {{"dilations", Ints{kFar}}, {"pads", Ints{kFar, 0}}}),
               {1, 1, 3}, {0, 10, 20});
}

// On one thread and on many.
TEST(MatMul, IsCancelled) {
  const int32_t flag = 1;
  const Cancellable guard(flag);
  for (const int64_t extent : {8, 200}) {
    const Tensor a = Iota({extent, extent});
    const auto result = Try("MatMul", {a, a}, {});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), Code::kInterrupted);
  }
}

TEST(MatMul, WidensEachHalf) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    constexpr int64_t kCount = 1 << 16;
    Tensor all(dtype, {1, kCount});
    for (int64_t i = 0; i < kCount; ++i)
      static_cast<uint16_t*>(all.mutable_data())[i] = static_cast<uint16_t>(i);
    const Tensor y = Eval("MatMul", {Make(dtype, {1, 1}, {1}), all});
    int64_t wrong = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const double expected = ElemAsDouble(all, i), own = ElemAsDouble(y, i);
      wrong += expected == own || (std::isnan(expected) && std::isnan(own)) ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0) << DtypeName(dtype);
  }
}

}  // namespace
}  // namespace weft::fallback::native
