#include "codegen/llvm/emit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/llvm/check_for_test.h"

namespace weft::codegen {
namespace {

TEST(Emit, CopiesAndAdds) {
  Check("loops k (x: in f32[37], y: out f32[37]) { parallel i = 0:37 { y[i] = x[i] + 1.5 } }");
  Check(
      "loops k (x: in f32[4, 24], y: out f32[24, 4]) { parallel i = 0:3 { unroll r = 0:4 { vector "
      "v = 0:8 { y[8*i + v, r] = x[r, 8*i + v] } } } }");
}

static int CountOf(std::string_view text, std::string_view what) {
  int count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

// The stores that stand before the last product of `nest`'s code.
static int StoresBeforeLastProduct(std::string_view nest) {
  const auto ir = EmitLlvmIr(Nest(nest), {.isa = Isa::kX86V3}, false);
  EXPECT_TRUE(ir.ok());
  return CountOf(ir->substr(0, ir->rfind("call <8 x float> @llvm.fma")), "store <8 x float>");
}

static std::string Chain(std::string value, int products) {
  for (int i = 0; i < products; ++i) value = fmt::format("fma({}, x[v], 1.5)", value);
  return value;
}

// What waits for itself is emitted operation by operation for six registers in turns; what is short
// for one after the other.
TEST(Emit, LongChainsOfRegistersTakeTurns) {
  const auto nest = [](int products, int lanes) {
    return fmt::format(
        "loops k (x: in f32[{0}], y: inout f32[{0}]) {{ single {{ vector v = 0:{0} {{ "
        "y[v] = {1} }} }} }}",
        lanes, Chain("y[v]", products));
  };
  EXPECT_EQ(StoresBeforeLastProduct(nest(3, 64)), 7);   // of eight registers
  EXPECT_EQ(StoresBeforeLastProduct(nest(14, 64)), 6);  // those that took turns
  Check(nest(3, 43));
  Check(nest(14, 43));
}

TEST(Emit, RowsOfLongChainsTakeTurns) {
  const auto nest = [](std::string_view to, std::string from) {
    return fmt::format(
        "loops k (x: in f32[24], y: inout f32[4, 24], z: inout f32[24], w: inout f32[24, 4]) {{ "
        "single {{ unroll r = 0:4 {{ vector v = 0:24 {{ {} = {} }} }} }} }}",
        to, Chain(std::move(from), 14));
  };
  const std::string rows = nest("y[r, v]", "z[v]"), columns = nest("y[r, v]", "w[v, r]"),
                    turned = nest("w[v, r]", "y[r, v]"), sum = nest("z[v]", "(z[v] + y[r, v])");
  EXPECT_EQ(StoresBeforeLastProduct(rows), 6);  // two rows of three registers before two
  EXPECT_EQ(StoresBeforeLastProduct(sum), 9);   // each row wants what the last one stored
  for (const std::string& text : {rows, columns, turned, sum}) Check(text);
}

TEST(Emit, TailsOfVectorsStayInside) {
  for (int lanes : {1, 2, 3, 5, 6, 7, 11, 14, 16, 23, 64}) {
    for (const char* type : {"f32", "f64", "u8", "i16", "f16", "bf16", "i64"}) {
      Check(
          fmt::format("loops k (x: in {0}[{1}], y: out {0}[{1}]) {{ single {{ vector v = 0:{1} {{ "
                      "y[v] = x[v] * x[v] }} }} }}",
                      type, lanes));
    }
  }
}

// One element for all lanes is read if any of those that count wants it; the rest may want what
// lies behind the buffer.
TEST(Emit, LanesBehindTheTailAskForNothing) {
  for (int lanes : {3, 5, 9, 11, 19}) {
    Check(fmt::format(
        "loops k (x: in f32[{1}], z: in f32[{0}], y: out f32[40, {0}]) {{ parallel o = 0:40 {{ "
        "vector v = 0:{0} {{ y[o, v] = x[o]{{4 - o + 2*v >= 0}} * z[v] }} }} }}",
        lanes, 5 + 2 * (lanes - 1)));
  }
}

// Lanes far apart, iterations of an unrolled loop side by side: in registers.
TEST(Emit, TransposesInRegisters) {
  for (const char* type : {"f32", "i64", "bf16", "u8"}) {
    for (int rows : {2, 3, 4, 5, 6, 7, 8, 17}) {
      for (int lanes : {4, 7, 13, 16, 40}) {
        const std::string text = fmt::format(
            "loops k (x: in {0}[{1}, {2}], y: out {0}[{2}, {1}]) {{ single {{ unroll r = 0:{1} {{ "
            "vector v = 0:{2} {{ y[v, r] = x[r, v] * x[r, v] }} }} }} }}",
            type, rows, lanes);
        Check(text);
        Check(fmt::format(
            "loops k (x: in {0}[{2}, {1}], y: out {0}[{1}, {2}]) {{ single {{ unroll r = 0:{1} {{ "
            "vector v = 0:{2} {{ y[r, v] = x[v, r] + x[{2} - 1 - v, r] }} }} }} }}",
            type, rows, lanes));
      }
    }
  }
  const Result<std::string> ir = EmitLlvmIr(
      Nest("loops k (x: in f32[8, 8], y: out f32[8, 8]) { single { unroll r = 0:8 { vector v = 0:8 "
           "{ y[v, r] = x[r, v] } } } }"),
      Target{}, true);
  ASSERT_TRUE(ir.ok());
  EXPECT_NE(ir->find("store <4 x float>"), std::string::npos) << *ir;
  EXPECT_EQ(ir->find("store float"), std::string::npos) << *ir;
  const Result<std::string> bytes = EmitLlvmIr(
      Nest("loops k (x: in i8[32, 20], y: out i8[20, 32]) { single { unroll r = 0:20 { vector v = "
           "0:32 { y[r, v] = x[v, r] } } } }"),
      Target{}, true);
  ASSERT_TRUE(bytes.ok());
  EXPECT_NE(bytes->find("load <16 x i8>"), std::string::npos) << *bytes;
  EXPECT_EQ(bytes->find("load i8"), std::string::npos) << *bytes;
}

// Few iterations whose lanes have no gaps between them are one row of memory.
TEST(Emit, InterleavesInRegisters) {
  const auto ir = [](const std::string& text) {
    const Result<std::string> emitted = EmitLlvmIr(Nest(text), Target{.isa = Isa::kX86V3}, true);
    return emitted.ok() ? *emitted : emitted.status().ToString();
  };
  const std::string stored = ir(
      "loops k (x: in f32[3, 64], y: out f32[64, 3] align 64) { parallel t = 0:8 { let i = "
      "index(t) in 0:8 of x unroll r = 0:3 { vector v = 0:8 { stream y[8*i + v, r] = x[r, 8*i + v] "
      "} } } }");
  int streamed = 0;  // a vector each: LLVM forgets of wider ones that they pass the caches
  for (size_t at = 0; (at = stored.find("store <8 x float>", at)) != std::string::npos; ++at)
    streamed +=
        stored.substr(at, stored.find('\n', at) - at).find("!nontemporal") != std::string::npos;
  EXPECT_EQ(streamed, 3) << stored;
  const std::string loaded = ir(
      "loops k (x: in u8[32, 3], y: out u8[3, 32]) { single { unroll r = 0:3 { vector v = 0:32 { "
      "y[r, v] = x[v, r] } } } }");
  EXPECT_NE(loaded.find("load <96 x i8>"), std::string::npos) << loaded;
  EXPECT_EQ(loaded.find("load <3 x i8>"), std::string::npos) << loaded;
  // Gaps, and squares that registers hold, stay rows of iterations.
  for (const char* shape : {"f32[8, 5]", "f32[8, 4]"}) {
    const int rows = shape[7] - '0' == 4 ? 4 : 3;
    const std::string rows_of =
        ir(fmt::format("loops k (x: in f32[{0}, 8], y: out {1}) {{ single {{ unroll r = 0:{0} {{ "
                       "vector v = 0:8 {{ "
                       "y[v, r] = x[r, v] }} }} }} }}",
                       rows, shape));
    EXPECT_NE(rows_of.find(fmt::format("store <{} x float>", rows)), std::string::npos) << rows_of;
  }
  for (const char* type : {"f32", "f64", "u8", "f16"})
    for (int rows : {2, 3, 5, 7})
      Check(fmt::format(
          "loops k (x: in {0}[{1}, 200], y: out {0}[200, {1}] align 64) {{ parallel t = 0:5 {{ let "
          "i = index(t) in 0:5 of x unroll r = 0:{1} {{ vector v = 0:40 {{ stream y[40*i + v, r] = "
          "x[r, 40*i + v] }} }} }} }}",
          type, rows));
}

// A loop whose trip is known at run time runs in rounds of several iterations, and then the rest:
// one, as many as a round or none of it.
TEST(Emit, LoopsOfUnknownTripsRunInRounds) {
  for (const int rows : {1, 9, 16, 17, 23, 24}) {
    const std::string text = fmt::format(
        "loops k (x: in f32[{0}, 8], y: out f32[8]) {{ single {{ vector v = 0:8 {{ y[v] = 0.0 }} "
        "for b = 0:{1} {{ for k = 0:min(16, -16*b + {0}) {{ vector w = 0:8 {{ "
        "y[w] = y[w] + x[16*b + k, w] }} }} }} }} }}",
        rows, (rows + 15) / 16);
    Check(text);
    if (rows <= 16) continue;  // known
    const Result<std::string> ir = EmitLlvmIr(Nest(text), Target{.isa = Isa::kX86V3}, true);
    ASSERT_TRUE(ir.ok());
    size_t sums = 0;
    for (size_t at = 0; (at = ir->find("fadd <8 x float>", at)) != std::string::npos; ++at) ++sums;
    EXPECT_EQ(sums, 9u) << *ir;  // eight of a round, and one
  }
}

// A guard that holds for one iteration says nothing of its neighbours in the same row.
TEST(Emit, TransposesNothingBehindAGuard) {
  Check(
      "loops k (x: in u8[32, 61], y: out u8[64, 32]) { parallel task = 0:4 { let i = index(task) "
      "in "
      "0:4 of x unroll r = 0:16 { vector v = 0:32 { y[16*i + r, v] = x[v, 16*i + r - 1]{16*i + r - "
      "1 >= 0, 61 - 16*i - r >= 0} } } } }",
      {.sizes = {1}});
}

// The second loop reads on where the first one ended in the middle of four elements.
TEST(Emit, TransposesWhatAnEarlierLoopLoadedInPart) {
  Check(
      "loops k (x: in f32[8, 16], y: out f32[6, 8], z: out f32[5, 8]) { single { unroll r = 0:6 { "
      "vector v = 0:8 { y[r, v] = x[v, r] } } unroll r = 0:5 { vector v = 0:8 { z[r, v] = x[v, r + "
      "4] } } } }");
}

// What is stored late, or loaded early, is not what another statement of the body touches.
TEST(Emit, TransposesNothingThatChangesMeanwhile) {
  Check(
      "loops k (x: in f32[8, 8], y: out f32[9, 8], z: out f32[8, 8]) { single { unroll r = 0:8 { "
      "vector v = 0:8 { y[v, r] = x[r, v] } vector v = 0:8 { z[r, v] = y[0, r] + x[r, v] } } "
      "for j = 0:8 { y[8, j] = 0.0 } } }");
  Check(
      "loops k (x: in f32[8, 8], y: out f32[8, 8]) { single { unroll r = 0:8 { "
      "vector v = 0:8 { y[v, r] = x[r, v] } y[r, 7 - r] = 1.0 } } }");
  Check(
      "loops k (x: in f32[8, 8], y: out f32[8, 8]) { cache t: f32[8, 9] single { "
      "for r = 0:8 { vector v = 0:8 { t[r, v] = x[r, v] } t[r, 8] = 0.0 } "
      "unroll r = 0:8 { vector v = 0:8 { y[r, v] = t[v, r] } t[7, r + 1] = 2.0 } } }");
  Check(
      "loops k (x: in f32[8, 8], y: out f32[8, 8]) { parallel i = 0:2 { unroll r = 0:8 { "
      "if r + i - 4 >= 0 { vector v = 0:4 { y[4*i + v, r] = x[r, v] } } "
      "else { vector v = 0:4 { y[4*i + v, r] = x[v, r] } } } } }");
}

TEST(Emit, ConvolutionWithPadding) {
  Check(
      R"(loops conv (image: in f32[1, 9, 13, 5], w1: in f32[9, 5, 14] align 64, b1: in f32[14], relu1: out f32[1, 9, 13, 14]) {
  reg acc: f32[6, 14]
  parallel h = 0:9 {
    for w0 = 0:12:6 {
      unroll m = 0:6 { vector k = 0:14 { acc[m, k] = b1[k] } }
      for r = max(0, 1 - h):min(3, 10 - h) {
        for s = 0:3 { for c = 0:5 {
          unroll m = 0:6 { vector k = 0:14 {
            acc[m, k] = fma(image[0, h + r - 1, w0 + m + s - 1, c]{w0 + m + s - 1 >= 0}, w1[3*r + s, c, k], acc[m, k]) } } } } }
      unroll m = 0:6 { vector k = 0:14 { relu1[0, h, w0 + m, k] = max(acc[m, k], 0.0) } }
    }
    for k = 0:14 { relu1[0, h, 12, k] = 0.0 }
  } })");
}

TEST(Emit, LaneTreesAndScratch) {
  Check(
      R"(loops k (x: in f32[6, 40], y: out f32[6], z: out f32[6, 40]) { reg t: f32[8] cache row: f32[40] shared sums: f32[6]
  parallel i = 0:6 {
    vector v = 0:8 { t[v] = 0.0 }
    for j = 0:40:8 { vector v = 0:8 { row[j + v] = x[i, j + v] * 2.0  t[v] = t[v] + row[j + v] } }
    vector v = 0:4 { t[v] = t[v] + t[v + 4] }
    vector v = 0:2 { t[v] = t[v] + t[v + 2] }
    sums[i] = t[0] + t[1]
  }
  barrier
  parallel i = 0:6 { for j = 0:40:8 { vector v = 0:8 { stream z[i, j + v] = row[j + v] - sums[5 - i] } } }
  single { for i = 0:6 { y[i] = sums[i] } } })",
      {.sizes = {1}, .check = false});
}

TEST(Emit, GuardsAndConditionsOnLanes) {
  Check(R"(loops k (x: in f32[29], y: out f32[29], z: out i32[32]) {
  parallel i = 0:4 { vector v = 0:8 {
    if 28 - 8*i - v >= 0 {
      y[8*i + v] = x[8*i + v - 3]{8*i + v - 3 >= 0} + x[8*i + v + 2]{26 - 8*i - v >= 0} } } }
  parallel i = 0:2 { vector v = 0:16 {
    if v - 3 >= 0 && 7*i + v - 6 >= 0 { z[16*i + v] = index(v + i):i32 } else { z[16*i + v] = index(floor((v + 5*i)/3)):i32 } } } })");
}

// Lanes a few elements apart load whole rows, which reach no further than they do themselves.
TEST(Emit, LanesThatShareRows) {
  for (const std::string_view type : {"f32", "f64", "i8", "f16"}) {
    for (const int lanes : {4, 7, 8, 16, 29}) {
      const auto text = [&](std::string_view at, int extent) {
        return fmt::format(
            "loops k (x: in {0}[{1}], y: out {0}[2, {2}]) {{ parallel i = 0:2 {{ vector v = 0:{2} "
            "{{ "
            "y[i, v] = {3} }} }} }}",
            type, extent, lanes, at);
      };
      Check(text("x[2*v + i]", 2 * lanes));
      Check(text("x[floor(v/2) + i]", (lanes - 1) / 2 + 2));
      Check(text("x[floor((v + 1)/2) + floor(v/3)]", lanes / 2 + (lanes - 1) / 3 + 1));
      Check(text(fmt::format("x[{} - v]", lanes - 1), lanes));
      Check(text("x[v mod 3]", 3));
      Check(text("x[2*v - 3]{2*v - 3 >= 0}", 2 * lanes - 4));
      Check(text("x[2*v]{5 - v >= 0}", std::min(2 * lanes - 1, 11)));
      Check(text("x[3*v]", 3 * lanes - 2));
    }
  }
}

// Rows of a buffer that holds whole ones are loaded where they begin, and shared.
TEST(Emit, LanesThatShareWholeRows) {
  for (const int lanes : {8, 16, 31}) {
    for (const std::string_view at : {"x[i, 2*v]", "x[i, 2*v + 1]", "x[i, 2*v + 2]", "x[3 - i, v]"})
      Check(
          fmt::format("loops k (x: in f32[4, 64], y: out f32[4, {0}]) {{ parallel i = 0:4 {{ "
                      "vector v = 0:{0} {{ y[i, v] = {1} }} }} }}",
                      lanes, at));
  }
  const auto ir = EmitLlvmIr(
      Nest("loops k (x: in f32[4, 64], y: out f32[4, 16]) { parallel i = 0:4 { vector v = 0:16 { "
           "y[i, v] = x[i, 2*v] + x[i, 2*v + 1] } } }"),
      {.isa = Isa::kX86V4}, true);
  ASSERT_TRUE(ir.ok());
  EXPECT_EQ(CountOf(*ir, "load <16 x float>"), 2) << *ir;
}

// What lanes keep of several steps is mended at the end if any of these was NaN.
TEST(Emit, ExtremesOfStepsStayNan) {
  const auto nest = [](std::string_view type, std::string_view loop, std::string_view value) {
    return fmt::format(
        "loops k (x: in {0}[9, 43], y: inout {0}[43], z: inout {0}[9, 43]) {{ single {{ {1} r = "
        "0:9 {{ vector v = 0:43 {{ {2} }} }} }} }}",
        type, loop, value);
  };
  for (const std::string_view type : {"f32", "f64", "f16", "i32"}) {
    for (const std::string_view loop : {"unroll", "for"}) {
      for (const std::string_view value :
           {"y[v] = max(y[v], x[r, v])", "y[v] = min(y[v], x[r, v])", "y[v] = max(x[r, v], y[v])",
            "y[v] = max(y[v], x[r, v] + y[42 - v])", "z[r, v] = max(z[r, v], x[r, v])",
            "y[v] = max(y[v], x[8 - r, v] * z[r, v])", "y[v] = max(y[v], x[r, v]{v + r - 4 >= 0})",
            "y[v] = max(y[42 - v], x[r, v])"})
        Check(nest(type, loop, value), {.seed = 3, .wild = true});
    }
  }
  for (const std::string_view loop : {"unroll", "for"})  // lanes that move with the steps
    Check(fmt::format(
              "loops k (x: in f32[3, 64], y: inout f32[64]) {{ single {{ {} r = 0:3 {{ vector "
              "v = r:r + 48 {{ y[v] = max(y[v], x[0, v]) }} }} }} }}",
              loop),
          {.seed = 3, .wild = true});
  const auto ir = EmitLlvmIr(Nest(nest("f32", "unroll", "y[v] = max(y[v], x[r, v])")),
                             {.isa = Isa::kX86V4}, false);
  ASSERT_TRUE(ir.ok());
  EXPECT_EQ(CountOf(*ir, "fcmp ord"), 15) << *ir;  // five for each of three registers
  EXPECT_EQ(CountOf(*ir, "fcmp uno"), 0) << *ir;
}

// Products of small integers, added up two or four at a time: wherever they lie, whatever their
// signs, up to the extremes.
TEST(Emit, SumsOfProductsOfIntegers) {
  constexpr std::pair<const char*, const char*> kTypes[] = {
      {"u8", "i8"}, {"i8", "u8"}, {"i16", "i16"}, {"i8", "i16"}, {"u16", "i8"}};
  for (const auto& [a, b] : kTypes) {
    for (int steps : {2, 3, 4}) {
      for (int lanes : {3, 8, 13, 24}) {
        const std::string packed = fmt::format(" layout \"BA{}b{}a\"", lanes, steps);
        for (const std::string& layout : {std::string(), packed}) {
          Check(fmt::format("loops k (x: in {0}[5, 12], w: in {1}[12, {2}]{3}, y: out i32[5, {2}]) "
                            "{{ parallel i = 0:5 {{ vector v = 0:{2} {{ y[i, v] = 7:i32 }} "
                            "for k0 = 0:{4} {{ vector v = 0:{2} {{ unroll k = 0:{5} {{ "
                            "y[i, v] = y[i, v] + (cast(x[i, {5}*k0 + k]):i32 * "
                            "cast(w[{5}*k0 + k, v]):i32) }} }} }} }} }}",
                            a, b, lanes, layout, 12 / steps, steps),
                {.sizes = {1}, .wild = true});
        }
      }
    }
  }
}

TEST(Emit, SumsOfProductsOfHalves) {
  for (const char* type : {"bf16", "f16"}) {
    for (int lanes : {3, 8, 13, 24}) {
      const std::string packed = fmt::format(" layout \"BA{}b2a\"", lanes);
      for (const std::string& layout : {std::string(), packed}) {
        Check(fmt::format("loops k (x: in {0}[5, 12], w: in {0}[12, {1}]{2}, y: out f32[5, {1}]) "
                          "{{ parallel i = 0:5 {{ vector v = 0:{1} {{ y[i, v] = 0.5 }} "
                          "for k0 = 0:6 {{ vector v = 0:{1} {{ unroll k = 0:2 {{ "
                          "y[i, v] = fma(cast(x[i, 2*k0 + k]):f32, cast(w[2*k0 + k, v]):f32, "
                          "y[i, v]) }} }} }} }} }}",
                          type, lanes, layout),
              {.sizes = {1}, .wild = true});
      }
    }
  }
}

TEST(Emit, ClustersAreForDevices) {
  for (const char* text : {"loops k (y: out f32[2]) { cluster_x r = 0:2 { y[r] = 1.0 } }",
                           "loops k (y: out f32[2]) { cluster p: f32[2] single { y[0] = 1.0 } }"}) {
    const Status status = EmitMachineCode(Nest(text), {.isa = Isa::kX86V3}).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_EQ(status.what(), "nest k: clusters of blocks are for CUDA");
  }
}

// Two at once, one of a pair, and lanes that fill no register; also of what is no number or would
// be subnormal.
TEST(Emit, SumsOfProductsThatFlush) {
  for (int lanes : {1, 2, 3, 8, 13, 24}) {
    const std::string packed =
        lanes == 1 ? " layout \"Ab2a\"" : fmt::format(" layout \"BA{}b2a\"", lanes);
    for (const std::string& layout : {std::string(), packed}) {
      for (const char* step : {"2*k0 + 1 - k", "2*k0 + k"}) {
        for (uint64_t seed = 1; seed <= 5; ++seed) {
          Check(fmt::format(
                    "loops k (x: in bf16[5, 13], w: in bf16[13, {0}]{1}, y: out f32[5, {0}]) {{ "
                    "parallel i = 0:5 {{ vector v = 0:{0} {{ y[i, v] = -0.0 }} "
                    "for k0 = 0:6 {{ vector v = 0:{0} {{ unroll k = 0:2 {{ "
                    "y[i, v] = fma_flush(x[i, {2}], w[{2}, v], y[i, v]) }} }} }} "
                    "vector v = 0:{0} {{ y[i, v] = fma_flush(x[i, 12], w[12, v], y[i, v]) }} }} }}",
                    lanes, layout, step),
                {.seed = seed, .sizes = {1}, .wild = true}, {Isa::kX86V4Bf16});
        }
      }
    }
  }
}

TEST(Emit, TakesPairsOfBfloatByOneInstruction) {
  const auto code = [](const char* step, const char* guard, Isa isa) {
    const auto ir = EmitLlvmIr(
        Nest(fmt::format(
            "loops k (x: in bf16[4], w: in bf16[4, 16] layout \"Ab2a\", y: out f32[16]) {{ single "
            "{{ vector v = 0:16 {{ y[v] = 0.0 }} vector v = 0:16 {{ unroll k = 0:2 {{ y[v] = "
            "fma_flush(x[{0}]{1}, w[{0}, v], y[v]) }} }} }} }}",
            step, guard)),
        {.isa = isa}, false);
    return ir.ok() ? *ir : ir.status().ToString();
  };
  const auto count = [](const std::string& text) {
    int calls = 0;
    constexpr std::string_view kCall = "call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512";
    for (size_t at = text.find(kCall); at != text.npos; at = text.find(kCall, at + 1)) ++calls;
    return calls;
  };
  EXPECT_EQ(count(code("1 - k", "", Isa::kX86V4Bf16)), 1);
  EXPECT_EQ(count(code("3 - k", "", Isa::kX86V4Bf16)), 1);
  EXPECT_EQ(count(code("k", "", Isa::kX86V4Bf16)), 1);  // put together the other way round
  EXPECT_EQ(count(code("1 - k", "{k - 1 >= 0}", Isa::kX86V4Bf16)), 2);
  EXPECT_NE(
      code("1 - k", "", Isa::kX86V4Vnni).find("x86-64-v4-vnni threads=1 has no multiply-adds"),
      std::string::npos);
}

// What 16 bits hold already, such as a rounded sum behind its activation, is not rounded again.
TEST(Emit, RoundsOnce) {
  const auto nest = [](const char* type, const char* value) {
    return fmt::format(
        "loops k (x: in {0}[21], y: out {0}[21]) {{ single {{ vector v = 0:21 {{ y[v] = "
        "cast({1}):{0} "
        "}} }} }}",
        type, value);
  };
  constexpr const char* kHeld[] = {
      "max(cast(x[v]):f32, 0.0)", "min(neg(cast(x[v]):f32), 6.0)",
      "select(cast(x[v]):f32 < 0.5, abs(cast(x[v]):f32), fmax(cast(x[v]):f32, 2.0))"};
  constexpr const char* kOther[] = {"max(cast(x[v]):f32, 0.1)", "cast(x[v]):f32 + 1.0"};
  const auto rounds = [&](const char* value) {
    const auto ir = EmitLlvmIr(Nest(nest("bf16", value)), {.isa = Isa::kX86V4}, false);
    return !ir.ok() || ir->find("32767") != std::string::npos;  // half of the last bit, almost
  };
  for (const char* value : kHeld) EXPECT_FALSE(rounds(value)) << value;
  for (const char* value : kOther) EXPECT_TRUE(rounds(value)) << value;
  for (const char* type : {"bf16", "f16"}) {
    for (const char* value : kHeld) Check(nest(type, value), {.sizes = {1}, .wild = true});
    for (const char* value : kOther) Check(nest(type, value), {.sizes = {1}, .wild = true});
  }
}

TEST(Emit, ChoosesInstructionsForSumsOfProducts) {
  const auto code = [](Isa isa, const char* x, int steps, const char* guard) {
    const std::string text = fmt::format(
        "loops k (x: in {0}[4], w: in i8[4, 16] layout \"aB{1}b\", y: out i32[16]) {{ single {{ "
        "vector v = 0:16 {{ y[v] = 0:i32 }} vector v = 0:16 {{ unroll k = 0:{2} {{ y[v] = y[v] + "
        "(cast(x[k]{3}):i32 * cast(w[k, v]):i32) }} }} }} }}",
        x, 16, steps, guard);
    const auto ir = EmitLlvmIr(Nest(text), {.isa = isa}, false);
    return ir.ok() ? *ir : ir.status().ToString();
  };
  const auto has = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  const auto count = [](const std::string& text, int lanes, const char* name) {
    int calls = 0;
    const std::string call = fmt::format("call <{} x i32> @llvm.x86.{}(", lanes, name);
    for (size_t at = text.find(call); at != text.npos; at = text.find(call, at + 1)) ++calls;
    return calls;
  };
  EXPECT_EQ(count(code(Isa::kX86V3, "u8", 2, ""), 8, "avx2.pmadd.wd"), 2);  // 16 lanes
  EXPECT_TRUE(has(code(Isa::kX86V4, "i16", 2, ""), "avx512.pmaddw.d.512"));
  EXPECT_TRUE(has(code(Isa::kX86V4Vnni, "i16", 2, ""), "avx512.vpdpwssd.512"));
  EXPECT_TRUE(has(code(Isa::kX86V4Vnni, "u8", 4, ""), "avx512.vpdpbusd.512"));
  // Steps that don't fit are multiplied one by one.
  const std::string both_signed = code(Isa::kX86V4Vnni, "i8", 4, "");
  EXPECT_FALSE(has(both_signed, "vpdpbusd"));
  EXPECT_EQ(count(both_signed, 16, "avx512.vpdpwssd.512"), 4);
  EXPECT_EQ(count(code(Isa::kX86V3, "u8", 4, ""), 8, "avx2.pmadd.wd"), 8);
  EXPECT_EQ(count(code(Isa::kX86V3, "u8", 2, "{k - 1 >= 0}"), 8, "avx2.pmadd.wd"), 4);
}

// Products of 32 bits of what 16 hold, step by step, at the ends of all types.
TEST(Emit, MultipliesSmallNumbers) {
  for (const char* x : {"u8", "i8", "i16", "u16", "i32"}) {
    for (const char* w : {"i8", "u8", "i16"}) {
      for (const int lanes : {3, 8, 21}) {
        Check(fmt::format(
                  "loops k (x: in {0}[5, {2}], w: in {1}[5, {2}], y: out i32[{2}]) {{ "
                  "single {{ vector v = 0:{2} {{ y[v] = 7:i32 }} for k = 0:5 {{ vector v = "
                  "0:{2} {{ y[v] = y[v] + (cast(x[k, v]):i32 * cast(w[k, v]):i32) }} }} }} }}",
                  x, w, lanes),
              {.sizes = {1}, .wild = true});
      }
    }
  }
}

// Lanes at the edge of a padded window keep what they had: with mask registers in the same
// instruction, which LLVM finds only if the mask is no constant.
TEST(Emit, MasksOperationsByRegisters) {
  constexpr char kNest[] =
      "loops k (x: in f32[20], w: in f32[4], y: out f32[16]) { single { vector v = 0:16 { y[v] = "
      "0.5 } for r = 0:4 { vector v = 0:16 { y[v] = select(index(v - 1):i32 >= 0:i32, "
      "fma(x[v + r], w[r], y[v]), y[v]) } } } }";
  Check(kNest, {.sizes = {1}, .wild = true});
  const auto wide = EmitLlvmIr(Nest(kNest), {.isa = Isa::kX86V4}, false);
  const auto narrow = EmitLlvmIr(Nest(kNest), {.isa = Isa::kX86V3}, false);
  ASSERT_TRUE(wide.ok() && narrow.ok());
  EXPECT_EQ(wide->find("select <16 x i1> <i1 false"), std::string::npos);
  EXPECT_NE(narrow->find("select <8 x i1> <i1 false"), std::string::npos);
}

TEST(Emit, GathersAndFaults) {
  constexpr char kGather[] =
      R"(loops k (table: in f32[8, 3], idx: in i64[21], y: out f32[21, 3], z: out f32[21]) {
  parallel i = 0:21 { let j = idx[i] in -8:8 of table  let n = index(j - floor(j/8)*8) in 0:8 by table
    vector v = 0:3 { y[i, v] = table[n, v] } }
  barrier
  parallel i = 0:3 { vector v = 0:7 { let j = idx[7*i + v] in 0:8 of table z[7*i + v] = table[j, 1] } } })";
  Check(kGather, {.seed = 5});
  Check(kGather, {.seed = 6, .wild = true});
}

TEST(Emit, ParamsAndBands) {
  constexpr char kText[] = R"(loops k<n> (x: in f32[n, 6], y: out f32[n, 6]) {
  parallel i = 0:n { parallel j = 0:6:2 { vector v = 0:2 { y[i, j + v] = x[n - 1 - i, j + v] } } } })";
  for (int64_t n : {0, 1, 7}) Check(kText, {.params = {n}, .sizes = {1, 2, 5}});
}

TEST(Emit, FoldedAndBlockedBuffers) {
  Check(
      R"(loops k (x: in f32[5, 20] layout "aB8b", y: out f32[20, 5] layout "ba+3") { cache ring: f32[100, 8] fold [3, 0]
  parallel t = 0:1 { for i = 0:5 {
    vector v = 0:8 { ring[i, v] = x[i, v] }
    vector v = 0:8 { y[v, i] = ring[i, v] } 
    vector v = 0:8 { y[v + 8, i] = x[i, v + 8] + ring[i - 1, v]{i - 1 >= 0} }
    vector v = 0:4 { y[v + 16, i] = x[i, v + 16] } } } })",
      {.check = false});
}

// A nest that stores each of the values (of index {i}) twice: by scalar and by vector code.
std::string EachValue(std::string_view type, std::string_view result,
                      const std::vector<std::string>& values) {
  std::string scalar, vector;
  for (size_t k = 0; k < values.size(); ++k) {
    const auto at = [&](const char* i) {
      return fmt::format(fmt::runtime(values[k]), fmt::arg("i", i));
    };
    scalar += fmt::format("y[{}, i] = {}\n", k, at("i"));
    vector += fmt::format("z[{}, i + v] = {}\n", k, at("i + v"));
  }
  return fmt::format(
      "loops k (a: in {0}[48], b: in {0}[48], c: in {0}[48], y: out {1}[{2}, 48], z: out {1}[{2}, "
      "48]) {{ "
      "single {{ for i = 0:48 {{ {3} }} for i = 0:48:16 {{ vector v = 0:16 {{ {4} }} }} }} }}",
      type, result, values.size(), scalar, vector);
}

// Every primitive on every type that has it.
TEST(Emit, ScalarOperations) {
  const std::vector<std::string> both = {"a[{i}] + b[{i}]",
                                         "a[{i}] - b[{i}]",
                                         "a[{i}] * b[{i}]",
                                         "a[{i}] / b[{i}]",
                                         "a[{i}] % b[{i}]",
                                         "trunc_div(a[{i}], b[{i}])",
                                         "rem(a[{i}], b[{i}])",
                                         "min(a[{i}], b[{i}])",
                                         "max(a[{i}], b[{i}])",
                                         "fmin(a[{i}], b[{i}])",
                                         "fmax(a[{i}], b[{i}])",
                                         "neg(a[{i}])",
                                         "abs(a[{i}])",
                                         "floor(a[{i}])",
                                         "ceil(a[{i}])",
                                         "trunc(a[{i}])",
                                         "round(a[{i}])",
                                         "fma(a[{i}], b[{i}], c[{i}])",
                                         "select(a[{i}] < b[{i}], a[{i}], c[{i}])"};
  const std::vector<std::string> compares = {"a[{i}] < b[{i}]",
                                             "a[{i}] <= b[{i}]",
                                             "a[{i}] > b[{i}]",
                                             "a[{i}] >= b[{i}]",
                                             "a[{i}] == b[{i}]",
                                             "a[{i}] != b[{i}]",
                                             "!(a[{i}] < b[{i}]) && (b[{i}] < c[{i}])"};
  const CompareOptions options = {.sizes = {1}, .wild = true};
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    std::vector<std::string> values = both;
    values.insert(values.end(), {"sqrt(a[{i}])", "select(isnan(a[{i}]), b[{i}], a[{i}])",
                                 fmt::format("max(a[{{i}}], 0.0:{})", type),
                                 fmt::format("min(0.0:{}, a[{{i}}])", type)});
    if (SizeBytes(*ParseDtype(type)) > 2) {
      values.push_back(
          fmt::format("ldexp(a[{{i}}], fmin(fmax(b[{{i}}], -250.0:{0}), 250.0:{0}))", type));
    }
    if (*ParseDtype(type) == Dtype::kF32) {
      values.emplace_back(
          "pick(bitcast(a[{i}]):i32, 0.0, 1.5, -2.0, 3.0, 4.0, 5.0, 6.0, -inf, 8.0, 9.0, 10.0, "
          "11.0, 12.0, 13.0, 14.0, nan) + b[{i}]");
    }
    Check(EachValue(type, type, values), options);
    Check(EachValue(type, "bool", compares), options);
  }
  // Remainders of lanes all of which are numbers, some of them next to multiples.
  for (const char* type : {"f32", "f64", "f16"}) {
    const std::vector<std::string> remainders = {
        "rem(a[{i}], b[{i}])",
        fmt::format("rem(a[{{i}}] * 1000.0:{}, b[{{i}}])", type),
        "a[{i}] % b[{i}]",
        fmt::format("rem(b[{{i}}] * round(a[{{i}}] * 99.0:{}), b[{{i}}])", type),
        "rem(b[{i}] / c[{i}], b[{i}])",
        "rem(a[{i}] * a[{i}], b[{i}] * b[{i}])"};
    for (int round = 0; round < 5; ++round)
      Check(EachValue(type, type, remainders),
            {.seed = static_cast<uint64_t>(round), .sizes = {1}});
  }
  for (const char* type : {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
    std::vector<std::string> values = both;
    values.insert(values.end(),
                  {"bit_and(a[{i}], b[{i}])", "bit_or(a[{i}], b[{i}])", "bit_xor(a[{i}], b[{i}])",
                   "bit_not(a[{i}])", "shl(a[{i}], b[{i}])", "shr(a[{i}], b[{i}])"});
    Check(EachValue(type, type, values), options);
    Check(EachValue(type, "bool", compares), options);
  }
}

TEST(Emit, Casts) {
  constexpr const char* kTypes[] = {"bool", "u8",  "i8",  "u16",  "i16", "u32", "i32",
                                    "u64",  "i64", "f16", "bf16", "f32", "f64"};
  for (const char* from : kTypes) {
    for (const char* to : kTypes) {
      Check(EachValue(from, to, {fmt::format("cast(a[{{i}}]):{}", to)}),
            {.sizes = {1}, .wild = true});
    }
  }
}

// What is quantized is clamped and rounded by an addition, where the result has 16 bits at most.
TEST(Emit, RoundsToIntegersByAddition) {
  const auto nest = [](const char* zero, const char* to, std::string_view value) {
    return fmt::format(
        "loops k (x: in f32[61], a: in i8[61], z: in {0}[], y: out {1}[61]) {{ single {{ vector "
        "v = 0:61 {{ y[v] = cast({2}):{1} }} }} }}",
        zero, to, value);
  };
  const auto adds = [&](const char* zero, const char* to, std::string_view value) {
    const auto ir = EmitLlvmIr(Nest(nest(zero, to, value)), {.isa = Isa::kX86V3}, false);
    return ir.ok() && ir->find("fptosi <8 x float>") == std::string::npos;
  };
  constexpr const char* kWhole[] = {"round(x[v] * 64.0) + cast(z[]):f32", "round(x[v] / 0.01)",
                                    "round(cast(a[v]):f32 * 0.5) + cast(z[]):f32",  // ties
                                    "round(x[v] * 64.0) + cast(a[v]):f32"};
  for (const char* type : {"u8", "i8", "u16", "i16"}) {
    for (const char* value : kWhole) {
      EXPECT_TRUE(adds(type, type, value)) << type << " " << value;
      for (uint64_t seed = 1; seed < 4; ++seed)
        Check(nest(type, type, value), {.seed = seed, .sizes = {1}, .wild = true});
    }
  }
  Check(nest("i8", "bool", "round(x[v])"), {.sizes = {1}, .wild = true});
  EXPECT_FALSE(adds("i8", "i8", "round(x[v]) + x[v]"));
  EXPECT_FALSE(adds("i32", "i8", "round(x[v]) + cast(z[]):f32"));
  EXPECT_FALSE(adds("i8", "i32", "round(x[v]) + cast(z[]):f32"));
}

// Loops that would run for hours look at the flag, the innermost among them; those that are over
// in no time do not.
TEST(Emit, LongLoopsCanBeStopped) {
  const auto looks = [](std::string_view body) {
    const auto nest = loops::Read(
        fmt::format("loops f (y: inout f32[64]) {{\n  parallel i = 0:2 {{\n{}  }}\n}}\n", body),
        "f");
    EXPECT_TRUE(nest.ok()) << nest.status().ToString();
    const auto ir = EmitLlvmIr(*nest, Target{}, false);
    EXPECT_TRUE(ir.ok()) << ir.status().ToString();
    int64_t count = 0;
    for (size_t at = 0; (at = ir->find("load atomic", at)) != ir->npos; ++at) ++count;
    return count;
  };
  const auto loop = [](std::string_view var, int64_t trips, std::string_view body) {
    return fmt::format("for {} = 0:{} {{\n{}}}\n", var, trips, body);
  };
  constexpr int64_t kHours = int64_t{1} << 40;
  const std::string add = "y[0] = y[0] + 1.0\n";
  EXPECT_EQ(looks(add), 0);
  EXPECT_EQ(looks(loop("j", 1000, add)), 1);  // the outermost
  EXPECT_EQ(looks(loop("j", kHours, add)), 2);
  EXPECT_EQ(looks(loop("j", 2, loop("k", kHours, add))), 2);
  EXPECT_EQ(looks(loop("j", 2, loop("k", 100000, loop("l", 100000, add)))), 2);
  EXPECT_EQ(looks(loop("j", 8, "for k = 0:j + 1 {\ny[k] = 1.0\n}\n")), 1);
}

TEST(Emit, IrNamesItsNodes) {
  const loops::LoopNest nest = Nest(
      "loops k (x: in f32[8], y: out f32[8]) for \"/a/Relu\" { parallel i = 0:8 { y[i] = max(x[i], "
      "0.0) } }");
  const Result<std::string> ir = EmitLlvmIr(nest, Target{}, true);
  ASSERT_TRUE(ir.ok());
  EXPECT_NE(ir->find("; node /a/Relu"), std::string::npos);
  EXPECT_EQ(ir->find("fast"), std::string::npos);
  EXPECT_NE(KernelKey(nest, Target{}), KernelKey(nest, Target{.isa = Isa::kX86V4}));
  EXPECT_EQ(KernelKey(nest, Target{}), KernelKey(nest, Target{.threads = 8}));
}

// Four bits: rows of lanes, lanes that are 2, 4, 8 and other distances apart, any number of lanes,
// places that begin in the middle of a byte, and each with what it is computed in.
TEST(Emit, LoadsOfHalfBytes) {
  for (const char* type : {"i4", "u4"}) {
    for (const char* wide : {"f32", "i8", "f64"}) {
      for (int lanes : {1, 8, 21, 64}) {
        for (int distance : {1, 2, 3, 4, 8}) {
          Check(
              fmt::format("loops k (x: in {0}[{4}, {2}, {3}], y: out {1}[{4}, {3}, {2}]) {{ "
                          "parallel i = 0:{4} {{ unroll r = 0:{3} {{ vector v = 0:{2} {{ "
                          "y[i, r, v] = cast(x[i, v, r]):{1} }} }} }} }}",
                          type, wide, lanes, distance, lanes == 21 ? 3 : 2));
        }
      }
    }
    Check(fmt::format(
        "loops k (x: in {0}[65], y: out f32[64]) {{ parallel i = 0:4 {{ vector v = 0:16 "
        "{{ y[16*i + v] = cast(x[16*i + v + 1]):f32 }} }} }}",
        type));
    Check(fmt::format(
        "loops k (x: in {0}[5, 7], n: in i64[5], y: out i32[5, 7]) {{ parallel i = 0:5 {{ "
        "let j = n[i] in 0:5 of x vector v = 0:7 {{ y[i, v] = cast(cast(x[j, v]):i8):i32 "
        "}} }} }}",
        type));
    Check(fmt::format(
        "loops k (x: in {0}[40], y: out f32[40]) {{ parallel i = 0:5 {{ vector v = 0:8 {{ "
        "y[8*i + v] = cast(x[8*i + v - 3]{{8*i + v - 3 >= 0}}):f32 }} }} }}",
        type));
  }
}

TEST(Emit, StoresOfHalfBytesKeepTheirNeighbours) {
  for (const char* type : {"i4", "u4"}) {
    for (const char* from : {"f32", "u8"}) {
      for (int lanes : {1, 7, 16, 64}) {
        Check(fmt::format(
                  "loops k (x: in {1}[3, {2}], y: inout {0}[3, {2}]) {{ single {{ for i = 0:3 {{ "
                  "vector v = 0:{2} {{ y[i, v] = cast(x[i, v]):{0} }} }} }} }}",
                  type, from, lanes),
              {.wild = true});
        Check(fmt::format(
            "loops k (x: in {1}[{2}], y: inout {0}[{2}, 3]) {{ cache t: {0}[{2}] single {{ "
            "vector v = 0:{2} {{ t[v] = cast(x[v]):{0} }} vector v2 = 0:{2} {{ "
            "if v2 - 1 >= 0 {{ y[v2, 1] = t[v2] }} }} }} }}",
            type, from, lanes));
      }
    }
  }
}

}  // namespace
}  // namespace weft::codegen
