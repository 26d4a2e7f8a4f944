#include "cli/kernels.h"

#include <map>
#include <numeric>

#include "tuner/measure.h"
#include "tuner/step_times.h"

namespace weft::cli {
namespace {

// Sets of steps that share nodes; steps of all arms are numbered through.
class Regions {
 public:
  explicit Regions(std::span<const ArmSteps> arms) {
    for (const ArmSteps& arm : arms)
      for (const plan::Step& step : arm.spec->steps) {
        parents_.push_back(parents_.size());
        for (const std::string& node : step.nodes)
          if (const auto [it, is_new] = owners_.emplace(node, parents_.size() - 1); !is_new)
            parents_[Of(it->second)] = Of(parents_.size() - 1);
      }
  }
  size_t Of(size_t step) {
    while (parents_[step] != step) step = parents_[step] = parents_[parents_[step]];
    return step;
  }

 private:
  std::vector<size_t> parents_;
  std::map<std::string, size_t> owners_;  // by node
};

}  // namespace

Result<std::vector<std::vector<double>>> StepMedians(std::span<executor::BoundRun* const> runs) {
  constexpr double kSeconds = 2;
  WEFT_TRY(auto samples, tuner::TimeSteps(runs, {.seconds = kSeconds, .stop = &Interrupted()}));
  std::vector<std::vector<double>> medians;
  for (auto& steps : samples) {
    medians.emplace_back();
    for (auto& step : steps) medians.back().push_back(tuner::Summarize(step).p50);
  }
  return medians;
}

std::optional<double> EfficiencyOf(const plan::Step& step, double us,
                                   const std::optional<tuner::Peaks>& peaks) {
  if (!peaks || (step.flops == 0 && step.bytes == 0)) return std::nullopt;
  return tuner::Efficiency(*peaks, step.flops, step.bytes, us);
}

Json JoinedRows(std::span<const ArmSteps> arms) {
  Regions regions(arms);
  Json rows = Json::array();
  std::map<size_t, size_t> row_of;  // by region
  size_t number = 0;
  for (const ArmSteps& arm : arms)
    for (size_t i = 0; i < arm.us.size(); ++i) {
      const size_t region = regions.Of(number++);
      const bool is_first = &arm == &arms[0];
      if (is_first && row_of.emplace(region, rows.size()).second)
        rows.push_back({{"name", ""}, {"arms", Json::object()}});
      const auto it = row_of.find(region);
      if (it == row_of.end()) continue;
      Json& row = rows[it->second];
      if (is_first) {
        const auto& name = row["name"].get_ref<const std::string&>();
        row["name"] = name + (name.empty() ? "" : " + ") + arm.spec->steps[i].name;
      }
      row["arms"][arm.name] = row["arms"].value(arm.name, 0.0) + arm.us[i];
    }
  return rows;
}

}  // namespace weft::cli
