#include "codegen/llvm/link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

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

// A FIFO of this name, whose other end a thread reads. LLVM writes a regular file by way of a
// temporary one, keeps the names of all that it has ever made, and goes through them at each; the
// thousandth kernel would be linked more slowly than the first.
class Fifo {
 public:
  explicit Fifo(const std::string& path) {
    if (mkfifo(path.c_str(), 0600) != 0) return;
    from_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    // There is a writer from now on: the end of the file comes when all is written.
    if (from_ >= 0) to_ = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (to_ < 0) return;
    try {
      reader_ = std::thread([this] { Read(); });
    } catch (const std::system_error&) {  // no thread to be had
    }
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
  // To the end of the file; or to what is there when all is written, since a process that was
  // forked meanwhile may keep the other end open.
  void Read() {
    std::array<uint8_t, 1 << 16> part;
    for (;;) {
      const bool is_written = is_written_.load();
      const ssize_t count = read(from_, part.data(), part.size());
      if (count == 0) return;
      if (count < 0) {
        if (errno == EINTR) continue;
        failed_ = failed_ || errno != EAGAIN;
        if (errno != EAGAIN || is_written) return;
        pollfd ready{.fd = from_, .events = POLLIN, .revents = 0};
        poll(&ready, 1, 5);  // ms
        continue;
      }
      try {
        if (!failed_) read_.insert(read_.end(), part.begin(), part.begin() + count);
      } catch (const std::bad_alloc&) {
        failed_ = true;  // and read on: the linker waits for that
      }
    }
  }
  void Join() {
    is_written_.store(true);
    if (to_ >= 0) close(to_);
    to_ = -1;
    if (reader_.joinable()) reader_.join();
  }

  int from_ = -1, to_ = -1;
  bool failed_ = false;
  std::atomic<bool> is_written_ = false;
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
  if (Fifo written(output); written.ok()) {
    WEFT_TRY(RunLinker(input, output));
    return written.Take();
  }
  unlink(output.c_str());  // a file system without FIFOs, or no thread: then by a file
  WEFT_TRY(RunLinker(input, output));
  WEFT_TRY(const std::string shared, ReadFile(output));
  return std::vector<uint8_t>(shared.begin(), shared.end());
}

}  // namespace weft::codegen
