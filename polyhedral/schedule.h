// Schedule: a group's comprehension + a choice -> what runs.
//
//   Program ─Analyze→ Scop ─Propose→ Choice ─BuildSchedule→ ScheduleTree ─CheckLegal→ ─Lower→
//   LoopNest
//
// Only this folder and affine/ know isl. Legality is checked by isl for every schedule, on the band
// schedule before tiling; tiling is legal by permutability of the band's members, checked per
// member.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/layout.h"
#include "base/status.h"
#include "base/target.h"
#include "base/verdict.h"
#include "polyhedral/choice/choice.h"
#include "polyhedral/loops/loop_nest.h"
#include "tc_lang/program.h"

namespace weft::polyhedral {

// What a schedule is made for. Layouts of operands by tensor name; plain where absent. Constant
// operands may be packed at plan build, others only by a copy in the kernel.
struct ScheduleRequest {
  const tc::Program* program = nullptr;
  std::map<std::string, Layout> layouts;
  std::vector<std::string> constants;  // inputs whose values are known at plan build
  // Temporaries of the program that are copies of operands (copies.h), by name: the operands.
  // Their layouts are the schedule's own affair.
  std::map<std::string, std::string> copies;
  Target target;
  // Proposals may multiply bfloat16 by VDPBF16PS, which takes subnormal numbers for zero.
  bool flushes = false;
  bool streams = true;  // outputs begin a line of 64 bytes, so they may be stored past the caches
};

// A schedule tree in isl's block form (`.sched`): domain, bands, sequences, filters and marks on
// inner nodes, everything in names, nothing in user pointers. Text is the noun: isl parses it back.
struct ScheduleTree {
  std::string text;
};

struct ScheduleLimits {  // of a dozen statements; more have as many more
  int64_t isl_operations = 300'000;
  // A backstop for a machine so busy that operations take ages: what is decided by it differs from
  // run to run, so the quota has to be what stops isl.
  int32_t isl_milliseconds = 2000;

  ScheduleLimits For(const tc::Program& program) const {
    const int64_t statements = std::max<int64_t>(12, std::ssize(program.statements));
    return {isl_operations * statements / 12,
            static_cast<int32_t>(isl_milliseconds * statements / 12)};
  }
};

// Of a program that is scheduled, and not only run as it is written.
inline constexpr size_t kMostStatements = 48;

// Analytic choices, best guess first, at most `count`: register tiles by FMA per load, lanes along
// the axis that is contiguous in most accesses, parallel outer axes. The first is what budget 0
// takes.
Verdict<std::vector<Choice>> Propose(const ScheduleRequest& request, int count = 1);
// Those whose contractions take register tiles of another kind than the first proposal's: the best
// of the `kind`-th kind by the model, which may be wrong about a processor. With clusters that
// share blocks, and without.
std::vector<Choice> ProposeKind(const ScheduleRequest& request, int kind);
// Whether a contraction has such a kind, about as fast as the first by the model.
bool HasKind(const ScheduleRequest& request, int kind);
// Whether the first proposal runs all contractions of the program in the same blocks, or the only
// one with all else, so that what is handed on stays in the caches of whoever runs the block.
bool RunsInBlocks(const ScheduleRequest& request);
// Every statement in its own cluster in text order, nothing tiled: always legal, always there.
Choice IdentityChoice(const ScheduleRequest& request);

Verdict<ScheduleTree> BuildSchedule(const ScheduleRequest& request, const Choice& choice,
                                    const ScheduleLimits& limits = {});
// yes(true), or kIllegalSchedule naming the violated dependence, or why isl gave no answer.
Verdict<bool> CheckLegal(const ScheduleRequest& request, const ScheduleTree& tree,
                         const ScheduleLimits& limits = {});
// The nest that the tree describes; operands in the program's order (inputs, then outputs). The
// layout of each operand in the nest is the request's, or its pack's.
// Where it is not shown that all accesses stay inside, the nest is refused, or what is read is
// checked when it runs, as gathered elements are.
enum class Unproved : uint8_t { kRefused, kChecked };
Result<loops::LoopNest> Lower(const ScheduleRequest& request, const Choice& choice,
                              const ScheduleTree& tree, Unproved unproved = Unproved::kChecked);

// All of it: the choice if given, else the first proposal, else (with the reason logged and kept in
// `refusal`) the identity.
struct Scheduled {
  Choice choice;
  ScheduleTree tree;
  loops::LoopNest nest;
  std::vector<Refusal> refusals;
  double isl_ms = 0;
};
Result<Scheduled> Schedule(const ScheduleRequest& request, const Choice* forced = nullptr,
                           const ScheduleLimits& limits = {});

}  // namespace weft::polyhedral
