// Mapped groups against their meaning: whatever the mapping, a nest computes what the comprehension
// says, without a race, its text too, and NVRTC takes it.
#include "polyhedral/cuda/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "plan/plan.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/cuda/batch.h"
#include "tests/oracle/oracle.h"

namespace weft::cuda_test {
namespace {

using polyhedral::CudaMapping;

CudaMapping ExpectMaps(std::string_view text, const std::map<std::string, int64_t>& sizes = {},
                       const polyhedral::ScheduleRequest& request = {}) {
  const Result<tc::Program> program = oracle::Compile(text, sizes);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  if (!program.ok()) return CudaMapping::kGrid;
  Batch batch;
  const auto mapping = batch.Add("", *program, tc::RandomInputs(*program, 1), request);
  EXPECT_TRUE(mapping.ok()) << mapping.status().ToString();
  batch.ExpectRight();
  batch.ExpectCompiles(1);
  return mapping.ok() ? *mapping : CudaMapping::kGrid;
}

TEST(CudaMap, APointwiseChainIsAGrid) {
  EXPECT_EQ(ExpectMaps(R"(def chain(float(N, M) a, float(M) b) -> (y) {
      t(i, j) = a(i, j) * b(j)
      y(i, j) = max(t(i, j), 0.0) + exp(t(i, j)) })",
                       {{"N", 33}, {"M", 45}}),
            CudaMapping::kGrid);
}

// Loops over what a grid has, each thread with 16 bytes of the widest elements that move; odd
// extents, operands that are turned and small ones are left to threads of one element.
TEST(CudaMap, AWidePointwiseChainHasLanes) {
  struct Case {
    const char* text;
    std::map<std::string, int64_t> sizes;
    int64_t lanes;
  };
  const char* chain = R"(def chain(float(C, H, W) a, float(C) b) -> (y) {
      t(c, h, w) = a(c, h, w) * b(c)
      y(c, h, w) = max(t(c, h, w), 0.0) - a(c, h, w) })";
  const Case cases[] = {
      {chain, {{"C", 12}, {"H", 70}, {"W", 84}}, 4},
      {chain, {{"C", 12}, {"H", 70}, {"W", 85}}, 1},
      {chain, {{"C", 12}, {"H", 70}, {"W", 8}}, 1},
      {chain, {{"C", 2}, {"H", 70}, {"W", 1024}}, 4},
      {chain, {{"C", 70000}, {"H", 1}, {"W", 4}}, 4},
      {R"(def turned(float(M, N) a) -> (y) { y(i, j) = a(j, i) + 1.0 })",
       {{"N", 512}, {"M", 512}},
       1},
      {R"(def halves(float16(N, M) a, float16(M) b) -> (y) { y(i, j) = a(i, j) + b(j) })",
       {{"N", 400}, {"M", 520}},
       8},
      {R"(def chosen(bool(N, M) k, float(N, M) a) -> (y) { y(i, j) = k(i, j) ? a(i, j) : 0.0 })",
       {{"N", 400}, {"M", 520}},
       4}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const Result<tc::Program> program = oracle::Compile(c.text, c.sizes);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const auto mapped = polyhedral::MapToCuda({.program = &*program, .target = Sm90()});
    ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
    EXPECT_EQ(mapped->mapped.mapping, CudaMapping::kGrid);
    const std::string text = loops::Print(mapped->mapped.nest);
    const std::string wide = fmt::format("vector lane = 0:{} ", c.lanes);
    EXPECT_EQ(text.find("vector lane") != text.npos, c.lanes > 1) << text;
    EXPECT_EQ(text.find(wide) != text.npos, c.lanes > 1) << text;
    EXPECT_EQ(ExpectMaps(c.text, c.sizes), CudaMapping::kGrid);
  }
}

// Constants are filled before all iterations, and read by all lanes.
TEST(CudaMap, LanesShareConstants) {
  const char* text = R"(def scaled(float(N, M) x) -> (y) {
      const float c(3) = {0.5, -1.25, 2.0}
      t(i, j) = x(i, j) * c((i + 1) % 3)
      y(i, j) = t(i, j) + c(0) })";
  const std::map<std::string, int64_t> sizes = {{"N", 512}, {"M", 256}};
  EXPECT_EQ(ExpectMaps(text, sizes), CudaMapping::kGrid);
  const Result<tc::Program> program = oracle::Compile(text, sizes);
  const auto mapped = polyhedral::MapToCuda({.program = &*program, .target = Sm90()});
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  const std::string nest = loops::Print(mapped->mapped.nest);
  EXPECT_NE(nest.find("vector lane = 0:4 "), nest.npos) << nest;
}

TEST(CudaMap, RowsShareConstants) {
  EXPECT_EQ(ExpectMaps(R"(def softmax(float(N, M) x) -> (y) {
      const float c(3) = {0.5, -1.25, 2.0}
      t(i, j) = x(i, j) * c(j % 3)
      top(i) max=! t(i, j)
      y(i, j) = (t(i, j) - top(i)) * c(1) })",
                       {{"N", 300}, {"M", 256}}),
            CudaMapping::kRows);
}

TEST(CudaMap, SoftmaxIsRows) {
  EXPECT_EQ(ExpectMaps(R"(def softmax(float(N, M) x) -> (y) {
      top(i) max=! x(i, j)
      e(i, j) = exp(x(i, j) - top(i))
      sum(i) +=! e(i, j)
      y(i, j) = e(i, j) / sum(i) })",
                       {{"N", 5}, {"M", 300}}),
            CudaMapping::kRows);
}

TEST(CudaMap, WhatExchangesValuesIsOneBlock) {
  EXPECT_EQ(ExpectMaps(R"(def transposed_sums(float(N, M) x) -> (y) {
      rows(i) +=! x(i, j)
      columns(j) +=! x(i, j)
      y(i, j) = x(i, j) - rows(i) * columns(j) })",
                       {{"N", 20}, {"M", 30}}),
            CudaMapping::kBlock);
}

TEST(CudaMap, AProductOfFewTilesIsAGrid) {
  EXPECT_EQ(ExpectMaps(R"(def product(float(N, K) a, float(K, M) b, float(M) c) -> (y) {
      t(i, j) +=! a(i, k) * b(k, j)
      y(i, j) = t(i, j) + c(j) })",
                       {{"N", 40}, {"M", 40}, {"K", 17}}),
            CudaMapping::kGrid);
}

TEST(CudaMap, AProductOfManyTilesIsTiles) {
  EXPECT_EQ(ExpectMaps(R"(def product(float(N, K) a, float(K, M) b, float(M) c) -> (y) {
      t(i, j) +=! a(i, k) * b(k, j)
      y(i, j) = max(t(i, j) + c(j), 0.0) })",
                       {{"N", 130}, {"M", 260}, {"K", 17}}),
            CudaMapping::kTiles);
}

TEST(CudaMap, AConvolutionIsTiles) {
  for (const char* layout : {"abcd", "acdb", "aBcd16b"}) {
    const polyhedral::ScheduleRequest request{
        .layouts = {{"x", *ParseLayout(layout)}, {"y", *ParseLayout(layout)}},
        .constants = {"f", "b"}};
    EXPECT_EQ(ExpectMaps(R"(def conv(float(N, C, H, W) x, float(K, C, 3, 3) f, float(K) b) -> (y) {
      t(n, k, h, w) +=! h + r >= 1 && h + r < H + 1 && w + s >= 1 && w + s < W + 1
          ? x(n, c, h + r - 1, w + s - 1) * f(k, c, r, s) : 0.0 where h in 0:H, w in 0:W
      y(n, k, h, w) = max(t(n, k, h, w) + b(k), 0.0) })",
                         {{"N", 1}, {"C", 16}, {"K", 64}, {"H", 17}, {"W", 16}}, request),
              CudaMapping::kTiles)
        << layout;
  }
}

TEST(CudaMap, GroupsOfChannelsAreTiles) {
  EXPECT_EQ(
      ExpectMaps(R"(def grouped(float(N, C, H, W) x, float(K, 12, 3, 3) f) -> (y) {
      y(n, k, h, w) +=! x(n, 12 * (k / 20) + c, 2 * h + r, w + 2 * s) * f(k, c, r, s)
          where h in 0:15, w in 0:14 })",
                 {{"N", 2}, {"C", 36}, {"K", 60}, {"H", 31}, {"W", 18}}, {.constants = {"f"}}),
      CudaMapping::kTiles);
}

constexpr std::string_view kProduct =
    R"(loops product (a: in f32[70, 40], b: in f32[40, 65], y: out f32[70, 65]) for "/MatMul" {
    reg t: f32[1]
    parallel i = 0:70 { parallel j = 0:65 {
      t[0] = 0.0
      for k = 0:40 { t[0] = fma(a[i, k], b[k, j], t[0]) }
      y[i, j] = t[0]
    } } })";

TEST(CudaMap, WhatIsWantedIsTaken) {
  const loops::LoopNest nest = VerifiedNest(kProduct);
  std::vector<float> a(2800), b(2600), y(4550), expected(y.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  ASSERT_EQ(Execute(nest, a, b, expected), "");
  const polyhedral::GridMap maps[] = {{"grid", {64}},
                                      {"rows", {32}},
                                      {"rows", {96}},
                                      {"block", {256}},
                                      {"tiles", {32, 32, 8, 4, 4}},
                                      {"tiles", {64, 128, 16, 8, 8}}};
  for (const polyhedral::GridMap& map : maps) {
    const auto mapped = polyhedral::MapNest(nest, Sm90(), map);
    ASSERT_TRUE(mapped.ok()) << map.mapping << ": " << mapped.status().ToString();
    EXPECT_EQ(mapped->map, map);
    EXPECT_EQ(ExecuteBoth(mapped->nest, a, b, y), "");
    EXPECT_EQ(y, expected) << loops::Print(mapped->nest);
  }
}

// What a device starts, of a nest that is one launch.
void ExpectFitsADevice(const loops::LoopNest& nest, double iterations) {
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  plan::CudaLaunch launch;
  double threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    launch.grid[i] = text->launch.grid[i].Eval({});
    launch.block[i] = text->launch.block[i].Eval({});
    threads *= static_cast<double>(launch.grid[i]) * static_cast<double>(launch.block[i]);
  }
  EXPECT_TRUE(plan::CheckLaunch(launch).ok()) << plan::CheckLaunch(launch).ToString();
  EXPECT_GE(threads * 16, iterations) << loops::Print(nest);  // at most 16 lanes
}

// A grid has 65535 blocks along y and z, and an int of them along x.
TEST(CudaMap, MoreIterationsThanAnIntHoldsFitAGrid) {
  const loops::LoopNest pointwise = VerifiedNest(
      R"(loops k (x: in u8[70000, 40001], y: out u8[70000, 40001]) {
        parallel i = 0:70000 { parallel j = 0:40001 { y[i, j] = x[i, j] } } })");
  const loops::LoopNest sums = VerifiedNest(
      R"(loops k (x: in f32[70000, 3, 70001, 40], y: out f32[70000, 3, 70001]) {
        parallel i = 0:70000 { parallel j = 0:3 { parallel k = 0:70001 {
          y[i, j, k] = 0.0
          for l = 0:40 { y[i, j, k] = y[i, j, k] + x[i, j, k, l] } } } } })");
  for (const loops::LoopNest* nest : {&pointwise, &sums}) {
    for (const polyhedral::GridMap& map : {polyhedral::GridMap(), {"grid", {128}}}) {
      const auto mapped = polyhedral::MapNest(*nest, Sm90(), map);
      ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
      ExpectFitsADevice(mapped->nest, nest == &pointwise ? 70000.0 * 40001 : 70000.0 * 3 * 70001);
      ExpectCompiles(mapped->nest);
    }
  }
}

// Loops that cannot be one, as those with steps.
TEST(CudaMap, LoopsLongerThanAGridGoOnInEachBlock) {
  const loops::LoopNest nest = VerifiedNest(
      R"(loops k (x: in f32[140000, 2], y: out f32[140000, 2]) {
        parallel i = 0:140000:2 { parallel j = 0:2 { y[i, j] = x[i, j] + 1.0 } } })");
  const auto mapped = polyhedral::MapNest(nest, Sm90(), {"grid", {32}});
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  ExpectFitsADevice(mapped->nest, 0);
  std::vector<float> x(280000), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  EXPECT_EQ(ExecuteBoth(mapped->nest, x, y), "");
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[139998 * 2 + 1], 139998 * 2 + 2);
}

// Blocks that have several rows would spoil what one is still read of.
TEST(CudaMap, RowsOfMoreLoopsThanAGridHasAreOneLoopOrNone) {
  const auto nest = [](std::string_view of_a) {
    return VerifiedNest(
        fmt::format(R"(loops k (x: in f32[4, 2, 3, 2, 64], y: out f32[4, 2, 3, 2, 64]) {{
        cache t: f32[64]
        parallel a = 0:{} {{ parallel b = 0:2 {{ parallel c = 0:3 {{ parallel d = 0:2 {{
          for i = 0:64 {{ t[i] = x[a, b, c, d, i] }}
          for j = 0:64 {{ y[a, b, c, d, j] = t[63 - j] }} }} }} }} }} }})",
                    of_a));
  };
  std::vector<float> x(4 * 12 * 64), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto one = polyhedral::MapNest(nest("4"), Sm90(), {"rows", {64}});
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  EXPECT_EQ(ExecuteBoth(one->nest, x, y), "");
  const auto none = polyhedral::MapNest(nest("4:2"), Sm90(), {"rows", {64}});
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  const auto other = polyhedral::MapNest(nest("4:2"), Sm90());
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  EXPECT_EQ(ExecuteBoth(other->nest, x, y), "");
}

TEST(CudaMap, WhatCannotBeIsRefused) {
  const loops::LoopNest nest = VerifiedNest(kProduct);
  const auto code = [&](const polyhedral::GridMap& map) {
    return polyhedral::MapNest(nest, Sm90(), map).status().code();
  };
  EXPECT_EQ(code({"tiles", {32, 32, 8, 4}}), Code::kInvalid);
  EXPECT_EQ(code({"tiles", {32, 32, 8, 3, 4}}), Code::kInvalid);
  EXPECT_EQ(code({"grid", {33}}), Code::kInvalid);
  EXPECT_EQ(code({"rows", {2048}}), Code::kInvalid);
  EXPECT_EQ(code({"spiral", {32}}), Code::kInvalid);
  const loops::LoopNest two =
      VerifiedNest(R"(loops two (x: in f32[9], y: out f32[9], z: out f32[9]) {
      parallel i = 0:9 { y[i] = x[i] } barrier parallel j = 0:9 { z[j] = y[8 - j] } })");
  EXPECT_EQ(polyhedral::MapNest(two, Sm90(), {"tiles", {32, 32, 8, 4, 4}}).status().code(),
            Code::kUnsupported);
}

// How many of a kind: `usual`, or what WEFT_RANDOM_PROGRAMS says (tools/random_programs.sh).
uint64_t Count(uint64_t usual) {
  const char* wanted = std::getenv("WEFT_RANDOM_PROGRAMS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : usual;
}

// How often each mapping was taken, and of those asked for by name: small programs would have no
// lanes and few rows.
struct Taken {
  std::map<CudaMapping, int> best;
  std::map<std::string, int> wanted;
};
Taken ExpectRandomMaps(const tc::RandomOptions& options, uint64_t count) {
  constexpr uint64_t kAtOnce = 50;  // so that what was compiled does not fill the memory
  Taken taken;
  for (uint64_t seed = 1; seed <= count && !::testing::Test::HasFailure();) {
    Batch batch;
    for (const uint64_t end = std::min(count + 1, seed + kAtOnce); seed < end; ++seed) {
      const tc::Program program = tc::RandomProgram(seed, options);
      const auto mapping =
          batch.Add(fmt::format("seed {}", seed), program, tc::RandomInputs(program, seed));
      EXPECT_TRUE(mapping.ok()) << "seed " << seed << ": " << mapping.status().ToString() << "\n"
                                << tc::Print(program);
      if (mapping.ok()) ++taken.best[*mapping];
      const polyhedral::GridMap maps[] = {{"grid", {32, 16}}, {"rows", {64, 16}}, {"launches", {}}};
      for (const polyhedral::GridMap& map : maps) {
        const auto is_taken = batch.AddAs(fmt::format("seed {}, {}", seed, map.mapping), program,
                                          tc::RandomInputs(program, seed), map);
        EXPECT_TRUE(is_taken.ok()) << "seed " << seed << ": " << is_taken.status().ToString();
        if (is_taken.ok() && *is_taken) ++taken.wanted[map.mapping];
      }
    }
    batch.ExpectRight();
    batch.ExpectCompiles(10);
  }
  return taken;
}

TEST(CudaMap, RandomProgramsKeepTheirMeaning) {
  auto taken = ExpectRandomMaps({}, Count(200));
  EXPECT_GT(taken.best[CudaMapping::kGrid], 0);
  EXPECT_GT(taken.best[CudaMapping::kBlock], 0);
  EXPECT_GT(taken.wanted["grid"], 0);
  EXPECT_GT(taken.wanted["rows"], 0);
  EXPECT_GT(taken.wanted["launches"], 0);
}

TEST(CudaMap, TheWholeLanguageKeepsItsMeaning) {
  ExpectRandomMaps({.whole_language = true}, Count(100));
}

}  // namespace
}  // namespace weft::cuda_test
