// Schedules against meaning: whatever the choice, a nest computes what the comprehension says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/reference/interpret.h"
#include "polyhedral/tree.h"
#include "tc_lang/interpret.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"
#include "tests/oracle/random_choice.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

TEST(RandomPrograms, IdentityComputesTheMeaning) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= 300 && failures < 5; ++seed) {
    const tc::Program program = tc::RandomProgram(seed);
    const ScheduleRequest request{.program = &program, .target = Widest()};
    const Status status = RunChoice(program, tc::RandomInputs(program, seed),
                                    IdentityChoice(request), {}, seed % 4 == 0);
    EXPECT_TRUE(status.ok()) << "seed " << seed << "\n"
                             << status.ToString() << "\n"
                             << tc::Print(program);
    failures += !status.ok();
  }
}

TEST(RandomPrograms, HalfBytesToo) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= 200 && failures < 5; ++seed) {
    const tc::Program program = tc::RandomProgram(seed, {.nibbles = true});
    const ScheduleRequest request{.program = &program, .target = Widest()};
    const auto choices = Propose(request, 2);
    const Choice choice =
        choices.yes() && seed % 2 == 0 ? choices->front() : IdentityChoice(request);
    const Status status = RunChoice(program, tc::RandomInputs(program, seed), choice);
    EXPECT_TRUE(status.ok()) << "seed " << seed << "\n"
                             << status.ToString() << "\n"
                             << tc::Print(program);
    failures += !status.ok();
  }
}

TEST(RandomPrograms, ProposalsComputeTheMeaning) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= 300 && failures < 5; ++seed) {
    const bool halves = seed % 3 == 0;
    const tc::Program program = tc::RandomProgram(seed, {.halves = halves});
    std::vector<std::string> constants;
    for (const tc::TensorId t : tc::Inputs(program)) {
      if (t.index % 2 == 1) constants.push_back(program[t].name);
    }
    const ScheduleRequest request{.program = &program,
                                  .constants = constants,
                                  .target = halves ? Bf16() : Widest(),
                                  .flushes = halves};
    const auto choices = Propose(request, 3);
    ASSERT_TRUE(choices.yes()) << choices.refusal().detail;
    for (const Choice& choice : *choices) {
      const Status status =
          RunChoice(program, tc::RandomInputs(program, seed), choice, constants, seed % 4 == 0);
      EXPECT_TRUE(status.ok()) << "seed " << seed << "\n"
                               << Print(choice) << status.ToString() << "\n"
                               << tc::Print(program);
      failures += !status.ok();
    }
  }
}

// What isl calls legal must be right, whatever it looks like.
TEST(RandomPrograms, LegalChoicesComputeTheMeaning) {
  int failures = 0, legal = 0, illegal = 0, refused = 0, flushed = 0;
  for (uint64_t seed = 1; seed <= 900 && failures < 5; ++seed) {
    const bool halves = seed % 3 == 0;
    const tc::Program program = tc::RandomProgram(seed / 3 + 1, {.halves = halves});
    const ScheduleRequest request{.program = &program, .target = halves ? Bf16() : Widest()};
    const Choice choice = RandomChoice(request, seed);
    const auto tree = BuildSchedule(request, choice);
    if (!tree.yes()) {
      ++refused;
      continue;
    }
    if (!CheckLegal(request, *tree).yes()) {
      ++illegal;
      continue;
    }
    const auto nest = Lower(request, choice, *tree);
    // Bounds of floors are shown less often than they hold; a nest without the proof is not
    // accepted.
    const bool unproved = nest.status().what().find("is not shown to lie") != std::string::npos;
    if (!nest.ok() && (unproved || nest.status().code() == Code::kUnsupported)) {
      ++refused;
      continue;
    }
    ++legal;
    flushed += nest.ok() && loops::Flushes(*nest);
    Status status = nest.status();
    if (nest.ok()) {
      const Case c{
          .program = &program, .inputs = tc::RandomInputs(program, seed), .machine = seed % 4 == 0};
      status = Compare(c, request, *nest);
      if (!status.ok()) status = std::move(status).Because(loops::Print(*nest));
    }
    EXPECT_TRUE(status.ok()) << "seed " << seed << "\n"
                             << Print(choice) << tree->text << status.ToString() << "\n"
                             << tc::Print(program);
    failures += !status.ok();
  }
  std::printf("%d legal, %d flushed, %d illegal, %d refused\n", legal, flushed, illegal, refused);
  EXPECT_GT(legal, 300);
  EXPECT_GT(illegal, 20);
  EXPECT_GT(flushed, 5);
}

tc::Program Chain() {
  auto program = Compile(R"(def chain(float(8, 6) a, float(6, 8) b) -> (c, d) {
    @contraction c(i, j) +=! a(i, k) * b(k, j)
    @reduction   m(i) max=! c(i, j)
    @pointwise   d(i, j) = c(i, j) - m(i)
  })");
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return *program;
}

TEST(Legality, NamesTheViolatedDependence) {
  const tc::Program program = Chain();
  EXPECT_EQ(WhyIllegal(program, "chain: cluster c m d | order i | parallel i"), "legal");
  EXPECT_EQ(WhyIllegal(program, "chain: cluster c d | order i j | cluster m"),
            "illegal_schedule m -> d on m (flow): the sequence runs them the other way round");
  // d needs m of all j: sharing j would use it too early.
  EXPECT_NE(WhyIllegal(program, "chain: cluster c m d | order j").find("illegal_schedule m -> d"),
            std::string::npos);
  EXPECT_NE(
      WhyIllegal(program, "chain: cluster m c | order i | cluster d").find("c -> m on c (flow)"),
      std::string::npos);
  EXPECT_NE(WhyIllegal(program, "chain: cluster c | order k | parallel k | cluster m | cluster d")
                .find("c -> c on c (same cell): member 0 of a band is parallel"),
            std::string::npos);
}

// The same rows of all three, one after another; more than one row at a time, or rows and columns,
// or columns that m still needs.
TEST(Legality, BlocksHoldWhatTheyPassOn) {
  const tc::Program program = Chain();
  const auto why = [&](std::string_view choice) { return WhyIllegal(program, choice); };
  EXPECT_EQ(why("chain: cluster c | block i 1 | then m | block i 1 | then d | block i 1"), "legal");
  EXPECT_EQ(why("chain: cluster c | block i 4 | order j i | tile i 2 | then m d | block i 4"),
            "legal");
  EXPECT_NE(why("chain: cluster c | block i 2 | then m | block i 1 | then d | block i 1")
                .find("is parallel and carries it"),
            std::string::npos);
  EXPECT_NE(why("chain: cluster c | block j 2 | then m | block i 2 | then d | block j 2")
                .find("illegal_schedule"),
            std::string::npos);
  // Two by two of c(4*p + q) belong to a block of eight.
  const auto digits = Compile(R"(def digits(float(16) a) -> (d) {
    @pointwise c(4*p + q) = a(4*p + q) * 2.0 where p in 0:4, q in 0:4
    @pointwise d(i) = c(i) + 1.0 where i in 0:16
  })");
  ASSERT_TRUE(digits.ok()) << digits.status().ToString();
  EXPECT_EQ(WhyIllegal(*digits, "digits: cluster c | block p 2 | then d | block i 8 | tile i 4"),
            "legal");
  EXPECT_NE(WhyIllegal(*digits, "digits: cluster c | block p 2 | then d | block i 6")
                .find("is parallel and carries it"),
            std::string::npos);
}

TEST(Legality, RefusesWhatDoesNotFit) {
  const tc::Program program = Chain();
  const auto starts = [&](std::string_view choice, std::string_view text) {
    const std::string why = WhyIllegal(program, choice);
    EXPECT_EQ(why.substr(0, text.size()), text);
  };
  starts("chain: cluster c m", "choice_does_not_fit statement d is in no cluster");
  starts("chain: cluster c m d | order x", "choice_does_not_fit the cluster has no axis x");
  starts("chain: cluster c m d e", "choice_does_not_fit no statement is called e");
  starts("chain: cluster c | block x 2 | cluster m | cluster d",
         "choice_does_not_fit the cluster has no axis x");
  starts("chain: cluster c | block i 2 | then m | then d",
         "choice_does_not_fit clusters that share blocks have blocks along as many axes");
  starts("chain: cluster c | then m | cluster d",
         "choice_does_not_fit a cluster that follows in the blocks of another has none");
  starts("chain: cluster c m d | block i 2 | order i | parallel i",
         "choice_does_not_fit a cluster with blocks is parallel along them only");
  starts("chain: cluster c m d | block i 2, i 4", "choice_does_not_fit axis i stands twice");
  starts("chain: cluster c m d | block i 6 | tile i 4",
         "choice_does_not_fit the tile of i does not divide its block");
  starts("chain: cluster c m d | block i 6 | vector i 4",
         "choice_does_not_fit the lanes do not divide the block of i");
  starts("chain: cluster c | cluster m | cluster d | pack b ba",
         "choice_does_not_fit statement b_packed is in no cluster");
  starts("chain: cluster c | cluster m | cluster d | pack c ba", "choice_does_not_fit c is packed");
  starts("chain: cluster c | cluster m | cluster d | pack b bac",
         "choice_does_not_fit b is packed as bac, expected 2 axes");
  starts("chain: cluster b_packed | cluster c | cluster m | cluster d | pack b ba, b ba",
         "choice_does_not_fit b is packed twice");
  starts("chain: cluster c | cluster m | cluster d | stream b",
         "choice_does_not_fit b is streamed");
  starts("chain: cluster c | cluster m | cluster d | prefetch c",
         "choice_does_not_fit c is prefetched");
  starts("chain: cluster c c m d", "choice_does_not_fit statement c stands twice");
}

// Wherever isl's limit of operations stops it, what was read up to there is no answer.
TEST(Tree, LimitsStopAnywhere) {
  const tc::Program program = Chain();
  const ScheduleRequest request{.program = &program, .target = Widest()};
  const auto choices = ParseChoices(
      "chain: cluster c | order i j | tile i 3, j 5 | cluster m d | order i | tile i 3", "test");
  ASSERT_TRUE(choices.ok()) << choices.status().ToString();
  const auto tree = BuildSchedule(request, choices->at(0));
  ASSERT_TRUE(tree.yes()) << tree.refusal().detail;
  int refused = 0;
  for (int64_t limit = 100; limit < 1'000'000; limit += limit / 50 + 1) {
    const auto legal = CheckLegal(request, *tree, {.isl_operations = limit});
    if (legal.yes()) break;
    // Where it stops the parser, isl speaks of the text only.
    EXPECT_TRUE(legal.refusal().reason == Reason::kIslQuota ||
                legal.refusal().detail == "syntax error")
        << legal.refusal().detail;
    ++refused;
  }
  EXPECT_GT(refused, 20);
}

// A tree that someone edited is read as it stands: here the loops of c change places.
TEST(Tree, EditsAreObeyed) {
  const tc::Program program = Chain();
  const ScheduleRequest request{.program = &program, .target = Widest()};
  const Choice choice = IdentityChoice(request);
  ScheduleTree tree = *BuildSchedule(request, choice);
  const std::string before = "[{ c[i, j, k] -> [(j)] }, { c[i, j, k] -> [(k)] }]";
  const size_t at = tree.text.find(before);
  ASSERT_NE(at, std::string::npos) << tree.text;
  tree.text.replace(at, before.size(),
                    "[{ c[i, j, k] -> [(floor(k/4))] }, { c[i, j, k] -> [(5 - k + 4*floor(k/4))] "
                    "}, { c[i, j, k] -> [(j)] }]");
  const auto legal = CheckLegal(request, tree);
  ASSERT_TRUE(legal.yes()) << legal.refusal().detail;
  const auto nest = Lower(request, choice, tree);
  ASSERT_TRUE(nest.ok()) << nest.status().ToString();
  const Status status =
      Compare({.program = &program, .inputs = tc::RandomInputs(program, 1)}, request, *nest);
  EXPECT_TRUE(status.ok()) << status.ToString() << loops::Print(*nest);
  EXPECT_NE(loops::Print(*nest).find("c_acc: f32[8]"), std::string::npos) << loops::Print(*nest);
  tree.text = "domain: \"{ c[i] : 0 <= i < 3 }\"";
  EXPECT_FALSE(CheckLegal(request, tree).yes());
  tree.text = "no tree";
  const auto garbage = CheckLegal(request, tree);
  ASSERT_FALSE(garbage.yes());
  EXPECT_EQ(garbage.refusal().reason, Reason::kIslError);
}

// The first of several extremes wins, whatever runs along lanes; a NaN wins over all.
TEST(Tuples, TheFirstWins) {
  for (const std::string_view value :
       {"floor(x(i, j) * 2.0)", "x(i, j) < -0.9 ? nan() : floor(x(i, j) * 2.0)", "-infinity()",
        "x(i, j) < 0.0 ? 0.0 : -0.0", "nan()", "float(i + j / 40)"}) {
    for (const int64_t length : {1, 4, 31, 32, 33, 83, 200}) {
      const auto program = Compile(fmt::format(R"(def am(float(5, {0}) x) -> (v, k, w, l) {{
        t(i, j) = {1} where i in 0:5, j in 0:{0};
        (v(i), k(i)) max=! (t(i, j), 3 * j + 1) where i in 0:5, j in 0:{0};
        (w(i), l(i)) min=! (t(i, j), int64(j)) where i in 0:5, j in 0:{0}
      }})",
                                               length, value));
      ASSERT_TRUE(program.ok()) << program.status().ToString();
      const ScheduleRequest request{.program = &*program, .target = Widest()};
      const auto choices = Propose(request, 2);
      for (const Choice& choice : *choices) {
        const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
        EXPECT_TRUE(status.ok()) << value << Print(choice) << status.ToString();
        const bool lanes = Print(choice).find("vector j") != std::string::npos;
        EXPECT_EQ(lanes, length >= 4) << Print(choice);
      }
    }
  }
}

TEST(Tuples, APaddedTapMayBeTheFirst) {
  const auto program = Compile(R"(def f(float(9) x) -> (v, k) {
    (v(w), k(w)) max=! ((w - s - 2 >= 0 ? x(w - s - 2) : -infinity()), s + 5)
      where w in 0:9, s in 0:3
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  const auto choices = Propose(request, 3);
  for (const Choice& choice : *choices) {
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
  }
}

TEST(Tuples, KeepTheirOrder) {
  const auto program = Compile(R"(def am(float(6, 8, 9) x) -> (v, k) {
    (v(i), k(i)) max=! (x(i, a, b), 9 * a + b)
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(WhyIllegal(*program, "am: cluster v | order i | inner a b"), "legal");
  EXPECT_EQ(WhyIllegal(*program, "am: cluster v | order i | tile b 4 | inner a b"), "legal");
  EXPECT_NE(WhyIllegal(*program, "am: cluster v | order i | inner b a").find("(first)"),
            std::string::npos);
  // Lanes of the last index would have to be joined after each step of the one before.
  EXPECT_NE(WhyIllegal(*program, "am: cluster v | order i | vector b 8").find("(first)"),
            std::string::npos);
}

// Lanes of one iteration order nothing, so they are legal; what they carry is still an i32.
TEST(Tuples, OnlyIndicesRunAlongLanes) {
  for (const std::string_view with : {"3000000000 + a", "x(i, a)", "int64(x(i, a))", "9 * a + b"}) {
    const auto program = Compile(fmt::format(R"(def am(float(6, 9) x) -> (v, k) {{
      (v(i), k(i)) max=! (x(i, a) + b, {}) where a in 0:1, b in 0:1
    }})",
                                             with));
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const auto choices = ParseChoices("am: cluster v | order i | inner b | vector a 8", "test");
    ASSERT_TRUE(choices.ok()) << choices.status().ToString();
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choices->at(0));
    EXPECT_NE(status.ToString().find("no growing index along lanes"), std::string::npos)
        << with << ": " << status.ToString();
  }
}

// The outermost extent is known only at run time; temporaries live within one row of it.
TEST(Params, OpenRows) {
  constexpr std::string_view kText = R"(def net(float(B, 9) x, float(9, 21) w, float(21) b) -> (y) {
    @contraction t(n, j) +=! x(n, k) * w(k, j)
    @pointwise   u(n, j) = max(t(n, j) + b(j), 0.0)
    @reduction   m(n) max=! u(n, j)
    @pointwise   y(n, j) = u(n, j) - m(n)
  })";
  const auto program = Compile(kText, {}, {"B"});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ScheduleRequest request{.program = &*program, .constants = {"w"}, .target = Widest()};
  const auto scheduled = Schedule(request);
  ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
  for (const int64_t rows : {0, 1, 7}) {
    const auto bound = Compile(kText, {{"B", rows}});
    ASSERT_TRUE(bound.ok()) << bound.status().ToString();
    const Case c{.program = &*program, .inputs = tc::RandomInputs(*bound, 1), .params = {rows}};
    const Status status = Compare(c, request, scheduled->nest);
    EXPECT_TRUE(status.ok()) << Print(scheduled->choice) << status.ToString()
                             << loops::Print(scheduled->nest);
  }
  EXPECT_NE(WhyIllegal(*program, "net: cluster t u m y | order n | tile n 4 | parallel n"),
            "legal");
  // Ranks share one range, whose inner extents divide it: none of them can be open.
  const auto inner =
      ParseChoices("net: cluster t u | order j n | parallel j n | cluster m y", "test");
  ASSERT_TRUE(inner.ok()) << inner.status().ToString();
  const auto tree = BuildSchedule(request, inner->at(0));
  ASSERT_TRUE(tree.yes()) << tree.refusal().detail;
  EXPECT_FALSE(Lower(request, inner->at(0), *tree).ok());
}

// Every remainder of rows and lanes of a tile, with an epilogue.
TEST(Contractions, AllRemainders) {
  for (int64_t m : {1, 2, 5, 6, 7, 12, 13, 14}) {
    for (int64_t n : {2, 7, 16, 33, 48, 63, 65, 80}) {
      const auto program = Compile(R"(def gemm(float(M, K) a, float(K, N) b, float(N) c) -> (y) {
        @contraction s(i, j) +=! a(i, k) * b(k, j)
        @pointwise   y(i, j) = max(s(i, j) + c(j), 0.0)
      })",
                                   {{"M", m}, {"N", n}, {"K", 9}});
      ASSERT_TRUE(program.ok()) << program.status().ToString();
      const ScheduleRequest request{.program = &*program, .constants = {"b"}, .target = Widest()};
      const auto choices = Propose(request, 1);
      for (const Choice& choice : *choices) {
        const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice, {"b"});
        EXPECT_TRUE(status.ok()) << m << "x" << n << " " << Print(choice) << status.ToString();
      }
    }
  }
}

// The same of numbers of a byte or two, taken two or four at a time, with remainders of those.
TEST(Contractions, SmallNumbers) {
  constexpr const char* kTypes[][3] = {{"uint8", "int8", "int32"},
                                       {"int16", "int8", "int32"},
                                       {"int8", "int8", "int32"},
                                       {"int16", "int16", "int32"},
                                       {"bfloat16", "bfloat16", "float"}};
  for (const auto& [a, b, sum] : kTypes) {
    for (int64_t k : {1, 2, 9, 805}) {
      for (int64_t n : {7, 33}) {
        const std::string text =
            fmt::format(R"(def gemm({0}(M, K) a, {1}(K, N) b, {2}(N) c) -> (y) {{
          @contraction s(i, j) +=! {2}(a(i, k)) * {2}(b(k, j))
          @pointwise   y(i, j) = s(i, j) - {2}(3) * c(j)
        }})",
                        a, b, sum);
        const auto program = Compile(text, {{"M", 14}, {"N", n}, {"K", k}});
        ASSERT_TRUE(program.ok()) << program.status().ToString();
        const ScheduleRequest request{.program = &*program, .constants = {"b"}, .target = Widest()};
        const auto choices = Propose(request, 2);
        EXPECT_EQ((*choices)[0].clusters[0].dot_axis, k > 1 ? "k" : "");
        for (const Choice& choice : *choices) {
          const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice, {"b"});
          EXPECT_TRUE(status.ok()) << text << k << " " << Print(choice) << status.ToString();
        }
      }
    }
  }
}

// By VDPBF16PS: pairs and one that is left over, padded taps, several blocks of a long sum, and
// numbers that are none, infinite or subnormal.
TEST(Contractions, PairsOfBfloatThatFlush) {
  const auto gemm = [](int64_t n, int64_t k) {
    return fmt::format(
        R"(def gemm(bfloat16(14, {1}) a, bfloat16({1}, {0}) b, bfloat16({0}) c) -> (y) {{
        @contraction s(i, j) +=! float(a(i, k)) * float(b(k, j))
        @pointwise   y(i, j) = bfloat16(max(s(i, j) + float(c(j)), 0.0))
      }})",
        n, k);
  };
  constexpr const char* kConv =
      R"(def conv(bfloat16(2, 6, 7, 12) x, bfloat16(33, 12, 3, 3) b) -> (y) {
        @convolution y(n, h, w, k) +=! h+r-1 >= 0 && h+r-1 < 6 && w+s-1 >= 0 && w+s-1 < 7
            ? float(x(n, h+r-1, w+s-1, c)) * float(b(k, c, r, s)) : 0.0
            where n in 0:2, h in 0:6, w in 0:7, k in 0:33, c in 0:12, r in 0:3, s in 0:3
      })";
  for (const std::string& text : {gemm(7, 2), gemm(33, 9), gemm(70, 805), std::string(kConv)}) {
    const auto program = Compile(text);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const ScheduleRequest request{
        .program = &*program, .constants = {"b"}, .target = Bf16(), .flushes = true};
    const auto choices = Propose(request, 3);
    EXPECT_TRUE((*choices)[0].clusters[0].dot_flushes);
    std::vector<Tensor> inputs = tc::RandomInputs(*program, 1), wild = inputs;
    // A subnormal weight would be a zero to what is infinite; there are some in Emit's tests.
    constexpr double kOdd[] = {1.2e-19, -0.9e-19, -0.0, 1e-40, -3e-39};
    for (size_t t = 0; t < wild.size(); ++t) {
      for (int64_t i = 0; i < wild[t].elems(); i += 5)
        SetElem(wild[t], i, kOdd[i / 5 % (t == 0 ? 5 : 3)]);
    }
    SetElem(wild[0], 3, INFINITY);
    SetElem(wild[0], wild[0].elems() - 1, NAN);
    for (const Choice& choice : *choices) {
      for (const auto* data : {&inputs, &wild}) {
        const Status status = RunChoice(*program, *data, choice, {"b"});
        EXPECT_TRUE(status.ok()) << text << Print(choice) << status.ToString();
      }
    }
  }
}

TEST(Contractions, FlushingIsForPairsOfBfloatOnItsTarget) {
  const auto why = [](std::string_view type, std::string_view choice, const Target& target) {
    const auto program =
        Compile(fmt::format("def f({0}(4, 8) a, {0}(8, 16) b) -> (y) {{\n"
                            "  @contraction y(i, j) +=! float(a(i, k)) * float(b(k, j))\n}}",
                            type));
    const ScheduleRequest request{.program = &*program, .target = target};
    const auto choices = ParseChoices(choice, "test");
    const auto scheduled = Schedule(request, &choices->at(0));
    return scheduled.ok() ? "" : scheduled.status().what();
  };
  constexpr const char* kPairs =
      "f: cluster y | order i | tile k 2 | inner k j | vector j 16 | dot k flush";
  EXPECT_EQ(why("bfloat16", kPairs, Bf16()), "");
  EXPECT_NE(why("bfloat16", kPairs, {.isa = Isa::kX86V4Vnni}).find("x86-64-v4-vnni"),
            std::string::npos);
  EXPECT_NE(why("float", kPairs, Bf16()).find("y is no sum of products of bfloat16"),
            std::string::npos);
  const auto points = [&](int count) {
    return why("bfloat16",
               fmt::format("f: cluster y | order i | tile k {} | inner k j | dot k flush", count),
               Bf16());
  };
  EXPECT_EQ(points(4), "");
  EXPECT_EQ(points(32), "");
  const auto twice = Compile(R"(def f(bfloat16(4, 8, 5) a, bfloat16(8, 5, 3) b) -> (y) {
    @contraction y(i, j) +=! float(a(i, k, l)) * float(b(k, l, j))
  })");
  const auto laned = ParseChoices(
      "f: cluster y | order i j | tile k 4 | inner k l | vector l 5 | dot k flush", "test");
  const auto summed = Schedule({.program = &*twice, .target = Bf16()}, &laned->at(0));
  EXPECT_NE(summed.status().what().find("sums apart in each of the lanes"), std::string::npos);
  for (const int count : {1, 3, 34})
    EXPECT_NE(points(count).find(fmt::format("{} points of k are flushed, expected 2", count)),
              std::string::npos);
  const auto program = Compile(
      "def f(bfloat16(4, 8) a, bfloat16(8, 16) b) -> (y) {\n"
      "  @contraction y(i, j) +=! float(a(i, k)) * float(b(k, j))\n}");
  const auto asked = [&](Isa isa, bool flushes) {
    const ScheduleRequest request{
        .program = &*program, .constants = {"b"}, .target = {.isa = isa}, .flushes = flushes};
    return Propose(request)->at(0).clusters[0].dot_flushes;
  };
  EXPECT_TRUE(asked(Isa::kX86V4Bf16, true));
  EXPECT_FALSE(asked(Isa::kX86V4Bf16, false));
  EXPECT_FALSE(asked(Isa::kX86V4Vnni, true));
}

// What is made and used by lanes along one axis lies along it, whatever order its indices have.
TEST(Temporaries, LieAlongTheirLanes) {
  const auto program = Compile(R"(def f(float(9, 5) x, float(5, 7) w) -> (y) {
    @pointwise   t(i, j) = 2.0 * x(i, j)
    @contraction y(k, i) +=! t(i, j) * w(j, k)
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const auto buffer = [&](std::string_view made, std::string_view used) {
    const auto choice =
        ParseChoices(fmt::format("f: cluster t | {} | cluster y | {}", made, used), "test");
    EXPECT_TRUE(choice.ok()) << choice.status().ToString();
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice->at(0));
    EXPECT_TRUE(status.ok()) << status.ToString();
    const ScheduleRequest request{.program = &*program, .target = Widest()};
    const auto scheduled = Schedule(request, &choice->at(0));
    if (!scheduled.ok()) return scheduled.status().ToString();
    const auto named = [](const loops::Buffer& b) { return b.name == "t"; };
    return Print(std::ranges::find_if(scheduled->nest.buffers, named)->layout);
  };
  constexpr const char *kByI = "order j | vector i 9", *kByJ = "order i | vector j 5";
  EXPECT_EQ(buffer(kByI, "order k | inner j i | vector i 9"), "ba");
  EXPECT_EQ(buffer(kByI, "order i | inner j k | vector k 7"), "ba");  // one element for all lanes
  EXPECT_EQ(buffer(kByJ, "order k | inner j i | vector i 9"), "ab");
  EXPECT_EQ(buffer(kByJ, "order i | inner j k | vector k 7"), "ab");
}

// Reductions and what shares their rows; each in both proposals, fused and apart.
TEST(Rows, SoftmaxNormPoolAttention) {
  const std::vector<std::string> texts = {
      R"(def sm(float(7, 83) x) -> (y) {
        @reduction m(i) max=! x(i, j)
        @pointwise e(i, j) = exp(x(i, j) - m(i))
        @reduction d(i) +=! e(i, j)
        @pointwise y(i, j) = e(i, j) / d(i)
      })",
      R"(def ln(float(5, 70) x, float(70) g, float(70) b) -> (y) {
        @reduction m(i) +=! x(i, j)
        @pointwise u(i) = m(i) / 70.0
        @reduction v(i) +=! (x(i, j) - u(i)) * (x(i, j) - u(i))
        @pointwise r(i) = 1.0 / sqrt(v(i) / 70.0 + 0.00001)
        @pointwise y(i, j) = (x(i, j) - u(i)) * r(i) * g(j) + b(j)
      })",
      R"(def pool(float(1, 6, 13, 13) x) -> (g) {
        @window p(n, c, h, w) max=! (2*h+r-1 >= 0 && 2*h+r-1 < 13 && 2*w+s-1 >= 0 && 2*w+s-1 < 13
            ? x(n, c, 2*h+r-1, 2*w+s-1) : -1e30) where n in 0:1, c in 0:6, h in 0:7, w in 0:7, r in 0:3, s in 0:3
        @reduction g(n, c) +=! p(n, c, h, w)
      })",
      R"(def att(float(2, 9, 20) q, float(2, 9, 20) k, float(2, 9, 20) v) -> (o) {
        @contraction a(b, i, j) +=! q(b, i, d) * k(b, j, d)
        @reduction m(b, i) max=! a(b, i, j)
        @pointwise e(b, i, j) = exp(a(b, i, j) - m(b, i))
        @reduction s(b, i) +=! e(b, i, j)
        @pointwise p(b, i, j) = e(b, i, j) / s(b, i)
        @contraction o(b, i, d) +=! p(b, i, j) * v(b, j, d)
      })"};
  for (const std::string& text : texts) {
    const auto program = Compile(text);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const ScheduleRequest request{.program = &*program, .target = Widest()};
    const auto choices = Propose(request, 2);
    for (const Choice& choice : *choices) {
      const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
      EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
    }
  }
}

// What is made of rows and stored across them, in blocks of rows: whole ones and a rest, rows of a
// few vectors and of many, with a second axis, where two readers want it each way, and on a team.
TEST(Rows, TurnedAround) {
  std::vector<std::string> texts = {
      R"(def two(float(37, 70) x) -> (y, z) {
        s(i) +=! x(i, j)
        t(i, j) = x(i, j) / s(i)
        y(j, i) = t(i, j)
        z(i, j) = t(i, j) + x(i, j)
      })",
      R"(def heads(float(3, 20, 5, 17) x) -> (y) {
        m(n, i, h) max=! x(n, i, h, j)
        e(n, i, h, j) = exp(x(n, i, h, j) - m(n, i, h))
        s(n, i, h) +=! e(n, i, h, j)
        p(n, i, h, j) = e(n, i, h, j) / s(n, i, h)
        y(n, h, j, i) = p(n, i, h, j)
      })",
      R"(def mixer(float(19, 33) x, float(19, 21) w) -> (y) {
        s(i) +=! x(i, j)
        t(i, j) = x(i, j) - s(i) / 33.0
        c(j, i) = t(i, j)
        y(j, k) +=! c(j, i) * w(i, k)
      })"};
  texts.push_back(R"(def before(float(70, 37) x) -> (y) {
    r(i, j) = x(j, i) + 1.0
    m(i) max=! r(i, j)
    s(i) +=! exp(r(i, j) - m(i))
    y(i, j) = exp(r(i, j) - m(i)) / s(i)
  })");
  texts.push_back(R"(def pairs(float(2, 19, 37) x) -> (y) { y(p, c, g) = x(g, c, p) })");
  for (const int columns : {2, 15, 33, 64, 100, 300})
    texts.push_back(fmt::format(R"(def norm(float(61, {0}) x, float({0}) g) -> (y) {{
        s(i) +=! x(i, j)
        q(i) +=! (x(i, j) - s(i) / {0}.0) * (x(i, j) - s(i) / {0}.0)
        t(i, j) = (x(i, j) - s(i) / {0}.0) / sqrt(q(i) + 0.00001) * g(j)
        y(j, i) = t(i, j)
      }})",
                                columns));
  for (const std::string& text : texts) {
    const auto program = Compile(text);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    for (const int threads : {1, 2}) {
      Target target = Widest();
      target.threads = threads;
      const auto choices = Propose({.program = &*program, .target = target}, 3);
      ASSERT_TRUE(choices.yes());
      for (const Choice& choice : *choices) {
        const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
        EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
      }
    }
  }
}

// Blocks of a reduction, with loops over outputs between them: tiles are loaded and spilled.
TEST(Contractions, BlockedReductions) {
  const auto program = Compile(R"(def gemm(float(23, 50) a, float(50, 37) b, float(37) c) -> (y) {
    @contraction s(i, j) +=! a(i, k) * b(k, j)
    @pointwise   y(i, j) = max(s(i, j) + c(j), 0.0)
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const auto choices = ParseChoices(
      "gemm: cluster s y | order j i | tile i 12 4, j 16, k 20 | parallel j | inner k i k | unroll "
      "i | vector j 16 | pack b Ba16b | prefetch b\n"
      "gemm: cluster s | order j | tile i 4, j 16, k 20 | parallel j | inner k i k | unroll i | "
      "vector j 16 | cluster y | prefetch b\n"
      "gemm: cluster s y | tile k 7, i 3 | inner k i k j\n",
      "test");
  ASSERT_TRUE(choices.ok()) << choices.status().ToString();
  for (const Choice& choice : *choices) {
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice, {"b"});
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
  }
}

// Sums of several rows, spread over lanes, whose lanes are joined together: any number of rows, any
// lanes, tails, what was there before, results that lie apart.
TEST(Contractions, SumsOfRowsAreJoined) {
  const std::vector<const char*> texts = {
      "def s(float(19, 70) a, float(70) b) -> (y) { y(i) +=! a(i, k) * b(k) }",
      "def s(double(19, 70) a, double(70) b) -> (y) { y(i) +=! a(i, k) * b(k) }",
      "def s(int32(19, 70) a, int32(70) b) -> (y) { y(i) +=! a(i, k) * b(k) }",
      "def s(float16(19, 70) a) -> (y) { y(i) max=! a(i, k) }",
      "def s(float(19, 70) a, float(19) y_in) -> (y) { y(i) = y_in(i)  y(i) += a(i, k) }",
      "def s(float(19, 70) a) -> (y) { y(i / 3, i % 3) min=! a(i, k) where i in 0:18 }",
      "def s(float(2, 19, 70) a) -> (y) { y(j, i) +=! a(j, i, k) }"};
  int joined = 0;
  for (const char* text : texts) {
    const auto program = Compile(text);
    if (!program.ok()) {
      ADD_FAILURE() << text << program.status().ToString();
      continue;
    }
    const std::string sum = StatementNames(*program).back();
    const std::string first = program->statements.size() > 1 ? "cluster y | " : "";
    for (const int rows : {2, 5, 6, 8, 16}) {
      for (const int lanes : {2, 8, 16, 64}) {
        const auto choices = ParseChoices(
            fmt::format("s: {}cluster {} | order i | tile i {} | unroll i | vector k {}\n", first,
                        sum, rows, lanes),
            "test");
        ASSERT_TRUE(choices.ok()) << choices.status().ToString();
        const Status status =
            RunChoice(*program, tc::RandomInputs(*program, 1), choices->at(0), {});
        EXPECT_TRUE(status.ok()) << text << Print(choices->at(0)) << status.ToString();
        const ScheduleRequest request{.program = &*program, .target = Widest()};
        const auto scheduled = Schedule(request, &choices->at(0));
        joined +=
            scheduled.ok() && loops::Print(scheduled->nest).find("_sums") != std::string::npos;
      }
    }
  }
  EXPECT_GE(joined, 100);
}

struct Conv {
  int64_t size, in, out, kernel, stride, dilation;
  bool channels_last, depthwise;
};

TEST(Contractions, Convolutions) {
  for (const Conv& v : std::vector<Conv>{{9, 5, 7, 1, 1, 1, true, false},
                                         {14, 8, 20, 3, 1, 1, true, false},
                                         {15, 4, 18, 3, 2, 1, true, false},
                                         {13, 3, 9, 3, 1, 2, true, false},
                                         {14, 8, 20, 3, 1, 1, false, false},
                                         {15, 4, 10, 3, 2, 1, false, false},
                                         {13, 3, 9, 3, 1, 2, false, false},
                                         {17, 3, 8, 7, 2, 1, true, false},
                                         {12, 20, 20, 3, 1, 1, true, true},
                                         {12, 6, 6, 3, 1, 1, false, true},
                                         {11, 6, 6, 3, 2, 1, true, true}}) {
    const int64_t pad = v.dilation * (v.kernel / 2), out = (v.size - 1) / v.stride + 1;
    const auto place = [&](std::string n, std::string c, std::string h, std::string w) {
      return v.channels_last ? n + ", " + h + ", " + w + ", " + c
                             : n + ", " + c + ", " + h + ", " + w;
    };
    const auto at = [&](const char* i, const char* r) {
      return std::string(i) + "*" + std::to_string(v.stride) + "+" + r + "*" +
             std::to_string(v.dilation) + "-" + std::to_string(pad);
    };
    const std::string h = at("h", "r"), w = at("w", "s"), size = std::to_string(v.size);
    const std::string weight = v.depthwise ? "float(K, R, R) W" : "float(K, C, R, R) W";
    const std::string tap = v.depthwise ? "x(" + place("n", "k", h, w) + ") * W(k, r, s)"
                                        : "x(" + place("n", "c", h, w) + ") * W(k, c, r, s)";
    const std::string text =
        "def conv(float(" + place("1", "C", "H", "H") + ") x, " + weight +
        ", float(K) b) -> (y) {\n" + "@convolution t(" + place("n", "k", "h", "w") + ") +=! " + h +
        " >= 0 && " + h + " < " + size + " && " + w + " >= 0 && " + w + " < " + size + " ? " + tap +
        " : 0.0 where n in 0:1, k in 0:K, h in 0:" + std::to_string(out) +
        ", w in 0:" + std::to_string(out) + (v.depthwise ? "" : ", c in 0:C") +
        ", r in 0:R, s in 0:R\n" + "@pointwise y(" + place("n", "k", "h", "w") + ") = max(t(" +
        place("n", "k", "h", "w") + ") + b(k), 0.0)\n}";
    auto program = Compile(text, {{"C", v.in}, {"K", v.out}, {"H", v.size}, {"R", v.kernel}});
    ASSERT_TRUE(program.ok()) << program.status().ToString() << text;
    const ScheduleRequest request{.program = &*program, .constants = {"W"}, .target = Widest()};
    const auto choices = Propose(request, 2);
    for (const Choice& choice : *choices) {
      const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice, {"W"});
      EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString() << text;
    }
  }
}

}  // namespace
}  // namespace weft::oracle
