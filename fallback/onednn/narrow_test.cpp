// Calls on numbers of 16 and 8 bits against plain loops in double.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/target.h"
#include "fallback/onednn/testing.h"

namespace weft::fallback {
namespace {

double Reference(const LibraryCall& call, const Tensors& tensors, const Shape& index) {
  const double sum =
      call.op == "matmul" ? MatmulAt(call, tensors, index) : ConvAt(call, tensors, index);
  return Posts(call, tensors, index, sum);
}

// ---- bfloat16 ----

#define SKIP_IF_NO_AVX512() \
  SKIP_IF_ABSENT();         \
  if (!HostRuns(Isa::kX86V4)) GTEST_SKIP() << "no AVX-512"

// The result is the exact one rounded once: the sums are exact in f32, and so are the post-ops but
// for the ones that are named.
void ExpectRoundedOnce(const std::string& text, double slack = 0) {
  const LibraryCall call = Parsed(text);
  const Tensors tensors = FillAll(call);
  for (int threads : {1, 2}) {
    const auto result = RunIn(call, tensors, threads);
    ASSERT_TRUE(result.ok()) << result.status().ToString() << "\n" << text;
    ASSERT_EQ(result->dtype(), Dtype::kBF16);
    int wrong = 0;
    ForEach(call.outputs[0].shape, [&](const Shape& index) {
      const auto exact = static_cast<float>(Reference(call, tensors, index));
      const float expected = BfloatToFloat(FloatToBfloat(exact));
      const double found = At(*result, index);
      const double most = slack == 0 ? 0 : 2e-6 + slack * std::fabs(expected);
      if (!(std::fabs(found - expected) <= most) && wrong++ < 3) {
        ADD_FAILURE() << text << " at " << weft::Print(index) << ": " << found << ", expected "
                      << expected;
      }
    });
  }
}

TEST(OnednnBfloat16, MultipliesAndRoundsOnce) {
  SKIP_IF_NO_AVX512();
  for (const char* sizes : {"5, 37, 50", "1, 96, 64", "33, 40, 1030"}) {
    int m = 0, k = 0, n = 0;
    std::sscanf(sizes, "%d, %d, %d", &m, &k, &n);
    for (const bool transposed : {false, true}) {
      ExpectRoundedOnce(fmt::format(
          "onednn.matmul(src = x: bf16[{0}, {1}] ab, weights = w: bf16[{2}] any const, bias = b: "
          "bf16[{3}] a const, post1 = r: bf16[{0}, {3}] ab) -> (dst = y: bf16[{0}, {3}] ab) "
          "{{trans_a = 0, trans_b = {4}, post = [relu, binary_add]}}",
          m, k, transposed ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n), n,
          transposed ? 1 : 0));
    }
  }
  ExpectRoundedOnce(
      "onednn.matmul(src = x: bf16[2, 3, 4, 5] abcd, weights = w: bf16[3, 5, 6] abc) -> (dst = y: "
      "bf16[2, 3, 4, 6] abcd) {post = [clip(-1.0, 2.0)]}");
  ExpectRoundedOnce(
      "onednn.matmul(src = x: bf16[7, 5] ab, weights = w: bf16[7, 3] ab) -> (dst = y: bf16[5, 3] "
      "ba) {trans_a = 1, trans_b = 0}");
  constexpr double kUnit = 1.0 / 128;  // an error of f32 in a post-op may turn a rounding
  ExpectRoundedOnce(
      "onednn.matmul(src = x: bf16[20, 64] ab, weights = w: bf16[64, 1030] any const) -> (dst = y: "
      "bf16[20, 1030] ab) {post = [gelu_tanh]}",
      kUnit);
}

TEST(OnednnBfloat16, Convolves) {
  SKIP_IF_NO_AVX512();
  for (const char* layout : {"abcd", "acdb", "aBcd16b", "any"}) {
    for (const int group : {1, 4, 16}) {
      ExpectRoundedOnce(fmt::format(
          "onednn.convolution(src = x: bf16[2, 16, 5, 4] {0}, weights = w: bf16[32, {1}, 3, 3] any "
          "const, bias = b: bf16[32] a const, post0 = r: bf16[2, 32, 3, 2] {0}) -> (dst = y: "
          "bf16[2, 32, 3, 2] {0}) {{dilations = [1, 1], group = {2}, pads = [1, 1, 1, 1], strides "
          "= [2, 2], post = [binary_add, relu]}}",
          layout, 16 / group, group));
    }
    ExpectRoundedOnce(fmt::format(
        "onednn.convolution(src = x: bf16[1, 24, 7, 7] {0}, weights = w: bf16[24, 1, 3, 3] any "
        "const) -> (dst = y: bf16[1, 24, 7, 7] {0}) {{dilations = [1, 1], group = 24, pads = [1, "
        "1, 1, 1], strides = [1, 1]}}",
        layout));
  }
  ExpectRoundedOnce(
      "onednn.convolution(src = x: bf16[1, 3, 12] abc, weights = w: bf16[6, 3, 3] any const) -> "
      "(dst = y: bf16[1, 6, 10] abc) {dilations = [2], group = 1, pads = [2, 0], strides = [1]}");
}

// The bound within which something may happen unasked (DESIGN, section 7), with sums that are not
// exact.
TEST(OnednnBfloat16, ErrsAtMostTwiceAsMuchAsSumsInOrder) {
  SKIP_IF_NO_AVX512();
  const LibraryCall call = Parsed(
      "onednn.matmul(src = x: bf16[16, 1500] ab, weights = w: bf16[1500, 64] any const) -> (dst = "
      "y: bf16[16, 64] ab)");
  Tensors tensors = FillAll(call);
  uint32_t seed = 7;
  for (auto& [role, tensor] : tensors) {
    for (int64_t i = 0; i < tensor.elems(); ++i) {
      seed = seed * 1664525 + 1013904223;
      SetElem(tensor, i, std::sin(seed * 1e-6) * std::exp2(static_cast<int>(seed >> 29)));
    }
  }
  const auto result = RunIn(call, tensors, 1);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  double ours = 0, theirs = 0;
  ForEach(call.outputs[0].shape, [&](const Shape& at) {
    float sum = 0;
    for (int64_t k = 0; k < 1500; ++k)
      sum = std::fma(static_cast<float>(At(tensors["src"], {at[0], k})),
                     static_cast<float>(At(tensors["weights"], {k, at[1]})), sum);
    const double exact = MatmulAt(call, tensors, at);
    ours = std::max(ours, std::fabs(BfloatToFloat(FloatToBfloat(sum)) - exact));
    theirs = std::max(theirs, std::fabs(At(*result, at) - exact));
  });
  EXPECT_GT(theirs, 0);
  EXPECT_LE(theirs, 2 * ours);
}

// What the library has no fast loops for in 16 bits, and types that are mixed.
TEST(OnednnBfloat16, RefusesOtherTypes) {
  SKIP_IF_NO_AVX512();
  for (const char* text :
       {"onednn.eltwise(src = x: bf16[2] a) -> (dst = y: bf16[2] a) {algorithm = \"relu\"}",
        "onednn.matmul(src = x: bf16[2, 2] ab, weights = w: f32[2, 2] ab) -> (dst = y: bf16[2, 2] "
        "ab)",
        "onednn.matmul(src = x: f16[2, 2] ab, weights = w: f16[2, 2] ab) -> (dst = y: f16[2, 2] "
        "ab)"}) {
    const LibraryCall call = Parsed(text);
    const auto result = RunIn(call, FillAll(call), 1);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_NE(result.status().ToString().find("operand "), std::string::npos)
        << result.status().ToString();
  }
}

}  // namespace
}  // namespace weft::fallback
