// Calls of the library against plain loops in double, in several layouts, at one and two threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "fallback/onednn/testing.h"

namespace weft::fallback {
namespace {

void ExpectRight(const std::string& text) {
  const LibraryCall call = Parsed(text);
  const Tensors tensors = FillAll(call);
  const auto reference = [&](const Shape& index) {
    if (call.op == "matmul") return MatmulAt(call, tensors, index);
    if (call.op == "pooling") return PoolAt(call, tensors, index);
    if (call.op == "eltwise")
      return Eltwise(StringAttr(call, "algorithm", ""), At(tensors.at("src"), index),
                     FloatAttr(call, "alpha", 0), FloatAttr(call, "beta", 0));
    if (call.op == "binary")
      return At(tensors.at("src"), index) * BroadcastAt(tensors.at("src1"), index);
    return ConvAt(call, tensors, index);
  };
  for (int threads : {1, 2}) {
    auto result = RunIn(call, tensors, threads);
    ASSERT_TRUE(result.ok()) << result.status().ToString() << "\n" << text;
    int wrong = 0;
    ForEach(call.outputs[0].shape, [&](const Shape& index) {
      const double expected = Posts(call, tensors, index, reference(index)),
                   found = At(*result, index);
      if (!(std::fabs(found - expected) <= 2e-6 + 1e-5 * std::fabs(expected)) && wrong++ < 3) {
        ADD_FAILURE() << text << " at " << weft::Print(index) << ": " << found << ", expected "
                      << expected;
      }
    });
  }
}

TEST(Onednn, SaysItsVersion) {
  SKIP_IF_ABSENT();
  EXPECT_TRUE(LibraryVersion(Library::kOnednn).starts_with("onednn 3.2."))
      << LibraryVersion(Library::kOnednn);
  EXPECT_NE(LibraryVersion(Library::kOnednn).find("(tbb)"), std::string::npos);
}

TEST(Onednn, ConvolvesInEveryLayout) {
  SKIP_IF_ABSENT();
  for (const char* layout : {"abcd", "acdb", "aBcd8b", "aBcd16b", "any"}) {
    ExpectRight(
        fmt::format("onednn.convolution(src = x: f32[2, 16, 5, 4] {0}, weights = w: f32[16, 16, 3, "
                    "3] any const, bias = b: f32[16] a const, "
                    "post0 = r: f32[2, 16, 3, 2] {0}) -> (dst = y: f32[2, 16, 3, 2] {0}) "
                    "{{dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [2, 2], post "
                    "= [binary_add, relu]}}",
                    layout));
  }
  ExpectRight(
      "onednn.convolution(src = x: f32[1, 3, 8, 8] acdb+5, weights = w: f32[4, 3, 2, 3] abcd) -> "
      "(dst = y: f32[1, 4, 8, 6] abcd+3) "
      "{dilations = [1, 1], group = 1, pads = [0, 0, 1, 0], strides = [1, 1], post = [clip(0.0, "
      "6.0)]}");
}

TEST(Onednn, ConvolvesInEveryRankAndGroup) {
  SKIP_IF_ABSENT();
  ExpectRight(
      "onednn.convolution(src = x: f32[1, 4, 12] abc, weights = w: f32[6, 2, 3] any const) -> (dst "
      "= y: f32[1, 6, 10] abc) "
      "{dilations = [2], group = 2, pads = [2, 0], strides = [1], post = [swish(1.0, 0.0)]}");
  ExpectRight(
      "onednn.convolution(src = x: f32[1, 24, 6, 6] any, weights = w: f32[24, 1, 3, 3] any const, "
      "bias = b: f32[24] a const) -> "
      "(dst = y: f32[1, 24, 6, 6] any) {dilations = [1, 1], group = 24, pads = [1, 1, 1, 1], "
      "strides = [1, 1], post = [hardswish]}");
  ExpectRight(
      "onednn.convolution(src = x: f32[1, 2, 4, 4, 4] abcde, weights = w: f32[3, 2, 2, 2, 2] any "
      "const) -> (dst = y: f32[1, 3, 3, 3, 3] abcde) "
      "{dilations = [1, 1, 1], group = 1, pads = [0, 0, 0, 0, 0, 0], strides = [1, 1, 1], post = "
      "[leaky(0.1, 0.0)]}");
  ExpectRight(
      "onednn.deconvolution(src = x: f32[1, 4, 5, 5] abcd, weights = w: f32[4, 3, 3, 3] any const, "
      "bias = b: f32[6] a const) -> "
      "(dst = y: f32[1, 6, 10, 10] abcd) {dilations = [1, 1], group = 2, pads = [1, 1, 0, 0], "
      "strides = [2, 2], post = [tanh]}");
}

TEST(Onednn, Multiplies) {
  SKIP_IF_ABSENT();
  ExpectRight(
      "onednn.matmul(src = x: f32[5, 7] ab, weights = w: f32[9, 7] any const, bias = b: f32[9] a "
      "const, post1 = r: f32[5, 9] ab) -> "
      "(dst = y: f32[5, 9] ab) {trans_a = 0, trans_b = 1, post = [gelu_erf, binary_add]}");
  ExpectRight(
      "onednn.matmul(src = x: f32[7, 5] ab, weights = w: f32[7, 3] ab) -> (dst = y: f32[5, 3] ba) "
      "{trans_a = 1, trans_b = 0}");
  ExpectRight(
      "onednn.matmul(src = x: f32[2, 3, 4, 5] abcd, weights = w: f32[3, 5, 6] abc) -> (dst = y: "
      "f32[2, 3, 4, 6] abcd) {post = [gelu_tanh]}");
  ExpectRight(
      "onednn.matmul(src = x: f32[2, 3, 4, 5] abcd, weights = w: f32[5, 6] any const, bias = b: "
      "f32[1, 6] ab const, "
      "post0 = r: f32[2, 3, 4, 6] abcd, post1 = s: f32[6] a const, post2 = t: f32[] - const) -> "
      "(dst = y: f32[2, 3, 4, 6] abcd) "
      "{post = [binary_add, binary_mul, binary_sub]}");
  ExpectRight(
      "onednn.matmul(src = x: f32[2, 4, 3, 5] acbd, weights = w: f32[2, 4, 3, 5] acbd) -> (dst = "
      "y: f32[2, 4, 3, 3] abcd) {trans_b = 1}");
}

// Of every set of axes: the library knows some of them only, and one product of all rows others.
TEST(Onednn, TakesOperandsOfEveryBroadcast) {
  SKIP_IF_ABSENT();
  for (unsigned ones = 0; ones < 16; ++ones) {
    const auto shape = [&](std::array<int, 4> whole) {
      for (unsigned axis = 0; axis < 4; ++axis) whole[axis] = ones >> axis & 1 ? 1 : whole[axis];
      return fmt::format("{}", fmt::join(whole, ", "));
    };
    ExpectRight(fmt::format(
        "onednn.matmul(src = x: f32[2, 5, 4, 3] abcd, weights = w: f32[3, 6] any const, post0 = r: "
        "f32[2, 5, 4, 6] abcd, post1 = s: f32[{}] abcd) -> (dst = y: f32[2, 5, 4, 6] abcd) "
        "{{post = [binary_add, binary_mul]}}",
        shape({2, 5, 4, 6})));
    ExpectRight(fmt::format(
        "onednn.matmul(src = x: f32[2, 5, 4, 3] abcd, weights = w: f32[2, 5, 3, 6] abcd, post0 = "
        "s: f32[{}] abcd) -> (dst = y: f32[2, 5, 4, 6] abcd) {{post = [binary_sub]}}",
        shape({2, 5, 4, 6})));
    for (const char* layout : {"abcd", "acdb", "any"}) {
      ExpectRight(fmt::format(
          "onednn.convolution(src = x: f32[2, 16, 7, 6] {1}, weights = w: f32[16, 16, 3, 3] any "
          "const, post1 = s: f32[{0}] abcd) -> (dst = y: f32[2, 16, 5, 4] {1}) {{dilations = "
          "[1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1], post = [tanh, binary_mul]}}",
          shape({2, 16, 5, 4}), layout));
      ExpectRight(fmt::format(
          "onednn.deconvolution(src = x: f32[2, 16, 3, 2] {1}, weights = w: f32[16, 16, 3, 3] any "
          "const, post0 = s: f32[{0}] abcd) -> (dst = y: f32[2, 16, 5, 4] {1}) {{dilations = "
          "[1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1], post = [binary_add]}}",
          shape({2, 16, 5, 4}), layout));
    }
  }
}

// Where an inner product stands in, with everything that a matmul may have.
TEST(Onednn, MultipliesByWideWeights) {
  SKIP_IF_ABSENT();
  for (const char* trans : {"0", "1"}) {
    ExpectRight(fmt::format(
        "onednn.matmul(src = x: f32[2, 10, 7] abc, weights = w: f32[{}] any const, bias = b: "
        "f32[1030] a const, post1 = r: f32[2, 10, 1030] abc, post2 = s: f32[1030] a const) -> "
        "(dst = y: f32[2, 10, 1030] abc) "
        "{{trans_a = 0, trans_b = {}, post = [gelu_erf, binary_add, binary_mul]}}",
        *trans == '0' ? "7, 1030" : "1030, 7", trans));
  }
  ExpectRight(
      "onednn.matmul(src = x: f32[6, 17] ab, weights = w: f32[6, 1024] any const) -> (dst = y: "
      "f32[17, 1024] ab) {trans_a = 1, trans_b = 0}");
}

TEST(Onednn, PoolsAndMaps) {
  SKIP_IF_ABSENT();
  for (const char* how : {"max", "avg_include_padding", "avg_exclude_padding"}) {
    for (const char* layout : {"abcd", "acdb", "aBcd16b"}) {
      ExpectRight(
          fmt::format("onednn.pooling(src = x: f32[1, 16, 7, 7] {1}) -> (dst = y: f32[1, 16, 4, 4] "
                      "any) {{algorithm = \"{0}\", "
                      "dilations = [1, 1], kernel = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2], "
                      "post = [sigmoid]}}",
                      how, layout));
    }
  }
  for (const char* kind : {"relu", "hardsigmoid", "mish", "abs", "linear", "clip"}) {
    ExpectRight(
        fmt::format("onednn.eltwise(src = x: f32[3, 5] ab) -> (dst = y: f32[3, 5] ab) {{algorithm "
                    "= \"{}\", alpha = 0.25, beta = 0.5}}",
                    kind));
  }
  ExpectRight(
      "onednn.binary(src = x: f32[2, 8, 3] abc, src1 = z: f32[8, 1] ab) -> (dst = y: f32[2, 8, 3] "
      "abc) {algorithm = \"binary_mul\", post = [relu]}");
}

TEST(Onednn, NormalizesAndReorders) {
  SKIP_IF_ABSENT();
  const LibraryCall softmax =
      Parsed("onednn.softmax(src = x: f32[3, 4] ab) -> (dst = y: f32[3, 4] ab) {axis = 0}");
  auto y = RunIn(softmax, FillAll(softmax), 2);
  ASSERT_TRUE(y.ok()) << y.status().ToString();
  for (int64_t j = 0; j < 4; ++j)
    EXPECT_NEAR(At(*y, {0, j}) + At(*y, {1, j}) + At(*y, {2, j}), 1, 1e-6);
  const LibraryCall norm = Parsed(
      "onednn.layer_normalization(src = x: f32[3, 2, 4] abc, scale = s: f32[2, 4] ab const, shift "
      "= b: f32[2, 4] ab const) -> "
      "(dst = y: f32[3, 2, 4] abc) {axis = 1, epsilon = 0.00001}");
  const Tensors t = FillAll(norm);
  y = RunIn(norm, t, 2);
  ASSERT_TRUE(y.ok()) << y.status().ToString();
  ForEach(norm.outputs[0].shape, [&](const Shape& i) {
    double mean = 0, square = 0;
    ForEach({2, 4}, [&](const Shape& k) { mean += At(t.at("src"), {i[0], k[0], k[1]}) / 8; });
    ForEach({2, 4}, [&](const Shape& k) {
      square += std::pow(At(t.at("src"), {i[0], k[0], k[1]}) - mean, 2) / 8;
    });
    const double expected =
        (At(t.at("src"), i) - mean) / std::sqrt(square + 1e-5) * At(t.at("scale"), {i[1], i[2]}) +
        At(t.at("shift"), {i[1], i[2]});
    EXPECT_NEAR(At(*y, i), expected, 1e-5);
  });
  const LibraryCall reorder = Parsed(
      "onednn.reorder(src = x: f32[2, 3, 4] abc) -> (dst = y: f32[4, 2, 3] bca) {perm = [2, 0, "
      "1]}");
  y = RunIn(reorder, FillAll(reorder), 2);
  ASSERT_TRUE(y.ok()) << y.status().ToString();
  ForEach({4, 2, 3}, [&](const Shape& i) {
    EXPECT_EQ(At(*y, i), At(FillAll(reorder).at("src"), {i[1], i[2], i[0]}));
  });
  const LibraryCall blocks = Parsed(
      "onednn.reorder(src = x: f32[1, 20, 2, 2] abcd) -> (dst = y: f32[1, 20, 2, 2] aBcd16b)");
  y = RunIn(blocks, FillAll(blocks), 2);
  ASSERT_TRUE(y.ok()) << y.status().ToString();
  EXPECT_EQ(*y, FillAll(blocks).at("src"));
}

// What the library runs; "" if only its loops for any layout.
std::string Implementation(const std::string& text) {
  const LibraryCall call = Parsed(text);
  const Tensors tensors = FillAll(call);
  std::vector<Tensor> constants(call.inputs.size());
  for (size_t i = 0; i < constants.size(); ++i) {
    if (call.inputs[i].constant) constants[i] = tensors.at(call.inputs[i].role);
  }
  const auto prepared = Prepare(call, constants);
  EXPECT_TRUE(prepared.ok()) << prepared.status().ToString();
  const std::string name = prepared.ok() ? (*prepared)->Implementation() : "";
  return name.find("ref:") == std::string::npos ? name : "";
}

TEST(Onednn, MixesLayoutsWithoutFallingToSlowLoops) {
  SKIP_IF_ABSENT();
  for (const char* src : {"abcd", "acdb", "acdb+4", "aBcd8b"}) {
    for (const char* dst : {"abcd", "acdb", "aBcd8b", "any"}) {
      const std::string calls[] = {
          fmt::format(
              "onednn.convolution(src = x: f32[1, 3, 12, 12] {}, weights = w: f32[16, 3, 3, 3] any "
              "const, bias = b: f32[16] a const) -> (dst = y: f32[1, 16, 6, 6] {}) {{dilations = "
              "[1, 1], group = 1, pads = [1, 1, 1, 1], strides = [2, 2], post = [relu]}}",
              src, dst),
          fmt::format(
              "onednn.convolution(src = x: f32[1, 20, 6, 6] {}, weights = w: f32[20, 1, 3, 3] any "
              "const) -> (dst = y: f32[1, 20, 6, 6] {}) {{dilations = [1, 1], group = 20, pads = "
              "[1, 1, 1, 1], strides = [1, 1]}}",
              src, dst),
          fmt::format(
              "onednn.convolution(src = x: f32[1, 24, 6, 6] {}, weights = w: f32[24, 6, 3, 3] "
              "abcd) -> (dst = y: f32[1, 24, 6, 6] {}) {{dilations = [1, 1], group = 4, pads = "
              "[1, 1, 1, 1], strides = [1, 1]}}",
              src, dst),
          fmt::format(
              "onednn.convolution(src = x: f32[2, 16, 5, 4] {0}, weights = w: f32[16, 16, 1, 1] "
              "any const, post0 = r: f32[2, 16, 5, 4] {1}, post2 = s: f32[2, 16, 5, 4] abcd "
              "const) -> (dst = y: f32[2, 16, 5, 4] {1}) {{dilations = [1, 1], group = 1, pads = "
              "[0, 0, 0, 0], strides = [1, 1], post = [binary_add, relu, binary_mul]}}",
              src, dst),
          fmt::format(
              "onednn.deconvolution(src = x: f32[1, 16, 5, 5] {}, weights = w: f32[16, 16, 2, 2] "
              "any const) -> (dst = y: f32[1, 16, 10, 10] {}) {{dilations = [1, 1], group = 1, "
              "pads = [0, 0, 0, 0], strides = [2, 2]}}",
              src, dst),
          fmt::format(
              "onednn.pooling(src = x: f32[1, 20, 7, 7] {}) -> (dst = y: f32[1, 20, 4, 4] {}) "
              "{{algorithm = \"max\", dilations = [1, 1], kernel = [3, 3], pads = [1, 1, 1, 1], "
              "strides = [2, 2]}}",
              src, dst),
          fmt::format(
              "onednn.pooling(src = x: f32[1, 20, 7, 7] {}) -> (dst = y: f32[1, 20, 1, 1] {}) "
              "{{algorithm = \"avg_exclude_padding\", dilations = [1, 1], kernel = [7, 7], pads = "
              "[0, 0, 0, 0], strides = [1, 1]}}",
              src, dst),
          fmt::format(
              "onednn.binary(src = x: f32[1, 20, 3, 5] {0}, src1 = z: f32[1, 20, 3, 5] abcd) -> "
              "(dst = y: f32[1, 20, 3, 5] {1}) {{algorithm = \"binary_mul\"}}",
              src, dst),
          fmt::format(
              "onednn.eltwise(src = x: f32[1, 20, 3, 5] {}) -> (dst = y: f32[1, 20, 3, 5] {}) "
              "{{algorithm = \"relu\"}}",
              src, dst)};
      for (const std::string& text : calls) {
        EXPECT_NE(Implementation(text), "") << text;
        ExpectRight(text);
      }
    }
  }
  for (const char* src : {"abc", "acb", "bac"}) {
    const std::string text = fmt::format(
        "onednn.matmul(src = x: f32[2, 4, 5] {0}, weights = w: f32[2, 6, 5] abc, post0 = r: "
        "f32[2, 4, 6] {0}) -> (dst = y: f32[2, 4, 6] acb) {{trans_b = 1, post = [binary_add]}}",
        src);
    EXPECT_NE(Implementation(text), "") << text;
    ExpectRight(text);
  }
}

// Between layouts it would write outside of the result.
TEST(Onednn, SoftmaxKeepsTheLayout) {
  const auto call = [](const char* from, const char* to, int axis) {
    return Parsed(
        fmt::format("onednn.softmax(src = x: f32[2, 16, 1, 1] {}) -> (dst = y: f32[2, 16, "
                    "1, 1] {}) {{axis = {}}}",
                    from, to, axis));
  };
  for (const int axis : {1, 2, 3})
    for (const char* layout : {"abcd", "acdb"}) {
      const LibraryCall same = call(layout, layout, axis);
      const Tensors tensors = FillAll(same);
      const auto y = RunIn(same, tensors, 2);
      ASSERT_TRUE(y.ok()) << y.status().ToString();
      ForEach(same.outputs[0].shape, [&](const Shape& index) {
        double sum = 0;
        Shape at = index;
        for (at[axis] = 0; at[axis] < same.outputs[0].shape[axis]; ++at[axis])
          sum += std::exp(At(tensors.at("src"), at));
        EXPECT_NEAR(At(*y, index), std::exp(At(tensors.at("src"), index)) / sum, 1e-6);
      });
      const LibraryCall mixed = call(layout, layout[1] == 'b' ? "acdb" : "abcd", axis);
      EXPECT_FALSE(RunIn(mixed, FillAll(mixed), 2).ok());
    }
}

TEST(Onednn, TellsThePreferredLayouts) {
  SKIP_IF_ABSENT();
  const LibraryCall call = Parsed(
      "onednn.convolution(src = x: f32[1, 64, 14, 14] any, weights = w: f32[64, 64, 3, 3] any "
      "const) -> (dst = y: f32[1, 64, 14, 14] any) "
      "{dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1]}");
  auto layouts = PreferredLayouts(call);
  ASSERT_TRUE(layouts.ok()) << layouts.status().ToString();
  ASSERT_EQ(layouts->size(), 3u);
  EXPECT_FALSE((*layouts)[0].IsPlain())
      << Print((*layouts)[0]);  // no machine wants plain channels here
  EXPECT_TRUE((*layouts)[1].IsPlain());
}

TEST(Onednn, RefusesWhatDoesNotFit) {
  SKIP_IF_ABSENT();
  const auto error = [](const std::string& text) {
    const LibraryCall call = Parsed(text);
    auto result = RunIn(call, FillAll(call), 1);
    return result.ok() ? "accepted" : result.status().ToString();
  };
  EXPECT_NE(error("onednn.fft(src = x: f32[2] a) -> (dst = y: f32[2] a)").find("no operation fft"),
            std::string::npos);
  EXPECT_NE(error("onednn.eltwise(src = x: f32[2] a) -> (dst = y: f32[3] a) {algorithm = \"relu\"}")
                .find("onednn.eltwise"),
            std::string::npos);
  EXPECT_NE(error("onednn.eltwise(src = x: f32[2] a) -> (dst = y: f32[2] a) {algorithm = \"frob\"}")
                .find("frob"),
            std::string::npos);
  EXPECT_NE(error("onednn.eltwise(src = x: f32[2] a) -> (dst = y: f32[2] a) {algorithm = \"abs\", "
                  "post = [linear(1.0, 0.25)]}")
                .find("post-ops"),
            std::string::npos);
  EXPECT_NE(
      error("onednn.pooling(src = x: f32[2, 3, 4] abc, post0 = z: f32[2, 3, 1] abc) -> (dst = "
            "y: f32[2, 3, 1] abc) {algorithm = \"max\", dilations = [1], kernel = [4], pads = "
            "[0, 0], strides = [1], post = [binary_add]}")
          .find("for each channel"),
      std::string::npos);
  EXPECT_NE(error("onednn.matmul(src = x: f32[4, 3] ab, weights = w: f32[3, 2] ab, post0 = z: "
                  "f32[2, 2] ab) -> (dst = y: f32[4, 2] ab) {post = [binary_add]}")
                .find("does not broadcast"),
            std::string::npos);
  EXPECT_NE(error("onednn.matmul(src = x: f32[2, 3] ab, weights = w: f32[4, 2] ab) -> (dst = y: "
                  "f32[2, 2] ab)")
                .find("onednn.matmul"),
            std::string::npos);
  EXPECT_NE(error("onednn.convolution(src = x: f32[1, 2, 3] abc, weights = w: f32[2, 2, 1] abc) -> "
                  "(dst = y: f32[1, 2, 3] abc) "
                  "{strides = [0], dilations = [1], pads = [0, 0]}")
                .find("do not fit"),
            std::string::npos);
  EXPECT_NE(error("onednn.reorder(src = x: f32[2, 4] ab) -> (dst = y: f32[2, 4] aB2b)")
                .find("layout aB2b"),
            std::string::npos);
  EXPECT_NE(error("onednn.binary(src = x: f32[2] a, src1 = z: f32[2] a) -> (dst = y: f32[2] a) "
                  "{algorithm = \"binary_add\", factors = [1.0, 2.0], post = [factors]}")
                .find("factors for 0 channels"),
            std::string::npos);
  EXPECT_NE(error("onednn.eltwise(foo = x: f32[2] a) -> (dst = y: f32[2] a) {algorithm = \"relu\"}")
                .find("no src"),
            std::string::npos);
  for (std::string role : {"foo", "post1", "postx", "post99999999999999999999"})
    EXPECT_NE(error("onednn.eltwise(src = x: f32[2] a, " + role +
                    " = x: f32[2] a) -> (dst = y: f32[2] a) {algorithm = \"relu\"}")
                  .find("unknown role"),
              std::string::npos);
  EXPECT_NE(error("onednn.eltwise(src = x: f32[2] a, scale = x: f32[2] a) -> (dst = y: f32[2] a) "
                  "{algorithm = \"relu\"}")
                .find("operand scale does not fit"),
            std::string::npos);
  EXPECT_NE(error("onednn.layer_normalization(src = x: f32[4, 64] ab, scale = g: f32[1] a) -> "
                  "(dst = y: f32[4, 64] ab) {axis = 1}")
                .find("operand scale does not fit"),
            std::string::npos);
  EXPECT_NE(error("onednn.layer_normalization(src = x: f32[4, 64] ba, scale = g: f32[64] a) -> "
                  "(dst = y: f32[4, 64] ab) {axis = 1}")
                .find("plain layout"),
            std::string::npos);
  for (std::string bias : {"f32[1, 8, 1] aBc8b", "f32[4, 2] ba"})
    EXPECT_NE(error("onednn.matmul(src = x: f32[4, 3] ab, weights = w: f32[3, 8] ab, bias = b: " +
                    bias + ") -> (dst = y: f32[4, 8] ab)")
                  .find("plain layout"),
              std::string::npos);
  const LibraryCall call = Parsed(
      "onednn.matmul(src = x: f32[2, 2] ab, weights = w: f32[2, 2] any const) -> (dst = y: f32[2, "
      "2] ab)");
  EXPECT_EQ(Prepare(call, {}).status().code(), Code::kUsage);
}

TEST(Onednn, HidesOnRequest) {
  setenv("WEFT_ONEDNN", "none", 1);
  EXPECT_EQ(LibraryVersion(Library::kOnednn), "");
  const LibraryCall call =
      Parsed("onednn.eltwise(src = x: f32[2] a) -> (dst = y: f32[2] a) {algorithm = \"relu\"}");
  EXPECT_EQ(Prepare(call, {}).status().code(), Code::kMissing);
  EXPECT_EQ(PreferredLayouts(call).status().code(), Code::kMissing);
  unsetenv("WEFT_ONEDNN");
}

TEST(Prepare, RunsNativeKernelsInTheCallersMemory) {
  const LibraryCall call =
      Parsed("native.Add(in0 = x: f32[2] a, in1 = c: f32[] - const) -> (out0 = y: f32[2] a)");
  const Tensor constants[] = {Tensor(), Filled({}, 3)};
  auto prepared = Prepare(call, constants);
  ASSERT_TRUE(prepared.ok()) << prepared.status().ToString();
  const float x[] = {1, 2}, c = constants[1].as<float>()[0];
  float y[2];
  const void* const in[] = {x, nullptr};
  void* const out[] = {y};
  EXPECT_TRUE((*prepared)->Run(in, out, nullptr).ok());
  EXPECT_EQ(y[1], 2 + c);
  EXPECT_FALSE(
      Prepare(Parsed("native.NonZero(in0 = x: f32[2] a) -> (out0 = y: i64[1, ?] ab)"), {}).ok());
  auto more = Prepare(
      Parsed("native.Neg(in0 = x: f32[2] a) -> (out0 = y: f32[2] a, out1 = z: f32[2] a)"), {});
  ASSERT_TRUE(more.ok());
  void* const both[] = {y, y};
  EXPECT_NE((*more)->Run(std::span(in, 1), both, nullptr).ToString().find("makes no output 1"),
            std::string::npos);
  auto wrong = Prepare(Parsed("native.Neg(in0 = x: f32[2] a) -> (out0 = y: f32[3] a)"), {});
  ASSERT_TRUE(wrong.ok());
  EXPECT_NE((*wrong)->Run(std::span(in, 1), out, nullptr).ToString().find("expected f32[3]"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::fallback
