// Memory for bulk data: tensors, whole files, arenas.
#pragma once

#include <cstdint>
#include <memory>

namespace weft {

// Zeroed and aligned to 64 bytes; null when there is none. A large block costs nothing until it is
// written, and lies in huge pages where the kernel grants them: streaming weights through pages of
// 4 KiB misses the TLB at each, stops the hardware's prefetchers at each, and faults once for each.
std::shared_ptr<void> AllocateZeroed(int64_t bytes);

}  // namespace weft
