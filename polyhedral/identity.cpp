// The schedule that is always there: the program's own order.
#include <algorithm>

#include "polyhedral/axes.h"
#include "polyhedral/schedule.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

// Different values of index i touch different cells, and no instance reads what another value
// wrote.
bool IsParallel(const tc::Program& program, const tc::Statement& s, int32_t i) {
  int32_t axis = -1;
  for (size_t a = 0; a < s.subscripts.size(); ++a) {
    const auto e = tc::AsAffine(program, s.subscripts[a]);
    if (e && e->AsVar() == i) axis = static_cast<int32_t>(a);
  }
  if (axis < 0) return false;
  for (const tc::ExprId read : tc::Reads(program, s)) {
    const tc::Expr& e = program[read];
    if (e.tensor != s.target && e.tensor != s.companion) continue;
    const auto at = tc::AsAffine(program, e.args[axis]);
    if (!at || at->AsVar() != i) return false;
  }
  return true;
}

// Indices in an order that a recurrence allows: those it ascends in first.
std::vector<int32_t> IndexOrder(const tc::Program& program, const tc::Statement& s) {
  std::vector<int32_t> order;
  if (auto ascending = tc::RecurrenceIndices(program, s); ascending.ok()) order = *ascending;
  for (size_t i = 0; i < s.indices.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (std::ranges::count(order, index) == 0) order.push_back(index);
  }
  return order;
}

Cluster OfStatement(const tc::Program& program, int32_t statement, const std::string& name) {
  const tc::Statement& s = program.statements[statement];
  const auto axes = ClusterAxes(program, {statement})[0];
  Cluster cluster{.statements = {name}};
  const std::vector<int32_t> order = IndexOrder(program, s);
  const auto is_parallel = [&](int32_t i) {
    const Affine extent = s.indices[i].hi - s.indices[i].lo;
    const bool single = extent.IsConstant() && extent.constant() <= 1;
    return !s.indices[i].reduction && !single && IsParallel(program, s, i);
  };
  const auto found =
      WritesSharedBytes(program, s) ? order.end() : std::ranges::find_if(order, is_parallel);
  if (found != order.end()) {
    cluster.order = {axes[*found]};
    cluster.parallel = 1;
  }
  for (const int32_t i : order) {
    if (found == order.end() || i != *found) cluster.inner.push_back(axes[i]);
  }
  return cluster;
}

// Statements that feed each other run step by step of their common first index. Temporaries whose
// size is known only at run time must not outlive a step of it either.
bool NeedsOneBand(const tc::Program& program) {
  for (const tc::TensorDecl& t : program.tensors) {
    if (t.role == tc::Role::kTemporary && !tc::StaticExtents(t)) return true;
  }
  return false;
}

Cluster OneBand(const tc::Program& program, size_t first, size_t last,
                const std::vector<std::string>& names) {
  std::vector<int32_t> statements;
  Cluster cluster;
  for (size_t s = first; s <= last; ++s) {
    statements.push_back(static_cast<int32_t>(s));
    cluster.statements.push_back(names[s]);
  }
  const auto axes = ClusterAxes(program, statements);
  const std::vector<std::string> shared = SharedAxes(program, statements, axes);
  if (!shared.empty()) cluster.order = {shared[0]};
  return cluster;
}

}  // namespace

Choice IdentityChoice(const ScheduleRequest& request) {
  const tc::Program& program = *request.program;
  const std::vector<std::string> names = StatementNames(program);
  Choice choice{.group = program.name};
  if (NeedsOneBand(program)) {
    Cluster cluster = OneBand(program, 0, program.statements.size() - 1, names);
    const auto shares = [&](const tc::Statement& s) { return WritesSharedBytes(program, s); };
    const bool serial = cluster.order.empty() || std::ranges::any_of(program.statements, shares);
    cluster.parallel = serial ? 0 : 1;
    choice.clusters.push_back(std::move(cluster));
    return choice;
  }
  const auto steps = tc::Steps(program);
  std::vector<tc::Step> order;
  if (steps.ok()) {
    order = *steps;
  } else {
    for (size_t s = 0; s < program.statements.size(); ++s) order.push_back({.first = s, .last = s});
  }
  for (const tc::Step& step : order) {
    if (step.first == step.last) {
      choice.clusters.push_back(
          OfStatement(program, static_cast<int32_t>(step.first), names[step.first]));
    } else {
      choice.clusters.push_back(OneBand(program, step.first, step.last, names));
    }
  }
  return choice;
}

}  // namespace weft::polyhedral
