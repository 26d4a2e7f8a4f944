// exp of what is known to be at most 0.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

// The general form asks for the sign of its argument. Where an element's largest neighbour has been
// subtracted from it there is nothing to ask, and only there.
TEST(Exponentials, BelowTheMaximumHaveNoSign) {
  struct Case {
    std::string body;
    bool asks;
  };
  for (const auto& [body, asks] : std::vector<Case>{
           {"m(i) max=! x(i, j)  s(i) +=! exp(x(i, j) - m(i))  y(i, j) = x(i, j) / s(i)", false},
           {"m(i) max=! x(i, j)  y(i, j) = exp(x(i, j) - m(i))", false},
           {"m(j) max=! x(i, j)  y(i, j) = exp(x(i, j) - m(j))", false},
           {"z(i, j) = x(i, j) * 2.0  m(i) max=! z(i, j)  y(i, j) = exp(z(i, j) - m(i))", false},
           {"(m(i), k(i)) max=! (x(i, j), j)  y(i, j) = exp(x(i, j) - m(i)) + float(k(i))", false},
           {"m(i) max=! x(i, j)  y(i, j) = exp(m(i) - x(i, j))", true},
           {"m(i) min=! x(i, j)  y(i, j) = exp(x(i, j) - m(i))", true},
           {"m(i) max=! x(i, j)  y(i, j) = exp(x(j, i) - m(i))", true},
           {"m(j) max=! x(i, j)  y(i, j) = exp(x(i, j) - m(i))", true},
           {"m(i) max=! x(i, j) where j in 1:6  y(i, j) = exp(x(i, j) - m(i))", true},
           {"m(i) max=! x(i, i) where i in 0:6  y(i, j) = exp(x(i, j) - m(i))", true},
           {"m(i) max=! w(i, j)  y(i, j) = exp(x(i, j) - m(i))", true},
           {"m(i) max=! 2.0 * x(i, j)  y(i, j) = exp(2.0 * x(i, j) - m(i))", true},
           {"m(i) max=! x(i, j)  m(i) = m(i) * 0.5  y(i, j) = exp(x(i, j) - m(i))", true}}) {
    const auto program =
        Compile(fmt::format("def f(float(6, 6) x, float(6, 6) w) -> (y) {{ {} }}", body));
    ASSERT_TRUE(program.ok()) << body << program.status().ToString();
    const ScheduleRequest request{.program = &*program, .target = {.isa = Isa::kX86V3}};
    const auto choices = Propose(request, 2);
    ASSERT_TRUE(choices.yes());
    for (const Choice& choice : *choices) {
      const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choice);
      EXPECT_TRUE(status.ok()) << body << Print(choice) << status.ToString();
      const auto scheduled = Schedule(request, &choice);
      ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
      const std::string nest = loops::Print(scheduled->nest);
      EXPECT_EQ(nest.find("< 0:i32") != std::string::npos, asks) << body << "\n" << nest;
    }
  }
}

}  // namespace
}  // namespace weft::oracle
