// A schedule in other names is the one that those names would have got.
#include "polyhedral/alike.h"

#include <gtest/gtest.h>

#include "tc_lang/bind.h"

namespace weft::polyhedral {
namespace {

tc::Program Parsed(const std::string& text) {
  const auto defs = tc::ParseDefs(text, "test.tc");
  EXPECT_TRUE(defs.ok()) << defs.status().ToString();
  const auto program = tc::Bind(defs->at(0), {});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return *program;
}

void ExpectSame(const std::string& text, const std::string& other,
                const std::map<std::string, Layout>& layouts = {},
                const std::map<std::string, Layout>& other_layouts = {}) {
  const tc::Program program = Parsed(text), renamed = Parsed(other);
  const ScheduleRequest known{.program = &program, .layouts = layouts},
      request{.program = &renamed, .layouts = other_layouts};
  EXPECT_EQ(KeyOf(known), KeyOf(request));
  const auto scheduled = Schedule(known), direct = Schedule(request);
  ASSERT_TRUE(scheduled.ok() && direct.ok());
  const auto like = InNamesOf(request, known, *scheduled);
  ASSERT_TRUE(like.yes()) << like.refusal().detail;
  EXPECT_EQ(Print(like->choice), Print(direct->choice));
  EXPECT_EQ(like->tree.text, direct->tree.text);
  EXPECT_EQ(loops::Print(like->nest), loops::Print(direct->nest));
  EXPECT_TRUE(loops::Verify(like->nest).ok());
  EXPECT_EQ(loops::Print(loops::Nameless(like->nest)),
            loops::Print(loops::Nameless(scheduled->nest)));
}

TEST(Alike, TensorsAndStatements) {
  ExpectSame(
      "def f(float(8, 1000) x) -> (y) { m(i) max=! x(i, j)  e(i, j) = exp(x(i, j) - m(i))"
      "  s(i) +=! e(i, j)  y(i, j) = e(i, j) / s(i) }",
      "def softmax_2(float(8, 1000) logits) -> (p) { most(i) max=! logits(i, j)"
      "  raised(i, j) = exp(logits(i, j) - most(i))  sum_1(i) +=! raised(i, j)"
      "  p(i, j) = raised(i, j) / sum_1(i) }");
}

// Tiles have accumulators, operands are packed: buffers and statements besides the program's own.
TEST(Alike, WhatIsMadeBesides) {
  ExpectSame(
      "def f(float(512, 256) a, float(512, 256) b) -> (c, d) {"
      " c(i, j) +=! a(i, k) * b(j, k)  d(i, j) = max(c(i, j), 0.0) }",
      "def fc1(float(512, 256) image, float(512, 256) w1) -> (product, relu1) {"
      " product(i, j) +=! image(i, k) * w1(j, k)  relu1(i, j) = max(product(i, j), 0.0) }");
}

// Names that isl knows, and one that begins with another.
TEST(Alike, NamesThatMeanSomething) {
  ExpectSame("def f(float(8, 64) x) -> (x_y, z) { x_y(i, j) = exp(x(i, j))  z(i) +=! x_y(i, j) }",
             "def g(float(8, 64) mod) -> (floor, mod_2) { floor(i, j) = exp(mod(i, j))"
             "  mod_2(i) +=! floor(i, j) }");
}

// A choice goes from names to none and to other names, those of indices too; copies are statements.
TEST(Alike, ChoicesGoAnywhere) {
  const tc::Program program = Parsed(
                        "def f(float(64, 32) a, float(48, 32) b) -> (c) {"
                        " c(i, j) +=! a(i, k) * b(j, k) }"),
                    other = Parsed(
                        "def g(float(64, 32) x, float(48, 32) w) -> (y) {"
                        " y(m, n) +=! x(m, h) * w(n, h) }");
  const ScheduleRequest request{.program = &program}, like{.program = &other};
  const CopiedRequest nameless = Nameless(request);
  EXPECT_EQ(KeyOf(nameless.request), KeyOf(Nameless(like).request));
  const auto parsed = [](const char* text) { return ParseChoices(text, "test.choices")->at(0); };
  std::vector<std::pair<Choice, Choice>> pairs = {
      {parsed("f: cluster b_packed | order i0 | parallel i0 | cluster c | order i j | tile j 16"
              " | parallel i | inner k | vector j 16 | pack b ba | stream c"),
       parsed("g: cluster w_packed | order i0 | parallel i0 | cluster y | order m n | tile n 16"
              " | parallel m | inner h | vector n 16 | pack w ba | stream y")}};
  const auto choices = Propose(request, 6), wanted = Propose(like, 6);
  ASSERT_TRUE(choices.yes() && wanted.yes());
  for (size_t i = 0; i < choices->size(); ++i) pairs.emplace_back(choices->at(i), wanted->at(i));
  for (const auto& [choice, same] : pairs) {
    const auto bare = InNamesOf(nameless.request, request, choice);
    ASSERT_TRUE(bare.yes());
    EXPECT_TRUE(BuildSchedule(nameless.request, *bare).yes());
    const auto renamed = InNamesOf(like, nameless.request, *bare);
    ASSERT_TRUE(renamed.yes());
    EXPECT_EQ(Print(*renamed), Print(same));
  }
}

// Whatever a cluster says of axes goes along, what the team shares out in each step too.
TEST(Alike, SharesOfARecurrence) {
  const tc::Program program = Parsed(
                        "def f(float(8, 64) x) -> (h) {"
                        " h(t, j) = tanh(x(t, j) + (t > 0 ? h(t - 1, j) : 0.0))"
                        " where t in 0:8, j in 0:64 }"),
                    other = Parsed(
                        "def g(float(8, 64) a) -> (b) {"
                        " b(s, e) = tanh(a(s, e) + (s > 0 ? b(s - 1, e) : 0.0))"
                        " where s in 0:8, e in 0:64 }");
  const ScheduleRequest request{.program = &program, .target = {.threads = 2}},
      like{.program = &other, .target = {.threads = 2}};
  const auto choices = ParseChoices(
      "f: cluster h | order t | tile j 16 | inner j | share j | turn j | vector j 16", "test");
  ASSERT_TRUE(choices.ok()) << choices.status().ToString();
  ASSERT_TRUE(BuildSchedule(request, choices->at(0)).yes());
  const auto renamed = InNamesOf(like, request, choices->at(0));
  ASSERT_TRUE(renamed.yes()) << renamed.refusal().detail;
  EXPECT_EQ(renamed->clusters[0].shares, std::vector<std::string>{"e"});
  EXPECT_EQ(renamed->clusters[0].turns, std::vector<std::string>{"e"});
  EXPECT_TRUE(BuildSchedule(like, *renamed).yes());
}

TEST(Alike, AChoiceOfOthersIsRefused) {
  const tc::Program program = Parsed("def f(float(8, 64) x) -> (y) { y(i, j) = exp(x(i, j)) }");
  const ScheduleRequest request{.program = &program};
  const CopiedRequest nameless = Nameless(request);
  for (const char* const text : {"f: cluster nobody", "f: cluster", "f: cluster t1 | pack t9 ab"}) {
    const auto choices = ParseChoices(text, "test.choices");
    ASSERT_TRUE(choices.ok()) << choices.status().ToString();
    const auto renamed = InNamesOf(request, nameless.request, choices->at(0));
    ASSERT_FALSE(renamed.yes()) << text;
    EXPECT_EQ(renamed.refusal().reason, Reason::kChoiceDoesNotFit);
  }
}

TEST(Alike, AKeyHoldsWhatSchedulesDependOn) {
  const auto key = [](const std::string& text, const ScheduleRequest& request = {}) {
    const tc::Program program = Parsed(text);
    ScheduleRequest of = request;
    of.program = &program;
    return KeyOf(of);
  };
  const std::string text = "def f(float(8, 64) x) -> (y) { y(i, j) = exp(x(i, j)) }";
  const Layout columns = Layout::Permuted(std::vector<int32_t>{1, 0});
  const std::set<std::string> keys = {
      key(text),
      key("def f(float(8, 65) x) -> (y) { y(i, j) = exp(x(i, j)) }"),
      key("def f(float(8, 64) x) -> (y) { y(i, k) = exp(x(i, k)) }"),
      key("def f(float(8, 64) x) -> (y) { y(i, j) = tanh(x(i, j)) }"),
      key(text, {.layouts = {{"x", columns}}}),
      key(text, {.layouts = {{"y", columns}}}),
      key(text, {.constants = {"x"}}),
      key(text, {.target = {.threads = 7}}),
      key(text, {.flushes = true}),
      key(text, {.streams = false})};
  EXPECT_EQ(keys.size(), 10U);
  const std::string renamed = "def g(float(8, 64) a) -> (b) { b(i, j) = exp(a(i, j)) }";
  EXPECT_EQ(key(text, {.constants = {"x"}}), key(renamed, {.constants = {"a"}}));
}

}  // namespace
}  // namespace weft::polyhedral
