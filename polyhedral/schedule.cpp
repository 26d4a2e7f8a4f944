#include "polyhedral/schedule.h"

#include <fmt/format.h>

#include <chrono>

#include "base/log.h"

namespace weft::polyhedral {
namespace {

class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total) {}
  ~Stopwatch() {
    total_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
                  .count();
  }

 private:
  double& total_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Fills `result` from one choice; false, with the reason kept, if it does not do.
bool Attempt(const ScheduleRequest& request, const Choice& choice, const ScheduleLimits& limits,
             Unproved unproved, Scheduled& result) {
  const auto refuse = [&](Refusal refusal) {
    WEFT_LOG(kInfo, "polyhedral", "{}: {} refused: {}: {}", request.program->name, Print(choice),
             ReasonName(refusal.reason), refusal.detail);
    result.refusals.push_back(std::move(refusal));
    return false;
  };
  auto tree = BuildSchedule(request, choice, limits);
  if (!tree.yes()) return refuse(tree.refusal());
  {
    const Stopwatch watch(result.isl_ms);
    const auto legal = CheckLegal(request, *tree, limits);
    if (!legal.yes()) return refuse(legal.refusal());
  }
  auto nest = Lower(request, choice, *tree, unproved);
  if (!nest.ok()) return refuse({Reason::kChoiceDoesNotFit, nest.status().ToString()});
  result.choice = choice;
  result.tree = std::move(*tree);
  result.nest = *std::move(nest);
  return true;
}

}  // namespace

Result<Scheduled> Schedule(const ScheduleRequest& request, const Choice* forced,
                           const ScheduleLimits& limits) {
  Scheduled result;
  if (forced) {
    if (Attempt(request, *forced, limits, Unproved::kChecked, result)) return result;
    return ToStatus(result.refusals.back(), Code::kInvalid)
        .Because(fmt::format("of the choice for {}", request.program->name));
  }
  const auto proposals = Propose(request, 3);
  if (!proposals.yes()) result.refusals.push_back(proposals.refusal());
  if (proposals.yes()) {
    for (const Choice& choice : *proposals) {
      if (Attempt(request, choice, limits, Unproved::kRefused, result)) return result;
    }
  }
  // The program's own order is right even where isl gives up on it; if it is shown to be wrong,
  // something above is.
  const Choice identity = IdentityChoice(request);
  auto tree = BuildSchedule(request, identity, limits);
  if (!tree.yes())
    return ToStatus(tree.refusal(), Code::kInternal)
        .Because(fmt::format("of the identity schedule of {}", request.program->name));
  const auto legal = CheckLegal(request, *tree, limits);
  if (!legal.yes() && legal.refusal().reason == Reason::kIllegalSchedule)
    return Unsupported(fmt::format("{}: no order is shown to be legal: {}", request.program->name,
                                   legal.refusal().detail));
  result.choice = identity;
  result.tree = std::move(*tree);
  WEFT_TRY(result.nest, Lower(request, identity, result.tree));
  return result;
}

}  // namespace weft::polyhedral
