// Grouping + nests + calls -> Plan: buffers, weights in their consumers' layouts, steps, memory.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/text.h"
#include "base/threads/parallel.h"
#include "base/version.h"
#include "driver/inputs.h"
#include "driver/kernels.h"
#include "driver/stages.h"
#include "fallback/execute.h"
#include "graph/edit.h"
#include "partition/layouts.h"
#include "plan/memory.h"
#include "plan/pack.h"

namespace weft::driver {
namespace {

using graph::ValueId;
using graph::ValueKind;
using partition::Group;
using partition::Implementation;
using plan::BufferId;
using plan::BufferKind;

class Assembler {
 public:
  Assembler(const Module& module, const BuildOptions& options)
      : module_(module), graph_(module.graph), options_(options), facts_(module.graph) {
    for (size_t v = 0; v < graph_.values.size(); ++v)
      by_name_.emplace(graph_.values[v].name, ValueId(v));
    plan_.name = module.graph.name;
    plan_.target = module.target;
    plan_.specializations.emplace_back();
  }

  Result<plan::Plan> Run() {
    if (!options_.brief) plan_.model_hash = HashOfModel();
    plan_.weft = fmt::format("weft {}", Version());
    WEFT_TRY(plan_.codegen, CodegenIdentity(plan_.target));
    plan_.libraries = fallback::LibraryVersions(plan_.target.kind);
    FindOpen();
    for (ValueId v : graph_.inputs) {
      WEFT_TRY(BufferId b, ActivationOf(v));
      spec().inputs.push_back(b);
    }
    for (const Group& group : module_.grouping.groups) {
      WEFT_TRY(AddStep(group));
      plan_.measured |= group.measured;
    }
    for (ValueId v : graph_.outputs) {
      WEFT_TRY(BufferId b, ActivationOf(v));
      spec().outputs.push_back(b);
    }
    PackWeights();
    plan_.blobs.LieTogether();
    WEFT_TRY(plan::PlanMemory(spec()));
    WEFT_TRY(plan::Verify(plan_));
    return std::move(plan_);
  }

 private:
  plan::Specialization& spec() { return plan_.specializations[0]; }

  // Of the model's own values: what was prepared for this build is read by no node.
  std::string HashOfModel() const {
    graph::Graph model = graph::Clone(graph_);
    graph::DropDead(model);
    BlobStore unused;
    return Sha256(graph::Print(model, unused)).Hex();
  }

  Layout LayoutOf(ValueId v) const {
    return partition::LayoutOf(module_.grouping.layouts, graph_, v);
  }

  BufferId Add(plan::Buffer buffer) {
    while (!names_.insert(buffer.name).second) buffer.name += "_";
    buffer.bytes = buffer.kind == BufferKind::kDynamic
                       ? 0
                       : StorageBytes(buffer.dtype, AllocElems(buffer.layout, buffer.shape));
    spec().buffers.push_back(std::move(buffer));
    return BufferId(spec().buffers.size() - 1);
  }

  // The one buffer of a value that is computed or given, in the layout of its edge.
  Result<BufferId> ActivationOf(ValueId v) {
    if (auto it = activations_.find(v); it != activations_.end()) return it->second;
    const graph::Value& value = graph_[v];
    if (value.kind == ValueKind::kConstant)
      return WeightOf(v, Layout::Plain(value.constant.shape().size()));
    const auto shape = graph::StaticShape(value);
    if (!shape && !is_open_[v.index] && value.kind == ValueKind::kInput)
      return UnknownExtents(value.name);
    if (!value.dtype)
      return Unsupported("what it holds, a sequence or an optional, is what a run decides")
          .At(fmt::format("value {}", PrintString(value.name)));
    if (!shape && !is_open_[v.index])
      return Unsupported(fmt::format("the extents of \"{}\" are not known", value.name))
          .Try("give all input shapes with --shape or --dim");
    const bool is_output = facts_.is_output[v.index];
    const bool has_place =
        *value.dtype != Dtype::kString || value.kind == ValueKind::kInput || is_output;
    if (!shape || !has_place)
      return activations_[v] = Add({.name = value.name,
                                    .dtype = *value.dtype,
                                    .layout = Layout::Plain(0),
                                    .kind = BufferKind::kDynamic});
    plan::Buffer buffer{
        .name = value.name, .dtype = *value.dtype, .shape = *shape, .layout = LayoutOf(v)};
    if (value.kind == ValueKind::kInput)
      buffer.kind = BufferKind::kInput;
    else if (is_output)
      buffer.kind = BufferKind::kOutput;
    return activations_[v] = Add(std::move(buffer));
  }

  Result<BufferId> WeightOf(ValueId v, const Layout& layout) {
    const auto key = std::pair(v, Print(layout));
    if (auto it = weights_.find(key); it != weights_.end()) return it->second;
    const Tensor& constant = graph_[v].constant;
    plan::Buffer buffer{.name = graph_[v].name,
                        .dtype = constant.dtype(),
                        .shape = constant.shape(),
                        .layout = layout,
                        .kind = BufferKind::kWeight};
    return weights_[key] = Add(std::move(buffer));
  }

  // Bytes of all weights, in their layouts.
  void PackWeights() {
    std::vector<std::pair<BufferId, Tensor>> all;
    for (const auto& [key, id] : weights_)
      if (const Tensor& constant = graph_[key.first].constant; constant.elems() > 0)
        all.emplace_back(id, constant);
    InParallel(all.size(), [&](size_t i) {
      auto& [id, tensor] = all[i];
      const Layout& layout = spec().buffers[id.index].layout;
      if (!layout.IsPlain()) tensor = plan::Pack(tensor, layout);
      if (tensor.dtype() != Dtype::kString) tensor.ContentHash();
    });
    for (const auto& [id, tensor] : all) spec().buffers[id.index].blob = plan_.blobs.Put(tensor);
  }

  Status AddStep(const Group& group) {
    plan::Step step{.name = group.name, .us = group.us, .measured = group.measured};
    for (const partition::Member& m : group.members)
      step.nodes.push_back(graph::NodeName(graph_, m.node));
    switch (group.implementation) {
      case Implementation::kOwn:
        WEFT_TRY(FillOwn(group, step));
        break;
      case Implementation::kVendor:
        WEFT_TRY(FillCall(group, step));
        break;
      case Implementation::kNative:
        WEFT_TRY(FillCall(group, step));
        break;
      case Implementation::kView:
        WEFT_TRY(FillView(group, step));
        break;
      case Implementation::kPlan:
        WEFT_TRY(FillNested(group, step));
        break;
    }
    if (step.kind != plan::StepKind::kView && step.kind != plan::StepKind::kPlan)
      FillWork(group, step);
    spec().steps.push_back(std::move(step));
    return {};
  }

  // By the first alternative of each node, which is its definition: whoever does the step, and
  // however, it is the same work.
  void FillWork(const Group& group, plan::Step& step) {
    for (const partition::Member& m : group.members) {
      const auto& alternatives = module_.comprehensions.of[m.node.index];
      if (alternatives.empty()) continue;
      if (__builtin_add_overflow(step.flops, tc::Flops(alternatives[0].program), &step.flops))
        step.flops = INT64_MAX;
    }
    std::set<BufferId> operands(step.inputs.begin(), step.inputs.end());
    operands.insert(step.outputs.begin(), step.outputs.end());
    for (BufferId id : operands)
      if (id.valid()) step.bytes += spec().buffers[id.index].bytes;
  }

  Status FillOwn(const Group& group, plan::Step& step) {
    WEFT_TRY(const loops::LoopNest* held, Held(module_.nests, group.name, Form::kLoops));
    const loops::LoopNest nest = WithSymbol(*held);
    GroupProgram p;
    WEFT_TRY(FillGroupProgram(module_, facts_, group, p));
    const size_t inputs = p.extracted.inputs.size(), operands = inputs + p.extracted.outputs.size();
    const auto wrong = [&](std::string what) {  // of a nest that a text gives
      return Invalid(std::move(what)).At("loops " + group.name);
    };
    if (loops::Operands(nest).size() != operands)
      return wrong(fmt::format("found {} operands, its group has {}", loops::Operands(nest).size(),
                               operands));
    for (size_t i = 0; i < inputs; ++i) {
      const ValueId v = p.extracted.inputs[i];
      if (graph_[v].kind == ValueKind::kConstant &&
          nest.buffers[i].layout.rank() != graph_[v].constant.shape().size())
        return wrong(fmt::format("found {} of rank {}, expected {}",
                                 PrintName(nest.buffers[i].name), nest.buffers[i].layout.rank(),
                                 graph_[v].constant.shape().size()));
      WEFT_TRY(BufferId b, graph_[v].kind == ValueKind::kConstant
                               ? WeightOf(v, nest.buffers[i].layout)
                               : ActivationOf(v));
      step.inputs.push_back(b);
    }
    for (ValueId v : p.extracted.outputs) {
      WEFT_TRY(BufferId b, ActivationOf(v));
      step.outputs.push_back(b);
    }
    step.kind = plan::StepKind::kOwn;
    step.params = p.extracted.program.params;
    // Nests of two groups may be one but for names: layers repeat.
    const auto [known, isnew] = kernels_.try_emplace(loops::Print(loops::Nameless(nest)),
                                                     plan::KernelId(plan_.kernels.size()));
    step.kernel = known->second;
    if (!isnew) return {};
    WEFT_TRY(plan::Kernel kernel, MakeKernel(nest, plan_.target, plan_.codegen));
    plan_.blobs.Put(plan::TextBlob(kernel.loops));
    plan_.kernels.push_back(std::move(kernel));
    return {};
  }

  Status FillCall(const Group& group, plan::Step& step) {
    step.kind = group.implementation == Implementation::kNative ? plan::StepKind::kNative
                                                                : plan::StepKind::kVendor;
    WEFT_TRY(const fallback::LibraryCall* call, Held(module_.calls, group.name, Form::kCall));
    step.call = *call;
    const auto add = [&](std::vector<fallback::CallOperand>& operands,
                         std::vector<BufferId>& buffers) -> Status {
      for (fallback::CallOperand& operand : operands) {
        if (operand.value.empty()) {
          buffers.push_back({});
          continue;
        }
        const auto value = by_name_.find(operand.value);
        if (value == by_name_.end())
          return Invalid(fmt::format("a call of \"{}\", which the network has not", operand.value))
              .At("group " + group.name);
        WEFT_TRY(BufferId b, ActivationOf(value->second));
        operand.value = spec().buffers[b.index].name;
        buffers.push_back(b);
      }
      return {};
    };
    WEFT_TRY(add(step.call.inputs, step.inputs));
    WEFT_TRY(add(step.call.outputs, step.outputs));
    const auto holds_tensor = [](const fallback::CallAttribute& attribute) {
      return std::holds_alternative<Tensor>(attribute.value);
    };
    if (std::ranges::any_of(step.call.attributes, holds_tensor))
      fallback::Print(step.call, plan_.blobs);  // they become blobs of the plan
    return {};
  }

  Status FillView(const Group& group, plan::Step& step) {
    step.kind = plan::StepKind::kView;
    const graph::Node& node = graph_[group.members[0].node];
    WEFT_TRY(BufferId source, ActivationOf(node.inputs[0]));
    WEFT_TRY(BufferId view, ActivationOf(node.outputs[0]));
    plan::Buffer& buffer = spec().buffers[view.index];
    if (buffer.kind != BufferKind::kArena)
      return Invalid("a view can't be an output of the network, which has memory of its own")
          .At(fmt::format("group {}", group.name));
    buffer.kind = BufferKind::kAlias;
    buffer.alias = source;
    step.inputs = {source};
    step.outputs = {view};
    return {};
  }

  Status FillNested(const Group& group, plan::Step& step) {
    const graph::Node& node = graph_[group.members[0].node];
    step.kind = plan::StepKind::kPlan;
    step.nested.control = node.op == graph::Op::kBranch   ? plan::Control::kBranch
                          : node.op == graph::Op::kRepeat ? plan::Control::kRepeat
                                                          : plan::Control::kStage;
    step.nested.states = graph::IntAttr(node, "states", 0);
    const auto add = [&](const std::vector<ValueId>& values,
                         std::vector<BufferId>& buffers) -> Status {
      for (ValueId v : values) {
        if (!v.valid()) {
          buffers.push_back({});
          continue;
        }
        WEFT_TRY(BufferId b, ActivationOf(v));
        buffers.push_back(b);
      }
      return {};
    };
    WEFT_TRY(add(node.inputs, step.inputs));
    WEFT_TRY(add(node.outputs, step.outputs));
    if (node.op == graph::Op::kStage) step.nodes.clear();  // it stands for what it holds
    for (const char* name : {"then_branch", "else_branch", "body"}) {
      const graph::Attribute* attribute = graph::FindAttribute(node, name);
      if (!attribute) continue;
      const auto* body = std::get_if<std::shared_ptr<graph::Graph>>(&attribute->value);
      if (!body || !*body) continue;
      step.nested.graphs.push_back(
          std::make_shared<const std::string>(graph::Print(**body, plan_.blobs)));
      plan_.blobs.Put(plan::TextBlob(*step.nested.graphs.back()));
      for (size_t n = 0; node.op == graph::Op::kStage && n < (*body)->nodes.size(); ++n)
        step.nodes.push_back(graph::NodeName(**body, graph::NodeId(n)));
    }
    return {};
  }

  // Values of open extents may only be made by who can make them: natives and nested plans, and
  // callers if they are asked for it.
  void FindOpen() {
    is_open_.assign(graph_.values.size(), false);
    for (const Group& group : module_.grouping.groups) {
      if (group.implementation != Implementation::kNative &&
          group.implementation != Implementation::kPlan)
        continue;
      for (const partition::Member& m : group.members)
        for (ValueId v : graph_[m.node].outputs)
          if (v.valid() && !graph::StaticShape(graph_[v])) is_open_[v.index] = true;
    }
    if (options_.open_inputs)
      for (ValueId v : graph_.inputs) is_open_[v.index] = !graph::StaticShape(graph_[v]);
  }

  const Module& module_;
  const graph::Graph& graph_;
  const BuildOptions& options_;
  const partition::GraphFacts facts_;
  std::map<std::string_view, ValueId> by_name_;
  std::vector<bool> is_open_;  // by value
  plan::Plan plan_;
  std::set<std::string> names_;
  std::map<std::string, plan::KernelId> kernels_;  // by the nameless nest
  std::map<ValueId, BufferId> activations_;
  std::map<std::pair<ValueId, std::string>, BufferId> weights_;
};

}  // namespace

Status MakePlan(Module& module, const BuildOptions& options) {
  WEFT_TRY(module.plan, Assembler(module, options).Run());
  return {};
}

}  // namespace weft::driver
