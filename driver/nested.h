// Plans of the graphs that a plan holds, built once the shapes of what they take are known.
#pragma once

#include <span>
#include <vector>

#include "driver/module.h"
#include "driver/options.h"
#include "executor/executor.h"
#include "graph/graph.h"

namespace weft::driver {

struct NestedModule {
  Module module;            // at Form::kGraph
  std::vector<bool> bound;  // by input of the graph: a constant of the module, by its value
};

// The graph for operands of these shapes, like a network whose inputs have them. Values are bound
// only where a part waits for them that neither shapes nor a native can spare it. kUnsupported if
// even then nothing can be built.
Result<NestedModule> OpenNested(const graph::Graph& graph, std::span<const Tensor> inputs,
                                const BuildOptions& options);

// Builds nested plans as `options` say, but without measuring, and for this target; what
// options.specialize puts off is built on a thread of its own, which ends with the last user of the
// plan. Holds on to nothing of the caller's.
//
// Where kernels are not waited for, there are general plans, too: calls of natives on whatever they
// are given, for which nothing is compiled. Not for CUDA, whose data they would have on the host.
struct NestedBuilders {
  executor::Specializer specialize;
  executor::ShapesOfNone shapes_of_none;
  executor::Generalizer generalize;  // may be empty
};
NestedBuilders BuildersFor(const Target& target, const BuildOptions& options);

}  // namespace weft::driver
