// The best choice of a group travels to groups that are alike, and to no others.
#include "tuner/best.h"

#include "tuner/keys.h"
#include "tuner/testing.h"

namespace weft::tuner {
namespace {

using polyhedral::Choice;
using polyhedral::ScheduleRequest;

constexpr const char* kOne =
    "def f(float(64, 32) a, float(48, 32) b) -> (c) { c(i, j) +=! a(i, k) * b(j, k) }";
constexpr const char* kAlike =
    "def fc1(float(64, 32) x, float(48, 32) w) -> (y) { y(m, n) +=! x(m, h) * w(n, h) }";
constexpr const char* kLarger =
    "def f(float(64, 32) a, float(49, 32) b) -> (c) { c(i, j) +=! a(i, k) * b(j, k) }";
constexpr const char* kChoice =
    "f: cluster b_packed | cluster c | order i j | parallel i | inner k | pack b ba";

class BestTest : public ::testing::Test {
 protected:
  static ScheduleRequest RequestOf(const tc::Program& program) {
    return {.program = &program, .target = {.threads = 2}};
  }
  void Store(bool correct) {
    const auto choices = polyhedral::ParseChoices(kChoice, "test.choices");
    ASSERT_TRUE(choices.ok());
    StoreBest(RequestOf(one_), choices->front(),
              {.median_us = 3, .low_us = 2, .high_us = 4, .samples = 9, .correct = correct}, *db_);
  }
  // As if it came from a file of somebody else.
  void Plant(const std::string& note) {
    db_->Store(BestKeyOf(RequestOf(one_)), {.samples = 9, .note = note});
  }

  const tc::Program one_ = testing::Parsed(kOne), alike_ = testing::Parsed(kAlike),
                    larger_ = testing::Parsed(kLarger);
  std::unique_ptr<TuningDb> db_ = *TuningDb::Open(":memory:");
};

TEST_F(BestTest, GroupsThatAreAlikeHaveIt) {
  EXPECT_FALSE(FindBest(RequestOf(one_), *db_));
  Store(true);
  const auto one = FindBest(RequestOf(one_), *db_), alike = FindBest(RequestOf(alike_), *db_);
  ASSERT_TRUE(one && alike);
  EXPECT_EQ(*one, polyhedral::ParseChoices(kChoice, "test.choices")->front());
  EXPECT_EQ(alike->group, "fc1");
  EXPECT_EQ(alike->clusters[1].order, (std::vector<std::string>{"m", "n"}));
  EXPECT_EQ(alike->packs[0].tensor, "w");
  EXPECT_FALSE(FindBest(RequestOf(larger_), *db_));
}

TEST_F(BestTest, WrongOnesAreNot) {
  Store(false);
  EXPECT_FALSE(FindBest(RequestOf(one_), *db_));
}

TEST_F(BestTest, ADatabaseMayHoldAnything) {
  for (const char* note : {"", "f", "f: cluster", "f: cluster nothing | order i", "\xff",
                           "f: cluster c\ng: cluster c", "f: pack q ba"}) {
    Plant(note);
    EXPECT_FALSE(FindBest(RequestOf(one_), *db_)) << note;
  }
}

TEST_F(BestTest, BuildsThatGoByItAreToldApart) {
  const std::string before = db_->BestChoices();
  Store(true);
  EXPECT_NE(db_->BestChoices(), before);
}

}  // namespace
}  // namespace weft::tuner
