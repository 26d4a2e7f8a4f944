#include "partition/regions.h"

#include "partition/testing.h"

namespace weft::partition {
namespace {

Group Of(std::string name, Implementation implementation, std::vector<int> nodes) {
  Group group{.name = std::move(name), .implementation = implementation};
  for (int n : nodes) group.members.push_back({NodeId(static_cast<size_t>(n)), ""});
  if (implementation == Implementation::kVendor) group.library_call = "onednn.matmul";
  return group;
}

constexpr auto kOwn = Implementation::kOwn;
constexpr auto kVendor = Implementation::kVendor;

graph::Graph Chain() {
  return Parsed(R"(graph chain (x: f32[4]) -> (d) {
  a: f32[4] = Relu(x)
  b: f32[4] = Exp(a)
  c: f32[4] = Tanh(b)
  d: f32[4] = Neg(c)
})");
}

TEST(Regions, EachTakesItsCheapest) {
  const graph::Graph graph = Chain();
  const PricedGrouping vendor{
      {.name = "v",
       .groups = {Of("a", kVendor, {0}), Of("b", kVendor, {1}), Of("cd", kVendor, {2, 3})}},
      {5, 5, 5}};
  const PricedGrouping own{
      {.name = "o", .groups = {Of("ab", kOwn, {0, 1}), Of("c", kOwn, {2}), Of("d", kOwn, {3})}},
      {7, 4, 4}};
  const PricedGrouping both[] = {vendor, own};
  const Grouping best = SelectByRegion(graph, both);
  ASSERT_EQ(best.groups.size(), 2U);
  EXPECT_EQ(best.groups[0].name, "ab");  // 7 < 5 + 5
  EXPECT_EQ(best.groups[0].us, 7);
  EXPECT_TRUE(best.groups[0].measured);
  ASSERT_EQ(best.groups[0].rivals.size(), 1U);
  EXPECT_EQ(best.groups[0].rivals[0].kind, "2 onednn.matmul");
  EXPECT_EQ(best.groups[0].rivals[0].us, 10);
  EXPECT_EQ(best.groups[0].rivals[0].refusal->reason, Reason::kMeasuredSlower);
  EXPECT_EQ(best.groups[1].name, "cd");  // 5 < 4 + 4
  EXPECT_TRUE(Verify(best, graph).ok());
}

// What makes a single group of the network leaves a single region, but not between the others.
TEST(Regions, OneGroupOfAllHidesNothing) {
  const graph::Graph graph = Chain();
  const PricedGrouping groupings[] = {
      {{.name = "v", .groups = {Of("ab", kVendor, {0, 1}), Of("cd", kVendor, {2, 3})}}, {5, 9}},
      {{.name = "o", .groups = {Of("all", kOwn, {0, 1, 2, 3})}}, {20}},
      {{.name = "n",
        .groups = {Of("a", kVendor, {0}), Of("b", kVendor, {1}), Of("c", kVendor, {2}),
                   Of("d", kOwn, {3})}},
       {3, 3, 3, 3}}};
  const Grouping best = SelectByRegion(graph, groupings);
  ASSERT_EQ(best.groups.size(), 3U);
  EXPECT_EQ(best.groups[0].name, "ab");  // 5 < 3 + 3
  EXPECT_EQ(best.groups[1].name, "c");   // 3 + 3 < 9
  EXPECT_EQ(best.groups[2].name, "d");
  for (const Group& group : best.groups) {  // of all nodes: 5 + 3 + 3 < 12 < 14 < 20
    ASSERT_EQ(group.rivals.size(), 3U);
    EXPECT_EQ(group.rivals[0].us, 14);
    EXPECT_EQ(group.rivals[1].us, 20);
    EXPECT_EQ(group.rivals[2].us, 12);
  }
  EXPECT_TRUE(Verify(best, graph).ok());
}

TEST(Regions, ATieStaysWithTheEarlier) {
  const graph::Graph graph = Chain();
  const PricedGrouping vendor{{.name = "v", .groups = {Of("all", kVendor, {0, 1, 2, 3})}}, {5}};
  const PricedGrouping own{{.name = "o", .groups = {Of("all", kOwn, {0, 1, 2, 3})}}, {5}};
  const PricedGrouping both[] = {vendor, own};
  EXPECT_EQ(SelectByRegion(graph, both).groups[0].implementation, kVendor);
}

// Two groups, each the best of its region, that wait for each other: {a, d} writes for c, which
// reads b.
TEST(Regions, ACircleIsNotTaken) {
  const graph::Graph graph = Parsed(R"(graph cross (x: f32[4], y: f32[4]) -> (b, d) {
  a: f32[4] = Relu(x)
  b: f32[4] = Exp(a)
  c: f32[4] = Tanh(y)
  d: f32[4] = Neg(c)
  e: f32[4] = Add(b, c)
  f: f32[4] = Add(a, d)
})");
  ASSERT_EQ(graph.nodes.size(), 6U);
  // {a, d} and {b, c} are convex each; a feeds b and c feeds d, so together they are a circle.
  const PricedGrouping apart{
      {.name = "s",
       .groups = {Of("a", kOwn, {0}), Of("b", kOwn, {1}), Of("c", kOwn, {2}), Of("d", kOwn, {3}),
                  Of("e", kOwn, {4}), Of("f", kOwn, {5})}},
      {3, 3, 3, 3, 1, 1}};
  const PricedGrouping ad{{.name = "ad",
                           .groups = {Of("c", kOwn, {2}), Of("ad", kOwn, {0, 3}),
                                      Of("b", kOwn, {1}), Of("e", kOwn, {4}), Of("f", kOwn, {5})}},
                          {3, 1, 9, 1, 1}};
  const PricedGrouping bc{{.name = "bc",
                           .groups = {Of("a", kOwn, {0}), Of("bc", kOwn, {1, 2}),
                                      Of("d", kOwn, {3}), Of("e", kOwn, {4}), Of("f", kOwn, {5})}},
                          {3, 2, 9, 1, 1}};
  const PricedGrouping all[] = {apart, ad, bc};
  const Grouping best = SelectByRegion(graph, all);
  EXPECT_TRUE(Verify(best, graph).ok()) << Verify(best, graph).ToString();
  int fused = 0;
  for (const Group& group : best.groups) {
    fused += group.members.size() > 1;
    if (group.members.size() > 1) {
      EXPECT_EQ(group.name, "ad");  // it gains 5, the other 4
    }
  }
  EXPECT_EQ(fused, 1);
}

TEST(Regions, NamesStayUnique) {
  const graph::Graph graph = Chain();
  const PricedGrouping one{{.name = "1", .groups = {Of("k", kOwn, {0, 1}), Of("l", kOwn, {2, 3})}},
                           {1, 9}};
  const PricedGrouping two{{.name = "2", .groups = {Of("l", kOwn, {0, 1}), Of("k", kOwn, {2, 3})}},
                           {9, 1}};
  const PricedGrouping both[] = {one, two};
  const Grouping best = SelectByRegion(graph, both);
  ASSERT_EQ(best.groups.size(), 2U);
  EXPECT_EQ(best.groups[0].name, "k");
  EXPECT_EQ(best.groups[1].name, "k_2");
}

}  // namespace
}  // namespace weft::partition
