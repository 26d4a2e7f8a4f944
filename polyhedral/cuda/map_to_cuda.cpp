// Choices for a grid: everything that may run at once does, nothing is tiled.
#include <algorithm>
#include <optional>
#include <span>

#include "polyhedral/axes.h"
#include "polyhedral/cuda/map.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

// Neighbouring threads run along the last axis of a cluster: the one along which what it writes
// lies side by side.
void RunAlongMemory(const ScheduleRequest& request, const tc::Statement& s,
                    const std::vector<std::string>& axes, Cluster& cluster) {
  const int32_t index = ContiguousIndex(request, s, s.target, s.subscripts);
  if (index < 0) return;
  const auto along = std::ranges::find(cluster.order, axes[static_cast<size_t>(index)]);
  if (along != cluster.order.end()) std::rotate(along, along + 1, cluster.order.end());
}

// One cluster that holds all statements and runs all their common axes in parallel: temporaries are
// then values of one iteration. None if they have no axis in common.
std::optional<Choice> Fused(const ScheduleRequest& request, const std::vector<std::string>& names) {
  const tc::Program& program = *request.program;
  std::vector<int32_t> statements;
  for (size_t s = 0; s < names.size(); ++s) statements.push_back(static_cast<int32_t>(s));
  const auto axes = ClusterAxes(program, statements);
  Cluster cluster{.statements = names, .order = SharedAxes(program, statements, axes)};
  if (cluster.order.empty()) return std::nullopt;
  RunAlongMemory(request, program.statements.back(), axes.back(), cluster);
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
    RunAlongMemory(request, s, axes, cluster);
  }
  return choice;
}

// As Wide, but what reduces nothing waits for its first reader, and neighbours that reduce nothing
// and have the same axes are one cluster: what one hands to the next stays in a register. nullopt
// if there are none.
std::optional<Choice> Joined(const ScheduleRequest& request, const Choice& wide,
                             const std::vector<std::string>& names) {
  const tc::Program& program = *request.program;
  const auto numbers = [&](const Cluster& cluster) {
    std::vector<int32_t> statements;
    for (const std::string& name : cluster.statements)
      statements.push_back(static_cast<int32_t>(std::ranges::find(names, name) - names.begin()));
    return statements;
  };
  const auto is_pointwise = [&](const Cluster& cluster) {
    return cluster.parallel > 0 && std::ssize(cluster.order) == cluster.parallel &&
           cluster.inner.empty();
  };
  const auto reads = [&](const Cluster& reader, const Cluster& writer) {
    const auto target = program.statements[static_cast<size_t>(numbers(writer)[0])].target;
    return std::ranges::any_of(numbers(reader), [&](int32_t s) {
      const auto all = tc::Reads(program, program.statements[static_cast<size_t>(s)]);
      return std::ranges::any_of(all, [&](tc::ExprId e) { return program[e].tensor == target; });
    });
  };
  std::vector<Cluster> order = wide.clusters;
  for (auto at = order.end(); at != order.begin();) {
    --at;
    if (!is_pointwise(*at)) continue;
    const auto reader =
        std::find_if(at + 1, order.end(), [&](const Cluster& c) { return reads(c, *at); });
    if (reader != order.end()) std::rotate(at, at + 1, reader);
  }
  // The clusters of a run as one; nullopt if they do not have all axes in common.
  const auto join = [&](std::span<const Cluster> run) -> std::optional<Cluster> {
    Cluster all{.parallel = run[0].parallel};
    for (const Cluster& c : run)
      all.statements.insert(all.statements.end(), c.statements.begin(), c.statements.end());
    const std::vector<int32_t> statements = numbers(all);
    const auto axes = ClusterAxes(program, statements);
    all.order = SharedAxes(program, statements, axes);
    if (std::ssize(all.order) != all.parallel) return std::nullopt;
    RunAlongMemory(request, program.statements[static_cast<size_t>(statements.back())], axes.back(),
                   all);
    return all;
  };
  Choice joined{.group = wide.group};
  for (size_t at = 0; at < order.size();) {
    const auto is_alike = [&](const Cluster& c) {
      return is_pointwise(c) && c.parallel == order[at].parallel;
    };
    const auto rest = std::span(order).subspan(at);
    auto count = static_cast<size_t>(std::ranges::find_if_not(rest, is_alike) - rest.begin());
    std::optional<Cluster> run;
    while (count > 1 && !(run = join(rest.first(count)))) --count;
    joined.clusters.push_back(run ? *std::move(run) : order[at]);
    at += std::max<size_t>(count, 1);
  }
  if (joined.clusters.size() == order.size() || joined.clusters.size() == 1) return std::nullopt;
  return joined;
}

// Constant factors of products, laid out with an axis that only they have as the fastest: threads
// of a row run along it.
std::vector<Pack> PacksOfFactors(const ScheduleRequest& request) {
  const tc::Program& program = *request.program;
  std::vector<Pack> packs;
  for (const tc::Statement& s : program.statements) {
    const auto contraction = AsContraction(program, s);
    if (!contraction) continue;
    const tc::ExprId factors[] = {contraction->x, contraction->w};
    for (size_t f = 0; f < 2; ++f) {
      const tc::ExprId read = factors[f];
      const std::string& name = program[program[read].tensor].name;
      if (std::ranges::count(request.constants, name) == 0 || request.layouts.contains(name) ||
          std::ranges::count(packs, name, &Pack::tensor) > 0)
        continue;
      const auto is_own = [&](int32_t i) {
        return AxisOf(program, read, i) >= 0 && !Uses(program, factors[1 - f], i);
      };
      const auto own = std::ranges::find_if(contraction->kept, is_own);
      if (own == contraction->kept.end()) continue;
      const int32_t fastest = AxisOf(program, read, *own);
      Layout layout;
      for (int32_t axis = 0; axis < static_cast<int32_t>(program[read].args.size()); ++axis)
        if (axis != fastest) layout.axes.push_back({axis, 0});
      layout.axes.push_back({fastest, 0});
      if (!layout.IsPlain()) packs.push_back({name, std::move(layout)});
    }
  }
  return packs;
}

// More at once is better. Launches hand on by way of memory what one launch keeps, so that they are
// taken where that one leaves most of a device idle; packed factors only where they are brought to
// tiles.
bool IsBetter(const Mapped& mapped, const Mapped& best, bool packs) {
  constexpr int64_t kFewAtOnce = 4096;
  if (packs) return mapped.mapping == CudaMapping::kTiles;
  if (best.width > 0 && mapped.mapping == CudaMapping::kLaunches)
    return best.starved || (best.width < kFewAtOnce && mapped.width > best.width);
  return mapped.width > best.width;
}

}  // namespace

Result<CudaScheduled> MapToCuda(const ScheduleRequest& request, const ScheduleLimits& limits) {
  const tc::Program& program = *request.program;
  const std::vector<std::string> names = StatementNames(program);
  std::vector<Choice> choices;
  if (auto fused = Fused(request, names)) choices.push_back(*std::move(fused));
  const Choice wide = Wide(request, names);
  if (auto joined = Joined(request, wide, names)) choices.push_back(*std::move(joined));
  choices.push_back(wide);
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
    WEFT_TRY(Mapped mapped, MapNest(nest, request.target));
    if (!IsBetter(mapped, best.mapped, !choice.packs.empty())) return {};
    best.choice = choice;
    best.choice.map = mapped.map;
    best.tree = std::move(*tree);
    best.mapped = std::move(mapped);
    return {};
  };
  const auto take = [&](const Choice& choice) {
    const Status status = attempt(choice, true);
    if (!status.ok()) best.refusals.push_back({Reason::kChoiceDoesNotFit, status.ToString()});
  };
  for (const Choice& choice : choices) take(choice);
  // The program's own order needs no proof.
  if (best.mapped.width == 0) WEFT_TRY(attempt(IdentityChoice(request), false));
  if (best.mapped.mapping == CudaMapping::kTiles) {
    Choice packed = best.choice;
    packed.packs = PacksOfFactors(request);
    if (!packed.packs.empty()) take(packed);
  }
  return best;
}

}  // namespace weft::polyhedral
