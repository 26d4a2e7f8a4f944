#include "driver/background.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

namespace weft::driver {
namespace {

plan::Plan Named(std::string name) {
  plan::Plan plan;
  plan.name = std::move(name);
  return plan;
}

void WaitFor(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(BackgroundBuilds, TheLastOneAskedForIsNext) {
  BackgroundBuilds builds;
  std::atomic<bool> go = false, runs = false;
  std::vector<int> order;
  const auto first = builds.Add([&](const auto&) {
    runs = true;
    WaitFor([&] { return go.load(); });
    return Named("first");
  });
  WaitFor([&] { return runs.load(); });
  const auto numbered = [&](int k) {
    return builds.Add([&order, k](const auto&) {
      order.push_back(k);
      return Named("numbered");
    });
  };
  const auto one = numbered(1), two = numbered(2);
  go = true;
  EXPECT_EQ(first.plan.get()->name, "first");
  EXPECT_TRUE(one.plan.get().ok() && two.plan.get().ok());
  EXPECT_EQ(order, (std::vector<int>{2, 1}));
}

TEST(BackgroundBuilds, WhatNobodyWantsEnds) {
  BackgroundBuilds builds;
  std::atomic<bool> runs = false;
  const auto until_abandoned =
      [&](const std::function<bool()>& is_abandoned) -> Result<plan::Plan> {
    runs = true;
    WaitFor(is_abandoned);
    return Status(Code::kInterrupted, "as it was told");
  };
  std::optional promised = builds.Add(until_abandoned);
  WaitFor([&] { return runs.load(); });
  bool was_built = false;
  std::optional waits = builds.Add([&](const auto&) {
    was_built = true;
    return Named("");
  });
  const auto plan = promised->plan;
  waits.reset();
  promised.reset();
  EXPECT_EQ(plan.get().status().code(), Code::kInterrupted);
  // One that is still wanted comes after, and the end of all ends it.
  runs = false;
  const auto last = builds.Add(until_abandoned);
  WaitFor([&] { return runs.load(); });
  EXPECT_FALSE(was_built);
}

TEST(BackgroundBuilds, NoMemoryIsAStatus) {
  BackgroundBuilds builds;
  const auto promised =
      builds.Add([](const auto&) -> Result<plan::Plan> { throw std::bad_alloc(); });
  EXPECT_EQ(promised.plan.get().status().code(), Code::kLimit);
}

}  // namespace
}  // namespace weft::driver
