// Nests of several launches: barriers of the whole grid by hand, ranges that hand values on, and
// sums with few results.
#include <fmt/format.h>

#include <numeric>

#include "tc_lang/testing/random_programs.h"
#include "tests/cuda/batch.h"
#include "tests/oracle/oracle.h"

namespace weft::cuda_test {
namespace {

using polyhedral::CudaMapping;
using Sizes = std::map<std::string, int64_t>;
const std::vector<Isa> kAll = {Isa::kSm80, Isa::kSm90, Isa::kSm100};

// Each launch has a grid and shared memory of its own; grid space is what they hand on.
constexpr std::string_view kTwo = R"(loops two (x: in f32[4, 300], y: out f32[300]) {
    grid turned: f32[300, 4]
    shared row: f32[300]
    shared small: f32[4]
    block_x b = 0:4 {
      thread_x t = 0:300 { row[299 - t] = x[b, t] }
      barrier
      thread_x u = 0:300 { turned[u, b] = row[u] } }
    barrier
    block_x c = 0:300 {
      thread_x v = 0:4 { small[v] = turned[c, v] }
      barrier
      single { y[c] = ((small[0] + small[1]) + small[2]) + small[3] } } })";

TEST(CudaLaunches, EachHasAGridOfItsOwn) {
  const loops::LoopNest nest = VerifiedNest(kTwo);
  EXPECT_TRUE(loops::Equal(nest, ParseNest(loops::Print(nest))));
  std::vector<float> x(1200), y(300);
  std::iota(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  EXPECT_EQ(y[0], 4 * 299 + 1800);
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  ASSERT_EQ(text->then.size(), 1U);
  EXPECT_EQ(text->launch.grid[0].Eval({}), 4);
  EXPECT_EQ(text->launch.ThreadsPerBlock(), 300);
  EXPECT_EQ(text->shared_bytes, 1200);
  EXPECT_EQ(text->then[0].symbol, "two_1");
  EXPECT_EQ(text->then[0].launch.grid[0].Eval({}), 300);
  EXPECT_EQ(text->then[0].launch.ThreadsPerBlock(), 4);
  EXPECT_EQ(text->then[0].shared_bytes, 16);
  EXPECT_EQ(text->grid_bytes, 4800);
  ExpectCompiles(nest, kAll);
}

// Without the barrier one block reads what another writes; shared memory is of one launch.
TEST(CudaLaunches, WhatLaunchesDoNotHandOnIsFound) {
  std::vector<float> x(1200), y(300);
  std::string text(kTwo);
  const size_t barrier = text.find("barrier\n    block_x c");
  const loops::LoopNest together = ParseNest(text.erase(barrier, 7));
  EXPECT_NE(Execute(together, x, y).find("turned[0, 1] is read before"), std::string::npos);
  const loops::LoopNest forgotten = VerifiedNest(R"(loops k (x: in f32[4, 300], y: out f32[300]) {
    shared row: f32[300]
    block_x b = 0:4 { thread_x t = 0:300 { row[t] = x[b, t] } }
    barrier
    block_x c = 0:1 { thread_x v = 0:300 { y[v] = row[v] } } })");
  EXPECT_NE(Execute(forgotten, x, y).find("before it is written"), std::string::npos);
}

loops::LoopNest Mapped(const char* text, const Sizes& sizes, CudaMapping mapping, bool run = true,
                       Isa isa = Isa::kSm90) {
  const Result<tc::Program> program = oracle::Compile(text, sizes);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  if (!program.ok()) return {};
  auto mapped = polyhedral::MapToCuda(
      {.program = &*program, .target = {.kind = TargetKind::kCuda, .isa = isa}});
  EXPECT_TRUE(mapped.ok()) << mapped.status().ToString();
  if (!mapped.ok()) return {};
  const loops::LoopNest& nest = mapped->mapped.nest;
  EXPECT_EQ(mapped->mapped.mapping, mapping) << loops::Print(nest);
  if (mapping == CudaMapping::kLaunches) {
    EXPECT_EQ(mapped->mapped.map.sizes[0], static_cast<int64_t>(loops::LaunchesOf(nest).size()));
  }
  Batch batch;
  if (run) {
    batch.AddMapped("", *program, tc::RandomInputs(*program, 1), nest);
    batch.ExpectRight();
  }
  ExpectCompiles(nest, kAll);
  return nest;
}

int64_t Blocks(const loops::LoopNest& nest, size_t launch) {
  const auto of = codegen::LaunchOf(loops::LaunchesOf(nest)[launch]);
  if (!of.ok()) return 0;
  return of->grid[0].Eval({}) * of->grid[1].Eval({}) * of->grid[2].Eval({});
}

TEST(CudaLaunches, AFewLongSumsAreTwo) {
  const loops::LoopNest all = Mapped("def total(float(N, M) x) -> (s) { s +=! x(i, j) }",
                                     {{"N", 600}, {"M", 500}}, CudaMapping::kLaunches);
  EXPECT_EQ(Blocks(all, 0), 60);
  EXPECT_NE(loops::Print(all).find("vector lane"), std::string::npos);
  const loops::LoopNest prime = Mapped("def few(float(N, M) x) -> (s) { s(i) max=! x(i, j) }",
                                       {{"N", 3}, {"M", 100003}}, CudaMapping::kLaunches);
  EXPECT_EQ(Blocks(prime, 0), 72);
  const loops::LoopNest products =
      Mapped("def dots(float(N, M) x, float(N, M) w) -> (s) { s(i) +=! x(i, j) * w(i, j) }",
             {{"N", 2}, {"M", 200000}}, CudaMapping::kLaunches);
  EXPECT_NE(loops::Print(products).find("fma("), std::string::npos);
}

// What launches hand on is not taken for one's own temporary that was renamed to the same.
TEST(CudaLaunches, NamesOfTemporariesHideNothing) {
  Mapped(R"(def f(float(N, M) x) -> (y) {
      a(i) +=! x(i, j)
      part0_1(i) max=! x(i, j)
      y(i, j) = x(i, j) - a(i) * part0_1(i) })",
         {{"N", 8}, {"M", 40000}}, CudaMapping::kLaunches, true, Isa::kSm80);
}

// Threads read side by side across the sums, each a part of one.
TEST(CudaLaunches, SumsOfColumnsAreReadAlongMemory) {
  const loops::LoopNest nest = Mapped("def columns(float(N, M) x) -> (s) { s(j) +=! x(i, j) }",
                                      {{"N", 6000}, {"M", 192}}, CudaMapping::kLaunches);
  EXPECT_GE(Blocks(nest, 0), 100);
}

TEST(CudaLaunches, WhatIsSmallIsOneLaunch) {
  Mapped("def a_little(float(N, M) x) -> (s) { s(i) +=! x(i, j) }", {{"N", 4}, {"M", 5000}},
         CudaMapping::kRows);
  Mapped("def many(float(N, M) x) -> (s) { s(i) +=! x(i, j) }", {{"N", 200}, {"M", 2000}},
         CudaMapping::kRows);
}

// Few long rows that want a sum before they are done, where there are no clusters: the sums fill a
// device, and so do the rows.
TEST(CudaLaunches, NormsOfAFewChannels) {
  const loops::LoopNest nest =
      Mapped(R"(def batch_norm(float(N, C, H, W) x) -> (y) {
      s(c) +=! x(n, c, h, w)
      y(n, c, h, w) = x(n, c, h, w) - s(c) / 100.0 })",
             {{"N", 16}, {"C", 3}, {"H", 80}, {"W", 88}}, CudaMapping::kLaunches, true, Isa::kSm80);
  EXPECT_EQ(loops::LaunchesOf(nest).size(), 3U);
}

TEST(CudaLaunches, RangesThatHandValuesOn) {
  const loops::LoopNest nest = Mapped(R"(def transposed_sums(float(N, M) x) -> (y) {
      rows(i) +=! x(i, j)
      columns(j) +=! x(i, j)
      y(i, j) = x(i, j) - rows(i) * columns(j) })",
                                      {{"N", 200}, {"M", 300}}, CudaMapping::kLaunches);
  EXPECT_EQ(loops::LaunchesOf(nest).size(), 3U);
}

// As rows, a block for each channel, threads would read with strides. What comes first is wanted
// last, and what reduces nothing hands on in registers.
TEST(CudaLaunches, GatesOfChannelsThatLieLast) {
  const loops::LoopNest nest =
      Mapped(R"(def gate(float(P, C) x, float(H, C) z, float(C, K) w, float(K) g) -> (y) {
      wide(p, c) = z(p / 2, c) where p in 0:P
      s(c) +=! w(c, k) * g(k)
      scaled(p, c) = x(p, c) * s(c)
      y(p, c) = scaled(p, c) + wide(p, c) })",
             {{"P", 16400}, {"C", 96}, {"H", 8200}, {"K", 24}}, CudaMapping::kLaunches);
  EXPECT_EQ(loops::LaunchesOf(nest).size(), 2U);
}

TEST(CudaLaunches, ShortNeighboursThatDoNotMeetAreOne) {
  const char* const pieces = R"(def pieces(float(N) a, float(N) b, float(N) c) -> (y) {
      y(i) = a(i) where i in 0:N
      y(i) = b(i - N) * 2.0 where i in N:(2 * N - 7)
      y(i) = c(i - 2 * N + 7) where i in (2 * N - 7):(3 * N - 10) })";
  Mapped(pieces, {{"N", 5000}}, CudaMapping::kGrid);
  Mapped(pieces, {{"N", 300000}}, CudaMapping::kLaunches);
  const loops::LoopNest nest = Mapped(R"(def meet(float(N) a, float(N) b) -> (y, z) {
      y(i) = a(i) where i in 0:N
      y(i) = b(i - N) * 2.0 where i in N:(2 * N)
      z(i) = y(2 * i) where i in 0:N })",
                                      {{"N", 20000}}, CudaMapping::kLaunches);
  EXPECT_EQ(loops::LaunchesOf(nest).size(), 2U);
}

// What only one thread may write stays with one: two elements of a byte.
TEST(CudaLaunches, NeighboursOfASingle) {
  const Result<tc::Program> program = oracle::Compile(R"(def pieces(float(N) a, float(N) b) -> (y) {
      p(i) = a(i) where i in 0:N
      p(i) = b(i - N) where i in N:(2 * N)
      y(i) = int4(p(i)) where i in 0:(2 * N) })",
                                                      {{"N", 101}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const auto mapped = polyhedral::MapToCuda({.program = &*program, .target = Sm90()});
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
}

TEST(CudaLaunches, AsManyAsAreWanted) {
  const Result<tc::Program> program =
      oracle::Compile("def total(float(N) x) -> (s) { s +=! x(i) }", {{"N", 1 << 19}});
  ASSERT_TRUE(program.ok());
  const polyhedral::ScheduleRequest request{.program = &*program, .target = Sm90()};
  const auto mapped = polyhedral::MapToCuda(request);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->choice.map, (polyhedral::GridMap{"launches", {2}}));
  const auto nest = polyhedral::Lower(request, mapped->choice, mapped->tree);
  ASSERT_TRUE(nest.ok());
  const auto again = polyhedral::MapNest(*nest, Sm90(), mapped->choice.map);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(loops::Equal(again->nest, mapped->mapped.nest));
  EXPECT_EQ(polyhedral::MapNest(*nest, Sm90(), {"launches", {3}}).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace weft::cuda_test
