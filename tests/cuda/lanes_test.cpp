// Vector loops in the text: elements that lie side by side move by up to 16 bytes at once, where
// the alignment of all of them is known, and one by one elsewhere.
#include <fmt/format.h>

#include <iterator>
#include <numeric>

#include "tests/cuda/run.h"

namespace weft::cuda_test {
namespace {

size_t Count(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::string TextOf(const loops::LoopNest& nest) {
  const auto text = codegen::EmitCudaText(nest, Sm90());
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  return text.ok() ? text->text : "";
}

// y = x + x, elements of a type, `lanes` a thread.
loops::LoopNest Doubling(std::string_view dtype, int64_t lanes,
                         std::string_view align = " align 16", std::string_view index = "") {
  return VerifiedNest(fmt::format(
      R"(loops twice (x: in {0}[4, 132]{2}, y: out {0}[4, 132]{2}) {{
    block_x i = 0:4 {{ thread_x q = 0:{3} {{ vector v = 0:{1} {{
      y[i, {1}*q + v{4}] = x[i, {1}*q + v{4}] + x[i, {1}*q + v{4}] }} }} }} }})",
      dtype, lanes, align, 128 / lanes, index));
}

TEST(CudaLanes, AsManyElementsAsMakeSixteenBytes) {
  struct Case {
    const char* dtype;
    int64_t lanes, at_once;
  };
  // 132 elements a row: of two bytes, rows begin at multiples of 8.
  for (const Case& c : {Case{"f64", 2, 2},
                        {"i64", 4, 2},
                        {"f32", 4, 4},
                        {"f32", 8, 4},
                        {"i32", 2, 2},
                        {"f16", 4, 4},
                        {"bf16", 8, 4},
                        {"u8", 16, 4},
                        {"i8", 4, 4}}) {
    SCOPED_TRACE(c.dtype);
    const loops::LoopNest nest = Doubling(c.dtype, c.lanes);
    const std::string text = TextOf(nest), load = fmt::format("weft_load<{}>(&x", c.at_once);
    EXPECT_EQ(Count(text, load), 1U) << text;
    EXPECT_EQ(Count(text, "weft_store(&y"), 1U) << text;
    alignas(16) std::byte x[4 * 132 * 8], y[sizeof x] = {};
    for (size_t i = 0; i < sizeof x; ++i) x[i] = std::byte(i % 37);
    EXPECT_EQ(CheckText(nest, {x, y}), "");
    ExpectCompiles(nest, {Isa::kSm80, Isa::kSm90, Isa::kSm100});
  }
}

TEST(CudaLanes, WhatIsNotKnownToBeAlignedGoesOneByOne) {
  for (const char* align : {"", " align 4"}) {
    const std::string text = TextOf(Doubling("f32", 4, align));
    EXPECT_EQ(Count(text, "weft_load<") + Count(text, "weft_store("), 0U) << text;
  }
  EXPECT_EQ(Count(TextOf(Doubling("f32", 4, " align 8")), "weft_load<2>(&x"), 1U);
  EXPECT_EQ(Count(TextOf(Doubling("f32", 4, " align 16", " + 2")), "weft_load<2>(&x"), 1U);
  const loops::LoopNest odd = Doubling("f32", 4, " align 16", " + 1");
  EXPECT_EQ(Count(TextOf(odd), "weft_load<"), 0U);
  std::vector<float> x(4 * 132), y(x.size());
  std::iota(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(ExecuteBoth(odd, x, y), "");
}

// A device's memory is aligned; here a caller's may be less so, and is copied for the text.
TEST(CudaLanes, OperandsMayLieAnywhereOnACpu) {
  const loops::LoopNest nest = Doubling("f32", 4);
  alignas(16) float x[4 * 132 + 1] = {}, y[4 * 132 + 1] = {};
  std::iota(std::begin(x), std::end(x), 0.0F);
  EXPECT_EQ(CheckText(nest, {x + 1, y + 1}), "");
  EXPECT_EQ(y[1], 2.0F);
}

// A broadcast, a row read backwards, a guard for all lanes and one of each: only what lies side by
// side for all is one access.
TEST(CudaLanes, EachOperandForItself) {
  const loops::LoopNest nest = VerifiedNest(
      R"(loops mixed (x: in f32[8, 64] align 16, r: in f32[8] align 16, k: in u8[8, 64] align 16,
                      y: out f32[8, 64] align 16) {
    block_x i = 0:8 { thread_x q = 0:16 { vector v = 0:4 {
      y[i, 4*q + v] = r[i] * x[i, 63 - 4*q - v] + cast(k[i, 4*q + v]):f32 +
        x[i - 1, 4*q + v]{i - 1 >= 0} + x[i, 4*q + v - 1]{4*q + v - 1 >= 0} } } } })");
  const std::string text = TextOf(nest);
  EXPECT_EQ(Count(text, "weft_load<4>(&x["), 1U) << text;
  EXPECT_EQ(Count(text, "weft_load<4>(&k["), 1U) << text;
  EXPECT_EQ(Count(text, "weft_load<4>(&"), 2U) << text;
  EXPECT_EQ(Count(text, "weft_store(&y["), 1U) << text;
  std::vector<float> x(512), r(8), y(512);
  std::vector<uint8_t> k(512);
  std::iota(x.begin(), x.end(), 0.5F);
  std::iota(r.begin(), r.end(), -3.0F);
  std::iota(k.begin(), k.end(), uint8_t{7});
  EXPECT_EQ(ExecuteBoth(nest, x, r, k, y), "");
  ExpectCompiles(nest, {Isa::kSm80, Isa::kSm90, Isa::kSm100});
}

// All lanes are read before any is written, though operands may share memory; a lane that a
// condition leaves out touches nothing.
TEST(CudaLanes, LanesKeepTheirOrder) {
  const loops::LoopNest nest = VerifiedNest(
      R"(loops turned (x: inout f32[8] align 16, y: out f32[8] align 16) {
    thread_x t = 0:1 { vector v = 0:8 {
      x[v] = x[7 - v]
      if 5 - v >= 0 { y[v] = x[v] } else { y[v] = 1.0 } } } })");
  EXPECT_EQ(Count(TextOf(nest), "weft_store(&y"), 0U);
  std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7}, y(8);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  EXPECT_EQ(y, (std::vector<float>{7, 6, 5, 4, 3, 2, 1, 1}));
}

}  // namespace
}  // namespace weft::cuda_test
