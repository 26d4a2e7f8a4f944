// What is asked of a call before it is matched.
#pragma once

#include <string>

#include "fallback/call.h"

namespace weft::fallback::native {

// Why the kernel would refuse a call whatever its operands hold; empty if it takes it.
std::string WhyNot(const LibraryCall& call);

}  // namespace weft::fallback::native
