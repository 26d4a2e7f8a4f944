#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.h"
#include "cli/verbs.h"
#include "driver/pipeline.h"
#include "driver/stages.h"
#include "fallback/match.h"
#include "graph/edit.h"
#include "graph/infer.h"
#include "graph/onnx/import.h"
#include "graph/stages.h"

namespace weft::cli {
namespace {

struct Finding {
  std::string node, op, domain, reason, hint;
  std::optional<int64_t> opset;  // absent in a domain that only a function of the model imports
};

void FindUnknown(const graph::Graph& graph, const std::map<std::string, int64_t>& opsets,
                 std::vector<Finding>& findings) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    for (const auto& inner : graph::Subgraphs(node)) FindUnknown(*inner, opsets, findings);
    if (node.op != graph::Op::kUnknown) continue;
    Finding f{.node = graph::NodeName(graph, graph::NodeId(i)),
              .op = node.op_name,
              .domain = node.domain,
              .reason = "nothing here knows the operator",
              .hint = "replace the operator, or export the model with standard ones"};
    if (const auto it = opsets.find(node.domain); it != opsets.end()) f.opset = it->second;
    findings.push_back(std::move(f));
  }
}

struct Findings {
  std::vector<Finding> unsupported;
  int64_t later = 0;  // nodes whose operator is known and which are built when a run brings shapes
};

// What is unrolled, or cut into parts that are built when they run, once the shapes are known:
// control flow, and what takes or gives sequences.
bool WaitsToBeCut(const graph::Graph& graph, const graph::Node& node) {
  const auto has_type = [&](graph::ValueId v) { return !v.valid() || graph[v].dtype; };
  return node.op != graph::Op::kUnknown &&
         (!graph::Subgraphs(node).empty() || !std::ranges::all_of(node.inputs, has_type) ||
          !std::ranges::all_of(node.outputs, has_type));
}

// What no comprehension, library or native kernel does. Of parts that are built when they run,
// operators that nobody knows.
Findings Find(const driver::Module& module, const std::map<std::string, int64_t>& opsets) {
  Findings findings;
  const bool is_open = !graph::FreeSymbols(module.graph).empty();
  for (size_t i = 0; i < module.graph.nodes.size(); ++i) {
    const graph::Node& node = module.graph.nodes[i];
    const bool waits = is_open && WaitsToBeCut(module.graph, node);
    if (graph::HoldsPlans(node.op) || waits) {
      for (const auto& inner : graph::Subgraphs(node))
        FindUnknown(*inner, opsets, findings.unsupported);
      findings.later += waits ? 1 : 0;
      continue;
    }
    if (!module.comprehensions.of[i].empty()) continue;
    const auto& refusal = module.comprehensions.refusals[i];
    if (refusal && refusal->reason == Reason::kOpenExtents) {
      ++findings.later;
      continue;
    }
    if (fallback::HasNativeCall(module.graph, graph::NodeId(i))) continue;
    Finding f{.node = graph::NodeName(module.graph, graph::NodeId(i)),
              .op = node.op_name,
              .domain = node.domain,
              .reason = refusal
                            ? fmt::format("{}: {}", ReasonText(refusal->reason), refusal->detail)
                            : std::string(ReasonText(Reason::kNoComprehension))};
    f.hint = node.op == graph::Op::kUnknown
                 ? "replace the operator, or export the model with standard ones"
                 : "export with another opset";
    if (const auto it = opsets.find(node.domain); it != opsets.end()) f.opset = it->second;
    findings.unsupported.push_back(std::move(f));
  }
  return findings;
}

Status RunCheck(const Flags& flags) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  WEFT_TRY(driver::Module module, driver::Open(flags.model, session.options));
  WEFT_TRY(driver::MakeComprehensions(module, session.options));
  WEFT_TRY(const auto opsets, driver::Opsets(flags.model));
  const size_t nodes = module.graph.nodes.size();
  const auto [unsupported, later] = Find(module, opsets);
  // What a build for all shapes refuses as a whole.
  if (unsupported.empty() && !graph::FreeSymbols(module.graph).empty())
    WEFT_TRY(driver::OpenGraph(std::move(module.graph),
                               {.target = session.options.target, .open_inputs = true}));
  if (flags.json) {
    Json json{{"schema", 1},
              {"supported", unsupported.empty()},
              {"nodes", nodes},
              {"later", later},
              {"unsupported", Json::array()}};
    for (const Finding& f : unsupported)
      json["unsupported"].push_back({{"node", f.node},
                                     {"op", f.op},
                                     {"domain", f.domain},
                                     {"opset", f.opset ? Json(*f.opset) : Json(nullptr)},
                                     {"reason", f.reason},
                                     {"try", f.hint}});
    PrintJson(json);
  } else {
    for (const Finding& f : unsupported)
      fmt::print("{}\n",
                 Printable(fmt::format(
                     "{} ({}{}{}{}): {}; try: {}", f.node, f.domain, f.domain.empty() ? "" : ".",
                     f.op, f.opset ? fmt::format(", opset {}", *f.opset) : "", f.reason, f.hint)));
    fmt::print(
        "{}: {} nodes, {} cannot be built{}\n", Printable(flags.model), nodes, unsupported.size(),
        later > 0 ? fmt::format(", {} wait for shapes that a run brings (--shape, --dim)", later)
                  : "");
  }
  if (unsupported.empty()) return {};
  return Unsupported(fmt::format("{} of {} nodes cannot be built", unsupported.size(), nodes))
      .At(flags.model);
}

}  // namespace

void AddCheck(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "MODEL");
  AddBuildFlags(app, flags);
  run = [&flags] { return RunCheck(flags); };
}

}  // namespace weft::cli
