#include "executor/kernel_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/text.h"

namespace weft::executor {
namespace {

Result<std::unique_ptr<LoadedKernel>> Open(const std::string& path, const std::string& symbol) {
  // A name is all that the symbol may be: dlsym would stop at a zero byte.
  if (symbol.find('\0') != symbol.npos) return Invalid("a kernel's name holds a zero byte");
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Internal(fmt::format("machine code does not load: {}", dlerror()))
        .At("kernel " + PrintString(symbol));
  void* function = dlsym(handle, symbol.c_str());
  if (!function) {
    dlclose(handle);
    return Internal("machine code has no such symbol").At("kernel " + PrintString(symbol));
  }
  return std::make_unique<LoadedKernel>(handle, reinterpret_cast<KernelFunction>(function));
}

// A path to a descriptor that no library was opened by before. The loader knows libraries by their
// paths first, and descriptors are used again: by "/proc/self/fd/7" a second kernel would get the
// first. "/./" and "//" mean the same directory, so they spell a number.
std::string UniquePath(int fd) {
  static std::atomic<uint32_t> count = 0;
  std::string path = "/proc/self/fd";
  for (uint32_t n = ++count; n > 0; n >>= 1) path += n & 1 ? "/." : "//";
  return fmt::format("{}/{}", path, fd);
}

// Without a cache the bytes go through an anonymous file, which nobody else can write.
Result<std::unique_ptr<LoadedKernel>> OpenFromMemory(const std::vector<uint8_t>& bytes,
                                                     const std::string& symbol) {
  const int fd = memfd_create("weft-kernel", MFD_CLOEXEC);
  if (fd < 0)
    return Limit("no anonymous file for machine code").At("kernel " + PrintString(symbol));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  auto kernel = done == bytes.size()
                    ? Open(UniquePath(fd), symbol)
                    : Limit("no memory for machine code").At("kernel " + PrintString(symbol));
  close(fd);
  return kernel;
}

}  // namespace

LoadedKernel::~LoadedKernel() { dlclose(handle_); }

Result<std::unique_ptr<LoadedKernel>> LoadKernel(const plan::Kernel& kernel, const Target& target,
                                                 const LoadOptions& options) {
  if (options.cache)
    if (auto path = options.cache->PathOf("so", kernel.key))
      if (auto loaded = Open(*path, kernel.name); loaded.ok()) return loaded;
  WEFT_TRY(const std::vector<uint8_t> bytes, CompileCode(kernel, target, options, "so"));
  if (options.cache) {
    if (auto path = options.cache->PathOf("so", kernel.key))
      if (auto loaded = Open(*path, kernel.name); loaded.ok()) return loaded;
  }
  return OpenFromMemory(bytes, kernel.name);
}

Result<std::vector<uint8_t>> CompileCode(const plan::Kernel& kernel, const Target& target,
                                         const LoadOptions& options, std::string_view kind) {
  if (!options.compiler)
    return Missing(
               "the code cache does not hold its machine code, and this runtime has no compiler")
        .At("kernel " + PrintString(kernel.name))
        .Try("run `weft build` or `weft run` on this machine once, with the same cache directory");
  WEFT_TRY(std::vector<uint8_t> bytes, options.compiler(kernel, target));
  if (options.cache)
    options.cache->Put(kind, kernel.key,
                       {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return bytes;
}

}  // namespace weft::executor
