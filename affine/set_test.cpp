#include "affine/set.h"

#include <gtest/gtest.h>

namespace weft::affine {
namespace {

const Affine kX = Affine::OfVar(0), kY = Affine::OfVar(1);

TEST(Set, CountsATriangle) {
  Session session;
  const Interval ranges[] = {{0, 9}, {0, 9}};
  const Set triangle = Set::Box(session, ranges).Where(kX - kY);
  EXPECT_EQ(triangle.Count(), 55);
  EXPECT_EQ(triangle.Max(kX - kY), 9);
  EXPECT_EQ(triangle.Min(kX - kY), 0);
  EXPECT_EQ(triangle.WhereNot(kX - kY).Count(), 45);
}

TEST(Set, KnowsFloors) {
  Session session;
  const Interval ranges[] = {{0, 20}};
  const Set thirds = Set::Box(session, ranges).WhereZero(Mod(kX, 3));
  EXPECT_EQ(thirds.Count(), 7);
  EXPECT_EQ(thirds.Max(FloorDiv(kX, 4)), 4);
  EXPECT_EQ(Set::Box(session, ranges).Minus(thirds).Count(), 14);
  EXPECT_EQ(thirds.IsSubsetOf(Set::Box(session, ranges)), true);
}

TEST(Set, EmptyHasNoSample) {
  Session session;
  const Interval ranges[] = {{0, 3}};
  const Set none = Set::Box(session, ranges).Where(kX - 4);
  EXPECT_EQ(none.IsEmpty(), true);
  EXPECT_FALSE(none.Sample().has_value());
  EXPECT_EQ(Set::Box(session, ranges).Where(kX - 3).Sample(), std::vector<int64_t>{3});
}

TEST(Session, QuotaIsARefusal) {
  Session session(20);
  const Interval ranges[] = {{0, 999}, {0, 999}, {0, 999}};
  Set set = Set::Box(session, ranges);
  for (int k = 2; k < 9; ++k) set = set.WhereNot(Mod(kX * k + kY, 2 * k + 1));
  EXPECT_FALSE(set.Count().has_value());
  ASSERT_TRUE(session.failure().has_value());
  EXPECT_EQ(session.failure()->reason, Reason::kIslQuota);
}

// A set that isl would count for minutes: only the watchdog ends it.
TEST(Session, WatchdogStopsLongWork) {
  Session session(0, 30);
  const Interval ranges[] = {{0, 99999}, {0, 99999}, {0, 99999}};
  const Set set = Set::Box(session, ranges).Where(kX + kY * 3 - 7);
  EXPECT_FALSE(set.Where(Affine::OfVar(2) - kX).Count().has_value());
  ASSERT_TRUE(session.failure().has_value());
  EXPECT_EQ(session.failure()->reason, Reason::kIslTimeout);
  EXPECT_LT(session.elapsed_ms(), 2000);
}

}  // namespace
}  // namespace weft::affine
