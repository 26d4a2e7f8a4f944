// Plans on a device: kernels there, the rest on the host, operands of a caller on either side.
// Skipped, with the reason, where there is no device.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "codegen/cuda/nvrtc.h"
#include "driver/accuracy.h"
#include "driver/build.h"
#include "driver/inputs.h"
#include "driver/pipeline.h"
#include "driver/reference.h"
#include "executor/bound_run.h"
#include "executor/cuda/device.h"
#include "executor/cuda/transfers.h"
#include "tests/cuda/device.h"

namespace weft::cuda_test {
namespace {

using executor::Executor;
using executor::cuda::Memory;
using executor::cuda::Owned;
using executor::cuda::Scope;
using plan::StepKind;

// Kernels only: tiles, rows and a grid, a value that is an output and read on.
constexpr const char* kKernels = R"(graph g (x: f32[1, 8, 12, 12], w: f32[8, 10],
    a: f32[16, 8, 3, 3]) -> (y, d) {
  c = Conv(x, a) {pads = [1, 1, 1, 1]}
  d = Relu(c)
  p = GlobalAveragePool(d)
  s: i64[2] = const(8, -1)
  r = Reshape(p, s)
  t = Transpose(r) {perm = [1, 0]}
  q = Softmax(t) {axis = 1}
  y = MatMul(q, w)
})";

// TopK runs on the host, between kernels; its results are read there and here, and one is an
// output.
constexpr const char* kMixed = R"(graph g (x: f32[6, 40], b: f32[6, 5]) -> (y, i, z, x_too) {
  e = Exp(x)
  k: i64[1] = const(5)
  v, i = TopK(e, k)
  m = Sub(v, b)
  v2, i2 = TopK(m, k)
  n = Mul(v2, m)
  y = Softmax(n)
  z = Neg(v)
  x_too = Identity(x)
})";

// An output in the place of x spoils what both are made of.
constexpr const char* kPassesOn = R"(graph g (x: f32[64, 9]) -> (y, x_too) {
  y = Transpose(x) {perm = [1, 0]}
  x_too = Identity(x)
})";

// `i` may point anywhere.
constexpr const char* kGather = R"(graph g (x: f32[5, 7], i: i64[3]) -> (y) {
  r = Relu(x)
  y = Gather(r, i)
})";

class CudaGpuPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = Device::Open();
    if (!device.ok()) GTEST_SKIP() << device.status().ToString();
    options_.target = (*device)->target();
    options_.partition.vendor = false;
  }

  void Open(const char* text) {
    auto graph = graph::ParseGraph(text, "test.graph", BlobStore());
    ASSERT_TRUE(graph.ok()) << graph.status().ToString();
    auto module = driver::OpenGraph(*std::move(graph), options_);
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    const Status planned = driver::Advance(*module, driver::Form::kPlan, options_);
    ASSERT_TRUE(planned.ok()) << planned.ToString();
    module_ = *std::move(module);
    auto executor = driver::MakeExecutor(module_.plan, options_, 1);
    ASSERT_TRUE(executor.ok()) << executor.status().ToString();
    executor_ = *std::move(executor);
    ASSERT_NE(executor_->device(0), nullptr);
  }
  std::vector<Tensor> Inputs(uint64_t seed) const {
    return *driver::GenerateInputs(module_.graph, seed);
  }
  void ExpectRight(std::span<const Tensor> inputs, std::span<const Tensor> outputs) const {
    const auto reference = driver::RunReference(module_.graph, inputs);
    ASSERT_TRUE(reference.ok()) << reference.status().ToString();
    const auto accuracy = driver::CompareOutputs(outputs, *reference, {1e-5});
    EXPECT_TRUE(accuracy.within) << accuracy.max_rel;
  }
  void ExpectRuns(uint64_t seed) {
    const auto inputs = Inputs(seed);
    const auto outputs = executor_->Run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
    ExpectRight(inputs, *outputs);
  }

  // Operands of one run in the device's memory.
  struct Operands {
    std::vector<Tensor> inputs;
    std::vector<Memory> in, out;
    std::vector<uint64_t> in_at, out_at;
  };
  Operands OnDevice(uint64_t seed) const {
    const auto device = executor_->device(0);
    const Scope scope(*device);
    Operands o{.inputs = Inputs(seed)};
    for (const Tensor& t : o.inputs) {
      o.in.push_back(*device->Upload(t.data(), t.bytes(), "input"));
      o.in_at.push_back(o.in.back().at());
    }
    const plan::Specialization& s = executor_->plan().specializations[0];
    for (const plan::BufferId id : s.outputs) {
      o.out.push_back(*device->Allocate(s.buffers[id.index].bytes, "output"));
      o.out_at.push_back(o.out.back().at());
    }
    return o;
  }
  void ExpectRight(const Operands& o) const {
    const auto device = executor_->device(0);
    const Scope scope(*device);
    const plan::Specialization& s = executor_->plan().specializations[0];
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < s.outputs.size(); ++i) {
      const plan::Buffer& b = s.buffers[s.outputs[i].index];
      outputs.emplace_back(b.dtype, b.shape);
      ASSERT_TRUE(device->Download(outputs.back().mutable_data(), o.out[i]).ok());
    }
    ExpectRight(o.inputs, outputs);
  }

  driver::BuildOptions options_;
  driver::Module module_;
  std::unique_ptr<Executor> executor_;
};

// The first run enqueues its actions, the second makes a graph of them, the third starts it.
TEST_F(CudaGpuPlan, RunsAgainWithOtherInputs) {
  for (const char* text : {kKernels, kMixed}) {
    Open(text);
    for (uint64_t seed = 1; seed <= 4; ++seed) ExpectRuns(seed);
  }
}

TEST_F(CudaGpuPlan, TakesOperandsOnTheDevice) {
  for (const char* text : {kKernels, kMixed}) {
    Open(text);
    const Operands one = OnDevice(1), two = OnDevice(2);
    for (int round = 0; round < 3; ++round)
      for (const Operands* o : {&one, &two, &two}) {
        ASSERT_TRUE(executor_->Enqueue(0, o->in_at, o->out_at).ok());
        ASSERT_TRUE(executor_->Wait(0).ok());
        ExpectRight(*o);
      }
    ExpectRuns(3);  // and on the host in turn
    ASSERT_TRUE(executor_->Enqueue(0, one.in_at, one.out_at).ok());
    ASSERT_TRUE(executor_->Wait(0).ok());
    ExpectRight(one);
  }
}

// Two streams share the arena: their runs follow each other without the caller's doing.
TEST_F(CudaGpuPlan, RunsOnTwoStreamsAtOnce) {
  Open(kKernels);
  const auto device = executor_->device(0);
  std::array<Owned, 2> streams;
  std::vector<Operands> operands;
  {
    const Scope scope(*device);
    for (Owned& stream : streams) stream = *device->NewStream();
  }
  for (uint64_t seed = 1; seed <= 6; ++seed) operands.push_back(OnDevice(seed));
  for (size_t i = 0; i < operands.size(); ++i)
    ASSERT_TRUE(executor_
                    ->Enqueue(0, operands[i].in_at, operands[i].out_at, 0,
                              streams[i % streams.size()].get())
                    .ok());
  // The later stream first: it must bring the other's with it.
  for (size_t i = streams.size(); i-- > 0;) ASSERT_TRUE(executor_->Wait(0, streams[i].get()).ok());
  for (const Operands& o : operands) ExpectRight(o);
}

TEST_F(CudaGpuPlan, TakesTheCallersArena) {
  Open(kKernels);
  const auto device = executor_->device(0);
  Memory arena;
  {
    const Scope scope(*device);
    arena = *device->Allocate(executor_->plan().specializations[0].arena_bytes, "arena");
  }
  const Operands o = OnDevice(1);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(executor_->Enqueue(0, o.in_at, o.out_at, arena.at()).ok());
    ASSERT_TRUE(executor_->Wait(0).ok());
    ExpectRight(o);
  }
  EXPECT_EQ(executor_->Enqueue(0, o.in_at, o.out_at, arena.at() + 4).code(), Code::kUsage);
}

// As on the host: what an output would overwrite is copied first.
TEST_F(CudaGpuPlan, TakesOutputsInThePlaceOfInputs) {
  Open(kPassesOn);
  const auto device = executor_->device(0);
  Operands o = OnDevice(1);
  const Operands apart = OnDevice(2);
  o.in_at[0] = o.out_at[0];
  for (int round = 0; round < 3; ++round) {
    {
      const Scope scope(*device);
      const Owned stream = *device->NewStream();
      const auto& driver = device->driver();
      ASSERT_EQ(driver.to_device(o.in_at[0], o.inputs[0].data(),
                                 static_cast<size_t>(o.inputs[0].bytes()), stream.get()),
                0);
      ASSERT_EQ(driver.wait_for_stream(stream.get()), 0);
    }
    ASSERT_TRUE(executor_->Enqueue(0, o.in_at, o.out_at).ok());
    ASSERT_TRUE(executor_->Wait(0).ok());
    ExpectRight(o);
    ASSERT_TRUE(executor_->Enqueue(0, apart.in_at, apart.out_at).ok());
    ASSERT_TRUE(executor_->Wait(0).ok());
    ExpectRight(apart);
  }
}

TEST_F(CudaGpuPlan, RefusesWhatIsNoOperand) {
  Open(kKernels);
  const Operands o = OnDevice(1);
  const auto code = [&](std::vector<uint64_t> in, std::vector<uint64_t> out, size_t s = 0) {
    return executor_->Enqueue(s, in, out).code();
  };
  EXPECT_EQ(code({o.in_at[0]}, o.out_at), Code::kUsage);
  EXPECT_EQ(code(o.in_at, {}), Code::kUsage);
  EXPECT_EQ(code(o.in_at, o.out_at, 1), Code::kUsage);
  EXPECT_EQ(code({o.in_at[0] + 4, o.in_at[1], o.in_at[2]}, o.out_at), Code::kUsage);
  EXPECT_EQ(code({0, o.in_at[1], o.in_at[2]}, o.out_at), Code::kUsage);
  EXPECT_EQ(code(o.in_at, {o.out_at[1], o.out_at[1]}), Code::kUsage);
  EXPECT_EQ(code(o.in_at, {o.out_at[1] + 16, o.out_at[1]}), Code::kUsage);
}

TEST_F(CudaGpuPlan, AFaultNamesItsKernelAndIsOver) {
  Open(kGather);
  Tensor x(Dtype::kF32, {5, 7}), i(Dtype::kI64, {3});
  const auto run = [&](int64_t index) {
    i.mutable_as<int64_t>()[1] = index;
    const std::vector<Tensor> inputs = {x, i};
    return executor_->Run(inputs).status();
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(run(4).ok());
    const Status status = run(5);
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_NE(status.what().find("index 5 is outside"), std::string::npos) << status.ToString();
    EXPECT_TRUE(run(-5).ok());
  }
}

TEST_F(CudaGpuPlan, ACancelledRunIsOver) {
  Open(kMixed);
  executor_->Cancel();
  EXPECT_EQ(executor_->Run(Inputs(1)).status().code(), Code::kInterrupted);
  ExpectRuns(1);
}

// With a step of the host, and with none.
TEST_F(CudaGpuPlan, ACancelEndsWhatIsEnqueuedAndNoMore) {
  for (const char* text : {kKernels, kMixed}) {
    Open(text);
    const Operands o = OnDevice(1);
    for (int round = 0; round < 3; ++round) {
      executor_->Cancel();
      EXPECT_EQ(executor_->Enqueue(0, o.in_at, o.out_at).code(), Code::kInterrupted);
      ASSERT_TRUE(executor_->Enqueue(0, o.in_at, o.out_at).ok());
      ASSERT_TRUE(executor_->Wait(0).ok());
      ExpectRight(o);
    }
  }
}

TEST_F(CudaGpuPlan, RunsLeaveNoMemoryBehind) {
  Open(kMixed);
  const Operands o = OnDevice(1);
  const auto bytes_after = [&](int runs) {
    for (int i = 0; i < runs; ++i)
      EXPECT_TRUE(executor_->Enqueue(0, o.in_at, o.out_at).ok() && executor_->Wait(0).ok());
    return ::mallinfo2().uordblks;
  };
  const size_t before = bytes_after(8);
  EXPECT_LE(bytes_after(300), before + 4096);
}

TEST_F(CudaGpuPlan, StepsAreTimed) {
  Open(kMixed);
  const auto inputs = Inputs(1);
  auto run = executor::BoundRun::Open(*executor_, 0, inputs);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  for (int round = 0; round < 3; ++round) {
    std::vector<executor::StepTime> times;
    ASSERT_TRUE((**run)(round == 1 ? &times : nullptr).ok());
    const auto outputs = (*run)->Outputs();
    ASSERT_TRUE(outputs.ok());
    ExpectRight(inputs, *outputs);
    const auto& steps = executor_->plan().specializations[0].steps;
    for (size_t k = 0; k < times.size(); ++k)
      EXPECT_EQ(times[k].us > 0, steps[k].kind != StepKind::kView) << steps[k].name;
    for (size_t k = 0; k < steps.size(); ++k) EXPECT_TRUE(executor_->RunStep(0, k).ok());
  }
}

// What is copied, and when, is decided by the plan alone.
TEST(CudaTransfers, CopyWhatTheOtherSideWroteLast) {
  using executor::cuda::Action;
  using executor::cuda::Side;
  plan::Specialization s;
  const auto buffer = [&](const char* name, plan::BufferKind kind, int64_t bytes = 64) {
    s.buffers.push_back({.name = name, .kind = kind, .bytes = bytes});
    return plan::BufferId(s.buffers.size() - 1);
  };
  const auto step = [&](StepKind kind, std::vector<plan::BufferId> in,
                        std::vector<plan::BufferId> out) {
    s.steps.push_back({.kind = kind, .inputs = std::move(in), .outputs = std::move(out)});
  };
  using enum plan::BufferKind;
  const auto x = buffer("x", kInput), w = buffer("w", kWeight), a = buffer("a", kArena),
             b = buffer("b", kArena), c = buffer("c", kAlias), y = buffer("y", kOutput),
             z = buffer("z", kOutput), none = buffer("none", kArena, 0);
  s.buffers[c.index].alias = a;
  s.inputs = {x};
  s.outputs = {y, z, x};
  step(StepKind::kOwn, {x, w}, {a, none});
  step(StepKind::kView, {a}, {c});
  step(StepKind::kNative, {c, w, none}, {b});
  step(StepKind::kNative, {a, {}}, {z});
  step(StepKind::kOwn, {c, b}, {y});
  const auto text = [&](Side caller) {
    std::string all;
    for (const Action& action : executor::cuda::ActionsOf(s, caller)) {
      using enum Action::Kind;
      const bool is_copy = action.kind == kToDevice || action.kind == kToHost;
      all += action.kind == kToDevice || action.kind == kLaunch ? " +" : " -";
      all += is_copy ? s.buffers[action.buffer.index].name : std::to_string(action.step);
    }
    return all;
  };
  EXPECT_EQ(text(Side::kHost), " +x +0 -a -2 -3 +b +4 -y");
  EXPECT_EQ(text(Side::kDevice), " +0 -a -2 -3 +b +4 +z");
  // A step that writes into what the other side has begun keeps that.
  step(StepKind::kNative, {x}, {y});
  EXPECT_EQ(text(Side::kHost), " +x +0 -a -2 -3 +b +4 -y -5");
}

}  // namespace
}  // namespace weft::cuda_test
