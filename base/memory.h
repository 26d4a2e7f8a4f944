// Memory for bulk data: tensors, whole files, arenas.
#pragma once

#include <cstdint>
#include <memory>

namespace weft {

// A processor takes a load for one of what was just stored where both addresses agree in their last
// 12 bits, and makes it wait. A kernel that writes some bytes behind where it reads, in this sense,
// meets that in every round: measured on Zen 4, a normalization of rows takes 3 times as long if
// its output begins 64 to 512 bytes after its input, modulo 4096. So large blocks have phases: what
// is read by a plan begins at 0, what it gives at 3072, and what lies between at others
// (plan/memory.cpp), no two of them so close behind each other.
inline constexpr int64_t kLeastPhasedBytes = int64_t{32} << 10, kPhasePeriodBytes = 4096;

// Kernels fetch ahead of what they read, ours and a library's, and at its end what lies behind.
// Where no page does, each of these fetches searches the tables of pages in vain: measured on Zen
// 1, a product of [2048, 512] and [512, 64] by oneDNN takes 1.2 to 1.35 times as long. So behind
// each large block there are pages that were written.
inline constexpr int64_t kReadableBehindBytes = int64_t{16} << 10;

// Of x86-64 and of most arm64 kernels. Blocks from this size on lie in such pages.
inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// Zeroed and aligned to 64 bytes, or to 4096 from 32 KiB on; null when there is none. A large block
// costs nothing until it is written, but for the pages behind it, and lies in huge pages where the
// kernel grants them: streaming weights through pages of 4 KiB misses the TLB at each, stops the
// hardware's prefetchers at each, and faults once for each.
std::shared_ptr<void> AllocateZeroed(int64_t bytes);
// Any contents, for results: what is written as a whole before it is read; from 32 KiB on it begins
// 3072 bytes behind a multiple of 4096. Large blocks that were given back are handed out again,
// whose pages need not be found and cleared once more. Beyond 64 MiB such blocks are the kernel's
// to take if it runs short; beyond 1 GiB they are freed.
std::shared_ptr<void> AllocateUnset(int64_t bytes);

}  // namespace weft
