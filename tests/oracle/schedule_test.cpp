// Schedules against meaning: whatever the choice, a nest computes what the comprehension says.
#include <gtest/gtest.h>

#include "polyhedral/tree.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

Target V4() { return {.isa = HostRuns(Isa::kX86V4) ? Isa::kX86V4 : Isa::kX86V3, .threads = 2}; }

// Builds, checks and lowers a choice, and compares it with the meaning of its program.
Status RunChoice(const tc::Program& program, const std::vector<Tensor>& inputs, const Choice& choice,
                 std::vector<std::string> constants = {}) {
  const ScheduleRequest request{.program = &program, .constants = std::move(constants), .target = V4()};
  auto tree = BuildSchedule(request, choice);
  if (!tree.yes()) return Internal(std::string(ReasonName(tree.refusal().reason)) + ": " + tree.refusal().detail);
  const auto legal = CheckLegal(request, *tree);
  if (!legal.yes()) return Internal(legal.refusal().detail + "\n" + tree->text);
  WEFT_TRY(const loops::LoopNest nest, Lower(request, choice, *tree));
  Status status = Compare({.program = &program, .inputs = inputs}, request, nest);
  if (!status.ok()) return std::move(status).Because(tree->text + loops::Print(nest));
  return {};
}

TEST(RandomPrograms, IdentityComputesTheMeaning) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= 300 && failures < 5; ++seed) {
    const tc::Program program = tc::RandomProgram(seed);
    const ScheduleRequest request{.program = &program, .target = V4()};
    const Status status = RunChoice(program, tc::RandomInputs(program, seed), IdentityChoice(request));
    EXPECT_TRUE(status.ok()) << "seed " << seed << "\n" << status.ToString() << "\n" << tc::Print(program);
    failures += !status.ok();
  }
}

}  // namespace
}  // namespace weft::oracle
