#include "codegen/reference/interpret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace weft::codegen {
namespace {

loops::LoopNest Nest(std::string_view text) {
  Result<loops::LoopNest> nest = loops::Parse(text, "test");
  EXPECT_TRUE(nest.ok()) << nest.status().ToString();
  if (!nest.ok()) return {};
  const Status status = loops::Verify(*nest);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return *std::move(nest);
}

// Runs x -> y, both of `n` elements of T, and returns what went wrong.
template <typename T>
std::string Execute(const loops::LoopNest& nest, std::vector<T> x, std::vector<T>& y,
                    KernelFault* fault = nullptr) {
  void* buffers[] = {x.data(), y.data()};
  const Status status = Interpret(nest, buffers, {}, fault, {.team_size = 3});
  return status.ok() ? "" : status.what();
}

TEST(Interpret, ConvolutionWithGuards) {
  const loops::LoopNest nest = Nest(R"(loops k (x: in f32[8], y: out f32[8]) { reg t: f32[4]
    parallel i = 0:2 {
      vector v = 0:4 { t[v] = 0.0 }
      for r = 0:3 { vector v = 0:4 {
        t[v] = t[v] + x[4*i + v + r - 1]{4*i + v + r - 1 >= 0, 8 - 4*i - v - r >= 0} } }
      vector v = 0:4 { y[4*i + v] = t[v] } } })");
  std::vector<float> y(8);
  EXPECT_EQ(Execute<float>(nest, {1, 2, 3, 4, 5, 6, 7, 8}, y), "");
  EXPECT_EQ(y, (std::vector<float>{3, 6, 9, 12, 15, 18, 21, 15}));
}

TEST(Interpret, LanesReadBeforeAnyIsWritten) {
  const loops::LoopNest nest = Nest(R"(loops k (x: in f32[4], y: out f32[4]) { reg t: f32[4]
    single {
    vector v = 0:4 { t[v] = x[v] }
    vector v = 0:3 { t[v] = t[v + 1] }
    vector v = 0:2 { t[v] = t[v] + t[v + 2] }
    vector v = 0:4 { if 1 - v >= 0 { y[v] = t[v] } else { unroll u = v:v + 1 { y[u] = -1.0 } } } } })");
  std::vector<float> y(4);
  EXPECT_EQ(Execute<float>(nest, {1, 2, 3, 4}, y), "");
  EXPECT_EQ(y, (std::vector<float>{6, 7, -1, -1}));
}

TEST(Interpret, CollapsesParallelLoops) {
  const loops::LoopNest nest = Nest(R"(loops k (x: in f32[15], y: out f32[15]) {
    parallel i = 0:3 { parallel j = 1:10:2 { y[5*i + floor(j/2)] = x[5*i + floor(j/2)] } } })");
  std::vector<float> x(15), y(15);
  for (int i = 0; i < 15; ++i) x[i] = static_cast<float>(i);
  EXPECT_EQ(Execute<float>(nest, x, y), "");
  EXPECT_EQ(y, x);
}

TEST(Interpret, FindsWhatIsWrong) {
  std::vector<float> y(8);
  const auto run = [&](std::string_view body) {
    Result<loops::LoopNest> nest =
        loops::Parse("loops k (x: in f32[8], y: out f32[8]) { reg r: f32[4] shared s: f32[8] " +
                         std::string(body) + "}",
                     "test");
    EXPECT_TRUE(nest.ok()) << nest.status().ToString();
    return Execute<float>(*nest, std::vector<float>(8), y);
  };
  EXPECT_NE(run("parallel i = 0:8 { y[i] = x[i + 1] }").find("outside"), std::string::npos);
  EXPECT_NE(run("parallel i = 0:8 { y[i] = r[0] }").find("before it is written"),
            std::string::npos);
  EXPECT_NE(run("parallel i = 0:8 { y[0] = x[i] }").find("without a barrier"), std::string::npos);
  // Ranks run one after another, so that rank 0 reads what has no value yet.
  EXPECT_NE(run("parallel i = 0:8 { s[i] = x[i] } parallel i = 0:8 { y[i] = s[7 - i] }"), "");
  EXPECT_EQ(run("parallel i = 0:8 { s[i] = x[i] } barrier parallel i = 0:8 { y[i] = s[7 - i] }"),
            "");
  EXPECT_NE(run("parallel i = 0:2 { barrier }").find("not all reach"), std::string::npos);
}

TEST(Interpret, FaultsAreReportedAndClamped) {
  const loops::LoopNest nest = Nest(R"(loops k (x: in i64[4], y: out i64[4]) {
    parallel i = 0:4 { let j = x[i] in 0:4 of x y[i] = x[j] } })");
  std::vector<int64_t> y(4);
  KernelFault fault{};
  EXPECT_EQ(Execute<int64_t>(nest, {3, -5, 9, 1}, y, &fault), "");
  EXPECT_EQ(fault.code, 1u);
  EXPECT_EQ(fault.operand, 0u);
  EXPECT_EQ(fault.found, -5);
  EXPECT_EQ(y, (std::vector<int64_t>{1, 3, 3, -5}));
}

TEST(Interpret, CudaBlocksAndThreads) {
  const auto text = [](std::string_view barrier) {
    return fmt::format(R"(loops k (x: in f32[8], y: out f32[8]) {{ shared s: f32[4]
    block_x b = 0:2 {{ thread_x t = 0:4 {{
      s[t] = x[4*b + t]
      {}
      y[4*b + t] = s[3 - t] }} }} }})",
                       barrier);
  };
  std::vector<float> y(8);
  EXPECT_EQ(Execute<float>(Nest(text("barrier")), {1, 2, 3, 4, 5, 6, 7, 8}, y), "");
  EXPECT_EQ(y, (std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5}));
  EXPECT_NE(Execute<float>(Nest(text("")), {1, 2, 3, 4, 5, 6, 7, 8}, y), "");
}

// What two blocks read, the one that read last may not write either, whatever its barriers.
TEST(Interpret, BarriersOrderNoBlocks) {
  const auto run = [](std::string_view blocks) {
    const auto nest = loops::Parse(fmt::format(R"(loops k (x: in f32[8], y: inout f32[8]) {{
        shared s: f32[1]
        block_x b = 0:{} {{
          thread_x t = 0:4 {{ if -t >= 0 {{ s[0] = y[0] }} }}
          barrier
          thread_x u = 0:4 {{ if b + u - 4 >= 0 {{ y[0] = x[u] + s[0] }} }} }} }})",
                                               blocks),
                                   "test");
    EXPECT_TRUE(nest.ok()) << nest.status().ToString();
    std::vector<float> y(8);
    return Execute<float>(*nest, std::vector<float>(8), y);
  };
  EXPECT_EQ(run("1"), "");
  EXPECT_NE(run("2").find("written by one and touched by another"), std::string::npos);
}

}  // namespace
}  // namespace weft::codegen
