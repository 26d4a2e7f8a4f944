#include "base/cache/file_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"

namespace weft {
namespace {

constexpr int64_t kMaxEntryBytes = int64_t{1} << 32;

// Creates what is missing of a path, for the user alone.
void MakeDirectories(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), 0700);
  }
  ::mkdir(path.c_str(), 0700);
}

bool IsOursAlone(const struct stat& info) {
  return info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool IsKind(std::string_view kind) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !kind.empty() && kind.size() <= 16 && std::ranges::all_of(kind, is_word);
}

bool IsKey(std::string_view key) {
  const auto is_hex = [](char c) { return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9'); };
  return !key.empty() && key.size() <= 128 && std::ranges::all_of(key, is_hex);
}

std::string PathIn(const std::string& directory, std::string_view kind, std::string_view key) {
  WEFT_CHECK(IsKind(kind), "kind {}", kind);
  WEFT_CHECK(IsKey(key), "key {}", key);
  return fmt::format("{}/{}.{}", directory, key, kind);
}

// An entry's content, without its hash; nullopt for anything unusual.
std::optional<std::string> ReadEntry(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || !IsOursAlone(info)) {
    return std::nullopt;
  }
  Result<std::string> file = ReadFile(path, kMaxEntryBytes);
  if (!file.ok() || file->size() < sizeof(Hash::bytes)) return std::nullopt;
  const size_t size = file->size() - sizeof(Hash::bytes);
  const Hash hash = Sha256(std::string_view(*file).substr(0, size));
  if (std::memcmp(hash.bytes.data(), file->data() + size, sizeof hash.bytes) != 0)
    return std::nullopt;
  file->resize(size);
  return *std::move(file);
}

}  // namespace

Result<FileCache> FileCache::Open(const std::string& directory) {
  const auto error = [&](std::string_view what) {
    return Invalid(std::string(what)).At(directory).Try("another WEFT_CACHE_DIR");
  };
  if (directory.empty() || directory.find('\0') != directory.npos) return error("malformed path");
  std::string path = directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  MakeDirectories(path);
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) {
    return error(fmt::format("can't create the cache: {}", std::strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode)) return error("the cache is not a directory of its own, or is a link");
  if (!IsOursAlone(info)) return error("the cache can be written by other users");
  return FileCache(std::move(path));
}

Result<std::string> FileCache::DefaultDirectory() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string own = variable("WEFT_CACHE_DIR"); !own.empty()) return own;
  // The XDG base directory specification wants relative paths ignored.
  if (const std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/'))
    return xdg + "/weft";
  if (const std::string home = variable("HOME"); home.starts_with('/'))
    return home + "/.cache/weft";
  return Usage("no directory for the cache: HOME is not set").Try("WEFT_CACHE_DIR");
}

std::optional<std::vector<uint8_t>> FileCache::Get(std::string_view kind,
                                                   std::string_view key) const {
  const std::optional<std::string> content = ReadEntry(PathIn(directory_, kind, key));
  if (!content) return std::nullopt;
  return std::vector<uint8_t>(content->begin(), content->end());
}

void FileCache::Put(std::string_view kind, std::string_view key, std::string_view content) const {
  const Hash hash = Sha256(content);
  std::string file(content);
  file.append(reinterpret_cast<const char*>(hash.bytes.data()), sizeof hash.bytes);
  const std::string path = PathIn(directory_, kind, key);
  const Status status = WriteFileAtomically(path, file, {.mode = 0600, .is_lasting = false});
  static std::atomic<bool> is_reported = false;
  if (!status.ok() && !is_reported.exchange(true)) {
    WEFT_LOG(kWarning, "cache", "not written from now on: {}", status.ToString());
  }
}

std::optional<std::string> FileCache::PathOf(std::string_view kind, std::string_view key) const {
  std::string path = PathIn(directory_, kind, key);
  if (!ReadEntry(path)) return std::nullopt;
  return path;
}

std::vector<CacheEntry> FileCache::Entries() const {
  std::vector<CacheEntry> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const size_t dot = std::min(name.find('.'), name.size() - 1);
    CacheEntry entry{.kind = name.substr(dot + 1), .key = name.substr(0, dot)};
    struct stat info = {};
    if (!IsKind(entry.kind) || !IsKey(entry.key) || ::lstat(it->path().c_str(), &info) != 0 ||
        !S_ISREG(info.st_mode))
      continue;
    entry.bytes = info.st_size;
    entry.written_ns = info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {},
                    [](const CacheEntry& e) { return std::tie(e.written_ns, e.key, e.kind); });
  return entries;
}

bool FileCache::Remove(const CacheEntry& entry) const {
  return ::unlink(PathIn(directory_, entry.kind, entry.key).c_str()) == 0;
}

}  // namespace weft
