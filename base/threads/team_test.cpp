#include "base/threads/team.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "base/target.h"

namespace weft {
namespace {

TEST(Barrier, NobodyLeavesBeforeAllArrive) {
  for (uint32_t size : {1u, 2u, 5u}) {
    Barrier barrier(size);
    std::vector<int> round(size, 0);
    std::atomic<int> errors = 0;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        for (int i = 1; i <= 200; ++i) {
          round[rank] = i;
          barrier.Wait();
          for (int other : round) errors += other != i;
          Barrier::WaitOn(&barrier);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(errors, 0);
  }
}

// Runs `team` many times with barriers; returns how often it got all its threads.
int Exercise(Team& team, int rounds) {
  int complete = 0;
  for (int i = 0; i < rounds; ++i) {
    std::vector<std::atomic<int>> visits(team.size());
    std::atomic<uint32_t> sum = 0, seen_size = 0;
    std::atomic<int> errors = 0;
    const std::thread::id caller = std::this_thread::get_id();
    team.Run([&](uint32_t rank, uint32_t size) {
      if (rank >= size || size > team.size()) ++errors;
      if (rank == 0 && std::this_thread::get_id() != caller) ++errors;
      if (rank == 0) seen_size = size;
      ++visits[rank];
      sum += rank + 1;
      team.barrier().Wait();
      if (size != seen_size || sum != size * (size + 1) / 2) ++errors;
      team.barrier().Wait();
    });
    EXPECT_EQ(errors, 0);
    for (uint32_t rank = 0; rank < team.size(); ++rank)
      EXPECT_EQ(visits[rank], rank < seen_size ? 1 : 0);
    complete += seen_size == team.size();
  }
  return complete;
}

TEST(Team, EveryRankRunsOnce) {
  for (uint32_t size : {1u, 2u, 3u}) {
    const auto team = Team::Create(size);
    ASSERT_TRUE(team.ok()) << team.status().ToString();
    EXPECT_EQ((*team)->size(), size);
    // A team is whole when the machine has that many processors to spare; on a busy one it may take
    // a while until that happens, so it is waited for, within reason.
    int complete = 0;
    for (int round = 0; round < 50 && complete == 0; ++round) complete = Exercise(**team, 200);
    if (size == 1)
      EXPECT_EQ(complete, 200);
    else if (size > std::thread::hardware_concurrency())
      continue;
    else if (complete == 0)
      GTEST_SKIP() << "the machine never had " << size << " processors to spare";
  }
}

TEST(Team, MoreThreadsThanProcessors) {
  const auto team = Team::Create(4 * std::max(1u, std::thread::hardware_concurrency()));
  Exercise(**team, 50);
}

TEST(Team, BusyMachine) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> burners;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    burners.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  Exercise(**Team::Create(3), 50);
  stop = true;
  for (std::thread& burner : burners) burner.join();
}

// All workers of TBB are held by another arena: the team runs with fewer, and does not hang.
TEST(Team, PoolTakenByOthers) {
  const auto holder = Team::Create(8 * std::max(1u, std::thread::hardware_concurrency()));
  const auto team = Team::Create(2);
  std::atomic<bool> is_held = false, stop = false;
  std::thread holding([&] {
    (*holder)->Run([&](uint32_t, uint32_t) {
      is_held = true;
      while (!stop) std::this_thread::yield();
    });
  });
  while (!is_held) std::this_thread::yield();
  Exercise(**team, 20);
  stop = true;
  holding.join();
}

TEST(Team, CallersTakeTurns) {
  const auto team = Team::Create(2);
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) callers.emplace_back([&] { Exercise(**team, 50); });
  for (std::thread& caller : callers) caller.join();
}

TEST(Team, WhatIsLittleRunsAlone) {
  const auto team = Team::Create(2);
  for (int i = 0; i < 100; ++i)
    (*team)->Run(
        [&](uint32_t rank, uint32_t size) {
          EXPECT_EQ(rank, 0u);
          EXPECT_EQ(size, 1u);
          (*team)->barrier().Wait();  // of one
        },
        0.1);
}

// A worker that slept is woken beside the caller, and not where the caller is. The kernel may still
// move the caller after the worker has looked.
TEST(Team, RanksHaveProcessorsOfTheirOwn) {
  if (UsableThreads() < 2) GTEST_SKIP() << "there is one processor";
  const auto team = Team::Create(2);
  int complete = 0, together = 0;
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 2));
    std::atomic<int> cpus[2] = {-1, -1};
    (*team)->Run([&](uint32_t rank, uint32_t) { cpus[rank] = sched_getcpu(); });
    complete += cpus[1] >= 0;
    together += cpus[0] == cpus[1];
  }
  EXPECT_LE(together, complete / 4);
}

TEST(Team, LibraryStepsUseTheArena) {
  const auto team = Team::Create(2);
  int concurrency = 0;
  (*team)->RunInArena([&] { concurrency = tbb::this_task_arena::max_concurrency(); });
  EXPECT_EQ(concurrency, 2);
}

TEST(Team, RefusesOddSizes) {
  EXPECT_EQ(Team::Create(0).status().code(), Code::kUsage);
  EXPECT_EQ(Team::Create(1u << 20).status().code(), Code::kUsage);
}

}  // namespace
}  // namespace weft
