// What is known ahead of the caches: results that are stored past them, tables whose rows are
// fetched into them.
#include <algorithm>

#include "polyhedral/axes.h"
#include "polyhedral/propose/propose.h"

namespace weft::polyhedral {
namespace {

constexpr int64_t kLineBytes = 64;  // of a cache

bool IsRead(const tc::Program& program, tc::TensorId tensor) {
  return std::ranges::any_of(program.statements, [&](const tc::Statement& s) {
    const bool adds = s.target == tensor && s.assign != tc::Assign::kSet && !s.init;
    return adds || std::ranges::any_of(tc::Reads(program, s), [&](tc::ExprId read) {
             return program[read].tensor == tensor;
           });
  });
}

// Rows that begin where a line does, so that no line is written in two parts.
bool BeginsLines(const ScheduleRequest& request, const tc::TensorDecl& tensor) {
  if (tensor.extents.size() <= 1) return true;
  const auto layout = request.layouts.find(tensor.name);
  const Layout rows =
      layout != request.layouts.end() ? layout->second : Layout::Plain(tensor.extents.size());
  const Affine& extent = tensor.extents[static_cast<size_t>(rows.axes.back().axis)];
  int64_t row = rows.axes.back().block;
  if (row == 0) row = extent.IsConstant() ? extent.constant() : 0;
  return row > 0 && !SharesBytes(tensor.dtype) &&
         (row + rows.row_pad_elems) * SizeBytes(tensor.dtype) % kLineBytes == 0;
}

}  // namespace

void AddPrefetches(const ClusterView& view, Choice& choice) {
  const tc::Program& program = view.program();
  const Target& target = view.request->target;
  if (target.kind != TargetKind::kCpu) return;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    for (const tc::TensorId t : tc::Inputs(program)) {
      const bool listed = std::ranges::count(choice.prefetches, program[t].name) > 0;
      if (!listed && Bytes(program[t]) > static_cast<double>(target.l2_bytes) &&
          LooksUp(program, view.At(k), t))
        choice.prefetches.push_back(program[t].name);
    }
  }
}

void AddStreams(const ClusterView& view, const Cluster& cluster, Choice& choice) {
  const tc::Program& program = view.program();
  const Target& target = view.request->target;
  if (!view.request->streams || target.kind != TargetKind::kCpu || cluster.lanes.empty()) return;
  if (tc::OperandBytes(program) < target.l3_bytes) return;
  for (size_t k = 0; k < view.statements.size(); ++k) {
    const tc::Statement& s = view.At(k);
    const tc::TensorDecl& out = program[s.target];
    if (out.role != tc::Role::kOutput || Bytes(out) < static_cast<double>(target.l3_bytes) / 2)
      continue;
    const int32_t lane = ContiguousIndex(*view.request, s, s.target, s.subscripts);
    const int64_t lanes = lane < 0 ? 0 : cluster.LanesOf(view.axes[k][lane]);
    const bool lines = lanes > 0 && lanes * SizeBytes(out.dtype) % kLineBytes == 0;
    if (lines && BeginsLines(*view.request, out) && !IsRead(program, s.target))
      choice.streams.push_back(out.name);
  }
}

}  // namespace weft::polyhedral
