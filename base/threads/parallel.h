// Independent work on all processors.
#pragma once

#include <cstddef>
#include <functional>

namespace weft {

// Calls body(0) to body(count - 1) in no order, on as many threads as the process may use, and
// returns when all have; of what they throw, one is thrown again.
void InParallel(size_t count, const std::function<void(size_t)>& body);

// The same on the threads of the arena that the caller runs in, such as a team's: they are near.
void InArena(size_t count, const std::function<void(size_t)>& body);

// How many threads the arena has that the caller runs in, such as a team's.
int ThreadsOfArena();

}  // namespace weft
