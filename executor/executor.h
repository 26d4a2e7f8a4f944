// Runs a Plan. Links neither isl, LLVM nor protobuf.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cache/file_cache.h"
#include "base/status.h"
#include "base/tensor.h"
#include "plan/plan.h"

namespace weft::executor {

namespace cuda {
class Device;
}

// Compiles a kernel whose machine code isn't in the cache and returns a shared object. A runtime
// without a compiler passes none: then the missing kernel is named and loading fails.
using Compiler = std::function<Result<std::vector<uint8_t>>(const plan::Kernel&, const Target&)>;

// Builds a plan from the text of a graph (plan.h, Nested) for operands of these shapes; its big
// constants lie among `blobs`. An input is bound to its value where the extents of others depend on
// it: such are no inputs of the plan.
struct NestedPlan {
  plan::Plan plan;
  std::vector<bool> bound;  // by input
  // Takes over once it is there, if it could be built; may be invalid.
  std::shared_future<Result<plan::Plan>> better;
  std::shared_ptr<const void> wants_better;  // held while it is wanted; may be null
};
// is_cancelled: whether the run that waits for the plan was cancelled; asked now and then.
using Specializer = std::function<Result<NestedPlan>(
    const std::string& graph, const BlobStore& blobs, std::span<const Tensor> inputs,
    const std::function<bool()>& is_cancelled)>;

// The shapes of a graph's results if, with such operands, they are never made: as of a loop without
// trips, whose body may be none for them. Extents that nobody knows are 0.
struct NestedShapes {
  std::vector<Shape> outputs;
  std::vector<bool> bound;  // as those of a NestedPlan
};
using ShapesOfNone = std::function<Result<NestedShapes>(
    const std::string& graph, const BlobStore& blobs, std::span<const Tensor> inputs)>;

// The plan of a graph for operands of any extents, whose inputs and outputs are all dynamic: it
// runs at once where no plan was built for those of a run.
struct GeneralPlan {
  plan::Plan plan;
  // Whether operands of these shapes are what the graph declares; who builds for others says why
  // not.
  std::function<bool(std::span<const Shape>)> takes;
};
// None where the graph has no such plan.
using Generalizer = std::function<Result<std::optional<GeneralPlan>>(const std::string& graph,
                                                                     const BlobStore& blobs)>;

struct LoadOptions {
  uint32_t threads = 0;              // 0: what the machine allows
  const FileCache* cache = nullptr;  // where machine code is; null: compile everything
  Compiler compiler;
  // Without one, a plan whose parts depend on data is refused.
  Specializer specialize;
  // The same goes for loops.
  ShapesOfNone shapes_of_none;
  // With one, operands of extents that are met for the first time are for the general plan; those
  // met again have a plan built.
  Generalizer generalize;
  // That a run may take, nested plans and results that are as large as a run makes them included;
  // what needs more fails as kLimit. 0: any number.
  int64_t max_bytes = 0;
};

// Inputs of open extents or of strings that are given, and outputs that the run makes: a tensor for
// each input and output of the plan, empty for those that have a place of the caller's.
struct OpenOperands {
  std::vector<Tensor> inputs, outputs;
};

struct StepTime {
  double us = 0;
};

class Executor {
 public:
  static Result<std::unique_ptr<Executor>> Load(plan::Plan plan, const LoadOptions& options);
  ~Executor();

  const plan::Plan& plan() const;
  uint32_t threads() const;
  // Which specialization takes these input shapes, the first of several; an error lists those there
  // are.
  Result<size_t> Select(const std::vector<Shape>& input_shapes) const;

  // Inputs and outputs in the model's order, plain layout. Copies nothing that it need not.
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs);
  // Into the caller's memory: buffers of the byte counts that the plan says, element aligned;
  // `arena` of arena_bytes (64-byte aligned) or null for the executor's own. times: one per step,
  // if not null. With the pointers of the run before, nothing is looked up again. Runs of one
  // executor take turns. Operands that plan::IsHeld are no buffers of the caller: they need `open`.
  Status Run(size_t specialization, std::span<const void* const> inputs,
             std::span<void* const> outputs, void* arena = nullptr,
             std::vector<StepTime>* times = nullptr, OpenOperands* open = nullptr);
  // That it runs on, with what is no kernel on the host; null for one that runs on the host alone.
  std::shared_ptr<const cuda::Device> device(size_t specialization) const;
  // For a specialization that does: as Run, but inputs, outputs and arena are addresses in the
  // device's memory, 16-byte aligned, the arena 64-byte (0 for the executor's own), on a stream of
  // the caller's (a CUstream; null for the executor's own). Returns once everything is enqueued: it
  // only waits where a step runs on the host. Runs of one executor end in the order of these calls,
  // whatever their streams. kUnsupported with operands that plan::IsHeld.
  Status Enqueue(size_t specialization, std::span<const uint64_t> inputs,
                 std::span<const uint64_t> outputs, uint64_t arena = 0, void* stream = nullptr,
                 std::vector<StepTime>* times = nullptr);
  // Waits for a stream, and says what kernels of the runs enqueued so far found wrong.
  Status Wait(size_t specialization, void* stream = nullptr);
  // Runs one step alone on whatever the arena holds: for measuring.
  Status RunStep(size_t specialization, size_t step);
  // Ends the run that is going on at its next poll, or else the next one, from any thread or a
  // signal handler.
  void Cancel();

 private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  // outer: the run that it is part of, whose team and cancel flag it shares; may be null.
  static Result<std::unique_ptr<Executor>> Load(plan::Plan plan, const LoadOptions& options,
                                                const State* outer);
  std::unique_ptr<State> state_;
};

}  // namespace weft::executor
