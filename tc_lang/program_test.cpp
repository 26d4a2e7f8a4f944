// The noun: its questions, its text, its invariants.
#include "tc_lang/program.h"

#include "tc_lang/test_util.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {
namespace {

Program Bound(const std::string& text, const std::map<std::string, int64_t>& sizes = {}) {
  Result<Program> program = BindText(text, sizes);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return program.ok() ? *std::move(program) : Program();
}

std::string Guard(const std::string& condition) {
  const Program p = Bound("def f(float(9) x, int32(9) t) -> (y) { y(i) = (" + condition +
                          " ? x(i) : 7.0) where i in 0:9 }");
  const std::optional<GuardedValue> guard = AsGuarded(p, p.statements.at(0).value);
  if (!guard) return "none";
  EXPECT_EQ(guard->otherwise.f32, 7);
  EXPECT_EQ(p[guard->inside].kind, ExprKind::kRead);
  std::string out;
  for (const Affine& e : guard->constraints)
    out += (out.empty() ? "" : "; ") + e.Print([](Var) { return "i"; });
  return out;
}

TEST(Program, AsGuardedReadsConjunctionsInAllDirections) {
  EXPECT_EQ(Guard("i > 1"), "i - 2");
  EXPECT_EQ(Guard("i >= 1"), "i - 1");
  EXPECT_EQ(Guard("i < 5"), "-i + 4");
  EXPECT_EQ(Guard("i <= 5"), "-i + 5");
  EXPECT_EQ(Guard("5 > i && 1 <= i"), "-i + 4; i - 1");
  EXPECT_EQ(Guard("i == 3"), "i - 3; -i + 3");
  EXPECT_EQ(Guard("(i >= 1 && i < 5) && (2 * i >= 3 && i < 8)"), "i - 1; -i + 4; 2*i - 3; -i + 7");
  EXPECT_EQ(Guard("i >= 1 || i < 5"), "none");
  EXPECT_EQ(Guard("i != 3"), "none");
  EXPECT_EQ(Guard("i >= 1 && (i < 5 && i != 4)"), "none");
  EXPECT_EQ(Guard("t(i) > 0"), "none");
}

TEST(Program, AsAffine) {
  const Program p = Bound(
      "def f(float(99) x) -> (y) { y(i, j) = x(3 * (i - j) / 2 % 4 - -5) where i in 0:4, j in 0:2 "
      "}");
  const Expr& read = p[Reads(p, p.statements[0].value)[0]];
  const std::optional<Affine> e = AsAffine(p, read.args[0]);
  ASSERT_TRUE(e);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      const int64_t at[] = {i, j};
      EXPECT_EQ(e->Eval(at), FloorMod(FloorDiv(3 * (i - j), 2), 4) + 5);
    }
  }
}

TEST(Program, WhatLeavesInt64IsNotAffine) {
  for (const char* at : {"-(-9223372036854775808 * i) + 2", "2 - (-9223372036854775808) * i",
                         "i * 4611686018427387904 * 4"}) {
    const Program p =
        Bound(std::string("def f(float(99) x) -> (y) { y(i) = x(") + at + ") where i in 0:1 }");
    EXPECT_FALSE(AsAffine(p, p[Reads(p, p.statements[0].value)[0]].args[0])) << at;
  }
}

TEST(Program, FlopsAndBytes) {
  const Program p =
      Bound("def f(float(8, 4) A, float(4, 2) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }");
  EXPECT_EQ(Flops(p), 2 * 8 * 4 * 2);
  EXPECT_EQ(OperandBytes(p), 4 * (8 * 4 + 4 * 2 + 8 * 2));
  EXPECT_EQ(Flops(Bound("def f(float(8) A, float(3) B) -> (C) {"
                        " C(m) +=! 2 * m + k >= 1 ? A(2 * m + k - 1) * B(k) : 0.0"
                        " where m in 0:4, k in 0:3 }")),
            2 * 4 * 3);  // places are no products
  // Of a table what is looked up; of a column the lines that it lies in.
  EXPECT_EQ(OperandBytes(Bound("def f(float(900, 4) A, int32(8) at) -> (C) {"
                               " C(m, k) = A(at(m), k) }")),
            4 * (8 * 4 + 8 + 8 * 4));
  EXPECT_EQ(OperandBytes(Bound("def f(float(8, 900) A) -> (C) { C(m) = A(m, 7) }")),
            4 * (8 * 16 + 8));
  EXPECT_EQ(OperandBytes(Bound("def f(float(900) A, int32(8) at) -> (C) { C(m) = A(at(m)) }")),
            4 * (8 * 16 + 8 + 8));
  EXPECT_EQ(OperandBytes(Bound("def f(float(900) A) -> (C) { C(m) = A(3 * m) where m in 0:9 }")),
            4 * (9 * 3 + 9));
  EXPECT_EQ(Flops(Bound("def f(float(8) A) -> (C) { C(m) = exp(A(m) - 1.0) }")), 16);
  EXPECT_EQ(Flops(Bound("def f(float(8) A) -> (C) {"
                        " C(m) = m % 2 == 0 ? A(m) + 1.0 : exp(A(m)) * 2.0 }")),
            16);
  // Products of bytes that are summed up are work; what places and unpacks integers is none.
  EXPECT_EQ(Flops(Bound("def f(uint8(8, 4) A, int8(4, 2) B) -> (C) {"
                        " C(m, n) +=! int32(A(m, k)) * int32(B(k, n)) }")),
            2 * 8 * 4 * 2);
  EXPECT_EQ(Flops(Bound("def f(uint8(8) A) -> (C) { C(m) = int32(A(m)) * 2 - 1 }")), 0);
}

TEST(Program, TagsComeFromTheAccesses) {
  const auto tag = [](const std::string& body) {
    const Program p =
        Bound("def f(float(8) A, float(8) B, float(3) W, int32(8) I) -> (C) { " + body + " }");
    return std::string(TagName(p.statements.at(0).tag));
  };
  EXPECT_EQ(tag("C +=! A(k) * B(k)"), "contraction");
  EXPECT_EQ(tag("C(i) +=! A(i + k) * W(k)"), "convolution");
  EXPECT_EQ(tag("C(i) max=! A(i + k) where k in 0:3"), "window");
  EXPECT_EQ(tag("C max=! A(k)"), "reduction");
  EXPECT_EQ(tag("C(i) = A(i) + B(i)"), "pointwise");
  EXPECT_EQ(tag("C(i) = A(i)"), "copy");
  EXPECT_EQ(tag("C(i) = A(I(i))"), "gather");
  EXPECT_EQ(tag("C(i) = A(i) + (i > 0 ? C(i - 1) : 0.0)"), "recurrence");
  EXPECT_EQ(tag("@window C(i) = A(i)"), "window");
}

TEST(Program, PrintsWhatTheHeaderPromises) {
  const Program p = Bound(
      "def conv(float(N, C, H) image, float(K, C, R) w, float(K) b) -> (y) {\n"
      "  t(n, k, h) +=! (h+r-1 >= 0 && h+r-1 < H ? image(n, c, h+r-1) * w(k, c, r) : 0.0) where h "
      "in 0:H  # /conv1/Conv\n"
      "  y(n, k, h) = max(t(n, k, h) + b(k), 0.0)\n}",
      {{"N", 1}, {"C", 2}, {"H", 8}, {"K", 4}, {"R", 3}});
  EXPECT_EQ(
      Print(p),
      "def conv(float(1, 2, 8) image, float(4, 2, 3) w, float(4) b) -> (float(1, 4, 8) y) {\n"
      "  @convolution t(n, k, h) +=! h + r - 1 >= 0 && h + r - 1 < 8 ? image(n, c, h + r - 1) * "
      "w(k, c, r) : 0.0"
      " where n in 0:1, k in 0:4, h in 0:8, r in 0:3, c in 0:2  # /conv1/Conv\n"
      "  @pointwise y(n, k, h) = max(t(n, k, h) + b(k), 0.0) where n in 0:1, k in 0:4, h in 0:8\n"
      "}\n");
}

TEST(Program, LiteralsOfEveryTypeReadBack) {
  const std::string text =
      "def f(float(1) x) -> (a, b, c, d, e, g, h, k) {\n"
      "  a(i) = x(i) + -0.0 - (-1.5e-30) * infinity() + nan() where i in 0:1\n"
      "  b = int8(-128)\n  c = uint64(-1)\n  d = -9223372036854775808\n  e = float16(0.1)\n  g = "
      "double(0.1)\n"
      "  h = bool(1)\n  k = int32(-2147483648)\n}";
  const Program p = Bound(text);
  const Result<Program> again = Parse(Print(p), "again");
  ASSERT_TRUE(again.ok()) << again.status().ToString() << Print(p);
  EXPECT_TRUE(Equal(p, *again)) << Print(p) << Print(*again);
}

TEST(Program, CanonicalTextForgetsNames) {
  const Program a =
      Bound("def one(float(8, 4) A, float(4) B) -> (C) { @reduction C(m) +=! A(m, k) * B(k) }");
  const Program b =
      Bound("def one(float(8, 4) A, float(4) B) -> (C) { C(m) +=! A(m, k) * B(k) }  # here");
  const Program c = Bound("def two(float(8, 4) X, float(4) Y) -> (Z) { Z(i) +=! X(i, j) * Y(j) }");
  const Program d = Bound("def two(float(8, 4) X, float(4) Y) -> (Z) { Z(i) +=! Y(j) * X(i, j) }");
  EXPECT_EQ(CanonicalText(a), CanonicalText(b));
  EXPECT_EQ(CanonicalText(b), CanonicalText(c));
  EXPECT_NE(CanonicalText(b), CanonicalText(d));
  EXPECT_FALSE(Equal(b, c));
  const Result<Program> again = Parse(CanonicalText(c), "canonical");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
}

TEST(Program, VerifyFindsWhatIsBroken) {
  const Program good = Bound("def f(float(8, 4) A, float(4) B) -> (C) { C(m) +=! A(m, k) * B(k) }");
  ASSERT_TRUE(Verify(good).ok());
  const auto broken = [&](auto change) {
    Program p = good;
    change(p);
    return !Verify(p).ok();
  };
  EXPECT_TRUE(broken([](Program& p) { p.statements[0].indices[0].hi = 9; }));
  EXPECT_TRUE(broken([](Program& p) { p.statements[0].indices[0].hi = 7; }));
  EXPECT_TRUE(broken([](Program& p) { p.statements[0].indices[1].reduction = false; }));
  EXPECT_TRUE(broken([](Program& p) { p.statements[0].assign = Assign::kSet; }));
  EXPECT_TRUE(broken([](Program& p) { p.statements[0].accumulate = Dtype::kF64; }));
  EXPECT_TRUE(broken([](Program& p) { p.statements[0].target = TensorId(size_t{0}); }));
  EXPECT_TRUE(broken([](Program& p) { p.statements[0].value = ExprId(size_t{99}); }));
  EXPECT_TRUE(broken([](Program& p) { p.exprs.back().args[0] = p.statements[0].value; }));
  EXPECT_TRUE(broken([](Program& p) { p.tensors[0].dtype = Dtype::kF64; }));
  EXPECT_TRUE(broken([](Program& p) { p.tensors[1].name = "m"; }));
  EXPECT_TRUE(broken([](Program& p) { p.statements.clear(); }));
  EXPECT_TRUE(broken([](Program& p) {
    p.statements.insert(p.statements.begin(), p.statements[0]), p.statements[0].init = false;
  }));
}

TEST(Program, StepsOfRecurrences) {
  const Program p = Bound(
      "def rnn(float(5) x) -> (h, y) {\n"
      "  a(t) = 2.0 * x(t)\n"
      "  h(t) = a(t) + (t > 0 ? c(t - 1) : 0.0) where t in 0:5\n"
      "  c(t) = tanh(h(t)) where t in 0:5\n"
      "  y(t) = c(t)\n}");
  const Result<std::vector<Step>> steps = Steps(p);
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 3);
  EXPECT_EQ((*steps)[1].first, 1);
  EXPECT_EQ((*steps)[1].last, 2);
}

}  // namespace
}  // namespace weft::tc
