#include "driver/pipeline.h"

#include <utility>

#include "base/log.h"
#include "driver/stages.h"
#include "graph/infer.h"
#include "graph/onnx/import.h"
#include "graph/simplify.h"

#include "driver/evaluate.h"

namespace weft::driver {
namespace {

struct Stage {
  Form form;  // what the stage makes
  Status (*run)(Module& module, const BuildOptions& options);
};

// Each stage makes the next noun from those before it, and nothing else.
constexpr Stage kStages[] = {
    {Form::kTc, MakeComprehensions}, {Form::kGroups, MakeGroups}, {Form::kChoices, MakeChoices},
    {Form::kSched, MakeSchedules},   {Form::kLoops, MakeLoops},   {Form::kCall, MakeCalls},
    {Form::kPlan, MakePlan},
};

Status BindSizes(graph::Graph& graph, const BuildOptions& options) {
  // Symbols first: once an input's shape is bound, its symbols are gone.
  for (const auto& [symbol, value] : options.symbols)
    WEFT_TRY(graph::BindSymbol(graph, symbol, value));
  for (const auto& [input, shape] : options.shapes) WEFT_TRY(graph::BindShape(graph, input, shape));
  return {};
}

}  // namespace

Result<graph::Graph> Import(const std::string& path) {
  auto graph = graph::ImportOnnx(path);
  if (graph.ok() || graph.status().where().find(path) != std::string::npos) return graph;
  // Inside the importer a place is a byte or a node; a user has many files.
  const Status& s = graph.status();
  Status located(s.code(), s.what());
  for (const std::string& context : s.why()) located = std::move(located).Because(context);
  return std::move(located).At(s.where().empty() ? path : path + ": " + s.where()).Try(s.hint());
}

Result<Module> Open(const std::string& path, const BuildOptions& options) {
  WEFT_TRY(graph::Graph graph, Import(path));
  return OpenGraph(std::move(graph), options);
}

Result<Module> OpenGraph(graph::Graph graph, const BuildOptions& options) {
  WEFT_TRY(BindSizes(graph, options));
  WEFT_TRY(graph::InferShapes(graph));
  WEFT_TRY(graph::Simplify(graph, EvaluateForFolding));
  Module module;
  module.target = options.target;
  module.graph = std::move(graph);
  return module;
}

Status Advance(Module& module, Form last, const BuildOptions& options) {
  for (const Stage& stage : kStages) {
    if (stage.form <= module.form || stage.form > last) continue;
    WEFT_TRY(stage.run(module, options));
    module.form = stage.form;
    WEFT_TRY(DumpIfAsked(module, options));
  }
  return {};
}

}  // namespace weft::driver
