#include "base/threads/parallel.h"

#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include "base/target.h"

namespace weft {

void InParallel(size_t count, const std::function<void(size_t)>& body) {
  tbb::task_arena arena(UsableThreads());
  arena.execute([&] { InArena(count, body); });
}

void InArena(size_t count, const std::function<void(size_t)>& body) {
  // One at a time: pieces of work may differ by orders of magnitude.
  tbb::parallel_for(
      tbb::blocked_range<size_t>(0, count, 1),
      [&](const auto& range) {
        for (size_t i = range.begin(); i < range.end(); ++i) body(i);
      },
      tbb::simple_partitioner());
}

int ThreadsOfArena() { return tbb::this_task_arena::max_concurrency(); }

}  // namespace weft
