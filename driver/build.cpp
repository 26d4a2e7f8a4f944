#include "driver/build.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "codegen/llvm/emit.h"
#include "driver/module_cache.h"
#include "driver/pipeline.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::driver {
namespace {

Result<std::vector<uint8_t>> Compile(const plan::Kernel& kernel, const Target& target) {
  WEFT_TRY(loops::LoopNest nest, loops::Parse(kernel.loops, kernel.name + ".loops"));
  WEFT_TRY(loops::Verify(nest));
  // The key is what a cache trusts, so it is never taken from a plan.
  if (kernel.rank_scratch_bytes != loops::RankScratchBytes(nest) ||
      kernel.team_scratch_bytes != loops::TeamScratchBytes(nest) ||
      plan::KernelKey(kernel, target.isa, codegen::CodegenIdentity()) != kernel.key)
    return Invalid("its key does not belong to its nest on this compiler").At("kernel " + kernel.name)
        .Try("build the plan again");
  WEFT_TRY(auto code, codegen::EmitMachineCode(nest, target));
  return std::move(code.shared_object);
}

// Dumping is for seeing the stages at work, so it takes no short cut.
Status AdvanceThroughCache(Module& module, const BuildOptions& options) {
  if (!options.cache || !options.dump_dir.empty()) return Advance(module, Form::kPlan, options);
  const std::string key = ModuleKey(module, options);
  if (auto found = FindModule(module, key, *options.cache)) {
    module = std::move(*found);
  } else {
    WEFT_TRY(Advance(module, Form::kCall, options));
    StoreModule(module, key, *options.cache);
  }
  return Advance(module, Form::kPlan, options);
}

}  // namespace

Result<Built> Build(const std::string& path, const BuildOptions& options,
                    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles) {
  const auto begin = std::chrono::steady_clock::now();
  WEFT_TRY(const graph::Graph imported, Import(path));
  Built built;
  std::vector<plan::Plan> plans;
  for (size_t i = 0; i < std::max<size_t>(1, profiles.size()); ++i) {
    BuildOptions specialized = options;
    if (!profiles.empty())
      specialized.shapes.insert(specialized.shapes.end(), profiles[i].begin(), profiles[i].end());
    WEFT_TRY(Module module, OpenGraph(imported, specialized));
    WEFT_TRY(AdvanceThroughCache(module, specialized));
    plans.push_back(module.plan);
    built.modules.push_back(std::move(module));
  }
  WEFT_TRY(built.plan, MergePlans(std::move(plans)));
  WEFT_TRY(CompileKernels(built.plan, options.cache));
  built.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return built;
}

Result<std::unique_ptr<executor::Executor>> MakeExecutor(plan::Plan plan, const FileCache* cache, int32_t threads) {
  return executor::Executor::Load(std::move(plan), {.threads = static_cast<uint32_t>(std::max(threads, 0)),
                                                    .cache = cache, .compiler = Compile});
}

Status CompileKernels(const plan::Plan& plan, const FileCache* cache) {
  if (!cache || plan.target.kind != TargetKind::kCpu) return {};
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status first;
  const auto work = [&] {
    for (size_t i = next++; i < plan.kernels.size(); i = next++) {
      const plan::Kernel& kernel = plan.kernels[i];
      if (cache->PathOf("so", kernel.key)) continue;
      auto code = Compile(kernel, plan.target);
      if (code.ok()) {
        cache->Put("so", kernel.key, {reinterpret_cast<const char*>(code->data()), code->size()});
      } else {
        const std::lock_guard lock(mutex);
        if (first.ok()) first = std::move(code.status());
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int32_t t = 1; t < UsableThreads(); ++t) threads.emplace_back(work);
  work();
  threads.clear();
  return first;
}

}  // namespace weft::driver
