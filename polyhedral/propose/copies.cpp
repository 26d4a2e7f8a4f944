// Copies of operands for contractions: which could be made, and in what blocks.
#include <algorithm>

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

}  // namespace

std::vector<std::string> CopyCandidates(const ScheduleRequest& request) {
  const tc::Program& program = *request.program;
  std::vector<std::string> candidates;
  if (request.target.kind != TargetKind::kCpu || !program.params.empty()) return candidates;
  const auto steps = tc::Steps(program);
  if (!steps.ok()) return candidates;
  for (const tc::Step& step : *steps) {
    const tc::Statement& s = program.statements[step.first];
    const auto contraction = AsContraction(program, s);
    const auto recurs = tc::RecurrenceIndices(program, s);
    if (step.first != step.last || !contraction || !recurs.ok() || !recurs->empty()) continue;
    for (const tc::ExprId read : {contraction->x, contraction->w}) {
      const std::string& name = program[program[read].tensor].name;
      const bool constant = std::ranges::count(request.constants, name) > 0;
      if (constant || IsNarrow(program[read].dtype) || !IsCopyable(request, name)) continue;
      if (Readers(program, program[read].tensor).size() == 1) candidates.push_back(name);
    }
  }
  return candidates;
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
