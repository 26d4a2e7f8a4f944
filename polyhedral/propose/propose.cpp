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

struct Variant {
  int number = 0;
  bool fuse = true;    // statements that may share a cluster do
  bool block = false;  // clusters that may share blocks do
};

Choice MakeChoice(const ScheduleRequest& request, const Variant& variant) {
  Choice choice{.group = request.program->name};
  const Choice identity = IdentityChoice(request);
  const std::vector<std::string> names = StatementNames(*request.program);
  const auto groups = GroupStatements(request, variant.fuse);
  const bool loops = std::ranges::any_of(groups, [&](const auto& g) { return IsLoop(request, g); });
  std::vector<BlockedCluster> blocked(groups.size());
  if (variant.block && !loops) blocked = BlockClusters(request, groups);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (IsLoop(request, groups[g])) {
      AddAsWritten(request, identity, groups[g], names[groups[g][0]], choice);
      continue;
    }
    ClusterView view = View(request, groups[g]);
    view.blocks = blocked[g].blocks;
    auto contraction = ContractionCluster(view, variant.number, choice);
    if (!contraction) contraction = DotCluster(view);
    Cluster& cluster = choice.clusters.emplace_back(contraction ? *std::move(contraction)
                                                                : RowCluster(view, variant.number));
    if (!view.blocks.empty()) {
      cluster.blocks = view.blocks;
      cluster.then = blocked[g].then;
      cluster.parallel = 0;
    }
    AddStreams(view, cluster, choice);
  }
  return choice;
}

}  // namespace

bool RunsInBlocks(const ScheduleRequest& request) {
  if (request.target.kind != TargetKind::kCpu || !request.program->params.empty()) return false;
  const auto groups = GroupStatements(request, true);
  if (std::ranges::any_of(groups, [&](const auto& g) { return IsLoop(request, g); })) return false;
  const auto contracts = [&](const std::vector<int32_t>& group) {
    return std::ranges::any_of(
        group, [&](int32_t s) { return tc::Contracts(request.program->statements[s]); });
  };
  const auto first = std::ranges::find_if(groups, contracts) - groups.begin();
  const auto behind =
      std::find_if(groups.rbegin(), groups.rend(), contracts).base() - groups.begin();
  const std::vector<BlockedCluster> blocked = BlockClusters(request, groups);
  return first < behind && !blocked[first].blocks.empty() &&
         std::all_of(
             blocked.begin() + first + 1, blocked.begin() + behind,
             [](const BlockedCluster& cluster) { return cluster.then; });
}

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
  if (request.target.kind == TargetKind::kCpu && !open) add(MakeChoice(request, {.block = true}));
  add(MakeChoice(request, {}));
  add(MakeChoice(request, {.fuse = false}));
  for (int number = 1; number < 2 * count; ++number) add(MakeChoice(request, {.number = number}));
  return choices;
}

}  // namespace weft::polyhedral
