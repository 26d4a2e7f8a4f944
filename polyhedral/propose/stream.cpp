// What is known ahead of the caches: results that are stored past them, tables whose rows are
// fetched into them.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "polyhedral/access.h"
#include "polyhedral/axes.h"
#include "polyhedral/propose/propose.h"

namespace weft::polyhedral {
namespace {

bool IsRead(const tc::Program& program, tc::TensorId tensor) {
  return std::ranges::any_of(program.statements, [&](const tc::Statement& s) {
    const bool adds = s.target == tensor && s.assign != tc::Assign::kSet && !s.init;
    return adds || std::ranges::any_of(tc::Reads(program, s), [&](tc::ExprId read) {
             return program[read].tensor == tensor;
           });
  });
}

// Rows that begin where a line does, so that no line is written in two parts; of short rows, all
// that lie around them one after the other.
bool BeginsLines(const ScheduleRequest& request, const tc::TensorDecl& tensor, bool short_rows) {
  const Layout rows = LayoutOf(request, tensor);
  const size_t innermost = short_rows ? 2 : 1;
  if (SharesBytes(tensor.dtype)) return false;
  if (rows.axes.size() <= innermost) return true;
  int64_t bytes = SizeBytes(tensor.dtype);
  for (size_t place = rows.axes.size(); place-- > rows.axes.size() - innermost;) {
    const Affine& extent = tensor.extents[static_cast<size_t>(rows.axes[place].axis)];
    int64_t row = rows.axes[place].block;
    if (row == 0) row = extent.IsConstant() ? extent.constant() : 0;
    if (place + 1 == rows.axes.size()) row += rows.row_pad_elems;
    if (row <= 0 || __builtin_mul_overflow(bytes, row, &bytes)) return false;
  }
  return bytes % kLineBytes == 0;
}

// Bytes of a tensor that one look-up may find its place in: those of the axes from the first on
// that it looks up; 0 if there is none. What lies there for other indices of the axes before comes
// later.
double LookedUpBytes(const tc::Program& program, const tc::Statement& s, tc::TensorId t) {
  double most = 0;
  for (const tc::ExprId read : tc::Reads(program, s)) {
    const tc::Expr& e = program[read];
    if (e.tensor != t) continue;
    double bytes = Bytes(program[t]);
    for (size_t axis = 0; axis < e.args.size(); ++axis) {
      if (!tc::Reads(program, e.args[axis]).empty()) {
        most = std::max(most, bytes);
        break;
      }
      const Affine& extent = program[t].extents[axis];
      if (extent.IsConstant()) bytes /= static_cast<double>(extent.constant());
    }
  }
  return most;
}

// A table too large for a core's own caches, of which a statement looks up rows.
bool IsTable(const ClusterView& view, size_t k, tc::TensorId t) {
  return LookedUpBytes(view.program(), view.At(k), t) >
         static_cast<double>(view.request->target.l2_bytes);
}

// Where a sum reads t, if the panel of t that a tile of its results takes may lie in one piece, or
// the cluster's other statements walk over it too.
tc::ExprId SummedRead(const ClusterView& view, const tc::Statement& s, tc::TensorId t) {
  const tc::Program& program = view.program();
  if (!tc::Reduces(s)) return {};
  const std::vector<tc::ExprId> reads = tc::Reads(program, s);
  const auto read = std::ranges::find_if(reads, [&](auto r) { return program[r].tensor == t; });
  if (read == reads.end()) return {};
  const int32_t along = ContiguousIndex(*view.request, s, t, program[*read].args);
  const bool rows = along >= 0 && s.indices[along].reduction;
  int32_t readers = 0;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const std::vector<tc::ExprId> others = tc::Reads(program, view.At(k));
    readers += std::ranges::any_of(others, [&](auto r) { return program[r].tensor == t; });
  }
  return rows || readers > 1 || AsContraction(program, s) ? *read : tc::ExprId();
}

// An operand that is summed up, of which each tile of the result takes a panel of its own: it
// passes through the caches once, in pieces that the processor's own prefetchers see too late. In
// memory that is worth a prefetch for each line. In the last cache, only where those are little
// beside the multiply-adds, or beside what the cluster computes of the panel besides: 1.2 times as
// fast there, and 0.87 of it where a line is for one multiply-add; the softmax of rows of 2 KB 1.2
// to 1.4, layer norm of them 0.92 to 1.0, rows of 512 bytes 0.97.
bool IsPassedOnce(const ClusterView& view, size_t k, const Cluster& cluster, tc::TensorId t) {
  constexpr int64_t kFewPerLine = 16;    // multiply-adds, or other operations on vectors
  constexpr int64_t kShortPanel = 1024;  // bytes
  const Target& target = view.request->target;
  const tc::Program& program = view.program();
  const tc::Statement& s = view.At(k);
  const double bytes = Bytes(program[t]);
  if (bytes <= static_cast<double>(target.l2_bytes) || SharesBytes(program[t].dtype)) return false;
  const tc::ExprId read = SummedRead(view, s, t);
  if (!read.valid()) return false;
  int64_t panel = SizeBytes(program[t].dtype), uses = 1;
  for (size_t i = 0; i < s.indices.size(); ++i) {
    const std::string& axis = view.axes[k][i];
    const int64_t extent = view.Extent(axis);
    if (extent <= 0) return false;
    const bool moves = Uses(program, read, static_cast<int32_t>(i));
    int64_t tile = extent;
    if (!s.indices[i].reduction && std::ranges::count(cluster.order, axis) > 0) {
      const auto tiled = std::ranges::find(cluster.tiles, axis, &Tile::axis);
      tile = tiled == cluster.tiles.end() ? 1 : std::min(extent, tiled->sizes.back());
    }
    if (!moves && tile < extent) return false;  // other tiles of the result take the same panel
    (moves ? panel : uses) *= tile;
  }
  const int64_t in_line = kLineBytes / SizeBytes(program[t].dtype);
  int64_t lanes = 1;
  for (const Tile& lane : cluster.lanes) lanes = std::max(lanes, lane.sizes[0]);
  const int64_t per_line = in_line * uses / std::min(lanes, in_line);
  int64_t computed = 0;
  for (size_t other = 0; other < view.statements.size(); ++other) {
    if (other == k) continue;
    const auto reads = tc::Reads(program, view.At(other));
    if (std::ranges::any_of(reads, [&](auto r) { return program[r].tensor == t; }))
      computed += Computed(program, view.At(other).value);
  }
  const bool is_busy = per_line >= kFewPerLine || (computed >= kFewPerLine && panel > kShortPanel);
  return panel <= target.l2_bytes / 4 &&
         (bytes >= static_cast<double>(target.l3_bytes) / 2 || is_busy);
}

// What a window that multiplies nothing moves over: a line of it is read several times, and there
// is little to do meanwhile. Measured on Zen 5, the speed of poolings of 3x3 with a prefetch: along
// rows, 1.04 to 1.4 in the last cache, 1.2 to 1.4 in memory; beside channels, 0.93 and 1.08.
// Windows that don't overlap read on where they are: 0.98 to 1.1 with one thread, 0.88 to 1.06 with
// two.
bool IsWindowed(const ClusterView& view, size_t k, tc::TensorId t) {
  const tc::Program& program = view.program();
  const tc::Statement& s = view.At(k);
  const Target& target = view.request->target;
  if (Bytes(program[t]) <= static_cast<double>(target.l2_bytes) || SharesBytes(program[t].dtype) ||
      program[t].extents.empty() || AsContraction(program, s))
    return false;
  const bool in_memory = Bytes(program[t]) >= static_cast<double>(target.l3_bytes) / 2;
  const auto along = static_cast<size_t>(LayoutOf(*view.request, program[t]).axes.back().axis);
  return std::ranges::any_of(tc::Reads(program, s), [&](tc::ExprId read) {
    if (program[read].tensor != t) return false;
    const AccessClass access = Classify(program, s, program[read].args);
    const auto slides = [&](const Subscript& at) { return SlidesAlong(s, at); };
    return in_memory ? std::ranges::any_of(access.subscripts, slides)
                     : slides(access.subscripts[along]);
  });
}

// An output that the last cache does not hold until someone reads it.
bool IsFar(const ClusterView& view, const tc::Statement& s) {
  const tc::Program& program = view.program();
  const Target& target = view.request->target;
  const tc::TensorDecl& out = program[s.target];
  return view.request->streams && target.kind == TargetKind::kCpu &&
         tc::OperandBytes(program) >= target.l3_bytes && out.role == tc::Role::kOutput &&
         Bytes(out) >= static_cast<double>(target.l3_bytes) / 2 && !IsRead(program, s.target);
}

// Whether what a statement stores at once are whole lines: the lanes along its result, or all
// elements of a short row that is unrolled inside lanes from row to row.
bool StoresLines(const ClusterView& view, size_t k, const Cluster& cluster) {
  const ScheduleRequest& request = *view.request;
  const tc::Statement& s = view.At(k);
  const tc::TensorDecl& out = view.program()[s.target];
  const int32_t along = ContiguousIndex(request, s, s.target, s.subscripts);
  if (along < 0 || SharesBytes(out.dtype)) return false;
  const std::string& axis = view.axes[k][along];
  if (const int64_t lanes = cluster.LanesOf(axis); lanes > 0)
    return lanes * SizeBytes(out.dtype) % kLineBytes == 0 && BeginsLines(request, out, false);
  const auto tile = std::ranges::find(cluster.tiles, axis, &Tile::axis);
  if (!std::ranges::count(cluster.unroll, axis) ||
      (tile != cluster.tiles.end() && tile->sizes.back() < view.Extent(axis)))
    return false;
  const int64_t row = view.Extent(axis) * SizeBytes(out.dtype);
  for (size_t i = 0; i < s.indices.size(); ++i) {
    const int64_t lanes = cluster.LanesOf(view.axes[k][i]);
    if (lanes > 0 && BytesBetween(request, s.target, s.subscripts, static_cast<int32_t>(i)) == row)
      return lanes * row % request.target.VectorBytes() == 0 && BeginsLines(request, out, true);
  }
  return false;
}

}  // namespace

void AddPrefetches(const ClusterView& view, const Cluster& cluster, Choice& choice) {
  const tc::Program& program = view.program();
  if (view.request->target.kind != TargetKind::kCpu) return;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    for (const tc::TensorId t : tc::Inputs(program)) {
      const bool listed = std::ranges::count(choice.prefetches, program[t].name) > 0;
      if (!listed &&
          (IsTable(view, k, t) || IsPassedOnce(view, k, cluster, t) || IsWindowed(view, k, t)))
        choice.prefetches.push_back(program[t].name);
    }
  }
}

bool PassesCaches(const ClusterView& view, const tc::Statement& s, bool short_rows) {
  return IsFar(view, s) && BeginsLines(*view.request, view.program()[s.target], short_rows);
}

void OrderAsRead(const ClusterView& view, const std::string& lane,
                 std::vector<std::string>& order) {
  constexpr int64_t kPiece = 2 * kLineBytes, kStreams = 16;
  const ScheduleRequest& request = *view.request;
  const tc::Program& program = view.program();
  const auto reduces = [&](int32_t s) { return tc::Reduces(program.statements[s]); };
  const tc::Statement& last = view.At(view.statements.size() - 1);
  const int64_t row = view.Extent(lane) * SizeBytes(program[last.target].dtype);
  if (row < kPiece || !PassesCaches(view, last) || std::ranges::any_of(view.statements, reduces))
    return;
  // Bytes from one iteration of each axis to the next in the largest operand.
  std::map<std::string, int64_t> steps;
  double most = 0;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    for (const tc::ExprId read : tc::Reads(program, view.At(k))) {
      const tc::Expr& e = program[read];
      const auto step = [&](size_t i) {
        return BytesBetween(request, e.tensor, e.args, static_cast<int32_t>(i));
      };
      const auto lanes =
          static_cast<size_t>(std::ranges::find(view.axes[k], lane) - view.axes[k].begin());
      if (program[e.tensor].role != tc::Role::kInput || Bytes(program[e.tensor]) <= most ||
          lanes == view.axes[k].size() || step(lanes) != SizeBytes(program[e.tensor].dtype))
        continue;
      most = Bytes(program[e.tensor]);
      steps.clear();
      for (size_t i = 0; i < view.axes[k].size(); ++i) steps[view.axes[k][i]] = step(i);
    }
  }
  double between = 1, streams = 1;  // pieces taken before the one that lies beside the first
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t place = order.size(); place-- > 0;) {
    const int64_t step = steps[order[place]];
    if (step > 0 && step < least) std::tie(least, streams) = std::pair(step, between);
    between *= static_cast<double>(std::max<int64_t>(1, view.Extent(order[place])));
  }
  if (streams > kStreams)
    std::ranges::stable_sort(order, std::greater(), [&](const auto& axis) { return steps[axis]; });
}

void AddStreams(const ClusterView& view, const Cluster& cluster, Choice& choice) {
  for (size_t k = 0; k < view.statements.size(); ++k)
    if (IsFar(view, view.At(k)) && StoresLines(view, k, cluster))
      choice.streams.push_back(view.program()[view.At(k).target].name);
}

}  // namespace weft::polyhedral
