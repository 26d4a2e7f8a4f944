// What is joined and what is not; that nothing else changes.
#include "tc_lang/coalesce.h"

#include "tc_lang/test_util.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {
namespace {

using Layouts = std::map<std::string, Layout>;

// The statements' left sides, one after the other: "a(h_w) b(n, h)".
std::string LeftOf(const std::string& text, Layouts layouts = {},
                   const std::vector<std::string>& whole = {}) {
  Program program = Bound(text);
  Coalesce(program, layouts, whole);
  EXPECT_TRUE(Verify(program).ok()) << Verify(program).ToString() << Print(program);
  return LeftOf(program);
}

constexpr char kConv[] =
    "def f(float(2, 5, 4, 6) x, float(3, 5) v) -> (y) {"
    " t(n, k, h, w) +=! x(n, c, h, w) * v(k, c)"
    " y(n, k, h, w) = max(t(n, k, h, w), 0.0) }";

TEST(Coalesce, PlacesOfAPointwiseConvolution) {
  EXPECT_EQ(LeftOf(kConv), "t(n, k, h_w) y(n, k, h_w)");
  EXPECT_EQ(LeftOf(kConv, {{"x", *ParseLayout("acdb")}, {"y", *ParseLayout("acdb")}}),
            "t(n_h_w, k) y(n_h_w, k)");
}

TEST(Coalesce, RecurrencesKeepTheirSteps) {
  EXPECT_EQ(LeftOf("def f(float(6, 4) x, float(6, 4) z) -> (y) {"
                   " p(t, k) = t > 0 ? h(t - 1, k) * 0.5 : 0.0 where t in 0:6, k in 0:4"
                   " u(t, k) = z(t, k) * 2.0"
                   " h(t, k) = p(t, k) + x(t, k) where t in 0:6, k in 0:4"
                   " s +=! h(a, b) where a in 0:6, b in 0:4"
                   " y(t, k) = u(t, k) + s }"),
            "p(t, k) u(t, k) h(t, k) s() y(t, k)");
}

// Which of equal extremes comes first is decided by the order of the indices.
TEST(Coalesce, ReductionsKeepTheirOrder) {
  const auto left = [](const std::string& order) {
    return LeftOf(
        "def f(float(2, 3, 4) x, float(2, 3, 4) z) -> (v, p) {"
        " a(i, j, k) = x(i, j, k) * 1.0;"
        " (v(i), p(i)) max=! (a(i, j, k), z(i, j, k)) where i in 0:2, " +
        order + " }");
  };
  EXPECT_EQ(left("j in 0:3, k in 0:4"), "a(i, j_k) v(i)");
  EXPECT_EQ(left("k in 0:4, j in 0:3"), "a(i, j, k) v(i)");
}

TEST(Coalesce, LayoutsDecide) {
  // One operand has its channels in the middle: batches do not follow one another in both.
  EXPECT_EQ(LeftOf(kConv, {{"x", *ParseLayout("acdb")}}), "t(n, k, h_w) y(n, k, h_w)");
  EXPECT_EQ(LeftOf(kConv, {{"x", *ParseLayout("abdc")}}), "t(n, k, h, w) y(n, k, h, w)");
  EXPECT_EQ(LeftOf(kConv, {{"x", *ParseLayout("abcd+2")}}), "t(n, k, h, w) y(n, k, h, w)");
  EXPECT_EQ(LeftOf(kConv, {{"x", *ParseLayout("abcD2d")}}), "t(n, k, h, w) y(n, k, h, w)");
  EXPECT_EQ(LeftOf(kConv, {}, {"x"}), "t(n, k, h, w) y(n, k, h, w)");
}

TEST(Coalesce, LayoutsFollow) {
  Program program = Bound(kConv);
  Layouts layouts{{"x", *ParseLayout("aBcd2b")}, {"y", *ParseLayout("acdb")}};
  Coalesce(program, layouts, {});
  EXPECT_EQ(Print(layouts.at("x")), "aBc2b");
  EXPECT_EQ(Print(layouts.at("y")), "acb");
  EXPECT_EQ(program.tensors[0].extents, (std::vector<Affine>{2, 5, 24}));
}

TEST(Coalesce, ChainsBecomeOneLoop) {
  EXPECT_EQ(LeftOf("def f(float(3, 4, 5) x, float(3, 4, 5) z) -> (a, b) {"
                   " a(i, j, k) = x(i, j, k) + z(i, j, k) b(i, j, k) = exp(a(i, j, k)) }"),
            "a(i_j_k) b(i_j_k)");
  EXPECT_EQ(LeftOf("def f(float(3, 4, 5) x, float(5) z) -> (a) { a(i, j, k) = x(i, j, k) * z(k) }"),
            "a(i_j, k)");
}

TEST(Coalesce, ReducedPairs) {
  EXPECT_EQ(LeftOf("def f(float(3, 4, 5) x) -> (a) { a(i) +=! x(i, j, k) }"), "a(i)");
  Program program = Bound(
      "def f(float(3, 4, 5) x) -> (a, b) {"
      " a(i, j, k) = x(i, j, k) * 2.0 b(i) max=! a(i, j, k) }");
  Layouts layouts;
  Coalesce(program, layouts, {});
  EXPECT_EQ(program.statements[1].indices.size(), 2U);
  EXPECT_EQ(program.statements[1].indices[1].name, "j_k");
}

TEST(Coalesce, NotWhatIsTakenApart) {
  const auto stays = [](const std::string& body) {
    const std::string text = "def f(float(4, 4) x) -> (y) { " + body + " }";
    EXPECT_EQ(LeftOf(text), "y(i, j)") << body;
  };
  stays("y(i, j) = x(j, i)");
  stays("y(i, j) = x(i, j) + x(j, i)");
  stays("y(i, j) = x(i, i) + x(i, j)");
  stays("y(i, j) = x(i, j) + float(i)");
  stays("y(i, j) = (i > 1 ? x(i, j) : 0.0) where i in 0:4, j in 0:4");
  stays("y(i, j) = x(i, j + 1) where i in 0:4, j in 0:3");
  stays("y(i, j) = x(i, j) where i in 0:4, j in 0:3");
  stays("y(i, j) = x(3 - i, j) where i in 0:4, j in 0:4");
}

TEST(Coalesce, NamesStayApart) {
  EXPECT_EQ(LeftOf("def f(float(4, 4) i_j) -> (y) { y(i, j) = i_j(i, j) }"), "y(i_j_)");
}

TEST(Coalesce, ComputesTheSame) {
  int64_t joined = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Program program = RandomProgram(seed);
    Program other = program;
    Layouts layouts;
    Coalesce(other, layouts, {});
    ASSERT_TRUE(layouts.empty());
    ASSERT_TRUE(Verify(other).ok()) << seed << Verify(other).ToString() << Print(other);
    joined += Print(other) != Print(program);
    std::vector<Tensor> inputs = RandomInputs(program, seed);
    const auto expected = Interpret(program, inputs);
    for (size_t t = 0; t < inputs.size(); ++t)
      inputs[t] = inputs[t].Reshaped(*StaticExtents(other.tensors[t]));
    const auto found = Interpret(other, inputs);
    ASSERT_TRUE(expected.ok() && found.ok()) << seed << found.status().ToString() << Print(other);
    for (size_t k = 0; k < expected->size(); ++k)
      EXPECT_TRUE((*found)[k].Reshaped((*expected)[k].shape()) == (*expected)[k])
          << seed << Print(program) << Print(other);
  }
  EXPECT_GT(joined, 40);
}

}  // namespace
}  // namespace weft::tc
