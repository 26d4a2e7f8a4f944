// Tuning: which choice is fastest for each group of a network, by searching and measuring.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "driver/module.h"
#include "driver/options.h"
#include "tuner/search.h"

namespace weft::driver {

struct TuneOptions {
  double budget_s = 60;  // about
  uint64_t seed = 0;
  std::vector<std::string> worker;  // a command that calls ServeTrials
};

// What was found for one network.
struct Tuned {
  // One of the distinct groups; others that are alike have the same choice.
  struct Group {
    std::string name;
    int64_t trials = 0;                // choices that were compiled
    double best_us = 0, start_us = 0;  // medians; before: of the choice that a build begins with
    std::optional<double> vendor_us;   // of what a library-only plan does for the same nodes
    std::string choice;                // the best, in the group's own names
  };
  std::vector<Group> groups;  // in the order in which they were searched
  // Nodes whose bodies are networks of their own, which are built when they run: not searched.
  std::vector<std::string> nested;
  int64_t trials = 0;
  double seconds = 0;
  tuner::Stopped stopped = tuner::Stopped::kDone;
};

// Searches the choices of the own groups of a module at Form::kGraph: those that a build with
// `options` takes, and those of a plan of own kernels alone, which the next build may then prefer.
// Groups that take long get more of the time. What is found has to be faster in whole runs of the
// network, too, and to give the same outputs; then it goes into options.tuning, which must be
// there, and builds begin with it. kUnsupported for CUDA.
Result<Tuned> Tune(const Module& module, const BuildOptions& options, const TuneOptions& how);

}  // namespace weft::driver
