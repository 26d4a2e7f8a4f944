#include "fallback/execute.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/log.h"
#include "fallback/cublas/matmul.h"
#include "fallback/cudnn/calls.h"
#include "fallback/modules.h"
#include "fallback/native/run.h"
#include "fallback/onednn/module.h"

namespace weft::fallback {
namespace {

struct Loaded {
  const onednn::Module* module = nullptr;
  std::string why_not;
};

Loaded Load() {
  auto entry = FindInModule(onednn::kModuleFile, onednn::kModuleEntry);
  if (!entry.ok()) return {.why_not = entry.status().what()};
  const onednn::Module* module = reinterpret_cast<onednn::ModuleEntry>(*entry)();
  if (module == nullptr || module->version != onednn::kModuleVersion) {
    return {.why_not = fmt::format("{} is of another build", onednn::kModuleFile)};
  }
  return {.module = module};
}

// The variable is read each time, so that a test can hide the library and show it again.
Result<const onednn::Module*> Onednn() {
  const char* setting = std::getenv("WEFT_ONEDNN");
  if (setting != nullptr && std::string_view(setting) == "none") {
    return Missing("onednn is hidden by WEFT_ONEDNN=none");
  }
  static const Loaded loaded = Load();
  if (loaded.module != nullptr) return loaded.module;
  return Missing("onednn can't be loaded: " + loaded.why_not).Try("./dev setup, then ./dev build");
}

}  // namespace

Result<std::unique_ptr<PreparedCall>> Prepare(const LibraryCall& call,
                                              std::span<const Tensor> constants) {
  WEFT_TRY(Verify(call));
  switch (call.library) {
    case Library::kNative:
      return native::PrepareNative(call, constants);
    case Library::kOnednn: {
      WEFT_TRY(const onednn::Module* module, Onednn());
      WEFT_TRY(auto prepared, module->prepare(call, constants));
      // Here and not in the module, which has a log of its own that nobody configures.
      WEFT_LOG(kDebug, "onednn", "{}: {}", call.op, prepared->Implementation());
      return prepared;
    }
    case Library::kCudnn:
    case Library::kCublas:
      break;
  }
  return Usage(fmt::format("{} runs on a device", LibraryName(call.library)));
}

Result<std::vector<Layout>> PreferredLayouts(const LibraryCall& call) {
  WEFT_TRY(Verify(call));
  if (call.library == Library::kOnednn) {
    WEFT_TRY(const onednn::Module* module, Onednn());
    return module->preferred_layouts(call);
  }
  std::vector<Layout> layouts;
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const CallOperand& operand : *list) layouts.push_back(operand.layout);
  }
  return layouts;
}

std::string LibraryVersion(Library library) {
  if (library == Library::kNative) return "native";
  if (library == Library::kCublas) return cublas::Version();
  if (library == Library::kCudnn) return cudnn::Version();
  auto module = Onednn();
  return module.ok() ? (*module)->library_version() : "";
}

std::string LibraryVersions(TargetKind kind) {
  std::string all;
  for (const Library library : LibrariesFor(kind)) {
    const std::string version = LibraryVersion(library);
    all += (all.empty() || version.empty() ? "" : ", ") + version;
  }
  return all;
}

}  // namespace weft::fallback
