#include "driver/nested.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "base/text.h"
#include "driver/build.h"
#include "driver/module_cache.h"
#include "driver/pipeline.h"
#include "graph/edit.h"
#include "graph/infer.h"
#include "plan/nested.h"

namespace weft::driver {
namespace {

// What no operator of the graph can do without.
Status NothingToBuild(const graph::Graph& graph) {
  const graph::Node& stage = graph.nodes[0];
  const graph::Attribute* attribute = graph::FindAttribute(stage, "body");
  const auto& body = *std::get<std::shared_ptr<graph::Graph>>(attribute->value);
  return Unsupported("the extents of its results are not known, whatever its operands hold")
      .At(graph::Describe(body, graph::NodeId(size_t{0})));
}

}  // namespace

Result<NestedModule> OpenNested(const graph::Graph& graph, std::span<const Tensor> inputs,
                                const BuildOptions& options) {
  if (inputs.size() != graph.inputs.size())
    return Internal(
        fmt::format("{} operands of a graph with {} inputs", inputs.size(), graph.inputs.size()));
  graph::Graph shaped = graph::Clone(graph);
  for (size_t i = 0; i < inputs.size(); ++i)
    WEFT_TRY(graph::BindShape(shaped, graph[graph.inputs[i]].name, inputs[i].shape()));
  NestedModule nested{.bound = std::vector<bool>(inputs.size())};
  graph::Cut cut;
  WEFT_TRY(nested.module, OpenGraph(graph::Clone(shaped), options, &cut));
  if (cut.wants_values) {
    WEFT_TRY(const auto wanted, graph::ShapeInputs(shaped));
    for (size_t i = 0; i < inputs.size(); ++i) {
      nested.bound[i] = std::ranges::find(wanted, graph.inputs[i]) != wanted.end();
      if (!nested.bound[i]) continue;
      WEFT_TRY(Tensor value, Tensor::Allocate(inputs[i].dtype(), inputs[i].shape()));
      if (value.bytes() > 0)
        std::memcpy(value.mutable_data(), inputs[i].data(), inputs[i].raw().size());
      WEFT_TRY(graph::BindValue(shaped, graph[graph.inputs[i]].name, std::move(value)));
    }
    WEFT_TRY(nested.module, OpenGraph(std::move(shaped), options, &cut));
  }
  if (cut.is_all) return NothingToBuild(nested.module.graph);
  return nested;
}

executor::Specializer SpecializerFor(const Target& target, const BuildOptions& options) {
  struct Kept {
    BuildOptions options;
    std::optional<FileCache> cache;
  };
  auto kept = std::make_shared<Kept>();
  BuildOptions& mine = kept->options;
  mine.target = target;
  mine.partition = options.partition;
  mine.streams = options.streams;
  mine.winograd = options.winograd;
  if (options.cache) kept->cache = *options.cache;
  mine.cache = kept->cache ? &*kept->cache : nullptr;
  return [kept](const std::string& text, const BlobStore& blobs,
                std::span<const Tensor> inputs) -> Result<executor::NestedPlan> {
    WEFT_TRY(const graph::Graph graph, plan::ReadNested(text, blobs));
    WEFT_TRY(NestedModule nested, OpenNested(graph, inputs, kept->options));
    WEFT_TRY(AdvanceThroughCache(nested.module, kept->options));
    WEFT_TRY(CompileKernels(nested.module.plan, kept->options.cache));
    return executor::NestedPlan{.plan = std::move(nested.module.plan),
                                .bound = std::move(nested.bound)};
  };
}

}  // namespace weft::driver
