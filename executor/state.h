// What an Executor holds: a plan with everything looked up.
//
// Loading turns each specialization into a list of steps over one flat table of operand addresses.
// Binding fills the table from the addresses of inputs, outputs and arena, and is skipped when they
// are those of the run before: such a run costs its kernels, a barrier each, and entering the team.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/threads/team.h"
#include "executor/cuda/device_run.h"
#include "executor/executor.h"
#include "executor/kernel_loader.h"
#include "executor/memory.h"
#include "fallback/execute.h"
#include "plan/kernel_abi.h"

namespace weft::executor {

// A kernel or call, ready to run, or neither: a native with dynamic results, or a nested plan.
// Views are not steps any more.
struct ReadyStep {
  size_t step = 0;                            // in the specialization
  KernelFunction function = nullptr;          // own
  fallback::PreparedCall* call = nullptr;     // vendor, native
  double alone_us = 0;                        // what one thread takes, at least
  size_t first = 0, inputs = 0, outputs = 0;  // its place in the table of operands
  KernelArgs args{};
  KernelFault fault{};  // a slot of its own, so that a fault names its kernel
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

using Clock = std::chrono::steady_clock;

inline double MicrosecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// A graph of a step, and the plans that were built from it.
struct NestedGraph {
  // The operands that a plan is for.
  struct Operands {
    std::vector<Shape> shapes;   // of all inputs
    std::vector<Tensor> values;  // by input, of those that are bound; others empty
    std::vector<bool> bound;
  };
  struct Built {
    Operands takes;
    std::unique_ptr<Executor> executor;
    std::shared_future<Result<plan::Plan>> better;  // NestedPlan's, until it has taken over
    std::shared_ptr<const void> wants_better;       // the same
  };
  // For which the general plan ran.
  struct Met {
    Operands takes;
    double us = 0;             // that it took for them
    bool has_no_plan = false;  // of its own: it was tried
  };
  // Of rows that a loop without trips never made.
  struct None {
    Operands takes;
    std::vector<Shape> shapes;
  };
  std::list<Built> built;  // the one that ran last comes first
  std::list<Met> met;      // likewise
  std::list<None> none;    // likewise
  std::unique_ptr<Executor> general;
  std::function<bool(std::span<const Shape>)> general_takes;
  bool has_asked = false;  // for the general plan
  bool is_body = false;    // of a loop
  double build_us = 1e4;   // what the last plan took to build, or one is expected to
};

struct Specialized {
  std::vector<std::vector<NestedGraph>> nested;  // by step
  std::vector<Tensor> made;  // by buffer: those held, weights apart, while they live
  std::vector<std::unique_ptr<fallback::PreparedCall>> calls;
  std::vector<std::shared_ptr<const Tensor>> weights;  // by buffer; null for what is no weight
  std::vector<ReadyStep> steps;
  std::unique_ptr<cuda::DeviceRun> on_device;  // of a plan for one
  std::vector<plan::BufferId> operand_of;      // the table of operands: which buffer,
  std::vector<void*> operands;                 // and where it is
  std::vector<void*> address;                  // by buffer
  std::vector<size_t> align;  // by buffer: what its steps need of the caller's memory
  std::vector<Bytes> staged;  // by buffer: an aligned copy of the caller's
  std::vector<Bytes> own;     // inputs and outputs for RunStep
  // What the tables were filled from; nothing before the first run.
  bool is_bound = false;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* arena = nullptr;
  std::vector<Copy> before, after;  // of a run
};

// The tensor of a buffer that IsHeld.
inline const Tensor& Held(const plan::Specialization& s, const Specialized& ready,
                          plan::BufferId id) {
  const bool is_weight = s.buffers[id.index].kind == plan::BufferKind::kWeight;
  return is_weight ? *ready.weights[id.index] : ready.made[id.index];
}

// A tensor of the same elements that shares them with nobody; texts are held by each anyway.
Result<Tensor> Copied(const Tensor& tensor);

// Forgets a cancel when a run ends, not when it begins: one that comes just before is not lost.
struct ForgetCancel {
  int32_t* flag;  // may be null
  ~ForgetCancel() {
    if (flag) __atomic_store_n(flag, 0, __ATOMIC_RELAXED);
  }
};

// What a plan and those nested in it have in common: one of them runs at a time, and plans for
// other shapes of one graph have most of their weights in common.
struct Shared {
  std::shared_ptr<Team> team;
  int32_t cancel = 0;                                                       // read by kernels
  std::map<std::string, std::weak_ptr<const Tensor>, std::less<>> weights;  // by hash, aligned
  struct Arena {
    Bytes memory;
    int64_t bytes = 0;
  };
  std::vector<Arena> arenas;              // by depth: the largest that a plan there asked for
  std::shared_ptr<cuda::Session> device;  // once a plan is for one
};

struct Executor::State {
  plan::Plan plan;
  uint32_t threads = 1;
  std::shared_ptr<Shared> shared;
  LoadOptions options;             // for nested plans
  std::optional<FileCache> cache;  // that of the options: the caller's may be gone by then
  size_t depth = 0;                // of nested plans
  int64_t left_bytes = INT64_MAX;  // of LoadOptions::max_bytes, beside what this plan needs
  std::vector<std::unique_ptr<LoadedKernel>> kernels;  // CPU
  std::vector<cuda::Function> functions;               // CUDA
  bool uses_device = false;                            // for kernels or for calls
  std::vector<Specialized> specialized;
  Bytes arena, rank_scratch, team_scratch, call_scratch;
  int64_t rank_scratch_bytes = 0;
  std::mutex mutex;  // one run at a time: arena and scratch are shared

  // prepare.cpp
  Status CheckMemory(int64_t allowed);
  Status Prepare(const LoadOptions& options);
  Status PrepareSpecialization(const plan::Specialization& s, Specialized& ready);
  Status PrepareWeights(const plan::Specialization& s, Specialized& ready);
  Result<std::shared_ptr<const Tensor>> Weight(const plan::Buffer& buffer);
  Status PrepareArena();
  // Of the host; where a device copies to and from it, pinned.
  Result<Bytes> AllocateHost(int64_t bytes, const char* what) const;
  Status PrepareStep(const plan::Specialization& s, size_t at, Specialized& ready);
  Result<std::unique_ptr<fallback::PreparedCall>> PrepareCall(const plan::Specialization& s,
                                                              const plan::Step& step,
                                                              const Specialized& ready);
  // on_device.cpp
  Status PrepareDevice(const LoadOptions& options);
  Status BindOnDevice(const plan::Specialization& s, Specialized& ready,
                      std::span<const uint64_t> inputs, std::span<const uint64_t> outputs,
                      uint64_t given_arena);
  Status CheckCancel() const;
  Status RunOnDevice(const plan::Specialization& s, Specialized& ready,
                     std::vector<StepTime>* times);
  Status EnqueueOnDevice(const plan::Specialization& s, Specialized& ready, cuda::Handle stream,
                         std::vector<StepTime>* times);
  Status RunStepOnDevice(const plan::Specialization& s, size_t step, Specialized& ready);
  Status FaultOnDevice(const plan::Specialization& s, Specialized& ready);
  // bind.cpp
  Status Bind(size_t specialization, std::span<const void* const> inputs,
              std::span<void* const> outputs, void* given_arena);
  Result<void*> Stage(Specialized& ready, plan::BufferId id, int64_t bytes) const;
  Status BindInputs(const plan::Specialization& s, Specialized& ready);
  Status BindOutputs(const plan::Specialization& s, Specialized& ready);
  void FillTables(const plan::Specialization& s, Specialized& ready);
  // run.cpp
  Status RunSteps(const plan::Specialization& s, std::span<ReadyStep> steps, Specialized& ready,
                  std::vector<StepTime>* times);
  void RunOwn(std::span<ReadyStep> steps, StepTime* times);
  Status RunCall(const ReadyStep& step, const Specialized& ready);
  Status RunOther(const plan::Specialization& s, const ReadyStep& step, Specialized& ready);
  // control.cpp
  int64_t LeftBytes(const Specialized& ready) const;
  Status RunOpen(const plan::Specialization& s, size_t step, Specialized& ready);
  Status RunNested(const plan::Specialization& s, size_t step, Specialized& ready);
  void Replace(NestedGraph::Built& built);
  NestedGraph::Built* Known(NestedGraph& graph, std::span<const Tensor> inputs);
  Result<NestedGraph::Built*> Build(NestedGraph& graph, const std::string& text,
                                    std::span<const Tensor> inputs);
  Result<NestedGraph::Met*> Meet(NestedGraph& graph, std::span<const Tensor> inputs) const;
  void Generalize(NestedGraph& graph, const std::string& text);
  Result<std::optional<std::vector<Tensor>>> CallGeneral(NestedGraph& graph,
                                                         const std::string& text,
                                                         std::span<const Tensor> inputs);
  Result<std::vector<Tensor>> Call(NestedGraph& graph, const std::string& text,
                                   std::span<const Tensor> inputs);
  Result<std::vector<Shape>> OfNone(NestedGraph& graph, const std::string& text,
                                    std::span<const Tensor> inputs);
  Result<std::vector<Tensor>> Repeat(const plan::Specialization& s, const plan::Step& step,
                                     NestedGraph& graph, std::span<const Tensor> inputs,
                                     int64_t left);
  Status Fault(const plan::Specialization& s, const ReadyStep& step) const;
};

}  // namespace weft::executor
