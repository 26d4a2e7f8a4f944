#include "codegen/llvm/load_for_test.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace weft::codegen {

Result<LoadedKernel> LoadKernel(const MachineCode& code, const std::string& name) {
  // A file of its own each time: the loader knows libraries by name.
  std::string path = (std::filesystem::temp_directory_path() / "weft-kernel-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return Missing("no temporary file for a kernel");
  const auto bytes = static_cast<ssize_t>(code.shared_object.size());
  const bool written = write(file, code.shared_object.data(), code.shared_object.size()) == bytes;
  close(file);
  void* handle = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  if (handle == nullptr) return Internal(fmt::format("can't load a kernel: {}", dlerror()));
  LoadedKernel kernel{.library = {handle, [](void* h) { dlclose(h); }}};
  kernel.function = reinterpret_cast<KernelFunction>(dlsym(handle, name.c_str()));
  if (kernel.function == nullptr) return Internal(fmt::format("no symbol {}", name));
  return kernel;
}

}  // namespace weft::codegen
