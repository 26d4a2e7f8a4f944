#include "driver/emulate.h"

#include "base/text.h"
#include "driver/kernels.h"
#include "driver/stages.h"
#include "plan/fault.h"

namespace weft::driver {

using graph::ValueId;
using partition::Group;

namespace {

// What a kernel found wrong with its data, in the graph's names.
Status Describe(const KernelFault& fault, const graph::Graph& graph,
                const std::vector<ValueId>& operands, const Group& group) {
  std::string what = plan::DescribeFault(fault);
  if (fault.operand < operands.size()) {
    const graph::Value& v = graph[operands[fault.operand]];
    what = plan::DescribeFault(fault, v.name, *v.dtype, *graph::StaticShape(v));
  }
  return Invalid(std::move(what))
      .At("kernel " + PrintString(group.name))
      .Try("check the values of the integer inputs");
}

}  // namespace

Result<Emulation> Emulation::Make(Module module) {
  std::vector<codegen::CudaText> texts;
  for (const Group& group : module.grouping.groups) {
    const auto nest = module.nests.find(group.name);
    if (nest == module.nests.end())
      return Unsupported("it is no kernel of our own").At("group " + group.name);
    WEFT_TRY(codegen::CudaText text,
             codegen::EmitCudaText(WithSymbol(nest->second), module.target));
    texts.push_back(std::move(text));
  }
  WEFT_TRY(auto kernels, codegen::EmulatedKernels::Compile(std::move(texts)));
  return Emulation(std::move(module), std::move(kernels));
}

Result<std::vector<Tensor>> Emulation::Run(std::span<const Tensor> inputs) {
  const graph::Graph& graph = module_.graph;
  std::vector<Tensor> values(graph.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i].index] = inputs[i];
  const partition::GraphFacts facts(graph);
  for (size_t k = 0; k < module_.grouping.groups.size(); ++k) {
    const Group& group = module_.grouping.groups[k];
    GroupProgram p;
    WEFT_TRY(FillGroupProgram(module_, facts, group, p));
    std::vector<ValueId> operands = p.extracted.inputs;
    std::vector<void*> pointers;
    // Inputs are read only, so that nobody's memory is copied for them.
    for (const ValueId v : operands) pointers.push_back(const_cast<void*>(values[v.index].data()));
    for (const ValueId v : p.extracted.outputs) {
      WEFT_TRY(values[v.index], Tensor::Allocate(*graph[v].dtype, *graph::StaticShape(graph[v])));
      operands.push_back(v);
      pointers.push_back(values[v.index].mutable_data());
    }
    KernelFault fault{};
    WEFT_TRY(kernels_.Check(k, module_.nests.at(group.name), pointers, {}, &fault));
    if (fault.code != 0) return Describe(fault, graph, operands, group);
  }
  std::vector<Tensor> outputs;
  for (const ValueId v : graph.outputs) outputs.push_back(values[v.index]);
  return outputs;
}

}  // namespace weft::driver
