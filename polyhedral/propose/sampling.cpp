// Places that are looked up, as in sampled images: channels of a place along lanes, from a copy if
// need be.
#include <algorithm>

#include "polyhedral/copies.h"
#include "polyhedral/loops/loop_nest.h"
#include "polyhedral/propose/propose.h"

namespace weft::polyhedral {

std::map<std::string, Layout> SampledLayouts(const ScheduleRequest& request) {
  constexpr double kUses = 2;  // of an element
  const tc::Program& program = *request.program;
  std::map<std::string, Layout> layouts;
  if (request.target.kind != TargetKind::kCpu || !program.params.empty()) return layouts;
  const auto readers_of = [&](tc::TensorId tensor) {
    int64_t count = 0;
    for (const tc::Statement& s : program.statements)
      for (const tc::ExprId read : tc::Reads(program, s)) count += program[read].tensor == tensor;
    return count;
  };
  for (const tc::Statement& s : program.statements) {
    const auto recurs = tc::RecurrenceIndices(program, s);
    if (!recurs.ok() || !recurs->empty()) continue;
    double reads = 1;
    for (const tc::Index& i : s.indices) {
      const Affine extent = i.hi - i.lo;
      reads *= extent.IsConstant() ? static_cast<double>(extent.constant()) : 0;
    }
    for (const tc::ExprId read : tc::Reads(program, s)) {
      const auto is_place = [&](tc::ExprId sub) { return !tc::AsAffine(program, sub); };
      if (std::ranges::none_of(program[read].args, is_place)) continue;
      const tc::TensorDecl& operand = program[program[read].tensor];
      const bool constant = std::ranges::count(request.constants, operand.name) > 0;
      if (constant || !IsCopyable(request, operand.name) || readers_of(program[read].tensor) != 1 ||
          reads * SizeBytes(operand.dtype) < kUses * Bytes(operand))
        continue;
      for (int32_t axis = 0; axis < std::ssize(program[read].args); ++axis) {
        ScheduleRequest laid_out = request;
        Layout layout = LayoutOf(request, operand);
        if (layout.rank() != layout.axes.size()) break;  // in blocks
        const auto place = std::ranges::find(layout.axes, axis, &Layout::Axis::axis);
        if (place + 1 == layout.axes.end()) continue;  // so it lies
        std::rotate(place, place + 1, layout.axes.end());
        laid_out.layouts[operand.name] = layout;
        const int32_t beside = BesideLookups(laid_out, s);
        if (beside >= 0 && AxisOf(program, read, beside) == axis) layouts[operand.name] = layout;
      }
    }
  }
  return layouts;
}

std::optional<Cluster> SamplingCluster(const ClusterView& view) {
  constexpr int64_t kPlaces = 8;
  const tc::Statement& last = view.At(view.statements.size() - 1);
  const int32_t out = ContiguousIndex(*view.request, last, last.target, last.subscripts);
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const int32_t beside = BesideLookups(*view.request, view.At(k));
    const auto lies = [&](tc::ExprId read) {
      const tc::Expr& e = view.program()[read];
      return ContiguousIndex(*view.request, view.At(k), e.tensor, e.args) == beside;
    };
    if (out < 0 || beside < 0 || std::ranges::none_of(tc::Reads(view.program(), view.At(k)), lies))
      continue;
    const std::string &lane = view.axes[k][beside], &places = view.axes.back()[out];
    const bool apart = places != lane && view.IsShared(places) && view.IsShared(lane);
    if (!apart || view.Extent(places) < kPlaces || !view.DividesBlock(places, kPlaces)) continue;
    Cluster cluster;
    for (const std::string& axis : view.shared)
      if (axis != lane && axis != places) cluster.order.push_back(axis);
    cluster.order.push_back(places);
    cluster.tiles = {{places, {kPlaces}}};
    cluster.inner = {places};
    for (size_t i = 0; i < view.axes[k].size(); ++i)
      if (view.At(k).indices[i].reduction) cluster.inner.push_back(view.axes[k][i]);
    cluster.inner.push_back(lane);
    cluster.unroll = {places};
    const int64_t vector =
        view.request->target.VectorBytes() / SizeBytes(view.program()[view.At(k).target].dtype);
    int64_t lanes = std::min({loops::kMostLanes, 4 * vector, view.Extent(lane)});
    while (!view.DividesBlock(lane, lanes)) --lanes;
    cluster.lanes = {{lane, {lanes}}};
    return cluster;
  }
  return {};
}

}  // namespace weft::polyhedral
