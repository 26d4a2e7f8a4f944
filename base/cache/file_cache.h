// Content-addressed files under a directory of the user's own: compiled kernels, imported blobs.
//
// The cache only helps: an entry that is absent, short, corrupt or unreadable is a miss, and a
// store that fails is reported once to the log and otherwise ignored. Entries are written to a
// temporary name in the same directory and renamed, so a reader sees a whole entry or none. Each
// file ends in the SHA-256 of its content, checked on every read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace weft {

struct CacheEntry {
  std::string kind, key;
  int64_t bytes = 0;
  int64_t written_ns = 0;  // since 1970
};

class FileCache {
 public:
  // Opens (and creates, mode 0700) `directory`. Code is only loaded from a directory that the user
  // owns and nobody else may write, so anything else is an error of code kInvalid.
  static Result<FileCache> Open(const std::string& directory);
  // $WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else $HOME/.cache/weft.
  static Result<std::string> DefaultDirectory();

  // Keys are hex hashes; kind is a short word that becomes the file's extension ("so", "cubin").
  std::optional<std::vector<uint8_t>> Get(std::string_view kind, std::string_view key) const;
  void Put(std::string_view kind, std::string_view key, std::string_view content) const;
  // The path of an entry that was just checked, for dlopen and mmap; nullopt on a miss.
  std::optional<std::string> PathOf(std::string_view kind, std::string_view key) const;
  // What lies in the directory, the oldest first; files of other names are no entries.
  std::vector<CacheEntry> Entries() const;
  bool Remove(const CacheEntry& entry) const;  // whether it did
  const std::string& directory() const { return directory_; }

 private:
  explicit FileCache(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

}  // namespace weft
