#include "graph/codes.h"

#include "graph/infer.h"
#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

// The operators, and the type of y, after lowering; or the error.
std::string Lowered(const std::string& inputs, const std::string& body) {
  Graph g = Parsed("graph g (" + inputs + ") -> (y) {\n" + body + "\n}");
  Status status = InferShapes(g);
  if (status.ok()) status = LowerCodes(g);
  if (!status.ok()) return status.ToString();
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).ToString();
  EXPECT_TRUE(VerifyShapes(g).ok());
  for (const Value& value : g.values)
    EXPECT_FALSE(value.dtype && IsCode(*value.dtype)) << value.name;
  return OpsOf(g) + " " + TypeOf(g, "y");
}

TEST(LowerCodes, WhatHasNoneStays) {
  EXPECT_EQ(Lowered("x: f32[2]", "y = Cast(x) {to = 10}"), "Cast f16[2]");
}

TEST(LowerCodes, Conversions) {
  EXPECT_EQ(Lowered("x: f8e4m3fn[2]", "y = Cast(x) {to = 1}"), "DecodeFloat f32[2]");
  EXPECT_EQ(Lowered("x: f8e5m2[2]", "y = Cast(x) {to = 10}"), "DecodeFloat Cast f16[2]");
  EXPECT_EQ(Lowered("x: f16[2]", "y = Cast(x) {to = 23}"), "Cast EncodeFloat u8[2]");
  EXPECT_EQ(Lowered("x: f8e5m2[2], z: f8e4m3fn[1]", "y = CastLike(x, z)"),
            "DecodeFloat EncodeFloat u8[2]");
  EXPECT_EQ(Lowered("x: f8e8m0[2]", "y = Cast(x) {to = 24}"), "Identity u8[2]");
  EXPECT_EQ(Lowered("x: i2[2]", "y = Cast(x) {to = 3}"), "Cast i8[2]");
  EXPECT_EQ(Lowered("x: f32[2]", "y = Cast(x) {to = 25}"), "Cast BitwiseAnd Cast u8[2]");
  EXPECT_EQ(Lowered("x: f32[2]", "y = Cast(x) {to = 26}"),
            "Cast BitwiseAnd Cast BitwiseXor Sub i8[2]");
  EXPECT_EQ(Lowered("x: f8e4m3fn[2]", "y = IsNaN(x)"), "DecodeFloat IsNaN bool[2]");
}

TEST(LowerCodes, Bits) {
  EXPECT_EQ(Lowered("x: f8e4m3fn[2]", "y = BitCast(x) {to = 2}"), "Identity u8[2]");
  EXPECT_EQ(Lowered("x: f8e4m3fn[2]", "y = BitCast(x) {to = 3}"), "BitCast i8[2]");
  EXPECT_NE(Lowered("x: f4e2m1[2]", "y = BitCast(x) {to = 2}").find("4 and 8 bits"),
            std::string::npos);
  EXPECT_NE(Lowered("x: f32[2]", "y = BitCast(x) {to = 10}").find("32 and 16 bits"),
            std::string::npos);
}

TEST(LowerCodes, MovesStayAndConstantsFollow) {
  EXPECT_EQ(Lowered("x: f8e4m3fn[2, 3]", "t = Transpose(x)\ny = Identity(t)"),
            "Transpose Identity u8[3, 2]");
  EXPECT_EQ(
      Lowered("x: f32[2]", "w: f8e4m3fn[2] = const(56, 60)\nz = Cast(w) {to = 1}\ny = Add(x, z)"),
      "DecodeFloat Add f32[2]");
  const std::string found =
      Lowered("x: f8e4m3fn[2]", "y = Concat(x, x) {axis = 0, name = \"/join\"}");
  EXPECT_NE(found.find("input 0"), std::string::npos) << found;  // ONNX does not allow it
}

TEST(LowerCodes, Quantization) {
  EXPECT_EQ(
      Lowered("x: f32[2, 4], s: f32[4], z: f8e4m3fn[4]", "y = QuantizeLinear(x, s, z) {axis = 1}"),
      "Reshape Div DecodeFloat Reshape Add EncodeFloat u8[2, 4]");
  EXPECT_EQ(Lowered("x: f8e4m3fn[2, 4], s: f32[2, 2]",
                    "y = DequantizeLinear(x, s) {axis = 1, block_size = 2}"),
            "DecodeFloat Reshape Expand Reshape Mul f32[2, 4]");
  EXPECT_EQ(Lowered("x: f32[4], s: f32[], z: i2[]", "y = QuantizeLinear(x, s, z)"),
            "Reshape Div Round Cast Reshape Add Clip Cast i8[4]");
  EXPECT_EQ(Lowered("x: f4e2m1[5], s: f32[3]",  // the last block is cut
                    "y = DequantizeLinear(x, s) {axis = 0, block_size = 2}"),
            "DecodeFloat Reshape Expand Reshape Slice Mul f32[5]");
  EXPECT_EQ(Lowered("x: f8e4m3fn[2, 4], s: f32[2, 1]",
                    "y = DequantizeLinear(x, s) {axis = 1, block_size = 9}"),
            "DecodeFloat Reshape Expand Reshape Mul f32[2, 4]");
  EXPECT_EQ(Lowered("x: i8[2, 4], s: f8e8m0[4]", "y = DequantizeLinear(x, s) {output_dtype = 10}"),
            "Cast DecodeFloat Reshape Mul Cast f16[2, 4]");
  const std::string found = Lowered("x: f8e4m3fn[2, 4], s: f32[3]", "y = DequantizeLinear(x, s)");
  EXPECT_NE(found.find("expected a scalar or [4]"), std::string::npos) << found;
}

}  // namespace
}  // namespace weft::graph
