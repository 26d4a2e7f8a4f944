// Every choice that comes out of a space has a legal schedule, and computes what the program says.
#include "tuner/space.h"

#include <gtest/gtest.h>

#include <set>

#include "codegen/reference/interpret.h"
#include "polyhedral/loops/loop_nest.h"
#include "tc_lang/bind.h"
#include "tuner/testing.h"

namespace weft::tuner {
namespace {

using polyhedral::Choice;
using polyhedral::ScheduleRequest;
using testing::Parsed;

constexpr const char* kPrograms[] = {
    "def f(float(24, 32) a, float(32, 40) b) -> (c, d) {"
    " c(i, j) +=! a(i, k) * b(k, j)  d(i, j) = max(c(i, j), 0.0) }",
    "def f(float(2, 6, 10, 10) x, float(12, 6, 3, 3) w) -> (y) {"
    " y(n, k, h, v) +=! x(n, c, h + r, v + s) * w(k, c, r, s) where h in 0:8, v in 0:8 }",
    "def f(float(16, 48) x) -> (y) { m(i) max=! x(i, j)  e(i, j) = exp(x(i, j) - m(i))"
    "  s(i) +=! e(i, j)  y(i, j) = e(i, j) / s(i) }",
};

// A walk of moves and crossings from the first proposal, legal at each step.
std::vector<Choice> Walk(const Space& space, int steps, uint64_t seed) {
  std::vector<Choice> seen = space.Constructions(4);
  EXPECT_FALSE(seen.empty());
  Random random(seed);
  for (int i = 0; i < steps; ++i) {
    const Choice &at = seen[random() % seen.size()], &other = seen[random() % seen.size()];
    const auto next = i % 5 == 4 ? space.Cross(at, other, random) : space.Mutate(at, random);
    if (next) seen.push_back(*next);
  }
  return seen;
}

// A number has no axis to move.
TEST(Space, AProgramWithoutAxesIsNoTrap) {
  const tc::Program program = Parsed("def f(float x) -> (y) { y = exp(x) }");
  const ScheduleRequest request{.program = &program, .target = {.threads = 2}};
  const Space space(request);
  const std::vector<Choice> choices = space.Constructions(4);
  ASSERT_FALSE(choices.empty());
  Random random(1);
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(space.Mutate(choices[0], random));
}

TEST(Space, WhatIsMadeIsLegalAndRight) {
  for (const char* const text : kPrograms) {
    const tc::Program program = Parsed(text);
    std::vector<std::string> constants;
    if (tc::Inputs(program).size() > 1) constants.push_back(program[tc::Inputs(program)[1]].name);
    const ScheduleRequest request{
        .program = &program, .constants = constants, .target = {.threads = 2}};
    const Space space(request);
    const std::vector<Choice> walk = Walk(space, 40, 7);
    EXPECT_GT(walk.size(), 10u) << text;
    const auto first = polyhedral::Schedule(request, &walk[0]);
    ASSERT_TRUE(first.ok()) << first.status().ToString();
    const std::vector<double> right = testing::Interpreted(program, first->nest);
    for (const Choice& choice : walk) {
      const auto scheduled = polyhedral::Schedule(request, &choice);
      if (!scheduled.ok()) continue;  // legal, and still not to be lowered
      const std::vector<double> found = testing::Interpreted(program, scheduled->nest);
      ASSERT_EQ(found.size(), right.size());
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], right[i], 1e-4) << polyhedral::Print(choice);
    }
  }
}

TEST(Space, MostOfItIsLowered) {
  const tc::Program program = Parsed(kPrograms[0]);
  const ScheduleRequest request{.program = &program, .constants = {"b"}, .target = {.threads = 2}};
  const std::vector<Choice> walk = Walk(Space(request), 60, 3);
  const auto lowered = std::ranges::count_if(
      walk, [&](const Choice& choice) { return polyhedral::Schedule(request, &choice).ok(); });
  EXPECT_GT(lowered * 10, std::ssize(walk) * 9);
}

// Each kind of decision differs somewhere on the way.
TEST(Space, EveryDecisionMoves) {
  const tc::Program program = Parsed(kPrograms[0]);
  const ScheduleRequest request{.program = &program, .constants = {"b"}, .target = {.threads = 2}};
  const std::vector<Choice> walk = Walk(Space(request), 300, 1);
  std::set<std::string> orders, tiles, parallel, inner, unroll, lanes, packs, prefetches, streams;
  for (const Choice& choice : walk) {
    const polyhedral::Cluster& c = choice.clusters[0];
    const auto text = [](polyhedral::Cluster part) {
      return polyhedral::Print(Choice{.group = "f", .clusters = {std::move(part)}});
    };
    orders.insert(text({.order = c.order}));
    tiles.insert(text({.tiles = c.tiles}));
    parallel.insert(std::to_string(c.parallel));
    inner.insert(text({.inner = c.inner}));
    unroll.insert(text({.unroll = c.unroll}));
    lanes.insert(text({.lanes = c.lanes}));
    packs.insert(polyhedral::Print(Choice{.group = "f", .packs = choice.packs}));
    prefetches.insert(std::to_string(choice.prefetches.size()));
    streams.insert(std::to_string(choice.streams.size()));
  }
  for (const auto* const values :
       {&orders, &tiles, &parallel, &inner, &unroll, &lanes, &packs, &prefetches, &streams})
    EXPECT_GT(values->size(), 1u);
}

TEST(Space, ASeedSaysWhatIsMade) {
  const tc::Program program = Parsed(kPrograms[1]);
  const ScheduleRequest request{.program = &program, .target = {.threads = 2}};
  EXPECT_EQ(Walk(Space(request), 20, 5), Walk(Space(request), 20, 5));
  EXPECT_NE(Walk(Space(request), 20, 5), Walk(Space(request), 20, 6));
}

}  // namespace
}  // namespace weft::tuner
