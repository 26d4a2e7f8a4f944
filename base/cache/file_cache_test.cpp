#include "base/cache/file_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/hash.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class FileCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/weft-cache-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    directory_ = root_ + "/a/cache";
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string Entry() const { return directory_ + "/" + key_ + ".so"; }
  static std::string Text(const std::optional<std::vector<uint8_t>>& content) {
    return content ? std::string(content->begin(), content->end()) : "miss";
  }

  std::string root_, directory_;
  const std::string key_ = Sha256("key").Hex();
};

TEST_F(FileCacheTest, KeepsWhatIsPut) {
  const FileCache cache = *FileCache::Open(directory_ + "/");
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms(0700));
  EXPECT_EQ(Text(cache.Get("so", key_)), "miss");
  EXPECT_EQ(cache.PathOf("so", key_), std::nullopt);
  cache.Put("so", key_, "content");
  EXPECT_EQ(Text(cache.Get("so", key_)), "content");
  EXPECT_EQ(cache.PathOf("so", key_), Entry());
  EXPECT_EQ(Text(cache.Get("cubin", key_)), "miss");
  cache.Put("so", key_, "");
  EXPECT_EQ(Text(cache.Get("so", key_)), "");
  EXPECT_EQ(Text(FileCache::Open(directory_)->Get("so", key_)), "");
}

TEST_F(FileCacheTest, ListsItsEntriesAndRemovesThem) {
  const FileCache cache = *FileCache::Open(directory_);
  EXPECT_TRUE(cache.Entries().empty());
  const std::string other = Sha256("other").Hex();
  cache.Put("so", key_, "content");
  cache.Put("module", other, "");
  fs::last_write_time(Entry(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  for (const char* name : {"tuning.db", "ab", ".so", "ab.", "ab.so.tmp", "AB.so"})
    ASSERT_TRUE(WriteFileAtomically(directory_ + "/" + name, "x").ok());
  fs::create_directory(directory_ + "/ab.so");
  fs::create_symlink(Entry(), directory_ + "/cd.so");
  const std::vector<CacheEntry> entries = cache.Entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].kind, "so");
  EXPECT_EQ(entries[0].key, key_);
  EXPECT_EQ(entries[0].bytes, 7 + 32);
  EXPECT_EQ(entries[1].kind, "module");
  EXPECT_GT(entries[1].written_ns - entries[0].written_ns, int64_t{3'500'000'000'000});
  EXPECT_TRUE(cache.Remove(entries[0]));
  EXPECT_FALSE(cache.Remove(entries[0]));
  EXPECT_EQ(cache.PathOf("so", key_), std::nullopt);
  EXPECT_EQ(cache.Entries().size(), 1u);
}

TEST_F(FileCacheTest, DamageIsAMiss) {
  const FileCache cache = *FileCache::Open(directory_);
  cache.Put("so", key_, "content");
  const std::string whole = *ReadFile(Entry());
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(WriteFileAtomically(Entry(), whole.substr(0, size)).ok());
    EXPECT_EQ(Text(cache.Get("so", key_)), "miss") << size;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(Entry(), damaged).ok());
    EXPECT_EQ(Text(cache.Get("so", key_)), "miss") << i;
  }
  ASSERT_TRUE(WriteFileAtomically(Entry(), whole).ok());
  EXPECT_EQ(Text(cache.Get("so", key_)), "content");
  ASSERT_EQ(::chmod(Entry().c_str(), 0666), 0);
  EXPECT_EQ(Text(cache.Get("so", key_)), "miss");
}

TEST_F(FileCacheTest, OddEntriesAreMisses) {
  const FileCache cache = *FileCache::Open(directory_);
  fs::create_directory(Entry());
  EXPECT_EQ(Text(cache.Get("so", key_)), "miss");
  cache.Put("so", key_, "content");  // fails, which is no error
  EXPECT_EQ(Text(cache.Get("so", key_)), "miss");
  fs::remove(Entry());
  cache.Put("cubin", key_, "content");
  fs::create_symlink(key_ + ".cubin", Entry());
  EXPECT_EQ(Text(cache.Get("so", key_)), "miss");
  fs::remove(Entry());
  ASSERT_EQ(::mkfifo(Entry().c_str(), 0600), 0);
  EXPECT_EQ(Text(cache.Get("so", key_)), "miss");
}

TEST_F(FileCacheTest, RefusesDirectoriesOfOthers) {
  fs::create_directories(root_ + "/open");
  ASSERT_EQ(::chmod((root_ + "/open").c_str(), 0777), 0);
  EXPECT_EQ(FileCache::Open(root_ + "/open").status().code(), Code::kInvalid);
  fs::create_directories(root_ + "/own");
  fs::create_directory_symlink("own", root_ + "/link");
  EXPECT_EQ(FileCache::Open(root_ + "/link").status().code(), Code::kInvalid);
  EXPECT_EQ(FileCache::Open(root_ + "/link/").status().code(), Code::kInvalid);
  ASSERT_TRUE(WriteFileAtomically(root_ + "/file", "").ok());
  EXPECT_EQ(FileCache::Open(root_ + "/file").status().code(), Code::kInvalid);
  EXPECT_EQ(FileCache::Open(root_ + "/file/cache").status().code(), Code::kInvalid);
  EXPECT_EQ(FileCache::Open("").status().code(), Code::kInvalid);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((root_ + "/own").c_str(), 65534, 65534), 0);
    EXPECT_EQ(FileCache::Open(root_ + "/own").status().code(), Code::kInvalid);
  }
}

TEST_F(FileCacheTest, UnwritableIsHarmless) {
  const FileCache cache = *FileCache::Open(directory_);
  cache.Put("so", key_, "content");
  const std::string other = Sha256("other").Hex();
  const auto use = [&] {
    ASSERT_EQ(::chmod(directory_.c_str(), 0500), 0);
    // Root may write everywhere; another user's process shows what happens to everybody else.
    if (::geteuid() == 0) {
      ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
      ASSERT_EQ(::chmod((root_ + "/a").c_str(), 0755), 0);
      ASSERT_EQ(::chown(directory_.c_str(), 65534, 65534), 0);
      ASSERT_EQ(::chown(Entry().c_str(), 65534, 65534), 0);
      ASSERT_EQ(::seteuid(65534), 0);
    }
    cache.Put("so", other, "content");
    cache.Put("so", other, "content");
    const bool right =
        Text(cache.Get("so", other)) == "miss" && Text(cache.Get("so", key_)) == "content";
    ::_exit(right ? 0 : 1);
  };
  EXPECT_EXIT(use(), testing::ExitedWithCode(0), "");
  ::chmod(directory_.c_str(), 0700);
}

TEST_F(FileCacheTest, WritersDoNotDisturbReaders) {
  const FileCache cache = *FileCache::Open(directory_);
  const std::string one(100000, '1'), two(200000, '2');
  cache.Put("so", key_, one);
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) cache.Put("so", key_, i % 2 ? one : two);
  });
  for (int i = 0; i < 100; ++i) {
    const std::string seen = Text(cache.Get("so", key_));
    EXPECT_TRUE(seen == one || seen == two);
  }
  writer.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
}

TEST(FileCache, DefaultDirectory) {
  const auto directory = [](const char* own, const char* xdg, const char* home) {
    ::setenv("WEFT_CACHE_DIR", own, 1);
    ::setenv("XDG_CACHE_HOME", xdg, 1);
    ::setenv("HOME", home, 1);
    const Result<std::string> result = FileCache::DefaultDirectory();
    return result.ok() ? *result : "none";
  };
  const auto variable = [](const char* name) {
    return std::string(std::getenv(name) ? std::getenv(name) : "");
  };
  const std::string own = variable("WEFT_CACHE_DIR"), xdg = variable("XDG_CACHE_HOME"),
                    home = variable("HOME");
  EXPECT_EQ(directory("/own", "/xdg", "/home"), "/own");
  EXPECT_EQ(directory("", "/xdg", "/home"), "/xdg/weft");
  EXPECT_EQ(directory("", "relative", "/home"), "/home/.cache/weft");
  EXPECT_EQ(directory("", "", ""), "none");
  directory(own.c_str(), xdg.c_str(), home.c_str());
}

}  // namespace
}  // namespace weft
