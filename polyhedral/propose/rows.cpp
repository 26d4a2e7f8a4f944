// Pointwise chains and reductions: contiguous lanes, one task a row or more.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "polyhedral/access.h"
#include "polyhedral/axes.h"
#include "polyhedral/lower/plan.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/propose/tile_model.h"
#include "polyhedral/scop.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

int64_t ElementBytes(const ClusterView& view) {
  int64_t bytes = 1;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    bytes = std::max(bytes, SizeBytes(view.program()[view.At(k).target].dtype));
  }
  return bytes;
}

// The index of statement k that runs along an axis; one that it has not, if none does.
int32_t IndexAlong(const ClusterView& view, size_t k, const std::string& axis) {
  return static_cast<int32_t>(std::ranges::find(view.axes[k], axis) - view.axes[k].begin());
}

bool IsReduced(const ClusterView& view, size_t k, const std::string& axis) {
  const std::vector<tc::Index>& indices = view.At(k).indices;
  for (size_t i = 0; i < indices.size(); ++i)
    if (view.axes[k][i] == axis) return indices[i].reduction;
  return false;
}

// The axes that statement k reduces and along which it goes from row to row. A window's columns are
// none: they lie along the lanes.
std::vector<std::string> WalkOf(const ClusterView& view, size_t k, const std::string& lane) {
  const tc::Statement& s = view.At(k);
  const auto& axes = view.axes[k];
  const int32_t lanes = IndexAlong(view, k, lane);
  const auto lies_along = [&](int32_t i) {
    for (const tc::ExprId read : tc::Reads(view.program(), s))
      for (const tc::ExprId subscript : view.program()[read].args)
        if (Uses(view.program(), subscript, i) && Uses(view.program(), subscript, lanes))
          return true;
    return false;
  };
  std::vector<std::string> walk;
  for (size_t i = 0; i < s.indices.size(); ++i)
    if (s.indices[i].reduction && !lies_along(static_cast<int32_t>(i))) walk.push_back(axes[i]);
  return walk;
}

// The bytes of the one tensor that statement k reduces; 0 if there are several.
double ReducedBytes(const ClusterView& view, size_t k) {
  const std::vector<tc::ExprId> reads = tc::Reads(view.program(), view.At(k));
  return reads.size() == 1 ? Bytes(view.program()[view.program()[reads[0]].tensor]) : 0;
}

// What one statement, the only one that reduces, walks over along other axes than the lanes', if it
// or all that is reduced is more than the cache holds: such a walk should take whole rows, for
// memory and prefetchers read on where they are (windows of 3x3 in rows of four times the
// lanes: 2.9 times as fast). Accumulators of a row wait in the nearest cache meanwhile. Several
// passes do better with a few lanes, whose walk stays in the cache from pass to pass.
std::vector<std::string> LongWalk(const ClusterView& view, const std::string& lane) {
  std::optional<size_t> only;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    if (!tc::Reduces(view.At(k))) continue;
    if (only) return {};
    only = k;
  }
  if (!only || IsReduced(view, *only, lane)) return {};
  std::vector<std::string> walk = WalkOf(view, *only, lane);
  auto bytes = static_cast<double>(ElementBytes(view) * view.Extent(lane));
  for (const std::string& axis : walk) {
    if (view.Extent(axis) == 0) return {};
    bytes *= static_cast<double>(view.Extent(axis));
  }
  bytes = std::max(bytes, ReducedBytes(view, *only));
  return bytes > static_cast<double>(view.request->target.l2_bytes) ? walk
                                                                    : std::vector<std::string>{};
}

// How many lanes of floats go along where several passes walk over many rows: of an operand far
// beyond the second cache four lines of each come together rather than two, if the cache keeps them
// from pass to pass and the team has enough to do. With AVX2, a softmax of columns is 0.97 to 1.5
// times as fast; with more sums than half of the registers it has more to compute, and is 0.67 to
// 0.92 times as fast where rows are few or come from the last cache.
int64_t LanesOfPasses(const ClusterView& view, const Cluster& cluster, const std::string& lane,
                      int64_t lanes) {
  constexpr int64_t kFourLines = 64, kManyRows = 48, kTasks = 8, kFar = 8;
  const Target& target = view.request->target;
  double tasks = static_cast<double>(view.Extent(lane)) / kFourLines;
  for (const std::string& axis : cluster.order)
    tasks *= static_cast<double>(std::max<int64_t>(1, view.Extent(axis)));
  if (target.kind != TargetKind::kCpu || ElementBytes(view) != 4 || kFourLines <= lanes ||
      !view.IsShared(lane) || tasks < static_cast<double>(kTasks * target.threads))
    return lanes;
  // Strips of the operand, of what is between, and of a result that does not go past the caches,
  // beside the next strip that is fetched.
  const bool streams = std::ranges::any_of(
      view.statements, [&](int32_t s) { return PassesCaches(view, view.program().statements[s]); });
  const auto cache = static_cast<double>(target.l2_bytes);
  int32_t passes = 0;
  bool far = false;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    if (!tc::Reduces(view.At(k))) continue;
    double rows = 1;
    for (const std::string& axis : WalkOf(view, k, lane))
      rows *= static_cast<double>(view.Extent(axis));
    if (rows < kManyRows || rows * kFourLines * 4 > cache / (streams ? 2 : 4) ||
        IsReduced(view, k, lane))
      return lanes;
    ++passes;
    far |= ReducedBytes(view, k) >= kFar * cache;
  }
  return passes > 1 && far ? std::min(kFourLines, view.Extent(lane)) : lanes;
}

// Where a window goes along rows, and then another over the rows that it left, as a pooling does
// axis by axis: the axis of these rows, if all that is between the two stays in the second cache.
// Strips of a few lanes would return to each row of memory for each strip (5x5 in planes of 256x256
// that no cache holds: 6.3 ms in strips, 4.3 so).
std::string RowsBetween(const ClusterView& view, const Cluster& cluster, const std::string& lane) {
  const tc::Program& program = view.program();
  const Target& target = view.request->target;
  double tasks = 1;
  for (const std::string& axis : cluster.order)
    tasks *= static_cast<double>(std::max<int64_t>(1, view.Extent(axis)));
  if (target.kind != TargetKind::kCpu || view.statements.size() < 2 || tasks < 4.0 * target.threads)
    return "";
  const tc::Statement &first = view.At(0), &then = view.At(1);
  // Whether windows of statement k slide along what it reads, or along `made`, as `axis` of the
  // statement moves them.
  const auto slides = [&](size_t k, tc::TensorId made, const std::string& axis) {
    const tc::Statement& s = view.At(k);
    const int32_t index = IndexAlong(view, k, axis);
    for (const tc::ExprId read : tc::Reads(program, s)) {
      if (made.valid() && program[read].tensor != made) continue;
      for (const Subscript& at : Classify(program, s, program[read].args).subscripts)
        if (SlidesAlong(s, at) && std::ranges::count(at.indices, index) > 0) return true;
    }
    return false;
  };
  if (!slides(0, {}, lane) ||
      Bytes(program[first.target]) / tasks > static_cast<double>(target.l2_bytes) / 2)
    return "";
  for (size_t i = 0; i < then.indices.size(); ++i) {
    const std::string& rows = view.axes[1][i];
    if (!then.indices[i].reduction && slides(1, first.target, rows)) return rows;
  }
  return "";
}

// Of the lanes' axis, how much goes along with such a walk: as much as the nearest cache takes and
// the team leaves.
int64_t WalkTile(const ClusterView& view, const Cluster& cluster, const std::string& lane,
                 int64_t lanes) {
  constexpr int64_t kNear = 16 << 10;
  int64_t others = 1;
  for (const std::string& axis : cluster.order)
    if (axis != lane) others *= std::max<int64_t>(1, view.Extent(axis));
  const int64_t wanted = int64_t{4} * view.request->target.threads;
  const int64_t pieces = std::max<int64_t>(1, (wanted + others - 1) / others);
  const int64_t most = std::min(kNear / ElementBytes(view), view.Extent(lane) / pieces);
  int64_t tile = std::max(lanes, most / lanes * lanes);
  while (!view.DividesBlock(lane, tile)) tile -= lanes;
  return tile;
}

// An axis of rows along which something is read that lies apart along the lanes: with a tile of
// rows unrolled, registers transpose what is loaded. Where nothing is summed up, lanes are along
// what is written.
std::string TransposedAxis(const ClusterView& view, const std::string& lane) {
  for (size_t k = 0; k < view.statements.size(); ++k)
    if (tc::Reduces(view.At(k))) return "";
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    const auto& axes = view.axes[k];
    const int32_t along_lane = IndexAlong(view, k, lane);
    for (const tc::ExprId read : tc::Reads(view.program(), s)) {
      const tc::Expr& e = view.program()[read];
      if (view.program()[e.tensor].role == tc::Role::kLiteral) continue;
      const int32_t in = ContiguousIndex(*view.request, s, e.tensor, e.args);
      const bool across = in >= 0 && axes[in] != lane && view.IsShared(axes[in]);
      if (across && Uses(view.program(), read, along_lane)) return axes[in];
    }
  }
  return "";
}

// Which axis lies beside the lanes in what is written, and how many of it fill a line with them,
// where they are all of their axis and less than a line, and `rows` are so far apart that they fall
// into few sets of the nearest cache. A line that is written in parts has left the cache then by
// the time of its next: 77x4096x8 floats of 8x4096x77 six times as fast. Elsewhere it would lose a
// tenth to a third.
std::pair<std::string, int64_t> LineBeside(const ClusterView& view, const std::string& lane,
                                           const std::string& rows) {
  constexpr int64_t kFewSets = 1 << 10, kManyRows = 16;
  const tc::Statement& s = view.At(view.statements.size() - 1);
  const tc::TensorDecl& out = view.program()[s.target];
  const auto& axes = view.axes.back();
  std::vector<std::string> written;  // axes, from the one whose elements lie side by side on
  int64_t stride = SizeBytes(out.dtype);
  const Layout layout = LayoutOf(*view.request, out);
  for (auto at = layout.axes.rbegin(); at != layout.axes.rend(); ++at) {
    const auto e = tc::AsAffine(view.program(), s.subscripts[static_cast<size_t>(at->axis)]);
    const Var v = e ? e->AsVar().value_or(-1) : -1;
    if (at->block != 0 || v < 0 || v >= static_cast<Var>(axes.size())) return {};
    written.push_back(axes[static_cast<size_t>(v)]);
    if (written.back() == rows) break;
    stride *= view.Extent(written.back());
  }
  if (written.size() < 3 || written[0] != lane || written.back() != rows) return {};
  const int64_t bytes = view.Extent(lane) * SizeBytes(out.dtype);
  if (bytes <= 0 || bytes >= kLineBytes || kLineBytes % bytes != 0 || stride % kFewSets != 0 ||
      view.Extent(rows) < kManyRows || SharesBytes(out.dtype))
    return {};
  const int64_t count = kLineBytes / bytes;
  const std::string& beside = written[1];
  if (!view.IsShared(beside) || view.Extent(beside) < count || !view.DividesBlock(beside, count))
    return {};
  return {beside, count};
}

// Sixteen rows: a cache line of what is read, if that is floats, and 128 bits of bytes. Four times
// as many one after the other where the lines come from memory, a page apart or more, and are so
// many before the next column's that the processor has not kept what it fetched beside them: then
// four that lie side by side are read at once (8192x1024 elements 3.2 times as fast; rows of 80 to
// 640 elements would lose a tenth to a third). What stays in a cache would lose, as the rows that
// are written begin in few of its sets. Of narrow elements as many as a line has, unless the
// nearest cache keeps lines until their rest is wanted (1.1 to 1.5 times). With both elements of
// pairs that lie inside the lanes in what is written.
void AddTransposedRows(const ClusterView& view, const std::string& axis, const std::string& lane,
                       Cluster& cluster) {
  constexpr int64_t kRows = 16, kFewLines = 512, kLongRow = 1024;
  int64_t rows = std::min(kRows, view.Extent(axis));
  while (rows > 1 && !view.DividesBlock(axis, rows)) --rows;
  if (rows < 2) return;
  std::erase(cluster.order, axis);
  cluster.order.push_back(axis);
  if (const auto [beside, in_line] = LineBeside(view, lane, axis);
      std::erase(cluster.order, beside) > 0) {
    cluster.order.push_back(beside);
    cluster.tiles.push_back({beside, {in_line}});
    cluster.unroll.push_back(beside);
  }
  const bool far = std::ranges::any_of(
      view.statements, [&](int32_t s) { return PassesCaches(view, view.program().statements[s]); });
  const Target& target = view.request->target;
  const int64_t element = ElementBytes(view), threads = std::max(1, target.threads);
  const bool whole_lines =
      element < 4 && element * view.Extent(axis) * view.Extent(lane) > 2 * target.l1_bytes;
  const bool lines = element >= 4 && view.Extent(lane) > kFewLines;
  const int64_t side_by_side = whole_lines ? kLineBytes / element : 4 * rows;
  const bool many = far && lines && view.Extent(axis) >= std::max(kLongRow, side_by_side * threads);
  if ((whole_lines || many) && rows == kRows && view.Extent(axis) >= side_by_side &&
      view.DividesBlock(axis, side_by_side)) {
    cluster.tiles.push_back({axis, {side_by_side, rows}});
    cluster.inner.push_back(axis);
  } else {
    cluster.tiles.push_back({axis, {rows}});
  }
  cluster.unroll.push_back(axis);
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    const int32_t out = ContiguousIndex(*view.request, s, s.target, s.subscripts);
    if (out < 0) continue;
    const std::string& pair = view.axes[k][out];
    if (pair == axis || pair == lane || view.Extent(pair) != 2) continue;
    if (std::erase(cluster.order, pair) > 0) cluster.unroll.push_back(pair);
  }
}

// An axis of few elements that lie side by side in what is written, as an image's colours, where
// lanes go along the one around it: with all of them unrolled registers interleave what is stored,
// and what is written is passed over once rather than once a colour.
std::string FewBesideLanes(const ClusterView& view, const std::string& lane) {
  constexpr int64_t kFew = 8;
  for (size_t k = 0; k < view.statements.size(); ++k)
    if (tc::Reduces(view.At(k))) return "";
  const tc::Statement& s = view.At(view.statements.size() - 1);
  const int32_t out = ContiguousIndex(*view.request, s, s.target, s.subscripts);
  if (out < 0) return "";
  const std::string& few = view.axes.back()[out];
  const bool all = few != lane && view.IsShared(few) && view.Extent(few) >= 2 &&
                   view.Extent(few) < kFew && view.DividesBlock(few, view.Extent(few));
  return all ? few : "";
}

// A tensor with its place in memory that a statement reads or writes.
struct Touch {
  size_t statement = 0;
  tc::TensorId tensor;
  std::vector<tc::ExprId> at;
  Affine inner;  // the subscript along which it lies
};

// Those of operands that lie in no blocks.
std::vector<Touch> Touches(const ClusterView& view) {
  const tc::Program& program = view.program();
  std::vector<Touch> all;
  const auto add = [&](size_t k, tc::TensorId tensor, const std::vector<tc::ExprId>& at) {
    const tc::TensorDecl& decl = program[tensor];
    const bool lies = decl.role == tc::Role::kInput || decl.role == tc::Role::kOutput;
    if (!lies || at.empty() || SharesBytes(decl.dtype)) return;
    const Layout::Axis last = LayoutOf(*view.request, decl).axes.back();
    const auto inner = tc::AsAffine(program, at[static_cast<size_t>(last.axis)]);
    if (inner && last.block == 0) all.push_back({k, tensor, at, *inner});
  };
  for (size_t k = 0; k < view.statements.size(); ++k) {
    add(k, view.At(k).target, view.At(k).subscripts);
    for (const tc::ExprId read : tc::Reads(program, view.At(k)))
      add(k, program[read].tensor, program[read].args);
  }
  return all;
}

// The axis along which rows go inside the loop over lanes: where lanes are across planes of what is
// read or written, each place takes a small part of a line of every plane, and planes lie so that
// these push each other out of the nearest cache before the rest of a line is wanted. Empty if
// there is none, or what lies along the lanes would be taken by parts of lines instead. (Winograd's
// transforms of 16 to 48 channels of 128x128 places, 1.1 to 1.5 times; bytes by 16 of a line 0.8.)
std::string CrowdedRows(const ClusterView& view, const Cluster& cluster, const std::string& lane,
                        int64_t lanes) {
  const tc::Program& program = view.program();
  const Target& target = view.request->target;
  constexpr int64_t kVisits = 8;  // of a line
  if (target.kind != TargetKind::kCpu) return "";
  const std::vector<Touch> touches = Touches(view);
  const auto bytes = [&](const Touch& t) { return SizeBytes(program[t.tensor].dtype); };
  const auto crowds = [&](const std::string& rows) {
    const auto tile = std::ranges::find(cluster.tiles, rows, &Tile::axis);
    const int64_t size = tile == cluster.tiles.end() ? 1 : tile->sizes[0];
    return std::ranges::any_of(touches, [&](const Touch& t) {
      const int32_t across = IndexAlong(view, t.statement, lane);
      const int64_t step = std::abs(t.inner.CoefficientOf(IndexAlong(view, t.statement, rows))),
                    in_line = kLineBytes / bytes(t);
      return step > 0 && step <= in_line / (size * kVisits) &&
             view.Extent(rows) * step >= in_line && !t.inner.Uses(across) &&
             CrowdOf(target, BytesBetween(*view.request, t.tensor, t.at, across), view.Extent(lane))
                     .too_many > 0;
    });
  };
  const auto found = std::ranges::find_if(cluster.order, crowds);
  if (found == cluster.order.end()) return "";
  const bool in_parts = std::ranges::any_of(touches, [&](const Touch& t) {
    return t.inner.Uses(IndexAlong(view, t.statement, lane)) && lanes * bytes(t) < kLineBytes &&
           BytesBetween(*view.request, t.tensor, t.at, IndexAlong(view, t.statement, *found)) > 0;
  });
  return in_parts ? "" : *found;
}

// Whether some statement sums up along other axes for so long that it does not matter how few lanes
// are added up in the end.
bool WalksOn(const ClusterView& view, const std::string& lane) {
  constexpr int64_t kLong = 32;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    if (std::ranges::count(view.axes[k], lane) == 0) continue;
    int64_t steps = 1;
    for (size_t i = 0; i < view.axes[k].size(); ++i)
      if (view.axes[k][i] != lane && view.At(k).indices[i].reduction)
        steps *= std::min(kLong, std::max<int64_t>(1, view.Extent(view.axes[k][i])));
    if (steps >= kLong) return true;
  }
  return false;
}

// An axis across short rows, along which each lane takes a row: no sum crosses lanes then, and with
// all elements of a row unrolled registers transpose what is read and written. Below two vectors a
// row that gains (softmax 1.3 to 3 times, argmax 4 and more), up to four it may.
std::string AcrossRows(const ClusterView& view, const std::string& lane, int64_t vector,
                       int variant) {
  const int64_t length = view.Extent(lane);
  const bool is_short = length < 2 * vector;
  if (view.IsShared(lane) || length > 4 * vector || is_short != (variant % 2 == 0)) return "";
  bool sums = false;
  for (size_t k = 0; k < view.statements.size(); ++k) sums |= IsReduced(view, k, lane);
  if (!sums || WalksOn(view, lane)) return "";
  const auto found = std::find_if(view.shared.rbegin(), view.shared.rend(), [&](const auto& axis) {
    return view.Extent(axis) >= vector && view.DividesBlock(axis, vector);
  });
  return found == view.shared.rend() ? "" : *found;
}

// How many rows along the innermost shared axis a cluster goes through at once that sums up short
// ones in lanes: a row's sum is a chain of shuffles, and the next row need not wait for it (softmax
// of 33 to 64 elements 1.7 times as fast, norms 1.2 to 1.4 times). All rows lie in half of the
// registers.
int64_t RowsAtOnce(const ClusterView& view, const Cluster& cluster, const std::string& lane,
                   int64_t vector) {
  const Target& target = view.request->target;
  const int64_t length = view.Extent(lane);
  if (target.kind != TargetKind::kCpu || cluster.order.empty() || length == 0) return 1;
  bool sums = false;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    sums |= IsReduced(view, k, lane);
    for (const std::string& axis : view.axes[k])
      if (axis != lane && !view.IsShared(axis)) return 1;
  }
  const int64_t vectors = (length + vector - 1) / vector;
  const std::string& axis = cluster.order.back();
  int64_t rows = std::min<int64_t>(4, target.VectorRegisters() / 2 / vectors);
  while (rows > 1 && !view.DividesBlock(axis, rows)) --rows;
  return sums && view.Extent(axis) >= rows ? rows : 1;
}

constexpr int64_t kShort = 8;

// The least number of steps of v after which e is what it was; 0 if there is none that is short.
int64_t PeriodOf(const Affine& e, Var v) {
  for (int64_t period = 2; period <= kShort; ++period) {
    const Affine later =
        e.Substitute([&](Var u) { return u == v ? Affine::OfVar(u) + period : Affine::OfVar(u); });
    if (later == e) return period;
  }
  return 0;
}

}  // namespace

std::map<std::string, int64_t> Switches(const ClusterView& view) {
  constexpr int64_t kMostUnrolled = 64;
  const tc::Program& program = view.program();
  std::map<std::string, int64_t> switches;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    std::vector<Affine> identity, conditions;
    for (size_t i = 0; i < s.indices.size(); ++i)
      identity.push_back(Affine::OfVar(static_cast<Var>(i)));
    lower::CollectConditions(program, s.value, identity, conditions);
    const auto extent = [&](Var v) { return view.Extent(view.axes[k][static_cast<size_t>(v)]); };
    bool whole = false;
    for (const Affine& e : conditions) {
      std::vector<Var> used;
      e.CollectVars(used);
      for (const Var v : used) {
        const std::string& axis = view.axes[k][static_cast<size_t>(v)];
        if (s.indices[static_cast<size_t>(v)].reduction) continue;
        const int64_t period = PeriodOf(e, v);
        if (period > 0 && period < extent(v)) switches[axis] = period;
        // A padding's guard is a choice too, but of few iterations: those of a window or stride.
        const bool alone = e - Affine::OfVar(v, e.CoefficientOf(v)) == Affine(e.constant());
        if (alone && std::abs(e.CoefficientOf(v)) == 1 && extent(v) <= kShort) {
          switches[axis] = extent(v);
          whole = true;
        }
      }
    }
    // What else is short and its own goes along, so that values between the statements of an
    // iteration have constant places.
    for (size_t i = 0; whole && i < s.indices.size(); ++i) {
      const std::string& axis = view.axes[k][i];
      if (!view.IsShared(axis) && extent(static_cast<Var>(i)) <= kShort)
        switches.try_emplace(axis, extent(static_cast<Var>(i)));
    }
  }
  for (const auto& own : view.axes) {  // of a statement, copies for all values that are told apart
    int64_t copies = 1;
    for (const auto& [axis, count] : switches)
      if (std::ranges::count(own, axis) > 0) copies *= count;
    if (copies > kMostUnrolled) return {};
  }
  return switches;
}

namespace {

// The index that what is read along most indices, or the first of such, has side by side; -1: none.
int32_t AlongInput(const ClusterView& view, const tc::Statement& s) {
  int32_t along = -1;
  int64_t most = -1;
  for (const tc::ExprId read : tc::Reads(view.program(), s)) {
    const tc::Expr& e = view.program()[read];
    if (view.program()[e.tensor].role == tc::Role::kLiteral) continue;
    int64_t used = 0;
    for (size_t i = 0; i < s.indices.size(); ++i)
      used += Uses(view.program(), read, static_cast<int32_t>(i));
    const int32_t in = ContiguousIndex(*view.request, s, e.tensor, e.args);
    if (in < 0 || used <= most) continue;
    along = in;
    most = used;
  }
  return along;
}

// Where few elements lie side by side in what s writes, lanes along index `in`, as it reads, write
// each by itself: next to one another, as colours of pixels, or lines apart. Then along the axis
// around those few, whose lanes registers interleave (pairs of 128 for 784 pixels 24 times as
// fast). That of a subscript that is no index alone, as of rows that hold their channels, is one of
// its own.
int32_t AroundFew(const ClusterView& view, const tc::Statement& s, int32_t in, int64_t least) {
  const tc::Program& program = view.program();
  if (tc::Reduces(s) || s.subscripts.size() < 2) return in;
  const auto layout = view.request->layouts.find(program[s.target].name);
  if (layout != view.request->layouts.end()) return in;
  const auto few = tc::AsAffine(program, s.subscripts.back()),
             around = tc::AsAffine(program, s.subscripts[s.subscripts.size() - 2]);
  const auto index = around ? around->AsVar() : std::nullopt;
  if (!few || !few->AsVar() || !index || *index == in) return in;
  const Affine extent = s.indices[*index].hi - s.indices[*index].lo;
  return extent.IsConstant() && extent.constant() >= least ? *index : in;
}

// Where what lies side by side along index `few` in what s writes, and not in what it reads, is
// less than 128 bits, lanes go along the axis around it and registers interleave all of it: four to
// seven bytes 3 to 8 times as fast as by lanes along them, halves 1.1 to 2.3, floats 0.8 to 1.06.
// So are few elements that go past the caches that way (1.5 to 1.7).
int32_t AroundInterleaved(const ClusterView& view, size_t k, int32_t few, int64_t least) {
  const tc::Statement& s = view.At(k);
  const int64_t bytes = view.Extent(view.axes[k][few]) * SizeBytes(view.program()[s.target].dtype);
  const int32_t around = AroundFew(view, s, few, least);
  const bool is_unrolled = FewBesideLanes(view, view.axes[k][around]) == view.axes[k][few];
  return is_unrolled && (bytes < 16 || PassesCaches(view, s, true)) ? around : few;
}

}  // namespace

std::string LaneAxis(const ClusterView& view, const std::map<std::string, int64_t>& switches,
                     int64_t least) {
  const int64_t vector = view.request->target.VectorBytes() / ElementBytes(view);
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const int32_t beside = BesideLookups(*view.request, view.At(k), vector);
    if (beside >= 0 && view.IsShared(view.axes[k][beside])) return view.axes[k][beside];
  }
  // Of those that write along most axes, since one with fewer has little to do, the last; sooner
  // one that sums up rows than what becomes of a row's sum.
  std::vector<size_t> order;
  for (size_t k = view.statements.size(); k-- > 0;) order.push_back(k);
  std::ranges::stable_sort(order, std::greater(), [&](size_t k) {
    const tc::Statement& s = view.At(k);
    const auto kept = std::ranges::count(s.indices, false, &tc::Index::reduction);
    return std::pair(kept, SumsRows(*view.request, s));
  });
  for (const size_t k : order) {
    const tc::Statement& s = view.At(k);
    // A kept index of the output serves all; a reduced one is what remains when the input is read
    // along it.
    const int32_t out = ContiguousIndex(*view.request, s, s.target, s.subscripts);
    const int32_t in = AlongInput(view, s);
    const bool reduces = in >= 0 && s.indices[in].reduction;
    // Lanes that choose between values differ; what is unrolled does not.
    const bool chooses = out >= 0 && switches.contains(view.axes[k][out]);
    // Several are read for one that is written.
    const bool sums = in >= 0 && tc::Reduces(s) && view.Extent(view.axes[k][in]) >= vector;
    int32_t lane = out >= 0 ? out : in;
    if (reduces || sums || (chooses && in != out))
      lane = in;
    else if (chooses)
      lane = -1;
    else if (in >= 0 && lane >= 0 && view.Extent(view.axes[k][lane]) < least)
      lane = AroundFew(view, s, in, least);  // as for an image's three colours
    else if (in >= 0 && lane >= 0 && in != lane)
      lane = AroundInterleaved(view, k, lane, least);
    if (lane < 0) continue;
    const std::string& axis = view.axes[k][lane];
    if (view.Extent(axis) >= least) return axis;
  }
  return "";
}

namespace {

// How many lanes look something up at one place, where whole registers of them do: that is looked
// up before, once for all. A great number where none do.
int64_t LanesOfLookup(const ClusterView& view, const std::string& lane, int64_t vector) {
  const tc::Program& program = view.program();
  int64_t least = INT64_MAX;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const int32_t index = IndexAlong(view, k, lane);
    for (const tc::ExprId read : tc::Reads(program, view.At(k)))
      for (const tc::ExprId sub : program[read].args) {
        if (tc::AsAffine(program, sub)) continue;
        for (const tc::ExprId place : tc::Reads(program, sub)) {
          const int64_t steps = StepsToMove(program, place, index);
          if (steps > 1 && steps % vector == 0) least = std::min(least, steps);
        }
      }
  }
  return least;
}

// Whether what comes along with an extreme element depends on the order in which they are compared.
bool IsOrdered(const tc::Program& program, const tc::Statement& s) {
  return s.companion.valid() && !FirstIsLeast(program, s);
}

// Whether so many lanes along an axis are parts of one block of what is written, or whole blocks:
// others lie apart.
bool FitBlocks(const ClusterView& view, const std::string& lane, int64_t lanes) {
  const tc::Program& program = view.program();
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    const Layout layout = LayoutOf(*view.request, program[s.target]);
    for (const auto& [axis, block] : layout.axes) {
      const auto e = tc::AsAffine(program, s.subscripts[static_cast<size_t>(axis)]);
      const bool along = e && e->AsVar() == Var{IndexAlong(view, k, lane)};
      if (along && block > 0 && lanes % block != 0 && block % lanes != 0) return false;
    }
  }
  return true;
}

// A statement without the axis of the others' lanes, as one that is summed up by channel before
// groups are, has lanes along one of its own.
void AddOwnLanes(const ClusterView& view, int64_t most, Cluster& cluster) {
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const auto has = [&](const Tile& lanes) {
      return std::ranges::count(view.axes[k], lanes.axis) > 0;
    };
    if (IsOrdered(view.program(), view.At(k)) || std::ranges::any_of(cluster.lanes, has)) continue;
    ClusterView alone = view;
    alone.statements = {view.statements[k]};
    alone.axes = {view.axes[k]};
    const std::string lane = LaneAxis(alone, Switches(alone));
    if (lane.empty() || view.IsShared(lane) || std::ranges::count(cluster.unroll, lane) > 0)
      continue;
    int64_t lanes = std::min(most, view.Extent(lane));
    while (!view.DividesBlock(lane, lanes)) --lanes;
    cluster.lanes.push_back({lane, {lanes}});
  }
}

// A sum of floats from row to row adds one term at a time to each lane, so a long one is one of
// shorter ones; thousands of terms round no worse than lanes along a row. Of the first statement
// that sums so, by an axis that nobody keeps.
void ShortenSums(const ClusterView& view, Cluster& cluster) {
  constexpr int64_t kLongSum = 4096, kSum = 1024;
  if (view.request->target.kind != TargetKind::kCpu) return;
  const auto is_cut = [&](const std::string& axis) {
    return std::ranges::count(cluster.order, axis) + std::ranges::count(cluster.unroll, axis) > 0 ||
           std::ranges::count(cluster.tiles, axis, &Tile::axis) > 0 || cluster.LanesOf(axis) > 0;
  };
  const auto is_kept = [&](const std::string& axis) {
    for (size_t k = 0; k < view.statements.size(); ++k)
      if (std::ranges::count(view.axes[k], axis) > 0 && !IsReduced(view, k, axis)) return true;
    return false;
  };
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    if (s.assign != tc::Assign::kSum || !IsFloat(s.accumulate) || s.companion.valid()) continue;
    std::vector<std::string> loops = cluster.inner, sums;
    for (const std::string& axis : view.axes[k])
      if (std::ranges::count(loops, axis) + std::ranges::count(cluster.order, axis) == 0)
        loops.push_back(axis);
    std::vector<int64_t> extents;
    bool whole = true;
    for (const std::string& axis : loops) {
      if (!IsReduced(view, k, axis)) continue;
      whole &= !is_cut(axis) && !is_kept(axis);
      sums.push_back(axis);
      extents.push_back(view.Extent(axis));
    }
    double terms = 1;
    for (const int64_t extent : extents) terms *= static_cast<double>(extent);
    if (!whole || terms < static_cast<double>(kLongSum)) continue;
    // An inner loop, where one step of that around it is too many of them to go with others.
    std::optional<std::pair<size_t, int64_t>> shorter;
    for (int64_t most = kLongSum; !shorter && most >= kSum / 4; most /= 2)
      shorter = ShorterSums(extents, most, most / 4);
    if (!shorter) continue;
    const std::string& axis = sums[shorter->first];
    int64_t points = shorter->second;  // fewer where all parts are equal then, of a known length
    for (int64_t fewer = points; 2 * fewer > shorter->second; --fewer) {
      if (view.Extent(axis) % fewer != 0) continue;
      points = fewer;
      break;
    }
    const auto at = std::ranges::find(loops, axis);
    std::vector<std::string> before(loops.begin(), at + 1);
    if (cluster.inner.size() < before.size()) cluster.inner = std::move(before);
    cluster.inner.insert(std::ranges::find(cluster.inner, axis), axis);
    cluster.tiles.push_back({axis, {points}});
    return;
  }
}

}  // namespace

Cluster RowCluster(const ClusterView& view, int variant) {
  const tc::Program& program = view.program();
  const std::vector<std::string> names = StatementNames(program);
  if (auto sampling = SamplingCluster(view)) {
    for (const int32_t s : view.statements) sampling->statements.push_back(names[s]);
    sampling->parallel = ParallelPrefix(view, *sampling);
    return *std::move(sampling);
  }
  Cluster cluster;
  for (const int32_t s : view.statements) cluster.statements.push_back(names[s]);
  const auto switches = Switches(view);
  const int64_t vector = view.request->target.VectorBytes() / ElementBytes(view);
  const std::string along = LaneAxis(view, switches, 2);
  const std::string across =
      along.empty() || switches.contains(along) ? "" : AcrossRows(view, along, vector, variant);
  const std::string lane = across.empty() ? LaneAxis(view, switches) : across;
  if (!across.empty()) cluster.unroll.push_back(along);
  for (const std::string& axis : view.shared) {
    const auto found = switches.find(axis);
    const bool whole = found != switches.end() && found->second >= view.Extent(axis);
    if (axis != lane && !whole) cluster.order.push_back(axis);
  }
  for (const auto& [axis, count] : switches) {
    if (axis == lane || !view.DividesBlock(axis, count)) continue;
    if (std::ranges::count(cluster.order, axis)) cluster.tiles.push_back({axis, {count}});
    cluster.unroll.push_back(axis);
  }
  if (const std::string axis = lane.empty() ? "" : TransposedAxis(view, lane);
      !axis.empty() && cluster.unroll.empty())
    AddTransposedRows(view, axis, lane, cluster);
  if (const std::string few = lane.empty() ? "" : FewBesideLanes(view, lane);
      !few.empty() && cluster.unroll.empty() && std::erase(cluster.order, few) > 0)
    cluster.unroll.push_back(few);
  std::string between;
  if (!lane.empty()) {
    const bool wide = variant % 2 == 0 && cluster.unroll.empty();
    const int64_t most = std::min(loops::kMostLanes, vector * (wide ? 4 : 1));
    int64_t lanes = std::min({most, view.Extent(lane), LanesOfLookup(view, lane, vector)});
    if (wide && lanes == most) lanes = LanesOfPasses(view, cluster, lane, lanes);
    while (!view.DividesBlock(lane, lanes) || !FitBlocks(view, lane, lanes)) --lanes;
    between = view.IsShared(lane) ? RowsBetween(view, cluster, lane) : "";
    if (!between.empty()) {
      cluster.order.push_back(between);
    } else if (view.IsShared(lane)) {
      std::vector<std::string> walk;
      if (across.empty()) walk = LongWalk(view, lane);
      if (walk.empty() && cluster.unroll.empty()) OrderAsRead(view, lane, cluster.order);
      cluster.order.push_back(lane);
      const std::string rows = walk.empty() ? CrowdedRows(view, cluster, lane, lanes) : "";
      if (!rows.empty()) {
        std::erase(cluster.order, rows);
        cluster.order.push_back(rows);
      }
      cluster.tiles.push_back(
          {lane, {walk.empty() ? lanes : WalkTile(view, cluster, lane, lanes)}});
      if (cluster.tiles.back().sizes[0] > lanes) {
        cluster.inner = walk;
        cluster.inner.push_back(lane);
      }
    }
    const bool ordered = std::ranges::any_of(
        view.statements, [&](int32_t s) { return IsOrdered(program, program.statements[s]); });
    if (view.IsShared(lane) || !ordered) {
      cluster.lanes = {{lane, {lanes}}};
      AddOwnLanes(view, most, cluster);
    }
    const int64_t rows = wide && !ordered ? RowsAtOnce(view, cluster, lane, vector) : 1;
    if (rows > 1 && cluster.tiles.empty()) {
      const std::string axis = cluster.order.back();
      cluster.tiles = {{axis, {rows}}};
      cluster.inner = {axis, lane};
      cluster.unroll = {axis};
    }
  }
  ShortenSums(view, cluster);
  cluster.parallel = ParallelPrefix(view, cluster);
  if (!between.empty())  // rows of a plane are made before one another
    cluster.parallel = std::min(cluster.parallel, static_cast<int32_t>(cluster.order.size()) - 1);
  return cluster;
}

}  // namespace weft::polyhedral
