// Every group of a network as `weft build --target cuda:sm_90` maps it, layouts and packs included:
// what its nest computes is what its comprehension says, without a race, and so does its text.
//
// WEFT_CUDA_MODEL=resnet50.onnx with WEFT_CUDA_SHAPES="image=1x3x32x32" takes another network;
// extents should be small.
#include <cstdlib>
#include <sstream>

#include "driver/pipeline.h"
#include "driver/stages.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/cuda/batch.h"

namespace weft::cuda_test {
namespace {

// "image=1x3x32x32 mask=1x8".
std::vector<std::pair<std::string, Shape>> ShapesOf(const std::string& text) {
  std::vector<std::pair<std::string, Shape>> shapes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    auto& [name, shape] = shapes.emplace_back(word.substr(0, equals), Shape{});
    std::istringstream extents(word.substr(equals + 1));
    for (int64_t extent = 0; extents >> extent; extents.ignore(1)) shape.push_back(extent);
  }
  return shapes;
}

// Other extents than the model's, too.
void GiveShapes(graph::Graph& graph, const std::vector<std::pair<std::string, Shape>>& shapes) {
  for (graph::Value& v : graph.values) {
    if (v.kind == graph::ValueKind::kComputed) v.shape.reset();
    for (const auto& [name, shape] : shapes)
      if (v.name == name) v.shape = std::vector<graph::Extent>(shape.begin(), shape.end());
  }
}

class CudaNetwork : public ::testing::TestWithParam<bool> {};

TEST_P(CudaNetwork, EveryGroupIsRight) {
  const char* model = std::getenv("WEFT_CUDA_MODEL");
  const char* shapes = std::getenv("WEFT_CUDA_SHAPES");
  driver::BuildOptions options{.target = Sm90()};
  options.partition.force = partition::PartitionOptions::Force::kOwn;
  options.partition.fuse = GetParam();
  auto graph = driver::Import(model ? model : "models/digits.onnx");
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  GiveShapes(*graph, ShapesOf(shapes ? shapes : "image=2x1x16x16"));
  auto module = driver::OpenGraph(*std::move(graph), options);
  ASSERT_TRUE(module.ok()) << module.status().ToString();
  const Status advanced = driver::Advance(*module, driver::Form::kLoops, options);
  ASSERT_TRUE(advanced.ok()) << advanced.ToString();
  const partition::GraphFacts facts(module->graph);
  size_t groups = 0;
  Batch batch;
  for (const partition::Group& group : module->grouping.groups) {
    const auto nest = module->nests.find(group.name);
    if (nest == module->nests.end()) continue;
    driver::GroupProgram p;
    const Status filled = driver::FillGroupProgram(*module, facts, group, p);
    ASSERT_TRUE(filled.ok()) << filled.ToString();
    std::vector<Tensor> inputs = tc::RandomInputs(p.extracted.program, ++groups);
    batch.AddMapped(group.name, std::move(p.extracted.program), std::move(inputs), nest->second);
    if (batch.size() < 20) continue;
    batch.ExpectRight();
    batch = {};
  }
  batch.ExpectRight();
  EXPECT_GT(groups, 2U);
}

INSTANTIATE_TEST_SUITE_P(FusedAndNot, CudaNetwork, ::testing::Bool());

}  // namespace
}  // namespace weft::cuda_test
