#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace weft {
namespace {

// On both sides of the size from which blocks are mapped.
TEST(AllocateZeroed, AlignedZeroedAndWritable) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{2'097'151},
                              int64_t{2'097'152}, int64_t{2'097'153}, int64_t{9'000'001}}) {
    const auto memory = AllocateZeroed(bytes);
    ASSERT_NE(memory, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0U) << bytes;
    auto* const data = static_cast<uint8_t*>(memory.get());
    EXPECT_TRUE(std::all_of(data, data + bytes, [](uint8_t b) { return b == 0; })) << bytes;
    std::fill(data, data + bytes, uint8_t{0xff});
  }
}

TEST(AllocateZeroed, LargeOnesBeginAHugePage) {
  const auto memory = AllocateZeroed(int64_t{1} << 22);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % (1U << 21), 0U);
}

// Whoever fetches ahead finds pages behind a block: those that were never written count as absent.
TEST(Allocate, PagesFollowALargeBlock) {
  constexpr uintptr_t kPage = 4096;
  for (const int64_t bytes : {int64_t{32} << 10, int64_t{131'072}, int64_t{2'097'152 - 64},
                              int64_t{2'097'152}, int64_t{9'000'001}}) {
    for (const auto& block : {AllocateZeroed(bytes), AllocateUnset(bytes)}) {
      const auto end = reinterpret_cast<uintptr_t>(block.get()) + static_cast<uintptr_t>(bytes);
      const uintptr_t first = end / kPage * kPage;
      std::vector<unsigned char> present((end + kReadableBehindBytes - 1 - first) / kPage + 1);
      ASSERT_EQ(::mincore(reinterpret_cast<void*>(first), present.size() * kPage, present.data()),
                0);
      EXPECT_TRUE(std::ranges::all_of(present, [](unsigned char p) { return (p & 1) != 0; }))
          << bytes;
    }
  }
}

// A result never begins a little behind an input.
TEST(AllocateUnset, LargeBlocksHavePhases) {
  for (const int64_t bytes : {int64_t{32} << 10, int64_t{100'000}, int64_t{5} << 20}) {
    for (int turn = 0; turn < 2; ++turn) {  // the second is a block that was given back
      EXPECT_EQ(reinterpret_cast<uintptr_t>(AllocateZeroed(bytes).get()) % 4096, 0U) << bytes;
      const auto result = AllocateUnset(bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(result.get()) % 4096, 3072U) << bytes;
      std::memset(result.get(), 0xff, static_cast<size_t>(bytes));
    }
  }
}

TEST(AllocateUnset, HandsOutAgainWhatWasGivenBack) {
  constexpr int64_t kBytes = int64_t{3} << 20;
  const void* const first = AllocateUnset(kBytes).get();
  const auto smaller = AllocateUnset(kBytes - 4096), other = AllocateUnset(kBytes);
  EXPECT_EQ(smaller.get(), first);
  EXPECT_NE(other.get(), first);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(other.get()) % 64, 0U);
}

// Of a block, in KiB, by the kernel's account of the mapping that holds it.
int64_t Lent(const void* block) {
  std::ifstream maps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first, &end) == 2)
      is_it = reinterpret_cast<uintptr_t>(block) - first < end - first;
    else if (is_it && line.starts_with("LazyFree:"))
      return std::stoll(line.substr(9));
  }
  return -1;
}

TEST(AllocateUnset, LendsThePagesOfWhatIsLarge) {
  constexpr int64_t kBytes = int64_t{80} << 20;
  const void* first = nullptr;
  {
    const auto large = AllocateUnset(kBytes);
    ASSERT_NE(large, nullptr);
    std::memset(large.get(), 0xff, kBytes);
    first = large.get();
    EXPECT_EQ(Lent(first), 0);
  }
  EXPECT_EQ(Lent(first), kBytes >> 10);
  const auto again = AllocateUnset(kBytes);
  EXPECT_EQ(again.get(), first);
  std::memset(again.get(), 0, kBytes);
  EXPECT_EQ(Lent(first), 0);
}

TEST(AllocateUnset, KeepsNoMoreThanItsShare) {
  constexpr int64_t kBytes = int64_t{1100} << 20;
  {
    const auto large = AllocateUnset(kBytes);
    ASSERT_NE(large, nullptr);
    std::memset(large.get(), 0xff, 4096);
  }
  // Had it been kept, it would come back as it was.
  const auto again = AllocateUnset(kBytes);
  EXPECT_EQ(*static_cast<const uint8_t*>(again.get()), 0);
}

TEST(AllocateUnset, NullIfThereIsNone) { EXPECT_EQ(AllocateUnset(int64_t{1} << 60), nullptr); }

TEST(AllocateZeroed, NullIfThereIsNone) { EXPECT_EQ(AllocateZeroed(int64_t{1} << 60), nullptr); }

}  // namespace
}  // namespace weft
