#include "graph/onnx/external.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace weft::graph {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Result<std::vector<std::string>> Components(const std::string& location) {
  if (location.empty()) return Invalid("the location of external data is empty");
  if (location.find('\0') != std::string::npos)
    return Invalid("the location of external data holds a zero byte");
  if (location[0] == '/')
    return Invalid(
        fmt::format("external data {} is not in the model's folder", PrintString(location)));
  std::vector<std::string> parts;
  for (size_t from = 0; from <= location.size();) {
    const size_t to = std::min(location.find('/', from), location.size());
    std::string part = location.substr(from, to - from);
    if (part == "..")
      return Invalid(
          fmt::format("external data {} leaves the model's folder", PrintString(location)));
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
    from = to + 1;
  }
  if (parts.empty())
    return Invalid(fmt::format("external data {} is a folder", PrintString(location)));
  return parts;
}

Status Refused(const std::string& location, int error) {
  const bool link = error == ELOOP || error == ENOTDIR;
  return Invalid(fmt::format("external data {} can't be opened: {}", PrintString(location),
                             link ? "links are not followed" : std::strerror(error)));
}

Result<Tensor> Read(int fd, const std::string& location) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return Refused(location, errno);
  if (!S_ISREG(info.st_mode))
    return Invalid(fmt::format("external data {} is not a regular file", PrintString(location)));
  if (info.st_nlink != 1) {
    return Invalid(fmt::format("external data {} has {} names, expected 1", PrintString(location),
                               info.st_nlink))
        .Try("copy the file: one of the names may lie outside the model's folder");
  }
  Result<Tensor> bytes = ReadBytes(fd);
  if (bytes.ok()) return bytes;
  return std::move(bytes.status()).Because(fmt::format("external data {}", PrintString(location)));
}

}  // namespace

Result<Tensor> ExternalFiles::Open(const std::string& location) {
  WEFT_TRY(auto parts, Components(location));
  if (const auto found = open_.find(parts); found != open_.end()) return found->second;
  if (folder_.empty())
    return Invalid(
        fmt::format("external data {} is refused: the model is not a file", PrintString(location)));
  Descriptor at(open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) return Refused(location, errno);
  for (size_t i = 0; i < parts.size(); ++i) {
    // O_NONBLOCK: a pipe without a writer would hang the open.
    const bool last = i + 1 == parts.size();
    const int flags =
        O_NOFOLLOW | O_CLOEXEC | (last ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY);
    at = Descriptor(openat(at.get(), parts[i].c_str(), flags));
    if (at.get() < 0) return Refused(location, errno);
  }
  WEFT_TRY(auto bytes, Read(at.get(), location));
  open_.emplace(std::move(parts), bytes);
  return bytes;
}

}  // namespace weft::graph
