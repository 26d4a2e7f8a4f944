#include "polyhedral/propose/propose.h"

#include <algorithm>

#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

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
void AddAsWritten(const ScheduleRequest& request, const std::vector<int32_t>& statements,
                  Choice& choice) {
  const std::string name = StatementNames(*request.program)[statements[0]];
  const Choice identity = IdentityChoice(request);
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
  const auto groups = GroupStatements(request, variant.fuse);
  std::vector<BlockedCluster> blocked(groups.size());
  if (variant.block) blocked = BlockClusters(request, groups);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].loop) {
      AddAsWritten(request, groups[g].statements, choice);
      continue;
    }
    ClusterView view = View(request, groups[g].statements);
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
  const auto groups = GroupStatements(request, true);
  const auto contracts = [&](const StatementGroup& group) {
    return std::ranges::any_of(
        group.statements, [&](int32_t s) { return tc::Contracts(request.program->statements[s]); });
  };
  const auto first = std::ranges::find_if(groups, contracts) - groups.begin();
  const auto behind =
      std::find_if(groups.rbegin(), groups.rend(), contracts).base() - groups.begin();
  const std::vector<BlockedCluster> blocked = BlockClusters(request, groups);
  const auto follows = [](const BlockedCluster& cluster) { return cluster.then; };
  return first < behind && !blocked[first].blocks.empty() &&
         std::all_of(blocked.begin() + first + 1, blocked.begin() + behind, follows);
}

Verdict<std::vector<Choice>> Propose(const ScheduleRequest& request, int count) {
  if (request.program->statements.size() > 48) {
    return Refusal{Reason::kTooManyStatements, std::to_string(request.program->statements.size())};
  }
  std::vector<Choice> choices;
  const auto add = [&](Choice choice) {
    if (std::ranges::count(choices, choice) == 0) choices.push_back(std::move(choice));
  };
  const auto full = [&] { return static_cast<int>(choices.size()) >= count; };
  if (!request.program->params.empty() && IdentityChoice(request).clusters.size() == 1)
    add(IdentityChoice(request));
  std::vector<Variant> variants = {{.block = true}, {}, {.fuse = false}};
  for (int number = 1; number < 2 * count; ++number) variants.push_back({.number = number});
  for (const Variant& variant : variants)
    if (!full()) add(MakeChoice(request, variant));
  return choices;
}

}  // namespace weft::polyhedral
