#include "polyhedral/propose/propose.h"

#include <algorithm>

#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

bool IsLoop(const ScheduleRequest& request, const std::vector<int32_t>& statements) {
  if (statements.size() > 1) {
    const auto steps = tc::Steps(*request.program);
    if (!steps.ok()) return true;
    return std::ranges::any_of(*steps, [&](const tc::Step& step) {
      return step.first != step.last && static_cast<int32_t>(step.first) == statements[0];
    });
  }
  const auto recurs =
      tc::RecurrenceIndices(*request.program, request.program->statements[statements[0]]);
  return !recurs.ok() || !recurs->empty();
}

// Places of a recurrence that do not feed each other, side by side where they lie so in memory.
void AddLanes(const ScheduleRequest& request, int32_t statement, Cluster& cluster) {
  const ClusterView view = View(request, {statement});
  const tc::Statement& s = view.At(0);
  const int32_t lane = ContiguousIndex(request, s, s.target, s.subscripts);
  const auto recurs = tc::RecurrenceIndices(*request.program, s);
  if (lane < 0 || !recurs.ok() || std::ranges::count(*recurs, lane) > 0) return;
  const std::string& axis = view.axes[0][lane];
  const int64_t vector =
      request.target.VectorBytes() / SizeBytes((*request.program)[s.target].dtype);
  const int64_t lanes = std::min({4 * vector, loops::kMostLanes, view.Extent(axis)});
  if (lanes < 4) return;
  cluster.vector_axis = axis;
  cluster.vector_lanes = lanes;
  if (std::ranges::count(cluster.order, axis) > 0) cluster.tiles.push_back({axis, {lanes}});
}

// A recurrence keeps the order it is written in.
void AddAsWritten(const ScheduleRequest& request, const Choice& identity,
                  const std::vector<int32_t>& statements, const std::string& name, Choice& choice) {
  for (const Cluster& cluster : identity.clusters) {
    if (cluster.statements[0] != name) continue;
    choice.clusters.push_back(cluster);
    if (statements.size() == 1) AddLanes(request, statements[0], choice.clusters.back());
  }
}

Choice MakeChoice(const ScheduleRequest& request, int variant, bool fuse) {
  Choice choice{.group = request.program->name};
  const Choice identity = IdentityChoice(request);
  const std::vector<std::string> names = StatementNames(*request.program);
  for (const auto& statements : GroupStatements(request, fuse)) {
    if (IsLoop(request, statements)) {
      AddAsWritten(request, identity, statements, names[statements[0]], choice);
      continue;
    }
    const ClusterView view = View(request, statements);
    auto contraction = ContractionCluster(view, variant, choice);
    if (!contraction) contraction = DotCluster(view);
    choice.clusters.push_back(contraction ? *std::move(contraction) : RowCluster(view, variant));
    AddStreams(view, choice.clusters.back(), choice);
  }
  return choice;
}

}  // namespace

Verdict<std::vector<Choice>> Propose(const ScheduleRequest& request, int count) {
  if (request.program->statements.size() > 48) {
    return Refusal{Reason::kTooManyStatements, std::to_string(request.program->statements.size())};
  }
  std::vector<Choice> choices;
  const auto add = [&](Choice choice) {
    const bool full = static_cast<int>(choices.size()) >= count;
    if (!full && std::ranges::count(choices, choice) == 0) choices.push_back(std::move(choice));
  };
  const bool open = !request.program->params.empty();
  if (open && IdentityChoice(request).clusters.size() == 1) add(IdentityChoice(request));
  add(MakeChoice(request, 0, true));
  add(MakeChoice(request, 0, false));
  for (int variant = 1; variant < 2 * count; ++variant) add(MakeChoice(request, variant, true));
  return choices;
}

}  // namespace weft::polyhedral
