#include "driver/module_cache.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/threads/parallel.h"
#include "base/version.h"
#include "codegen/llvm/emit.h"
#include "driver/pipeline.h"
#include "driver/stages.h"
#include "fallback/execute.h"
#include "tuner/keys.h"

namespace weft::driver {
namespace {

constexpr std::string_view kKind = "module";

// Texts name constants by their hashes, which are most of the work here.
void HashConstants(const graph::Graph& graph) {
  InParallel(graph.values.size(), [&](size_t i) {
    const Tensor& constant = graph.values[i].constant;
    if (constant.dtype() != Dtype::kString) constant.ContentHash();
  });
}

}  // namespace

std::string ModuleKey(const Module& module, const BuildOptions& options) {
  HashConstants(module.graph);
  BlobStore blobs;
  Hasher hasher;
  hasher.Add(graph::Print(module.graph, blobs))
      .Add(Print(options.target))
      .Add(tuner::DeviceOf(options.target))
      .Add(DeviceName());
  hasher.Add(SourcesHash())
      .Add(codegen::CodegenIdentity())
      .Add(fallback::LibraryVersions(options.target.kind));
  const partition::PartitionOptions& p = options.partition;
  hasher.Add(fmt::format(
      "open {} force {} fuse {} join {} strict {} vendor {} statements {} in blocks {} arguments "
      "{} "
      "flushes {} tf32 {} loses_nan {} variants {} budget {} winograd {} streams {} bfloat16 {}",
      options.open_inputs, static_cast<int>(p.force), p.fuse, p.join, p.strict, p.vendor,
      p.max_statements, p.max_statements_in_blocks, p.max_arguments, p.flushes, p.tf32, p.loses_nan,
      p.variants, options.budget_s, static_cast<int>(options.winograd), options.streams,
      options.bfloat16));
  if (options.tuning) hasher.Add(options.tuning->BestChoices());
  for (const auto& [group, choice] : options.forced_choices)
    hasher.Add(group).Add(polyhedral::Print(choice));
  return hasher.Finish().Hex();
}

std::optional<Module> FindModule(const Module& opened, const std::string& key,
                                 const BuildOptions& options) {
  const auto bytes = options.cache->Get(kKind, key);
  if (!bytes) return std::nullopt;
  // The entry names constants by their hashes: those of the network, and what was made of them.
  graph::Graph graph = opened.graph;
  PrepareNarrow(graph, options);
  if (MayUseVariants(options)) tc::PrepareConstants(graph, options.winograd, true);
  PrepareForms(graph, options);
  HashConstants(graph);
  BlobStore blobs;
  graph::Print(graph, blobs);
  auto module = ParseModule({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                            "cached module", blobs);
  if (module.ok() && module->form == Form::kCall) return std::move(*module);
  WEFT_LOG(kWarning, "driver", "a cached module can't be used: {}",
           module.ok() ? fmt::format("found form {}, expected call", FormName(module->form))
                       : module.status().ToString());
  return std::nullopt;
}

void StoreModule(const Module& module, const std::string& key, const FileCache& cache) {
  BlobStore of_graph, blobs;
  graph::Print(module.graph, of_graph);
  const std::string text = Print(module, blobs);
  // A native call may hold a big constant of its own, which nothing would give back.
  if (blobs.size() == of_graph.size()) cache.Put(kKind, key, text);
}

// Dumping is for seeing the stages at work, so it takes no short cut.
Status AdvanceThroughCache(Module& module, const BuildOptions& options) {
  if (!options.cache || !options.dump_dir.empty()) return Advance(module, Form::kPlan, options);
  const std::string key = ModuleKey(module, options);
  if (auto found = FindModule(module, key, options)) {
    module = std::move(*found);
  } else {
    WEFT_TRY(Advance(module, Form::kCall, options));
    if (!options.stop || !*options.stop)
      StoreModule(module, key, *options.cache);  // or it would never be measured whole
  }
  return Advance(module, Form::kPlan, options);
}

}  // namespace weft::driver
