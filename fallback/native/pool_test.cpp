// Poolings, by hand and against a plain loop over all taps.
#include <cmath>
#include <limits>

#include "fallback/native/testing.h"

namespace weft::fallback::native {
namespace {

using Ints = std::vector<int64_t>;

struct PoolCase {
  std::string op;
  Tensor x;
  Ints kernel, strides, dilations, pads;
  std::string auto_pad = "NOTSET";
  int64_t ceil = 0, with_pads = 0, column_major = 0, p = 2;

  Attributes attributes() const {
    return {{"auto_pad", auto_pad},
            {"ceil_mode", ceil},
            {"count_include_pad", with_pads},
            {"dilations", dilations},
            {"kernel_shape", kernel},
            {"p", p},
            {"pads", pads},
            {"storage_order", column_major},
            {"strides", strides}};
  }
};

// Of the window at `o`: the taps on axis d, as places of x, and whether each counts in an average.
struct Plain {
  double most = -std::numeric_limits<double>::infinity(), sum = 0, powers = 0, inside = 0,
         counted = 0;
  int64_t index = -1;
};

struct Place {
  int64_t row_major = 0, column_major = 0;
  bool inside = true, counts = true;
};

void Visit(const PoolCase& c, const Shape& y, const Ints& o, size_t d, std::vector<int64_t>& at,
           const Ints& before, Plain& out, Place place, int64_t plane) {
  const size_t n = c.kernel.size();
  if (d == n) {
    if (place.counts) ++out.counted;
    if (!place.inside) return;
    ++out.inside;
    int64_t size = 1, flat = 0, column = 0;
    for (size_t k = 0; k < n; ++k)
      size *= c.x.shape()[k + 2], flat = flat * c.x.shape()[k + 2] + at[k];
    for (size_t k = n; k-- > 0;) column = column * c.x.shape()[k + 2] + at[k];
    const double v = ElemAsDouble(c.x, plane * size + flat);
    out.sum += v;
    out.powers += std::pow(std::fabs(v), static_cast<double>(c.p));
    if (out.index < 0 || v > out.most) {
      out.most = v;
      out.index = plane * size + (c.column_major != 0 ? column : flat);
    }
    return;
  }
  const int64_t in = c.x.shape()[d + 2];
  int64_t after = c.auto_pad == "NOTSET" ? c.pads[n + d] : 0;
  if (c.auto_pad.starts_with("SAME")) {
    const int64_t last = (y[d + 2] - 1) * c.strides[d] + (c.kernel[d] - 1) * c.dilations[d];
    after = std::max<int64_t>(last + 1 - in, 0) - before[d];
  }
  for (int64_t t = 0; t < c.kernel[d]; ++t) {
    at[d] = o[d] * c.strides[d] - before[d] + t * c.dilations[d];
    Place here = place;
    here.inside &= at[d] >= 0 && at[d] < in;
    here.counts &= c.with_pads != 0 ? at[d] < in + after : at[d] >= 0 && at[d] < in;
    Visit(c, y, o, d + 1, at, before, out, here, plane);
  }
}

void Check(const PoolCase& c) {
  const bool indices = c.op == "MaxPool";
  const auto outputs = RunKernel(c.op, {c.x}, c.attributes(), indices ? 2 : 1);
  const Tensor& y = outputs[0];
  const size_t n = c.kernel.size();
  ASSERT_EQ(y.shape().size(), n + 2);
  Ints before(n, 0);
  for (size_t d = 0; d < n; ++d) {
    const int64_t in = c.x.shape()[d + 2], reach = (c.kernel[d] - 1) * c.dilations[d] + 1,
                  s = c.strides[d];
    int64_t expected = (in + s - 1) / s;
    if (c.auto_pad.starts_with("SAME")) {
      const int64_t total = std::max<int64_t>((expected - 1) * s + reach - in, 0);
      before[d] = c.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else {
      if (c.auto_pad == "NOTSET") before[d] = c.pads[d];
      const int64_t room = in + before[d] + (c.auto_pad == "NOTSET" ? c.pads[n + d] : 0) - reach;
      expected = (c.ceil != 0 ? (room + s - 1) / s : room / s) + 1;
      if (c.ceil != 0 && (expected - 1) * s >= in + before[d]) --expected;
    }
    ASSERT_EQ(y.shape()[d + 2], expected) << d;
  }
  Ints o(n), at(n);
  int64_t plane_size = 1;
  for (size_t d = 0; d < n; ++d) plane_size *= y.shape()[d + 2];
  for (int64_t i = 0; i < y.elems(); ++i) {
    int64_t rest = i % plane_size;
    for (size_t d = n; d-- > 0; rest /= y.shape()[d + 2]) o[d] = rest % y.shape()[d + 2];
    Plain plain;
    Visit(c, y.shape(), o, 0, at, before, plain, {}, i / plane_size);
    double expected = plain.most;
    if (c.op == "AveragePool") expected = plain.sum / plain.counted;
    if (c.op == "LpPool") expected = std::pow(plain.powers, 1 / static_cast<double>(c.p));
    const double found = ElemAsDouble(y, i);
    if (plain.inside > 0 || c.op == "LpPool") {
      ASSERT_NEAR(found, expected, indices ? 0 : Tolerance(y.dtype(), expected))
          << c.op << " at " << i;
      if (indices) {
        ASSERT_EQ(ElemAsInt(outputs[1], i), plain.index) << i;
      }
    }
  }
}

template <typename T>
T Pick(std::mt19937& random, std::initializer_list<T> items) {
  return *(items.begin() + Below(random, static_cast<int64_t>(items.size())));
}

TEST(Pool, AgreesWithAPlainLoop) {
  std::mt19937 random(11);
  for (int round = 0; round < 600; ++round) {
    PoolCase c{.op = Pick<const char*>(random, {"MaxPool", "AveragePool", "LpPool"})};
    Dtype dtype = Pick(random, {Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kF64});
    if (c.op == "MaxPool") dtype = Pick(random, {Dtype::kF32, Dtype::kF16, Dtype::kI8, Dtype::kU8});
    const int64_t n = 1 + Below(random, 3);
    Shape shape{1 + Below(random, 2), 1 + Below(random, 3)};
    c.auto_pad =
        Pick<const char*>(random, {"NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"});
    c.ceil = c.auto_pad.starts_with("SAME") ? 0 : Below(random, 2);
    c.with_pads = Below(random, 2);
    c.column_major = Below(random, 2);
    c.p = 1 + Below(random, 3);
    for (int64_t d = 0; d < n; ++d) {
      c.kernel.push_back(1 + Below(random, 4));
      c.dilations.push_back(1 + Below(random, 2));
      c.strides.push_back(1 + Below(random, 3));
      const int64_t reach = (c.kernel[d] - 1) * c.dilations[d] + 1;
      // Less than one window where rounding up leaves one.
      const int64_t least = c.ceil != 0 ? std::max<int64_t>(reach - c.strides[d] + 1, 1) : reach;
      shape.push_back(least + Below(random, n == 1 ? 40 : 5));
    }
    for (int64_t d = 0; d < 2 * n; ++d) c.pads.push_back(Below(random, c.kernel[d % n]));
    c.x = RandomTensor(random, dtype, shape);
    SCOPED_TRACE(round);
    Check(c);
    if (HasFatalFailure()) return;
  }
}

TEST(Pool, ByHand) {
  const Tensor x = Make(Dtype::kF32, {1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const Attributes two = {{"kernel_shape", Ints{2, 2}}};
  EXPECT_EQ(Values(RunKernel("MaxPool", {x}, two)[0]), (std::vector<double>{5, 6}));
  EXPECT_EQ(Values(RunKernel("AveragePool", {x}, two)[0]), (std::vector<double>{3, 4}));
  EXPECT_EQ(Values(RunKernel("LpPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"p", int64_t{1}}})[0]),
            (std::vector<double>{12, 16}));
  EXPECT_EQ(Values(RunKernel("GlobalAveragePool", {x})[0]), std::vector<double>{3.5});
  EXPECT_EQ(Values(RunKernel("GlobalMaxPool", {x})[0]), std::vector<double>{6});
  EXPECT_EQ(Values(RunKernel("GlobalLpPool", {x}, {{"p", int64_t{1}}})[0]),
            std::vector<double>{21});
  EXPECT_EQ(RunKernel("GlobalMaxPool", {x})[0].shape(), (Shape{1, 1, 1, 1}));
}

TEST(Pool, OfNaNsAndOfNothing) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const Tensor x = Make(Dtype::kF32, {1, 1, 4}, {1, nan, 2, -infinity});
  const auto most = RunKernel("MaxPool", {x}, {{"kernel_shape", Ints{2}}}, 2);
  EXPECT_TRUE(std::isnan(Values(most[0])[0]) && std::isnan(Values(most[0])[1]));
  EXPECT_EQ(Values(most[1]), (std::vector<double>{1, 1, 2}));
  EXPECT_TRUE(std::isnan(Values(RunKernel("GlobalMaxPool", {x})[0])[0]));
  const Tensor low = Make(Dtype::kF32, {1, 1, 2}, {-infinity, -infinity});
  const auto lowest =
      RunKernel("MaxPool", {low}, {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}}, 2);
  EXPECT_EQ(Values(lowest[1]), (std::vector<double>{0, 0}));
  // A window in the padding alone.
  const Attributes holes = {
      {"dilations", Ints{2}}, {"kernel_shape", Ints{2}}, {"pads", Ints{1, 1}}};
  const Tensor one = Make(Dtype::kF32, {1, 1, 1}, {7});
  EXPECT_EQ(Values(RunKernel("MaxPool", {one}, holes)[0]), std::vector<double>{-infinity});
  EXPECT_TRUE(std::isnan(Values(RunKernel("AveragePool", {one}, holes)[0])[0]));
  const Tensor none(Dtype::kF32, {2, 3, 0});
  EXPECT_EQ(Values(RunKernel("GlobalMaxPool", {none})[0]), std::vector<double>(6, -infinity));
  EXPECT_TRUE(std::isnan(Values(RunKernel("GlobalAveragePool", {none})[0])[0]));
  EXPECT_EQ(RunKernel("MaxPool", {Tensor(Dtype::kF32, {0, 3, 4})}, {{"kernel_shape", Ints{2}}})[0]
                .shape(),
            (Shape{0, 3, 3}));
}

TEST(Pool, PiecesChangeNothing) {
  std::mt19937 random(2);
  const Tensor few = RandomTensor(random, Dtype::kF32, {1, 1, 40, 50});
  Tensor many(Dtype::kF32, {4, 50, 40, 50});
  for (int64_t i = 0; i < many.elems(); ++i) SetElem(many, i, ElemAsDouble(few, i % few.elems()));
  const Attributes attributes = {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}};
  for (const char* op : {"MaxPool", "AveragePool", "GlobalAveragePool"}) {
    const Tensor y = RunKernel(op, {few}, attributes)[0], z = RunKernel(op, {many}, attributes)[0];
    for (int64_t i = 0; i < z.elems(); ++i)
      ASSERT_EQ(z.as<float>()[i], y.as<float>()[i % y.elems()]);
  }
}

TEST(Pool, RefusesWhatMakesNoSense) {
  const Tensor x(Dtype::kF32, {1, 1, 4});
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_SAYS(ErrorOf("MaxPool", {x}), "kernel_shape holds 0, expected 1");
  EXPECT_SAYS(ErrorOf("MaxPool", {Tensor(Dtype::kF32, {4, 4})}, {{"kernel_shape", Ints{2}}}),
              "rank 3 or more");
  EXPECT_SAYS(ErrorOf("GlobalMaxPool", {Tensor(Dtype::kF32, {4})}), "rank 2 or more");
  EXPECT_SAYS(ErrorOf("MaxPool", {x}, {{"kernel_shape", Ints{5}}}),
              "the window reaches over 5 of spatial axis 0");
  for (const int64_t odd : {int64_t{0}, int64_t{-1}, kHuge}) {
    for (const char* name : {"dilations", "kernel_shape", "strides"}) {
      Attributes attributes{{name, Ints{odd}}};
      if (attributes[0].name != "kernel_shape") attributes.push_back({"kernel_shape", Ints{1}});
      EXPECT_SAYS(ErrorOf("AveragePool", {x}, attributes), "expected 1 to 2147483647");
    }
  }
  EXPECT_SAYS(ErrorOf("MaxPool", {x}, {{"kernel_shape", Ints{1}}, {"pads", Ints{-1, 0}}}),
              "pads holds -1");
  EXPECT_SAYS(
      ErrorOf("MaxPool", {x}, {{"auto_pad", std::string("SOME")}, {"kernel_shape", Ints{1}}}),
      "auto_pad");
  EXPECT_SAYS(ErrorOf("AveragePool", {Tensor(Dtype::kI8, {1, 1, 4})}, {{"kernel_shape", Ints{1}}}),
              "no kernel for i8");
}

// Numbers at the limits: what is asked for is small, or an error, and takes no time.
TEST(Pool, TakesHugeWindows) {
  constexpr int64_t kMost = INT32_MAX;
  const Tensor x = Make(Dtype::kF32, {1, 1, 4}, {1, 2, 3, 4});
  const auto pool = [&](const char* op, int64_t kernel, int64_t dilation, int64_t stride, Ints pads,
                        const char* mode = "NOTSET") {
    auto y = TryKernel(op, {x},
                       {{"auto_pad", std::string(mode)},
                        {"dilations", Ints{dilation}},
                        {"kernel_shape", Ints{kernel}},
                        {"pads", std::move(pads)},
                        {"strides", Ints{stride}}});
    return y.ok() ? Values((*y)[0]) : std::vector<double>{-99};
  };
  using Doubles = std::vector<double>;
  EXPECT_EQ(pool("MaxPool", kMost, 1, 1, {kMost, kMost})[0], -99);  // more than the limit
  EXPECT_EQ(pool("MaxPool", kMost, 1, kMost, {kMost, kMost}),
            (Doubles{-std::numeric_limits<double>::infinity(), 4}));
  EXPECT_EQ(pool("AveragePool", kMost, 1, kMost, {kMost - 4, 0}), Doubles{2.5});
  EXPECT_EQ(pool("MaxPool", kMost, kMost, kMost, {0, 0}, "SAME_UPPER").size(), 1U);
  EXPECT_EQ(pool("MaxPool", kMost, kMost, 1, {0, 0}, "SAME_LOWER").size(), 4U);
  EXPECT_EQ(pool("AveragePool", 1, kMost, kMost, {0, 0}), Doubles{1});
}

// A row that is shorter than a step of the window has one window at most, wherever padding puts it.
TEST(Pool, StridesBeyondTheRow) {
  const Tensor x = Make(Dtype::kF32, {3, 1, 1}, {1, 2, 3});
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    Attributes attributes{{"kernel_shape", std::vector<int64_t>{1}},
                          {"pads", std::vector<int64_t>{2, 0}},
                          {"strides", std::vector<int64_t>{2}}};
    const auto y = RunKernel(op, {x}, attributes);
    ASSERT_EQ(y[0].shape(), (Shape{3, 1, 2})) << op;
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(ElemAsDouble(y[0], 2 * i + 1), static_cast<double>(i + 1)) << op;
    attributes[1].value = std::vector<int64_t>{int64_t{1} << 30, 0};
    attributes[2].value = std::vector<int64_t>{1 << 20};
    EXPECT_EQ(ElemAsDouble(RunKernel(op, {x}, attributes)[0], (1 << 10)), 1) << op;
  }
}

}  // namespace
}  // namespace weft::fallback::native
