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

// What a branch captures is bytes there, too.
TEST(LowerCodes, Subgraphs) {
  Graph g = Parsed(
      "graph g (c: bool[], x: f8e4m3fn[2]) -> (y) {\ny = If(c) {else_branch = graph1, "
      "then_branch = graph2}\nsubgraph graph1 g1 () -> (a) {\ncaptured x: f8e4m3fn[2]\n"
      "a = Cast(x) {to = 19}\n}\nsubgraph graph2 g2 () -> (b) {\ncaptured x: f8e4m3fn[2]\n"
      "f = Cast(x) {to = 1}\nh = Add(f, f)\nb = Cast(h) {to = 19}\n}\n}");
  ASSERT_TRUE(InferShapes(g).ok());
  ASSERT_TRUE(LowerCodes(g).ok());
  ASSERT_TRUE(VerifyShapes(g).ok());
  ASSERT_EQ(OpsOf(g), "If");
  EXPECT_EQ(TypeOf(g, "y"), "u8[2]");
  const auto branches = Subgraphs(g.nodes[0]);
  EXPECT_EQ(OpsOf(*branches[0]), "DecodeFloat EncodeFloat");
  EXPECT_EQ(OpsOf(*branches[1]), "DecodeFloat Add EncodeFloat");
  for (const auto& branch : branches) EXPECT_EQ(TypeOf(*branch, "x"), "u8[2]");
}

TEST(LowerCodes, Quantization) {
  EXPECT_EQ(
      Lowered("x: f32[2, 4], s: f32[4], z: f8e4m3fn[4]", "y = QuantizeLinear(x, s, z) {axis = 1}"),
      "Reshape Div DecodeFloat Reshape Add EncodeFloat u8[2, 4]");
  EXPECT_EQ(Lowered("x: f8e4m3fn[2, 4], s: f32[2, 2]",
                    "y = DequantizeLinear(x, s) {axis = 1, block_size = 2}"),
            "DecodeFloat Reshape Expand Reshape Mul f32[2, 4]");
  EXPECT_EQ(Lowered("x: f32[4], s: f32[], z: i2[]", "y = QuantizeLinear(x, s, z)"),
            "Div Round Cast Add Clip Cast i8[4]");
  EXPECT_EQ(Lowered("x: f4e2m1[5], s: f32[3]",  // the last block is cut
                    "y = DequantizeLinear(x, s) {axis = 0, block_size = 2}"),
            "DecodeFloat Reshape Expand Reshape Slice Mul f32[5]");
  EXPECT_EQ(Lowered("x: f8e4m3fn[2, 4], s: f32[2, 1]",
                    "y = DequantizeLinear(x, s) {axis = 1, block_size = 9}"),
            "DecodeFloat Reshape Expand Reshape Mul f32[2, 4]");
  EXPECT_EQ(Lowered("x: i8[2, 4], s: f8e8m0[4]", "y = DequantizeLinear(x, s) {output_dtype = 10}"),
            "Cast DecodeFloat Reshape Mul Cast f16[2, 4]");
  // Extents may be what a run brings.
  EXPECT_EQ(Lowered("x: f32[n, 4], s: f32[4]",
                    "symbol n in 1:9\ny = QuantizeLinear(x, s) {output_dtype = 17}"),
            "Reshape Div EncodeFloat u8[n, 4]");
  EXPECT_EQ(Lowered("x: f8e4m3fn[n, m], s: f32[n, k]",
                    "symbol n in 1:9\nsymbol m in 1:9\nsymbol k in 1:9\n"
                    "y = DequantizeLinear(x, s) {axis = 1, block_size = 2}"),
            "DecodeFloat Shape ConstantOfShape CumSum Div Gather Mul f32[n, m]");
  for (const char* axis : {"-9", "-1000000", "7"})  // of no number but one
    EXPECT_EQ(Lowered("x: f32[n, 4], s: f32[k]", std::string("symbol n in 1:9\nsymbol k in 1:9\n") +
                                                     "y = QuantizeLinear(x, s) {axis = " + axis +
                                                     ", output_dtype = 17}"),
              "Reshape Div EncodeFloat u8[n, 4]");
  const std::string found = Lowered("x: f8e4m3fn[2, 4], s: f32[3]", "y = DequantizeLinear(x, s)");
  EXPECT_NE(found.find("expected a scalar or [4]"), std::string::npos) << found;
}

}  // namespace
}  // namespace weft::graph
