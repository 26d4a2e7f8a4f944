// What comprehensions of one's own say, against every schedule that is proposed for them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/reference/interpret.h"
#include "plan/fault.h"
#include "tc_lang/interpret.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

// Every schedule of a program over x and z of [6, 4].
void ExpectMeaning(const std::string& statements) {
  const auto program = Compile("def f(float(6, 4) x, float(6, 4) z) -> (y) {" + statements + "}");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  const auto choices = Propose(request, 3);
  ASSERT_TRUE(choices.yes());
  std::vector<Choice> all = *choices;
  all.push_back(IdentityChoice(request));
  for (const Choice& choice : all) {
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
  }
}

// A statement between those that feed each other, which shares nothing with them but the step.
TEST(Recurrence, TakesOthersAlong) {
  constexpr char kRange[] = " where t in 0:6, k in 0:4\n";
  const std::string p = std::string("p(t, k) = t > 0 ? h(t - 1, k) * 0.5 : 0.0") + kRange,
                    u = std::string("u(t, k) = z(t, k) * 2.0") + kRange,
                    h = std::string("h(t, k) = p(t, k) + x(t, k)") + kRange,
                    s = "s +=! h(a, b) where a in 0:6, b in 0:4\n";
  ExpectMeaning(p + h + "y(t, k) = h(t, k) + z(t, k)" + kRange);
  ExpectMeaning(p + u + h + "y(t, k) = h(t, k) + z(t, k)" + kRange);
  ExpectMeaning(p + u + h + "y(t, k) = h(t, k) + u(t, k)" + kRange);
  ExpectMeaning(p + u + h + s + "y(t, k) = u(t, k) + s" + kRange);
}

// A state that nobody outside asks for has to outlive its step all the same.
TEST(Recurrence, KeepsStatesThatStayInside) {
  constexpr char kRange[] = " where t in 0:6, k in 0:4\n";
  ExpectMeaning(std::string("p(t, k) = t > 0 ? c(t - 1, k) : 0.25") + kRange +
                "c(t, k) = p(t, k) * z(t, k) + x(t, k)" + kRange + "y(t, k) = tanh(c(t, k))" +
                kRange);
  ExpectMeaning(std::string("p(t, k) = t > 1 ? c(t - 2, k) : 0.25") + kRange +
                "c(t, k) = p(t, k) * z(t, k) + x(t, k)" + kRange + "y(t, k) = tanh(c(t, k))" +
                kRange);
}

TEST(Recurrence, AscendsInOneIndexWhateverElseItReads) {
  ExpectMeaning(
      "y(t, k) = x(t, k) where t in 0:1, k in 0:4\n"
      "y(t, k) = x(t, k) + (k > 0 ? y(t - 1, k - 1) : 0.0) + (k < 3 ? y(t - 1, k + 1) : 0.0)"
      " where t in 1:6, k in 0:4\n");
}

// An instance that reads the cell which it will write finds what was there before.
TEST(InPlace, CellsAreReadBeforeTheyAreWritten) {
  ExpectMeaning("y(i, j) = x(i, j)\ny(i, j) = y(i, j) * 2.0\ny(i, j) = y(i, j) + z(i, j)\n");
  ExpectMeaning("y(i, j) = x(i, j)\ny(i, j) = y(i, j) * z(i, j) where i in 2:5, j in 0:4\n");
  ExpectMeaning(
      "m(i) max=! x(i, j)\ny(i, j) = x(i, j) - m(i)\nm(i) +=! y(i, j)\ny(i, j) = y(i, j) / m(i)\n");
  ExpectMeaning(
      "y(i, j) +=! x(i, k) * z(j, k) where i in 0:6, j in 0:6, k in 0:4\n"
      "y(i, j) = y(i, j) + x(i, 0) where i in 0:6, j in 0:6\n"
      "y(i, j) = max(y(i, j), 0.0) where i in 0:6, j in 0:6\n");
}

// Two reductions into one tensor have accumulators of their own.
TEST(InPlace, AccumulatorsHaveNamesOfTheirOwn) {
  ExpectMeaning(
      "s(i) +=! x(i, j)\ny(i, j) = x(i, j) * s(i)\ns(i) max=! y(i, j)\n"
      "y(i, j) = y(i, j) - s(i)\n");
}

// What a branch reads is read only where its condition holds, whatever that depends on.
TEST(Guards, OfData) {
  ExpectMeaning("y(i, j) = x(i, j) > 2.0 ? x(i + 1, j) : 0.5 where i in 0:6, j in 0:4\n");
  ExpectMeaning(
      "t(i) = int32(x(i, 0) * 1000.0) where i in 0:6\n"
      "y(i) = t(i) >= 0 && t(i) < 6 ? x(t(i), 1) : -1.0 where i in 0:6\n");
  ExpectMeaning(
      "y(i) +=! x(i, j) > 5.0 && x(i + j, 0) > 0.0 ? 1.0 : z(i, j) where i in 0:6, j in 0:4\n");
  ExpectMeaning("y(i) = i + 1 < 6 && x(i + 1, 0) > 0.0 ? 1.0 : 0.0 where i in 0:6\n");
}

// The companion of a tuple reads too: what it reads is made before.
TEST(Tuples, CompanionsComeAfterWhatTheyRead) {
  ExpectMeaning(
      "u(k) = z(1, k) where k in 0:4;"
      "(v(t, k), y(t, k)) min=! (max(x(t, k), 0.0), max(u(k), z(t, k)))"
      " where t in 0:6, k in 0:4, r in 0:4");
}

// What is read only where something that is read allows it: a fault elsewhere would be a wrong one,
// and so would a load.
TEST(Conditions, OnWhatIsReadGuardWhatTheyGuard) {
  ExpectMeaning("y(t, k) = x(t, k) > 0.0 && t < 5 ? z(t + 1, k) : 0.0 where t in 0:6, k in 0:4");
  ExpectMeaning(
      "y(t, k) = t < 5 && x(t, k) > 0.0 && k > 0 ? z(t + 1, k - 1) : z(t, k)"
      " where t in 0:6, k in 0:4");
  ExpectMeaning(
      "n(t) = x(t, 0) > 0.0 ? t + 1 : 9 * t where t in 0:6\n"
      "y(t, k) = x(t, 0) <= 0.0 || n(t) > 5 ? 0.0 : z(n(t), k) where t in 0:6, k in 0:4");
  ExpectMeaning(
      "n(t) = x(t, 0) > 0.0 ? t : 9 where t in 0:6\n"
      "y(t, k) = n(t) < 6 && z(n(t), k) > 0.0 ? x(n(t), k) : 1.0 where t in 0:6, k in 0:4");
  ExpectMeaning(
      "n(t) = x(t, 0) > 0.0 ? t : 9 where t in 0:6\n"
      "y(t) +=! n(t) < 6 ? within(n(t), 0, 6) : 0 where t in 0:6, k in 0:4");
}

// Several instances that write one cell: each cell takes them in order, whoever runs them.
TEST(Scatters, ComputeTheMeaning) {
  for (const char* left :
       {"t / 4", "t % 2", "(t + k) / 5", "k / 2", "t / 2 + k % 2", "4 - (t + k) / 2"}) {
    for (const char* op : {"+=!", "max=!"}) {
      ExpectMeaning(fmt::format("y({}) {} x(t, k) * z(t, k) where t in 0:6, k in 0:4", left, op));
      if (std::string_view(left).find('k') != std::string_view::npos) continue;
      ExpectMeaning(
          fmt::format("y(k, {}) {} x(t, r) where t in 0:6, k in 0:4, r in 0:4", left, op));
    }
  }
  ExpectMeaning(
      "y(t, k) = z(t, k) where t in 0:6, k in 0:4\n"
      "y(t / 2, k) += x(t, k) where t in 0:6, k in 0:4");
}

// Rows of a matrix, as many for each i as its segment says.
TEST(Segments, ComputeTheMeaning) {
  for (const char* op : {"+=!", "*=!", "min=!", "max=!"}) {
    for (const int64_t width : {1, 3, 40}) {
      const auto program =
          Compile(fmt::format(R"(def rows(float(9, {0}) x, int32(6) off, float({0}) w) -> (y) {{
        s(i, d) {1} x(j, d) * w(d) where j in off(i):off(i + 1) max 4
        y(i, d) = tanh(s(i, d)) }})",
                              width, op));
      ASSERT_TRUE(program.ok()) << program.status().ToString();
      std::vector<Tensor> inputs = tc::RandomInputs(*program, 1);
      constexpr int64_t kOffsets[] = {0, 4, 4, 3, 5, 9};
      for (int64_t i = 0; i < 6; ++i) SetElemInt(inputs[1], i, kOffsets[i]);
      const ScheduleRequest request{.program = &*program, .target = Widest()};
      auto choices = *Propose(request, 3);
      choices.push_back(IdentityChoice(request));
      for (const Choice& choice : choices) {
        const Status status = RunChoice(*program, inputs, choice);
        EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
      }
    }
  }
}

// Past the end of a segment nothing is read, not even another's row of what is still being made.
TEST(Segments, KeepToTheirBlocks) {
  const auto program =
      Compile(R"(def blocks(float(9, 2) a, float(4, 9, 2) b, float(2, 5) w, int32(2) off) -> (y) {
    t(i, j, k, l) = sigmoid(a(k, l) * b(j, k, l)) where i in 0:4, j in 0:4, k in 0:9, l in 0:2
    u(i, j, k, l) +=! t(p, j, k, l) where i in 0:1, j in 0:4, k in 0:9, l in 0:2, p in off(i):off(i + 1) max 4
    y(i, j, k, l) +=! u(i, j, k, p) * w(p, l) where i in 0:1, j in 0:4, k in 0:9, l in 0:5, p in 0:2 })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  const auto proposed = Propose(request, 3);
  for (const Choice& choice : *proposed) {
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
  }
}

// An empty table, of which no segment holds anything.
TEST(Segments, OfNothing) {
  const auto program = Compile(R"(def rows(float(0, 3) x, int32(3) off) -> (y) {
    y(i, d) +=! x(j, d) where j in off(i):off(i + 1) max 4, d in 0:3 })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const std::vector<Tensor> inputs = {Tensor(Dtype::kF32, {0, 3}), Tensor(Dtype::kI32, {3})};
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  const auto proposed = Propose(request, 3);
  for (const Choice& choice : *proposed) {
    const Status status = RunChoice(*program, inputs, choice);
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
  }
}

// Operands that lie in memory transposed, padded or interleaved.
TEST(Strides, ComputeTheMeaning) {
  const std::vector<std::string> texts = {
      "def gemm(float(7, 9) a strides(1, 7), float(9, 33) b strides(40, 1), float(33) c) -> (y) {\n"
      "  s(i, j) +=! a(i, k) * b(k, j)\n  y(i, j) = max(s(i, j) + c(j), 0.0) }",
      "def gemm(float(16, 64) a strides(64, 1), float(64, 48) b strides(1, 64)) -> (y) {\n"
      "  y(i, j) +=! a(i, k) * b(k, j) }",
      "def conv(float(3, 8, 8) x strides(1, 24, 3), float(4, 3, 3, 3) w) -> (y) {\n"
      "  y(k, h, v) +=! (h+r-1 >= 0 && h+r-1 < 8 && v+s-1 >= 0 && v+s-1 < 8\n"
      "    ? x(c, h+r-1, v+s-1) * w(k, c, r, s) : 0.0) where h in 0:8, v in 0:8 }",
      "def norm(float(6, 5) x strides(8, 1), int32(4) rows) -> (y) {\n"
      "  t(i, j) = x(rows(i), j)\n  m(i) max=! t(i, j)\n  y(i, j) = t(i, j) - m(i) }"};
  for (const std::string& text : texts) {
    const auto program = Compile(text);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const ScheduleRequest request{.program = &*program, .target = Widest()};
    auto choices = *Propose(request, 3);
    choices.push_back(IdentityChoice(request));
    for (const Choice& choice : choices) {
      const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
      EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
    }
  }
}

// What is wrong with the data is said alike by all: which operand, and the value found.
// Some of these stay inside by what intervals don't show, some only where the guard holds.
TEST(Subscripts, OfRemaindersAndUnderGuards) {
  ExpectMeaning("y(i) = x((3 * i / 2) % 4, i % 4) where i in 0:8");
  ExpectMeaning("y(i) = x((i / 2 + i / 3) % 6, 0) where i in 0:40");
  ExpectMeaning("y(i) = i % 3 == 0 ? x(i / 3, 1) : 0.0 where i in 0:18");
  ExpectMeaning("y(i) +=! x((i + 3 * k) / 2 % 5, (k / 2 + i / 3) % 4) where i in 0:9, k in 0:9");
  ExpectMeaning("y(i) = i % 2 == 0 ? x(i / 2, 0) : z((i + 1) / 2, 1) where i in 0:11");
  ExpectMeaning("y((5 * i) % 6) = x(i, 2)");
  ExpectMeaning("y((3 * i / 2) % 4) +=! x(i, 2)");
}

// As a kernel says it: what a guard lets through is looked at before it is read.
TEST(Subscripts, ThatLeaveTheirTensorAreFaults) {
  const auto fault = [](const std::string& value, int64_t rows) {
    const auto program = Compile(
        fmt::format("def f(float({}) x) -> (y) {{ y(i) = {} where i in 0:12 }}", rows, value));
    if (!program.ok()) return program.status().ToString();
    const auto scheduled = Schedule({.program = &*program, .target = Widest()}, nullptr, {});
    if (!scheduled.ok()) return scheduled.status().ToString();
    std::vector<float> x(static_cast<size_t>(rows) + 1), y(12);
    std::vector<void*> operands = {x.data(), y.data()};
    KernelFault found{};
    const Status status = codegen::Interpret(scheduled->nest, operands, {}, &found, {});
    if (!status.ok()) return status.ToString();
    return found.code == 0 ? "none" : plan::DescribeFault(found);
  };
  EXPECT_EQ(fault("i > 2 ? x(i) : 0.0", 9), "index 9 is outside of operand 0");
  EXPECT_EQ(fault("i > 2 ? x(i) : 0.0", 12), "none");
  EXPECT_EQ(fault("i < 3 && x(i + 7) > 0.0 ? 1.0 : 0.0", 9), "index 9 is outside of operand 0");
  EXPECT_EQ(fault("i % 3 == 0 ? x(i / 3) : 0.0", 3), "index 3 is outside of operand 0");
  EXPECT_EQ(fault("i > 2 ? x(i) : 0.0", 0), "index 3 is outside of operand 0");
  EXPECT_EQ(fault("i > 20 ? x(i) : 0.0", 0), "none");
  EXPECT_EQ(fault("x(17592186044416 * i)", 9), "index 17592186044416 is outside of operand 0");
  EXPECT_EQ(fault("x(int32(4294967296 + i))", 12), "none");  // as int32 has it
}

// The loop along a segment ends where that does, if it runs inside of those that choose the
// segment.
TEST(Segments, EndTheirLoops) {
  const auto loops = [](const std::string& where) {
    const auto program = Compile(
        "def rows(float(40, 24) x, int32(5) off) -> (y) {"
        "y(i, d) +=! x(j, d) where " +
        where + " }");
    EXPECT_TRUE(program.ok()) << program.status().ToString();
    const ScheduleRequest request{.program = &*program, .target = Widest()};
    std::string text;
    for (const Choice& choice : {Propose(request, 1)->front(), IdentityChoice(request)}) {
      const auto scheduled = Schedule(request, &choice);
      text += scheduled.ok() ? loops::Print(scheduled->nest) : scheduled.status().ToString();
      std::vector<Tensor> inputs = tc::RandomInputs(*program, 1);
      for (int64_t i = 0; i < 5; ++i) SetElemInt(inputs[1], i, (i / 2) * 20);
      const Status status = RunChoice(*program, inputs, choice);
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    return text;
  };
  const std::string ends = loops("i in 0:4, j in off(i):off(i + 1) max 20");
  EXPECT_NE(ends.find("j = 0:min(20, at"), std::string::npos) << ends;
  EXPECT_EQ(ends.find("select(index(j)"), std::string::npos) << ends;
}

TEST(Segments, FaultsAreReported) {
  const auto program = Compile(R"(def rows(float(9) x, int32(3) off) -> (y) {
    y(i) +=! x(j) where j in off(i):off(i + 1) max 4 })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  const auto scheduled = Schedule(request);
  ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
  struct {
    int64_t first, last;
    KernelFault fault;
  } constexpr kCases[] = {
      {0, 5, {2, 1, 5, 0, 5}}, {-1, 2, {2, 1, -1, 0, INT32_MAX}}, {7, 10, {1, 0, 9, 0, 9}}};
  for (const auto& c : kCases) {
    std::vector<Tensor> buffers = tc::RandomInputs(*program, 1);
    for (int64_t i = 0; i < 3; ++i) SetElemInt(buffers[1], i, i == 0 ? c.first : c.last);
    buffers.emplace_back(Dtype::kF32, Shape{2});
    std::vector<void*> pointers;
    for (Tensor& t : buffers) pointers.push_back(t.mutable_data());
    KernelFault fault{};
    const Status status = codegen::Interpret(scheduled->nest, pointers, {}, &fault, {});
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(std::memcmp(&fault, &c.fault, sizeof(fault)), 0)
        << c.first << ":" << c.last << ": " << plan::DescribeFault(fault);
    EXPECT_FALSE(tc::Interpret(*program, {buffers.data(), 2}).ok());
  }
}

}  // namespace
}  // namespace weft::oracle
