#include "base/threads/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace weft {
namespace {

TEST(InParallel, EachOnce) {
  for (const size_t count : {0, 1, 7, 1000}) {
    std::vector<std::atomic<int>> calls(count);
    InParallel(count, [&](size_t i) { ++calls[i]; });
    InArena(count, [&](size_t i) { ++calls[i]; });
    for (const auto& c : calls) EXPECT_EQ(c, 2);
  }
}

TEST(InParallel, PassesOnWhatIsThrown) {
  EXPECT_THROW(InParallel(100,
                          [](size_t i) {
                            if (i == 42) throw std::runtime_error("no");
                          }),
               std::runtime_error);
}

}  // namespace
}  // namespace weft
