// Rows as blocks: what threads hand on, how they sum up, and where that is the mapping.
#include <fmt/format.h>

#include <algorithm>

#include "tc_lang/testing/random_programs.h"
#include "tests/cuda/batch.h"
#include "tests/oracle/oracle.h"

namespace weft::cuda_test {
namespace {

using polyhedral::CudaMapping;
using Sizes = std::map<std::string, int64_t>;

constexpr const char* kSoftmax = R"(def softmax(float(N, M) x) -> (y) {
      top(i) max=! x(i, j)
      e(i, j) = exp(x(i, j) - top(i))
      sum(i) +=! e(i, j)
      y(i, j) = e(i, j) / sum(i) })";
constexpr const char* kNorm = R"(def layer_norm(float(N, M) x, float(M) g, float(M) b) -> (y) {
      s(i) +=! x(i, j)
      m(i) = s(i) / 100.0
      d(i, j) = x(i, j) - m(i)
      q(i) +=! d(i, j) * d(i, j)
      r(i) = 1.0 / sqrt(q(i) / 100.0 + 0.00001)
      y(i, j) = d(i, j) * r(i) * g(j) + b(j) })";
constexpr const char* kGroups = R"(def groups(float(N, G, C, H, W) x, float(G, C) g) -> (y) {
      s(n, k) +=! x(n, k, c, h, w)
      d(n, k, c, h, w) = x(n, k, c, h, w) - s(n, k) / 100.0
      q(n, k) +=! d(n, k, c, h, w) * d(n, k, c, h, w)
      y(n, k, c, h, w) = d(n, k, c, h, w) / sqrt(q(n, k) + 1.0) * g(k, c) })";

constexpr const char* kColumns = R"(def columns(float(N, K, M) x) -> (y) {
      top(n, i) max=! x(n, k, i)
      e(n, k, i) = exp(x(n, k, i) - top(n, i))
      sum(n, i) +=! e(n, k, i)
      y(n, k, i) = e(n, k, i) / sum(n, i) })";
constexpr const char* kChannelNorm = R"(def channel_norm(float(N, K, M) x, float(K) g) -> (y) {
      s(n, i) +=! x(n, k, i)
      q(n, i) +=! (x(n, k, i) - s(n, i) / 100.0) * (x(n, k, i) - s(n, i) / 100.0)
      r(n, i) = 1.0 / sqrt(q(n, i) / 100.0 + 0.00001)
      y(n, k, i) = (x(n, k, i) - s(n, i) / 100.0) * r(n, i) * g(k) })";

// The nest that a program is mapped to, right in both ways that can be run here.
loops::LoopNest Mapped(const char* text, const Sizes& sizes, CudaMapping mapping, bool run = true) {
  const Result<tc::Program> program = oracle::Compile(text, sizes);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  if (!program.ok()) return {};
  auto mapped = polyhedral::MapToCuda({.program = &*program, .target = Sm90()});
  EXPECT_TRUE(mapped.ok()) << mapped.status().ToString();
  if (!mapped.ok()) return {};
  EXPECT_EQ(mapped->mapped.mapping, mapping) << loops::Print(mapped->mapped.nest);
  if (!run) return std::move(mapped->mapped.nest);
  Batch batch;
  batch.AddMapped("", *program, tc::RandomInputs(*program, 1), mapped->mapped.nest);
  batch.ExpectRight();
  batch.ExpectCompiles(1);
  return std::move(mapped->mapped.nest);
}

int64_t Count(const std::string& text, std::string_view what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

int64_t Threads(const loops::LoopNest& nest) {
  const auto launch = codegen::LaunchOf(nest);
  return launch.ok() ? launch->ThreadsPerBlock() : 0;
}

// One barrier a reduction, a row in registers, 16 bytes at once.
TEST(CudaRows, ThreadsMeetOnceAReduction) {
  struct Case {
    const char* text;
    Sizes sizes;
    int64_t threads, lanes;
  };
  const Case cases[] = {{kSoftmax, {{"N", 5}, {"M", 1024}}, 256, 4},
                        {kSoftmax, {{"N", 5}, {"M", 300}}, 128, 4},
                        {kSoftmax, {{"N", 5}, {"M", 301}}, 512, 1},
                        {kSoftmax, {{"N", 3}, {"M", 5000}}, 1024, 4},
                        {kNorm, {{"N", 1100}, {"M", 384}}, 32, 4},
                        {kNorm, {{"N", 4}, {"M", 768}}, 256, 4},
                        {kGroups, {{"N", 2}, {"G", 3}, {"C", 4}, {"H", 9}, {"W", 8}}, 128, 4}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const loops::LoopNest nest = Mapped(c.text, c.sizes, CudaMapping::kRows);
    const std::string text = loops::Print(nest);
    EXPECT_EQ(Count(text, "barrier"), c.threads > 32 ? 2 : 0) << text;
    EXPECT_EQ(Count(text, "exchange 16"), 2) << text;
    EXPECT_EQ(Count(text, "single"), 0) << text;
    EXPECT_EQ(Threads(nest), c.threads) << text;
    EXPECT_EQ(text.find(fmt::format("= 0:{} {{", c.lanes)) != text.npos, c.lanes > 1) << text;
    for (const loops::Buffer& b : nest.buffers) {
      if (b.space != loops::Space::kShared) continue;
      EXPECT_LE(loops::BufferBytes(b, {}), 4 * 32) << b.name << "\n" << text;
    }
  }
}

// Loops change places where memory lies along an outer one.
TEST(CudaRows, LoopsRunAlongMemory) {
  const loops::LoopNest nest = Mapped(R"(def weighted(float(N, P, C) x, float(C) w) -> (y) {
      s(n) +=! w(c) * x(n, p, c)
      y(n, p, c) = x(n, p, c) / s(n) })",
                                      {{"N", 3}, {"P", 30}, {"C", 24}}, CudaMapping::kRows);
  const std::string text = loops::Print(nest);
  EXPECT_EQ(Count(text, "= x["), 1) << text;
  EXPECT_NE(text.find("thread_x p_c"), std::string::npos) << text;
  EXPECT_EQ(text.find("thread_x c_p"), std::string::npos) << text;
  EXPECT_NE(text.find("= 0:4 {"), std::string::npos) << text;
}

TEST(CudaRows, ALargerZeroIsTheSameForAll) {
  const loops::LoopNest nest = Mapped(kSoftmax, {{"N", 2000}, {"M", 128}}, CudaMapping::kRows);
  EXPECT_EQ(Threads(nest), 32);
  EXPECT_EQ(Count(loops::Print(nest), "barrier"), 1);
}

// Results that are operands are stored once; sums of other types fold as those of f32 do.
TEST(CudaRows, SumsOfOtherTypesAndSumsThatAreResults) {
  Mapped("def sums(double(N, M) x) -> (s, y) { s(i) +=! x(i, j) y(i, j) = x(i, j) * s(i) }",
         {{"N", 3}, {"M", 260}}, CudaMapping::kRows);
  Mapped("def least(float(N, M) x) -> (s) { s(i) min=! x(i, j) }", {{"N", 3}, {"M", 260}},
         CudaMapping::kRows);
  Mapped("def products(float(N, M) x) -> (s) { s(i) *=! x(i, j) }", {{"N", 3}, {"M", 261}},
         CudaMapping::kRows);
  const loops::LoopNest halves =
      Mapped("def halves(float16(N, M) x) -> (s) { s(i) +=! float(x(i, j)) }",
             {{"N", 3}, {"M", 264}}, CudaMapping::kRows);
  EXPECT_NE(loops::Print(halves).find("vector lane = 0:8"), std::string::npos);
}

// Rows that are too long for registers and for shared memory.
TEST(CudaRows, LongRowsLieInScratch) {
  const loops::LoopNest nest =
      VerifiedNest(R"(loops norm_of (x: in f32[2, 40000], y: out f32[2, 40000]) {
    cache d: f32[40000]
    reg s: f32[]
    parallel i = 0:2 {
      s[] = 0.0
      for j = 0:40000 { d[j] = x[i, j] * x[i, j] }
      for k = 0:40000 { s[] = s[] + d[k] }
      for l = 0:40000 { y[i, l] = d[l] / s[] }
    } })");
  const auto mapped = polyhedral::MapNest(nest, Sm90(), {"rows", {1024}});
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  std::vector<float> x(80000), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 3);
  EXPECT_EQ(ExecuteBoth(mapped->nest, x, y), "");
  EXPECT_EQ(y[1], 1.0F / 66665.0F);
  const auto text = codegen::EmitCudaText(mapped->nest, Sm90());
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(text->scratch_bytes, 40000 * 4);
}

// The blocks of a cluster share a row that one of them cannot hold, and few long ones; what is of a
// row alone each computes for itself.
TEST(CudaRows, BlocksOfAClusterShareLongRows) {
  struct Case {
    const char* text;
    Sizes sizes;
    std::vector<int64_t> map;  // threads, lanes, blocks
  };
  const Case cases[] = {
      {kNorm, {{"N", 2}, {"M", 65536}}, {1024, 0, 8}},
      {kNorm, {{"N", 300}, {"M", 40000}}, {512, 0, 4}},
      {kNorm, {{"N", 64}, {"M", 16384}}, {1024, 0, 4}},
      {kSoftmax, {{"N", 3}, {"M", 40001}}, {1024, 0, 8}},
      {kGroups, {{"N", 1}, {"G", 3}, {"C", 40}, {"H", 26}, {"W", 20}}, {1024, 0, 4}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.text, fmt::join(c.map, " ")));
    const bool is_small = c.sizes.at("N") < 10;
    const loops::LoopNest nest = Mapped(c.text, c.sizes, CudaMapping::kRows, is_small);
    const std::string text = loops::Print(nest);
    EXPECT_NE(text.find(fmt::format("cluster_x block = 0:{}", c.map[2])), std::string::npos)
        << text;
    EXPECT_EQ(Count(text, "barrier cluster"), 3) << text;
    EXPECT_EQ(Threads(nest), c.map[0]) << text;
    EXPECT_EQ(Count(text, "= x["), 1) << "each element is read once\n" << text;
  }
}

// Sums that are results, and cells that one thread of each block computes.
TEST(CudaRows, BlocksOfAClusterHandOnSumsOnly) {
  const loops::LoopNest sums = Mapped(
      R"(def sums(float(N, M) x) -> (s, y) {
           s(i) +=! x(i, j)
           y(i, j) = x(i, j) * s(i) })",
      {{"N", 2}, {"M", 20000}}, CudaMapping::kRows);
  EXPECT_NE(loops::Print(sums).find("if -block >= 0"), std::string::npos) << loops::Print(sums);
  const loops::LoopNest few = Mapped(
      R"(def few(float(N, E, M) x, float(E) g) -> (y) {
           s(i) +=! x(i, e, j)
           f(i, e) = g(e) / s(i)
           y(i, e, j) = x(i, e, j) * f(i, e) })",
      {{"N", 2}, {"E", 3}, {"M", 8192}}, CudaMapping::kRows);
  EXPECT_NE(loops::Print(few).find("cluster_x"), std::string::npos) << loops::Print(few);
  // What the first block stores, cells of all of them follow from.
  const loops::LoopNest cells = Mapped(
      R"(def cells(float(N, M) x) -> (m, y) {
           m(n) +=! x(n, k)
           s(n) = m(n) * 0.001 where n in 0:2
           v(n) = tanh(s(n)) where n in 0:2
           y(n, k) = x(n, k) * v(n) + s(n) })",
      {{"N", 2}, {"M", 16384}}, CudaMapping::kRows);
  EXPECT_NE(loops::Print(cells).find("cluster_x"), std::string::npos) << loops::Print(cells);
  // What all blocks would have to see stays in one.
  const loops::LoopNest turned = Mapped(
      R"(def turned(float(N, M) x) -> (y) {
           s(i) +=! x(i, j)
           e(i, j) = x(i, j) * s(i)
           y(i, j) = e(i, 9999 - j) where i in 0:2, j in 0:10000 })",
      {{"N", 2}, {"M", 10000}}, CudaMapping::kRows);
  EXPECT_EQ(loops::Print(turned).find("cluster_x"), std::string::npos) << loops::Print(turned);
}

TEST(CudaRows, BlocksOfARowAreAWish) {
  const Result<tc::Program> program = oracle::Compile(kNorm, {{"N", 2}, {"M", 40000}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const polyhedral::ScheduleRequest request{.program = &*program, .target = Sm90()};
  const auto mapped = polyhedral::MapToCuda(request);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  EXPECT_EQ(mapped->choice.map.sizes, (std::vector<int64_t>{1024, 0, 8}));
  const auto nest = polyhedral::Lower(request, mapped->choice, mapped->tree);
  ASSERT_TRUE(nest.ok()) << nest.status().ToString();
  const auto again = polyhedral::MapNest(*nest, Sm90(), mapped->choice.map);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(loops::Equal(again->nest, mapped->mapped.nest));
  EXPECT_TRUE(polyhedral::MapNest(*nest, Sm90(), {"rows", {512, 4, 2}}).ok());
  EXPECT_TRUE(polyhedral::MapNest(*nest, Sm90(), {"rows", {512, 4, 1}}).ok());
  // Lanes divide a row: two, where three are wished for.
  const auto pairs = polyhedral::MapNest(*nest, Sm90(), {"rows", {512, 3, 2}});
  ASSERT_TRUE(pairs.ok()) << pairs.status().ToString();
  EXPECT_NE(loops::Print(pairs->nest).find("vector lane = 0:2"), std::string::npos);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{512, 0, 9}, {512, 0, 0}, {512, -1, 2}, {512, 0}, {512, 4, 2, 1}})
    EXPECT_EQ(polyhedral::MapNest(*nest, Sm90(), {"rows", sizes}).status().code(), Code::kInvalid);
  const Target old{.kind = TargetKind::kCuda, .isa = Isa::kSm80};
  EXPECT_EQ(polyhedral::MapNest(*nest, old, mapped->choice.map).status().code(), Code::kInvalid);
  const auto without = polyhedral::MapToCuda({.program = &*program, .target = old});
  ASSERT_TRUE(without.ok()) << without.status().ToString();
  EXPECT_EQ(loops::Print(without->mapped.nest).find("cluster_x"), std::string::npos);
}

// Many rows are blocks if threads along them read side by side, and threads of a grid otherwise.
TEST(CudaRows, ManyRowsAreReadAlongMemory) {
  Mapped("def along(float(N, M) x) -> (s) { s(i) +=! x(i, j) }", {{"N", 17000}, {"M", 40}},
         CudaMapping::kRows);
  Mapped("def across(float(M, N) x) -> (s) { s(i) +=! x(j, i) }", {{"N", 17000}, {"M", 40}},
         CudaMapping::kGrid);
}

// Neighbours side by side along x, a column's threads along y: one barrier a sum, and the column in
// registers.
TEST(CudaColumns, ThreadsShareWhatLiesAcross) {
  struct Case {
    const char* text;
    Sizes sizes;
    std::vector<int64_t> map;
  };
  const Case cases[] = {{kColumns, {{"N", 1}, {"K", 64}, {"M", 512}}, {16, 16}},
                        {kColumns, {{"N", 2}, {"K", 100}, {"M", 50}}, {16, 32}},
                        {kColumns, {{"N", 2}, {"K", 1030}, {"M", 33}}, {16, 64}},
                        {kColumns, {{"N", 300}, {"K", 64}, {"M", 32}}, {32, 4}},
                        {kChannelNorm, {{"N", 3}, {"K", 200}, {"M", 40}}, {16, 32}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.text, c.sizes.at("K")));
    const bool is_small = c.sizes.at("N") < 100;
    const loops::LoopNest nest = Mapped(c.text, c.sizes, CudaMapping::kColumns, is_small);
    const std::string text = loops::Print(nest);
    EXPECT_EQ(Count(text, "barrier"), 2) << text;
    EXPECT_EQ(Count(text, "exchange"), 0) << text;
    EXPECT_EQ(Count(text, "single"), 0) << text;
    EXPECT_EQ(Threads(nest), c.map[0] * c.map[1]) << text;
    EXPECT_EQ(Count(text, "= x["), 1) << "each element is read once\n" << text;
    for (const loops::Buffer& b : nest.buffers) {
      if (b.space != loops::Space::kShared) continue;
      EXPECT_EQ(loops::BufferBytes(b, {}), 4 * c.map[0] * c.map[1]) << b.name;
    }
  }
}

// Of other types, with sums that are results, and with what a column hands on in shared memory.
TEST(CudaColumns, SumsThatAreResultsAndTemporariesThatAreShared) {
  Mapped("def sums(double(K, M) x) -> (s, y) { s(i) +=! x(k, i) y(k, i) = x(k, i) * s(i) }",
         {{"K", 70}, {"M", 48}}, CudaMapping::kColumns);
  const loops::LoopNest turned = Mapped(
      R"(def turned(float(K, M) x) -> (y) {
           s(i) +=! x(k, i)
           e(k, i) = x(k, i) * s(i)
           y(k, i) = e(69 - k, i) + 1.0 where k in 0:70 })",
      {{"K", 70}, {"M", 40}}, CudaMapping::kColumns);
  EXPECT_NE(loops::Print(turned).find("shared e: f32[70, 1, 16]"), std::string::npos)
      << loops::Print(turned);
}

// A wish gives the nest that it was taken from; what is no block is refused.
TEST(CudaColumns, SizesAreAWish) {
  const Result<tc::Program> program = oracle::Compile(kColumns, {{"N", 2}, {"K", 96}, {"M", 64}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const polyhedral::ScheduleRequest request{.program = &*program, .target = Sm90()};
  const auto mapped = polyhedral::MapToCuda(request);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  EXPECT_EQ(mapped->choice.map.mapping, "columns");
  const auto nest = polyhedral::Lower(request, mapped->choice, mapped->tree);
  ASSERT_TRUE(nest.ok()) << nest.status().ToString();
  const auto again = polyhedral::MapNest(*nest, Sm90(), mapped->choice.map);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(loops::Equal(again->nest, mapped->mapped.nest));
  const auto wide = polyhedral::MapNest(*nest, Sm90(), {"columns", {32, 8}});
  ASSERT_TRUE(wide.ok()) << wide.status().ToString();
  EXPECT_EQ(Threads(wide->nest), 256);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{16}, {16, 1}, {1, 32}, {16, 3}, {64, 32}, {16, -2}, {16, 16, 1}})
    EXPECT_FALSE(polyhedral::MapNest(*nest, Sm90(), {"columns", sizes}).ok())
        << fmt::format("{}", fmt::join(sizes, " "));
}

// More rows than a grid has along y.
TEST(CudaRows, AnyNumberOfRowsIsALaunch) {
  const loops::LoopNest nest =
      Mapped("def many(float(A, B, M) x) -> (s) { s(a, b) +=! x(a, b, j) }",
             {{"A", 66000}, {"B", 1}, {"M", 32}}, CudaMapping::kRows, false);
  const auto launch = codegen::LaunchOf(nest);
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  EXPECT_EQ(launch->grid[0].Eval({}), 66000);
}

}  // namespace
}  // namespace weft::cuda_test
