// Programs that use all of the language, by everyone who can run them. WEFT_RANDOM_PROGRAMS says
// how many; a failure prints the seed and the program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

int64_t Count() {
  const char* wanted = std::getenv("WEFT_RANDOM_PROGRAMS");
  return wanted == nullptr ? 200 : std::atoll(wanted);
}

Target Best() {
  for (const Isa isa : {Isa::kX86V4Amx, Isa::kX86V4Vnni, Isa::kX86V4}) {
    if (HostRuns(isa)) return {.isa = isa, .threads = 2};
  }
  return {.isa = Isa::kX86V3, .threads = 2};
}

// The scheduled nest, with race and bounds checks, and its machine code.
Status RunScheduled(const tc::Program& program, uint64_t seed) {
  WEFT_TRY(tc::Verify(program));
  const std::string text = tc::Print(program);
  WEFT_TRY(const tc::Program again, tc::Parse(text, "printed"));
  if (!tc::Equal(program, again)) return Internal("reads back different: " + tc::Print(again));
  const ScheduleRequest request{.program = &program, .target = Best()};
  const Choice identity = IdentityChoice(request);
  for (const Choice* forced : {static_cast<const Choice*>(nullptr), &identity}) {
    Result<Scheduled> scheduled = Schedule(request, forced);
    if (!scheduled.ok()) return std::move(scheduled.status());
    const Case c{.program = &program, .inputs = tc::RandomInputs(program, seed), .tolerance = 1e-3};
    Status status = Compare(c, request, scheduled->nest);
    if (!status.ok())
      return std::move(status).Because(Print(scheduled->choice) + loops::Print(scheduled->nest));
  }
  return {};
}

TEST(WholeLanguage, AllAgree) {
  const tc::RandomOptions options{.most_statements = 5, .whole_language = true};
  int failures = 0;
  for (int64_t seed = 1; seed <= Count() && failures < 5; ++seed) {
    const tc::Program program = tc::RandomProgram(static_cast<uint64_t>(seed), options);
    const Status status = RunScheduled(program, static_cast<uint64_t>(seed));
    EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status.ToString() << "\n"
                             << tc::RandomProgramText(static_cast<uint64_t>(seed), options);
    failures += !status.ok();
  }
}

}  // namespace
}  // namespace weft::oracle
