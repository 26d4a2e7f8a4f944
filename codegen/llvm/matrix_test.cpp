// Sums of products as matrices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "codegen/llvm/check_for_test.h"
#include "codegen/llvm/emit.h"

namespace weft::codegen {
namespace {

// `rows` times `lanes` sums over three taps of `quads` quads of steps, which begin at `start`.
static std::string MatrixNest(std::string_view x, std::string_view w, int rows, int lanes,
                              int quads, std::string_view start) {
  const std::string each =
      rows == 1 ? fmt::format("vector n{{0}} = 0:{} {{{{ {{1}} }}}}", lanes)
                : fmt::format("unroll m{{0}} = 0:{} {{{{ vector n{{0}} = 0:{} {{{{ {{1}} }}}} }}}}",
                              rows, lanes);
  const auto in_rows = [&](int k, const std::string& text) {
    return fmt::format(fmt::runtime(each), k, text);
  };
  const std::string at = rows == 1 ? "0, n" : "m1, n";
  return fmt::format(
      "loops k (x: in {}[3, {}, {}], w: in {}[3, {}, {}] layout \"aBc4b\", y: out i32[{}, {}]) {{ "
      "single {{ {} for r = 0:3 {{ for k = 0:{} {{ {} }} }} }} }}",
      x, rows, 4 * quads, w, 4 * quads, lanes, rows, lanes,
      in_rows(0, fmt::format("y[{}, n0] = {}", rows == 1 ? "0" : "m0", start)), quads,
      in_rows(1, fmt::format("unroll s = 0:4 {{ y[{0}1] = y[{0}1] + (cast(x[r, {1}, 4*k + s]):i32 "
                             "* cast(w[r, 4*k + s, n1]):i32) }}",
                             at, rows == 1 ? "0" : "m1")));
}

TEST(Matrices, OfBytes) {
  const auto count = [](const std::string& nest, std::string_view name) {
    const auto ir = EmitLlvmIr(Nest(nest), {.isa = Isa::kX86V4Amx}, false);
    EXPECT_TRUE(ir.ok());
    const std::string call = fmt::format("call void @llvm.x86.{}(", name);
    int calls = 0;
    for (size_t at = ir->find(call); at != ir->npos; at = ir->find(call, at + 1)) ++calls;
    return calls;
  };
  const auto both = [](std::string_view x, std::string_view w) {
    return MatrixNest(x, w, 32, 32, 16, "0:i32");
  };
  EXPECT_EQ(count(both("u8", "i8"), "tdpbusd"), 4);
  EXPECT_EQ(count(both("i8", "u8"), "tdpbsud"), 4);
  EXPECT_EQ(count(both("u8", "u8"), "tdpbuud"), 4);
  EXPECT_EQ(count(both("i8", "i8"), "tdpbssd"), 4);
  EXPECT_EQ(count(both("u8", "i8"), "tilezero"), 4);
  EXPECT_EQ(count(both("u8", "i8"), "tileloadd64"), 4);  // of the factors
  EXPECT_EQ(count(MatrixNest("u8", "i8", 32, 32, 16, "7:i32"), "tileloadd64"), 8);
  EXPECT_EQ(count(MatrixNest("u8", "i8", 33, 32, 16, "0:i32"), "tdpbusd"), 0);  // ten registers
  EXPECT_EQ(count(MatrixNest("u8", "i8", 7, 33, 23, "0:i32"), "tdpbusd"), 6);   // 16 and 7 quads
  EXPECT_EQ(count(MatrixNest("u8", "i8", 7, 33, 24, "0:i32"), "tdpbusd"), 3);   // twice 12
  EXPECT_EQ(count(MatrixNest("u8", "i8", 7, 33, 24, "0:i32"), "ldtilecfg"), 1);
  // Beyond what a tile holds in each direction, and all that registers take turns for.
  for (const int rows : {1, 16, 29, 49, 64}) {
    for (const int lanes : {9, 16, 37, 64}) {
      for (const int quads : {1, 21, 24, 48})
        Check(MatrixNest("u8", "i8", rows, lanes, quads, rows % 2 ? "0:i32" : "7:i32"),
              {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
    }
  }
  for (const char* x : {"u8", "i8"})
    for (const char* w : {"u8", "i8"})
      Check(MatrixNest(x, w, 20, 40, 17, "7:i32"), {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
}

// Of bfloat16, in blocks of `steps`. `between` stands between the two sums and their sum.
std::string BfloatMatrixNest(int rows, int lanes, int blocks, int steps, std::string_view start,
                             std::string_view between = "") {
  return fmt::format(
      "loops k (x: in bf16[3, {0}, {4}], w: in bf16[3, {4}, {1}] layout \"aBc2b\", "
      "y: out f32[{0}, {1}], z: out f32[{1}]) {{ reg p: f32[2, {1}] single {{ "
      "vector n0 = 0:{1} {{ z[n0] = 0.0 }} "
      "unroll m0 = 0:{0} {{ vector n0 = 0:{1} {{ y[m0, n0] = {5} }} }} "
      "for r = 0:3 {{ for k = 0:{2} {{ unroll m = 0:{0} {{ vector n = 0:{1} {{ "
      "p[0, n] = 0.0 p[1, n] = 0.0 unroll s = 0:{3} {{ p[s mod 2, n] = "
      "fma_flush(x[r, m, {3}*k + s], w[r, {3}*k + s, n], p[s mod 2, n]) }} {6} "
      "y[m, n] = add_flush(y[m, n], add_flush(p[0, n], p[1, n])) }} }} }} }} }} }}",
      rows, lanes, blocks, steps, blocks * steps, start, between);
}

TEST(Matrices, OfBfloat) {
  const auto count = [](const std::string& nest, std::string_view name) {
    const auto ir = EmitLlvmIr(Nest(nest), {.isa = Isa::kX86V4Amx}, false);
    EXPECT_TRUE(ir.ok()) << ir.status().ToString();
    const std::string call = fmt::format("call void @llvm.x86.{}(", name);
    int calls = 0;
    for (size_t at = ir->find(call); at != ir->npos; at = ir->find(call, at + 1)) ++calls;
    return calls;
  };
  EXPECT_EQ(count(BfloatMatrixNest(32, 32, 4, 32, "0.0"), "tdpbf16ps"), 4);
  EXPECT_EQ(count(BfloatMatrixNest(32, 32, 4, 32, "0.0"), "tilezero"), 4);
  EXPECT_EQ(count(BfloatMatrixNest(32, 32, 4, 32, "0.0"), "tileloadd64"), 4);  // of the factors
  EXPECT_EQ(count(BfloatMatrixNest(32, 32, 4, 32, "-0.0"), "tileloadd64"), 8);
  EXPECT_EQ(count(BfloatMatrixNest(7, 20, 2, 6, "0.0"), "tdpbf16ps"), 2);
  EXPECT_EQ(count(BfloatMatrixNest(7, 20, 2, 5, "0.0"), "tdpbf16ps"), 0);   // half a pair
  EXPECT_EQ(count(BfloatMatrixNest(7, 20, 2, 34, "0.0"), "tdpbf16ps"), 0);  // beyond a tile
  // The two sums are read.
  const std::string read = BfloatMatrixNest(7, 20, 2, 6, "0.0", "z[n] = p[1, n]");
  EXPECT_EQ(count(read, "tdpbf16ps"), 0);
  Check(read, {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
  std::string later = BfloatMatrixNest(7, 20, 2, 6, "0.0");
  EXPECT_EQ(count(later, "tdpbf16ps"), 2);
  later.insert(later.size() - 3, "vector n1 = 0:20 { z[n1] = p[1, n1] } ");
  EXPECT_EQ(count(later, "tdpbf16ps"), 0);
  Check(later, {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
  // Another loop begins with a store to one of them, or the sum is one of them.
  std::string after = BfloatMatrixNest(7, 20, 2, 6, "0.0");
  after.insert(after.size() - 3, "vector n1 = 0:20 { p[0, n1] = 5.0 z[n1] = p[1, n1] } ");
  EXPECT_EQ(count(after, "tdpbf16ps"), 0);
  Check(after, {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
  std::string onto = BfloatMatrixNest(1, 20, 2, 6, "0.0");
  constexpr std::string_view kSum = "y[m, n] = add_flush(y[m, n]";
  onto.replace(onto.find(kSum), kSum.size(), "p[0, n] = add_flush(p[0, n]");
  EXPECT_EQ(count(onto, "tdpbf16ps"), 0);
  Check(onto, {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
  for (const int rows : {1, 16, 64}) {
    for (const int lanes : {9, 37, 64}) {
      for (const int steps : {2, 32})
        Check(BfloatMatrixNest(rows, lanes, 2, steps, rows % 2 ? "0.0" : "0.5"),
              {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
    }
  }
  for (uint64_t seed = 1; seed <= 10; ++seed)
    Check(BfloatMatrixNest(29, 20, 3, 18, "0.5"), {.seed = seed, .sizes = {1}, .wild = true},
          {Isa::kX86V4Amx});
}

// What lies otherwise than tiles are loaded is summed up in lanes.
TEST(Matrices, LieInRows) {
  const auto multiplies = [](std::string_view x, std::string_view w, std::string_view guard,
                             std::string_view layout) {
    const std::string nest = fmt::format(
        "loops k (x: in u8[40, 40], w: in i8[40, 40] layout \"{}\", y: out i32[8, 16]) {{ single "
        "{{ "
        "unroll m0 = 0:8 {{ vector n0 = 0:16 {{ y[m0, n0] = 0:i32 }} }} for k = 0:5 {{ unroll m = "
        "0:8 {{ vector n = 0:16 {{ unroll s = 0:4 {{ y[m, n] = y[m, n] + (cast(x[{}]{}):i32 * "
        "cast(w[{}]):i32) }} }} }} }} }} }}",
        layout, x, guard, w);
    Check(nest, {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
    const auto ir = EmitLlvmIr(Nest(nest), {.isa = Isa::kX86V4Amx}, false);
    return ir.ok() && ir->find("tdpb") != ir->npos;
  };
  EXPECT_TRUE(multiplies("m, 4*k + s", "4*k + s, n", "", "Ab4a"));
  EXPECT_TRUE(multiplies("3*m + 2, 4*k + s + 1", "4*k + s + 4, n + 8", "", "Ab4a"));
  EXPECT_TRUE(multiplies("m, 4*k + s", "4*k + s, n", "", "BA32b4a"));
  EXPECT_FALSE(multiplies("m, 8*k + s", "4*k + s, n", "", "Ab4a"));    // quads lie apart
  EXPECT_FALSE(multiplies("4*k + s, m", "4*k + s, n", "", "Ab4a"));    // steps do
  EXPECT_FALSE(multiplies("m, 4*k + s", "4*k + s, 2*n", "", "Ab4a"));  // lanes do
  EXPECT_FALSE(multiplies("m, 4*k + s", "4*k + s, n", "", "ab"));      // quads of no lane
  EXPECT_FALSE(multiplies("m, 4*k + s", "4*k + s, n", "{m - 1 >= 0}", "Ab4a"));
  EXPECT_FALSE(multiplies("m + n, 4*k + s", "4*k + s, n", "", "Ab4a"));
}

// Rows of sums that are one sum, or overlap, or move with a loop around; floors of two variables.
TEST(Matrices, HaveSumsOfTheirOwn) {
  const auto check = [](std::string_view x, std::string_view w, std::string_view y,
                        std::string_view rows, std::string_view lanes) {
    Check(fmt::format("loops k (x: in u8[4, 1024], w: in i8[4, 1024], y: inout i32[2, 16, 64]) {{ "
                      "single {{ for r = 0:2 {{ for k = 0:5 {{ unroll m = {} {{ vector n = {} {{ "
                      "unroll s = 0:4 {{ y[{}] = y[{}] + (cast(x[{}]):i32 * cast(w[{}]):i32) }} "
                      "}} }} }} }} }} }}",
                      rows, lanes, y, y, x, w),
          {.sizes = {1}, .wild = true}, {Isa::kX86V4Amx});
  };
  constexpr const char *kX = "r, 32*m + 4*k + s", *kW = "r, 4*n + 64*k + s", *kY = "0, m, n";
  check(kX, kW, kY, "0:8", "0:16");
  check(kX, kW, "0, 0, n", "0:8", "0:16");
  check(kX, kW, "0, 0, m + n", "0:8", "0:16");
  check(kX, kW, kY, "0:8", "16*r:16*r + 16");
  check(kX, kW, kY, "8*r:8*r + 8", "0:16");
  check(kX, kW, kY, "k:k + 8", "0:16");
  check("floor((m + s)/8), 32*m + 4*k + s", kW, kY, "0:8", "0:16");
  check(kX, "floor((n + s)/16), 4*n + 64*k + s", kY, "0:8", "0:16");
  check(kX, kW, "floor((m + n)/16), m, n", "0:8", "0:16");
}

}  // namespace
}  // namespace weft::codegen
