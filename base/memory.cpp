#include "base/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <vector>

namespace weft {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLeastPhased = kLeastPhasedBytes;
constexpr size_t kResultPhase = 3072;
constexpr size_t kHugePage = kHugePageBytes;
constexpr size_t kBehind = kReadableBehindBytes;
constexpr size_t kPage = 4096;

// A page that was never written has no entry in the tables that a processor could keep.
void TouchPages(void* begin, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kPage) static_cast<volatile char*>(begin)[at] = 0;
  static_cast<volatile char*>(begin)[bytes - 1] = 0;
}

std::shared_ptr<void> FromHeap(size_t bytes) {
  const bool is_large = bytes >= kLeastPhased;
  const size_t align = is_large ? size_t{kPhasePeriodBytes} : kLine;
  const size_t whole = (bytes / kLine + 1) * kLine + (is_large ? kBehind : 0);
  size_t padded = whole + align;
  void* block = std::calloc(padded, 1);
  if (block == nullptr) return nullptr;
  std::shared_ptr<void> owner(block, std::free);
  void* const first = std::align(align, whole, block, padded);
  if (is_large) TouchPages(static_cast<char*>(first) + bytes, kBehind);
  return {owner, first};
}

std::shared_ptr<void> FromKernel(size_t bytes) {
  const size_t mapped = bytes + kBehind + kHugePage;  // of which a boundary is within
  void* memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::shared_ptr<void> owner(memory, [mapped](void* p) { ::munmap(p, mapped); });
  size_t space = mapped;
  void* first = std::align(kHugePage, bytes + kBehind, memory, space);
  ::madvise(first, bytes, MADV_HUGEPAGE);  // where there are none, small ones do
  TouchPages(static_cast<char*>(first) + bytes, kBehind);
  return {owner, first};
}

std::shared_ptr<void> FromEither(size_t bytes) {
  return bytes < kHugePage ? FromHeap(bytes) : FromKernel(bytes);
}

// Blocks that nobody uses, those given back last at the end.
class Kept {
 public:
  struct Block {
    std::shared_ptr<void> memory;
    size_t bytes = 0;
  };

  // The smallest that is large enough and not four times as large; empty if there is none.
  Block Take(size_t bytes) {
    const std::scoped_lock lock(mutex_);
    auto best = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      const bool fits = it->bytes >= bytes && it->bytes / 4 < bytes;
      if (fits && (best == blocks_.end() || it->bytes < best->bytes)) best = it;
    }
    if (best == blocks_.end()) return {};
    Block block = std::move(*best);
    blocks_.erase(best);
    total_ -= block.bytes;
    return block;
  }

  void Put(Block block) {
    std::vector<Block> dropped;  // freed when the lock is
    const std::scoped_lock lock(mutex_);
    if (total_ + block.bytes > kMostOwn && !Lend(block)) {
      dropped.push_back(std::move(block));
      return;
    }
    total_ += block.bytes;
    blocks_.push_back(std::move(block));
    while (total_ > kMostBytes || blocks_.size() > kMostBlocks) {
      total_ -= blocks_.front().bytes;
      dropped.push_back(std::move(blocks_.front()));
      blocks_.erase(blocks_.begin());
    }
  }

 private:
  static constexpr size_t kMostOwn = size_t{64} << 20, kMostBytes = size_t{1} << 30;
  static constexpr size_t kMostBlocks = 64;

  // From here on a kernel that is short of memory may take the pages, until they are written again.
  static bool Lend(const Block& block) {
    return block.bytes >= kHugePage && ::madvise(block.memory.get(), block.bytes, MADV_FREE) == 0;
  }

  std::mutex mutex_;
  std::vector<Block> blocks_;
  size_t total_ = 0;
};

Kept& KeptBlocks() {
  static Kept* const kept = new Kept;  // outlives whatever is given back last
  return *kept;
}

}  // namespace

std::shared_ptr<void> AllocateZeroed(int64_t bytes) {
  return FromEither(static_cast<size_t>(bytes));
}

std::shared_ptr<void> AllocateUnset(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (size < kLeastPhased) return FromHeap(size);  // clearing costs less than looking
  const size_t whole = size + kResultPhase;
  Kept::Block block = KeptBlocks().Take(whole);
  if (block.memory == nullptr) block = {FromEither(whole), whole};
  if (block.memory == nullptr) return nullptr;
  void* const data = static_cast<char*>(block.memory.get()) + kResultPhase;
  return {data, [block](void*) { KeptBlocks().Put(block); }};
}

}  // namespace weft
