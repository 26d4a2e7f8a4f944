// A specialization on a device: where its memory is, and how its actions reach a stream.
//
// Runs are asynchronous up to the next step of the host, which waits for the stream, and then for
// what it wants to read. What lies between two such steps is a stretch; a stretch that is run a
// second time with the same addresses becomes a CUDA graph, so that a specialization without steps
// of the host is one graph, started by one call.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cache/file_cache.h"
#include "base/tensor.h"
#include "executor/cuda/device.h"
#include "executor/cuda/transfers.h"
#include "executor/executor.h"
#include "fallback/device.h"
#include "plan/kernel_abi.h"
#include "plan/plan.h"

namespace weft::executor::cuda {

// What a plan and those nested in it have in common on a device: one of them runs at a time.
struct Session {
  std::shared_ptr<const Device> device;
  Owned stream;  // for callers without one of their own
  Owned ended;   // recorded after each run: the next one, on whichever stream, waits for it
  std::map<std::string, std::weak_ptr<const Memory>, std::less<>> weights;  // by hash
  std::vector<Memory> arenas;  // by depth of nesting: the largest that a plan there asked for
  // Which way of a library's call is fastest here, by its canonical text.
  std::map<std::string, size_t, std::less<>> fastest;

  static Result<std::shared_ptr<Session>> Open(Isa isa);
  Result<std::shared_ptr<const Memory>> Weight(const plan::Buffer& buffer, const Tensor& bytes);
  Result<Memory> Arena(size_t depth, int64_t bytes);
};

// Where the memory of a run is that is not the run's own.
struct Places {
  Side caller = Side::kHost;
  std::vector<void*> host;  // by buffer: what is copied lies in pinned memory
  std::vector<Address> inputs,
      outputs;        // kDevice: the caller's, in the order of the specialization
  Address arena = 0;  // 0: an own one
  bool operator==(const Places&) const = default;
};

class DeviceRun {
 public:
  // What a specialization is made of; all must outlive the run.
  struct Parts {
    const plan::Plan& plan;
    const plan::Specialization& s;
    std::span<const Function> functions;                     // by the plan's kernels
    std::span<const std::shared_ptr<const Tensor>> weights;  // by buffer, null for what is none
    size_t depth = 0;                                        // of nested plans
    const FileCache* cache = nullptr;                        // for what is measured once
  };
  static Result<std::unique_ptr<DeviceRun>> Prepare(std::shared_ptr<Session> session,
                                                    const Parts& parts);

  // Whether the arena is wanted on the host, too.
  bool uses_host_arena() const { return uses_host_arena_; }
  // Where addresses change, what was captured is forgotten.
  Status Bind(const Places& places);
  // `host_step` does a step of the specialization on the host; with `times`, by step, each action
  // is timed by events and nothing is captured. Does not wait for what comes after the last step of
  // the host. A fault of a kernel stays until TakeFault.
  Status Enqueue(Handle stream, const std::function<Status(size_t)>& host_step,
                 std::vector<StepTime>* times);
  Status EnqueueStep(Handle stream, size_t step);  // of the device, on whatever memory holds
  Status Wait(Handle stream) const;
  // After Wait: the step whose kernel found an index out of its range first, and what it found.
  struct Fault {
    size_t step = 0;
    KernelFault fault;
  };
  std::optional<Fault> TakeFault();

 private:
  // A kernel, or a library's call.
  struct Launch {
    std::vector<Handle> functions;  // of a kernel, one after another
    std::vector<Address> values;    // operands, scratch, and the slot for a fault
    std::vector<void*> arguments;   // pointers to these
    std::unique_ptr<fallback::DeviceCall> call;
    size_t way = 0;  // of the call
  };
  struct Stretch {
    size_t begin = 0, end = 0;  // actions
    bool has_run = false;       // with these addresses
    Owned graph;
  };

  struct Copy {
    size_t buffer = 0;
    Address from = 0;
  };

  DeviceRun(std::shared_ptr<Session> session, const Parts& parts);
  const Device& device() const { return *session_->device; }
  const Driver& driver() const { return device().driver(); }
  Status PrepareLaunches(const Parts& parts);
  Status PrepareCall(size_t step, Launch& launch, const FileCache* cache);
  Status AllocateAll(const Parts& parts);
  Status UploadWeights(const Parts& parts);
  Status CopyOverwritten(const Places& places);
  void FillAddresses();
  void FillLaunches();
  Status EnqueueLaunch(size_t step, Handle stream);
  Status EnqueueCall(size_t step, Launch& launch, Handle stream);
  Status EnqueueAction(const Action& action, Handle stream);
  Status EnqueueAll(const Stretch& stretch, Handle stream);
  Status EnqueueStretch(Stretch& stretch, Handle stream);
  Status EnqueueTimed(const Stretch& stretch, Handle stream, std::vector<StepTime>& times);
  Status Capture(Stretch& stretch);
  std::span<KernelFault> Faults() const;
  bool FoundFault() const;
  Status CopyOutputs(Handle stream);

  std::shared_ptr<Session> session_;
  const plan::Plan& plan_;
  const plan::Specialization& s_;
  size_t depth_;
  bool uses_host_arena_;
  std::vector<Action> actions_;  // for the caller's side of `places_`
  std::vector<Stretch> stretches_;
  std::vector<size_t> device_steps_;  // in their order
  std::vector<Launch> launches_;      // by device step, each with a slot for faults
  std::vector<size_t> slots_;         // by step, of those of the device
  std::vector<std::shared_ptr<const Memory>> weights_;  // by buffer
  std::vector<Memory> staged_;  // by buffer: inputs and outputs of a caller on the host, inputs
                                // that an output of one on the device would overwrite
  std::vector<Copy> before_;    // of such inputs to there, before each run
  Memory arena_, scratch_, nothing_;
  Bytes faults_;  // by device step, pinned: kernels write where the host reads, no run copies them
  std::optional<Places> places_;
  std::vector<Address> address_;  // by buffer
};

}  // namespace weft::executor::cuda
