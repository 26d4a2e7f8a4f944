#include <cmath>
#include <limits>

#include "tc_lang/test_util.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {
namespace {

TEST(Interpret, Matmul) {
  EXPECT_RUNS(({19, 22, 43, 50}),
              "def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
              {{"M", 2}, {"K", 2}, {"N", 2}},
              {Floats({2, 2}, {1, 2, 3, 4}), Floats({2, 2}, {5, 6, 7, 8})});
}

TEST(Interpret, ConvolutionWithPadding) {
  EXPECT_RUNS(
      ({3, 6, 5}),
      "def conv(float(N, W) x, float(S) w) -> (y) {\n"
      "  y(n, i) +=! (i+s-1 >= 0 && i+s-1 < W ? x(n, i+s-1) * w(s) : 0.0) where i in 0:W\n}",
      {{"N", 1}, {"W", 3}, {"S", 3}}, {Floats({1, 3}, {1, 2, 3}), Floats({3}, {1, 1, 1})});
}

TEST(Interpret, MaxPoolingPadsWithTheIdentity) {
  EXPECT_RUNS(
      ({-1, -1, -2}),
      "def pool(float(W) x) -> (y) { y(i) max=! (i+s-1 >= 0 && i+s-1 < W ? x(i+s-1) : -infinity()) "
      "where i in 0:W, s in 0:3 }",
      {{"W", 3}}, {Floats({3}, {-1, -2, -3})});
}

TEST(Interpret, Softmax) {
  const auto out = RunText(
      "def softmax(float(N, D) I) -> (O) {\n"
      "  mx(n) max=! I(n, d)\n"
      "  e(n, d) = exp(I(n, d) - mx(n))\n"
      "  sum(n) +=! e(n, d)\n"
      "  O(n, d) = e(n, d) / sum(n)\n}",
      {{"N", 2}, {"D", 3}}, {Floats({2, 3}, {1, 2, 3, 0, 0, 0})});
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_NEAR(Values(out->at(0))[2], std::exp(3) / (std::exp(1) + std::exp(2) + std::exp(3)), 1e-6);
  EXPECT_NEAR(Values(out->at(0))[4], 1.0 / 3, 1e-6);
}

TEST(Interpret, LayerNorm) {
  const auto out = RunText(
      "def ln(float(N, D) x, float(D) g, float(D) b) -> (y) {\n"
      "  mean(n) +=! x(n, d) / float(D)\n"
      "  var(n) +=! (x(n, d) - mean(n)) * (x(n, d) - mean(n)) / float(D)\n"
      "  y(n, d) = (x(n, d) - mean(n)) / sqrt(var(n) + 1e-5) * g(d) + b(d)\n}",
      {{"N", 1}, {"D", 4}},
      {Floats({1, 4}, {1, 2, 3, 4}), Floats({4}, {1, 1, 1, 1}), Floats({4}, {0, 0, 0, 0})});
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_NEAR(Values(out->at(0))[3], 1.5 / std::sqrt(1.25), 1e-4);
}

TEST(Interpret, Gather) {
  const std::string text = "def lut(float(E, D) T, int32(B) I) -> (O) { O(b, d) = T(I(b), d) }";
  const Tensor table = Floats({3, 2}, {0, 1, 10, 11, 20, 21});
  EXPECT_RUNS(({20, 21, 0, 1}), text, {{"E", 3}, {"D", 2}, {"B", 2}}, {table, Ints({2}, {2, 0})});
  const auto bad = RunText(text, {{"E", 3}, {"D", 2}, {"B", 2}}, {table, Ints({2}, {3, 0})});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().what(),
            "statement 1 on 'O' reads 'T' at (3, 0), which is outside of its extents [3, 2]");
}

TEST(Interpret, DivisionAndRemainderInSubscripts) {
  EXPECT_RUNS(({0, 1, 2, 3, 4, 5}),
              "def f(float(A, B) x) -> (y) { y(i) = x(i / B, i % B) where i in 0:A * B }",
              {{"A", 2}, {"B", 3}}, {Floats({2, 3}, {0, 1, 2, 3, 4, 5})});
  // On the left: a pixel shuffle's two halves.
  EXPECT_RUNS(({0, 1, 2, 3, 4, 5}),
              "def f(float(N) x) -> (y) { y(i / 3, i % 3) = x(i) where i in 0:N }", {{"N", 6}},
              {Floats({6}, {0, 1, 2, 3, 4, 5})});
}

TEST(Interpret, PixelShuffle) {
  EXPECT_RUNS(({0, 2, 1, 3, 4, 6, 5, 7}),
              "def f(float(C, W) x) -> (y) { y(c / 4, c % 4 / 2, 2 * w + c % 2) = x(c, w) }",
              {{"C", 4}, {"W", 2}}, {Floats({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7})});
}

TEST(Interpret, ConcatenatesByTwoStatementsOrBySelect) {
  const std::vector<Tensor> in = {Floats({2}, {1, 2}), Floats({3}, {3, 4, 5})};
  EXPECT_RUNS(({1, 2, 3, 4, 5}),
              "def cat(float(N) a, float(M) b) -> (y) {\n y(i) = a(i) where i in 0:N\n y(i) = b(i "
              "- N) where i in N:N + M\n}",
              {{"N", 2}, {"M", 3}}, in);
  EXPECT_RUNS(({1, 2, 3, 4, 5}),
              "def cat(float(N) a, float(M) b) -> (y) { y(i) = i < N ? a(i) : b(i - N) where i in "
              "0:N + M }",
              {{"N", 2}, {"M", 3}}, in);
}

TEST(Interpret, RangesThatStartLaterAreMovedToZero) {
  EXPECT_RUNS(({13, 14}), "def f(float(N) x) -> (y) { y(i) = x(i) + 10.0 where i in 3:5 }",
              {{"N", 8}}, {Floats({8}, {0, 1, 2, 3, 4, 5, 6, 7})});
  // The subscript keeps its logical value inside the def, as a number too.
  EXPECT_RUNS(({6, 8}),
              "def f(float(N) x) -> (z) { y(i) = x(i) where i in 3:5\n z(i) = y(i) + float(i) "
              "where i in 3:5 }",
              {{"N", 8}}, {Floats({8}, {0, 1, 2, 3, 4, 5, 6, 7})});
}

TEST(Interpret, CastsAndIntegers) {
  EXPECT_RUNS(({-2, 2, 0}), "def f(float(N) x) -> (y) { y(i) = int32(x(i)) }", {{"N", 3}},
              {Floats({3}, {-2.9, 2.9, NAN})});
  EXPECT_RUNS(({-4, 1, 0}), "def f(int32(N) x, int32(N) z) -> (y) { y(i) = x(i) / z(i) }",
              {{"N", 3}}, {Ints({3}, {-7, 3, 5}), Ints({3}, {2, 2, 0})});
  EXPECT_RUNS(({-3, 1}), "def f(int32(N) x) -> (y) { y(i) = trunc_div(x(i), 2) }", {{"N", 2}},
              {Ints({2}, {-7, 3})});
}

TEST(Interpret, TuplesGiveTheFirstOfTheExtreme) {
  const auto out =
      RunText("def argmax(float(N, D) x) -> (v, k) { (v(n), k(n)) max=! (x(n, d), d) }",
              {{"N", 2}, {"D", 4}}, {Floats({2, 4}, {1, 5, 5, 0, -1, -INFINITY, NAN, 3})});
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(Values(out->at(1)), (std::vector<double>{1, 2}));
}

TEST(Interpret, RecurrencesOfOneStatement) {
  EXPECT_RUNS(({1, 3, 6, 10}),
              "def cumsum(float(T) x) -> (s) { s(t) = x(t) + (t > 0 ? s(t - 1) : 0.0) }",
              {{"T", 4}}, {Floats({4}, {1, 2, 3, 4})});
  EXPECT_RUNS(({1, 3, 6, 10}),
              "def cumsum(float(T) x) -> (s) {\n s(t) = x(t) where t in 0:1\n s(t) = s(t - 1) + "
              "x(t) where t in 1:T\n}",
              {{"T", 4}}, {Floats({4}, {1, 2, 3, 4})});
  // Along the second index; and with a sum inside, over the whole previous step.
  EXPECT_RUNS(({1, 3, 5, 11}),
              "def f(float(N, T) x) -> (s) { s(n, t) = x(n, t) + (t > 0 ? s(n, t - 1) : 0.0) }",
              {{"N", 2}, {"T", 2}}, {Floats({2, 2}, {1, 2, 5, 6})});
  EXPECT_RUNS(({1, 2, 3, 3, 6, 6}),
              "def f(float(T, N) x) -> (h) {\n h(t, n) = x(t, n) where t in 0:1\n"
              " h(t, n) +=! h(t - 1, m) where t in 1:T, m in 0:N, n in 0:N\n}",
              {{"T", 3}, {"N", 2}}, {Floats({3, 2}, {1, 2, 0, 0, 0, 0})});
}

TEST(Interpret, RecurrencesOfSeveralStatements) {
  EXPECT_RUNS(({1, 3, 8}),
              "def rnn(float(T) x) -> (h) {\n"
              "  h(t) = x(t) + (t > 0 ? 2.0 * c(t - 1) : 0.0) where t in 0:T\n"
              "  c(t) = h(t) where t in 0:T\n}",
              {{"T", 3}}, {Floats({3}, {1, 1, 2})});
}

TEST(Interpret, Wavefront) {
  EXPECT_RUNS(({1, 1, 1, 1, 2, 3, 1, 3, 6}),
              "def pascal(float(N, N) x) -> (p) { p(i, j) = (i > 0 ? p(i - 1, j) : 0.0) + (j > 0 ? "
              "p(i, j - 1) : 0.0) + x(i, j) }",
              {{"N", 3}}, {Floats({3, 3}, {1, 0, 0, 0, 0, 0, 0, 0, 0})});
}

TEST(Interpret, ScattersWithAReduction) {
  EXPECT_RUNS(({1, 3, 6, 5, 3}),
              "def f(float(N) x, float(K) w) -> (y) { y(i + k) +=! x(i) * w(k) }",
              {{"N", 3}, {"K", 3}}, {Floats({3}, {1, 2, 3}), Floats({3}, {1, 1, 1})});
}

TEST(Interpret, HalfFloatsAreRoundedWhenStored) {
  const std::string text = "def f(float16(N) a) -> (y) { y(i) = a(i) + a(i) * a(i) }";
  const Tensor a = Make(Dtype::kF16, {1}, {1.0 / 3});
  const auto out = RunText(text, {{"N", 1}}, {a});
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(out->at(0).dtype(), Dtype::kF16);
  const auto third = static_cast<float>(ElemAsDouble(a, 0));
  EXPECT_EQ(ElemAsDouble(out->at(0), 0), ScalarOf(Dtype::kF16, third + third * third).f32);
  // A sum in float32, not in float16: 4096 + 1 + 1 … would stand still.
  const auto sum = RunText("def f(float16(N) a) -> (y) { y +=! a(i) }", {{"N", 3000}},
                           {Make(Dtype::kF16, {3000}, std::vector<double>(3000, 1.0))});
  ASSERT_TRUE(sum.ok()) << sum.status().ToString();
  EXPECT_EQ(ElemAsDouble(sum->at(0), 0), 3000);
}

TEST(Interpret, ConstantsAreTensors) {
  EXPECT_RUNS(
      ({-1, 1}),
      "def f(float(N) x) -> (y) { const D(2, 2) = {-1.0, 1.0, 0.0, 1}\n y(i) +=! D(i, j) * x(j) }",
      {{"N", 2}}, {Floats({2}, {2, 1})});
}

TEST(Interpret, SizeParametersAreStrides) {
  EXPECT_RUNS(({0, 3, 6}), "def f(float(N) x, size S) -> (y) { y(i) = x(S * i) }",
              {{"N", 8}, {"S", 3}}, {Floats({8}, {0, 1, 2, 3, 4, 5, 6, 7})});
}

TEST(Interpret, EmptyReductionsGiveTheIdentity) {
  EXPECT_RUNS(({0}), "def f(float(N, K) x) -> (y) { y(n) +=! x(n, k) }", {{"N", 1}, {"K", 0}},
              {Floats({1, 0}, {})});
  EXPECT_RUNS(({-INFINITY}), "def f(float(N, K) x) -> (y) { y(n) max=! x(n, k) }",
              {{"N", 1}, {"K", 0}}, {Floats({1, 0}, {})});
  EXPECT_RUNS(({}), "def f(float(N, K) x) -> (y) { y(n, k) = x(n, k) }", {{"N", 3}, {"K", 0}},
              {Floats({3, 0}, {})});
}

TEST(Interpret, InPlaceAndAccumulation) {
  EXPECT_RUNS(({4, 9}),
              "def f(float(N, K) x) -> (y) {\n y(n) +=! x(n, k)\n y(n) = max(y(n), 0.0) + 1.0\n "
              "y(n) += x(n, 0)\n}",
              {{"N", 2}, {"K", 2}}, {Floats({2, 2}, {1, 1, 3, 2})});
}

TEST(Interpret, LimitsOfWorkAndMemory) {
  const auto run = [](const std::string& text, const InterpretOptions& options) {
    const Result<Program> program = BindText(text);
    EXPECT_TRUE(program.ok()) << program.status().ToString();
    return Interpret(*program, {}, {}, options).status();
  };
  const std::string wide = "def f() -> (y) { y(i) +=! 1.0 where i in 0:1000, k in 0:1000000000 }";
  EXPECT_EQ(run(wide, {.max_instances = 1000000}).code(), Code::kLimit);
  EXPECT_EQ(run("def f() -> (y) { y(i) = 1.0 where i in 0:1000000 }", {.max_bytes = 1000}).code(),
            Code::kLimit);
  EXPECT_EQ(run("def f() -> (y) { y(i, j) = 1.0 where i in 0:1000000, j in 0:1000000 }",
                {.max_bytes = 1000})
                .code(),
            Code::kLimit);
}

TEST(Interpret, InputsAreCheckedAgainstTheProgram) {
  const Result<Program> program = BindText("def f(float(2) x) -> (y) { y(i) = x(i) }");
  ASSERT_TRUE(program.ok());
  const auto said = [&](const std::vector<Tensor>& inputs) {
    return Interpret(*program, inputs).status().what();
  };
  EXPECT_EQ(said({}), "the input 'x' is missing");
  EXPECT_EQ(said({Floats({3}, {})}), "found f32[3] for the input 'x', expected f32[2]");
  EXPECT_EQ(said({Ints({2}, {})}), "found i32[2] for the input 'x', expected f32[2]");
  EXPECT_EQ(said({Floats({2}, {}), Floats({2}, {})}), "found 2 inputs for 'f', expected 1");
}

TEST(Interpret, RandomProgramsRunWithAndWithoutWidening) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Program program = RandomProgram(seed);
    ASSERT_TRUE(Verify(program).ok()) << seed << Verify(program).ToString() << Print(program);
    const Result<Program> again = Parse(Print(program), "printed");
    ASSERT_TRUE(again.ok()) << again.status().ToString() << Print(program);
    ASSERT_TRUE(Equal(program, *again)) << Print(program) << Print(*again);
    const std::vector<Tensor> inputs = RandomInputs(program, seed);
    const auto narrow = Interpret(program, inputs),
               wide = Interpret(program, inputs, {}, {.widen = true});
    ASSERT_TRUE(narrow.ok() && wide.ok()) << narrow.status().ToString() << Print(program);
    for (size_t k = 0; k < narrow->size(); ++k) {
      ASSERT_EQ((*wide)[k].dtype(), Dtype::kF64);
      for (int64_t e = 0; e < (*narrow)[k].elems(); ++e) {
        const double a = ElemAsDouble((*narrow)[k], e), b = ElemAsDouble((*wide)[k], e);
        ASSERT_TRUE(a == b || std::abs(a - b) <= 1e-3 * std::max(1.0, std::abs(b)))
            << seed << '\n'
            << Print(program) << a << ' ' << b;
      }
    }
  }
}

TEST(Interpret, FourBitsAreComputedInAByteAndStoredByACast) {
  const Tensor x = Make(Dtype::kI4, {4}, {-8, 7, 1, -1}), y = Make(Dtype::kU4, {4}, {15, 15, 2, 0});
  EXPECT_RUNS(({-16, 14, 2, -2}), "def f(int4(N) x) -> (y) { y(i) = x(i) + x(i) }", {{"N", 4}},
              {x});
  EXPECT_RUNS(({32}), "def f(uint4(N) x) -> (y) { y() +=! x(i) }", {{"N", 4}}, {y});
  EXPECT_RUNS(({-4, -5, -8, 4}),
              "def f(int4(N) x, uint4(N) z) -> (int4(N) y) { y(i) = int4(x(i) + z(i) - 11) }",
              {{"N", 4}}, {x, y});
  EXPECT_RUNS(({-1, 1, 7, -8}), "def f(int4(N) x) -> (y) { y(i) = x(3 - i) where i in 0:N }",
              {{"N", 4}}, {x});
  const auto wide = RunText("def f(int4(N) x) -> (int4(N) y) { y(i) = x(i) + 1 }", {{"N", 4}}, {x});
  ASSERT_FALSE(wide.ok());
  EXPECT_NE(wide.status().ToString().find("found a value of type int32 for 'y', which is int4"),
            std::string::npos)
      << wide.status().ToString();
}

TEST(Interpret, BuiltinsOfRealNumbers) {
  const auto of = [](const std::string& e) {
    const auto out = RunText("def f(float(6) x) -> (y) { y(i) = " + e + " }", {},
                             {Floats({6}, {-2.5, -1, 0.25, 1.5, 2.5, std::nan("")})});
    EXPECT_TRUE(out.ok()) << out.status().ToString();
    std::vector<double> values = out.ok() ? Values(out->at(0)) : std::vector<double>(6);
    values.pop_back();  // that of NaN
    return values;
  };
  using List = std::vector<double>;
  EXPECT_EQ(of("abs(x(i))"), (List{2.5, 1, 0.25, 1.5, 2.5}));
  EXPECT_EQ(of("neg(x(i))"), (List{2.5, 1, -0.25, -1.5, -2.5}));
  EXPECT_EQ(of("sqrt(x(i) * x(i))"), (List{2.5, 1, 0.25, 1.5, 2.5}));
  EXPECT_EQ(of("floor(x(i))"), (List{-3, -1, 0, 1, 2}));
  EXPECT_EQ(of("ceil(x(i))"), (List{-2, -1, 1, 2, 3}));
  EXPECT_EQ(of("trunc(x(i))"), (List{-2, -1, 0, 1, 2}));
  EXPECT_EQ(of("round(x(i))"), (List{-2, -1, 0, 2, 2}));
  EXPECT_EQ(of("fma(x(i), 2.0, 1.0)"), (List{-4, -1, 1.5, 4, 6}));
  EXPECT_RUNS((List{0, 0, 0, 0, 0, 1}), "def f(float(6) x) -> (y) { y(i) = int32(isnan(x(i))) }",
              {}, {Floats({6}, {-2.5, -1, 0.25, 1.5, 2.5, std::nan("")})});
}

TEST(Interpret, BuiltinsOfIntegers) {
  const auto of = [](const std::string& e) {
    const auto out = RunText("def f(int32(4) x) -> (y) { y(i) = " + e + " }", {},
                             {Ints({4}, {-7, 0, 6, 1065353216})});
    EXPECT_TRUE(out.ok()) << out.status().ToString();
    return out.ok() ? Values(out->at(0)) : std::vector<double>();
  };
  using List = std::vector<double>;
  EXPECT_EQ(of("bit_and(x(i), 5)"), (List{1, 0, 4, 0}));
  EXPECT_EQ(of("bit_or(x(i), 1)"), (List{-7, 1, 7, 1065353217}));
  EXPECT_EQ(of("bit_xor(x(i), 3)"), (List{-6, 3, 5, 1065353219}));
  EXPECT_EQ(of("bit_not(x(i))"), (List{6, -1, -7, -1065353217}));
  EXPECT_EQ(of("trunc_div(x(i), 2)"), (List{-3, 0, 3, 532676608}));
  EXPECT_EQ(of("rem(x(i), 4)"), (List{-3, 0, 2, 0}));
  EXPECT_EQ(of("int_pow(x(i), 5)"), (List{-16807, 0, 7776, 0}));
  EXPECT_EQ(of("int_pow(x(i), 0)"), (List{1, 1, 1, 1}));
  EXPECT_EQ(of("int_pow(x(i) + 6, -3)"), (List{-1, 0, 0, 0}));
  EXPECT_EQ(of("int32(bitcast_float(x(i)))"), (List{0, 0, 0, 1}));
}

}  // namespace
}  // namespace weft::tc
