// Every translator against what ONNX says: each case is a node with inputs and expected outputs,
// made by tests/oracle/make_op_cases.py; every alternative is interpreted and compared.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "base/text.h"
#include "graph/graph.h"
#include "tc_lang/interpret.h"
#include "tc_lang/to_tc.h"

namespace weft::tc {
namespace {

struct Case {
  std::string name, op, graph;
  std::vector<std::string> inputs, outputs;  // raw elements
};

// |found - expected| <= absolute + relative * |expected|. The expected values are themselves
// rounded after every operation, in 16 bits where the type has 16.
struct Tolerance {
  double absolute, relative;
};
Tolerance ToleranceOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return {1e-7, 1e-7};  // the suite's attributes and constants are float32
    case Dtype::kF32:
      return {2e-5, 2e-5};
    case Dtype::kF16:
      return {4e-3, 4e-3};
    case Dtype::kBF16:
      return {2e-2, 2e-2};
    default:
      return {0, 0};
  }
}

// Operators and cases (by a prefix of their name) that have no comprehension, with the reason.
struct Refused {
  std::string_view what, reason;
};
constexpr Refused kRefused[] = {
#include "tc_lang/ops/ops_oracle_refused.def"
};

std::vector<Case> ReadCases(const std::string& path, std::map<std::string, int>& skipped) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind;
    if (kind == "case" || kind == "skipped") {
      std::string op;
      words >> name >> op;
      if (kind == "case")
        cases.push_back({name, op, "", {}, {}});
      else
        ++skipped[words.str().substr(kind.size() + name.size() + 2)];
      continue;
    }
    if (kind != "graph") words >> name;
    size_t bytes = 0;
    words >> bytes;
    std::string data(bytes, '\0');
    file.read(data.data(), static_cast<std::streamsize>(bytes));
    Case& c = cases.back();
    if (kind == "graph")
      c.graph = data;
    else
      (kind == "input" ? c.inputs : c.outputs).push_back(data);
  }
  return cases;
}

Tensor FromBytes(const graph::Value& value, const std::string& bytes) {
  Tensor t(*value.dtype, *graph::StaticShape(value));
  if (static_cast<int64_t>(bytes.size()) == t.bytes() && t.bytes() > 0) {
    std::memcpy(t.mutable_data(), bytes.data(), bytes.size());
  }
  return t;
}

std::string Compare(const Tensor& found, const Tensor& expected) {
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape()) {
    return fmt::format("found {}{}, expected {}{}", DtypeName(found.dtype()),
                       weft::Print(found.shape()), DtypeName(expected.dtype()),
                       weft::Print(expected.shape()));
  }
  const Tolerance tolerance = ToleranceOf(found.dtype());
  for (int64_t i = 0; i < found.elems(); ++i) {
    if (!IsFloat(found.dtype())) {
      if (ElemAsInt(found, i) == ElemAsInt(expected, i)) continue;
      return fmt::format("element {}: found {}, expected {}", i, ElemAsInt(found, i),
                         ElemAsInt(expected, i));
    }
    const double a = ElemAsDouble(found, i), b = ElemAsDouble(expected, i);
    if (std::isnan(b)
            ? std::isnan(a)
            : a == b || std::fabs(a - b) <= tolerance.absolute + tolerance.relative * std::fabs(b))
      continue;
    return fmt::format("element {}: found {}, expected {}", i, a, b);
  }
  return "";
}

std::string RunAlternative(const graph::Graph& graph, const Case& c,
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
        Compare((*outputs)[at], FromBytes(graph[graph.outputs[k]], c.outputs[k]));
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string_view WhyRefused(const Case& c) {
  for (const Refused& refused : kRefused) {
    if (c.op == refused.what || c.name.starts_with(refused.what)) return refused.reason;
  }
  return "";
}

TEST(OpsOracle, EveryCaseMatches) {
  std::map<std::string, int> skipped;
  const char* path = std::getenv("WEFT_OP_CASES");
  const std::vector<Case> cases = ReadCases(path != nullptr ? path : WEFT_OP_CASES, skipped);
  ASSERT_GT(cases.size(), 1000U);
  const char* only = std::getenv("WEFT_OP_CASE");
  int passed = 0, alternatives_run = 0;
  for (const Case& c : cases) {
    if (only != nullptr && c.name.find(only) == std::string::npos) continue;
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
      } else if (only != nullptr) {
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
}  // namespace weft::tc
