#include "codegen/cuda/emulate/compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/file.h"

namespace weft::codegen::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibrary = "kernels.so";

// A folder of the user's own that goes when this does.
class ScratchFolder {
 public:
  static Result<ScratchFolder> Make() {
    std::error_code error;
    fs::path folder = fs::temp_directory_path(error);
    if (error) return Limit(fmt::format("no folder for scratch files: {}", error.message()));
    std::string name = folder / "weft-emulate-XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      return Limit(fmt::format("no folder for scratch files: {}", std::strerror(errno))).At(name);
    return ScratchFolder(std::move(name));
  }
  explicit ScratchFolder(std::string name) : name_(std::move(name)) {}
  ScratchFolder(ScratchFolder&& other) noexcept { std::swap(name_, other.name_); }
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code none;
    if (!name_.empty()) fs::remove_all(name_, none);
  }
  std::string operator/(std::string_view file) const { return fmt::format("{}/{}", name_, file); }

 private:
  std::string name_;
};

// Its exit status, what it prints in `log`; -1 if there is no such program.
int RunProgram(std::vector<std::string> arguments, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<std::string> Compilers() {
  const char* setting = std::getenv("WEFT_CXX");
  if (setting == nullptr || *setting == '\0') return {"c++", "g++", "clang++"};
  if (std::string_view(setting) == "none") return {};
  return {setting};
}

std::vector<std::string> Command(const std::string& compiler, const ScratchFolder& folder) {
  // Not optimized: that would take longer than the kernel runs. -w: the words of a device look odd.
  return {compiler,
          "-std=c++17",
          "-O0",
          "-w",
          "-shared",
          "-fPIC",
          "-fno-exceptions",
          "-fno-rtti",
          "-ffp-contract=off",
          "-ftrivial-auto-var-init=pattern",
          "-o",
          folder / kLibrary,
          folder / "kernels.cpp"};
}

Status CompileIn(const ScratchFolder& folder, const std::string& text) {
  WEFT_TRY(WriteFileAtomically(folder / "kernels.cpp", text));
  const std::vector<std::string> compilers = Compilers();
  for (const std::string& compiler : compilers) {
    const int status = RunProgram(Command(compiler, folder), folder / "log");
    if (status < 0 || status == 127) continue;  // not there
    if (status == 0) return {};
    auto log = ReadFile(folder / "log");
    return Internal(fmt::format("{} does not take the emitted text: exit {}: {}", compiler, status,
                                log.ok() ? *log : ""))
        .Try("g++ 12 or clang++ 16, or newer, as WEFT_CXX");
  }
  return Missing(fmt::format("no C++ compiler for emitted CUDA text: {}",
                             compilers.empty()
                                 ? "WEFT_CXX is none"
                                 : fmt::format("found none of {}", fmt::join(compilers, ", "))))
      .Try("install g++, or name a compiler by WEFT_CXX");
}

}  // namespace

Result<std::shared_ptr<HostLibrary>> HostLibrary::Load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Internal(fmt::format("compiled text does not load: {}", dlerror()));
  return std::shared_ptr<HostLibrary>(new HostLibrary(handle));
}

HostLibrary::~HostLibrary() { dlclose(handle_); }

void* HostLibrary::Find(const char* symbol) const { return dlsym(handle_, symbol); }

Result<std::shared_ptr<HostLibrary>> CompileForHost(const std::string& text) {
  WEFT_TRY(const ScratchFolder folder, ScratchFolder::Make());
  WEFT_TRY(CompileIn(folder, text));
  return HostLibrary::Load(folder / kLibrary);
}

Result<std::string> CompileToBytes(const std::string& text) {
  WEFT_TRY(const ScratchFolder folder, ScratchFolder::Make());
  WEFT_TRY(CompileIn(folder, text));
  return ReadFile(folder / kLibrary);
}

}  // namespace weft::codegen::cuda
