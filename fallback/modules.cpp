#include "fallback/modules.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

namespace weft::fallback {
namespace {

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

}  // namespace

Result<void*> FindInModule(const std::string& file, const char* symbol) {
  std::string why = file + " is not beside the binary";
  for (const auto& folder : Folders()) {
    for (const char* place : {"", "../bin", "../../bin", "../lib"}) {
      const auto path = folder / place / file;
      std::error_code error;
      if (!std::filesystem::is_regular_file(path, error)) continue;
      // Never closed: what it made, and threads, may outlive any caller.
      void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      void* found = handle != nullptr ? dlsym(handle, symbol) : nullptr;
      if (found != nullptr) return found;
      const char* said = dlerror();
      why = said != nullptr ? said : path.string();
    }
  }
  return Missing(why);
}

}  // namespace weft::fallback
