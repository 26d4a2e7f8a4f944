#include "driver/reference.h"

#include <fmt/format.h>

#include "base/check.h"
#include "driver/evaluate.h"
#include "driver/reference_loops.h"
#include "tc_lang/interpret.h"
#include "tc_lang/to_tc.h"

namespace weft::driver {
namespace {

using graph::NodeId;
using graph::ValueId;

// Float tensors travel as f64; everything else as it is.
Tensor Widen(const Tensor& t) {
  if (!IsFloat(t.dtype()) || t.dtype() == Dtype::kF64) return t;
  Tensor wide(Dtype::kF64, t.shape());
  double* out = wide.mutable_as<double>();
  for (int64_t i = 0; i < t.elems(); ++i) out[i] = ElemAsDouble(t, i);
  return wide;
}

// What an operand of the node's declared type would hold: natives and the interpreter take that
// type.
Tensor Narrow(const Tensor& t, Dtype dtype) {
  if (t.dtype() == dtype) return t;
  Tensor narrow(dtype, t.shape());
  for (int64_t i = 0; i < t.elems(); ++i) SetElem(narrow, i, ElemAsDouble(t, i));
  return narrow;
}

class Reference {
 public:
  explicit Reference(const graph::Graph& graph) : graph_(graph), values_(graph.values.size()) {}

  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      values_[graph_.inputs[i].index] = Widen(inputs[i]);
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].kind == graph::ValueKind::kConstant)
        values_[v] = Widen(graph_.values[v].constant);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) WEFT_TRY(Compute(NodeId(n)));
    std::vector<Tensor> outputs;
    for (ValueId v : graph_.outputs) outputs.push_back(values_[v.index]);
    return outputs;
  }

 private:
  Status Compute(NodeId id) {
    const graph::Node& node = graph_[id];
    std::vector<const Tensor*> operands;
    for (ValueId v : node.inputs) operands.push_back(v.valid() ? &values_[v.index] : nullptr);
    if (auto loops = reference::RunLoops(node, operands)) {
      values_[node.outputs[0].index] = std::move(*loops);
      return {};
    }
    if (auto alternatives = tc::ToTc(graph_, id); alternatives.yes())
      return Interpret((*alternatives)[0]);
    return Native(node, id);
  }

  Status Interpret(const tc::Alternative& direct) {
    std::vector<Tensor> operands;
    for (ValueId v : direct.inputs) operands.push_back(values_[v.index]);
    WEFT_TRY(auto results, tc::Interpret(direct.program, operands, {}, {.widen = true}));
    for (size_t i = 0; i < results.size(); ++i)
      values_[direct.outputs[i].index] = std::move(results[i]);
    return {};
  }

  // Natives compute in the declared type: they move and select values, or work on integers.
  Status Native(const graph::Node& node, NodeId id) {
    std::vector<Tensor> narrow(node.inputs.size());
    std::vector<const Tensor*> operands(node.inputs.size(), nullptr);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!v.valid()) continue;
      if (!graph_[v].dtype)
        return Internal(fmt::format("operand {} has no type", i)).At(graph::Describe(graph_, id));
      narrow[i] = Narrow(values_[v.index], *graph_[v].dtype);
      operands[i] = &narrow[i];
    }
    WEFT_TRY(auto results, EvaluateNode(graph_, node, operands));
    for (size_t i = 0; i < results.size(); ++i)
      if (node.outputs[i].valid()) values_[node.outputs[i].index] = Widen(results[i]);
    return {};
  }

  const graph::Graph& graph_;
  std::vector<Tensor> values_;
};

}  // namespace

Result<std::vector<Tensor>> RunReference(const graph::Graph& graph,
                                         std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs.size())
    return Usage(
        fmt::format("found {} inputs, the network has {}", inputs.size(), graph.inputs.size()));
  return Reference(graph).Run(inputs);
}

}  // namespace weft::driver
