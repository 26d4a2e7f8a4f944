// Schedules against meaning: whatever the choice, a nest computes what the comprehension says.
#include <gtest/gtest.h>

#include "polyhedral/tree.h"
#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"
#include "tests/oracle/random_choice.h"

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

TEST(RandomPrograms, ProposalsComputeTheMeaning) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= 300 && failures < 5; ++seed) {
    const tc::Program program = tc::RandomProgram(seed);
    std::vector<std::string> constants;
    for (const tc::TensorId t : tc::Inputs(program)) {
      if (t.index % 2 == 1) constants.push_back(program[t].name);
    }
    const ScheduleRequest request{.program = &program, .constants = constants, .target = V4()};
    const auto choices = Propose(request, 3);
    ASSERT_TRUE(choices.yes()) << choices.refusal().detail;
    for (const Choice& choice : *choices) {
      const Status status = RunChoice(program, tc::RandomInputs(program, seed), choice, constants);
      EXPECT_TRUE(status.ok()) << "seed " << seed << "\n" << Print(choice) << status.ToString() << "\n"
                               << tc::Print(program);
      failures += !status.ok();
    }
  }
}

// What isl calls legal must be right, whatever it looks like.
TEST(RandomPrograms, LegalChoicesComputeTheMeaning) {
  int failures = 0, legal = 0, illegal = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 900 && failures < 5; ++seed) {
    const tc::Program program = tc::RandomProgram(seed / 3 + 1);
    const ScheduleRequest request{.program = &program, .target = V4()};
    const Choice choice = RandomChoice(request, seed);
    const auto tree = BuildSchedule(request, choice);
    if (!tree.yes()) {
      ++refused;
      continue;
    }
    if (!CheckLegal(request, *tree).yes()) {
      ++illegal;
      continue;
    }
    const auto nest = Lower(request, choice, *tree);
    if (!nest.ok() && nest.status().code() == Code::kUnsupported) {
      ++refused;
      continue;
    }
    ++legal;
    Status status = nest.status();
    if (nest.ok()) {
      const Case c{.program = &program, .inputs = tc::RandomInputs(program, seed), .machine = seed % 3 == 0};
      status = Compare(c, request, *nest);
      if (!status.ok()) status = std::move(status).Because(loops::Print(*nest));
    }
    EXPECT_TRUE(status.ok()) << "seed " << seed << "\n" << Print(choice) << tree->text << status.ToString() << "\n"
                             << tc::Print(program);
    failures += !status.ok();
  }
  std::printf("%d legal, %d illegal, %d refused\n", legal, illegal, refused);
  EXPECT_GT(legal, 300);
  EXPECT_GT(illegal, 20);
}

}  // namespace
}  // namespace weft::oracle
