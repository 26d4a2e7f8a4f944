// Choices for a grid: everything that may run at once does, nothing is tiled.
#include <algorithm>
#include <optional>

#include "polyhedral/axes.h"
#include "polyhedral/cuda/map.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

// One cluster that holds all statements and runs all their common axes in parallel: temporaries are
// then values of one iteration. None if they have no axis in common.
std::optional<Choice> Fused(const tc::Program& program, const std::vector<std::string>& names) {
  std::vector<int32_t> statements;
  for (size_t s = 0; s < names.size(); ++s) statements.push_back(static_cast<int32_t>(s));
  const auto axes = ClusterAxes(program, statements);
  Cluster cluster{.statements = names, .order = SharedAxes(program, statements, axes)};
  if (cluster.order.empty()) return std::nullopt;
  cluster.parallel = static_cast<int32_t>(cluster.order.size());
  return Choice{.group = program.name, .clusters = {std::move(cluster)}};
}

bool ReadsItself(const tc::Program& program, const tc::Statement& s) {
  return std::ranges::any_of(tc::Reads(program, s), [&](tc::ExprId read) {
    return program[read].tensor == s.target || program[read].tensor == s.companion;
  });
}

// The identity, each statement with all its own axes in parallel instead of one.
Choice Wide(const ScheduleRequest& request, const std::vector<std::string>& names) {
  const tc::Program& program = *request.program;
  Choice choice = IdentityChoice(request);
  for (Cluster& cluster : choice.clusters) {
    if (cluster.statements.size() != 1 || cluster.parallel == 0) continue;
    const auto at = std::ranges::find(names, cluster.statements[0]) - names.begin();
    const tc::Statement& s = program.statements[static_cast<size_t>(at)];
    if (ReadsItself(program, s)) continue;
    const auto axes = ClusterAxes(program, {static_cast<int32_t>(at)})[0];
    cluster.order.clear();
    cluster.inner.clear();
    for (size_t i = 0; i < s.indices.size(); ++i) {
      (s.indices[i].reduction ? cluster.inner : cluster.order).push_back(axes[i]);
    }
    cluster.parallel = static_cast<int32_t>(cluster.order.size());
  }
  return choice;
}

}  // namespace

Result<CudaScheduled> MapToCuda(const ScheduleRequest& request, const ScheduleLimits& limits) {
  const tc::Program& program = *request.program;
  const std::vector<std::string> names = StatementNames(program);
  std::vector<Choice> choices;
  if (auto fused = Fused(program, names)) choices.push_back(*std::move(fused));
  choices.push_back(Wide(request, names));
  CudaScheduled best;
  best.mapped.width = 0;
  const auto attempt = [&](const Choice& choice, bool must_check) -> Status {
    auto tree = BuildSchedule(request, choice, limits);
    if (!tree.yes()) {
      best.refusals.push_back(tree.refusal());
      return Internal(tree.refusal().detail);
    }
    if (must_check) {
      const auto legal = CheckLegal(request, *tree, limits);
      if (!legal.yes()) {
        best.refusals.push_back(legal.refusal());
        return {};
      }
    }
    WEFT_TRY(const loops::LoopNest nest, Lower(request, choice, *tree));
    WEFT_TRY(Mapped mapped, MapNest(nest));
    if (mapped.width <= best.mapped.width) return {};
    best.choice = choice;
    best.choice.map = mapped.map;
    best.tree = std::move(*tree);
    best.mapped = std::move(mapped);
    return {};
  };
  for (const Choice& choice : choices) {
    const Status status = attempt(choice, true);
    if (!status.ok()) best.refusals.push_back({Reason::kChoiceDoesNotFit, status.ToString()});
  }
  // The program's own order needs no proof.
  if (best.mapped.width == 0) WEFT_TRY(attempt(IdentityChoice(request), false));
  return best;
}

}  // namespace weft::polyhedral
