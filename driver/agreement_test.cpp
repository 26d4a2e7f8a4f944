// What rounding explains, and what it does not.
#include "driver/agreement.h"

#include <gtest/gtest.h>

#include "driver/accuracy.h"
#include "driver/inputs.h"
#include "driver/reference.h"
#include "driver/testing.h"

namespace weft::driver {
namespace {

constexpr const char* kBytes =
    "graph g (x: f32[64, 256], w: f32[256, 128]) -> (y) {\n"
    "scale: f32[] = const(0.05)\nzero: u8[] = const(128)\n"
    "m: f32[64, 128] = MatMul(x, w)\ny: u8[64, 128] = QuantizeLinear(m, scale, zero)\n}";

// What follows a quantization multiplies what falls to the other side.
constexpr const char* kBehindBytes =
    "graph g (x: f32[2048, 256], w: f32[256, 8], v: f32[8, 8]) -> (y) {\n"
    "scale: f32[] = const(0.2)\nzero: u8[] = const(128)\n"
    "m: f32[2048, 8] = MatMul(x, w)\nq: u8[2048, 8] = QuantizeLinear(m, scale, zero)\n"
    "d: f32[2048, 8] = DequantizeLinear(q, scale, zero)\ny: f32[2048, 8] = MatMul(d, v)\n}";

class Agreement : public ::testing::Test {
 protected:
  void Open(const char* text) {
    graph_ = OpenGraph(testing::Parsed(text), testing::Options())->graph;
    inputs_ = *GenerateInputs(graph_, 0);
    reference_ = *RunReference(graph_, inputs_);
  }
  // As another order of summation may give them, by a seed that no referee takes.
  std::vector<Tensor> Jittered(uint64_t seed) const {
    return *RunReference(graph_, inputs_, Rounding::kJittered, 1000 + seed);
  }
  Status Check(const std::vector<Tensor>& outputs) const {
    const Way ways[] = {{"one", reference_}, {"other", outputs}};
    return CheckAgreement(graph_, inputs_, ways);
  }

  graph::Graph graph_;
  std::vector<Tensor> inputs_, reference_;
};

TEST_F(Agreement, AStepThatFallsToTheOtherSideIsNoFault) {
  for (const char* text : {kBytes, kBehindBytes}) {
    Open(text);
    int to_explain = 0;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const std::vector<Tensor> jittered = Jittered(seed);
      to_explain += !CompareOutputs(jittered, reference_, 1e-3).within;
      EXPECT_EQ(Check(jittered).ToString(), Status().ToString());
    }
    EXPECT_GT(to_explain, 0) << text;
  }
}

// Each is a byte that rounding moves somewhere else, or so many that it moves but a few.
TEST_F(Agreement, WrongBytesAreFound) {
  Open(kBytes);
  std::vector<Tensor> row = reference_, far = reference_;
  for (int64_t j = 0; j < 128; ++j) SetElemInt(row[0], 128 * 63 + j, ElemAsInt(row[0], j) ^ 1);
  SetElemInt(far[0], 5, ElemAsInt(far[0], 5) ^ 64);
  EXPECT_EQ(Check(row).code(), Code::kInternal);
  EXPECT_NE(Check(row).what().find("of 8192 elements"), std::string::npos) << Check(row).what();
  EXPECT_EQ(Check(far).code(), Code::kInternal);
  EXPECT_EQ(Check({}).code(), Code::kInternal);
}

TEST_F(Agreement, WrongFloatsBehindBytesAreFound) {
  Open(kBehindBytes);
  std::vector<Tensor> twice = reference_, moved = reference_;
  for (int64_t i = 0; i < 64; ++i) SetElem(twice[0], i, 2 * ElemAsDouble(twice[0], i));
  for (int64_t i = 0; i + 1 < 64; ++i) SetElem(moved[0], i, ElemAsDouble(moved[0], i + 1));
  EXPECT_EQ(Check(twice).code(), Code::kInternal);
  EXPECT_EQ(Check(moved).code(), Code::kInternal);
}

// Where no value was rounded there is nothing to jitter.
TEST_F(Agreement, WholeNumbersStay) {
  Open(
      "graph g (x: i32[64]) -> (y) {\nhalf: f32[] = const(0.5)\nf: f32[64] = Cast(x) {to = 1}\n"
      "h: f32[64] = Mul(f, half)\ny: f32[64] = Floor(h)\n}");
  EXPECT_EQ(Jittered(0), reference_);
}

}  // namespace
}  // namespace weft::driver
