#include "base/blob.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/memory.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class BlobTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/weft-blob-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    directory_ = root_ + "/m.blobs";
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string root_, directory_;
};

Tensor Numbers() {
  Tensor t(Dtype::kF32, {2, 3});
  for (int i = 0; i < 6; ++i) SetElem(t, i, i * 1.5);
  return t;
}

TEST_F(BlobTest, SaveAndLoad) {
  BlobStore store;
  Tensor words(Dtype::kString, {3});
  words.strings() = {"one", "", std::string("\0two", 4)};
  const std::string numbers = store.Put(Numbers()), text = store.Put(words);
  EXPECT_EQ(store.Put(Numbers()), numbers);
  EXPECT_EQ(store.size(), 2u);
  ASSERT_TRUE(store.Save(directory_).ok());

  const Result<BlobStore> loaded = BlobStore::Load(numbers + " " + text, directory_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->size(), 2u);
  EXPECT_TRUE(*loaded->Get(numbers, Dtype::kF32, {2, 3}) == Numbers());
  EXPECT_TRUE(*loaded->Get(text, Dtype::kString, {3}) == words);
  EXPECT_FALSE(loaded->Get(text, Dtype::kString, {2}).ok());
  EXPECT_FALSE(loaded->Get(text, Dtype::kString, {int64_t{1} << 40}).ok());
  EXPECT_EQ(loaded->Get(numbers, Dtype::kF32, {7}).status().what(),
            "blob " + numbers + ": found 24 bytes, which is no f32[7]");
  EXPECT_FALSE(loaded->Get(std::string(64, 'a'), Dtype::kF32, {6}).ok());
  EXPECT_FALSE(loaded->Get("../x", Dtype::kF32, {6}).ok());
}

TEST_F(BlobTest, OnlyWhatATextRefersToIsRead) {
  BlobStore store;
  const std::string numbers = store.Put(Numbers());
  ASSERT_TRUE(store.Save(directory_).ok());
  const std::string wrong(64, 'a'), absent(64, 'b');
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/" + wrong, "abc").ok());
  const std::string text = "w: f32[2, 3] = blob(" + numbers + ", 24 bytes) v = blob(" + absent;
  const Result<BlobStore> loaded = BlobStore::Load(text, directory_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->Hashes(), std::vector{numbers});
  EXPECT_FALSE(BlobStore::Load(wrong, directory_).ok());
  EXPECT_EQ(BlobStore::Load(wrong + "a", directory_)->size(), 0u);
}

TEST_F(BlobTest, LaterWritesDoNotReachTheStore) {
  BlobStore store;
  Tensor t = Numbers();
  const std::string hash = store.Put(t);
  t.mutable_as<float>()[0] = 99;
  EXPECT_TRUE(*store.Get(hash, Dtype::kF32, {2, 3}) == Numbers());
}

TEST_F(BlobTest, FilesCutLaterDoNotReachTheStore) {
  BlobStore store;
  const std::string hash = store.Put(Numbers());
  ASSERT_TRUE(store.Save(directory_).ok());
  const Result<BlobStore> loaded = BlobStore::Load(hash, directory_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  fs::resize_file(fs::path(directory_) / hash, 0);
  EXPECT_TRUE(*loaded->Get(hash, Dtype::kF32, {2, 3}) == Numbers());
}

TEST_F(BlobTest, NothingIsStoredOfNothing) {
  BlobStore store;
  const std::string hash = store.Put(Tensor(Dtype::kF32, {0, 4}));
  EXPECT_EQ(store.size(), 0u);
  EXPECT_EQ(store.Get(hash, Dtype::kF32, {0, 4})->elems(), 0);
  ASSERT_TRUE(store.Save(directory_).ok());
  EXPECT_FALSE(fs::exists(directory_));
  EXPECT_EQ(BlobStore::Load(hash, directory_)->size(), 0u);
}

TEST_F(BlobTest, SmallOnesLieTogetherInHugePages) {
  BlobStore store;
  std::vector<std::string> hashes;
  for (const int64_t bytes : {100, 40 << 10, 1500 << 10, 1 << 20, 3 << 20}) {
    Tensor blob(Dtype::kU8, {bytes});
    std::fill_n(blob.mutable_as<uint8_t>(), bytes, static_cast<uint8_t>(bytes % 251));
    hashes.push_back(store.Put(blob));
  }
  const std::byte* const large = store.Bytes(hashes.back())->raw().data();
  store.LieTogether();
  EXPECT_EQ(store.Bytes(hashes.back())->raw().data(), large);
  std::vector<uintptr_t> places;
  for (const std::string& hash : hashes) {
    const Tensor blob = *store.Bytes(hash);
    EXPECT_EQ(BlobStore().Put(blob), hash);
    const auto at = reinterpret_cast<uintptr_t>(blob.raw().data());
    EXPECT_EQ(at % (blob.bytes() < kLeastPhasedBytes ? 64 : kPhasePeriodBytes), 0u);
    if (blob.bytes() < kHugePageBytes) places.push_back(at);
  }
  EXPECT_LT(std::ranges::max(places) - std::ranges::min(places), size_t{3} << 20);
}

TEST_F(BlobTest, DamageIsSeen) {
  BlobStore store;
  const std::string hash = store.Put(Numbers());
  ASSERT_TRUE(store.Save(directory_).ok());
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/" + hash, std::string(24, 'x')).ok());
  EXPECT_EQ(BlobStore::Load(hash, directory_).status().what(), "its bytes have another hash");
  fs::remove(directory_ + "/" + hash);
  fs::create_symlink("/etc/passwd", directory_ + "/" + hash);
  EXPECT_FALSE(BlobStore::Load(hash, directory_).ok());
  fs::remove(directory_ + "/" + hash);
  fs::create_directory(directory_ + "/" + hash);
  EXPECT_FALSE(BlobStore::Load(hash, directory_).ok());
}

}  // namespace
}  // namespace weft
