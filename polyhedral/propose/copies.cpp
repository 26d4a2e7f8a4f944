// Copies of operands: which could be made, and in what blocks.
#include <algorithm>
#include <numeric>

#include "polyhedral/copies.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

bool IsNarrow(Dtype dtype) { return Bits(dtype) < 32; }  // pairs are packed otherwise

// The statements that read the operand, and where.
std::vector<std::pair<int32_t, tc::ExprId>> Readers(const tc::Program& program,
                                                    tc::TensorId operand) {
  std::vector<std::pair<int32_t, tc::ExprId>> readers;
  for (size_t s = 0; s < program.statements.size(); ++s)
    for (const tc::ExprId read : tc::Reads(program, program.statements[s]))
      if (program[read].tensor == operand) readers.emplace_back(static_cast<int32_t>(s), read);
  return readers;
}

// A read of what lies along another axis than the lanes, and moves along both.
struct Across {
  size_t statement = 0;  // of the cluster
  tc::ExprId read;
  std::string along;
};

// Those of a cluster.
std::vector<Across> ReadsAcross(const ClusterView& view, const std::string& lane) {
  const tc::Program& program = view.program();
  std::vector<Across> across;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    const auto& axes = view.axes[k];
    const auto lanes = static_cast<int32_t>(std::ranges::find(axes, lane) - axes.begin());
    for (const tc::ExprId read : tc::Reads(program, s)) {
      const tc::Expr& e = program[read];
      const int32_t along = ContiguousIndex(*view.request, s, e.tensor, e.args);
      if (along < 0 || along == lanes || AxisOf(program, read, along) < 0) continue;
      if (AxisOf(program, read, lanes) >= 0) across.push_back({k, read, axes[along]});
    }
  }
  return across;
}

// Of statements that all share one cluster and store past the caches.
std::vector<tc::ExprId> TurnedReads(const ScheduleRequest& request) {
  const tc::Program& program = *request.program;
  std::vector<int32_t> all(program.statements.size());
  std::iota(all.begin(), all.end(), 0);
  const ClusterView view = View(request, all);
  const auto reduces = [](const tc::Statement& s) { return tc::Reduces(s); };
  const auto passes = [&](const tc::Statement& s) { return PassesCaches(view, s); };
  if (std::ranges::any_of(program.statements, reduces) ||
      std::ranges::none_of(program.statements, passes))
    return {};
  const std::vector<StatementGroup> groups = GroupStatements(request, true);
  if (groups.size() != 1 || groups[0].loop) return {};
  std::vector<tc::ExprId> reads;
  for (const Across& across : ReadsAcross(view, LaneAxis(view, Switches(view))))
    reads.push_back(across.read);
  return reads;
}

// What contractions may read through a copy.
std::vector<tc::ExprId> ContractedReads(const tc::Program& program) {
  const auto steps = tc::Steps(program);
  std::vector<tc::ExprId> reads;
  if (!steps.ok()) return reads;
  for (const tc::Step& step : *steps) {
    const tc::Statement& s = program.statements[step.first];
    const auto contraction = AsContraction(program, s);
    const auto recurs = tc::RecurrenceIndices(program, s);
    if (step.first != step.last || !contraction || !recurs.ok() || !recurs->empty()) continue;
    for (const tc::ExprId read : {contraction->x, contraction->w})
      if (!IsNarrow(program[read].dtype)) reads.push_back(read);
  }
  return reads;
}

}  // namespace

std::vector<std::string> CopyCandidates(const ScheduleRequest& request) {
  const tc::Program& program = *request.program;
  std::vector<std::string> candidates;
  if (request.target.kind != TargetKind::kCpu || !program.params.empty()) return candidates;
  const auto add = [&](tc::TensorId tensor) {
    const std::string& name = program[tensor].name;
    const bool known =
        std::ranges::count(request.constants, name) > 0 || std::ranges::count(candidates, name) > 0;
    if (!known && IsCopyable(request, name)) candidates.push_back(name);
  };
  for (const tc::ExprId read : ContractedReads(program))
    if (Readers(program, program[read].tensor).size() == 1) add(program[read].tensor);
  const std::vector<tc::ExprId> turned = TurnedReads(request);
  for (const tc::ExprId read : turned) {
    const auto is_turned = [&](const auto& reader) {
      return std::ranges::count(turned, reader.second) > 0;
    };
    if (std::ranges::all_of(Readers(program, program[read].tensor), is_turned))
      add(program[read].tensor);
  }
  return candidates;
}

std::map<std::string, Layout> WindowedLayouts(const ScheduleRequest& request) {
  constexpr int64_t kChannels = 16;
  constexpr double kUses = 96, kWork = 4 << 20;  // multiply-adds, of an element and of all
  const tc::Program& program = *request.program;
  std::map<std::string, Layout> layouts;
  if (request.target.kind != TargetKind::kCpu || request.target.HasAvx512() ||
      !program.params.empty())
    return layouts;
  for (const tc::ExprId read : ContractedReads(program)) {
    const tc::Expr& e = program[read];
    const tc::TensorDecl& operand = program[e.tensor];
    const auto readers = Readers(program, e.tensor);
    Layout layout = LayoutOf(request, operand);
    if (readers.size() != 1 || !IsCopyable(request, operand.name) ||
        std::ranges::count(request.constants, operand.name) > 0 || layout.axes.size() < 2 ||
        layout.rank() != layout.axes.size())
      continue;
    const tc::Statement& s = program.statements[static_cast<size_t>(readers[0].first)];
    const auto extent = [&](const tc::Index& i) {
      const Affine own = i.hi - i.lo;
      return own.IsConstant() ? own.constant() : 0;
    };
    const auto along = tc::AsAffine(program, e.args[static_cast<size_t>(layout.axes.back().axis)]);
    double work = 1;
    int32_t channels = -1;
    bool window = false;
    for (size_t i = 0; i < s.indices.size(); ++i) {
      work *= static_cast<double>(extent(s.indices[i]));
      if (!s.indices[i].reduction) continue;
      window |= along && along->Uses(static_cast<Var>(i)) && !along->AsVar();
      const int32_t axis = AxisOf(program, read, static_cast<int32_t>(i));
      const auto alone = axis < 0 ? std::nullopt : tc::AsAffine(program, e.args[axis]);
      if (alone && alone->AsVar() && extent(s.indices[i]) >= kChannels) channels = axis;
    }
    if (!window || channels < 0 || work < kWork ||
        work * SizeBytes(operand.dtype) < kUses * Bytes(operand))
      continue;
    const auto place = std::ranges::find(layout.axes, channels, &Layout::Axis::axis);
    std::rotate(place, place + 1, layout.axes.end());
    layouts[operand.name] = layout;
  }
  return layouts;
}

std::optional<TurnedCopies> TurnCopies(std::span<const ClusterView> copies,
                                       const ClusterView& reader) {
  constexpr int64_t kRowBytes = 1024, kMostOfRow = 512;
  const tc::Program& program = reader.program();
  TurnedCopies turned;
  for (size_t k = 0; k < reader.statements.size(); ++k)
    if (tc::Reduces(reader.At(k))) return {};
  const std::string lane = LaneAxis(reader, Switches(reader));
  const std::vector<Across> reads = ReadsAcross(reader, lane);
  for (const ClusterView& copy : copies) {
    const auto found = std::ranges::find(reads, copy.At(0).target,
                                         [&](const Across& a) { return program[a.read].tensor; });
    if (found == reads.end() || found->along != reads[0].along) return {};
    const tc::ExprId read = found->read;
    const auto axis_of = [&](const std::string& axis) {
      const auto& axes = reader.axes[found->statement];
      const auto index = std::ranges::find(axes, axis) - axes.begin();
      return AxisOf(program, read, static_cast<int32_t>(index));
    };
    TurnedCopies::Copy& one = turned.copies.emplace_back();
    const int64_t element = SizeBytes(program[read].dtype),
                  along = std::min(kRowBytes / element, kMostOfRow),
                  near = reader.request->target.l2_bytes / 4 / std::ssize(copies),
                  line = kLineBytes / element,
                  across = std::max<int64_t>(1, near / (along * element) / line) * line;
    std::vector<Tile> blocks;
    for (const std::string& axis : reader.shared)
      if (axis != lane && axis != found->along) blocks.push_back({axis, {1}});
    blocks.push_back({lane, {across}});
    blocks.push_back({found->along, {along}});
    std::erase_if(blocks, [&](const Tile& t) { return t.sizes[0] >= reader.Extent(t.axis); });
    for (const Tile& block : blocks) {
      const int32_t place = axis_of(block.axis);
      if (place < 0) return {};
      one.blocks.push_back({copy.axes[0][static_cast<size_t>(place)], block.sizes});
    }
    if (turned.blocks.empty()) turned.blocks = blocks;
    if (blocks.empty() || turned.blocks != blocks) return {};
    const int32_t lanes = axis_of(lane);
    for (int32_t axis = 0; axis < std::ssize(program[read].args); ++axis)
      if (axis != lanes) one.layout.axes.push_back({axis, 0});
    one.layout.axes.push_back({lanes, 0});
    one.along = copy.axes[0][static_cast<size_t>(axis_of(found->along))];
  }
  return turned;
}

CopyBlocks BlocksOfCopy(const ClusterView& copy, const ClusterView& contraction,
                        const Cluster& loops) {
  const tc::Program& program = copy.program();
  const Target& target = copy.request->target;
  const tc::TensorId tensor = copy.At(0).target;
  const auto readers = Readers(program, tensor);
  const auto& axes = contraction.axes[contraction.anchor];
  const tc::Statement& s = contraction.At(contraction.anchor);
  CopyBlocks blocks;
  int64_t count = 1;
  const auto add = [&](size_t index, int64_t size) {
    const std::string& axis = axes[index];
    const int32_t place = AxisOf(program, readers[0].second, static_cast<int32_t>(index));
    if (place < 0 || !contraction.IsShared(axis) || size >= contraction.Extent(axis)) return;
    blocks.copy.push_back({copy.axes[0][static_cast<size_t>(place)], {size}});
    blocks.contraction.push_back({axis, {size}});
    count *= (contraction.Extent(axis) + size - 1) / size;
  };
  // Axes that move both operands: nothing of the copy is used again across them.
  const auto both = AsContraction(program, s);
  const std::string& lane = loops.lanes[0].axis;
  for (const int32_t i : both->kept)
    if (axes[i] != lane && Uses(program, both->x, i) && Uses(program, both->w, i))
      add(static_cast<size_t>(i), 1);
  // Then as many lanes as the cache holds beside what passes by.
  int64_t tile = loops.lanes[0].sizes[0];
  for (const Tile& t : loops.tiles)
    if (t.axis == lane) tile = t.sizes[0];
  const int64_t wanted = target.threads == 1 ? 1 : int64_t{4} * target.threads;
  const double part = Bytes(program[tensor]) / static_cast<double>(count);
  const auto half = static_cast<double>(target.l2_bytes) / 2;
  if (part > half || count < wanted) {
    const int64_t extent = contraction.Extent(lane);
    const int64_t near = static_cast<int64_t>(half / (part / static_cast<double>(extent)));
    const int64_t shared = extent * count / wanted;
    const int64_t size = std::max<int64_t>(1, std::min(near, shared) / tile) * tile;
    add(static_cast<size_t>(std::ranges::find(axes, lane) - axes.begin()), size);
  }
  return count < wanted ? CopyBlocks{} : blocks;
}

}  // namespace weft::polyhedral
