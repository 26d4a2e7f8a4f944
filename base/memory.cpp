#include "base/memory.h"

#include <sys/mman.h>

#include <cstdlib>

namespace weft {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{1} << 21;  // of x86-64 and of most arm64 kernels

std::shared_ptr<void> FromHeap(size_t bytes) {
  const size_t whole = (bytes / kLine + 1) * kLine;
  size_t padded = whole + kLine;
  void* block = std::calloc(padded, 1);
  if (block == nullptr) return nullptr;
  std::shared_ptr<void> owner(block, std::free);
  return {owner, std::align(kLine, whole, block, padded)};
}

std::shared_ptr<void> FromKernel(size_t bytes) {
  const size_t mapped = bytes + kHugePage;  // there is a boundary of a huge page within
  void* memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::shared_ptr<void> owner(memory, [mapped](void* p) { ::munmap(p, mapped); });
  size_t space = mapped;
  void* first = std::align(kHugePage, bytes, memory, space);
  ::madvise(first, bytes, MADV_HUGEPAGE);  // where there are none, small ones do
  return {owner, first};
}

}  // namespace

std::shared_ptr<void> AllocateZeroed(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  return size < kHugePage ? FromHeap(size) : FromKernel(size);
}

}  // namespace weft
