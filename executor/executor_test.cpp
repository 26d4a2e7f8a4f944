#include "executor/executor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <thread>

#include "executor/cuda/driver.h"
#include "plan/memory.h"

namespace weft::executor {
namespace {

using plan::Buffer;
using plan::BufferId;
using plan::BufferKind;
using plan::Plan;
using plan::Specialization;
using plan::Step;
using plan::StepKind;

constexpr int64_t kElems = 64;

// The compiler of these tests: every kernel is in the one shared object that was built beside them.
Result<std::vector<uint8_t>> Compile(const plan::Kernel&, const Target&) {
  std::ifstream file(WEFT_KERNELS_FOR_TEST, std::ios::binary);
  return std::vector<uint8_t>{std::istreambuf_iterator<char>(file), {}};
}

// Writes plans down: buffers of 64 floats unless said otherwise.
struct Builder {
  Plan plan{.name = "test"};
  Specialization s;

  Builder() { plan.target = *HostTarget(); }

  BufferId Add(std::string name, BufferKind kind, Dtype dtype = Dtype::kF32,
               Shape shape = {kElems}) {
    Buffer b{.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .kind = kind};
    b.layout = Layout::Plain(b.shape.size());
    b.bytes = *BufferBytes(b);
    s.buffers.push_back(std::move(b));
    const BufferId id(s.buffers.size() - 1);
    if (kind == BufferKind::kInput) s.inputs.push_back(id);
    if (kind == BufferKind::kOutput) s.outputs.push_back(id);
    return id;
  }

  BufferId Weight(std::string name, float first) {
    Tensor t(Dtype::kF32, {kElems});
    std::iota(t.mutable_as<float>(), t.mutable_as<float>() + kElems, first);
    const BufferId id = Add(std::move(name), BufferKind::kWeight);
    s.buffers[id.index].blob = plan.blobs.Put(t);
    return id;
  }

  void Own(const std::string& kernel, std::vector<BufferId> inputs, BufferId output,
           std::string_view promise = "") {
    size_t k = 0;
    while (k < plan.kernels.size() && plan.kernels[k].name != kernel) ++k;
    if (k == plan.kernels.size()) {
      std::string operands;
      for (BufferId id : inputs)
        operands += fmt::format("x{}: in {}[64], ", id.index, DtypeName(s.buffers[id.index].dtype));
      plan.kernels.push_back({.name = kernel,
                              .loops = fmt::format("loops {} ({}y: out f32[64]{}) {{\n}}\n", kernel,
                                                   operands, promise),
                              .rank_scratch_bytes = 100,
                              .team_scratch_bytes = 4096});
      plan.kernels.back().key = plan::KernelKey(plan.kernels.back(), plan.target.isa, plan.codegen);
    }
    s.steps.push_back({.kind = StepKind::kOwn,
                       .name = kernel + " step",
                       .kernel = plan::KernelId(k),
                       .inputs = std::move(inputs),
                       .outputs = {output},
                       .nodes = {"/node/" + kernel}});
  }

  void Native(const std::string& op, std::vector<BufferId> inputs, BufferId output) {
    Step step{
        .kind = StepKind::kNative, .name = op + " step", .inputs = inputs, .outputs = {output}};
    step.call.op = op;
    const auto operand = [&](std::string role, BufferId id) {
      const Buffer& b = s.buffers[id.index];
      return fallback::CallOperand{.role = std::move(role),
                                   .value = b.name,
                                   .dtype = b.dtype,
                                   .shape = b.shape,
                                   .layout = b.layout,
                                   .constant = b.kind == BufferKind::kWeight};
    };
    for (size_t i = 0; i < inputs.size(); ++i)
      step.call.inputs.push_back(operand(fmt::format("in{}", i), inputs[i]));
    step.call.outputs.push_back(operand("out0", output));
    s.steps.push_back(std::move(step));
  }

  Plan Done() {
    EXPECT_TRUE(plan::PlanMemory(s).ok());
    plan.specializations = {s};
    return plan;
  }

  std::unique_ptr<Executor> Load(uint32_t threads = 1) {
    auto loaded = Executor::Load(Done(), {.threads = threads, .compiler = Compile});
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    return loaded.ok() ? std::move(*loaded) : nullptr;
  }
};

Tensor Iota(float first = 0) {
  Tensor t(Dtype::kF32, {kElems});
  std::iota(t.mutable_as<float>(), t.mutable_as<float>() + kElems, first);
  return t;
}

// x + 1, flipped and scaled, summed, doubled by a library call: every kind of step.
TEST(Executor, RunsKernelsCallsAndViews) {
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    Builder b;
    const BufferId x = b.Add("x", BufferKind::kInput), a = b.Add("a", BufferKind::kArena),
                   view = b.Add("view", BufferKind::kAlias);
    b.s.buffers[view.index].alias = a;
    const BufferId w = b.Weight("w", 1), f = b.Add("f", BufferKind::kArena),
                   d = b.Add("d", BufferKind::kArena);
    const BufferId y = b.Add("y", BufferKind::kOutput);
    b.Own("add_one", {x}, a);
    b.s.steps.push_back({.kind = StepKind::kView, .name = "v", .inputs = {a}, .outputs = {view}});
    b.Own("flip_scale", {view, w}, f);
    b.Native("Add", {f, f}, d);
    b.Own("sum_all", {d}, y);
    auto executor = b.Load(threads);
    ASSERT_TRUE(executor);
    float expected = 0;
    for (int i = 0; i < kElems; ++i)
      expected += 2 * static_cast<float>((kElems - 1 - i + 1) * (i + 1));
    for (int round = 0; round < 5; ++round) {
      const std::vector<Tensor> inputs = {Iota()};
      auto outputs = executor->Run(inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
      for (int i = 0; i < kElems; ++i) ASSERT_EQ((*outputs)[0].as<float>()[i], expected);
    }
    for (size_t step = 0; step < 5; ++step) EXPECT_TRUE(executor->RunStep(0, step).ok());
    EXPECT_EQ(executor->RunStep(0, 5).code(), Code::kUsage);
  }
}

TEST(Executor, GivesOutputsTwiceInputsAndWeights) {
  Builder b;
  const BufferId x = b.Add("x", BufferKind::kInput), w = b.Weight("w", 5),
                 a = b.Add("a", BufferKind::kArena);
  const BufferId y = b.Add("y", BufferKind::kOutput),
                 view = b.Add("view", BufferKind::kAlias, Dtype::kF32, {8, 8});
  b.s.buffers[view.index].alias = a;
  b.Own("add_one", {x}, a);
  b.Own("add_one", {a}, y);
  b.s.steps.push_back({.kind = StepKind::kView, .name = "v", .inputs = {a}, .outputs = {view}});
  b.s.outputs = {y, x, w, y, view};
  auto executor = b.Load(2);
  ASSERT_TRUE(executor);
  const std::vector<Tensor> inputs = {Iota()};
  auto outputs = executor->Run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
  const float plus[] = {2, 0, 5, 2, 1};
  for (size_t k = 0; k < 5; ++k)
    for (int i = 0; i < kElems; ++i)
      ASSERT_EQ((*outputs)[k].as<float>()[i], static_cast<float>(i) + plus[k]) << k;
}

struct Simple : Builder {
  Simple() { Own("add_one", {Add("x", BufferKind::kInput)}, Add("y", BufferKind::kOutput)); }
};

TEST(Executor, TakesMemoryOfAnyAlignment) {
  auto executor = Simple().Load(2);
  std::vector<float> memory(4 * kElems + 64);
  float* base = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) / 4 % 16;
  for (int in_off : {0, 1, 3})
    for (int out_off : {0, 1, 5})
      for (int round = 0; round < 2; ++round) {
        float *in = base + in_off, *out = base + 2 * kElems + out_off;
        std::iota(in, in + kElems, static_cast<float>(round));
        std::fill(out - 1, out + kElems + 1, -1.0f);
        const void* inputs[] = {in};
        void* outputs[] = {out};
        ASSERT_TRUE(executor->Run(0, inputs, outputs).ok());
        for (int i = 0; i < kElems; ++i) ASSERT_EQ(out[i], static_cast<float>(i + round + 1));
        EXPECT_EQ(out[kElems], -1.0f);
      }
}

// Memory is copied for a kernel that was promised an alignment, and for that one alone.
TEST(Executor, CopiesWhatAKernelWantsAligned) {
  for (const char* promise : {"", " align 64"}) {
    Builder b;
    b.Own("tell_places", {b.Add("x", BufferKind::kInput)}, b.Add("y", BufferKind::kOutput),
          promise);
    auto executor = b.Load();
    alignas(64) float x[kElems + 3] = {}, y[kElems + 1] = {};
    const void* inputs[] = {x + 3};
    void* outputs[] = {y + 1};
    ASSERT_TRUE(executor->Run(0, inputs, outputs).ok());
    EXPECT_EQ(y[1], 12);
    EXPECT_EQ(y[2], *promise ? 0 : 4);
  }
}

// An output over an input, shifted: what is read must be what was given.
TEST(Executor, OutputsMayOverwriteInputs) {
  auto executor = Simple().Load(2);
  std::vector<float> memory(4 * kElems);
  for (int shift : {0, 3, 16}) {
    std::iota(memory.begin(), memory.end(), 0.0f);
    const void* inputs[] = {memory.data()};
    void* outputs[] = {memory.data() + shift};
    ASSERT_TRUE(executor->Run(0, inputs, outputs).ok());
    for (int i = 0; i < kElems; ++i)
      ASSERT_EQ(memory[static_cast<size_t>(shift + i)], static_cast<float>(i + 1)) << shift;
  }
}

TEST(Executor, RefusesWrongArguments) {
  auto executor = Simple().Load();
  alignas(64) float x[kElems] = {}, y[kElems];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  void *two[] = {y, y}, *none[] = {nullptr};
  const void* no_input[] = {nullptr};
  EXPECT_EQ(executor->Run(1, inputs, outputs).code(), Code::kUsage);
  EXPECT_EQ(executor->Run(0, inputs, two).code(), Code::kUsage);
  EXPECT_EQ(executor->Run(0, inputs, none).where(), "output \"y\"");
  EXPECT_EQ(executor->Run(0, no_input, outputs).where(), "input \"x\"");
  EXPECT_EQ(executor->Run(0, inputs, outputs, y + 1).code(), Code::kUsage);
  EXPECT_TRUE(executor->Run(0, inputs, outputs).ok());

  const std::vector<Tensor> small = {Tensor(Dtype::kF32, {3})},
                            wrong = {Tensor(Dtype::kI64, {kElems})};
  EXPECT_EQ(executor->Run(small).status().what(),
            "found inputs ([3]), the plan takes (x: f32[64])");
  EXPECT_EQ(executor->Run({}).status().code(), Code::kUsage);
  EXPECT_EQ(executor->Run(wrong).status().ToString(), "input \"x\": found i64, expected f32");

  Builder b;
  const BufferId in = b.Add("x", BufferKind::kInput);
  b.Own("add_one", {in}, b.Add("y", BufferKind::kOutput));
  b.Own("add_one", {in}, b.Add("z", BufferKind::kOutput));
  EXPECT_EQ(b.Load()->Run(0, inputs, two).what(), "its memory is another output's too");
}

TEST(Executor, FaultsNameKernelNodeAndOperand) {
  for (uint32_t threads : {1u, 3u}) {
    Builder b;
    const BufferId t = b.Add("table", BufferKind::kInput),
                   i = b.Add("index", BufferKind::kInput, Dtype::kI64);
    const BufferId m = b.Add("m", BufferKind::kArena), g = b.Add("g", BufferKind::kArena),
                   y = b.Add("y", BufferKind::kOutput);
    b.Own("add_one", {t}, m);
    b.Own("gather", {m, i}, g);
    b.Own("add_one", {g}, y);
    auto executor = b.Load(threads);
    std::vector<Tensor> inputs = {Iota(), Tensor(Dtype::kI64, {kElems})};
    ASSERT_TRUE(executor->Run(inputs).ok());
    inputs[1].mutable_as<int64_t>()[60] = -7;
    const Status status = executor->Run(inputs).status();
    EXPECT_EQ(status.ToString(),
              "kernel \"gather\", for node \"/node/gather\": index -7 is outside of \"m\", which "
              "is f32[64]; "
              "try: check the values of the integer inputs");
    EXPECT_EQ(status.code(), Code::kInvalid);
    inputs[1].mutable_as<int64_t>()[60] = 7;
    EXPECT_TRUE(executor->Run(inputs).ok());
  }
}

TEST(Executor, CancelEndsARunAndNoLater) {
  for (uint32_t threads : {1u, 2u, 4u}) {
    Builder b;
    const BufferId x = b.Add("x", BufferKind::kInput), y = b.Add("y", BufferKind::kOutput),
                   z = b.Add("z", BufferKind::kOutput);
    b.Own("wait_for_cancel", {x}, y);
    b.Own("wait_for_cancel", {y}, z);
    auto executor = b.Load(threads);
    for (int round = 0; round < 3; ++round) {
      alignas(64) float in[kElems] = {}, out[2][kElems] = {};
      const void* inputs[] = {in};
      void* outputs[] = {out[0], out[1]};
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        executor->Cancel();
      });
      EXPECT_EQ(executor->Run(0, inputs, outputs).code(), Code::kInterrupted);
      other.join();
      EXPECT_LE(out[0][0], 1);  // 0 if the cancel came before the run
      EXPECT_EQ(out[1][0], 0);
    }
  }
}

TEST(Executor, ACancelBeforeARunEndsThatRunOnly) {
  auto executor = Simple().Load(2);
  const std::vector<Tensor> inputs = {Iota()};
  executor->Cancel();
  EXPECT_EQ(executor->Run(inputs).status().code(), Code::kInterrupted);
  EXPECT_TRUE(executor->Run(inputs).ok());
}

TEST(Executor, KernelsRunInTheDefaultFloatModeAndTheCallersComesBack) {
  Builder b;
  b.Own("float_mode", {b.Add("x", BufferKind::kInput)}, b.Add("y", BufferKind::kOutput));
  auto executor = b.Load(2);
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(0xffc0 & (saved | 0x8040 | 0x6000));  // flush, denormals are zero, round to zero
  const unsigned odd = _mm_getcsr();
  const std::vector<Tensor> inputs = {Iota()};
  auto outputs = executor->Run(inputs);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(after, odd);
  EXPECT_EQ((*outputs)[0].as<float>()[0], static_cast<float>(0x1f80));
  EXPECT_EQ((*outputs)[0].as<float>()[1], 1);
}

TEST(Executor, LoadsFromTheCacheAndNamesWhatIsMissing) {
  const std::string folder = testing::TempDir() + "/weft-executor-test-cache";
  std::filesystem::remove_all(folder);
  auto cache = FileCache::Open(folder);
  ASSERT_TRUE(cache.ok());
  const Plan plan = Simple().Done();
  auto missing = Executor::Load(plan, {.threads = 1, .cache = &*cache});
  EXPECT_EQ(missing.status().code(), Code::kMissing);
  EXPECT_EQ(missing.status().where(), "kernel \"add_one\"");
  ASSERT_TRUE(Executor::Load(plan, {.threads = 1, .cache = &*cache, .compiler = Compile}).ok());
  auto found = Executor::Load(plan, {.threads = 1, .cache = &*cache});
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  const std::vector<Tensor> inputs = {Iota()};
  EXPECT_TRUE((*found)->Run(inputs).ok());
  std::filesystem::remove_all(folder);
}

TEST(Executor, RefusesPlansThatItCantRun) {
  const auto code = [](auto&& change) {
    Simple b;
    Plan plan = b.Done();
    change(plan, plan.specializations[0]);
    for (plan::Kernel& k : plan.kernels) k.key = plan::KernelKey(k, plan.target.isa, plan.codegen);
    return Executor::Load(std::move(plan), {.threads = 1, .compiler = Compile}).status().code();
  };
  EXPECT_EQ(code([](Plan&, Specialization&) {}), Code::kOk);
  EXPECT_EQ(
      code([](Plan& p, Specialization&) { p.kernels[0].rank_scratch_bytes = int64_t{1} << 45; }),
      Code::kLimit);
  EXPECT_EQ(code([](Plan&, Specialization& s) { s.arena_bytes = int64_t{1} << 46; }), Code::kLimit);
  EXPECT_EQ(code([](Plan& p, Specialization&) { p.kernels[0].name = "absent"; }), Code::kInvalid);
  EXPECT_EQ(code([](Plan& p, Specialization&) {
              p.kernels[0].name = "absent";
              p.kernels[0].loops = "loops absent (x: in f32[64], y: out f32[64]) {";
            }),
            Code::kInternal);
  EXPECT_EQ(code([](Plan& p, Specialization&) { p.target = *ParseTarget("cuda:sm_90"); }),
            Code::kInvalid);  // no launch
  const Code on_cuda = code([](Plan& p, Specialization&) {
    p.target = *ParseTarget("cuda:sm_90");
    for (plan::Kernel& k : p.kernels) {
      k.rank_scratch_bytes = k.team_scratch_bytes = 0;
      k.launch.emplace();
    }
  });
  // What Compile gives is no machine code of a device.
  EXPECT_EQ(on_cuda, CudaDevices().ok() ? Code::kInvalid : Code::kMissing);
  EXPECT_EQ(
      Executor::Load(Simple().Done(), {.threads = 1 << 20, .compiler = Compile}).status().code(),
      Code::kUsage);
}

constexpr std::string_view kNegation = "graph b (x: f32) -> (y) {\n  y: f32 = Neg(x)\n}\n";

// A plan that is built when it runs, whole, of a graph that takes `x`.
Result<Plan> StageOf(std::string_view x) {
  BlobStore blobs;
  const std::string hash = blobs.Put(plan::TextBlob(kNegation));
  const std::string text = fmt::format(
      "plan outer for \"cpu:x86-64-v3\" {{ model \"\" versions \"\" \"\" \"\" prices estimated "
      "specialization (x) -> (y) arena 0 {{ buffer x: {} live 0:0 buffer y: f32 dynamic "
      "live 0:0 step plan y (x) -> (y) us 0 estimated nodes () stage blob(\"{}\", {} bytes) }} }}",
      x, hash, kNegation.size());
  return plan::ParsePlan(text, "outer", blobs);
}

// What is built when it runs needs somebody who builds it, and is told who asks.
TEST(Executor, NestedPlansAreBuiltForTheShapesTheyGet) {
  Plan nested = Simple().Done();
  const auto outer = StageOf("f32[64] input");
  ASSERT_TRUE(outer.ok()) << outer.status().ToString();
  EXPECT_EQ(Executor::Load(*outer, {.threads = 1, .compiler = Compile}).status().code(),
            Code::kMissing);
  int built = 0;
  const auto specialize = [&](const std::string& asked, const BlobStore&,
                              std::span<const Tensor> inputs,
                              const std::function<bool()>&) -> Result<NestedPlan> {
    EXPECT_EQ(asked, kNegation);
    EXPECT_EQ(inputs[0].shape(), Shape{64});
    ++built;
    return NestedPlan{.plan = nested, .bound = {false}};
  };
  auto executor =
      Executor::Load(*outer, {.threads = 1, .compiler = Compile, .specialize = specialize});
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  const Tensor x(Dtype::kF32, {64});
  for (int i = 0; i < 2; ++i) {
    auto y = (*executor)->Run(std::span(&x, 1));
    ASSERT_TRUE(y.ok()) << y.status().ToString();
    EXPECT_EQ((*y)[0].shape(), Shape{64});
  }
  EXPECT_EQ(built, 1);
  std::vector<float> given(64);
  const void* in[] = {x.data()};
  void* out[] = {given.data()};
  EXPECT_EQ((*executor)->Run(0, in, out).code(), Code::kUnsupported);  // nobody knows how large
}

// Of one native on one operand, of this shape or, without one, of any.
Plan UnaryPlan(const char* op, std::optional<Shape> shape) {
  Builder b;
  const bool any = !shape;
  const BufferId x = b.Add("x", any ? BufferKind::kDynamic : BufferKind::kInput, Dtype::kF32,
                           shape.value_or(Shape{})),
                 y = b.Add("y", any ? BufferKind::kDynamic : BufferKind::kOutput, Dtype::kF32,
                           shape.value_or(Shape{}));
  b.Native(op, {x}, y);
  b.s.inputs = {x};
  b.s.outputs = {y};
  return b.Done();
}

// Which takes any vector of less than ten elements.
std::optional<GeneralPlan> GeneralOf(const char* op) {
  return GeneralPlan{.plan = UnaryPlan(op, std::nullopt),
                     .takes = [](std::span<const Shape> shapes) {
                       return shapes[0].size() == 1 && shapes[0][0] < 10;
                     }};
}

// Inputs of open extents go to a nested plan as they are given, and a better one takes over from
// the first as soon as it is there.
TEST(Executor, OpenInputsAndBetterPlans) {
  const auto outer = StageOf("f32 dynamic");
  ASSERT_TRUE(outer.ok()) << outer.status().ToString();
  std::promise<Result<Plan>> better, never;
  std::vector<int64_t> built;
  const auto specialize = [&](const std::string&, const BlobStore&, std::span<const Tensor> inputs,
                              const std::function<bool()>&) -> Result<NestedPlan> {
    built.push_back(inputs[0].shape()[0]);
    auto& promise = built.size() == 1 ? better : never;
    return NestedPlan{.plan = UnaryPlan("Neg", inputs[0].shape()),
                      .bound = {false},
                      .better = promise.get_future().share()};
  };
  auto executor =
      Executor::Load(*outer, {.threads = 1, .compiler = Compile, .specialize = specialize});
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  const auto first = [&](int64_t count) {
    Tensor x(Dtype::kF32, {count});
    for (int64_t i = 0; i < count; ++i) SetElem(x, i, -2);
    auto y = (*executor)->Run(std::span(&x, 1));
    EXPECT_TRUE(y.ok()) << y.status().ToString();
    EXPECT_EQ((*y)[0].shape(), Shape{count});
    return ElemAsDouble((*y)[0], 0);
  };
  EXPECT_EQ(first(3), 2);
  EXPECT_EQ(first(5), 2);
  better.set_value(UnaryPlan("Floor", Shape{3}));  // so that one sees which ran
  never.set_value(Unsupported("by nobody"));
  EXPECT_EQ(first(3), -2);
  EXPECT_EQ(first(5), 2);  // goes on with what it has
  EXPECT_EQ(first(3), -2);
  EXPECT_EQ(built, (std::vector<int64_t>{3, 5}));
  const float given = 0;
  const void* in[] = {&given};
  void* out[] = {nullptr};
  EXPECT_EQ((*executor)->Run(0, in, out).code(), Code::kUnsupported);
  const Tensor wrong(Dtype::kF64, {3});
  EXPECT_EQ((*executor)->Run(std::span(&wrong, 1)).status().code(), Code::kUsage);
}

// Extents that are met for the first time are the general plan's, unless it can't take them.
TEST(Executor, GeneralPlansTakeWhatIsMetOnce) {
  const auto outer = StageOf("f32 dynamic");
  ASSERT_TRUE(outer.ok()) << outer.status().ToString();
  std::vector<int64_t> built;
  const auto specialize = [&](const std::string&, const BlobStore&, std::span<const Tensor> inputs,
                              const std::function<bool()>&) -> Result<NestedPlan> {
    built.push_back(inputs[0].shape()[0]);
    return NestedPlan{.plan = UnaryPlan("Neg", inputs[0].shape()), .bound = {false}};
  };
  int asked = 0;
  const auto generalize = [&](const std::string& text,
                              const BlobStore&) -> Result<std::optional<GeneralPlan>> {
    EXPECT_EQ(text, kNegation);
    ++asked;
    return GeneralOf("Neg");
  };
  auto executor = Executor::Load(
      *outer,
      {.threads = 1, .compiler = Compile, .specialize = specialize, .generalize = generalize});
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  EXPECT_EQ(asked, 1);  // before the first run
  const auto run = [&](int64_t count) {
    Tensor x(Dtype::kF32, {count});
    for (int64_t i = 0; i < count; ++i) SetElem(x, i, -2);
    auto y = (*executor)->Run(std::span(&x, 1));
    ASSERT_TRUE(y.ok()) << y.status().ToString();
    EXPECT_EQ((*y)[0].shape(), Shape{count});
    EXPECT_EQ(ElemAsDouble((*y)[0], count - 1), 2);
  };
  for (const int64_t count : {3, 5, 3, 7, 3, 5}) run(count);
  EXPECT_EQ(built, (std::vector<int64_t>{3, 5}));
  run(12);  // not declared
  EXPECT_EQ(built.back(), 12);
  EXPECT_EQ(asked, 1);
}

// What natives have no kernel for has a plan built at once.
TEST(Executor, GeneralPlansThatCanNotAreNotTaken) {
  const auto outer = StageOf("f32 dynamic");
  ASSERT_TRUE(outer.ok()) << outer.status().ToString();
  int built = 0;
  const auto specialize = [&](const std::string&, const BlobStore&, std::span<const Tensor> inputs,
                              const std::function<bool()>&) -> Result<NestedPlan> {
    ++built;
    return NestedPlan{.plan = UnaryPlan("Neg", inputs[0].shape()), .bound = {false}};
  };
  using Made = Result<std::optional<GeneralPlan>>;
  const Generalizer without_kernel = [](const std::string&, const BlobStore&) -> Made {
    return GeneralOf("BitwiseNot");
  };
  const Generalizer too_large = [](const std::string&, const BlobStore&) -> Made {
    return Limit("it takes more than there is");
  };
  for (const Generalizer& generalize : {without_kernel, too_large}) {
    built = 0;
    auto executor = Executor::Load(
        *outer,
        {.threads = 1, .compiler = Compile, .specialize = specialize, .generalize = generalize});
    ASSERT_TRUE(executor.ok()) << executor.status().ToString();
    const Tensor x(Dtype::kF32, {4});
    const auto y = (*executor)->Run(std::span(&x, 1));
    ASSERT_TRUE(y.ok()) << y.status().ToString();
    EXPECT_EQ(built, 1);
  }
}

// What a library turns out to have no call for, natives go on doing.
TEST(Executor, GeneralPlansTakeWhatHasNoPlanOfItsOwn) {
  const auto outer = StageOf("f32 dynamic");
  ASSERT_TRUE(outer.ok()) << outer.status().ToString();
  int asked = 0;
  const auto specialize = [&](const std::string&, const BlobStore&, std::span<const Tensor>,
                              const std::function<bool()>&) -> Result<NestedPlan> {
    ++asked;
    return Unsupported("no such call");
  };
  const Generalizer generalize = [](const std::string&,
                                    const BlobStore&) -> Result<std::optional<GeneralPlan>> {
    return GeneralOf("Neg");
  };
  auto executor = Executor::Load(
      *outer,
      {.threads = 1, .compiler = Compile, .specialize = specialize, .generalize = generalize});
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  const Tensor x(Dtype::kF32, {4}), wide(Dtype::kF32, {12});
  for (int i = 0; i < 4; ++i) {
    const auto y = (*executor)->Run(std::span(&x, 1));
    ASSERT_TRUE(y.ok()) << y.status().ToString();
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ((*executor)->Run(std::span(&wide, 1)).status().code(), Code::kUnsupported);
}

// The cache may hold the code of any kernel: a plan must not get at it under another nest's key.
TEST(Executor, RefusesAKeyThatBelongsToAnotherNest) {
  Simple b;
  Plan plan = b.Done();
  plan.kernels[0].key[0] ^= 1;
  EXPECT_EQ(Executor::Load(std::move(plan), {.threads = 1, .compiler = Compile}).status().code(),
            Code::kInvalid);
}

TEST(Executor, ZeroExtentsNeedNoMemory) {
  Builder b;
  const BufferId x = b.Add("x", BufferKind::kInput, Dtype::kF32, {0, 3}),
                 y = b.Add("y", BufferKind::kOutput, Dtype::kF32, {0, 3});
  const BufferId w = b.Add("w", BufferKind::kWeight, Dtype::kF32, {0, 3});
  b.Native("Add", {x, w}, y);
  auto executor = b.Load();
  ASSERT_TRUE(executor);
  const void* inputs[] = {nullptr};
  void* outputs[] = {nullptr};
  const Status status = executor->Run(0, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(Executor, TimesEveryStep) {
  Simple b;
  auto executor = b.Load(2);
  alignas(64) float x[kElems] = {}, y[kElems];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  std::vector<StepTime> times;
  ASSERT_TRUE(executor->Run(0, inputs, outputs, nullptr, &times).ok());
  ASSERT_EQ(times.size(), 1u);
  EXPECT_GT(times[0].us, 0);
}

TEST(Executor, CallersTakeTurns) {
  auto executor = Simple().Load(2);
  std::vector<std::thread> callers;
  std::atomic<int> errors = 0;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&, c] {
      const std::vector<Tensor> inputs = {Iota(static_cast<float>(c))};
      for (int i = 0; i < 50; ++i) {
        auto outputs = executor->Run(inputs);
        errors += !outputs.ok() || (*outputs)[0].as<float>()[9] != static_cast<float>(c + 10);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(errors, 0);
}

}  // namespace
}  // namespace weft::executor
