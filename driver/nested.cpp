#include "driver/nested.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "base/float_mode.h"
#include "base/text.h"
#include "driver/background.h"
#include "driver/build.h"
#include "driver/module_cache.h"
#include "driver/pipeline.h"
#include "graph/edit.h"
#include "graph/infer.h"
#include "plan/nested.h"

namespace weft::driver {
namespace {

using Force = partition::PartitionOptions::Force;

// What no operator of the graph can do without.
Status NothingToBuild(const graph::Graph& graph) {
  const graph::Node& stage = graph.nodes[0];
  const graph::Attribute* attribute = graph::FindAttribute(stage, "body");
  const auto& body = *std::get<std::shared_ptr<graph::Graph>>(attribute->value);
  return Unsupported("the extents of its results are not known, whatever its operands hold")
      .At(graph::Describe(body, graph::NodeId(size_t{0})));
}

// At Form::kGraph; graphs share their subgraphs if they are merely copied.
Module Copied(const Module& module) {
  Module copy;
  copy.target = module.target;
  copy.graph = graph::Clone(module.graph);
  return copy;
}

// A plan of calls is sooner made than read back.
Result<plan::Plan> BuildPlan(Module module, const BuildOptions& options) {
  WEFT_TRY(options.brief ? Advance(module, Form::kPlan, options)
                         : AdvanceThroughCache(module, options));
  WEFT_TRY(CompileKernels(module.plan, options));
  return std::move(module.plan);
}

// The graphs of a plan's steps by their texts: those read last, since a step's own plans have steps
// of their own, whose texts hold the shapes met.
class Graphs {
 public:
  Result<std::shared_ptr<const graph::Graph>> Read(const std::string& text,
                                                   const BlobStore& blobs) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(read_, text, &Entry::first);
    if (known != read_.end()) {
      read_.splice(read_.begin(), read_, known);
      return read_.front().second;
    }
    WEFT_TRY(graph::Graph graph, plan::ReadNested(text, blobs));
    read_.emplace_front(text, std::make_shared<const graph::Graph>(std::move(graph)));
    if (read_.size() > kMostRead) read_.pop_back();
    return read_.front().second;
  }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const graph::Graph>>;
  static constexpr size_t kMostRead = 64;

  std::mutex mutex_;
  std::list<Entry> read_;  // the last one first
};

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

namespace {

// What the plans that are built for one executor have in common.
struct Kept {
  BuildOptions options;
  std::optional<FileCache> cache;
  Graphs graphs;
  BackgroundBuilds builds;  // goes first: they read what is above

  // Of calls and natives only, unless something else is forced.
  BuildOptions OfCalls() const {
    BuildOptions calls = options;
    if (calls.partition.force == Force::kNone) calls.partition.force = Force::kCalls;
    return calls;
  }
};

std::shared_ptr<Kept> Keep(const Target& target, const BuildOptions& options) {
  auto kept = std::make_shared<Kept>();
  BuildOptions& mine = kept->options;
  mine.target = target;
  mine.partition = options.partition;
  mine.streams = options.streams;
  mine.winograd = options.winograd;
  mine.specialize = options.specialize;
  if (options.cache) kept->cache = *options.cache;
  mine.cache = kept->cache ? &*kept->cache : nullptr;
  return kept;
}

Result<executor::NestedPlan> BuildFor(const std::shared_ptr<Kept>& kept, const std::string& text,
                                      const BlobStore& blobs, std::span<const Tensor> inputs,
                                      const std::function<bool()>& is_cancelled) {
  const FloatMode mode;  // of constants that are folded
  WEFT_TRY(const auto graph, kept->graphs.Read(text, blobs));
  const Specialize when = kept->options.specialize;
  BuildOptions first = when == Specialize::kNow ? kept->options : kept->OfCalls();
  first.brief = first.partition.force == Force::kCalls;
  first.is_abandoned = is_cancelled;
  WEFT_TRY(NestedModule nested, OpenNested(*graph, inputs, first));
  executor::NestedPlan made{.bound = std::move(nested.bound)};
  std::shared_ptr<Module> better;
  if (when == Specialize::kBackground && first.brief)
    better = std::make_shared<Module>(Copied(nested.module));
  WEFT_TRY(made.plan, BuildPlan(std::move(nested.module), first));
  if (!better) return made;
  auto promised =
      kept->builds.Add([better, options = &kept->options](
                           const std::function<bool()>& is_abandoned) -> Result<plan::Plan> {
        const FloatMode its_own;
        BuildOptions beside = *options;
        beside.is_abandoned = is_abandoned;
        return BuildPlan(std::move(*better), beside);
      });
  made.better = std::move(promised.plan);
  made.wants_better = std::move(promised.wanted);
  return made;
}

// Where such operands are refused, what the graph says of any of their ranks.
Result<executor::NestedShapes> ShapesOfNone(Kept& kept, const std::string& text,
                                            const BlobStore& blobs,
                                            std::span<const Tensor> inputs) {
  const FloatMode mode;
  WEFT_TRY(const auto graph, kept.graphs.Read(text, blobs));
  executor::NestedShapes shapes;
  graph::Graph known;
  if (auto opened = OpenNested(*graph, inputs, kept.OfCalls()); opened.ok()) {
    known = std::move(opened->module.graph);
    shapes.bound = std::move(opened->bound);
  } else {
    known = graph::Clone(*graph);
    shapes.bound.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph::Value& input = known[known.inputs[i]];
      input.shape.reset();
      WEFT_TRY(graph::BindShape(known, input.name, Shape(inputs[i].shape().size(), -1)));
    }
    if (!graph::InferShapes(known).ok()) return std::move(opened.status());
  }
  for (const graph::ValueId output : known.outputs) {
    Shape& shape = shapes.outputs.emplace_back();
    if (!known[output].shape) continue;
    for (const graph::Extent& e : *known[output].shape)
      shape.push_back(e.IsConstant() ? e.value() : 0);
  }
  return shapes;
}

Result<std::optional<executor::GeneralPlan>> BuildGeneral(Kept& kept, const std::string& text,
                                                          const BlobStore& blobs) {
  const FloatMode mode;
  WEFT_TRY(const auto graph, kept.graphs.Read(text, blobs));
  const auto is_open = [&](graph::ValueId id) { return !graph::StaticShape((*graph)[id]); };
  std::optional<executor::GeneralPlan> general;
  if (std::ranges::none_of(graph->inputs, is_open)) return general;  // one of its own suits all
  BuildOptions options = kept.OfCalls();
  options.brief = options.open_inputs = true;
  WEFT_TRY(auto module, OpenGeneral(graph::Clone(*graph), options));
  if (!module) return general;
  WEFT_TRY(plan::Plan plan, BuildPlan(*std::move(module), options));
  general = {.plan = std::move(plan), .takes = [graph](std::span<const Shape> shapes) {
               return graph::TakesShapes(*graph, shapes);
             }};
  return general;
}

}  // namespace

NestedBuilders BuildersFor(const Target& target, const BuildOptions& options) {
  const auto kept = Keep(target, options);
  NestedBuilders builders;
  builders.specialize = [kept](const std::string& text, const BlobStore& blobs,
                               std::span<const Tensor> inputs,
                               const std::function<bool()>& is_cancelled) {
    return BuildFor(kept, text, blobs, inputs, is_cancelled);
  };
  builders.shapes_of_none = [kept](const std::string& text, const BlobStore& blobs,
                                   std::span<const Tensor> inputs) {
    return ShapesOfNone(*kept, text, blobs, inputs);
  };
  const bool is_calls = kept->OfCalls().partition.force == Force::kCalls;
  if (options.specialize != Specialize::kNow && target.kind == TargetKind::kCpu && is_calls)
    builders.generalize = [kept](const std::string& text, const BlobStore& blobs) {
      return BuildGeneral(*kept, text, blobs);
    };
  return builders;
}

}  // namespace weft::driver
