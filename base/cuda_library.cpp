#include "base/cuda_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace weft {

std::vector<std::string> CudaFolders() {
  std::vector<std::string> folders = {""};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* folder = std::getenv(name)) folders.push_back(std::string(folder) + "/lib64/");
  }
  folders.emplace_back(WEFT_CUDA_WHEELS "/lib/");
  folders.emplace_back("/usr/local/cuda/lib64/");
  return folders;
}

Result<void*> OpenCudaLibrary(std::span<const std::string_view> files) {
  std::string said;
  for (const std::string& folder : CudaFolders()) {
    for (const std::string_view file : files) {
      const std::string path = folder + std::string(file);
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      said = dlerror();
    }
  }
  return Missing(said);
}

}  // namespace weft
