#include "codegen/llvm/link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <thread>

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

// A FIFO of this name, whose other end a thread reads. LLVM writes a regular file by way of a
// temporary one, keeps the names of all that it has ever made, and goes through them at each; the
// thousandth kernel would be linked more slowly than the first.
class Fifo {
 public:
  explicit Fifo(const std::string& path) {
    if (mkfifo(path.c_str(), 0600) != 0) return;
    // Neither end waits for the other, and none reads the end of the file before there is a writer.
    from_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    to_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (to_ < 0 || fcntl(from_, F_SETFL, 0) != 0) return;
    reader_ = std::thread([this] { Read(); });
  }
  ~Fifo() {
    Join();
    if (from_ >= 0) close(from_);
  }
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;

  bool ok() const { return reader_.joinable(); }
  // All that was written, once nobody writes any more.
  Result<std::vector<uint8_t>> Take() {
    Join();
    if (failed_) return Internal("what the linker wrote can't be read");
    return std::move(read_);
  }

 private:
  void Read() {
    std::array<uint8_t, 1 << 16> part;
    for (;;) {
      const ssize_t count = read(from_, part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        failed_ = failed_ || count < 0;
        return;
      }
      try {
        if (!failed_) read_.insert(read_.end(), part.begin(), part.begin() + count);
      } catch (const std::bad_alloc&) {
        failed_ = true;  // and read on: the linker waits for that
      }
    }
  }
  void Join() {
    if (to_ >= 0) close(to_);
    to_ = -1;
    if (reader_.joinable()) reader_.join();
  }

  int from_ = -1, to_ = -1;
  bool failed_ = false;
  std::vector<uint8_t> read_;
  std::thread reader_;
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
  Fifo written(output);
  if (!written.ok()) return Missing("no FIFO can be made to link a kernel into").At(output);
  WEFT_TRY(RunLinker(input, output));
  return written.Take();
}

}  // namespace weft::codegen
