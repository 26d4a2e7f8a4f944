// Rows that are looked up in tables.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

std::vector<Tensor> Inputs(const tc::Program& program, int64_t rows) {
  std::vector<Tensor> inputs = tc::RandomInputs(program, 1);
  for (Tensor& t : inputs) {
    if (t.dtype() != Dtype::kI32) continue;
    for (int64_t i = 0; i < t.elems(); ++i)
      t.mutable_as<int32_t>()[i] = static_cast<int32_t>((7 * i + 3) % rows);
  }
  return inputs;
}

// Large tables are fetched from some lookups ahead; where a lookup depends on a condition, or on
// what is inside of the loop, they are not.
TEST(Gathers, LaterRowsAreFetchedAhead) {
  struct Case {
    std::string body;
    std::string fetched;
  };
  for (const auto& [body, fetched] : std::vector<Case>{
           {"y(b, d) +=! t(i(b, l), d)", "let at_1 = i[b, l + 8]"},
           {"y(b, d) +=! t(i(b, l), d) * w(b, l)", "prefetch near t at 40*at_1 + 32"},
           {"y(b, d) +=! t(i(b, 19 - l), d) where l in 0:20", "let at_1 = i[b, -l + 11]"},
           {"y(b, d) +=! t(p(i(b, l)), d)", "let at_3 = p[at_2]"},
           {"y(b, d) +=! t(within(i(b, l), 0, 90), d)", "prefetch near t"},
           {"y(b, d) +=! w(b, l) > 0.0 ? t(i(b, l), d) : 0.0", ""},
           {"y(b) +=! t(i(b, l), 3)", "prefetch near t at 40*at_1 + 3"},
           {"y(b, l) = t(i(b, l), 3)", "prefetch near t"}}) {
    const auto program = Compile(fmt::format(
        "def f(float(90, 40) t, int32(5, 20) i, int32(90) p, float(5, 20) w) -> (y) {{ {} }}",
        body));
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const Target target{.isa = Isa::kX86V4Vnni, .threads = 2, .l2_bytes = 4096};
    const ScheduleRequest request{.program = &*program, .target = target};
    const auto choices = Propose(request, 1);
    ASSERT_TRUE(choices.yes());
    const Choice& choice = choices->at(0);
    EXPECT_EQ(choice.prefetches, std::vector<std::string>{"t"}) << Print(choice);
    const Status status = RunChoice(*program, Inputs(*program, 90), choice);
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
    const auto scheduled = Schedule(request, &choice);
    ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
    const std::string nest = loops::Print(scheduled->nest);
    if (fetched.empty())
      EXPECT_EQ(nest.find("prefetch"), std::string::npos) << nest;
    else
      EXPECT_NE(nest.find(fetched), std::string::npos) << nest;
  }
}

// Rows of one table are multiplied with rows of another in tiles of registers.
TEST(Gathers, ProductsOfRowsHaveTiles) {
  const auto program = Compile(R"(
    def f(float(50, 13) t, float(60, 37) u, int32(5, 20) i, int32(5, 20) j) -> (y) {
      y(b, p, q) +=! t(i(b, l), p) * u(j(b, l), q)
    })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ScheduleRequest request{.program = &*program, .target = Widest()};
  const auto choices = Propose(request, 2);
  ASSERT_TRUE(choices.yes());
  EXPECT_NE(Print(choices->at(0)).find("unroll p"), std::string::npos) << Print(choices->at(0));
  for (const Choice& choice : *choices) {
    const Status status = RunChoice(*program, Inputs(*program, 50), choice);
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
  }
}

// A factor of several tensors, as a weight whose bits lie apart: all are packed alike and fetched.
TEST(Gathers, FactorsOfSeveralTensors) {
  const auto program = Compile(R"(
    def f(float(2, 384) x, uint16(384, 80) low, int8(384, 80) high, uint4(384, 80) code) -> (y) {
      y(m, n) +=! x(m, k) * bitcast_float(bit_or(bit_or(int32(low(k, n)), bit_and(shl(int32(high(k, n)), 16), -2139095041)),
                                                 int32(code(k, n)) > 0 ? shl(int32(code(k, n)) + 108, 23) : 0))
    })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const std::vector<std::string> weights = {"low", "high", "code"};
  for (const Target& target : {Widest(), Target{.isa = Isa::kX86V3}}) {
    const ScheduleRequest request{.program = &*program, .constants = weights, .target = target};
    const auto choices = Propose(request, 2);
    ASSERT_TRUE(choices.yes());
    const Choice& choice = choices->at(0);
    for (const std::string& weight : weights) {
      EXPECT_EQ(std::ranges::count(choice.packs, weight, &Pack::tensor), 1) << Print(choice);
      EXPECT_EQ(std::ranges::count(choice.prefetches, weight), 1) << Print(choice);
    }
    const auto scheduled = Schedule(request, &choice);
    ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
    const std::string nest = loops::Print(scheduled->nest);
    EXPECT_NE(nest.find("prefetch near code"), std::string::npos) << nest;
    for (const Choice& other : *choices) {
      const Status status = RunChoice(*program, Inputs(*program, 50), other, weights);
      EXPECT_TRUE(status.ok()) << Print(other) << status.ToString();
    }
  }
}

// Where a register of lanes looks up one place, it is looked up before them.
TEST(Gathers, LanesThatShareAPlace) {
  const auto program = Compile(R"(
    def f(float(2, 50) x, int32(5, 6) at, float(5, 83) rest) -> (y) {
      y(m, n) +=! x(m, at(e, n / 16)) * rest(e, n)
    })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const Target target{.isa = Isa::kX86V4};
  const ScheduleRequest request{.program = &*program, .target = target};
  const auto choices = Propose(request, 2);
  ASSERT_TRUE(choices.yes());
  const auto scheduled = Schedule(request, &choices->at(0));
  ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
  const std::string nest = loops::Print(scheduled->nest);
  EXPECT_NE(nest.find("= at[e_1, n0] in 0:50"), std::string::npos) << nest;
  for (const Choice& choice : *choices) {
    const Status status = RunChoice(*program, Inputs(*program, 50), choice);
    EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
  }
}

// Lanes that look up places of their own do so together.
TEST(Gathers, LanesWithPlacesOfTheirOwn) {
  for (const char* const body :
       {"y(m, n) = x(m, at(n)) * exp(o(m, n)) where m in 0:2",
        "y(m, n) +=! at(n) > 2 ? x(m + r, at(n)) * o(m, n) : 0.0 where m in 0:2, r in 0:2",
        "y(m) +=! x(m, at(n)) where m in 0:2"}) {
    const auto program = Compile(
        fmt::format("def f(float(4, 50) x, int32(83) at, float(2, 83) o) -> (y) {{ {} }}", body));
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const ScheduleRequest request{.program = &*program, .target = Target{.isa = Isa::kX86V4}};
    const auto choices = Propose(request, 3);
    ASSERT_TRUE(choices.yes());
    for (const Choice& choice : *choices) {
      const Status status = RunChoice(*program, Inputs(*program, 50), choice);
      EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
    }
    const auto scheduled = Schedule(request, &choices->at(0));
    ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
    const std::string nest = loops::Print(scheduled->nest);
    const size_t let = nest.find("let at");
    ASSERT_NE(let, std::string::npos) << nest;
    const size_t opens = nest.rfind('{', let),
                 line = nest.rfind('\n', opens) + 1;  // the loop around
    EXPECT_NE(nest.substr(line, opens - line).find("vector n"), std::string::npos) << nest;
  }
}

// What else is computed with the lanes' index is not looked up before them.
TEST(Gathers, LanesThatComputeAPlace) {
  for (const char* const body : {"y(m, n) = x(m, at(n / 16) + n / 16) where m in 0:2, n in 0:83",
                                 "y(m, n) = o(m, n) + (at(m) + n / 16 > 4 ? x(m, at(m)) : 0.0)"}) {
    const auto program = Compile(
        fmt::format("def f(float(2, 50) x, int32(6) at, float(2, 83) o) -> (y) {{ {} }}", body));
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    const ScheduleRequest request{.program = &*program, .target = Target{.isa = Isa::kX86V4}};
    const auto choices = Propose(request, 6);
    ASSERT_TRUE(choices.yes());
    for (const Choice& choice : *choices) {
      const Status status = RunChoice(*program, Inputs(*program, 40), choice);
      EXPECT_TRUE(status.ok()) << Print(choice) << status.ToString();
    }
  }
}

}  // namespace
}  // namespace weft::oracle
