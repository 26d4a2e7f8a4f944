// Every translator against what ONNX says: every alternative of every case is interpreted and
// compared.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tc_lang/interpret.h"
#include "tc_lang/to_tc.h"
#include "tests/oracle/op_cases.h"

namespace weft::oracle {
namespace {

using namespace tc;  // NOLINT: what is tested

// Operators and cases (by a prefix of their name) that have no comprehension, with the reason.
struct Refused {
  std::string_view what, reason;
};
constexpr Refused kRefused[] = {
#include "tests/oracle/ops_refused.def"
};

std::string RunAlternative(const graph::Graph& graph, const OpCase& c,
                           const Alternative& alternative) {
  std::vector<Tensor> inputs;
  for (graph::ValueId v : alternative.inputs) {
    const auto place = std::find(graph.inputs.begin(), graph.inputs.end(), v);
    if (place == graph.inputs.end())
      inputs.push_back(graph[v].constant);
    else
      inputs.push_back(
          FromBytes(graph[v], c.inputs[static_cast<size_t>(place - graph.inputs.begin())]));
  }
  const Status verified = Verify(alternative.program);
  if (!verified.ok()) return verified.ToString();
  auto again = Parse(Print(alternative.program), c.name);
  if (!again.ok() || !Equal(*again, alternative.program))
    return "the printed program does not read back equal";
  auto outputs = Interpret(alternative.program, inputs);
  if (!outputs.ok()) return outputs.status().ToString();
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const auto place =
        std::find(alternative.outputs.begin(), alternative.outputs.end(), graph.outputs[k]);
    const auto at = static_cast<size_t>(place - alternative.outputs.begin());
    std::string difference =
        Difference(c.op, (*outputs)[at], FromBytes(graph[graph.outputs[k]], c.outputs[k]));
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string_view WhyRefused(const OpCase& c) {
  for (const Refused& refused : kRefused) {
    if (c.op == refused.what || c.name.starts_with(refused.what)) return refused.reason;
  }
  return "";
}

TEST(OpsOracle, EveryCaseMatches) {
  std::map<std::string, int> skipped;
  const std::vector<OpCase> cases = ReadOpCases(skipped);
  ASSERT_GT(cases.size(), SomeCasesOnly() ? 0U : 1000U);
  int passed = 0, alternatives_run = 0;
  for (const OpCase& c : cases) {
    const std::string_view refused = WhyRefused(c);
    if (refused.starts_with("the expected values")) {
      ++skipped[std::string(refused)];
      continue;
    }
    auto graph = graph::ParseGraph(c.graph, c.name, BlobStore());
    if (!graph.ok()) {
      if (refused.empty())
        ADD_FAILURE() << c.name << ": " << graph.status().ToString();
      else
        ++skipped[std::string(refused)];
      continue;
    }
    PrepareConstants(*graph, Winograd::kAlways);
    PrepareSums(*graph);
    PrepareFilterRows(*graph, 4);
    PrepareCentredFilters(*graph);
    PrepareIntegerTiles(*graph);
    PrepareDequantized(*graph);
    auto alternatives = ToTc(*graph, graph::NodeId(graph->nodes.size() - 1));
    if (!alternatives.yes()) {
      if (refused.empty())
        ADD_FAILURE() << c.name << ": refused: " << alternatives.refusal().detail;
      else
        ++skipped[std::string(refused)];
      continue;
    }
    EXPECT_TRUE(refused.empty()) << c.name << " is listed as refused: " << refused;
    bool fine = true;
    for (const Alternative& alternative : *alternatives) {
      ++alternatives_run;
      const std::string difference = RunAlternative(*graph, c, alternative);
      fine = fine && difference.empty();
      if (!difference.empty()) {
        ADD_FAILURE() << c.name << ", " << alternative.name << ": " << difference << "\n"
                      << Print(alternative.program);
      } else if (SomeCasesOnly()) {
        std::cout << Print(alternative.program);
      }
    }
    passed += fine ? 1 : 0;
  }
  std::cout << fmt::format("{} of {} cases passed, {} alternatives\n", passed, cases.size(),
                           alternatives_run);
  for (const auto& [reason, count] : skipped)
    std::cout << fmt::format("  {} left out: {}\n", count, reason);
}

}  // namespace
}  // namespace weft::oracle
