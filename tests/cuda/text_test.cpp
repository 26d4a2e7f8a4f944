// The text itself: every primitive on every type, hostile names, faults, lanes.
#include "codegen/cuda/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>

#include "base/dtypes.h"
#include "base/nibbles.h"
#include "base/tensor.h"
#include "tests/cuda/run.h"

namespace weft::cuda_test {
namespace {

using loops::BufferId;
using loops::ExprId;
using loops::LoopNest;

constexpr int64_t kElems = 64;

BufferId AddOperand(LoopNest& nest, std::string name, Dtype dtype, loops::Access access) {
  return loops::AddBuffer(nest, {.name = std::move(name),
                                 .dtype = dtype,
                                 .shape = {Affine(kElems)},
                                 .layout = Layout::Plain(1),
                                 .access = access});
}

// The nest with y_k[t] = op(x[t], ...) added, if the types agree. What has four bits is stored as a
// byte, since threads may not share one.
bool AddCase(LoopNest& nest, ScalarOp op, Dtype result) {
  LoopNest more = nest;
  const Affine t = Affine::OfVar(0);
  std::vector<ExprId> args;
  for (int32_t i = 0; i < ScalarArity(op); ++i) {
    const bool condition = op == ScalarOp::kSelect && i == 0;
    args.push_back(
        loops::AddLoad(more, BufferId(condition ? 1 : 0), {i == 1 ? Affine(kElems - 1) - t : t}));
  }
  ExprId value = loops::AddOp(more, op, result, std::move(args));
  const Dtype stored = WidenedType(result);
  if (stored != result) value = loops::AddOp(more, ScalarOp::kCast, stored, {value});
  const BufferId y =
      AddOperand(more, fmt::format("y{}", more.buffers.size()), stored, loops::Access::kOut);
  const loops::StmtId store = loops::AddStmt(more, {.buffer = y, .index = {t}, .value = value});
  more.stmts[0].body.push_back(store);
  if (!loops::Verify(more).ok()) return false;
  nest = std::move(more);
  return true;
}

std::vector<Dtype> Dtypes() {
  std::vector<Dtype> all;  // that a kernel can hold
  std::ranges::copy_if(kDtypes, std::back_inserter(all),
                       [](Dtype d) { return d != Dtype::kString && !IsCode(d); });
  return all;
}

// Corners of the type, then bits as they come.
std::vector<std::byte> Corners(Dtype dtype, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(kElems) * 8);
  for (std::byte& b : bytes) b = std::byte(random());
  if (dtype == Dtype::kBool)
    for (std::byte& b : bytes) b &= std::byte{1};
  Tensor values(dtype, {kElems});
  std::memcpy(values.mutable_data(), bytes.data(), static_cast<size_t>(values.bytes()));
  if (SharesBytes(dtype) || dtype == Dtype::kBool) return bytes;
  std::vector<double> corners = {0, -0.0, 1, -1, 2, 3, -3, 7, 0.5, -1.5, 2.5, 100, -129, 65536};
  for (const double big : {1e9, 1e19, 1e38, 1e300, double{INFINITY}})
    corners.push_back(-big), corners.push_back(big);
  corners.push_back(NAN);
  for (size_t i = 0; i < corners.size(); ++i) SetElem(values, static_cast<int64_t>(i), corners[i]);
  std::memcpy(bytes.data(), values.data(), static_cast<size_t>(values.bytes()));
  return bytes;
}

TEST(CudaText, EveryPrimitiveOnEveryTypeIsWhatItsNestSays) {
  std::vector<LoopNest> nests;
  std::vector<codegen::CudaText> texts;
  for (const Dtype dtype : Dtypes()) {
    SCOPED_TRACE(DtypeName(dtype));
    LoopNest nest{.name = fmt::format("all_{}", DtypeName(dtype))};
    const Var t = loops::AddVar(nest, "t");
    AddOperand(nest, "x", dtype, loops::Access::kIn);
    AddOperand(nest, "condition", Dtype::kBool, loops::Access::kIn);
    nest.body = {loops::AddStmt(nest, {.kind = loops::StmtKind::kFor,
                                       .var = t,
                                       .lo = {0},
                                       .hi = {kElems},
                                       .loop = loops::LoopKind::kThreadX})};
    int cases = 0;
    for (int op = 0; op <= static_cast<int>(ScalarOp::kIsNan); ++op) {
      for (const Dtype result : Dtypes()) {
        const auto scalar_op = static_cast<ScalarOp>(op);
        // Bitwise and total operations on floats have no meaning, though types may agree.
        const bool only_integers = scalar_op >= ScalarOp::kBitAnd && scalar_op <= ScalarOp::kShr;
        if (only_integers && IsFloat(dtype)) continue;
        if (scalar_op == ScalarOp::kAddFlush) continue;  // as AMX adds
        cases += AddCase(nest, scalar_op, result);
      }
    }
    EXPECT_GT(cases, 14);
    ExpectCompiles(nest);
    auto text = codegen::EmitCudaText(nest, Sm90());
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    texts.push_back(*std::move(text));
    nests.push_back(std::move(nest));
  }
  auto kernels = codegen::EmulatedKernels::Compile(std::move(texts));
  ASSERT_TRUE(kernels.ok()) << kernels.status().ToString();
  for (size_t k = 0; k < nests.size(); ++k) {
    const LoopNest& nest = nests[k];
    auto x = Corners(nest.buffers[0].dtype, 1), condition = Corners(Dtype::kBool, 2);
    std::vector<std::vector<std::byte>> results(nest.buffers.size() - 2,
                                                std::vector<std::byte>(kElems * 8));
    std::vector<void*> operands = {x.data(), condition.data()};
    for (auto& y : results) operands.push_back(y.data());
    KernelFault fault{};
    const Status same = kernels->Check(k, nest, operands, {}, &fault);
    EXPECT_TRUE(same.ok()) << same.ToString();
  }
}

TEST(CudaText, IsTheSameEachTime) {
  const LoopNest nest = VerifiedNest(R"(loops k (x: in f32[8], y: out f32[8]) {
    block_x b = 0:2 { thread_x t = 0:4 { y[4*b + t] = x[4*b + t] } } })");
  const auto a = codegen::EmitCudaText(nest, Sm90()), b = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->text, b->text);
  EXPECT_EQ(a->launch.grid[0].Eval({}), 2);
  EXPECT_EQ(a->launch.ThreadsPerBlock(), 4);
}

TEST(CudaText, FourBitsAreReadAsHalvesOfBytes) {
  const LoopNest nest = VerifiedNest(
      R"(loops k (x: in i4[8], z: in u4[8], f: in f32[8], y: out f32[8], q: out i32[8]) {
    shared t: i4[8]
    block_x b = 0:1 {
      thread_x i = 0:8 { t[i] = cast(f[i]):i4 }
      barrier
      thread_x j = 0:8 {
        y[j] = cast(x[7 - j]):f32 + cast(z[j]):f32
        q[j] = cast(t[7 - j]):i32 + cast(cast(f[j]):u4):i32
      } } })");
  std::vector<uint8_t> x = {0x98, 0xba, 0xdc, 0x7f}, z = {0x10, 0x32, 0x54, 0xff};
  std::vector<float> f = {-100, -8.5F, -1.5F, 0, 1.5F, 7.5F, 100, NAN}, y(8);
  std::vector<int32_t> q(8);
  std::vector<void*> operands = {x.data(), z.data(), f.data(), y.data(), q.data()};
  EXPECT_EQ(CheckText(nest, operands), "");
  EXPECT_EQ(y, (std::vector<float>{7, 0, -1, -1, -1, -1, 8, 7}));
  EXPECT_EQ(q, (std::vector<int32_t>{0, 7, 7, 1, 1, 6, 7, -8}));
  ExpectCompiles(nest);
}

// Nothing that a model calls its values can leave a comment or become a word of the language.
TEST(CudaText, HostileNamesAreHarmless) {
  const LoopNest nest = VerifiedNest(R"(loops k ("float": in f32[8], "a\"; } evil(": out f32[8])
      for "x\n#error evil" "back\\" {
    thread_x int = 0:8 { mark "*/ \\" { "a\"; } evil("[int] = "float"[int] } } })");
  ExpectCompiles(nest);
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->text.find("\n#error"), std::string::npos);
}

// Words of the language, and what texts call.
TEST(CudaText, NamesHideNothing) {
  const LoopNest nest = VerifiedNest(R"(loops k ("or": in f32[4], "fmaf": in f32[4],
      "WeftFault": in f32[4], "sqrtf": in i64[4], "floorf": out f32[4]) {
    thread_x copysign = 0:4 { let j = "sqrtf"[copysign] in 0:4 of "or"
      "floorf"[copysign] = floor(sqrt(fma("or"[j], "fmaf"[j], "WeftFault"[j]))) } })");
  ExpectCompiles(nest);
  std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8}, c = {0, 1, 2, 3}, y(4);
  std::vector<int64_t> i = {3, 2, 1, 0};
  EXPECT_EQ(CheckText(nest, {a.data(), b.data(), c.data(), i.data(), y.data()}), "");
  EXPECT_EQ(y[0], 5);
}

// All keywords of C++20, and some of what CUDA declares, or replaces before it looks at names.
TEST(CudaText, NoNameIsAWordOfTheLanguage) {
  constexpr std::string_view kWords =
      "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t "
      "char16_t "
      "char32_t class compl concept const consteval constexpr constinit const_cast continue "
      "co_await "
      "co_return co_yield decltype default delete do double dynamic_cast else enum explicit export "
      "extern false float for friend goto if inline int long mutable namespace new noexcept not "
      "not_eq nullptr operator or or_eq private protected public register reinterpret_cast "
      "requires "
      "return short signed sizeof static static_assert static_cast struct switch template this "
      "thread_local throw true try typedef typeid typename union unsigned using virtual void "
      "volatile wchar_t while xor xor_eq final override import module "
      "blockIdx threadIdx gridDim blockDim warpSize dim3 __shared__ __global__ __syncthreads NULL "
      "linux unix asm typeof cudaStreamLegacy cudaInvalidDeviceId CUDART_CB "
      "CU_UUID_HAS_BEEN_DEFINED "
      "NV_IF_TARGET NAN INFINITY assert main size_t WeftFault weft_scratch weft_error min memcpy";
  std::vector<std::string> names;
  for (size_t at = 0; at < kWords.size();) {
    const size_t end = std::min(kWords.find(' ', at), kWords.size());
    names.emplace_back(kWords.substr(at, end - at));
    at = end + 1;
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  LoopNest nest{.name = "k"};
  const Var t = loops::AddVar(nest, "constexpr");
  ExprId sum;
  for (const std::string& name : names) {
    const BufferId x = AddOperand(nest, name, Dtype::kF32, loops::Access::kIn);
    const ExprId read = loops::AddLoad(nest, x, {Affine::OfVar(t)});
    sum = sum.valid() ? loops::AddOp(nest, ScalarOp::kAdd, Dtype::kF32, {sum, read}) : read;
  }
  const BufferId y = AddOperand(nest, "out", Dtype::kF32, loops::Access::kOut);
  nest.body = {loops::AddStmt(
      nest,
      {.kind = loops::StmtKind::kFor,
       .var = t,
       .lo = {0},
       .hi = {kElems},
       .loop = loops::LoopKind::kThreadX,
       .body = {loops::AddStmt(nest, {.buffer = y, .index = {Affine::OfVar(t)}, .value = sum})}})};
  ASSERT_TRUE(loops::Verify(nest).ok());
  ExpectCompiles(nest);
  const std::vector<float> ones(kElems, 1.0F);
  std::vector<float> result(kElems);
  std::vector<void*> operands(names.size(), const_cast<float*>(ones.data()));
  operands.push_back(result.data());
  EXPECT_EQ(CheckText(nest, operands), "");
  EXPECT_EQ(result[0], static_cast<float>(names.size()));
  for (const char* word : {"float", "constexpr", "fmaf"}) {
    nest.name = word;
    EXPECT_EQ(codegen::EmitCudaText(nest, Sm90()).status().code(), Code::kUnsupported) << word;
  }
}

// Which math is expanded to on CPUs that have them, and a nest as text may ask for anywhere.
TEST(CudaText, ScalesAndPicks) {
  const LoopNest nest = VerifiedNest(R"(loops k (i: in i32[4], x: in f32[4], y: out f32[4]) {
    thread_x t = 0:4 { y[t] = ldexp(pick(i[t], 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0,
      10.0, 11.0, 12.0, 13.0, 14.0, 15.0), x[t]) } })");
  ExpectCompiles(nest);
  std::vector<int32_t> i = {1, 19, -1, 5};
  std::vector<float> x = {0.5F, -0.5F, 2, -3}, y(4);
  EXPECT_EQ(CheckText(nest, {i.data(), x.data(), y.data()}), "");
  EXPECT_EQ(y, (std::vector<float>{1, 1.5F, 60, 0.625F}));
}

TEST(CudaText, FourBitsAreStoredBesideTheirNeighbours) {
  const LoopNest nest = VerifiedNest(R"(loops k (x: in i32[7], y: out i4[7], z: out u4[8]) {
    block_x b = 0:1 { single {
      for i = 0:7 { y[i] = cast(x[i]):i4 }
      vector v = 0:8 { z[v] = cast(x[v]{6 - v >= 0}):u4 } } } })");
  std::vector<int32_t> x = {1, -2, 3, -4, 5, -8, 7};
  std::vector<uint8_t> y(4, 0xab), z(4);
  EXPECT_EQ(CheckText(nest, {x.data(), y.data(), z.data()}), "");
  EXPECT_EQ((std::vector<uint8_t>{y[0], y[1], y[2]}), (std::vector<uint8_t>{0xe1, 0xc3, 0x85}));
  EXPECT_EQ(y[3] & 15, 7);
  ExpectCompiles(nest);
}

TEST(CudaText, GatheredIndicesAreCheckedAndReported) {
  const LoopNest nest = VerifiedNest(R"(loops k (x: in f32[8], i: in i64[4], y: out f32[4]) {
    thread_x t = 0:4 { let j = i[t] in 0:8 of x y[t] = x[j] } })");
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->text.find("weft_fault(weft_error, 1, 0, weft_found, 0, 8)"), std::string::npos)
      << text->text;
  ExpectCompiles(nest);
  std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7}, y(4);
  std::vector<int64_t> i = {3, 9, -1, 7};
  KernelFault fault{};
  EXPECT_EQ(CheckText(nest, {x.data(), i.data(), y.data()}, {}, &fault), "");
  EXPECT_EQ(y, (std::vector<float>{3, 0, 0, 7}));
  EXPECT_EQ(fault.code, 1U);
  EXPECT_EQ(fault.found, 9);
}

TEST(CudaText, LanesReadBeforeAnyIsWritten) {
  const LoopNest nest = VerifiedNest(R"(loops k (x: in i64[8], y: out i64[8]) { reg t: i64[8]
    thread_x b = 0:1 {
      vector v = 0:8 { t[v] = x[v] }
      vector v1 = 0:7 { t[v1] = t[v1 + 1] }
      vector v2 = 2:8:2 { let j = x[v2] in 0:8 of x
        if v2 - 4 >= 0 { unroll u = v2:v2 + 2 { y[u] = x[j] } } else { y[v2] = t[v2] } } } })");
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->text.find("weft_lanes["), std::string::npos) << text->text;
  ExpectCompiles(nest);
  std::vector<int64_t> x = {1, 2, 3, 4, 5, 6, 7, 0}, y(8);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  EXPECT_EQ(y[2], 4);
}

TEST(CudaText, WhatDoesNotFitABlockLiesInScratch) {
  const LoopNest nest = VerifiedNest(R"(loops k (x: in f32[20000], y: out f32[20000]) {
    shared s: f32[20000]
    shared small: f32[32]
    block_x b = 0:1 { for i = 0:20000:32 { thread_x t = 0:32 { small[t] = x[i + t] s[i + t] = small[t] } }
      barrier
      for i1 = 0:20000:32 { thread_x t1 = 0:32 { y[i1 + t1] = s[19999 - i1 - t1] } } } })");
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->shared_bytes, 128);
  EXPECT_EQ(text->scratch_bytes, 80000);
  ExpectCompiles(nest);
  std::vector<float> x(20000), y(20000);
  std::iota(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(ExecuteBoth(nest, x, y), "");
  EXPECT_EQ(y[0], 19999);
}

TEST(CudaText, ParamsMakeIndicesWide) {
  const LoopNest nest = VerifiedNest(R"(loops k<n> (x: in f32[n, 8], y: out f32[n, 8]) {
    block_x b = 0:n:16 { thread_x t = b:min(b + 16, n) { for i = 0:8 { y[t, i] = x[t, i] } } } })");
  const auto text = codegen::EmitCudaText(nest, Sm90());
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->text.find("const long long t"), std::string::npos) << text->text;
  const std::vector<int64_t> params = {33};
  EXPECT_EQ(text->launch.grid[0].Eval(params), 3);
  ExpectCompiles(nest);
  std::vector<float> x(264), y(264);
  std::iota(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(CheckText(nest, {x.data(), y.data()}, params), "");
  EXPECT_EQ(y, x);
}

// Offsets are in 32 bits as long as nothing on the way to them comes near the end of those.
TEST(CudaText, LargeBuffersMakeIndicesWide) {
  struct Case {
    int64_t rows, columns;
    bool wide;
  };
  for (const Case& c : {Case{1 << 14, (1 << 15) - 4, false},
                        {1 << 15, 1 << 15, true},
                        {1 << 15, 1 << 16, true},
                        {1 << 18, 1 << 18, true}}) {
    const LoopNest nest = VerifiedNest(fmt::format(
        R"(loops k (x: in u8[{0}, {1}] align 16, y: out u8[{0}, 1]) {{
      block_x b = 0:{0}:256 {{ thread_x t = b:b + 256 {{ y[t, 0] = x[t, {1} - 1] }} }} }})",
        c.rows, c.columns));
    const auto text = codegen::EmitCudaText(nest, Sm90());
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    EXPECT_EQ(text->text.find("const long long t") != std::string::npos, c.wide) << text->text;
    EXPECT_EQ(text->text.find("const int t") != std::string::npos, !c.wide) << text->text;
  }
}

// A block beyond the end of a loop must not come back at its beginning.
TEST(CudaText, BlocksThatOnlyALongerLoopHasMakeIndicesWide) {
  for (const auto& [step, wide] : {std::pair(256, false), {4096, true}}) {
    const LoopNest nest = VerifiedNest(fmt::format(
        R"(loops k (x: in u8[1048576] align 16, y: out u8[1048576], z: out u8[1048576]) {{
          block_x a = 0:1048576 {{ y[a] = x[a] }}
          block_x b = 0:1048576:{} {{ z[b] = x[b] }} }})",
        step));
    const auto text = codegen::EmitCudaText(nest, Sm90());
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    EXPECT_EQ(text->text.find("const long long b") != std::string::npos, wide) << text->text;
  }
}

TEST(CudaText, ACpuNestIsRefused) {
  const LoopNest nest = VerifiedNest(R"(loops k (x: in f32[8], y: out f32[8]) {
    parallel i = 0:8 { y[i] = x[i] } })");
  EXPECT_EQ(codegen::EmitCudaText(nest, Sm90()).status().code(), Code::kUnsupported);
  EXPECT_EQ(codegen::EmitCudaText(nest, Target{}).status().code(), Code::kUsage);
}

TEST(CudaText, MultiplyAddsThatFlushAreRefused) {
  const LoopNest nest = VerifiedNest(R"(loops k (x: in bf16[8], y: out f32[8]) {
    block_x b = 0:1 { thread_x t = 0:8 { y[t] = fma_flush(x[t], x[t], 1.0) } } })");
  const Status status = codegen::EmitCudaText(nest, Sm90()).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.what().find("no multiply-adds that flush"), std::string::npos);
}

TEST(CudaNvrtc, ErrorsCarryTheLog) {
  const auto cubin = codegen::CompileCuda("no words of any language", "k", Sm90());
  ASSERT_FALSE(cubin.ok());
  if (!HasNvrtc()) {
    EXPECT_EQ(cubin.status().code(), Code::kMissing);
    GTEST_SKIP() << cubin.status().ToString();
  }
  EXPECT_NE(cubin.status().what().find("error"), std::string::npos) << cubin.status().ToString();
}

// A thread's array with an index that is known only when it runs lies in local memory.
TEST(CudaNvrtc, ReadsWhatACubinTakes) {
  if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC";
  const std::string text = R"(extern "C" __global__ void k(float* x) {
      __shared__ float row[96];
      float own[32];
      for (int i = 0; i < 32; ++i) own[(i * 7) % (int)x[i]] = x[32 + i];
      row[threadIdx.x] = own[(int)x[96]];
      __syncthreads();
      x[threadIdx.x] = row[95 - threadIdx.x]; })";
  for (const Isa isa : {Isa::kSm80, Isa::kSm90, Isa::kSm100}) {
    const auto cubin = codegen::CompileCuda(text, "k", {.kind = TargetKind::kCuda, .isa = isa});
    ASSERT_TRUE(cubin.ok()) << cubin.status().ToString();
    const codegen::CudaResources& r = cubin->resources;
    EXPECT_GE(r.registers, 8);
    EXPECT_LE(r.registers, 255);
    EXPECT_EQ(r.stack_bytes, 32 * 4);
    EXPECT_EQ(r.shared_bytes, 96 * 4);
    EXPECT_GE(r.local_accesses, 33);
    // However it is cut off, no byte beyond it is read.
    for (size_t size = 0; size < cubin->image.size(); size += 61) {
      const auto part = codegen::ReadCubin(std::span(cubin->image).first(size));
      EXPECT_TRUE(!part.ok() || *part == r) << size;
    }
  }
  EXPECT_EQ(codegen::ReadCubin({}).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace weft::cuda_test
