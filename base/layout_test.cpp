#include "base/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace weft {
namespace {

Layout RandomLayout(std::mt19937& random, int32_t rank) {
  Layout layout = Layout::Plain(rank);
  std::ranges::shuffle(layout.axes, random);
  for (int32_t axis = 0; axis < rank; ++axis) {
    if (random() % 2) continue;
    const auto outer = std::ranges::find(layout.axes, axis, &Layout::Axis::axis);
    const size_t room = layout.axes.end() - outer;
    layout.axes.insert(outer + 1 + random() % room,
                       {.axis = axis, .block = 2 + static_cast<int64_t>(random() % 4)});
  }
  if (rank > 0 && random() % 2) layout.row_pad_elems = random() % 5;
  return layout;
}

bool Advance(std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (++index[axis] < shape[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

TEST(Layout, OffsetsAreDistinctAndInside) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const int32_t rank = random() % 5;
    const Layout layout = RandomLayout(random, rank);
    std::vector<int64_t> shape(rank);
    for (int64_t& extent : shape) extent = 1 + random() % 5;
    const int64_t size = AllocElems(layout, shape);
    std::vector<Affine> vars;
    for (int32_t axis = 0; axis < rank; ++axis) vars.push_back(Affine::OfVar(axis));
    const Affine formula = OffsetOf(layout, shape, vars);
    std::set<int64_t> seen;
    std::vector<int64_t> index(rank, 0);
    do {
      const int64_t offset = OffsetOf(layout, shape, index);
      EXPECT_TRUE(offset >= 0 && offset < size) << Print(layout);
      EXPECT_TRUE(seen.insert(offset).second) << Print(layout) << " maps two indices to " << offset;
      EXPECT_EQ(formula.Eval(index), offset);
    } while (Advance(index, shape));
  }
}

TEST(Layout, PrintReadsBack) {
  std::mt19937 random(8);
  for (int round = 0; round < 1000; ++round) {
    const Layout layout = RandomLayout(random, random() % 7);
    const Result<Layout> read = ParseLayout(Print(layout));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(*read, layout) << Print(layout);
  }
}

TEST(Layout, Examples) {
  EXPECT_TRUE(Layout::Plain(4).IsPlain());
  EXPECT_EQ(Print(Layout::Plain(4)), "abcd");
  EXPECT_EQ(Print(Layout::Plain(0)), "-");
  EXPECT_EQ(Print(Layout::Permuted(std::vector<int32_t>{0, 2, 3, 1})), "acdb");
  const Layout blocked = *ParseLayout("aBcd16b");
  EXPECT_EQ(blocked.rank(), 4u);
  EXPECT_FALSE(blocked.IsPlain());
  const std::vector<int64_t> shape = {2, 20, 5, 7};
  EXPECT_EQ(PhysicalStrides(blocked, shape),
            (std::vector<int64_t>{2 * 5 * 7 * 16, 5 * 7 * 16, 7 * 16, 16, 1}));
  EXPECT_EQ(AllocElems(blocked, shape), 2 * 2 * 5 * 7 * 16);
  EXPECT_EQ(PhysicalStrides(*ParseLayout("acdb+16"), shape),
            (std::vector<int64_t>{5 * 7 * 36, 7 * 36, 36, 1}));
  EXPECT_EQ(AllocElems(Layout::Plain(0), {}), 1);
  EXPECT_EQ(AllocElems(Layout::Plain(2), std::vector<int64_t>{0, INT64_MAX}), 0);
}

TEST(Layout, SizesSaturate) {
  const std::vector<int64_t> shape = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_EQ(AllocElems(Layout::Plain(2), shape), INT64_MAX);
  EXPECT_EQ(AllocElems(*ParseLayout("aB9000000000000000000b"), shape), INT64_MAX);
  EXPECT_EQ(AllocElems(*ParseLayout("ab+9223372036854775807"), std::vector<int64_t>{3, 3}),
            INT64_MAX);
}

TEST(Layout, Refuses) {
  for (const char* text : {"",
                           "ac",
                           "aa",
                           "aB",
                           "ab16b",
                           "aB1b",
                           "aB0b",
                           "aB16",
                           "aB16B",
                           "a16bB",
                           "ab+",
                           "ab+0",
                           "ab+-1",
                           "ab+x",
                           "-+1",
                           "+1",
                           "aB16b4b",
                           "a b",
                           "aB99999999999999999999b",
                           "a\x01",
                           "é"}) {
    EXPECT_FALSE(ParseLayout(text).ok()) << text;
  }
  EXPECT_FALSE(ParseLayout(std::string(100000, 'a')).ok());
  EXPECT_EQ(ParseLayout("aB").status().ToString(),
            "layout \"aB\": found 0 blocks of axis 'b'; an axis is a capital if and only if it has "
            "one block");
}

}  // namespace
}  // namespace weft
