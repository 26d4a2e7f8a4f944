// Pointwise chains and reductions: contiguous lanes, one task a row or more.
#include <algorithm>

#include "polyhedral/axes.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

std::string LaneAxis(const ClusterView& view) {
  for (size_t back = 0; back < view.statements.size(); ++back) {
    const size_t k = view.statements.size() - 1 - back;
    const tc::Statement& s = view.At(k);
    // A kept index of the output serves all; a reduced one is what remains when the input is read
    // along it.
    const int32_t out = ContiguousIndex(*view.request, s, s.target, s.subscripts);
    int32_t in = -1;
    for (const tc::ExprId read : tc::Reads(view.program(), s.value)) {
      const tc::Expr& e = view.program()[read];
      if (in < 0) in = ContiguousIndex(*view.request, s, e.tensor, e.args);
    }
    const bool reduces = in >= 0 && s.indices[in].reduction;
    const int32_t lane = reduces ? in : out >= 0 ? out : in;
    if (lane < 0) continue;
    const std::string& axis = view.axes[k][lane];
    if (view.Extent(axis) >= 4) return axis;
  }
  return "";
}

int64_t ElementBytes(const ClusterView& view) {
  int64_t bytes = 1;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    bytes = std::max(bytes, SizeBytes(view.program()[view.At(k).target].dtype));
  }
  return bytes;
}

}  // namespace

Cluster RowCluster(const ClusterView& view, int variant) {
  const tc::Program& program = view.program();
  const std::vector<std::string> names = StatementNames(program);
  Cluster cluster;
  for (const int32_t s : view.statements) cluster.statements.push_back(names[s]);
  const std::string lane = LaneAxis(view);
  const bool tuple = std::ranges::any_of(
      view.statements, [&](int32_t s) { return program.statements[s].companion.valid(); });
  for (const std::string& axis : view.shared) {
    if (axis != lane) cluster.order.push_back(axis);
  }
  if (!lane.empty()) {
    const int64_t vector = view.request->target.VectorBytes() / ElementBytes(view);
    const int64_t most = std::min<int64_t>(64, vector * (variant % 2 == 0 ? 4 : 1));
    const int64_t lanes = std::min(most, view.Extent(lane));
    if (view.IsShared(lane)) {
      cluster.order.push_back(lane);
      cluster.tiles.push_back({lane, {lanes}});
    }
    const bool reduced_tuple = tuple && !view.IsShared(lane);
    if (!reduced_tuple) {
      cluster.vector_axis = lane;
      cluster.vector_lanes = lanes;
    }
  }
  cluster.parallel = ParallelPrefix(view, cluster);
  return cluster;
}

}  // namespace weft::polyhedral
