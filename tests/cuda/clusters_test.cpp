// Blocks in clusters, by hand: they share what each has in shared memory, and wait for each other.
// Right in the interpreter, in the text on a CPU and on a device; wrong ones found by the
// interpreter or refused.
#include <fmt/format.h>

#include <numeric>

#include "codegen/reference/agree.h"
#include "tests/cuda/device.h"
#include "tests/cuda/run.h"

namespace weft::cuda_test {
namespace {

constexpr int64_t kRows = 3, kColumns = 4096;

// Rows over their sums. Four blocks have a quarter of a row each: warps fold their shares by
// exchanges, a block what its warps have, and each what all blocks have.
std::string RowsOverSums(std::string_view before = "barrier cluster",
                         std::string_view behind = "barrier cluster") {
  std::string fold;
  for (int across = 16; across > 0; across /= 2)
    fold += fmt::format("exchange {} other[] = s[] s[] = s[] + other[]\n", across);
  return fmt::format(R"(loops over_sums (x: in f32[{0}, {1}], y: out f32[{0}, {1}]) {{
    cluster parts: f32[4]
    shared warps: f32[4]
    reg s: f32[]
    reg other: f32[]
    block_y row = 0:{0} {{ cluster_x r = 0:4 {{
      thread_x t = 0:128 {{
        s[] = 0.0
        for i = t:1024:128 {{ s[] = s[] + x[row, 1024*r + i] }}
        {2}
        if -(t mod 32) >= 0 {{ warps[floor(t/32)] = s[] }} }}
      barrier
      single {{ parts[r] = warps[0] + warps[1] + warps[2] + warps[3] }}
      {3}
      thread_x u = 0:128 {{
        s[] = 0.0
        for q = 0:4 {{ s[] = s[] + parts[q] }}
        for j = u:1024:128 {{ y[row, 1024*r + j] = x[row, 1024*r + j] / s[] }} }}
      {4}
    }} }} }})",
                     kRows, kColumns, fold, before, behind);
}

std::vector<float> SmallNumbers() {
  std::vector<float> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7 + 1);
  return x;
}

std::string What(const Status& status) { return status.ok() ? "" : status.what(); }

TEST(CudaClusters, BlocksShareASum) {
  const loops::LoopNest nest = VerifiedNest(RowsOverSums());
  std::vector<float> x = SmallNumbers(), y(x.size());
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  for (int64_t row = 0; row < kRows; ++row) {
    const auto begin = x.begin() + row * kColumns;
    const float sum = std::accumulate(begin, begin + kColumns, 0.0F);
    for (int64_t i = 0; i < kColumns; ++i) EXPECT_EQ(y[row * kColumns + i], begin[i] / sum);
  }
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_NE(text->text.find("// grid 4 x 3 x 1, block 128 x 1 x 1, cluster 4\n"
                            "extern \"C\" __cluster_dims__(4, 1, 1) __global__ void"),
            std::string::npos)
      << text->text;
  EXPECT_EQ(text->launch.cluster, 4);
  EXPECT_EQ(text->shared_bytes, 32);
  ExpectCompiles(nest, {Isa::kSm90, Isa::kSm100});
}

TEST(CudaClusters, OlderDevicesHaveNone) {
  const auto text = codegen::EmitCudaText(VerifiedNest(RowsOverSums()),
                                          {.kind = TargetKind::kCuda, .isa = Isa::kSm80});
  EXPECT_EQ(text.status().code(), Code::kUnsupported);
  EXPECT_NE(text.status().ToString().find("sm_80 has no clusters of blocks"), std::string::npos);
}

TEST(CudaClusters, TheirTextReadsBack) {
  const loops::LoopNest nest = VerifiedNest(RowsOverSums());
  const std::string text = loops::Print(nest);
  EXPECT_TRUE(loops::Equal(nest, ParseNest(text)));
  EXPECT_FALSE(loops::Equal(nest, ParseNest(RowsOverSums("barrier"))));
  for (const char* part : {"  cluster parts: f32[4]\n", "cluster_x r = 0:4 {", "barrier cluster\n"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Any name is a buffer's where a bracket follows.
TEST(CudaClusters, TheirWordsAreNamesToo) {
  const loops::LoopNest nest = VerifiedNest(R"(loops k (cluster_x: in f32[4], y: out f32[4]) {
    shared cluster: f32[4]
    block_x b = 0:1 {
      thread_x t = 0:4 { cluster[t] = cluster_x[t] }
      barrier
      single { cluster[0] = 7.0 }
      barrier
      thread_x u = 0:4 { y[u] = cluster[u] } } })");
  EXPECT_TRUE(loops::Equal(nest, ParseNest(loops::Print(nest))));
  std::vector<float> x = {1, 2, 3, 4}, y(4);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  EXPECT_EQ(y, (std::vector<float>{7, 2, 3, 4}));
  const loops::LoopNest store = ParseNest(
      "loops k (y: out f32[1]) { shared cluster: f32[1] block_x b = 0:1 { barrier cluster[0] = 1.0 "
      "} }");
  EXPECT_EQ(store.stmts.size(), 3U);
  EXPECT_FALSE(store.stmts[0].cluster);
}

TEST(CudaClusters, AMissingBarrierIsFound) {
  std::vector<float> x = SmallNumbers(), y(x.size());
  EXPECT_EQ(Execute(ParseNest(RowsOverSums("barrier")), x, y),
            "parts[1] is read before it is written");
  // Written anew while others may still read it.
  const auto twice = [](std::string_view barrier) {
    return ParseNest(fmt::format(R"(loops k (x: in f32[4], y: out f32[4]) {{
      cluster parts: f32[2]
      cluster_x r = 0:2 {{
        for i = 0:2 {{
          single {{ parts[r] = x[2*r + i] }}
          barrier cluster
          single {{ y[2*r + i] = parts[0] + parts[1] }}
          {} }}
        barrier cluster }} }})",
                                 barrier));
  };
  std::vector<float> four = {1, 2, 3, 4}, sums(4);
  EXPECT_EQ(ExecuteBoth(twice("barrier cluster"), four, sums), "");
  EXPECT_EQ(sums, (std::vector<float>{4, 6, 4, 6}));
  EXPECT_EQ(Execute(twice("barrier"), four, sums),
            "parts[0] is written by one and read by another without a barrier between them");
}

// A barrier of the cluster orders what its blocks do in global memory, one of a block does not.
TEST(CudaClusters, GlobalMemoryIsOrderedByTheirBarriers) {
  const auto nest = [](std::string_view loop, std::string_view barrier) {
    return ParseNest(fmt::format(R"(loops k (x: in f32[64], t: out f32[64], y: out f32[64]) {{
      {} r = 0:2 {{
        thread_x i = 0:32 {{ t[32*r + i] = x[32*r + i] }}
        {}
        thread_x j = 0:32 {{ y[32*r + j] = t[63 - 32*r - j] }} }} }})",
                                 loop, barrier));
  };
  std::vector<float> x(64), t(64), y(64);
  std::iota(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(ExecuteBoth(nest("cluster_x", "barrier cluster"), x, t, y), "");
  EXPECT_EQ(y[0], 63);
  EXPECT_NE(Execute(nest("cluster_x", "barrier"), x, t, y), "");
  EXPECT_NE(Execute(nest("block_x", "barrier"), x, t, y), "");
}

TEST(CudaClusters, AWrongTextIsFound) {
  const loops::LoopNest nest = VerifiedNest(RowsOverSums());
  constexpr std::string_view kWait = "__cluster_barrier_wait();";
  const auto edited = [&](bool last, std::string_view to) {
    std::vector<float> x = SmallNumbers(), y(x.size());
    return CheckText(nest, {x.data(), y.data()}, {}, nullptr, [&](std::string& text) {
      const size_t at = last ? text.rfind(kWait) : text.find(kWait);
      ASSERT_NE(at, std::string::npos) << text;
      text.replace(at, kWait.size(), to);
    });
  };
  const auto found = [](const std::string& what, std::string_view part) {
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  EXPECT_EQ(edited(true, kWait), "");
  found(edited(false, ""), "a block reads shared memory of one that has not begun, or has ended");
  found(edited(true, ""), "a block reads shared memory of one that has not begun, or has ended");
  found(edited(true,
               "if (blockIdx.x < 2)\n__cluster_barrier_wait();\nelse\n__cluster_barrier_wait();"),
        "a barrier that not all blocks of a cluster reach, at line");
  found(edited(true, "if (threadIdx.x < 3) __cluster_barrier_wait();"), "3 of 128 threads wait");
  found(edited(true, "__syncthreads();"), "has ended");
}

// Slices of several axes, moved 16 bytes at a time, and elements of many blocks side by side.
TEST(CudaClusters, SlicesAreReadByLanes) {
  for (const char* dtype : {"f32", "f16", "u8", "bool"}) {
    const loops::LoopNest nest = VerifiedNest(fmt::format(
        R"(loops k (x: in {0}[8, 32] align 16, y: out {0}[8, 32] align 16, z: out {0}[8, 8] align 16) {{
      cluster rows: {0}[8, 32]
      cluster firsts: {0}[8]
      cluster_x r = 0:8 {{
        thread_x t = 0:8 {{ vector v = 0:4 {{ rows[r, 4*t + v] = x[r, 4*t + v] }} }}
        single {{ firsts[r] = x[r, 0] }}
        barrier cluster
        thread_x u = 0:8 {{ vector w = 0:4 {{ y[r, 4*u + w] = rows[7 - r, 4*u + w] }} }}
        single {{ vector q = 0:8 {{ z[r, q] = firsts[q] }} }}
        barrier cluster }} }})",
        dtype));
    const auto text = codegen::EmitCudaText(nest, Sm90());
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    EXPECT_NE(text->text.find("weft_load<4>(&weft_of_block(rows, -r + 7)[4*u + w])"),
              std::string::npos)
        << text->text;
    EXPECT_EQ(text->text.find("weft_load<4>(&weft_of_block(firsts"), std::string::npos);
    alignas(16) std::byte x[8 * 32 * 4] = {}, y[sizeof x] = {}, z[sizeof x] = {};
    for (size_t i = 0; i < sizeof x; ++i) x[i] = std::byte(i * i % 2);
    EXPECT_EQ(CheckText(nest, {x, y, z}), "") << dtype;
    ExpectCompiles(nest, {Isa::kSm90, Isa::kSm100});
  }
}

// A launch has clusters, the next one has none.
TEST(CudaClusters, LaunchesAreApart) {
  const loops::LoopNest nest = VerifiedNest(R"(loops k (x: in f32[8], y: inout f32[8]) {
    cluster parts: f32[4]
    cluster halves: f32[2, 4]
    grid t: f32[8]
    cluster_x r = 0:4 {
      single { parts[r] = x[2*r] + x[2*r + 1] }
      barrier cluster
      thread_x u = 0:2 { t[2*r + u] = parts[3 - r] }
      barrier cluster }
    barrier
    block_x b = 0:2 { thread_x v = 0:4 { y[4*b + v] = t[4*b + v] } }
    barrier
    cluster_x h = 0:2 {
      thread_x w = 0:4 { halves[h, w] = y[4*h + w] }
      barrier cluster
      thread_x z = 0:4 { y[4*h + z] = halves[1 - h, z] }
      barrier cluster } })");
  std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7}, y(8);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  EXPECT_EQ(y, (std::vector<float>{5, 5, 1, 1, 13, 13, 9, 9}));
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok() && text->then.size() == 2);
  EXPECT_EQ(text->launch.cluster, 4);
  EXPECT_EQ(text->then[0].launch.cluster, 1);
  EXPECT_EQ(text->then[1].launch.cluster, 2);
  ExpectCompiles(nest, {Isa::kSm90, Isa::kSm100});
}

// Slices have shared memory before anything else, and nowhere else to go.
TEST(CudaClusters, SlicesAreInSharedMemory) {
  const auto text = [](int64_t elems) {
    return codegen::EmitCudaText(VerifiedNest(fmt::format(R"(loops k (y: out f32[2]) {{
      shared own: f32[1024]
      cluster parts: f32[2, {}]
      cluster_x r = 0:2 {{
        single {{ parts[r, 0] = 1.0 own[0] = 2.0 y[r] = parts[r, 0] + own[0] }} }} }})",
                                                          elems)),
                                 Sm90());
  };
  EXPECT_EQ(text(1024)->shared_bytes, 8192);
  EXPECT_EQ(text(1024)->scratch_bytes, 0);
  EXPECT_EQ(text(12288)->shared_bytes, 48 << 10);
  EXPECT_EQ(text(12288)->scratch_bytes, 4096);
  EXPECT_EQ(text(12289).status().code(), Code::kLimit);
  EXPECT_NE(text(12289).status().ToString().find("too few for its slices up to parts"),
            std::string::npos);
}

// What Verify has against a nest of these statements.
std::string Refused(std::string_view body, std::string_view locals = "cluster parts: f32[4]") {
  return What(loops::Verify(ParseNest(fmt::format(
      "loops k (x: in f32[4], i: in i64[4], y: out f32[4]) {{ {} {} }}", locals, body))));
}

TEST(CudaClusters, LoopsOverBlocksAreRefused) {
  constexpr std::string_view kOne = "{ single { y[0] = 1.0 } }";
  const auto pair = [&](std::string_view first, std::string_view second = "") {
    return Refused(fmt::format("{} {} {} {}", first, kOne, second, second.empty() ? "" : kOne));
  };
  EXPECT_EQ(pair("cluster_x r = 0:2"), "");
  EXPECT_EQ(pair("cluster_x r = 0:8", "cluster_x s = 0:8"), "");
  for (const char* head : {"cluster_x r = 0:1", "cluster_x r = 0:9", "cluster_x r = 1:5",
                           "cluster_x r = 0:8:2", "cluster_x r = 0:0", "cluster_x r = 0:min(4, 5)"})
    EXPECT_EQ(pair(head), "nest k: r runs over the blocks of a cluster: from 0 by 1 to 2 … 8")
        << head;
  EXPECT_EQ(pair("cluster_x r = 0:2", "cluster_x s = 0:4"),
            "nest k: clusters of 2 and 4 blocks in one launch");
  EXPECT_EQ(pair("block_x r = 0:2", "cluster_x s = 0:2"),
            "nest k: block_x beside cluster_x in one launch");
  EXPECT_EQ(pair("block_x r = 0:2", "barrier cluster_x s = 0:4"), "");
  EXPECT_EQ(Refused("cluster_x r = 0:2 { cluster_x s = 0:2 { single { y[0] = 1.0 } } }"),
            "nest k: cluster_x inside of cluster_x");
}

TEST(CudaClusters, BuffersAreRefused) {
  const auto buffer = [](std::string_view rest) {
    return Refused("block_x b = 0:1 { single { y[0] = 1.0 } }", fmt::format("cluster p: {}", rest));
  };
  for (const char* good : {"f32[2]", "f16[8, 5, 3]", "i4[4, 6] layout \"ab+1\"",
                           "f32[4, 6, 3] layout \"acb\"", "f32[4, 6] fold [0, 2]"})
    EXPECT_EQ(buffer(good), "") << good;
  for (const char* bad : {"f32[]", "f32[1]", "f32[9, 2]", "f32[4, 6] layout \"ba\"",
                          "f32[4, 6] layout \"Ab2a\"", "f32[4, 6] fold [2, 0]"})
    EXPECT_EQ(buffer(bad),
              "nest k: buffer p: in cluster space the outermost extent, in one piece, is 2 to 8")
        << bad;
}

TEST(CudaClusters, BarriersAreRefused) {
  const auto inside = [](std::string_view body) {
    return Refused(fmt::format("block_y j = 0:2 {{ cluster_x r = 0:4 {{ {} }} }}", body));
  };
  EXPECT_EQ(inside("barrier cluster"), "");
  EXPECT_EQ(inside("if j - 1 >= 0 { for t = 0:j { barrier cluster } }"), "");
  EXPECT_EQ(inside("if r - 1 >= 0 { for t = 0:r { barrier } }"), "");
  EXPECT_EQ(Refused("block_y j = 0:2 { barrier cluster }"),
            "nest k: a barrier of a cluster outside of cluster_x");
  for (const char* body :
       {"if r - 1 >= 0 { barrier cluster }", "if r - 1 >= 0 { barrier } else { barrier cluster }",
        "for t = 0:r { barrier cluster }", "for t = r:r + 2 { barrier cluster }",
        "thread_x t = 0:32 { barrier cluster }"})
    EXPECT_EQ(inside(body), "nest k: a barrier of a cluster that not all of its threads may reach")
        << body;
  for (const char* body :
       {"single { barrier cluster }", "thread_x t = 0:32 { if t - 1 >= 0 { barrier cluster } }",
        "let v = i[0] in 0:4 of x if v - 1 >= 0 { barrier cluster }"})
    EXPECT_EQ(inside(body), "nest k: a barrier that not all may reach") << body;
}

TEST(CudaClusters, SlicesOfOthersAreRefused) {
  const auto inside = [](std::string_view body) {
    return Refused(fmt::format("block_y j = 0:2 {{ cluster_x r = 0:4 {{ {} }} }}", body));
  };
  const std::string read = "single { y[r] = parts[3 - r] }";
  const auto all = [&](std::string_view format) {
    return inside(
        fmt::format(fmt::runtime(format), fmt::arg("b", "barrier cluster"), fmt::arg("r", read)));
  };
  EXPECT_EQ(inside("single { parts[r] = parts[r] }"), "");
  for (const char* good :
       {"{b} {r} {b}", "{b} for n = 0:3 {{ {r} {b} }}", "for n = 0:3 {{ {b} {r} }} {b}",
        "if j >= 0 {{ {b} }} else {{ {b} }} {r} {b}", "mark \"all\" {{ {b} {r} }} {b}",
        "if j - 1 >= 0 {{ {b} {r} {b} }}"})
    EXPECT_EQ(all(good), "") << good;
  for (const char* bad :
       {"{r} {b}", "barrier {r} {b}", "if j - 1 >= 0 {{ {b} }} {r} {b}",
        "for n = 0:j {{ {b} }} {r} {b}", "if j - 1 >= 0 {{ {b} }} else {{ {r} }} {b}"})
    EXPECT_EQ(all(bad),
              "nest k: parts, in cluster space, is read of a block that may not have begun: no "
              "barrier comes before")
        << bad;
  for (const char* bad : {"{b} {r}", "{b} {r} barrier", "{b} {r} if j - 1 >= 0 {{ {b} }}",
                          "{b} {r} for n = 0:j {{ {b} }}", "{b} for n = 0:3 {{ {b} {r} }}",
                          "{b} if j - 1 >= 0 {{ {r} }} else {{ {b} }}"})
    EXPECT_EQ(all(bad),
              "nest k: a block may end while another reads its slice: no barrier of the cluster "
              "comes behind")
        << bad;
  EXPECT_EQ(inside("barrier cluster single { parts[0] = 1.0 } barrier cluster"),
            "nest k: parts, in cluster space, is written by a block whose slice that is not");
  const std::string outside =
      "nest k: parts, in cluster space, is not touched in a cluster_x loop of as many blocks";
  EXPECT_EQ(Refused("block_y j = 0:2 { single { parts[j] = 1.0 } }"), outside);
  EXPECT_EQ(Refused("cluster_x r = 0:2 { single { parts[r] = 1.0 } }"), outside);
}

TEST(CudaGpuClusters, ADeviceComputesWhatTheNestSays) {
  auto device = Device::Open();
  if (!device.ok()) GTEST_SKIP() << device.status().ToString();
  if ((*device)->target().isa == Isa::kSm80) GTEST_SKIP() << "the device has no clusters";
  const loops::LoopNest nest = VerifiedNest(RowsOverSums());
  const auto kernel = codegen::EmitCuda(nest, (*device)->target());
  ASSERT_TRUE(kernel.ok()) << kernel.status().ToString();
  std::vector<float> x = SmallNumbers(), y(x.size());
  KernelFault fault{};
  const auto run = [&](std::span<void* const> operands, KernelFault* found) {
    return (*device)->Run(*kernel, nest, operands, {}, found);
  };
  const Status same = codegen::Agree(nest, std::vector<void*>{x.data(), y.data()}, {}, &fault, run);
  EXPECT_TRUE(same.ok()) << same.ToString();
}

}  // namespace
}  // namespace weft::cuda_test
