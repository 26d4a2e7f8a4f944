// Comprehensions that are called with tensors: the user's own mathematics, compiled for the sizes
// of each call and kept.
//
//   WEFT_TRY(auto matmul, Comprehension::Open(text, "mm.tc", "matmul", options));
//   WEFT_TRY(auto sized, matmul->At({M, K, K, N}));  // extents of the parameters, in order
//   WEFT_TRY(sized->Run(inputs, outputs));
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cache/file_cache.h"
#include "base/status.h"
#include "base/target.h"
#include "base/tensor.h"
#include "driver/emulate.h"
#include "driver/options.h"
#include "executor/executor.h"
#include "polyhedral/choice/choice.h"
#include "tc_lang/bind.h"
#include "tc_lang/program.h"
#include "tc_lang/syntax.h"

namespace weft::driver {

// What runs a def: its kernels, the interpreter of comprehensions, or what stands in for a CUDA
// device (driver/emulate.h).
enum class Engine : uint8_t { kKernels, kInterpreter, kEmulator };

struct ComprehensionOptions {
  Engine engine = Engine::kKernels;
  Target target;                                      // with its threads
  std::optional<FileCache> cache;                     // without one, everything is compiled
  std::map<std::string, polyhedral::Choice> choices;  // by group, instead of our own
  std::string dump_dir;                               // every text form, numbered; empty: none
};
// Engine and target of "cpu[:ISA]", "interpreter", "cuda[:sm_90]" or "cuda-emulated[:sm_90]".
Status SetTarget(std::string_view text, ComprehensionOptions& options);

// What a build of kernels is asked for by them; points at the cache of `options`.
BuildOptions BuildOptionsOf(const ComprehensionOptions& options);

// An input or output of a def at given sizes.
struct Operand {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
};

// A def at one set of sizes, ready to run, from several threads too: runs take turns.
class Specialized {
 public:
  // `where` the def stands, for what goes wrong in a run.
  static Result<std::shared_ptr<Specialized>> Make(tc::Program program, std::string where,
                                                   const ComprehensionOptions& options);
  const tc::Program& program() const { return program_; }
  const std::vector<Operand>& inputs() const { return inputs_; }
  const std::vector<Operand>& outputs() const { return outputs_; }
  // Null unless kernels run.
  executor::Executor* executor() const { return executor_.get(); }
  // Plain memory of each operand, aligned to its elements; outputs may overlap inputs, not each
  // other. An index that a gather finds out of range is an error that names the table; what the
  // outputs then hold is not said.
  Status Run(std::span<const void* const> inputs, std::span<void* const> outputs);

 private:
  Specialized() = default;
  Status Interpret(std::span<const void* const> inputs, std::span<void* const> outputs);
  // Kernels for outputs that begin within a line of 64 bytes: compiled when first wanted.
  Result<executor::Executor*> Unaligned();

  tc::Program program_;
  std::string where_;
  std::vector<Operand> inputs_, outputs_;
  ComprehensionOptions options_;
  std::unique_ptr<executor::Executor> executor_;  // Engine::kKernels
  bool streams_ = false;                          // an output may be stored past the caches
  std::mutex mutex_;
  std::unique_ptr<executor::Executor> unaligned_;  // guarded by mutex_
  std::optional<Emulation> emulation_;             // Engine::kEmulator
};

// A parameter of a def in the order of the text.
struct Parameter {
  std::string name;
  bool is_size = false;  // `size NAME`; else a tensor
  Dtype dtype = Dtype::kF32;
  size_t rank = 0;    // of what is given: 1 with strides, which are over memory
  std::string where;  // "mm.tc:1:12"
};

// What inference says of a def, without running it.
struct DefInference {
  tc::Inference inference;
  std::vector<Operand> outputs;
};

class Comprehension {
 public:
  // `file` names the text in messages. The entry may be empty if there is one def alone.
  static Result<std::unique_ptr<Comprehension>> Open(std::string_view text, const std::string& file,
                                                     const std::string& entry,
                                                     ComprehensionOptions options);

  const tc::Def& def() const { return defs_[entry_]; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const ComprehensionOptions& options() const { return options_; }
  // "mm.tc:1:5": where the def stands.
  std::string where() const;

  Result<tc::Program> Bind(std::span<const int64_t> sizes) const;
  // For the extents of each tensor and the value of each size parameter, one after another. What
  // was used last is kept, compiled. Of several threads that want the same sizes one compiles;
  // those that want others don't wait for it.
  Result<std::shared_ptr<Specialized>> At(std::span<const int64_t> sizes);
  // By the shapes of tensors, which need not be all where they follow from others.
  Result<DefInference> Infer(const std::map<std::string, Shape>& shapes,
                             const std::map<std::string, int64_t>& size_params) const;
  // Other decisions for these sizes from now on.
  Status Force(std::span<const int64_t> sizes, std::map<std::string, polyhedral::Choice> choices);

 private:
  struct Entry {
    std::shared_ptr<Specialized> specialized;
    uint64_t used = 0;
  };
  using Key = std::vector<int64_t>;
  struct Less {                   // so that a call looks up what it has, copying nothing
    using is_transparent = void;  // NOLINT(readability-identifier-naming): what std::map asks for
    bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const {
      return std::ranges::lexicographical_compare(a, b);
    }
  };

  class Claim;  // of sizes that a thread compiles

  Comprehension(std::vector<tc::Def> defs, size_t entry, ComprehensionOptions options)
      : defs_(std::move(defs)), entry_(entry), options_(std::move(options)) {}
  Status CheckMemory(const tc::Program& program, const std::map<std::string, Shape>& shapes) const;
  void Keep(std::span<const int64_t> sizes, std::shared_ptr<Specialized> specialized);

  std::vector<tc::Def> defs_;  // of the text: the entry may call those above it
  size_t entry_;
  ComprehensionOptions options_;
  std::vector<Parameter> parameters_;
  std::mutex mutex_;
  std::map<Key, Entry, Less> kept_;
  std::set<Key, Less> claimed_;
  std::condition_variable released_;
  uint64_t clock_ = 0;
};

}  // namespace weft::driver
