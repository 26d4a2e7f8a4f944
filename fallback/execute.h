// Runs library calls: prepare once (primitives, packed constants), run often.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "fallback/call.h"

namespace weft::fallback {

// What run() gets per operand. Plain calls read `data`; native calls with data-dependent results
// allocate through `outputs` of RunDynamic.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  // Layouts that the library chose for operands with any_layout, inputs then outputs; the caller
  // gives those operands in them. Opaque layouts that weft can't write down are refused by Prepare.
  virtual std::vector<Layout> InputLayouts() const = 0;
  virtual std::vector<Layout> OutputLayouts() const = 0;
  virtual int64_t ScratchBytes() const = 0;
  // What the library will run, in its own words: "jit:avx2". Empty where it has no name.
  virtual std::string Implementation() const { return {}; }
  // Operands in the order of call.inputs and call.outputs; constants may be null, since they were
  // packed by Prepare. Called inside the team's TBB arena, by one thread.
  // In a blocked layout the unused elements of the last block of an input are zero: oneDNN
  // multiplies them. It zeroes those of its outputs itself.
  virtual Status Run(std::span<const void* const> inputs, std::span<void* const> outputs,
                     void* scratch) = 0;
};

// `constants` holds the tensor of each constant input by position (others empty). kMissing if the
// library isn't there.
Result<std::unique_ptr<PreparedCall>> Prepare(const LibraryCall& call,
                                              std::span<const Tensor> constants);

// Which layouts the library would choose for the operands that have any_layout, inputs then
// outputs; the others as they are. For operands that weft can't write down, and for libraries
// without a preference, the plain layout. Called where Prepare may be: the choice can depend on the
// number of threads.
Result<std::vector<Layout>> PreferredLayouts(const LibraryCall& call);

// Native kernels on tensors: also those whose output shapes depend on data. The graph's Evaluator
// and the reference use this too. A null input, or a tensor without data, is an absent optional.
// More than `max_bytes` of results is an error of code kLimit: a shape in a file may ask for
// anything. `own`: operands that nobody needs any more, among those that `inputs` points to;
// a result may take their memory, or share it where it is the operand in another shape.
inline constexpr int64_t kNativeLimitBytes = int64_t{4} << 30;
Result<std::vector<Tensor>> RunNative(const LibraryCall& call,
                                      std::span<const Tensor* const> inputs,
                                      int64_t max_bytes = kNativeLimitBytes,
                                      std::span<Tensor> own = {});
bool HasNative(std::string_view op);

// While one lives, native kernels on its thread end with kInterrupted once the flag is not 0.
class Cancellable {
 public:
  explicit Cancellable(const int32_t& flag);
  ~Cancellable();
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

 private:
  const int32_t* outer_;
};

// "onednn 3.2.0 (tbb)"; empty if the library can't be loaded. WEFT_ONEDNN=none hides it.
std::string LibraryVersion(Library library);
// Of all that there are for such a target, "cudnn 9.19.0, cublasLt 13.1.0".
std::string LibraryVersions(TargetKind kind);

}  // namespace weft::fallback
