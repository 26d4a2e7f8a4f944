// From a model to something that runs: the pipeline once per set of shapes, kernels compiled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "driver/module.h"
#include "driver/options.h"
#include "executor/executor.h"
#include "plan/plan.h"

namespace weft::driver {

struct Built {
  std::vector<Module> modules;  // one per specialization, at Form::kPlan
  plan::Plan plan;
  double seconds = 0;
};

// A module at Form::kGraph for each specialization of such a build.
Result<std::vector<Module>> OpenAll(
    const std::string& path, const BuildOptions& options,
    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles);

// The part of a build's budget that each of these has. What takes any extents is not measured.
double BudgetOfEach(const std::vector<Module>& modules, double budget_s);

// `profiles` are sets of shapes, one specialization each, on top of options.shapes; empty means
// one.
Result<Built> Build(const std::string& path, const BuildOptions& options,
                    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles = {});

// Kernels that the cache lacks are compiled from their nests; nested plans are built under these
// options, without measuring.
Result<std::unique_ptr<executor::Executor>> MakeExecutor(plan::Plan plan,
                                                         const BuildOptions& options,
                                                         int32_t threads);

// Puts the machine code of every kernel into options.cache, by all usable threads. Without a cache,
// nothing.
Status CompileKernels(const plan::Plan& plan, const BuildOptions& options);

}  // namespace weft::driver
