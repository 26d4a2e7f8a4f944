#include "cli/record.h"

#include <fmt/format.h>

#include "base/file.h"
#include "cli/interrupt.h"

namespace weft::cli {

std::string PercentileName(double percentile) { return fmt::format("p{}", percentile); }

void AddRecordFlags(CLI::App& app, RecordFlags& flags) {
  app.add_option("--samples", flags.samples, "F.csv for the time of each run: run,us");
  app.add_option("--percentile", flags.percentile, "of the latency, also reported: 99.9")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--trace", flags.trace, "F.json for the steps as trace events");
}

Status WriteSamples(const std::string& path, std::span<const ArmSamples> arms) {
  const bool several = arms.size() > 1;
  std::string text = several ? "arm,run,us\n" : "run,us\n";
  for (const ArmSamples& arm : arms) {
    // A quote in a field is doubled (RFC 4180, section 2).
    std::string name = "\"";
    for (const char c : arm.name) name += c == '"' ? "\"\"" : std::string(1, c);
    name += "\",";
    for (size_t i = 0; i < arm.us.size(); ++i)
      text += fmt::format("{}{},{:.3f}\n", several ? name : "", i, arm.us[i]);
  }
  const HoldInterrupt whole;
  return WriteFileAtomically(path, text);
}

Status WriteTrace(const std::string& path, std::span<const ArmSteps> arms) {
  Json events = Json::array();
  for (size_t arm = 0; arm < arms.size(); ++arm) {
    if (arms.size() > 1)
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", 1},
                        {"tid", arm + 1},
                        {"args", {{"name", arms[arm].name}}}});
    double begin_us = 0;
    for (size_t i = 0; i < arms[arm].us.size(); ++i) {
      const plan::Step& step = arms[arm].spec->steps[i];
      events.push_back({{"name", step.name},
                        {"cat", plan::StepKindName(step.kind)},
                        {"ph", "X"},
                        {"ts", begin_us},
                        {"dur", arms[arm].us[i]},
                        {"pid", 1},
                        {"tid", arm + 1},
                        {"args", {{"nodes", step.nodes}}}});
      begin_us += arms[arm].us[i];
    }
  }
  const HoldInterrupt whole;
  return WriteFileAtomically(path, ToText({{"traceEvents", events}, {"displayTimeUnit", "ns"}}));
}

}  // namespace weft::cli
