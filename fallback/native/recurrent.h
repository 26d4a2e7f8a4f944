// What is asked of the activations of a recurrent operator before it is matched.
#pragma once

#include <string>

#include "fallback/call.h"

namespace weft::fallback::native {

// Why one of them is none that there is, or lacks its parameters; empty if all are there.
std::string WhyNoActivation(const LibraryCall& call);

}  // namespace weft::fallback::native
