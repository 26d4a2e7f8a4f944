#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

namespace weft {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/weft-file-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(root_); }

  size_t Count() const { return std::distance(fs::directory_iterator(root_), {}); }
  std::string root_;
};

TEST_F(FileTest, WritesAndReads) {
  const std::string path = root_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "one").ok());
  EXPECT_EQ(*ReadFile(path), "one");
  const std::string large(3 << 20, 'x');
  ASSERT_TRUE(WriteFileAtomically(path, large).ok());
  EXPECT_EQ(*ReadFile(path), large);
  EXPECT_EQ(ReadFile(path, 100).status().code(), Code::kLimit);
  EXPECT_TRUE(ReadFile(path, 3 << 20).ok());
  ASSERT_TRUE(WriteFileAtomically(path, "").ok());
  EXPECT_EQ(*ReadFile(path), "");
  EXPECT_EQ(Count(), 1u);
}

TEST_F(FileTest, WritesPiecesInOrder) {
  const std::string path = root_ + "/a", large(3 << 20, 'x');
  const std::string_view pieces[] = {"one", "", large, "two"};
  ASSERT_TRUE(WriteFileAtomically(path, pieces).ok());
  EXPECT_EQ(*ReadFile(path), "one" + large + "two");
}

TEST_F(FileTest, KeepsPermissionsAndLinks) {
  const std::string path = root_ + "/a", link = root_ + "/link";
  ASSERT_TRUE(WriteFileAtomically(path, "one").ok());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  fs::create_symlink("a", link);
  ASSERT_TRUE(WriteFileAtomically(link, "two").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(*ReadFile(path), "two");
  EXPECT_EQ(static_cast<int>(fs::status(path).permissions()), 0640);
}

TEST_F(FileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(WriteFileAtomically(root_, "x").code(), Code::kUsage);
  EXPECT_EQ(WriteFileAtomically(root_ + "/no/such", "x").code(), Code::kUsage);
  EXPECT_FALSE(WriteFileAtomically("", "x").ok());
  fs::create_symlink("nowhere", root_ + "/dangling");
  EXPECT_FALSE(WriteFileAtomically(root_ + "/dangling", "x").ok());
  ASSERT_EQ(::mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(root_ + "/pipe").status().what(), "is not a regular file");
  EXPECT_FALSE(ReadFile(root_).ok());
  EXPECT_FALSE(ReadFile("/dev/zero").ok());
  EXPECT_EQ(ReadFile(root_ + "/absent").status().what(), "can't read: No such file or directory");
}

TEST_F(FileTest, WritesDevicesInPlace) {
  EXPECT_TRUE(WriteFileAtomically("/dev/null", "x").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(WriteFileAtomically("/dev/full", "x").code(), Code::kLimit);
}

TEST_F(FileTest, FailureKeepsTheOlderFile) {
  const std::string path = root_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "older").ok());
  struct rlimit old;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const struct rlimit small = {1000, old.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = WriteFileAtomically(path, std::string(5000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(status.code(), Code::kLimit);
  EXPECT_EQ(*ReadFile(path), "older");
  EXPECT_EQ(Count(), 1u);
}

}  // namespace
}  // namespace weft
