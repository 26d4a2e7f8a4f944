// Memory for bulk data: tensors, whole files, arenas.
#pragma once

#include <cstdint>
#include <memory>

namespace weft {

// Zeroed and aligned to 64 bytes; null when there is none. A large block costs nothing until it is
// written, and lies in huge pages where the kernel grants them: streaming weights through pages of
// 4 KiB misses the TLB at each, stops the hardware's prefetchers at each, and faults once for each.
std::shared_ptr<void> AllocateZeroed(int64_t bytes);
// The same with any contents, for what is written as a whole before it is read: large blocks that
// were given back are handed out again, whose pages need not be found and cleared once more. Beyond
// 64 MiB such blocks are the kernel's to take if it runs short; beyond 1 GiB they are freed.
std::shared_ptr<void> AllocateUnset(int64_t bytes);

}  // namespace weft
