// A row for each kernel: what bench and compare say below the whole.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/subject.h"
#include "plan/plan.h"
#include "tuner/peaks.h"

namespace weft::cli {

// Microseconds of each step of each run: medians, of runs that take turns.
Result<std::vector<std::vector<double>>> StepMedians(std::span<executor::BoundRun* const> runs);

// Nothing for a step whose work is not known, and for plans of devices whose peaks are not known.
std::optional<double> EfficiencyOf(const plan::Step& step, double us,
                                   const std::optional<tuner::Peaks>& peaks);

struct ArmSteps {
  std::string name;
  const plan::Specialization* spec = nullptr;
  std::vector<double> us;  // by step
};
// Plans cut a network differently, so a row is a smallest set of nodes that no step of any arm
// crosses, named by the steps that do it in the first arm. An arm without those nodes is left out.
Json JoinedRows(std::span<const ArmSteps> arms);

}  // namespace weft::cli
