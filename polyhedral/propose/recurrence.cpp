// Loops of recurrences: which axes of their statements are lanes.
#include <algorithm>

#include "polyhedral/propose/propose.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

// The lanes of a statement in a recurrence: places that do not feed each other and lie side by side
// in memory, where its result does and what it reads does, or can be packed to.
class LoopLanes {
 public:
  LoopLanes(const ScheduleRequest& request, const std::vector<int32_t>& statements,
            Cluster& cluster, Choice& choice)
      : request_(request),
        program_(*request.program),
        view_(View(request, statements)),
        cluster_(cluster),
        choice_(choice) {}

  // Sums first: an axis along which one of them adds up is lanes of those that do not.
  void Add() {
    for (const bool sums : {true, false}) {
      for (size_t k = 0; k < view_.statements.size(); ++k)
        if (tc::Contracts(view_.At(k)) == sums) AddFor(k);
    }
  }

 private:
  void AddFor(size_t k) {
    const tc::Statement& s = view_.At(k);
    const int32_t lane = ContiguousIndex(request_, s, s.target, s.subscripts);
    const auto recurs = tc::RecurrenceIndices(program_, s);
    if (lane < 0 || !recurs.ok() || std::ranges::count(*recurs, lane) > 0) return;
    if (view_.statements.size() > 1 && view_.IsShared(view_.axes[k][lane])) return;
    const std::string& axis = view_.axes[k][lane];
    const int64_t vector = request_.target.VectorBytes() / SizeBytes(program_[s.target].dtype);
    const int64_t lanes = std::min({4 * vector, loops::kMostLanes, view_.Extent(axis)});
    if (lanes < 4 || cluster_.LanesOf(axis) > 0 || !Packs(s, lane)) return;
    cluster_.lanes.push_back({axis, {lanes}});
    if (std::ranges::count(cluster_.order, axis) > 0) cluster_.tiles.push_back({axis, {lanes}});
  }

  // Constant factors of a sum that lie otherwise are packed; false if one can't be.
  bool Packs(const tc::Statement& s, int32_t lane) {
    const auto c = AsContraction(program_, s);
    if (!c) return true;
    std::vector<Pack> packs;
    for (const tc::ExprId read : {c->x, c->w}) {
      const tc::Expr& e = program_[read];
      if (ContiguousIndex(request_, s, e.tensor, e.args) == lane) continue;
      int32_t along = -1;
      for (size_t a = 0; a < e.args.size(); ++a) {
        const auto place = tc::AsAffine(program_, e.args[a]);
        if (!place || !place->Uses(lane)) continue;
        if (along >= 0 || place->AsVar() != lane) return false;
        along = static_cast<int32_t>(a);
      }
      if (along < 0) continue;  // the same for all lanes
      const std::string& name = program_[e.tensor].name;
      if (!std::ranges::count(request_.constants, name) || request_.layouts.contains(name))
        return false;
      Layout layout;
      for (int32_t a = 0; a < static_cast<int32_t>(e.args.size()); ++a)
        if (a != along) layout.axes.push_back({a, 0});
      layout.axes.push_back({along, 0});
      const Pack pack{name, layout};
      const auto packed = std::ranges::find(choice_.packs, name, &Pack::tensor);
      if (packed == choice_.packs.end())
        packs.push_back(pack);
      else if (*packed != pack)
        return false;
    }
    choice_.packs.insert(choice_.packs.end(), packs.begin(), packs.end());
    return true;
  }

  const ScheduleRequest& request_;
  const tc::Program& program_;
  ClusterView view_;
  Cluster& cluster_;
  Choice& choice_;
};

}  // namespace

void AddAsWritten(const ScheduleRequest& request, const std::vector<int32_t>& statements,
                  Choice& choice) {
  const std::string name = StatementNames(*request.program)[statements[0]];
  const Choice identity = IdentityChoice(request);
  for (const Cluster& cluster : identity.clusters) {
    if (cluster.statements[0] != name) continue;
    Cluster& added = choice.clusters.emplace_back(cluster);
    LoopLanes(request, statements, added, choice).Add();
  }
}

}  // namespace weft::polyhedral
