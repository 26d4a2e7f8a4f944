#include "driver/program.h"

#include <fmt/format.h>

#include <map>

#include "base/hash.h"
#include "base/text.h"
#include "driver/build.h"
#include "driver/module_cache.h"
#include "driver/pipeline.h"
#include "driver/stages.h"
#include "tc_lang/parts.h"
#include "tc_lang/share.h"

namespace weft::driver {
namespace {

using graph::NodeId;
using graph::ValueId;

// The network of a program's parts.
class Opener {
 public:
  Opener(tc::Program program, const Target& target) : program_(std::move(program)) {
    module_.form = Form::kTc;
    module_.target = target;
    module_.graph.name = program_.name;
  }

  Result<Module> Run() {
    WEFT_TRY(std::vector<tc::Part> parts, tc::Parts(program_));
    for (const tc::TensorId t : tc::Inputs(program_)) {
      WEFT_TRY(const ValueId v, AddValue(t, graph::ValueKind::kInput));
      module_.graph.inputs.push_back(v);
    }
    for (tc::Part& part : parts) WEFT_TRY(AddNode(std::move(part)));
    for (const tc::TensorId t : tc::Outputs(program_))
      module_.graph.outputs.push_back(values_.at(t));
    WEFT_TRY(graph::Verify(module_.graph));
    return std::move(module_);
  }

 private:
  Result<ValueId> AddValue(tc::TensorId t, graph::ValueKind kind) {
    const tc::TensorDecl& decl = program_[t];
    const auto shape = tc::StaticExtents(decl);
    if (!shape) return Unsupported(fmt::format("the extents of '{}' are not known", decl.name));
    graph::Value value{.name = decl.name, .kind = kind, .dtype = decl.dtype};
    value.shape.emplace(shape->begin(), shape->end());
    module_.graph.values.push_back(std::move(value));
    return values_[t] = ValueId(module_.graph.values.size() - 1);
  }

  Status AddNode(tc::Part part) {
    const tc::TensorId last = part.program.statements.back().target;
    graph::Node node{.domain = "weft", .op_name = "Comprehension", .name = part.program[last].name};
    const NodeId id(module_.graph.nodes.size());
    tc::Alternative alternative{.name = "direct"};
    for (const tc::TensorId t : part.inputs) node.inputs.push_back(values_.at(t));
    for (const tc::TensorId t : part.outputs) {
      WEFT_TRY(const ValueId v, AddValue(t, graph::ValueKind::kComputed));
      module_.graph[v].producer = id;
      node.outputs.push_back(v);
    }
    alternative.inputs = node.inputs;
    alternative.outputs = node.outputs;
    // So that the graph's text, which caches go by, tells programs apart.
    graph::SetAttribute(node, "def", Sha256(tc::CanonicalText(part.program)).Hex().substr(0, 32));
    alternative.program = std::move(part.program);
    module_.graph.nodes.push_back(std::move(node));
    module_.comprehensions.of.push_back({std::move(alternative)});
    module_.comprehensions.refusals.emplace_back();
    return {};
  }

  const tc::Program program_;
  Module module_;
  std::map<tc::TensorId, ValueId> values_;
};

// Gives a plan of the canonical program the names of the program.
void Rename(plan::Plan& plan, const tc::Program& canonical, const tc::Program& program) {
  std::map<std::string, std::string> names;
  for (size_t t = 0; t < program.tensors.size(); ++t)
    names[canonical.tensors[t].name] = program.tensors[t].name;
  const auto rename = [&](std::string& name) {
    if (const auto it = names.find(name); it != names.end()) name = it->second;
  };
  plan.name = program.name;
  for (plan::Specialization& s : plan.specializations) {
    for (plan::Buffer& buffer : s.buffers) rename(buffer.name);
    for (plan::Step& step : s.steps)
      for (std::string& node : step.nodes) rename(node);
  }
}

}  // namespace

Result<Module> OpenProgram(const tc::Program& program, const Target& target) {
  tc::Program opened = tc::WithVersions(program);
  if (target.kind == TargetKind::kCpu) opened = tc::WithSharedValues(opened, target.l2_bytes / 2);
  return Opener(std::move(opened), target).Run();
}

Result<plan::Plan> CompileProgram(const tc::Program& given, const BuildOptions& options) {
  const tc::Program program = tc::WithVersions(given);
  const bool as_it_is = !options.forced_choices.empty() || !options.dump_dir.empty();
  const tc::Program canonical = as_it_is ? program : tc::Canonical(program);
  WEFT_TRY(Module module, OpenProgram(canonical, options.target));
  WEFT_TRY(DumpIfAsked(module, options));
  WEFT_TRY(as_it_is ? Advance(module, Form::kPlan, options) : AdvanceThroughCache(module, options));
  WEFT_TRY(CompileKernels(module.plan, options));
  Rename(module.plan, canonical, program);
  return std::move(module.plan);
}

}  // namespace weft::driver
