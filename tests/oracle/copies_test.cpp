// Operands that a kernel packs by itself.
#include <gtest/gtest.h>

#include "polyhedral/copies.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

struct Product {
  std::string text;
  std::map<std::string, int64_t> sizes;
  std::string packed;  // the operand that the first proposal copies; empty: none
};

// Both operands are contiguous along the sum, or neither is along an output: rows and columns with
// all kinds of remainders, several products in a row, groups and batches; on teams of one and two.
TEST(Copies, ProposalsComputeTheMeaning) {
  const std::string gemm = R"(def gemm(float(M, K) a, float(N, K) b, float(N) c) -> (y) {
    @contraction s(i, j) +=! a(i, k) * b(j, k)
    @pointwise   y(i, j) = max(s(i, j) + c(j), 0.0)
  })";
  const std::string groups = R"(def conv(float(N, G, C, H, H) x, float(G, F, C, 3, 3) w) -> (y) {
    @convolution y(n, g, f, h, v) +=! x(n, g, c, h + r, v + s) * w(g, f, c, r, s)
  })";
  const std::string batches = R"(def batches(float(B, M, K) a, float(B, N, K) b) -> (y) {
    @contraction y(n, i, j) +=! a(n, i, k) * b(n, j, k)
  })";
  const std::string chain = R"(def chain(float(M, K) a, float(N, K) b, float(P, N) c) -> (y) {
    @contraction s(i, j) +=! a(i, k) * b(j, k)
    @pointwise   t(i, j) = tanh(s(i, j))
    @contraction y(i, j) +=! t(i, k) * c(j, k)
  })";
  for (const auto& [text, sizes, packed] :
       std::vector<Product>{{gemm, {{"M", 37}, {"N", 67}, {"K", 33}}, "b"},
                            {gemm, {{"M", 61}, {"N", 130}, {"K", 40}}, "b"},
                            {gemm, {{"M", 3}, {"N", 67}, {"K", 33}}, "a"},
                            {gemm, {{"M", 3}, {"N", 67}, {"K", 200}}, ""},
                            {gemm, {{"M", 67}, {"N", 3}, {"K", 33}}, "b"},
                            {groups, {{"N", 3}, {"G", 2}, {"C", 3}, {"H", 9}, {"F", 16}}, "w"},
                            {batches, {{"B", 3}, {"M", 24}, {"N", 20}, {"K", 16}}, "b"},
                            {chain, {{"M", 40}, {"N", 35}, {"P", 50}, {"K", 20}}, "b"}}) {
    const auto program = Compile(text, sizes);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    for (const int32_t threads : {1, 2}) {
      Target target = Widest();
      target.threads = threads;
      // So that a copy is made in blocks.
      target.l2_bytes = 8192;
      const ScheduleRequest request{.program = &*program, .target = target};
      const auto choices = Propose(request, 2);
      ASSERT_TRUE(choices.yes());
      const std::string first = Print(choices->at(0));
      EXPECT_EQ(first.find("pack " + packed + " ") != std::string::npos, !packed.empty()) << first;
      EXPECT_EQ(first.find("_packed") != std::string::npos, !packed.empty()) << first;
      for (const Choice& choice : *choices) {
        const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
        EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
      }
    }
  }
}

// In every layout, in blocks and out of them, for whoever reads it and how often.
TEST(Copies, AnyChoiceComputesTheMeaning) {
  const auto program = Compile(R"(def twice(float(9, 12) a, float(10, 12) b) -> (y, z) {
    @contraction y(i, j) +=! a(i, k) * b(j, k)
    @pointwise   z(j, k) = b(j, k) + b(9 - j, 11 - k)
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const auto choices = ParseChoices(
      "twice: cluster b_packed | cluster y | cluster z | pack b ba\n"
      "twice: cluster b_packed | order i0 | parallel i0 | cluster y | cluster z | pack b Ab4a\n"
      "twice: cluster b_packed | block i0 5 | then y | block j 5 | order i j | vector j 5 | "
      "cluster z | pack b ba\n"
      "twice: cluster a_packed | cluster b_packed z | cluster y | pack b ba, a Ab2a\n"
      "twice: cluster b_packed | block i0 4 | order i1 | vector i0 4 | then z | block j 4 | "
      "cluster y | pack b ba\n",
      "test");
  ASSERT_TRUE(choices.ok()) << choices.status().ToString();
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  for (size_t c = 0; c < choices->size(); ++c) {
    const Choice& choice = choices->at(c);
    // The last one's blocks of z read other blocks of the copy; b and its mirror image share loops
    // in the one before.
    if (c >= 3) {
      const auto tree = BuildSchedule(request, choice);
      ASSERT_TRUE(tree.yes()) << tree.refusal().detail;
      const auto legal = CheckLegal(request, *tree);
      EXPECT_EQ(legal.yes(), c == 3) << Print(choice);
      if (c > 3) continue;
    }
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
  }
}

TEST(Copies, ComeBeforeTheirReaders) {
  const auto program = Compile(R"(def f(float(8) a, float(8) b) -> (c, d) {
    c(i) = a(i) + 1.0
    d(i) = b(i) * c(i)
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  const std::vector<std::string> operands = {"b"};
  const CopiedRequest copied = WithCopies(request, operands);
  ASSERT_EQ(copied.program->statements.size(), 3u);
  EXPECT_NE(tc::Print(*copied.program).find("c(i) = a(i) + 1.0"), std::string::npos);
  EXPECT_LT(tc::Print(*copied.program).find("b_packed(i0) = b(i0)"),
            tc::Print(*copied.program).find("d(i) = b_packed(i) * c(i)"));
  EXPECT_TRUE(tc::Verify(*copied.program).ok());
  const auto late = ParseChoices("f: cluster c | cluster d | cluster b_packed | pack b a", "test");
  const auto tree = BuildSchedule(request, late->at(0));
  ASSERT_TRUE(tree.yes());
  EXPECT_FALSE(CheckLegal(request, *tree).yes());
}

}  // namespace
}  // namespace weft::oracle
