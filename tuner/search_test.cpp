// The search on a machine that is made up, so that the best choice is known.
#include "tuner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tuner/testing.h"

namespace weft::tuner {
namespace {

using polyhedral::Choice;

// Times that a function says, with noise of one percent.
class Machine : public Measurer {
 public:
  explicit Machine(std::function<Timing(const Choice&)> one) : one_(std::move(one)) {}

  Result<std::vector<Timing>> Measure(std::span<const Choice> choices, int64_t rounds) override {
    if (++requests_ > most_) return Internal("the machine is gone");
    std::vector<Timing> timings;
    for (const Choice& choice : choices) {
      Timing timing = one_(choice);
      if (timing.outcome == Outcome::kTimed) {
        const double us = timing.us.at(0);
        timing.us.clear();
        for (int64_t r = 0; r < rounds; ++r)
          timing.us.push_back(us * (1 + static_cast<double>(random_() % 200) * 1e-4));
        runs_ += rounds;
      }
      timings.push_back(std::move(timing));
    }
    return timings;
  }

  int64_t runs_ = 0, requests_ = 0, most_ = INT64_MAX;

 private:
  std::function<Timing(const Choice&)> one_;
  Random random_{1};
};

Timing Takes(double us) { return {.us = {us}}; }

class SearchTest : public ::testing::Test {
 protected:
  Result<SearchResult> Run(Machine& machine, const SearchOptions& options = {.seconds = 1e9}) {
    return Search(space_, start(), machine, options);
  }
  Choice start() const { return space_.Constructions(1).at(0); }

  const tc::Program program_ = testing::Parsed(
      "def f(float(96, 64) a, float(64, 128) b) -> (c) { c(i, j) +=! a(i, k) * b(k, j) }");
  const polyhedral::ScheduleRequest request_{
      .program = &program_, .constants = {"b"}, .target = {.threads = 2}};
  const Space space_{request_};
};

int64_t RowsOf(const Choice& choice) {
  for (const polyhedral::Tile& tile : choice.clusters[0].tiles)
    if (tile.axis == "i") return tile.sizes.back();
  return 1;
}

// What it costs to be far from a tile of so many rows.
double Distance(const Choice& choice, double rows) {
  return std::abs(std::log2(static_cast<double>(RowsOf(choice)) / rows));
}

TEST_F(SearchTest, FindsWhatNoConstructionHas) {
  int64_t rows = 2;  // of a tile: the least that none of them has
  const std::vector<Choice> constructions = space_.Constructions(20);
  const auto has_rows = [&](const Choice& choice) { return RowsOf(choice) == rows; };
  while (std::ranges::any_of(constructions, has_rows)) ++rows;
  Machine machine(
      [&](const Choice& c) { return Takes(100 * (1 + Distance(c, static_cast<double>(rows)))); });
  const auto found = Run(machine, {.most_trials = 100, .seconds = 1e9});
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(RowsOf(found->best), rows);
  EXPECT_LT(found->best_us, found->start_us);
}

TEST_F(SearchTest, FindsWhatAConstructionHas) {
  const Choice last = space_.Constructions(20).back();
  ASSERT_NE(last, start());
  Machine machine([&](const Choice& c) { return Takes(c == last ? 50 : 100); });
  const auto found = Run(machine);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->best, last);
  EXPECT_LE(std::ssize(found->trials), 32);
  EXPECT_EQ(found->stopped, Stopped::kDone);
}

TEST_F(SearchTest, TheStartStaysAmongEquals) {
  Machine machine([](const Choice&) { return Takes(100); });
  const auto found = Run(machine);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->best, start());
  EXPECT_EQ(found->best_us, found->start_us);
  EXPECT_EQ(std::ssize(found->trials), 32);
}

TEST_F(SearchTest, NothingInsideTheNoiseIsTaken) {
  const Choice first = start();
  Machine machine([&](const Choice& c) { return Takes(c == first ? 100 : 99); });
  const auto found = Run(machine);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->best, first);
}

// Fast and wrong is not fast.
TEST_F(SearchTest, OnlyWhatIsTimedCanWin) {
  const Choice first = start();
  for (const Outcome outcome : {Outcome::kWrong, Outcome::kFailed, Outcome::kRefused}) {
    Machine machine([&](const Choice& c) {
      return c == first ? Takes(100) : Timing{.outcome = outcome, .why = "why"};
    });
    const auto found = Run(machine, {.most_trials = 8, .seconds = 1e9});
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->best, first);
    if (outcome == Outcome::kRefused) {
      EXPECT_TRUE(found->trials.empty());
      continue;
    }
    EXPECT_EQ(found->trials.size(), 8u);
    for (const Trial& trial : found->trials) {
      EXPECT_EQ(trial.outcome, outcome);
      EXPECT_EQ(trial.why, "why");
    }
  }
}

// If the best so far fails beside it, nothing is known of a choice, least of all that it takes no
// time.
TEST_F(SearchTest, WhatIsComparedWithNothingIsNotTimed) {
  const Choice first = start();
  int runs = 0;
  Machine machine([&](const Choice& c) {
    if (c == first && ++runs > 1) return Timing{.outcome = Outcome::kFailed, .why = "hung"};
    return Takes(90);
  });
  const auto found = Run(machine, {.most_trials = 4, .seconds = 1e9});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->best, first);
  EXPECT_EQ(found->trials.size(), 4u);
  for (const Trial& trial : found->trials) {
    EXPECT_EQ(trial.outcome, Outcome::kFailed);
    EXPECT_EQ(trial.why, "hung");
  }
}

TEST_F(SearchTest, ClearLosersCostLittle) {
  const Choice first = start();
  const auto runs = [&](double others) {
    Machine machine([&](const Choice& c) { return Takes(c == first ? 100 : others); });
    EXPECT_TRUE(Run(machine).ok());
    return machine.runs_;
  };
  EXPECT_LT(runs(200) * 3, runs(110));
}

TEST_F(SearchTest, ASeedSaysWhatIsTried) {
  const auto tried = [&](uint64_t seed) {
    Machine machine([](const Choice& c) { return Takes(100 + 10 * Distance(c, 5)); });
    const auto found = Run(machine, {.seconds = 1e9, .seed = seed});
    EXPECT_TRUE(found.ok());
    std::string text;
    for (const Trial& trial : found->trials) text += polyhedral::Print(trial.choice);
    return text;
  };
  EXPECT_EQ(tried(1), tried(1));
  EXPECT_NE(tried(1), tried(2));
}

TEST_F(SearchTest, StopsWhenAsked) {
  std::atomic<bool> stop = false;
  int asked = 0;
  Machine machine([&](const Choice&) {
    stop = ++asked > 6;
    return Takes(100);
  });
  const auto found = Run(machine, {.seconds = 1e9, .stop = &stop});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->stopped, Stopped::kInterrupted);
  EXPECT_LT(found->trials.size(), 4u);
}

TEST_F(SearchTest, StopsInTime) {
  Machine machine([](const Choice&) { return Takes(100); });
  const auto found = Run(machine, {.seconds = 0});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->stopped, Stopped::kBudget);
  EXPECT_TRUE(found->trials.empty());
}

TEST_F(SearchTest, AStartThatFailsIsAnError) {
  Machine machine([](const Choice&) { return Timing{.outcome = Outcome::kFailed, .why = "hung"}; });
  const auto found = Run(machine);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.status().what().find("hung"), std::string::npos);
}

TEST_F(SearchTest, AMachineThatIsGoneIsAnError) {
  Machine machine([](const Choice&) { return Takes(100); });
  machine.most_ = 5;
  EXPECT_FALSE(Run(machine).ok());
}

}  // namespace
}  // namespace weft::tuner
