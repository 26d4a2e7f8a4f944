// Every native kernel against what ONNX says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "fallback/execute.h"
#include "fallback/match.h"
#include "graph/schema.h"
#include "tc_lang/ops/families.h"
#include "tests/oracle/op_cases.h"

namespace weft::oracle {
namespace {

using graph::Graph;
using graph::ValueId;

// The operands of the last node: those of the case, and the graph's constants.
std::vector<Tensor> Operands(const Graph& graph, const OpCase& c) {
  std::vector<Tensor> operands;
  for (const ValueId v : graph.nodes.back().inputs) {
    const auto place = std::find(graph.inputs.begin(), graph.inputs.end(), v);
    if (!v.valid())
      operands.emplace_back();
    else if (place == graph.inputs.end())
      operands.push_back(graph[v].constant);
    else
      operands.push_back(FromBytes(graph[v], c.inputs[place - graph.inputs.begin()]));
  }
  return operands;
}

// The suite rounds what it expects of these to four digits.
bool HasFourDigits(const OpCase& c) {
  return c.name.starts_with("test_roialign_aligned") ||
         c.name == "test_averagepool_2d_ceil_last_window_starts_on_pad";
}

std::string RunCase(const Graph& graph, const OpCase& c, const fallback::LibraryCall& call) {
  const std::vector<Tensor> operands = Operands(graph, c);
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : operands) pointers.push_back(&t);
  const auto outputs = fallback::RunNative(call, pointers);
  if (!outputs.ok()) return outputs.status().ToString();
  const auto& made = graph.nodes.back().outputs;
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const size_t at = std::find(made.begin(), made.end(), graph.outputs[k]) - made.begin();
    std::string difference =
        Difference(c.op, outputs->at(at), FromBytes(graph[graph.outputs[k]], c.outputs[k]));
    if (!difference.empty()) return difference;
  }
  return "";
}

TEST(NativesOracle, EveryCaseMatches) {
  std::map<std::string, int> skipped;
  std::set<std::string> seen;
  for (const OpCase& c : ReadOpCases(skipped)) {
    if (!fallback::HasNative(c.op) || HasFourDigits(c)) continue;
    const auto graph = graph::ParseGraph(c.graph, c.name, BlobStore());
    if (!graph.ok()) continue;  // a type that weft lacks: the translators' test says which
    const graph::NodeId node(graph->nodes.size() - 1);
    const auto call = fallback::Match(*graph, {&node, 1}, fallback::Library::kNative);
    if (!call.yes()) {
      EXPECT_EQ(call.refusal().reason, Reason::kDtypeUnknownToLibrary) << c.name;
      continue;
    }
    const std::string difference = RunCase(*graph, c, *call);
    EXPECT_TRUE(difference.empty()) << c.name << ": " << difference;
    seen.insert(c.op);
  }
  if (SomeCasesOnly()) return;
  // Cases are bytes, which strings have none of: tests/python/strings_test.py has theirs.
  for (const char* op : {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"})
    seen.insert(op);
#define WEFT_NATIVE(op, family) \
  EXPECT_TRUE(seen.contains(#op) || !graph::FindSchema(#op)) << #op << " has no case";
#include "fallback/native/native.def"
#undef WEFT_NATIVE
}

// What is native alone says why: an operator has a comprehension or a reason, never both.
TEST(NativesOracle, EveryOperatorWithoutAComprehensionSaysWhy) {
#define WEFT_NATIVE(op, family)                                 \
  EXPECT_NE(tc::ops::TranslatorsOf(graph::Op::k##op).empty(),   \
            tc::ops::WhyNoTranslator(graph::Op::k##op).empty()) \
      << #op;
#include "fallback/native/native.def"
#undef WEFT_NATIVE
}

}  // namespace
}  // namespace weft::oracle
