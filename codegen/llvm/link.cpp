#include "codegen/llvm/link.h"

#include <fmt/format.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/file.h"

LLD_HAS_DRIVER(elf)

namespace weft::codegen {
namespace {

// A directory of this process's own, removed with all that is in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::error_code error;
    path_ = (std::filesystem::temp_directory_path(error) / "weft-link-XXXXXX").string();
    if (error || mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Status RunLinker(const std::string& input, const std::string& output) {
  static std::mutex mutex;
  static bool broken = false;
  const std::lock_guard lock(mutex);
  if (broken) return Internal("the linker has failed before and can't be run again");
  const char* arguments[] = {"ld.lld",
                             "-shared",
                             "-z",
                             "defs",
                             "-z",
                             "now",
                             "--threads=1",
                             "--build-id=none",
                             "--hash-style=gnu",
                             "-o",
                             output.c_str(),
                             input.c_str()};
  std::string said;
  llvm::raw_string_ostream stream(said);
  const lld::Result result =
      lld::lldMain(arguments, llvm::nulls(), stream, {{lld::Gnu, &lld::elf::link}});
  broken = !result.canRunAgain;
  if (result.retCode != 0) return Internal(fmt::format("the linker refuses a kernel: {}", said));
  return {};
}

}  // namespace

Result<std::vector<uint8_t>> LinkShared(std::string_view object) {
  const ScratchDirectory directory;
  if (directory.path().empty()) return Missing("no temporary directory to link a kernel in");
  const std::string input = directory.path() + "/kernel.o",
                    output = directory.path() + "/kernel.so";
  std::ofstream(input, std::ios::binary)
      .write(object.data(), static_cast<std::streamsize>(object.size()));
  WEFT_TRY(RunLinker(input, output));
  WEFT_TRY(const std::string shared, ReadFile(output));
  return std::vector<uint8_t>(shared.begin(), shared.end());
}

}  // namespace weft::codegen
