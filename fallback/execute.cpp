#include "fallback/execute.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "fallback/native/run.h"
#include "fallback/onednn/module.h"

namespace weft::fallback {
namespace {

struct Loaded {
  const onednn::Module* module = nullptr;
  std::string why_not;
};

// Where this code itself lies, the executable or a shared library, and the executable.
std::vector<std::filesystem::path> Folders() {
  std::vector<std::filesystem::path> folders;
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&Folders), &self) != 0 && self.dli_fname != nullptr) {
    folders.push_back(std::filesystem::path(self.dli_fname).parent_path());
  }
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(executable.parent_path());
  return folders;
}

Loaded LoadFrom(const std::filesystem::path& path) {
  // Never closed: primitives and TBB's threads may outlive any caller.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return {.why_not = why != nullptr ? why : path.string()};
  }
  const auto entry = reinterpret_cast<onednn::ModuleEntry>(dlsym(handle, onednn::kModuleEntry));
  const onednn::Module* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->version != onednn::kModuleVersion) {
    return {.why_not = path.string() + " is of another build"};
  }
  return {.module = module};
}

// Beside the binary, in bin/ beside its folder (the build tree) or in lib/ (an installation).
Loaded Load() {
  Loaded loaded{.why_not = "libweft_onednn.so is not beside the binary"};
  for (const auto& folder : Folders()) {
    for (const char* place : {"", "../bin", "../../bin", "../lib"}) {
      const auto path = folder / place / "libweft_onednn.so";
      std::error_code error;
      if (!std::filesystem::is_regular_file(path, error)) continue;
      loaded = LoadFrom(path);
      if (loaded.module != nullptr) return loaded;
    }
  }
  return loaded;
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

Status Absent(Library library) {
  return Missing(fmt::format("{} is not in this build", LibraryName(library)));
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
  return Absent(call.library);
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
  if (library != Library::kOnednn) return "";
  auto module = Onednn();
  return module.ok() ? (*module)->library_version() : "";
}

}  // namespace weft::fallback
