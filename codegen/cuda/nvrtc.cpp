#include "codegen/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/cuda_library.h"

namespace weft::codegen {
namespace {

// The few entries of NVRTC's C interface that are used, stable since CUDA 11.1; declared here so
// that building needs no toolkit either.
struct Nvrtc {
  using Program = void*;
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*,
                const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
};

constexpr int kCompilationError = 6, kInvalidOption = 5;

// NVRTC asks the loader for a second library by its bare name, which is only found in a folder that
// the loader does not search if it is loaded already.
void LoadBuiltins(const std::string& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so"))
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

Result<void*> Open() {
  for (const std::string& folder : CudaFolders())
    if (!folder.empty()) LoadBuiltins(folder);
  constexpr std::string_view kFiles[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
  return OpenCudaLibrary(kFiles);
}

struct Loaded {
  Nvrtc functions;
  Status status;
};

Loaded LoadNvrtc() {
  Loaded loaded;
  const char* setting = std::getenv("WEFT_NVRTC");
  const bool is_hidden = setting != nullptr && std::string_view(setting) == "none";
  const auto opened = is_hidden ? Missing("WEFT_NVRTC is none") : Open();
  if (!opened.ok()) {
    loaded.status =
        Missing(fmt::format("no NVRTC, CUDA's compiler, can be loaded: {}", opened.status().what()))
            .Try("./dev setup, or set CUDA_HOME to a toolkit of version 12 or 13");
    return loaded;
  }
  void* const library = *opened;
  const auto find = [&]<typename F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (function == nullptr) loaded.status = Missing(fmt::format("NVRTC has no {}", name));
  };
  Nvrtc& n = loaded.functions;
  find(n.version, "nvrtcVersion");
  find(n.error_string, "nvrtcGetErrorString");
  find(n.create, "nvrtcCreateProgram");
  find(n.destroy, "nvrtcDestroyProgram");
  find(n.compile, "nvrtcCompileProgram");
  find(n.log_size, "nvrtcGetProgramLogSize");
  find(n.log, "nvrtcGetProgramLog");
  find(n.cubin_size, "nvrtcGetCUBINSize");
  find(n.cubin, "nvrtcGetCUBIN");
  return loaded;
}

Result<const Nvrtc*> Library() {
  static const Loaded loaded = LoadNvrtc();
  if (!loaded.status.ok()) return loaded.status;
  return &loaded.functions;
}

std::string LogOf(const Nvrtc& nvrtc, Nvrtc::Program program) {
  size_t size = 0;
  if (nvrtc.log_size(program, &size) != 0 || size == 0) return {};
  std::string log(size, '\0');
  if (nvrtc.log(program, log.data()) != 0) return {};
  log.resize(size - 1);  // without the final zero
  return log;
}

Result<std::vector<uint8_t>> ImageOf(const Nvrtc& nvrtc, Nvrtc::Program program) {
  size_t size = 0;
  if (nvrtc.cubin_size(program, &size) != 0 || size == 0) return Internal("NVRTC gave no cubin");
  std::vector<uint8_t> image(size);
  if (nvrtc.cubin(program, reinterpret_cast<char*>(image.data())) != 0) {
    return Internal("NVRTC gave no cubin");
  }
  return image;
}

Result<Cubin> Compile(const Nvrtc& nvrtc, const std::string& text, const std::string& file,
                      std::string_view architecture, std::span<const char* const> more) {
  Nvrtc::Program raw = nullptr;
  if (const int code = nvrtc.create(&raw, text.c_str(), file.c_str(), 0, nullptr, nullptr)) {
    return Internal(fmt::format("NVRTC: {}", nvrtc.error_string(code))).At(file);
  }
  const auto destroy = [&nvrtc](Nvrtc::Program* p) { nvrtc.destroy(p); };
  const std::unique_ptr<Nvrtc::Program, decltype(destroy)> program(&raw, destroy);
  const std::string arch = fmt::format("--gpu-architecture={}", architecture);
  std::vector<const char*> options = {arch.c_str(),
                                      "--std=c++17",
                                      "--fmad=false",
                                      "--ftz=false",
                                      "--prec-div=true",
                                      "--prec-sqrt=true",
                                      "--device-as-default-execution-space"};
  options.insert(options.end(), more.begin(), more.end());
  const int code = nvrtc.compile(raw, static_cast<int>(options.size()), options.data());
  const std::string log = LogOf(nvrtc, raw);
  if (code == kInvalidOption) {
    return Unsupported(fmt::format("this NVRTC does not compile for {}: {}", architecture, log));
  }
  if (code == kCompilationError) {
    return Internal(fmt::format("the text does not compile for {}: {}", architecture, log))
        .At(file);
  }
  if (code != 0) return Internal(fmt::format("NVRTC: {}: {}", nvrtc.error_string(code), log));
  Cubin cubin;
  WEFT_TRY(cubin.image, ImageOf(nvrtc, raw));
  WEFT_TRY(cubin.resources, ReadCubin(cubin.image));
  return cubin;
}

}  // namespace

std::string_view CudaArchitecture(Isa isa) {
  switch (isa) {
    case Isa::kSm80:
      return "sm_80";
    case Isa::kSm90:
      return "sm_90";
    case Isa::kSm100:
      return "sm_100";
    case Isa::kX86V3:
    case Isa::kX86V4:
    case Isa::kX86V4Vnni:
    case Isa::kX86V4Bf16:
    case Isa::kX86V4Amx:
      break;
  }
  return "";
}

Result<std::string> NvrtcVersion() {
  WEFT_TRY(const Nvrtc* nvrtc, Library());
  int major = 0, minor = 0;
  if (nvrtc->version(&major, &minor) != 0) return Internal("NVRTC does not say its version");
  return fmt::format("nvrtc {}.{}", major, minor);
}

Result<Cubin> CompileCuda(const std::string& text, const std::string& symbol,
                          const Target& target) {
  const std::string_view architecture = CudaArchitecture(target.isa);
  if (architecture.empty()) {
    return Usage(fmt::format("{} is no CUDA target", weft::Print(target)));
  }
  WEFT_TRY(const Nvrtc* nvrtc, Library());
  const std::string file = symbol + ".cu";
  // By itself the assembler spills a little to fit more blocks: then a thread may have all
  // registers that there are. Of what a row has read it may keep too much: then it reads again,
  // too. What remains in local memory are arrays.
  constexpr const char* kMore[] = {"--maxrregcount=255", "--define-macro=__restrict__="};
  Cubin best;
  for (size_t more = 0; more <= std::size(kMore); ++more) {
    WEFT_TRY(Cubin cubin, Compile(*nvrtc, text, file, architecture, std::span(kMore).first(more)));
    if (more == 0 || cubin.resources.local_accesses < best.resources.local_accesses)
      best = std::move(cubin);
    if (best.resources.local_accesses == 0) break;
  }
  return best;
}

}  // namespace weft::codegen
