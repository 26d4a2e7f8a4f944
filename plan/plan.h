// Plan: everything an executor needs to run a network, as data. The last noun.
//
// A plan holds one specialization per set of input shapes it was built for; each is a list of steps
// over one arena. Kernels are LoopNest text plus the key of their machine code in the user's cache:
// a plan file holds no native code. Weights lie apart from the arena, each in the layout its
// consumers want.
//
// Text form (`.plan`, what `inspect` prints):
//
//   plan digits for cpu:x86-64-v4 threads=2 {
//     kernel conv1_relu1 key "6f2c…" rank_scratch 0 team_scratch 0 loops blob(9a01…, 1234 bytes)
//     specialization (image) -> (digit) arena 62720 {
//       buffer image: f32[1, 1, 28, 28] input live 0:0
//       buffer w1: f32[16, 1, 3, 3] layout "bcda" weight blob(3f9a…, 576 bytes) live 0:0
//       buffer t0: f32[1, 16, 28, 28] arena at 0 live 0:2
//       buffer t1: f32[1, 3136] alias of t0 live 1:2
//       step own conv1_relu1 kernel conv1_relu1 (image, w1, b1) -> (t0) us 18.2 estimated flops
//       238336
//           bytes 66496 nodes ("/conv1/Conv")
//       step view flat (t0) -> (t1) us 0.0 estimated nodes ("/Flatten")
//       step vendor fc1 (t1, fc1_w, fc1_b) -> (digit) us 4.1 measured nodes ("/fc1/Gemm")
//         call onednn.matmul(…) -> (…) {…}
//     } }
//
// What is decided when it runs (graph/stages.h): a native step may write buffers that are as large
// as it makes them, and nested plans read such:
//
//       buffer found: i64 dynamic live 2:3
//       step plan rest (t1, found) -> (digit) us 0.0 estimated nodes ("/Gather")
//         stage blob(77c0…, 532 bytes)
//
// The blob is the text of a graph, from which a plan is built for the shapes that its inputs have.
// A `branch` has two, the one to take if its first operand is true first; `repeat states 2` has one
// that takes (iteration, condition, state…, more…) and gives (condition, state…, row…).
//
// A kernel for CUDA says how it is started instead of its scratch on a CPU:
//
//     kernel relu_51d0 key "77ab…" grid [13, 1, 1] block [256, 1, 1] shared 0 scratch 0 loops
//     blob(…)
//
// More launches follow it as `then grid [2, 1, 1] …`, and scratch of all of them as `of_grid 4800`.
//
// Verify(): (1) ids and names, CUDA launches within what devices take, and symbols that C can
// spell; (2) every buffer that a step reads was written by an earlier step or is an input or
// weight; (3) arena buffers lie inside the arena, 64-byte aligned, and two that are live at once do
// not overlap unless one is an alias of the other; (4) byte sizes equal layout and shape; (5)
// operand counts, types, shapes and layouts agree with the kernel's nest and the call; (6) outputs
// are all produced; (7) extents come from the extent table when they aren't constant; (8) graphs of
// nested plans verify, and take and give what their steps have for them; (9) tensors of their own
// (IsHeld) are inputs or weights, or written by native and nested steps, and read by such.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/blob.h"
#include "base/dtype.h"
#include "base/id.h"
#include "base/layout.h"
#include "base/status.h"
#include "base/target.h"
#include "fallback/call.h"

namespace weft::plan {

using BufferId = Id<struct PlanBufferTag>;
using KernelId = Id<struct PlanKernelTag>;

// How a CUDA kernel is started. Extents along x, y, z: of the grid in blocks, of a block in
// threads.
struct CudaLaunch {
  std::array<int64_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  int64_t shared_bytes = 0;   // static, of a block: its machine code asks for them itself
  int64_t scratch_bytes = 0;  // of a block, in global memory: the kernel gets this times its blocks
  int64_t grid_bytes = 0;     // and this before, for all blocks of all launches
  // Launches that follow, each of its own function, NAME_1, NAME_2, …; these have no `then`.
  std::vector<CudaLaunch> then;
  bool operator==(const CudaLaunch&) const = default;
  // Of this and of what follows.
  std::vector<const CudaLaunch*> All() const;
};
std::string LaunchSymbol(std::string_view kernel, size_t launch);
// An error of code kLimit that says which extent no device of compute capability 8.0 to 10.0 takes.
Status CheckLaunch(const CudaLaunch& launch);
// What C can spell: letters, digits and underscores.
bool IsSymbol(std::string_view name);

// A compiled kernel as data. `loops` is the nest's text: what to compile again when the cache
// misses, what the interpreter runs, what `inspect` shows.
struct Kernel {
  std::string name;  // the nest's, and the symbol in the machine code
  std::string loops;
  std::string key;  // hex; names the machine code in the cache
  int64_t rank_scratch_bytes = 0, team_scratch_bytes = 0;  // CPU
  std::optional<CudaLaunch> launch;                        // CUDA, and there always
};

// kArena: planned; kBounded: planned at the maximum of its extents; kDynamic: given or made when
// run, with a shape that is not known before (`shape` is empty, whatever its rank will be).
// Strings have no size: one that is neither given nor asked for nor a weight is dynamic.
enum class BufferKind : uint8_t { kInput, kOutput, kWeight, kArena, kBounded, kDynamic, kAlias };

struct Buffer {
  std::string name;  // the graph value's, made unique if it is stored in several layouts
  Dtype dtype = Dtype::kF32;
  Shape shape;  // an extent -1-k is entry k of the extent table
  Layout layout;
  BufferKind kind = BufferKind::kArena;
  int64_t offset = 0;                     // kArena, kBounded: in the arena, in bytes
  int64_t bytes = 0;                      // layout padding included; 0 if it is held
  int32_t first_step = 0, last_step = 0;  // both included
  std::string blob;                       // kWeight: hex hash of the bytes in this layout
  BufferId alias;                         // kAlias: same memory as this buffer
};

// Whether it is a tensor of its own while a plan runs, not bytes at an address.
inline bool IsHeld(const Buffer& b) {
  return b.kind == BufferKind::kDynamic || b.dtype == Dtype::kString;
}

enum class StepKind : uint8_t { kOwn, kVendor, kNative, kView, kPlan };
std::string_view StepKindName(StepKind kind);  // "own", …

// kStage: once; kBranch: one of two; kRepeat: as often as a trip count and a condition say.
enum class Control : uint8_t { kStage, kBranch, kRepeat };

// What a step of kind kPlan does.
struct Nested {
  Control control = Control::kStage;
  int64_t states = 0;  // kRepeat: carried from trip to trip
  // Texts, whose constants are among the plan's blobs. Steps that do the same share them: a file is
  // to cost no more than it is long.
  std::vector<std::shared_ptr<const std::string>> graphs;
};

struct Step {
  StepKind kind = StepKind::kOwn;
  std::string name;            // of the group
  KernelId kernel;             // kOwn
  fallback::LibraryCall call;  // kVendor, kNative; operand values are buffer names
  Nested nested;               // kPlan
  std::vector<BufferId> inputs, outputs;
  std::vector<std::string> params;  // kOwn: extent table entries by name, in the kernel's order
  double us = 0;
  bool measured = false;
  // What it does at least: operations of its nodes as they are defined, and its operands, each read
  // or written once. Both 0 for a view, and where sizes are only known when it runs.
  int64_t flops = 0, bytes = 0;
  std::vector<std::string> nodes;  // ONNX nodes it stands for
};

struct Specialization {
  std::vector<std::string> extents;  // extent table: symbols of the inputs, then what steps write
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<BufferId> inputs, outputs;  // in the order of the model
  int64_t arena_bytes = 0;
};

struct Plan {
  std::string name;
  std::string model_hash;                // of the Graph's text after import; provenance
  std::string weft, codegen, libraries;  // versions it was built with
  bool measured = false;                 // false: choices are estimates
  Target target;
  std::vector<Kernel> kernels;
  std::vector<Specialization> specializations;
  BlobStore blobs;  // weights, nests' texts, tensors among the attributes of calls
};

// Bytes of a buffer by its layout and shape (unknown extents at 0); an error if they leave int64.
Result<int64_t> BufferBytes(const Buffer& buffer);
// The key under which a kernel's machine code is cached: everything that the code and what it may
// touch depend on, and nothing else. A plan's own word is never taken for it: the executor computes
// it again before it loads code, so that no plan can name the code of another nest.
std::string KernelKey(const Kernel& kernel, Isa isa, std::string_view codegen);
// A text as a tensor of bytes, to go into a blob store.
Tensor TextBlob(std::string_view text);

std::string Print(const Plan& plan);  // constants and nests are blobs
Result<Plan> ParsePlan(std::string_view text, const std::string& file, const BlobStore& blobs);
Status Verify(const Plan& plan);
bool Equal(const Plan& a, const Plan& b);

}  // namespace weft::plan
