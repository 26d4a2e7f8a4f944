#include "driver/pipeline.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "driver/evaluate.h"
#include "driver/stages.h"
#include "fallback/match.h"
#include "graph/codes.h"
#include "graph/infer.h"
#include "graph/onnx/import.h"
#include "graph/simplify.h"
#include "graph/widen.h"

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

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Status BindSizes(graph::Graph& graph, const BuildOptions& options) {
  for (const auto& [input, form] : options.forms) WEFT_TRY(graph::BindForm(graph, input, form));
  // Symbols first: once an input's shape is bound, its symbols are gone.
  for (const auto& [symbol, value] : options.symbols)
    WEFT_TRY(graph::BindSymbol(graph, symbol, value));
  const auto is_open = [](int64_t extent) { return extent == -1; };
  for (const auto& [input, shape] : options.shapes)  // of an input of any rank, this says which
    if (std::ranges::any_of(shape, is_open)) WEFT_TRY(graph::BindShape(graph, input, shape));
  for (const auto& [input, axis, range] : options.ranges)
    WEFT_TRY(graph::BindRange(graph, input, axis, range));
  for (const auto& [input, shape] : options.shapes) WEFT_TRY(graph::BindShape(graph, input, shape));
  for (const auto& [input, value] : options.values) WEFT_TRY(graph::BindValue(graph, input, value));
  return {};
}

}  // namespace

const std::string& StandardInput() {
  static const std::string bytes = [] {
    constexpr size_t kMost = INT32_MAX;  // what protobuf takes: one byte more is enough to refuse
    std::string read;
    std::array<char, 1 << 16> part;
    while (read.size() <= kMost && (std::cin.read(part.data(), part.size()), std::cin.gcount() > 0))
      read.append(part.data(), static_cast<size_t>(std::cin.gcount()));
    return read;
  }();
  return bytes;
}

Result<graph::Graph> Import(const std::string& file) {
  const bool is_stdin = file == "-";
  const std::string path = is_stdin ? "standard input" : file;
  auto graph =
      is_stdin ? graph::ImportOnnx(BytesOf(StandardInput()), "model", "") : graph::ImportOnnx(path);
  if (graph.ok() || graph.status().where().find(path) != std::string::npos) return graph;
  // Inside the importer a place is a byte or a node; a user has many files.
  const Status& s = graph.status();
  Status located(s.code(), s.what());
  for (const std::string& context : s.why()) located = std::move(located).Because(context);
  return std::move(located).At(s.where().empty() ? path : path + ": " + s.where()).Try(s.hint());
}

Result<std::map<std::string, int64_t>> Opsets(const std::string& path) {
  if (path == "-") return graph::OnnxOpsets(BytesOf(StandardInput()));
  WEFT_TRY(const std::string bytes, ReadFile(path));
  return graph::OnnxOpsets(BytesOf(bytes));
}

Result<Module> Open(const std::string& path, const BuildOptions& options) {
  WEFT_TRY(graph::Graph graph, Import(path));
  return OpenGraph(std::move(graph), options);
}

namespace {

Status Prepare(graph::Graph& graph, const BuildOptions& options) {
  WEFT_TRY(BindSizes(graph, options));
  WEFT_TRY(graph::InferShapes(graph));
  WEFT_TRY(graph::LowerCodes(graph));
  WEFT_TRY(graph::Simplify(graph, EvaluateNode));
  if (graph::ExpandSequences(graph)) WEFT_TRY(graph::Simplify(graph, EvaluateNode));
  // Before parts are cut out that are built when they run: what was allowed goes with them.
  if (options.bfloat16 && options.partition.flushes && HasBfloatProducts(options.target.isa))
    graph::NarrowProducts(graph);
  return {};
}

Module ModuleOf(graph::Graph graph, const BuildOptions& options) {
  Module module;
  module.target = options.target;
  module.graph = std::move(graph);
  return module;
}

}  // namespace

Result<Module> OpenGraph(graph::Graph graph, const BuildOptions& options, graph::Cut* cut) {
  WEFT_TRY(Prepare(graph, options));
  if (options.open_inputs || graph::FreeSymbols(graph).empty()) {
    WEFT_TRY(const graph::Cut made, graph::MakeStages(graph, fallback::HasNativeCall));
    if (cut) *cut = made;
  }
  return ModuleOf(std::move(graph), options);
}

Result<std::optional<Module>> OpenGeneral(graph::Graph graph, const BuildOptions& options) {
  WEFT_TRY(Prepare(graph, options));
  std::map<std::string, int> others;  // operators that no native does
  const auto runs_open = [&](const graph::Graph& g, graph::NodeId node) {
    const bool runs = fallback::HasNativeCall(g, node);
    if (!runs) ++others[g[node].op_name];
    return runs;
  };
  WEFT_TRY(const bool is_general, graph::MakeGeneral(graph, runs_open));
  for (const auto& [op, count] : others)
    WEFT_LOG(kInfo, "driver", "{}: no native kernel for {} {}", graph.name, count, op);
  std::optional<Module> module;
  if (is_general) module = ModuleOf(std::move(graph), options);
  return module;
}

Status Advance(Module& module, Form last, const BuildOptions& options) {
  BuildOptions own = options;
  own.target = module.target;  // a text has its own, whatever else is built for
  for (const Stage& stage : kStages) {
    if (stage.form <= module.form || stage.form > last) continue;
    WEFT_TRY(CheckAbandoned(own));
    WEFT_TRY(stage.run(module, own));
    module.form = stage.form;
    WEFT_TRY(DumpIfAsked(module, own));
  }
  return {};
}

}  // namespace weft::driver
