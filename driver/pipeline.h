// The pipeline: the one place that knows all stages.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/status.h"
#include "driver/module.h"
#include "driver/options.h"
#include "graph/graph.h"
#include "graph/stages.h"

namespace weft::driver {

// All of standard input. It can be read once, while a model may be opened again, so it is kept.
const std::string& StandardInput();
// ImportOnnx, with the file in every error's location. `-` is standard input, which has no external
// data.
Result<graph::Graph> Import(const std::string& path);
// The opset of each domain that the model at such a path imports; ai.onnx is "".
Result<std::map<std::string, int64_t>> Opsets(const std::string& path);
// Imports, binds shapes, infers and simplifies: a Module at Form::kGraph.
Result<Module> Open(const std::string& path, const BuildOptions& options);
// cut: how much of it waits for data; may be null.
Result<Module> OpenGraph(graph::Graph graph, const BuildOptions& options,
                         graph::Cut* cut = nullptr);
// The same for a graph that is to run at any extents its inputs may have; none if most of it can't.
Result<std::optional<Module>> OpenGeneral(graph::Graph graph, const BuildOptions& options);

// Takes a module from the form it is at to `last`.
Status Advance(Module& module, Form last, const BuildOptions& options);

// A plan with one specialization per module: same model, different shapes. Kernels and weights that
// are equal are held once.
Result<plan::Plan> MergePlans(std::vector<plan::Plan> plans);

}  // namespace weft::driver
