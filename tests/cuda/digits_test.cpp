// Every group of a small network, fused and not: mapped, run without a race, compiled.
#include "graph/infer.h"
#include "graph/onnx/import.h"
#include "graph/simplify.h"
#include "partition/candidate.h"
#include "partition/partition.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/cuda/batch.h"

namespace weft::cuda_test {
namespace {

Result<graph::Graph> Digits() {
  WEFT_TRY(graph::Graph graph, graph::ImportOnnx("models/digits.onnx"));
  WEFT_TRY(graph::BindSymbol(graph, "batch", 2));
  WEFT_TRY(graph::InferShapes(graph));
  const auto fold_nothing = [](const graph::Graph&, const graph::Node&,
                               std::span<const Tensor* const>) -> Result<std::vector<Tensor>> {
    return Unsupported("constants are not folded here");
  };
  WEFT_TRY(graph::Simplify(graph, fold_nothing));
  return graph;
}

partition::NodeComprehensions Comprehensions(const graph::Graph& graph) {
  partition::NodeComprehensions nodes;
  nodes.refusals.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto alternatives = tc::ToTc(graph, graph::NodeId(i));
    if (!alternatives.yes()) nodes.refusals[i] = alternatives.refusal();
    nodes.of.push_back(alternatives.yes() ? std::move(*alternatives)
                                          : std::vector<tc::Alternative>{});
  }
  return nodes;
}

class CudaDigits : public ::testing::TestWithParam<bool> {};

TEST_P(CudaDigits, EveryGroupMaps) {
  const Result<graph::Graph> graph = Digits();
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  const partition::NodeComprehensions nodes = Comprehensions(*graph);
  const Target target{.isa = Isa::kX86V4, .threads = 2};
  partition::RooflinePricer pricer(target);
  const auto grouping =
      partition::Partition(*graph, nodes, target, pricer, {.fuse = GetParam(), .vendor = false});
  ASSERT_TRUE(grouping.ok()) << grouping.status().ToString();
  Batch batch;
  for (const partition::Group& group : grouping->groups) {
    if (group.implementation != partition::Implementation::kOwn) continue;
    SCOPED_TRACE(group.name);
    const auto extracted =
        partition::ExtractMembers(partition::GraphFacts(*graph), nodes, group.members, group.name);
    ASSERT_TRUE(extracted.ok()) << extracted.status().ToString();
    const auto mapping =
        batch.Add(group.name, extracted->program, tc::RandomInputs(extracted->program, 1));
    EXPECT_TRUE(mapping.ok()) << mapping.status().ToString();
  }
  EXPECT_GT(batch.size(), 2U);
  batch.ExpectRight();
  batch.ExpectCompiles(1);
}

INSTANTIATE_TEST_SUITE_P(FusedAndNot, CudaDigits, ::testing::Bool());

}  // namespace
}  // namespace weft::cuda_test
