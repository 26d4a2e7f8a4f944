// What a build is asked for; the same fields whichever face asks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/cache/file_cache.h"
#include "base/cache/tuning_db.h"
#include "base/target.h"
#include "base/tensor.h"
#include "graph/sequences.h"
#include "partition/partition.h"
#include "polyhedral/choice/choice.h"
#include "tc_lang/to_tc.h"

namespace weft::driver {

// What is built for extents that a run finds: kernels, as for extents known before, which the first
// run waits for; calls of libraries and natives, which need no compiler (kNever); or those first
// and kernels beside, which take over when they are ready.
enum class Specialize : uint8_t { kNow, kBackground, kNever };

struct BuildOptions {
  Target target;
  std::vector<std::pair<std::string, Shape>> shapes;  // --shape, by input
  // By input and axis: extents that may be any of a range, both ends included.
  std::vector<std::tuple<std::string, size_t, Interval>> ranges;
  std::map<std::string, int64_t> symbols;         // --dim
  std::map<std::string, graph::InputForm> forms;  // of inputs that are no tensors
  std::map<std::string, Tensor> values;           // of inputs that become constants
  double budget_s = 0;                            // 0: estimates only
  const std::atomic<bool>* stop =
      nullptr;  // true: end measuring and use what is known; may be null
  // Asked between groups and kernels: nobody wants the result any more, which ends the build as
  // kInterrupted. May be empty.
  std::function<bool()> is_abandoned;
  partition::PartitionOptions partition;
  // Inputs may be of any extents: what reads them is built when it runs. Otherwise their extents
  // have to be known where nodes ask for them.
  bool open_inputs = false;
  Specialize specialize = Specialize::kNow;
  // Where calls are forced: nothing is written as a comprehension that a call does. Then nobody can
  // tell what such a step would cost otherwise, or how many operations it takes, and the plan does
  // not say which model it is of.
  bool brief = false;
  bool streams = true;  // outputs may be stored past the caches, which wants whole lines
  tc::Winograd winograd = tc::Winograd::kWithinBound;
  // Products of float32 may be those of bfloat16 where the target has instructions for them.
  bool bfloat16 = false;
  const FileCache* cache = nullptr;
  int64_t max_bytes = 0;  // that a run may take (executor/executor.h); 0: any number
  TuningDb* tuning = nullptr;
  // Records that parts of this build went by, and that it therefore leaves as they are; may be
  // null.
  std::set<TuningKey>* decided = nullptr;
  std::map<std::string, polyhedral::Choice> forced_choices;  // by group
  std::string dump_dir;  // every text form, numbered; empty: none
};

// kInterrupted once options.is_abandoned says so.
inline Status CheckAbandoned(const BuildOptions& options) {
  if (!options.is_abandoned || !options.is_abandoned()) return {};
  return {Code::kInterrupted, "the build was abandoned"};
}

}  // namespace weft::driver
