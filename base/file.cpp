#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/memory.h"

namespace weft {
namespace {

Status Failed(const std::string& path, std::string_view what) {
  const int error = errno;
  const bool limit = error == ENOSPC || error == EDQUOT || error == EFBIG || error == ENOMEM ||
                     error == EMFILE || error == ENFILE;
  std::string message = fmt::format("{}: {}", what, std::strerror(error));
  return Status(limit ? Code::kLimit : Code::kUsage, std::move(message)).At(path);
}

// Closes on the way out of a scope; Close() when the result matters.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  bool Close() { return ok() && ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool WriteAll(int fd, std::span<const std::string_view> pieces) {
  for (std::string_view rest : pieces) {
    while (!rest.empty()) {
      const ssize_t written = ::write(fd, rest.data(), rest.size());
      if (written < 0 && errno != EINTR) return false;
      if (written > 0) rest.remove_prefix(written);
    }
  }
  return true;
}

Status WriteInPlace(const std::string& path, std::span<const std::string_view> pieces) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.ok() || !WriteAll(file.get(), pieces)) return Failed(path, "can't write");
  return {};
}

// A rename lasts only when the directory is on the disk; some file systems can't promise that.
void SyncDirectory(const std::string& directory) {
  Descriptor file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.ok()) ::fsync(file.get());
}

// A new name beside `target`, short enough for any file system, and open for writing.
int OpenTemporary(const std::string& directory, uint32_t mode, std::string& name) {
  static std::atomic<uint32_t> counter = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    name = fmt::format("{}/.weft-{}-{}.tmp", directory, ::getpid(), counter++);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

}  // namespace

Status WriteFileAtomically(const std::string& path, std::string_view content,
                           const WriteOptions& options) {
  return WriteFileAtomically(path, {&content, 1}, options);
}

Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> pieces,
                           const WriteOptions& options) {
  if (path.empty() || path.find('\0') != path.npos) return Usage("malformed path");
  struct stat old = {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) return Usage("is a directory, expected a file").At(path);
  if (exists && !S_ISREG(old.st_mode)) return WriteInPlace(path, pieces);
  if (!exists && ::lstat(path.c_str(), &old) == 0) return Failed(path, "the link leads nowhere");

  std::string target = path;
  if (exists) {
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
    if (!real) return Failed(path, "can't write");
    target = real.get();
  }
  const size_t slash = target.rfind('/');
  const std::string directory = slash == target.npos ? "."
                                : slash == 0         ? "/"
                                                     : target.substr(0, slash);
  std::string temporary;
  Descriptor file(OpenTemporary(directory, options.mode, temporary));
  if (!file.ok()) return Failed(path, "can't write");
  const bool written = (!exists || ::fchmod(file.get(), old.st_mode & 07777) == 0) &&
                       WriteAll(file.get(), pieces) &&
                       (!options.is_lasting || ::fsync(file.get()) == 0) && file.Close();
  if (!written || ::rename(temporary.c_str(), target.c_str()) != 0) {
    Status status = Failed(path, "can't write");
    ::unlink(temporary.c_str());
    return status;
  }
  if (options.is_lasting) SyncDirectory(directory);
  return {};
}

Result<std::string> ReadFile(const std::string& path, int64_t limit_bytes) {
  if (path.find('\0') != path.npos) return Usage("malformed path");
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.ok()) return Failed(path, "can't read");
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return Failed(path, "can't read");
  if (!S_ISREG(info.st_mode)) return Usage("is not a regular file").At(path);
  const auto too_large = [&] {
    return Limit(fmt::format("the file has more than {} bytes", limit_bytes)).At(path);
  };
  if (info.st_size > limit_bytes) return too_large();
  try {
    // Files in /proc say that they are empty; others may grow meanwhile.
    std::string content(info.st_size + 1, '\0');
    size_t size = 0;
    while (true) {
      if (size == content.size()) content.resize(2 * size + 4096);
      const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
      if (got < 0 && errno != EINTR) return Failed(path, "can't read");
      if (got == 0) break;
      if (got > 0) size += got;
      if (size > static_cast<size_t>(limit_bytes)) return too_large();
    }
    content.resize(size);
    return content;
  } catch (const std::exception&) {
    return Limit(fmt::format("no memory for the {} bytes of the file", info.st_size)).At(path);
  }
}

Result<Tensor> ReadBytes(int fd) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return Invalid("not a regular file");
  const int64_t bytes = info.st_size;
  if (bytes == 0) return Tensor(Dtype::kU8, {0});
  // A file can say that it is larger than any disk.
  const int64_t machine = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  const std::shared_ptr<void> memory = bytes > machine ? nullptr : AllocateZeroed(bytes);
  if (!memory) return Limit(fmt::format("no memory for the {} bytes of the file", bytes));
  for (int64_t at = 0; at < bytes;) {
    const ssize_t got = ::pread(fd, static_cast<char*>(memory.get()) + at, bytes - at, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Invalid(fmt::format("can't be read: {}", std::strerror(errno)));
    if (got == 0)
      return Invalid(fmt::format("ends at byte {} of {}: it was cut meanwhile", at, bytes));
    at += got;
  }
  return Tensor::Borrow(Dtype::kU8, {bytes}, memory, memory.get());
}

}  // namespace weft
