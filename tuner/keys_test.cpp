// What equal groups have in common, whatever their names.
#include "tuner/keys.h"

#include <gtest/gtest.h>

#include "tuner/testing.h"

namespace weft::tuner {
namespace {

using polyhedral::ScheduleRequest;

// The same product with other names of tensors, statements and indices; an operand that is no
// constant is copied, by a statement of its own.
struct Group {
  Group(const std::string& text, const char* line)
      : program(testing::Parsed(text)),
        choice(polyhedral::ParseChoices(line, "test.choices")->at(0)) {}
  ScheduleRequest Request() const { return {.program = &program, .target = {.threads = 2}}; }
  tc::Program program;
  polyhedral::Choice choice;
};

class KeysTest : public ::testing::Test {
 protected:
  const Group one_{
      "def f(float(64, 32) a, float(48, 32) b) -> (c) { c(i, j) +=! a(i, k) * b(j, k) }",
      "f: cluster b_packed | cluster c | order i j | parallel i | inner k | pack b ba"};
  const Group other_{
      "def fc1(float(64, 32) x, float(48, 32) w) -> (y) { y(m, n) +=! x(m, h) * w(n, h) }",
      "fc1: cluster w_packed | cluster y | order m n | parallel m | inner h | pack w ba"};
};

TEST_F(KeysTest, NamesDoNotCount) {
  const ScheduleRequest one = one_.Request(), other = other_.Request();
  EXPECT_EQ(KeyOf(one, one_.choice), KeyOf(other, other_.choice));
  EXPECT_EQ(AloneKeyOf(one, one_.choice), AloneKeyOf(other, other_.choice));
  EXPECT_EQ(BestKeyOf(one), BestKeyOf(other));
}

TEST_F(KeysTest, WhatIsAllowedCounts) {
  ScheduleRequest request = one_.Request();
  const TuningKey key = BestKeyOf(request);
  request.flushes = !request.flushes;
  EXPECT_NE(BestKeyOf(request), key);
  request = one_.Request();
  request.streams = !request.streams;
  EXPECT_NE(BestKeyOf(request), key);
}

TEST_F(KeysTest, RecordsOfDifferentKindsAreApart) {
  const ScheduleRequest request = one_.Request();
  const polyhedral::Choice choice = one_.choice;
  EXPECT_NE(KeyOf(request, choice), AloneKeyOf(request, choice));
  EXPECT_NE(KeyOf(request, choice), BestKeyOf(request));
  EXPECT_EQ(BestKeyOf(request).choice, kBestChoice);
}

}  // namespace
}  // namespace weft::tuner
