// What bench and compare leave in files beside what they say.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/kernels.h"

namespace weft::cli {

struct RecordFlags {
  std::string samples, trace;  // paths; empty: not wanted
  std::optional<double> percentile;
};
std::string PercentileName(double percentile);  // "p99.9"
void AddRecordFlags(CLI::App& app, RecordFlags& flags);

struct ArmSamples {
  std::string name;
  std::span<const double> us;  // in the order of the runs
};
// One line a run, "run,us"; where there are several arms, "arm,run,us".
Status WriteSamples(const std::string& path, std::span<const ArmSamples> arms);

// Trace events, as browsers and Perfetto show them: the median of each step, end to end, an arm a
// row.
Status WriteTrace(const std::string& path, std::span<const ArmSteps> arms);

}  // namespace weft::cli
