// What the fuzz targets start from is right, and holds every operator.
#include "tests/fuzz/models.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/infer.h"
#include "graph/onnx/import.h"
#include "graph/schema.h"

namespace weft::fuzz {
namespace {

Result<graph::Graph> Inferred(const onnx::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  WEFT_TRY(auto graph, graph::ImportOnnx(std::as_bytes(std::span(bytes)), "test", ""));
  WEFT_TRY(graph::InferShapes(graph));
  return graph;
}

TEST(FuzzModels, HoldEveryOperator) {
  std::set<std::string_view> have;
  for (const NodeRow& row : NodeRows()) have.insert(row.op);
  static constexpr std::pair<std::string_view, std::string_view> kOps[] = {
#define WEFT_OP(name, domain) {#name, domain},
#include "graph/ops.def"
#undef WEFT_OP
  };
  for (const auto& [name, domain] : kOps) {
    const bool of_models =
        domain.empty() && graph::FindSchema(name) && !graph::FindSchema(name)->deprecated;
    EXPECT_TRUE(!of_models || have.contains(name)) << name;
  }
}

// The types that nodes.def says are the ones that inference finds.
TEST(FuzzModels, EachNodeIsRight) {
  Random random(1);
  for (const NodeRow& row : NodeRows()) {
    const onnx::ModelProto model = ModelOfRow(random, row);
    const auto graph = Inferred(model);
    ASSERT_TRUE(graph.ok()) << row.op << " " << row.operands << ": " << graph.status().ToString();
    for (const auto& info : model.graph().value_info()) {
      const graph::Value& value = (*graph)[graph::FindValue(*graph, info.name())];
      const bool resolved_later =
          row.operands.find("seq") != std::string_view::npos || row.operands == "opt";
      if (!info.type().has_tensor_type() || (resolved_later && !value.shape)) continue;
      const auto& said = info.type().tensor_type();
      ASSERT_TRUE(value.dtype && value.shape) << row.op << ": " << info.name();
      EXPECT_EQ(DtypeToOnnx(*value.dtype), said.elem_type()) << row.op;
      ASSERT_EQ(static_cast<int>(value.shape->size()), said.shape().dim_size()) << row.op;
      for (int i = 0; i < said.shape().dim_size(); ++i) {
        if (!said.shape().dim(i).has_dim_value()) continue;
        EXPECT_EQ((*value.shape)[static_cast<size_t>(i)],
                  graph::Extent(said.shape().dim(i).dim_value()))
            << row.op;
      }
    }
  }
}

TEST(FuzzModels, AreRight) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const onnx::ModelProto model = RandomModel(random, 8);
    const auto graph = Inferred(model);
    EXPECT_TRUE(graph.ok()) << "seed " << seed << ": " << graph.status().ToString();
  }
}

TEST(FuzzModels, ComeOfTheirSeed) {
  Random one(7), same(7);
  EXPECT_EQ(RandomModel(one, 5).SerializeAsString(), RandomModel(same, 5).SerializeAsString());
}

}  // namespace
}  // namespace weft::fuzz
