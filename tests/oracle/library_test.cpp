// Every call of oneDNN that an operator's cases match, against what ONNX says.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/target.h"
#include "fallback/execute.h"
#include "fallback/match.h"
#include "tests/oracle/op_cases.h"

namespace weft::oracle {
namespace {

using fallback::CallOperand;
using graph::Graph;

// With every input but the first known, as weights, scales and zero points are.
void MakeConstants(Graph& graph, const OpCase& c) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    graph::Value& value = graph[graph.inputs[i]];
    value.constant = FromBytes(value, c.inputs[i]);
    if (i > 0) value.kind = graph::ValueKind::kConstant;
  }
}

std::string RunCase(const Graph& graph, const OpCase& c, const fallback::LibraryCall& call) {
  std::vector<Tensor> constants;
  std::vector<const void*> inputs;
  for (const CallOperand& operand : call.inputs) {
    const Tensor& tensor = graph[graph::FindValue(graph, operand.value)].constant;
    constants.push_back(operand.constant ? tensor : Tensor());
    inputs.push_back(operand.constant ? nullptr : tensor.data());
  }
  const auto prepared = fallback::Prepare(call, constants);
  if (!prepared.ok()) return prepared.status().ToString();
  const graph::Value& value = graph[graph.outputs[0]];
  const Tensor expected = FromBytes(value, c.outputs[0]);
  Tensor found(expected.dtype(), expected.shape());
  Tensor scratch(Dtype::kU8, {(*prepared)->ScratchBytes()});
  void* const outputs[] = {found.mutable_data()};
  const Status status = (*prepared)->Run(inputs, outputs, scratch.mutable_data());
  return status.ok() ? Difference(c.op, found, expected) : status.ToString();
}

// The suite rounds what it expects of this one to four digits.
bool HasFourDigits(const OpCase& c) {
  return c.name == "test_averagepool_2d_ceil_last_window_starts_on_pad";
}

TEST(LibraryOracle, EveryCaseMatches) {
  if (fallback::LibraryVersion(fallback::Library::kOnednn).empty())
    GTEST_SKIP() << "libweft_onednn.so is not there";
  const fallback::Abilities can{.bfloat16 = HostRuns(Isa::kX86V4),
                                .dot_products = HostRuns(Isa::kX86V4Vnni)};
  std::map<std::string, int> skipped;
  std::set<std::string> seen;
  for (const OpCase& c : ReadOpCases(skipped)) {
    auto graph = graph::ParseGraph(c.graph, c.name, BlobStore());
    if (!graph.ok() || graph->nodes.size() != 1 || graph->outputs.size() != 1 || HasFourDigits(c))
      continue;
    MakeConstants(*graph, c);
    const graph::NodeId node(size_t{0});
    const auto call = fallback::Match(*graph, {&node, 1}, fallback::Library::kOnednn, {}, can);
    if (!call.yes()) continue;
    const std::string difference = RunCase(*graph, c, *call);
    EXPECT_TRUE(difference.empty()) << c.name << ": " << difference;
    seen.insert(c.op);
  }
  if (SomeCasesOnly()) return;
  for (const char* op : {"Conv", "MatMul", "Gemm", "Softmax", "MaxPool"})
    EXPECT_TRUE(seen.contains(op)) << op;
  if (!can.dot_products) return;
  for (const char* op : {"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"})
    EXPECT_TRUE(seen.contains(op)) << op;
}

}  // namespace
}  // namespace weft::oracle
