// Contractions of two operands that are both contiguous along the reduction, such as Q K^T: neither
// can be loaded along an output, so lanes run along the reduction, each output has a vector of
// partial sums, and a tree adds its lanes up at the end. A tile of outputs shares the loads of rows
// and columns.
#include <algorithm>
#include <limits>

#include "polyhedral/axes.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

int64_t VectorOf(const ClusterView& view, const tc::Statement& s) {
  return view.request->target.VectorBytes() / SizeBytes(s.accumulate);
}

// The reduced index that both reads move along by one element.
int32_t CommonLane(const ClusterView& view, const Contraction& c) {
  const tc::Program& program = view.program();
  const tc::Statement& s = view.At(view.anchor);
  const auto along = [&](tc::ExprId read) {
    return ContiguousIndex(*view.request, s, program[read].tensor, program[read].args);
  };
  const int32_t lane = along(c.x);
  return lane >= 0 && lane == along(c.w) && s.indices[lane].reduction ? lane : -1;
}

// The contraction's reduced index that lanes run along; -1 if it has no dot form.
int32_t DotLane(const ClusterView& view, const std::optional<Contraction>& c) {
  if (!c || c->reduced.size() != 1) return -1;
  const tc::Statement& s = view.At(view.anchor);
  const int32_t lane = CommonLane(view, *c);
  return lane >= 0 && view.Extent(view.axes[view.anchor][lane]) >= VectorOf(view, s) ? lane : -1;
}

}  // namespace

double DotCycles(const ClusterView& view) {
  // Per output, a tree of additions and a store by itself.
  constexpr double kTree = 7;
  const tc::Statement& s = view.At(view.anchor);
  const int32_t lane = DotLane(view, AsContraction(view.program(), s));
  if (lane < 0) return std::numeric_limits<double>::infinity();
  const auto steps = static_cast<double>(view.Extent(view.axes[view.anchor][lane]));
  return steps / static_cast<double>(2 * VectorOf(view, s)) + kTree;
}

std::optional<Cluster> DotCluster(const ClusterView& view) {
  const tc::Program& program = view.program();
  const tc::Statement& s = view.At(view.anchor);
  const auto c = AsContraction(program, s);
  const int32_t lane = DotLane(view, c);
  if (lane < 0) return std::nullopt;
  const auto& axes = view.axes[view.anchor];
  const int64_t vector = VectorOf(view, s);
  Cluster cluster;
  const std::vector<std::string> names = StatementNames(program);
  for (const int32_t t : view.statements) cluster.statements.push_back(names[t]);
  // Rows move x, columns move w; what moves both comes first. Accumulators, a column's vectors and
  // one row's must fit the registers.
  int32_t row = -1, column = -1;
  for (const int32_t i : c->kept) {
    const bool by_x = Uses(program, c->x, i), by_w = Uses(program, c->w, i);
    if (by_x && !by_w && view.Extent(axes[i]) > 1) row = i;
    if (by_w && !by_x && view.Extent(axes[i]) > 1) column = i;
  }
  for (const int32_t i : c->kept) {
    if (i != row && i != column) cluster.order.push_back(axes[i]);
  }
  const bool wide = view.request->target.VectorRegisters() == 32;
  const auto add = [&](int32_t index, int64_t tile) {
    if (index < 0) return;
    cluster.order.push_back(axes[index]);
    tile = std::min(tile, view.Extent(axes[index]));
    while (!view.DividesBlock(axes[index], tile)) --tile;
    cluster.tiles.push_back({axes[index], {tile}});
    cluster.unroll.push_back(axes[index]);
  };
  add(row, wide ? 6 : 4);
  add(column, row < 0 ? 8 : wide ? 4 : 3);
  // A column that is looked up is so once for all its steps, if they are expanded.
  constexpr int64_t kFewSteps = 8;
  const bool few = view.Extent(axes[lane]) <= kFewSteps * vector;
  if (column >= 0 && few && LooksUp(program, s, program[c->w].tensor))
    cluster.unroll.push_back(axes[lane]);
  cluster.lanes = {{axes[lane], {vector}}};
  cluster.parallel = ParallelPrefix(view, cluster);
  return cluster;
}

}  // namespace weft::polyhedral
