// Names and types: what is refused, how it is said, and what types come out.
#include <fmt/format.h>

#include "tc_lang/test_util.h"

namespace weft::tc {
namespace {

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// The message for one statement over some inputs.
std::string Refusal(const std::string& body, const std::string& outputs = "O") {
  return FirstLine(ErrorOf(
      "def f(float(4) A, int32(4) I, bool(4) B, int8(4) C, double(4) D, float16(4) H) -> (" +
      outputs + ") {\n" + body + "\n}"));
}

// The type of `O(i) = expression`.
std::string TypeOf(const std::string& expression) {
  const Result<Program> program = BindText(
      "def f(float(4) F, double(4) D, float16(4) H, bfloat16(4) G, int8(4) C, int32(4) I, int64(4) "
      "L, uint8(4) U, bool(4) B)"
      " -> (O) { O(i) = " +
      expression + " where i in 0:4 }");
  if (!program.ok()) return FirstLine(program.status().what());
  return std::string(DtypeName((*program)[Outputs(*program)[0]].dtype));
}

TEST(Bind, Types) {
  EXPECT_EQ(TypeOf("F(i) + D(i)"), "f64");
  EXPECT_EQ(TypeOf("H(i) * H(i)"), "f16");
  EXPECT_EQ(TypeOf("H(i) + F(i)"), "f32");
  EXPECT_EQ(TypeOf("H(i) + G(i)"), "f32");
  EXPECT_EQ(TypeOf("H(i) + 1"), "f16");
  EXPECT_EQ(TypeOf("H(i) + 1.0"), "f32");
  EXPECT_EQ(TypeOf("D(i) + 1.0"), "f64");
  EXPECT_EQ(TypeOf("I(i) + F(i)"), "f32");
  EXPECT_EQ(TypeOf("C(i) + C(i)"), "i8");
  EXPECT_EQ(TypeOf("C(i) + 1"), "i32");
  EXPECT_EQ(TypeOf("C(i) + U(i)"), "i8");
  EXPECT_EQ(TypeOf("L(i) + I(i)"), "i64");
  EXPECT_EQ(TypeOf("I(i) + 2147483648"), "i64");
  EXPECT_EQ(TypeOf("I(i) < 3 && B(i)"), "bool");
  EXPECT_EQ(TypeOf("exp(I(i))"), "f32");
  EXPECT_EQ(TypeOf("exp(D(i))"), "f64");
  EXPECT_EQ(TypeOf("i"), "i32");
  EXPECT_EQ(TypeOf("i * 3000000000"), "i64");
  EXPECT_EQ(TypeOf("float16(F(i))"), "f16");
  EXPECT_EQ(TypeOf("B(i) ? H(i) : D(i)"), "f64");
  EXPECT_EQ(TypeOf("9223372036854775808"),
            "the integer 9223372036854775808 does not fit in 64 bits [E0103]");
  EXPECT_EQ(TypeOf("-9223372036854775808"), "i64");
}

// Read above the statement that settles its type, 'h' is first taken for a float.
TEST(Bind, RecurrencesSettleTheirTypes) {
  const auto types = [](const std::string& cast) {
    const Result<Program> program = BindText(
        "def f(float(4) x) -> (p, h) {\n"
        "p(t) = t > 0 ? h(t - 1) * h(t - 1) : " +
        cast + "(x(t)) where t in 0:4\nh(t) = " + cast + "(p(t) + x(t)) where t in 0:4\n}");
    if (!program.ok()) return FirstLine(program.status().what());
    EXPECT_TRUE(Verify(*program).ok()) << Verify(*program).ToString();
    const std::vector<TensorId> outputs = Outputs(*program);
    return fmt::format("{} {}", DtypeName((*program)[outputs[0]].dtype),
                       DtypeName((*program)[outputs[1]].dtype));
  };
  EXPECT_EQ(types("int8"), "i8 i8");
  EXPECT_EQ(types("double"), "f64 f64");
  EXPECT_EQ(types("float"), "f32 f32");
}

// A state that is read before its statement takes the least type that agrees, not float.
TEST(Bind, RecurrencesTakeTheLeastTypesThatAgree) {
  const auto types = [](const std::string& text) {
    const Result<Program> program = BindText(text);
    if (!program.ok()) return FirstLine(program.status().what());
    EXPECT_TRUE(Verify(*program).ok()) << Verify(*program).ToString();
    std::string found;
    for (const TensorDecl& t : program->tensors) {
      if (t.role != Role::kInput) found += fmt::format("{}:{} ", t.name, DtypeName(t.dtype));
    }
    return found;
  };
  const auto sums = [&](const std::string& type) {
    return types("def f(" + type +
                 "(4) x) -> (h) {\n"
                 "q(t) = x(t) + (t > 0 ? h(t - 1) : x(0)) where t in 0:4\nh(t) = q(t) * x(t)\n}");
  };
  EXPECT_EQ(sums("int32"), "h:i32 q:i32 ");
  EXPECT_EQ(sums("uint8"), "h:u8 q:u8 ");
  EXPECT_EQ(sums("int8"), "h:i8 q:i8 ");
  EXPECT_EQ(sums("int64"), "h:i64 q:i64 ");
  EXPECT_EQ(sums("float16"), "h:f16 q:f16 ");
  EXPECT_EQ(sums("double"), "h:f64 q:f64 ");
  // The state is wider than what reads it first.
  EXPECT_EQ(types("def f(int8(4) x) -> (h) {\n"
                  "q(t) = x(t) + (t > 0 ? h(t - 1) : x(0)) where t in 0:4\nh(t) = q(t) + 1\n}"),
            "h:i32 q:i32 ");
  EXPECT_EQ(types("def f(int8(4) x) -> (h) {\n"
                  "q(t) = x(t) + (t > 0 ? h(t - 1) : x(0)) where t in 0:4\nh(t) = sqrt(q(t))\n}"),
            "h:f32 q:f32 ");
  // Conditions, subscripts and segments of a state.
  EXPECT_EQ(types("def f(int32(4) x) -> (h) {\n"
                  "q(t) = t > 0 ? !(h(t - 1) && x(t) > 2) : x(t) == 3 where t in 0:4\n"
                  "h(t) = q(t) == (x(t) > 1)\n}"),
            "h:bool q:bool ");
  EXPECT_EQ(types("def f(int64(4) next) -> (h) {\n"
                  "q(t) = t > 0 ? next(h(t - 1)) : next(0) where t in 0:4\nh(t) = q(t)\n}"),
            "h:i64 q:i64 ");
  // Nothing says what it is.
  EXPECT_EQ(types("def f(int8(4) x) -> (h) {\n"
                  "q(t) = t > 0 ? h(t - 1) : h(t) where t in 0:4\nh(t) = q(t)\n}"),
            "'h' is read at a step of the recurrence that is not yet done [E0504]");
}

TEST(Bind, LiteralsBesideDoubleAreReadFromTheirText) {
  const auto out =
      RunText("def f(double(1) x) -> (y) { y(i) = x(i) + 0.1 }", {}, {Make(Dtype::kF64, {1}, {0})});
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(ElemAsDouble(out->at(0), 0), 0.1);
}

TEST(Bind, TypesThatDoNotMeet) {
  EXPECT_EQ(Refusal("O(i) = B(i) + A(i)"),
            "test.tc:2:13: '+' is not defined for bool and float [E0301]");
  EXPECT_EQ(Refusal("O(i) = A(i) && B(i)"),
            "test.tc:2:13: found float && bool, expected bool on both sides [E0301]");
  EXPECT_EQ(Refusal("O(i) = !A(i)"), "test.tc:2:8: found float under '!', expected bool [E0301]");
  EXPECT_EQ(Refusal("O(i) = A(i) ? 1 : 2"),
            "test.tc:2:8: found a condition of type float, expected bool [E0303]");
  EXPECT_EQ(
      Refusal("O(i) = B(i) ? A(i) : B(i)"),
      "test.tc:2:13: found float and bool as the two branches, expected a common type [E0301]");
  EXPECT_EQ(Refusal("O(i) = A(i + 0.5)"),
            "test.tc:2:12: found a subscript of type float, expected an integer [E0303]");
  EXPECT_EQ(Refusal("O(i) = bit_and(A(i), 1)"),
            "test.tc:2:8: found float for 'bit_and', expected integers [E0301]");
  EXPECT_EQ(Refusal("O +=! B(i)"), "test.tc:2:7: found bool in a reduction [E0301]");
}

TEST(Bind, StoringAWiderTypeNeedsACast) {
  EXPECT_EQ(Refusal("O(i) = I(i) O(i) = A(i)"),
            "test.tc:2:20: found a value of type float for 'O', which is int32 [E0302]");
  EXPECT_EQ(Refusal("O(i) = D(i)", "float(4) O"),
            "test.tc:2:8: found a value of type double for 'O', which is float [E0302]");
  EXPECT_EQ(Refusal("O(i) = I(i)", "float(4) O"), "no error");
  EXPECT_EQ(Refusal("O +=! D(i)", "float O"), "no error");  // a sum kept in double, rounded once
  EXPECT_EQ(Refusal("O +=! I(i)", "int8 O"),
            "test.tc:2:7: found a value of type int32 for 'O', which is int8 [E0302]");
}

TEST(Bind, NamesThatAreTaken) {
  EXPECT_EQ(Refusal("A(i) = 1.0", "A"), "test.tc:1:84: the tensor 'A' is declared twice [E0202]");
  EXPECT_EQ(Refusal("A(i) = 1.0 O(i) = A(i)"),
            "test.tc:2:1: 'A' is an input, which is never written [E0204]");
  EXPECT_EQ(Refusal("O(A) = 1.0 where A in 0:4"),
            "test.tc:2:3: found 'A', which is a tensor, expected an index [E0202]");
  EXPECT_EQ(Refusal("O(i) = A(i) where i in 0:4, i = 3"),
            "test.tc:2:19: found 'i', which is a let, expected an index [E0202]");
  EXPECT_EQ(Refusal("O(i) = A(i) where i in 0:4, i in 0:3"),
            "test.tc:2:29: the index 'i' has two ranges [E0410]");
  EXPECT_EQ(Refusal("O(exp) = A(exp)"),
            "test.tc:2:3: found 'exp', which is a builtin function, expected an index [E0202]");
  EXPECT_EQ(Refusal("O(i, i) = A(i)"),
            "test.tc:2:6: the index 'i' stands twice on the left [E0202]");
  EXPECT_EQ(FirstLine(ErrorOf("def f(float(N) N) -> (O) { O(i) = N(i) }", {{"N", 3}})),
            "test.tc:1:16: 'N' is a size and a tensor [E0202]");
}

TEST(Bind, UnknownNamesComeWithASuggestion) {
  EXPECT_EQ(Refusal("O(i) = tanhh(A(i))"),
            "test.tc:2:8: 'tanhh' is neither a tensor of this def nor a builtin, did you mean "
            "'tanh'? [E0201]");
  EXPECT_EQ(
      Refusal("@contracton O(i) = A(i)"),
      "test.tc:2:1: found the unknown tag '@contracton', did you mean 'contraction'? [E0205]");
  EXPECT_EQ(Refusal("O(i) = A(i) where i in 0:L"),
            "test.tc:2:26: found 'L', expected a size, a literal or an earlier let [E0405]");
  EXPECT_EQ(FirstLine(ErrorOf("def f(float(N) x) -> (O) { O(i) = x(i) }")),
            "test.tc:1:13: the size 'N' is not known [E0408]");
}

TEST(Bind, Ranks) {
  EXPECT_EQ(Refusal("O(i) = A(i, i)"),
            "test.tc:2:8: found 2 subscripts on 'A', which has rank 1 [E0306]");
  EXPECT_EQ(Refusal("O(i) = A(i) O(i, j) = 1.0"),
            "test.tc:2:13: found 2 subscripts on 'O', which has rank 1 [E0306]");
  EXPECT_EQ(Refusal("O(i) = A(i)", "float O"),
            "test.tc:2:1: found 1 subscripts on 'O', which is declared with rank 0 [E0306]");
  EXPECT_EQ(Refusal("O(i) = A(i)", "float(5) O"),
            "test.tc:1:90: extent 0 of 'O' is stated as 5, but 4 is what is written [E0407]");
  EXPECT_EQ(Refusal("O(i) = A(i)", "O, P"),
            "test.tc:1:87: no statement writes the output 'P' [E0203]");
}

TEST(Bind, Reductions) {
  EXPECT_EQ(
      Refusal("O = A(i)"),
      "test.tc:2:1: the index 'i' does not occur on the left, and '=' is no reduction [E0501]");
  for (const char* op : {"+=", "*=", "min=", "max="}) {
    const std::string said = Refusal(std::string("O ") + op + " A(i)");
    EXPECT_NE(said.find("which nothing has defined"), std::string::npos) << said;
  }
  EXPECT_EQ(Refusal("O = 0.0 O += A(i)"), "no error");
  EXPECT_EQ(Refusal("O(i) +=! A(i)"), "no error");
}

TEST(Bind, BoundsReadNoTensors) {
  EXPECT_EQ(Refusal("O(i) = A(i) where i in 0:I(0)"),
            "test.tc:2:26: a bound may not read the tensor 'I' [E0405]");
  EXPECT_EQ(Refusal("O(i) = A(i) where i in 0:i"),
            "test.tc:2:26: found the index 'i', expected sizes, literals and lets only [E0405]");
  EXPECT_EQ(Refusal("O(i) = A(i) where i in 0:1/0"),
            "test.tc:2:27: found a bound that is no sum of sizes and integers [E0405]");
}

TEST(Bind, EveryCellIsWrittenBeforeItIsRead) {
  EXPECT_NE(ErrorOf("def f(float(4) A) -> (O) { O(2 * i) = A(i) }")
                .find("not every cell of 'O' is written"),
            std::string::npos);
  EXPECT_EQ(
      ErrorOf("def f(float(4) A) -> (O) { O(2 * i) = A(i) O(2 * i + 1) = A(i) where i in 0:4 }"),
      "no error");
  EXPECT_NE(ErrorOf("def f(float(4) A) -> (O) { O(i / 2) = A(i) where i in 0:4 }")
                .find("writes a cell twice"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf("def f(float(4) A) -> (O) { O(i) = t(i) where i in 0:4 t(i) = A(i) where i in 0:2 }")
          .find("t"),
      std::string::npos);
  EXPECT_NE(ErrorOf("def f(float(4, 4) A) -> (O) { O(i, j) = A(i, j) O(i, j) = O(j, i) where i in "
                    "0:4, j in 0:4 }")
                .find("reads itself"),
            std::string::npos);
}

TEST(Bind, Tuples) {
  EXPECT_EQ(Refusal("(O, P) +=! (A(i), i)", "O, P"),
            "test.tc:2:1: found '+=!' in a tuple statement, expected min=! or max=! [E0503]");
  EXPECT_EQ(Refusal("(O, O) max=! (A(i), i)"),
            "test.tc:2:5: found the same tensor twice in a tuple [E0503]");
  EXPECT_EQ(
      Refusal("(O, P) max=! (A(i))", "O, P"),
      "test.tc:2:1: found 1 values for 2 targets, expected one each, two at the most [E0503]");
}

TEST(Bind, SeveralErrorsARun) {
  const std::string said = ErrorOf(
      "def f(float(4) A) -> (O, P, Q) {\n  O(i) = B(i)\n  P(i) = O(i)\n  Q(i) = A(i, i)\n}");
  EXPECT_NE(said.find("test.tc:2:10: 'B' is neither"), std::string::npos) << said;
  EXPECT_NE(said.find("test.tc:4:10: found 2 subscripts"), std::string::npos) << said;
  EXPECT_EQ(said.find("test.tc:3"), std::string::npos)
      << "what follows from the first is not said again: " << said;
}

TEST(Bind, HostileSizes) {
  EXPECT_EQ(FirstLine(ErrorOf("def f(float(99999999999999999999) x) -> (O) { O(i) = x(i) }")),
            "test.tc:1:13: the extent 99999999999999999999 is larger than 1099511627776 [E0411]");
  EXPECT_EQ(FirstLine(ErrorOf("def f(float(N) x) -> (O) { O(i) = x(i) }", {{"N", -1}})),
            "test.tc:1:13: the size 'N' is -1, expected 0 to 1099511627776 [E0411]");
  EXPECT_NE(ErrorOf("def f(float(N, N) x) -> (O) { O(i, j) = x(i, j) }", {{"N", int64_t{1} << 40}})
                .find("more elements than can be addressed"),
            std::string::npos);
  // Nor are there offsets into what is empty beside huge extents, be it read, written or scratch.
  const auto of_none = [](const std::string& def) {
    return ErrorOf(def, {{"M", int64_t{1} << 40}, {"N", 0}});
  };
  EXPECT_NE(of_none("def f(float(M, M, N) x) -> (O) { O(k) +=! x(i, j, k) }")
                .find("'x' has more elements than can be addressed"),
            std::string::npos);
  EXPECT_NE(of_none("def f(float(M, N) x) -> (O) { s(i) +=! x(i, j)  O(i, j) = x(i, j) * s(i) }")
                .find("temporaries up to 's' have more elements than can be addressed"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf("def f(float(9) x) -> (O) { O(i) = x(i * 4611686018427387904 * 4) where i in 0:9 }")
          .find("error"),
      std::string::npos);
  std::string lets = "def f(float(9) x) -> (O) { O(i) = a30 where i in 0:9, a0 = x(i)";
  for (int k = 1; k <= 30; ++k)
    lets +=
        ", a" + std::to_string(k) + " = a" + std::to_string(k - 1) + " + a" + std::to_string(k - 1);
  EXPECT_NE(ErrorOf(lets + " }").find("lets written out"), std::string::npos);
  EXPECT_NE(ErrorOf("def f(float(9) x) -> (O) { O(i) = a where i in 0:9, a = b, b = a }")
                .find("uses itself"),
            std::string::npos);
}

// A scatter in canonical form says for each cell what it takes.
TEST(Bind, ScattersBecomeReductions) {
  const auto print = [](const std::string& statement) {
    const Result<Program> program = BindText("def f(float(6) x) -> (y) { " + statement + " }");
    return program.ok() ? Print(*program) : program.status().ToString();
  };
  EXPECT_EQ(print("y(i / 3) +=! x(i) where i in 0:6"),
            "def f(float(6) x) -> (float(2) y) {\n"
            "  @reduction y(cell0) +=! -3 * cell0 + i >= 0 && 3 * cell0 + -1 * i + 2 >= 0 ? x(i) : "
            "-0.0 where cell0 in 0:2, i in 0:6\n}\n");
  EXPECT_NE(print("y(3 * a + b) +=! x(3 * a + b) where a in 0:2, b in 0:3").find("y(3 * a + b)"),
            std::string::npos);  // writes each cell once
  EXPECT_NE(ErrorOf("def f(float(6) x) -> (y, k) { (y(i / 3), k(i / 3)) max=! (x(i), i) where i in "
                    "0:6 }")
                .find("several instances write one cell of 'y'"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::tc
