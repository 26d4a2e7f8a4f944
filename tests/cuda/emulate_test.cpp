// The text on a CPU: what its words mean, and that it can fail.
#include "codegen/cuda/emulate/emulate.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/tensor.h"
#include "tests/cuda/run.h"

namespace weft::cuda_test {
namespace {

using codegen::CudaText;
using codegen::EmulatedKernels;

// Reverses blocks of 64 through shared memory.
loops::LoopNest Reverse() {
  return VerifiedNest(R"(loops reverse (x: in f32[256], y: out f32[256]) {
    shared s: f32[64]
    block_x b = 0:256:64 {
      thread_x t = 0:64 { s[t] = x[b + t] }
      barrier
      thread_x u = 0:64 { y[b + u] = s[63 - u] } } })");
}

void Replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, from.size(), to);
}

// What is said of the nest if its text is another one.
std::string AfterEdit(std::string_view from, std::string_view to) {
  std::vector<float> x(256), y(256);
  std::iota(x.begin(), x.end(), 0.0F);
  return CheckText(Reverse(), {x.data(), y.data()}, {}, nullptr,
                   [&](std::string& text) { Replace(text, from, to); });
}

TEST(CudaEmulated, AWrongTextIsFound) {
  EXPECT_EQ(AfterEdit("__syncthreads();", "__syncthreads(); // as it was"), "");
  EXPECT_EQ(AfterEdit("__syncthreads();", ""),
            "the nest and what runs for it differ in element 0 of y");
  EXPECT_EQ(AfterEdit("s[-u + 63]", "s[-u + 62]"),
            "the nest and what runs for it differ in element 0 of y");
  EXPECT_EQ(AfterEdit("y[b + u]", "y[b + u + 8]"),
            "the nest and what runs for it differ in element 0 of y");
  EXPECT_EQ(AfterEdit("y[b + u] =", "y[b + u + 1] = y[b + u] ="),
            "what runs for the nest writes outside y");
  EXPECT_NE(AfterEdit("__syncthreads();", "if (threadIdx.x < 3) __syncthreads();")
                .find("not all reach: 3 of 64 threads wait"),
            std::string::npos);
  EXPECT_NE(AfterEdit("__syncthreads();",
                      "if (threadIdx.x < 3)\n__syncthreads();\nelse\n__syncthreads();")
                .find("not all reach: 64 of 64 threads wait, at line"),
            std::string::npos);
  EXPECT_NE(AfterEdit("__syncthreads();", "no_such_function();").find("no_such_function"),
            std::string::npos);
}

// One library, whose kernels have the same name and helpers.
TEST(CudaEmulated, ManyTextsAreOneLibrary) {
  const loops::LoopNest a = VerifiedNest(R"(loops k (x: in i32[8], y: out i32[8]) { shared s: i32[8]
    block_x b = 0:2 { thread_x t = 0:4 { s[t] = max(x[4*b + t], 2:i32) y[4*b + t] = s[t] } } })");
  const loops::LoopNest b = VerifiedNest(R"(loops k (x: in f16[8], y: out f32[8]) {
    thread_z t = 0:8 { y[t] = max(cast(x[t]):f32, 1.0) } })");
  auto first = codegen::EmitCudaText(a, Sm90()), second = codegen::EmitCudaText(b, Sm90());
  ASSERT_TRUE(first.ok() && second.ok());
  auto kernels = EmulatedKernels::Compile({*first, *second});
  ASSERT_TRUE(kernels.ok()) << kernels.status().ToString();
  std::vector<int32_t> x = {0, 1, 2, 3, 4, 5, 6, 7}, y(8);
  std::vector<uint16_t> h = {0, 0x3c00, 0x4000, 0x7c00, 0xfc00, 0x8001, 0x7e00, 0xc000};
  std::vector<float> z(8);
  KernelFault fault{};
  const Status status = kernels->Check(0, a, std::vector<void*>{x.data(), y.data()}, {}, &fault);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(y, (std::vector<int32_t>{2, 2, 2, 3, 4, 5, 6, 7}));
  const Status other = kernels->Check(1, b, std::vector<void*>{h.data(), z.data()}, {}, &fault);
  EXPECT_TRUE(other.ok()) << other.ToString();
  EXPECT_EQ(z[3], INFINITY);
  EXPECT_EQ(z[4], 1);
}

TEST(CudaEmulated, ThreadsHaveThreeAxes) {
  const loops::LoopNest nest = VerifiedNest(R"(loops k (y: out i32[2, 3, 4, 2, 3, 4]) {
    block_z a = 0:2 { block_y b = 0:3 { block_x c = 0:4 {
      thread_z d = 0:2 { thread_y e = 0:3 { thread_x f = 0:4 {
        y[a, b, c, d, e, f] = cast(index(100000*a + 10000*b + 1000*c + 100*d + 10*e + f)):i32 } } } } } } })");
  std::vector<int32_t> y(576);
  EXPECT_EQ(ExecuteBoth(nest, y), "");
  EXPECT_EQ(y[575], 123123);
}

// Every 16-bit float both ways, and floats about each rounding boundary.
TEST(CudaEmulated, HalvesConvertAsTheirDefinitionSays) {
  const loops::LoopNest nest = VerifiedNest(
      R"(loops k (h: in f16[65536], f: in f32[65536, 3], y: out f32[65536], g: out f16[65536, 3]) {
    block_x b = 0:65536:256 { thread_x t = 0:256 {
      y[b + t] = cast(h[b + t]):f32
      for i = 0:3 { g[b + t, i] = cast(f[b + t, i]):f16 } } } })");
  std::vector<uint16_t> h(65536), g(h.size() * 3);
  std::iota(h.begin(), h.end(), uint16_t{0});
  std::vector<float> f, y(h.size());
  for (uint32_t i = 0; i < h.size(); ++i) {
    const float value = HalfToFloat(h[i]), next = HalfToFloat(static_cast<uint16_t>(h[i] + 1));
    f.push_back(value);
    f.push_back((value + next) / 2);
    f.push_back(std::nextafter((value + next) / 2, INFINITY));
  }
  EXPECT_EQ(CheckText(nest, {h.data(), f.data(), y.data(), g.data()}), "");
}

class WithoutCompiler : public ::testing::Test {
 protected:
  void SetUp() override { setenv("WEFT_CXX", "none", 1); }
  void TearDown() override { unsetenv("WEFT_CXX"); }
};

TEST_F(WithoutCompiler, ItIsSaid) {
  const auto kernels = EmulatedKernels::Compile({});
  EXPECT_EQ(kernels.status().code(), Code::kMissing);
  EXPECT_NE(kernels.status().ToString().find("WEFT_CXX is none"), std::string::npos);
  setenv("WEFT_CXX", "/no/such/compiler", 1);
  EXPECT_EQ(EmulatedKernels::Compile({}).status().code(), Code::kMissing);
}

}  // namespace
}  // namespace weft::cuda_test
