// Nests as a mapping would make them, by hand: right in the interpreter, accepted by NVRTC, and
// wrong ones found by the interpreter.
#include <fmt/format.h>

#include <numeric>

#include "tests/cuda/run.h"

namespace weft::cuda_test {
namespace {

const std::vector<Isa> kAll = {Isa::kSm80, Isa::kSm90, Isa::kSm100};

// A row of the tile is padded by one word, so that a column lies in 32 different banks.
std::string Transpose(std::string_view barrier, std::string_view column = "x") {
  return fmt::format(R"(loops transpose (a: in f32[70, 45], b: out f32[45, 70])
      for "/Transpose" {{
    shared tile: f32[32, 32] layout "ab+1"
    block_y h = 0:70:32 {{ block_x w = 0:45:32 {{
      thread_x x = 0:min(32, 45 - w) {{ for y = 0:min(32, 70 - h) {{
        tile[y, x] = a[h + y, w + {}] }} }}
      {}
      thread_x x1 = 0:min(32, 70 - h) {{ for y1 = 0:min(32, 45 - w) {{
        b[w + y1, h + x1] = tile[x1, y1] }} }}
    }} }} }})",
                     column, barrier);
}

TEST(CudaNests, TransposeThroughSharedMemory) {
  const loops::LoopNest nest = VerifiedNest(Transpose("barrier"));
  std::vector<float> a(70 * 45), b(a.size()), expected(a.size());
  std::iota(a.begin(), a.end(), 0.0F);
  for (int i = 0; i < 70; ++i) {
    for (int j = 0; j < 45; ++j) expected[j * 70 + i] = a[i * 45 + j];
  }
  EXPECT_EQ(ExecuteBoth(nest, a, b), "");
  EXPECT_EQ(b, expected);
  ExpectCompiles(nest, kAll);
}

TEST(CudaNests, AMissingBarrierIsFound) {
  const loops::LoopNest nest = VerifiedNest(Transpose(""));
  std::vector<float> a(70 * 45), b(a.size());
  EXPECT_NE(Execute(nest, a, b), "");
}

TEST(CudaNests, AnIndexOutOfBoundsIsFound) {
  const loops::LoopNest nest = ParseNest(Transpose("barrier", "x + 1"));
  EXPECT_FALSE(loops::Verify(nest).ok());
  std::vector<float> a(70 * 45), b(a.size());
  EXPECT_NE(Execute(nest, a, b).find("outside"), std::string::npos);
}

TEST(CudaNests, ABarrierThatNotAllReachIsFound) {
  const loops::LoopNest nest = ParseNest(R"(loops k (x: in f32[8], y: out f32[8]) {
    block_x b = 0:1 { thread_x t = 0:8 { if 3 - t >= 0 { barrier } y[t] = x[t] } } })");
  EXPECT_FALSE(loops::Verify(nest).ok());
  std::vector<float> x(8), y(8);
  EXPECT_NE(Execute(nest, x, y).find("not all reach"), std::string::npos);
}

// Each thread adds up its share, then the halves are folded onto each other.
TEST(CudaNests, ReductionOfABlock) {
  std::string tree;
  for (int half = 32; half > 0; half /= 2) {
    tree += fmt::format(
        "thread_x t{0} = 0:{0} {{ part[t{0}] = part[t{0}] + part[t{0} + {0}] }} barrier\n", half);
  }
  const loops::LoopNest nest =
      VerifiedNest(fmt::format(R"(loops row_sum (x: in f32[3, 1000], y: out f32[3]) {{
    shared part: f32[64]
    block_x row = 0:3 {{
      thread_x t = 0:64 {{
        part[t] = 0.0
        for i = t:1000:64 {{ part[t] = part[t] + x[row, i] }} }}
      barrier
      {}
      single {{ y[row] = part[0] }} }} }})",
                               tree));
  std::vector<float> x(3000), y(3);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ(y[row], std::accumulate(x.begin() + row * 1000, x.begin() + row * 1000 + 1000, 0.0F));
  }
  ExpectCompiles(nest, kAll);
}

// Warps fold their shares by exchanging them, and what each has goes through shared memory: all
// threads have the sum after one barrier.
std::string SumByWarps(std::string_view condition = "", std::string_view threads = "128") {
  std::string fold, fold_warps;
  for (int across = 16; across > 0; across /= 2)
    fold += fmt::format("exchange {} other[] = s[] s[] = s[] + other[]\n", across);
  for (int across = 2; across > 0; across /= 2)
    fold_warps += fmt::format("exchange {} other[] = s[] s[] = s[] + other[]\n", across);
  return fmt::format(R"(loops row_sum (x: in f32[3, 1000], y: out f32[3, 128]) {{
    shared part: f32[4]
    reg s: f32[]
    reg other: f32[]
    block_x row = 0:3 {{
      thread_x t = 0:{3} {{
        s[] = 0.0
        for i = t:1000:128 {{ s[] = s[] + x[row, i] }}
        {2} {{ {0} }}
        if -(t mod 32) >= 0 {{ part[floor(t/32)] = s[] }} }}
      barrier
      thread_x u = 0:128 {{ s[] = part[u mod 4]
        {1}
        y[row, u] = s[] }} }} }})",
                     fold, fold_warps, condition.empty() ? "if 1 >= 0" : condition, threads);
}

TEST(CudaNests, WarpsExchangeWhatTheySum) {
  const loops::LoopNest nest = VerifiedNest(SumByWarps());
  EXPECT_TRUE(loops::Equal(nest, ParseNest(loops::Print(nest))));
  EXPECT_NE(loops::Print(nest).find("exchange 16 other[] = s[]"), std::string::npos);
  std::vector<float> x(3000), y(3 * 128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  for (int row = 0; row < 3; ++row)
    for (int t = 0; t < 128; ++t)
      EXPECT_EQ(y[row * 128 + t],
                std::accumulate(x.begin() + row * 1000, x.begin() + row * 1000 + 1000, 0.0F));
  ExpectCompiles(nest, kAll);
}

TEST(CudaNests, ExchangesOutOfPlaceAreRefused) {
  const auto what = [](std::string_view local, std::string_view loop, std::string_view exchange) {
    return std::string(
        loops::Verify(ParseNest(fmt::format(R"(loops k (x: in f32[64], y: out f32[64]) {{
    {} block_x b = 0:1 {{ {} {{ {} }} }} }})",
                                            local, loop, exchange)))
            .what());
  };
  constexpr std::string_view kOwn = "reg s: f32[]", kLoop = "thread_x t = 0:64",
                             kExchange = "exchange 1 s[] = x[t]";
  EXPECT_EQ(what(kOwn, kLoop, kExchange), "");
  EXPECT_NE(what("shared s: f32[]", kLoop, kExchange).find("no thread's own"), std::string::npos);
  EXPECT_NE(what(kOwn, "thread_x t = 0:48", kExchange).find("whole warps"), std::string::npos);
  EXPECT_NE(what(kOwn, "thread_y t = 0:64", kExchange).find("whole warps"), std::string::npos);
  EXPECT_NE(what(kOwn, kLoop, "if 40 - t >= 0 { exchange 1 s[] = x[t] }").find("not all"),
            std::string::npos);
  EXPECT_NE(what("reg s: f16[]", kLoop, "exchange 1 s[] = cast(x[t]):f16").find("4 bytes"),
            std::string::npos);
}

TEST(CudaNests, AnExchangeThatNotAllOfAWarpReachIsFound) {
  std::vector<float> x(3000), y(3 * 128);
  const std::string wanted = "an exchange that not all threads of a warp reach";
  for (const loops::LoopNest& nest :
       {ParseNest(SumByWarps("if 40 - t >= 0")), ParseNest(SumByWarps("", "100"))}) {
    EXPECT_FALSE(loops::Verify(nest).ok());
    EXPECT_NE(Execute(nest, x, y).find(wanted), std::string::npos);
    const auto text = codegen::EmitCudaText(nest, Sm90());
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    auto kernels = codegen::EmulatedKernels::Compile({*text});
    ASSERT_TRUE(kernels.ok()) << kernels.status().ToString();
    const std::vector<void*> operands = {x.data(), y.data()};
    KernelFault fault{};
    EXPECT_NE(kernels->Run(0, operands, {}, &fault).ToString().find(wanted), std::string::npos);
  }
}

// Whole warps may leave out what others do.
TEST(CudaNests, WarpsExchangeApart) {
  const loops::LoopNest nest = VerifiedNest(R"(loops apart (x: in i64[96], y: out i64[96]) {
    reg other: i64[]
    block_x b = 0:1 {
      thread_x t = 0:96 { y[t] = x[t] }
      thread_x u = 0:64 { exchange 5 other[] = x[u] + 1 y[u] = other[] } } })");
  std::vector<int64_t> x(96), y(96);
  std::iota(x.begin(), x.end(), int64_t{1} << 40);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  EXPECT_EQ(y[3], x[6] + 1);
  EXPECT_EQ(y[63], x[58] + 1);
  EXPECT_EQ(y[64], x[64]);
  ExpectCompiles(nest, kAll);
}

// 16 x 16 threads, each with 2 x 2 results in registers; panels of A and B staged in shared memory
// by vectors of four.
TEST(CudaNests, TiledProductInSharedMemory) {
  const loops::LoopNest nest = VerifiedNest(
      R"(loops product (a: in f32[64, 48] align 16, b: in f32[48, 32] align 16, c: out f32[64, 32])
      for "/MatMul" {
    shared pa: f32[32, 16]
    shared pb: f32[16, 32]
    reg acc: f32[2, 2]
    block_y m = 0:64:32 { block_x n = 0:32:32 {
      unroll i = 0:2 { unroll j = 0:2 { acc[i, j] = 0.0 } }
      for k = 0:48:16 {
        thread_y y = 0:16 { thread_x x = 0:16 {
          if 3 - x >= 0 { if 7 - y >= 0 { unroll u = 0:4 { vector v = 0:4 { pa[4*y + u, 4*x + v] = a[m + 4*y + u, k + 4*x + v] } } } }
          if 7 - x >= 0 { vector v1 = 0:4 { pb[y, 4*x + v1] = b[k + y, n + 4*x + v1] } }
        } }
        barrier
        thread_y y1 = 0:16 { thread_x x1 = 0:16 {
          for kk = 0:16 { unroll i1 = 0:2 { unroll j1 = 0:2 {
            acc[i1, j1] = fma(pa[2*y1 + i1, kk], pb[kk, 2*x1 + j1], acc[i1, j1]) } } }
        } }
        barrier
      }
      thread_y y2 = 0:16 { thread_x x2 = 0:16 { unroll i2 = 0:2 { unroll j2 = 0:2 {
        c[m + 2*y2 + i2, n + 2*x2 + j2] = acc[i2, j2] } } } }
    } } })");
  std::vector<float> a(64 * 48), b(48 * 32), c(64 * 32), expected(c.size(), 0);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 5) - 2;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 3) - 1;
  for (int i = 0; i < 64; ++i) {
    for (int k = 0; k < 48; ++k) {
      for (int j = 0; j < 32; ++j) expected[i * 32 + j] += a[i * 48 + k] * b[k * 32 + j];
    }
  }
  EXPECT_EQ(ExecuteBoth(nest, a, b, c), "");
  EXPECT_EQ(c, expected);
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->text.find("weft_store(&pa["), std::string::npos) << text->text;
  EXPECT_EQ(text->launch.ThreadsPerBlock(), 256);
  ExpectCompiles(nest, kAll);
}

}  // namespace
}  // namespace weft::cuda_test
