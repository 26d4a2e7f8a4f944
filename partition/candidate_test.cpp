// Which groups are legal, and the reasons of those that are not.
#include <fmt/format.h>

#include "partition/testing.h"

namespace weft::partition {
namespace {

// Rows of the second product need the same rows of the first, and no others.
TEST(Partition, JoinsContractionsThatRunInBlocks) {
  const auto graph = [](int rows) {
    return Parsed(
        fmt::format("graph g (x: f32[{}, 64], v: f32[64, 64], w: f32[64, 64]) -> (c) {{\n"
                    "a = MatMul(x, v)\nb = Relu(a)\nc = MatMul(b, w)\n}}",
                    rows));
  };
  EXPECT_EQ(Grouped(graph(4096))->groups.size(), 1U);
  EXPECT_EQ(Grouped(graph(4))->groups.size(), 2U);  // not worth a tile of registers each
  EXPECT_EQ(Grouped(graph(4096), Flat(), {.join = false, .vendor = false})->groups.size(), 2U);
  EXPECT_EQ(Grouped(graph(4096), Square())->groups.size(), 3U);
}

// Of a batch, blocks hold all that a contraction reads of what feeds it.
TEST(Partition, JoinsWhatABatchOfContractionsReads) {
  const auto graph = [](const std::string& x, const std::string& order) {
    return Parsed(
        fmt::format("graph g (x: f32[{}]) -> (b) {{\n"
                    "a = Transpose(x) {{perm = [{}]}}\nb = MatMul(x, a)\n}}",
                    x, order));
  };
  EXPECT_EQ(Grouped(graph("512, 27, 64", "0, 2, 1"))->groups.size(), 1U);
  EXPECT_EQ(Grouped(graph("512, 27, 64", "0, 2, 1"), Flat(), {.join = false, .vendor = false})
                ->groups.size(),
            2U);
  EXPECT_EQ(Grouped(graph("512, 27", "1, 0"))->groups.size(), 2U);         // no batch
  EXPECT_EQ(Grouped(graph("65536, 4, 2", "0, 2, 1"))->groups.size(), 2U);  // better along it
  EXPECT_EQ(Grouped(Parsed("graph g (x: f32[8192, 16, 13], w: f32[8192, 13, 16]) -> (b) {\n"
                           "a = Sigmoid(x)\nb = MatMul(a, w)\n}"))
                ->groups.size(),
            2U);
}

// Attention, whatever the place of the values' transpose among the nodes.
TEST(Partition, LaysOutOperandsFirst) {
  const auto groups = [](const char* before, const char* between) {
    const auto grouping = Grouped(Parsed(
        fmt::format("graph g (q: f32[4, 256, 64], k: f32[4, 64, 256], v: f32[4, 64, 256]) -> (y) "
                    "{{\n{}s = MatMul(q, k)\np = Softmax(s)\n{}y = MatMul(p, t)\n}}",
                    before, between)));
    return grouping->groups.size();
  };
  constexpr const char* kTranspose = "t = Transpose(v) {perm = [0, 2, 1]}\n";
  EXPECT_EQ(groups(kTranspose, ""), 1U);
  EXPECT_EQ(groups("", kTranspose), 1U);
}

TEST(Partition, TwoContractions) {
  // Windows overlap; large weights would be read again for every block.
  EXPECT_EQ(ReasonsOf(Grouped(Parsed(
                "graph g (x: f32[1, 4, 9, 9], v: f32[4, 4, 3, 3], w: f32[4, 4, 3, 3]) -> (b) {\n"
                "a = Conv(x, v)\nb = Conv(a, w)\n}"))),
            Only("two_contractions"));
  EXPECT_EQ(ReasonsOf(Grouped(
                Parsed("graph g (x: f32[256, 64], v: f32[64, 4096], w: f32[4096, 64]) -> (b) {\n"
                       "a = MatMul(x, v)\nb = MatMul(a, w)\n}"))),
            Only("two_contractions"));
}

TEST(Partition, NoCommonSpace) {
  EXPECT_EQ(ReasonsOf(Grouped(Parsed("graph g (x: f32[4, 8], v: f32[8, 8]) -> (b) {\n"
                                     "a = MatMul(x, v)\nb = Softmax(a)\n}"))),
            Only("no_common_space"));
}

TEST(Partition, HaloRedundancy) {
  EXPECT_EQ(ReasonsOf(Grouped(Parsed("graph g (x: f32[1, 4, 8, 8]) -> (b) {\na = Relu(x)\n"
                                     "b = MaxPool(a) {kernel_shape = [3, 3]}\n}"))),
            Only("halo_redundancy"));
}

// A concatenation goes by in blocks with what reads it, where memory would hold it in between; not
// its part of a value, nor what a contraction makes.
TEST(Partition, PartsOfALongConcatenationJoin) {
  const auto rotated = [](int64_t tokens, const char* half, int64_t l2_bytes) {
    const Graph graph =
        Parsed(fmt::format("graph g (x: f32[{0}, 64], c: f32[{0}, 128]) -> (y) {{\n"
                           "n = Neg(x)\ne = {1}\nr = Concat(n, e) {{axis = 1}}\ny = Mul(r, c)\n}}",
                           tokens, half));
    return Grouped(graph, Flat(), {.vendor = false}, {.l2_bytes = l2_bytes})->groups.size();
  };
  EXPECT_EQ(rotated(2048, "Exp(x)", 1 << 18), 1u);
  EXPECT_EQ(rotated(2048, "Exp(x)", 1 << 20), 2u);
}

TEST(Partition, OpaqueAccess) {
  EXPECT_EQ(ReasonsOf(Grouped(Parsed("graph g (x: f32[4, 8], i: i64[2]) -> (b) {\na = Relu(x)\n"
                                     "b = Gather(a, i)\n}"))),
            Only("opaque_access"));
}

TEST(Partition, ReductionMismatch) {
  EXPECT_EQ(
      ReasonsOf(Grouped(Parsed(
          "graph g (x: f32[4, 8]) -> (b) {\nrow: i64[1] = const(1)\ncolumn: i64[1] = const(0)\n"
          "a = ReduceSum(x, row)\nb = ReduceMax(a, column)\n}"))),
      Only("reduction_mismatch"));
}

TEST(Partition, Limits) {
  EXPECT_EQ(ReasonsOf(Grouped(Parsed(kChain), Flat(), {.vendor = false, .max_statements = 2})),
            Only("too_many_statements"));
  EXPECT_EQ(ReasonsOf(Grouped(Parsed("graph g (x: f32[4], y: f32[4], z: f32[4]) -> (b) {\n"
                                     "a = Add(x, y)\nb = Add(a, z)\n}"),
                              Flat(), {.vendor = false, .max_arguments = 3})),
            Only("too_many_arguments"));
  EXPECT_EQ(ReasonsOf(Grouped(Parsed(kSoftmax), Flat(), {.vendor = false}, {.l2_bytes = 4000})),
            Only("footprint_too_large"));
  EXPECT_EQ(ReasonsOf(Grouped(Parsed(kSoftmax))), kNone);
}

// a and y alone would close a cycle through the pooling between them.
TEST(Partition, NotConvex) {
  const auto grouping =
      Grouped(Parsed("graph g (x: f32[1, 4, 8, 8]) -> (y) {\na = Relu(x)\n"
                     "p = MaxPool(a) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
                     "y = Add(a, p)\n}"));
  EXPECT_TRUE(ReasonsOf(grouping).contains("not_convex"));
  EXPECT_EQ(grouping->groups.size(), 2u);
}

// Two nodes may bear one name: what one reads of the other is looked at all the same.
TEST(Partition, NamesakesAreTwo) {
  Graph graph = Parsed(
      "graph g (x: f32[1, 4, 9, 9]) -> (b) {\na = Exp(x)\n"
      "b = MaxPool(a) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n}");
  for (graph::Node& node : graph.nodes) node.name = "n";
  EXPECT_EQ(ReasonsOf(Grouped(graph)), Only("halo_redundancy"));
}

}  // namespace
}  // namespace weft::partition
