// Steps that follow one another: what runs in them, who shares it out and who waits for whom.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

TEST(Recurrence, KeepsItsOrder) {
  const auto program = Compile(R"(def rnn(float(5, 6) x, float(6, 6) u) -> (h) {
    s(t, i) +=! (t > 0 ? h(t-1, j) : 0.0) * u(i, j) where t in 0:5, i in 0:6
    h(t, i) = tanh(x(t, i) + s(t, i)) where t in 0:5, i in 0:6
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  const auto choices = Propose(request, 2);
  for (const Choice& choice : *choices) {
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_NE(WhyIllegal(*program, "rnn: cluster s | cluster h"), "legal");
  EXPECT_NE(WhyIllegal(*program, "rnn: cluster s h | order t | parallel t"), "legal");
}

// Independent sequences, all steps of one after another; among them some that are less independent
// than they look.
TEST(Recurrence, SequencesRunByThemselves) {
  for (const char* read : {"n", "4 - n", "0", "min(n + 1, 4)"}) {
    const auto program = Compile(fmt::format(
        R"(def routing(float(6, 5, 7) x, float(7, 7) u) -> (y) {{
          h(t, n, i) = x(t, n, i) + (t > 0 ? y(t - 1, {}, i) : 0.0) where t in 0:6, n in 0:5
          m(t, n) max=! h(t, n, i)
          s(t, n, j) +=! (h(t, n, i) - m(t, n)) * u(i, j)
          y(t, n, i) = tanh(s(t, n, i))
        }})",
        read));
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    // The first cache holds the weights, or the second does, or none.
    for (const auto& [l1_bytes, l2_bytes] :
         {std::pair(32 << 10, 1 << 20), std::pair(64, 1 << 20), std::pair(64, 64)}) {
      Target target = Widest();
      target.l1_bytes = l1_bytes;
      target.l2_bytes = l2_bytes;
      const auto choices = Propose({.program = &*program, .target = target}, 3);
      ASSERT_TRUE(choices.yes());
      for (const Choice& choice : *choices) {
        const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
        EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
      }
    }
    const std::string forced =
        WhyIllegal(*program, "routing: cluster h m s y | order n t | parallel n | vector i 7, j 7");
    EXPECT_EQ(forced == "legal", std::string(read) == "n") << read << ": " << forced;
  }
}

// Ranks share out the loops of each step and wait for one another, in a step and between two.
TEST(Recurrence, StepsAreSharedOut) {
  const auto cell = Compile(R"(def rnn(float(5, 12) x, float(12, 12) u) -> (h) {
    b(t, j) = t > 0 ? h(t - 1, 11 - j) : 0.0 where t in 0:5, j in 0:12
    s(t, i) +=! b(t, j) * u(i, j) where t in 0:5
    m(t) max=! s(t, i)
    h(t, i) = tanh(x(t, i) + s(t, 11 - i)) - m(t) where t in 0:5, i in 0:12
  })");
  ASSERT_TRUE(cell.ok()) << cell.status().ToString();
  for (const char* text :
       {"cluster b s m h | order t | inner i j | share i j",
        "cluster b s m h | order t | tile i 4 | inner i j | share i j | vector i 4, j 4",
        "cluster b s m h | order t | inner j i | share i", "cluster b s m h | order t | share j"}) {
    const auto choices = ParseChoices("rnn: " + std::string(text), "test");
    ASSERT_TRUE(choices.ok()) << choices.status().ToString();
    const Status status = RunChoice(*cell, tc::RandomInputs(*cell, 1), choices->at(0));
    EXPECT_TRUE(status.ok()) << text << status.ToString();
  }
  // A single statement: only the barrier between steps keeps them apart.
  const auto alone = Compile(R"(def f(float(9) x) -> (y) {
    y(t, j) = t > 0 ? y(t - 1, 8 - j) * 2 : x(j) where t in 0:6, j in 0:9
  })");
  ASSERT_TRUE(alone.ok()) << alone.status().ToString();
  const auto choices = ParseChoices("f: cluster y | order t | share j", "test");
  const Status status = RunChoice(*alone, tc::RandomInputs(*alone, 1), choices->at(0));
  EXPECT_TRUE(status.ok()) << status.ToString();
  const auto scan = Compile(R"(def f(float(4, 9) x) -> (y) {
    y(t, j) = (j > 0 ? y(t, j - 1) : 0.0) + x(t, j) where t in 0:4, j in 0:9
  })");
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  EXPECT_NE(WhyIllegal(*scan, "f: cluster y | order t | share j"), "legal");
  EXPECT_EQ(WhyIllegal(*scan, "f: cluster y | order t"), "legal");
}

// A barrier stands in a step only where a rank touches what another one does: not between loops
// that give each of them the same places, nor behind the last one of a step if what begins the next
// goes on with those. The interpreter finds whatever then meets unguarded.
TEST(Recurrence, RanksWaitForOthersOnly) {
  const auto barriers = [](std::string_view state, std::string_view gate) {
    const auto cell = Compile(fmt::format(
        R"(def rnn(float(7, 12) x, float(24, 12) u) -> (h) {{
          b(t, j) = t > 0 ? h(t - 1, {}) : 0.0 where t in 0:7, j in 0:12
          s(t, i) +=! b(t, j) * u(i, j) where t in 0:7
          c(t, j) = {} where t in 0:7, j in 0:12
          h(t, j) = tanh(c(t, j)) + x(t, j) where t in 0:7, j in 0:12
        }})",
        state, gate));
    EXPECT_TRUE(cell.ok()) << cell.status().ToString();
    const auto choices = ParseChoices(
        "rnn: cluster b s c h | order t | inner i j | share i j | vector i 4, j 4", "test");
    const Status status = RunChoice(*cell, tc::RandomInputs(*cell, 1), choices->at(0));
    EXPECT_TRUE(status.ok()) << status.ToString();
    const ScheduleRequest request{.program = &*cell, .target = Widest()};
    const auto nest = Lower(request, choices->at(0), *BuildSchedule(request, choices->at(0)));
    const std::string text = loops::Print(*nest);
    int count = 0;
    for (size_t at = text.find("= 1:7"); (at = text.find("    barrier", at)) != text.npos; ++at)
      ++count;
    return count;
  };
  const std::string_view halves = "s(t, j) * s(t, j + 12)";
  EXPECT_EQ(barriers("j", halves), 2);          // around the sum, which reads all of b
  EXPECT_EQ(barriers("11 - j", halves), 3);     // b reads what others made in the step before
  EXPECT_EQ(barriers("j", "s(t, 11 - j)"), 2);  // one rank goes from c to the next b alone
}

// Loops that go backwards in every other step, those of one rank and those that ranks share; a
// loop that has an order can't, and one that has none may.
TEST(Recurrence, LoopsTurn) {
  const auto cell = Compile(R"(def rnn(float(7, 20) x, float(20, 20) u) -> (h) {
    b(t, j) = t > 0 ? h(t - 1, j) : 0.0 where t in 0:7, j in 0:20
    s(t, i) +=! b(t, j) * u(i, j) where t in 0:7
    h(t, j) = tanh(s(t, j)) + x(t, j) where t in 0:7, j in 0:20
  })");
  ASSERT_TRUE(cell.ok()) << cell.status().ToString();
  for (const std::string text : {
           "cluster b s h | order t | turn i j | vector i 4, j 4",
           "cluster b s h | order t | tile i 8 4 | inner i j i | turn i | unroll i | vector i 4",
           "cluster b s h | order t | tile i 8 4 | inner i i j | share i j | turn i | vector i 4",
           "cluster b s h | order t | tile i 12 4 | inner i i j | share i j | turn i | vector i 4",
       }) {
    const auto choices = ParseChoices("rnn: " + text, "test");
    ASSERT_TRUE(choices.ok()) << choices.status().ToString();
    Status status = RunChoice(*cell, tc::RandomInputs(*cell, 1), choices->at(0));
    EXPECT_TRUE(status.ok()) << text << status.ToString();
    const ScheduleRequest request{.program = &*cell, .target = Widest()};
    const auto nest = Lower(request, choices->at(0), *BuildSchedule(request, choices->at(0)));
    EXPECT_NE(loops::Print(*nest).find(" mod 2"), std::string::npos) << loops::Print(*nest);
  }
  const auto scan = Compile(R"(def f(float(4, 9) x) -> (y) {
    y(t, j) = (j > 0 ? y(t, j - 1) : 0.0) + x(t, j) where t in 0:4, j in 0:9
  })");
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  EXPECT_NE(WhyIllegal(*scan, "f: cluster y | order t | turn j"), "legal");
  const auto rows = Compile(R"(def f(float(4, 9) x) -> (y) { y(t, j) = x(t, j) * 2 })");
  EXPECT_EQ(WhyIllegal(*rows, "f: cluster y | order t | turn j"), "legal");
  EXPECT_NE(WhyIllegal(*rows, "f: cluster y | order t | turn k"), "legal");
}

// Two sums in a step, over the same axis, with results along one axis or along two: each has its
// blocks outside of its sum, and what turns does so once.
TEST(Recurrence, SumsOfOneStep) {
  for (const char* last : {"q(t, j)", "q(t, 255 - j)"}) {
    const auto cell = Compile(fmt::format(
        R"(def two(float(4, 256) x, float(256, 256) u, float(256, 256) v) -> (h) {{
          b(t, j) = t > 0 ? h(t - 1, j) : 0.0 where t in 0:4, j in 0:256
          p(t, k) +=! b(t, e) * u(e, k) where t in 0:4
          q(t, k) +=! b(t, e) * v(e, k) where t in 0:4
          h(t, j) = tanh(x(t, j) + p(t, j) + {}) where t in 0:4, j in 0:256
        }})",
        last));
    ASSERT_TRUE(cell.ok()) << cell.status().ToString();
    for (const int32_t threads : {1, 2}) {
      Target target = Widest();
      target.threads = threads;
      target.l2_bytes = 64 << 10;
      const auto choices = Propose({.program = &*cell, .target = target}, 1);
      ASSERT_TRUE(choices.yes());
      const std::string text = Print(choices->at(0));
      EXPECT_NE(text.find("turn k"), std::string::npos) << text;
      const Status status = RunChoice(*cell, tc::RandomInputs(*cell, 1), choices->at(0));
      EXPECT_TRUE(status.ok()) << text << status.ToString();
      const ScheduleRequest request{.program = &*cell, .target = target};
      const auto nest = Lower(request, choices->at(0), *BuildSchedule(request, choices->at(0)));
      for (const loops::Buffer& buffer : nest->buffers)  // sums wait in registers
        EXPECT_FALSE(buffer.name.ends_with("_tile")) << loops::Print(*nest);
    }
  }
}

}  // namespace
}  // namespace weft::oracle
