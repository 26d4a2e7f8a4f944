// Whole files: read with a limit, written so that a reader sees all of them or nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/tensor.h"

namespace weft {

// Writes a whole file or nothing: temporary name, fsync, rename; an older file survives any failure
// and passes on its permissions. Links are followed. Devices and pipes are written in place; a
// directory is refused.
struct WriteOptions {
  uint32_t mode = 0666;    // of a new file, less the umask
  bool is_lasting = true;  // waits until the disk has it; a cache can do without
};
Status WriteFileAtomically(const std::string& path, std::string_view content,
                           const WriteOptions& options = {});
// The same for a content in pieces, one after the other.
Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> pieces,
                           const WriteOptions& options = {});

// Reads a regular file of at most `limit_bytes`.
Result<std::string> ReadFile(const std::string& path, int64_t limit_bytes = int64_t{1} << 34);

// The bytes of an open regular file as u8, aligned to 64. They are read: what is mapped would
// change after it was checked when somebody writes to the file, and fault when somebody cuts it.
Result<Tensor> ReadBytes(int fd);

}  // namespace weft
