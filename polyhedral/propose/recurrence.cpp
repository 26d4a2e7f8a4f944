// Loops of recurrences: which axes of their statements are lanes, and which come first.
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

  // Sums first: an axis along which one of them adds up is lanes of those that do not. `row`: a
  // step has one row of sums, so that two blocks of lanes are added up at a time.
  void Add(bool row) {
    row_ = row;
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
    if (lanes < 4 || cluster_.LanesOf(axis) > 0) return;
    const bool outside = std::ranges::count(cluster_.order, axis) > 0;
    const int64_t block =
        !outside && SumsTwoBlocks(s, lanes, view_.Extent(axis)) ? 2 * lanes : lanes;
    if (!Packs(s, lane, block, view_.Extent(axis))) return;
    cluster_.lanes.push_back({axis, {lanes}});
    if (outside) cluster_.tiles.push_back({axis, {lanes}});
    if (block > lanes) {  // blocks outside of all that several statements may sum along
      cluster_.inner.insert(cluster_.inner.begin(), axis);
      for (size_t i = 0; i < s.indices.size(); ++i)
        if (s.indices[i].reduction && std::ranges::count(cluster_.inner, view_.axes[k][i]) == 0)
          cluster_.inner.push_back(view_.axes[k][i]);
      cluster_.inner.push_back(axis);
      cluster_.tiles.push_back({axis, {block, lanes}});
      cluster_.unroll.push_back(axis);
    }
  }

  // Each multiply-add of a row by four registers of lanes waits for the one before it, and how far
  // that is hidden depends on how instructions happen to fall: a step of an LSTM of 256, whose
  // weights the second caches of two cores of Zen 5 hold, takes 4.1 us or 2.1. With two blocks of
  // lanes at a time, side by side in the weights, none waits, as long as no rank gets more lanes.
  bool SumsTwoBlocks(const tc::Statement& s, int64_t lanes, int64_t extent) const {
    const Target& target = request_.target;
    const auto most = [&](int64_t block) {
      const int64_t blocks = (extent + block - 1) / block;
      return (blocks + target.threads - 1) / target.threads * block;
    };
    return row_ && target.kind == TargetKind::kCpu && AsContraction(program_, s) &&
           extent >= 2 * lanes && most(2 * lanes) <= most(lanes);
  }

  // Constant factors of a sum that lie otherwise are packed, so that what a block of lanes sums up
  // lies in one piece; false if one can't be.
  bool Packs(const tc::Statement& s, int32_t lane, int64_t lanes, int64_t extent) {
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
      const bool blocked = lanes < extent;
      Layout layout;
      if (blocked) layout.axes.push_back({along, 0});
      for (int32_t a = 0; a < static_cast<int32_t>(e.args.size()); ++a)
        if (a != along) layout.axes.push_back({a, 0});
      layout.axes.push_back({along, blocked ? lanes : 0});
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
  bool row_ = false;
};

// Axes along which the statements of a recurrence feed nothing but the same place, such as that of
// a batch: each place runs its steps by itself, on what its core's caches hold, and the team shares
// the places out. As few as give tasks enough, and not those along which memory is contiguous.
std::vector<std::string> IndependentAxes(const ClusterView& view, const Cluster& cluster) {
  const tc::Program& program = view.program();
  const auto index_of = [&](size_t k, const std::string& axis) {
    return static_cast<int32_t>(std::ranges::find(view.axes[k], axis) - view.axes[k].begin());
  };
  // Where statements write a tensor along an axis, `place` of which another one reads.
  const auto feeds_same = [&](const std::string& axis) {
    for (size_t from = 0; from < view.statements.size(); ++from) {
      const tc::Statement& s = view.At(from);
      const int32_t written = index_of(from, axis);
      const auto along = [&](tc::ExprId e, int32_t index) {
        const auto place = tc::AsAffine(program, e);
        return place && place->AsVar() == index;
      };
      const auto at = std::ranges::find_if(
          s.subscripts, [&](tc::ExprId subscript) { return along(subscript, written); });
      if (at == s.subscripts.end()) return false;
      for (size_t to = 0; to < view.statements.size(); ++to) {
        for (const tc::ExprId read : tc::Reads(program, view.At(to))) {
          const tc::Expr& e = program[read];
          if (e.tensor != s.target && e.tensor != s.companion) continue;
          if (!along(e.args[at - s.subscripts.begin()], index_of(to, axis))) return false;
        }
      }
    }
    return true;
  };
  const tc::Statement& anchor = view.At(view.anchor);
  const int32_t lane = ContiguousIndex(*view.request, anchor, anchor.target, anchor.subscripts);
  const std::string contiguous = lane < 0 ? "" : view.axes[view.anchor][lane];
  std::vector<std::string> independent;
  const int64_t wanted = int64_t{2} * view.request->target.threads;
  int64_t tasks = 1;
  for (const std::string& axis : view.shared) {
    const bool steps = std::ranges::count(cluster.order, axis) > 0;
    if (steps || axis == contiguous || view.Extent(axis) < 2 || tasks >= wanted ||
        !feeds_same(axis))
      continue;
    independent.push_back(axis);
    tasks *= view.Extent(axis);
  }
  return independent;
}

// Of weights that are the same for all places of an axis, the bytes of the largest.
double CommonWeights(const ClusterView& view, const std::string& axis) {
  const tc::Program& program = view.program();
  double bytes = 0;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const auto contraction = AsContraction(program, view.At(k));
    if (!contraction) continue;
    const auto place = std::ranges::find(view.axes[k], axis) - view.axes[k].begin();
    for (const tc::ExprId read : {contraction->x, contraction->w})
      if (!Uses(program, read, static_cast<int32_t>(place)))
        bytes = std::max(bytes, Bytes(program[program[read].tensor]));
  }
  return bytes;
}

// Sums of so many places share what they load of such weights, by four registers of lanes each.
int64_t PlacesAtOnce(const Target& target) { return target.VectorRegisters() == 32 ? 4 : 2; }

// Whether the places of an independent axis had better run step by step together than each by
// itself: weights that a core's second cache does not hold are streamed by every rank in every step
// otherwise, and for every tile of places again (an LSTM of 512 with a batch of two to four, two
// threads: 1.7 to 1.9 times as fast). Where each rank has a tile of places of its own, they hide
// how weights come that are not much larger.
bool StepTogether(const ClusterView& view, const std::vector<std::string>& outer) {
  const Target& target = view.request->target;
  if (outer.size() != 1 || target.kind != TargetKind::kCpu) return false;
  const int64_t places = view.Extent(outer[0]), tile = PlacesAtOnce(target);
  const double caches = CommonWeights(view, outer[0]) / static_cast<double>(target.l2_bytes);
  if (target.threads == 1) return places > tile && caches > 0.75;
  return caches > (places < tile * target.threads ? 0.75 : 2);
}

// A tile of the places of an independent axis, whose sums share what they load of common weights,
// if those are more than the first-level cache holds. `together`: all places run a step before the
// next one, and tiles of them take turns at a block of lanes.
void ShareWeights(const ClusterView& view, const std::string& axis, bool together,
                  Cluster& cluster) {
  const Target& target = view.request->target;
  if (target.kind != TargetKind::kCpu ||
      CommonWeights(view, axis) <= static_cast<double>(target.l1_bytes))
    return;
  const int64_t places = view.Extent(axis), ranks = together ? 1 : target.threads;
  const int64_t tile = std::min(PlacesAtOnce(target), (places + ranks - 1) / ranks);
  if (tile < 2) return;
  std::vector<std::string> kept, reduced, others;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    for (size_t i = 0; i < s.indices.size(); ++i)
      (!tc::Reduces(s)          ? others
       : s.indices[i].reduction ? reduced
                                : kept)
          .push_back(view.axes[k][i]);
  }
  const auto add = [&](const std::vector<std::string>& axes) {
    for (const std::string& a : axes)
      if (a != axis && std::ranges::count(cluster.order, a) == 0 &&
          std::ranges::count(cluster.inner, a) == 0)
        cluster.inner.push_back(a);
  };
  add(kept);
  if (together && tile < places) cluster.inner.push_back(axis);
  add(reduced);
  add(others);
  cluster.inner.push_back(axis);
  if (!together || tile < places) cluster.tiles.push_back({axis, {tile}});
  cluster.unroll.push_back(axis);
}

// Where no places run by themselves, ranks share out the lanes of each statement in each step, if
// that is worth the barriers: some two of 0.2 us, where a core does 16 products in a cycle or two.
void ShareSteps(const ClusterView& view, Cluster& cluster) {
  constexpr double kWorthwhile = 1 << 16;  // products a step
  const Target& target = view.request->target;
  if (target.kind != TargetKind::kCpu || target.threads < 2) return;
  double products = 0;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    if (!tc::Contracts(view.At(k))) continue;
    double step = 1;
    for (const std::string& axis : view.axes[k]) {
      if (std::ranges::count(cluster.order, axis) == 0)
        step *= static_cast<double>(std::max<int64_t>(1, view.Extent(axis)));
    }
    products += step;
  }
  if (products < kWorthwhile) return;
  std::vector<std::string> outermost;
  for (const Tile& lanes : cluster.lanes) {
    if (std::ranges::count(cluster.order, lanes.axis) > 0) continue;
    cluster.shares.push_back(lanes.axis);
    if (std::ranges::count(cluster.inner, lanes.axis) == 0) outermost.push_back(lanes.axis);
  }
  cluster.inner.insert(cluster.inner.begin(), outermost.begin(), outermost.end());
}

// Whether the team has its part of every sum of a step.
bool SharesSums(const ClusterView& view, const Cluster& cluster) {
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    if (!AsContraction(view.program(), s)) continue;
    const int32_t lane = ContiguousIndex(*view.request, s, s.target, s.subscripts);
    if (lane < 0 || cluster.LanesOf(view.axes[k][lane]) == 0) return false;
    if (view.request->target.threads > 1 &&
        std::ranges::count(cluster.shares, view.axes[k][lane]) == 0)
      return false;
  }
  return true;
}

// Weights of which a core's second cache can't hold its part go by backwards in every other step:
// what was read last is still there then, where it would be gone before its turn came.
void TurnLongSteps(const ClusterView& view, Cluster& cluster) {
  const tc::Program& program = view.program();
  const Target& target = view.request->target;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const auto c = AsContraction(program, view.At(k));
    const int32_t lane =
        ContiguousIndex(*view.request, view.At(k), view.At(k).target, view.At(k).subscripts);
    if (!c || lane < 0) continue;
    const std::string& axis = view.axes[k][lane];
    auto tile = std::ranges::find(cluster.tiles, axis, &Tile::axis);
    const auto loop = std::ranges::find(cluster.inner, axis);
    const int64_t block = tile == cluster.tiles.end() ? cluster.LanesOf(axis) : tile->sizes[0];
    if (block == 0 || loop == cluster.inner.end() ||
        std::ranges::count(cluster.turns, axis) > 0)  // of another statement
      continue;
    const bool shared = std::ranges::count(cluster.shares, axis) > 0;
    const int64_t ranks = shared ? target.threads : 1,
                  part = (view.Extent(axis) + block * ranks - 1) / (block * ranks) * block;
    const double bytes =
        std::max(Bytes(program[program[c->x].tensor]), Bytes(program[program[c->w].tensor]));
    if (bytes / static_cast<double>(ranks) < 0.75 * static_cast<double>(target.l2_bytes)) continue;
    cluster.turns.push_back(axis);
    if (tile == cluster.tiles.end()) tile = cluster.tiles.insert(tile, {axis, {block}});
    if (!shared || part == block) continue;
    tile->sizes.insert(tile->sizes.begin(), part);
    cluster.inner.insert(loop, axis);
  }
}

// Rows whose steps lie side by side have no lanes, and each step waits for the one before: eight
// rows take turns (running sums of 512 elements 4.5 times as fast).
void AlternateRows(const ClusterView& view, Cluster& cluster) {
  constexpr int64_t kRows = 8;
  const Target& target = view.request->target;
  const bool alone = view.statements.size() == 1 && cluster.inner.size() == 1 &&
                     cluster.lanes.empty() && cluster.tiles.empty();
  const bool shared_out = cluster.parallel > 0 && cluster.parallel == std::ssize(cluster.order);
  if (target.kind != TargetKind::kCpu || !alone || !shared_out) return;
  const std::string& axis = cluster.order.back();
  const int64_t rows = std::min(kRows, view.Extent(axis) / std::max(1, target.threads));
  if (rows < 2) return;
  cluster.tiles = {{axis, {rows}}};
  cluster.inner.push_back(axis);
  cluster.unroll = {axis};
}

}  // namespace

void AddAsWritten(const ScheduleRequest& request, const std::vector<int32_t>& statements,
                  Choice& choice) {
  const std::string name = StatementNames(*request.program)[statements[0]];
  const Choice identity = IdentityChoice(request);
  for (const Cluster& cluster : identity.clusters) {
    if (cluster.statements[0] != name) continue;
    Cluster& added = choice.clusters.emplace_back(cluster);
    const ClusterView view = View(request, statements);
    const bool steps =
        statements.size() > 1 && added.parallel == 0 && ParallelPrefix(view, added) > 0;
    const std::vector<std::string> outer =
        steps ? IndependentAxes(view, added) : std::vector<std::string>{};
    LoopLanes(request, statements, added, choice).Add(steps && outer.empty());
    AlternateRows(view, added);
    if (!steps) continue;
    if (outer.empty()) {
      ShareSteps(view, added);
      TurnLongSteps(view, added);
      continue;
    }
    if (StepTogether(view, outer)) {
      Cluster together = added;
      ShareWeights(view, outer[0], true, together);
      ShareSteps(view, together);
      if (SharesSums(view, together)) {
        TurnLongSteps(view, together);
        added = std::move(together);
        continue;
      }
    }
    added.order.insert(added.order.begin(), outer.begin(), outer.end());
    added.parallel = static_cast<int32_t>(outer.size());
    ShareWeights(view, outer[0], false, added);
  }
}

}  // namespace weft::polyhedral
