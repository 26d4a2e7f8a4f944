// Recurrent operators against their definition, step by step in double; the onnx package's cases
// are in tests/oracle.
#include <cmath>

#include "fallback/native/testing.h"

namespace weft::fallback::native {
namespace {

Tensor Drawn(Dtype dtype, Shape shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  Tensor t(dtype, std::move(shape));
  for (int64_t i = 0; i < t.elems(); ++i) SetElem(t, i, number(random));
  return t;
}

double At(const Tensor& t, std::initializer_list<int64_t> index) {
  int64_t at = 0;
  size_t d = 0;
  for (const int64_t i : index) at = at * t.shape()[d++] + i;
  return ElemAsDouble(t, at);
}

// Y of an LSTM without a bias, [step, direction, row, unit].
std::vector<double> Lstm(const Tensor& x, const Tensor& w, const Tensor& r,
                         const std::vector<int64_t>& lengths, bool reverse) {
  const int64_t steps = x.shape()[0], rows = x.shape()[1], units = r.shape()[2];
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  std::vector<double> y(static_cast<size_t>(steps * rows * units), 0);
  for (int64_t b = 0; b < rows; ++b) {
    std::vector<double> h(units, 0), c(units, 0);
    for (int64_t t = 0; t < lengths[b]; ++t) {
      const int64_t place = reverse ? lengths[b] - 1 - t : t;
      std::vector<double> sums(4 * units, 0);
      for (int64_t k = 0; k < 4 * units; ++k) {
        for (int64_t i = 0; i < x.shape()[2]; ++i)
          sums[k] += At(x, {place, b, i}) * At(w, {0, k, i});
        for (int64_t e = 0; e < units; ++e) sums[k] += h[e] * At(r, {0, k, e});
      }
      for (int64_t j = 0; j < units; ++j) {
        c[j] =
            sigmoid(sums[2 * units + j]) * c[j] + sigmoid(sums[j]) * std::tanh(sums[3 * units + j]);
        h[j] = sigmoid(sums[units + j]) * std::tanh(c[j]);
        y[(place * rows + b) * units + j] = h[j];
      }
    }
  }
  return y;
}

TEST(Recurrent, LstmIsItsDefinition) {
  constexpr int64_t kSteps = 5, kRows = 3, kInputs = 4, kUnits = 7;
  for (const Dtype dtype : {Dtype::kF64, Dtype::kF32, Dtype::kF16}) {
    const Tensor x = Drawn(dtype, {kSteps, kRows, kInputs}, 1),
                 w = Drawn(dtype, {1, 4 * kUnits, kInputs}, 2),
                 r = Drawn(dtype, {1, 4 * kUnits, kUnits}, 3),
                 lengths = Make(Dtype::kI32, {kRows}, {5, 0, 3});
    for (const char* direction : {"forward", "reverse"}) {
      const auto y = RunKernel("LSTM", {x, w, r, {}, lengths}, {{"direction", direction}}, 3);
      const auto expected = Lstm(x, w, r, {5, 0, 3}, direction == std::string("reverse"));
      const double most = dtype == Dtype::kF64 ? 1e-13 : dtype == Dtype::kF32 ? 1e-6 : 2e-3;
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(ElemAsDouble(y[0], static_cast<int64_t>(i)), expected[i], most)
            << DtypeName(dtype) << " " << direction << " " << i;
      EXPECT_EQ(At(y[1], {0, 1, 0}), 0);  // a row without a step
    }
  }
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  const Tensor x = Drawn(Dtype::kF32, {2, 1, 3}, 1), w = Drawn(Dtype::kF32, {1, 4, 3}, 2),
               r = Drawn(Dtype::kF32, {1, 4, 1}, 3);
  EXPECT_SAYS(ErrorOf("LSTM", {x, r, r}), "expected [1, 4, 3]");
  EXPECT_SAYS(ErrorOf("LSTM", {x, w, w}), "expected");
  EXPECT_SAYS(ErrorOf("GRU", {x, w, r}), "expected [1, 3, 3]");
  EXPECT_SAYS(ErrorOf("LSTM", {x, w, r}, {{"direction", "bidirectional"}}), "expected [2, 4, 3]");
  for (const double length : {-1.0, 3.0})
    EXPECT_SAYS(ErrorOf("LSTM", {x, w, r, {}, Make(Dtype::kI32, {1}, {length})}),
                "expected 0 to 2");
  EXPECT_SAYS(ErrorOf("LSTM", {Drawn(Dtype::kF32, {2, 1}, 1), w, r}), "rank 3");
  EXPECT_SAYS(ErrorOf("LSTM", {x, Drawn(Dtype::kF64, {1, 4, 3}, 2), r}), "f64");
  const auto activations = [](const char* name) {
    return Attributes{{"activations", std::vector<std::string>{name}}};
  };
  EXPECT_SAYS(ErrorOf("LSTM", {x, w, r}, activations("Sine")), "the activation Sine");
  EXPECT_SAYS(ErrorOf("LSTM", {x, w, r}, activations("Affine")), "without its parameters");
}

TEST(Recurrent, NoStepsLeaveTheState) {
  const Tensor x(Dtype::kF32, {0, 2, 3});
  const Tensor w = Drawn(Dtype::kF32, {1, 3, 3}, 2), r = Drawn(Dtype::kF32, {1, 3, 1}, 3),
               state = Make(Dtype::kF32, {1, 2, 1}, {4, 5});
  const auto y = RunKernel("GRU", {x, w, r, {}, {}, state}, {}, 2);
  EXPECT_EQ(y[0].elems(), 0);
  EXPECT_EQ(Values(y[1]), (std::vector<double>{4, 5}));
}

}  // namespace
}  // namespace weft::fallback::native
