// Order of execution: which statements are loops, and that nothing is read before it is written.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "tc_lang/program.h"
#include "tc_lang/region.h"

namespace weft::tc {
namespace {

Interval ValuesOf(const Statement& s, const Affine& e) {
  const auto count = static_cast<Var>(s.indices.size());
  const Interval any{0, std::numeric_limits<int32_t>::max()};
  const auto of_params = [&](const Affine& p) { return p.Bounds([&](Var) { return any; }); };
  return e.Bounds([&](Var v) {
    if (v >= count) return any;
    const Index& index = s.indices[static_cast<size_t>(v)];
    return Interval{of_params(index.lo).lo, of_params(index.hi).hi - 1};
  });
}

bool Writes(const Statement& s, TensorId tensor) {
  return s.target == tensor || s.companion == tensor;
}

void CollectGuarded(const Program& program, ExprId id, bool guarded, std::map<ExprId, bool>& out) {
  const Expr& e = program[id];
  if (e.kind == ExprKind::kRead) out[id] = guarded;
  const bool lazy = e.kind == ExprKind::kOp &&
                    (e.op == ScalarOp::kSelect || e.op == ScalarOp::kAnd || e.op == ScalarOp::kOr);
  for (size_t k = 0; k < e.args.size(); ++k)
    CollectGuarded(program, e.args[k], guarded || (lazy && k > 0), out);
}

class StepFinder {
 public:
  explicit StepFinder(const Program& program) : program_(program) {}

  Result<std::vector<Step>> Run() {
    for (size_t t = 0; t < program_.tensors.size(); ++t) {
      const Role role = program_.tensors[t].role;
      if (role == Role::kOutput || role == Role::kTemporary) {
        regions_.emplace(static_cast<int32_t>(t), Region(HullOf(program_, TensorId(t))));
      }
    }
    for (size_t k = 0; k < program_.statements.size(); ++k) WEFT_TRY(Visit(k));
    for (const auto& [tensor, region] : regions_) {
      if (!region.Full())
        return Invalid(fmt::format("not every cell of '{}' is written", Name(tensor)));
    }
    return Merge();
  }

 private:
  const std::string& Name(int32_t tensor) const {
    return program_.tensors[static_cast<size_t>(tensor)].name;
  }

  Status Visit(size_t k) {
    const Statement& s = program_.statements[k];
    WEFT_TRY(RecurrenceIndices(program_, s));
    std::map<ExprId, bool> reads;
    CollectGuarded(program_, s.value, false, reads);
    if (s.companion_value.valid()) CollectGuarded(program_, s.companion_value, false, reads);
    for (const auto& [id, guarded] : reads) {
      const Expr& read = program_[id];
      const auto region = regions_.find(read.tensor.index);
      if (region == regions_.end()) continue;
      const IntBox box = ReadBox(program_, s, read);
      if (region->second.Misses(box)) WEFT_TRY(Close(k, read.tensor, box, guarded));
    }
    if (s.assign != Assign::kSet && !s.init) {
      IntBox box;  // it reads its target
      const IntBox ranges = RangesOf(program_, s), hull = HullOf(program_, s.target);
      for (size_t d = 0; d < s.subscripts.size(); ++d) {
        box.push_back(
            TightBounds(*AsAffineWithParams(program_, s, s.subscripts[d]), ranges, hull[d]));
      }
      if (regions_.at(s.target.index).Misses(box))
        return Invalid(At(k, "adds to cells that nothing has written"));
    }
    if (s.assign == Assign::kSet) {
      const std::optional<bool> once = WritesEachCellOnce(program_, s, work_);
      if (!once) return Unsupported(At(k, "has too many instances to tell which cells it writes"));
      if (!*once)
        return Invalid(
            At(k, "writes a cell twice with '=': a scatter needs a reduction such as +=!"));
    }
    for (TensorId target : {s.target, s.companion}) {
      if (target.valid() && !regions_.at(target.index).Write(program_, s, work_)) {
        return Unsupported(At(k, "writes too many cells one by one to tell which"));
      }
    }
    return {};
  }

  std::string At(size_t k, std::string_view what) const {
    return fmt::format("the statement on '{}' {}", program_[program_.statements[k].target].name,
                       what);
  }

  // Statement k reads cells of `tensor` that nothing above has written: a loop up to the statement
  // that does.
  Status Close(size_t k, TensorId tensor, const IntBox& box, bool guarded) {
    Region region = regions_.at(tensor.index);
    size_t last = program_.statements.size();
    for (size_t w = k; w < program_.statements.size(); ++w) {
      if (!Writes(program_.statements[w], tensor)) continue;
      last = w;
      if (!region.Write(program_, program_.statements[w], work_) || !region.Misses(box)) break;
    }
    if (last == program_.statements.size()) {
      if (guarded) return {};  // checked when it runs
      return Invalid(fmt::format("'{}' is read before all of the cells in question are written",
                                 program_[tensor].name));
    }
    // A read of its own target under an unguarded miss must ascend, which RecurrenceIndices has
    // checked.
    if (last > k) loops_.push_back({k, last});
    return {};
  }

  Result<std::vector<Step>> Merge() {
    std::vector<Step> steps;
    for (size_t k = 0; k < program_.statements.size();) {
      Step step{k, k};
      for (size_t m = k; m <= step.last; ++m) {
        for (const Step& loop : loops_) {
          if (loop.first == m) step.last = std::max(step.last, loop.last);
        }
      }
      if (step.last > step.first) WEFT_TRY(CheckLoop(step));
      steps.push_back(step);
      k = step.last + 1;
    }
    return steps;
  }

  // Where index 0 stands on the left of a statement, if it stands there alone.
  std::optional<size_t> LoopPosition(const Statement& s) const {
    for (size_t d = 0; d < s.subscripts.size(); ++d) {
      const std::optional<Affine> e = AsAffineWithParams(program_, s, s.subscripts[d]);
      if (e && e->AsVar() == 0 && !s.indices.empty()) return d;
    }
    return std::nullopt;
  }

  Status CheckLoop(const Step& step) const {
    const Statement& head = program_.statements[step.first];
    for (size_t k = step.first; k <= step.last; ++k) {
      const Statement& s = program_.statements[k];
      const bool fits = LoopPosition(s) && !head.indices.empty() &&
                        s.indices[0].lo == head.indices[0].lo &&
                        s.indices[0].hi == head.indices[0].hi;
      if (!fits) {
        return Invalid(At(
            k, fmt::format("stands in a recurrence but does not step with '{}' over the same range",
                           head.indices.empty() ? "?" : head.indices[0].name)));
      }
    }
    for (size_t k = step.first; k <= step.last; ++k) {
      for (ExprId id : Reads(program_, program_.statements[k]))
        WEFT_TRY(CheckLoopRead(step, k, program_[id]));
    }
    return {};
  }

  Status CheckLoopRead(const Step& step, size_t k, const Expr& read) const {
    const Statement& s = program_.statements[k];
    std::optional<size_t> first;
    for (size_t w = step.first; w <= step.last && !first; ++w) {
      if (Writes(program_.statements[w], read.tensor)) first = w;
    }
    if (!first) return {};
    const size_t position = *LoopPosition(program_.statements[*first]);
    const std::optional<Affine> e = AsAffineWithParams(program_, s, read.args[position]);
    const int64_t least = e ? ValuesOf(s, Affine::OfVar(0) - *e).lo : -1;
    // This step's value, if the text has it already, or that of an earlier step.
    if (least >= 1 || (least == 0 && *first <= k)) return {};
    return Invalid(fmt::format("'{}' is read at a step of the recurrence that is not yet done",
                               program_[read.tensor].name));
  }

  const Program& program_;
  Work work_;
  std::map<int32_t, Region> regions_;
  std::vector<Step> loops_;
};

using Distances = std::vector<std::optional<int64_t>>;  // by position; none: not known

bool AscendsIn(const Program& program, const Statement& s, const Distances& by, int32_t index) {
  for (size_t d = 0; d < s.subscripts.size(); ++d) {
    const std::optional<Affine> target = AsAffineWithParams(program, s, s.subscripts[d]);
    if (target && target->AsVar() == index) return by[d] && *by[d] >= 1;
  }
  return false;
}

}  // namespace

Result<std::vector<int32_t>> RecurrenceIndices(const Program& program, const Statement& s) {
  std::vector<int32_t> out;
  std::vector<Distances> distances;  // by read
  for (ExprId id : Reads(program, s)) {
    const Expr& read = program[id];
    if (!Writes(s, read.tensor)) continue;
    Distances distance(s.subscripts.size());
    bool same = true;
    for (size_t d = 0; d < s.subscripts.size(); ++d) {
      const std::optional<Affine> target = AsAffineWithParams(program, s, s.subscripts[d]);
      const std::optional<Affine> source = AsAffineWithParams(program, s, read.args[d]);
      same = same && target && source && *target == *source;
      const std::optional<Var> index = target ? target->AsVar() : std::nullopt;
      if (!index || *index >= static_cast<Var>(s.indices.size()) || !source) continue;
      const int64_t least = ValuesOf(s, *target - *source).lo;
      if (least >= 0) distance[d] = least;
      if (least >= 1 && std::find(out.begin(), out.end(), *index) == out.end())
        out.push_back(*index);
    }
    if (!same) distances.push_back(std::move(distance));
  }
  // One index that all reads ascend in suffices, whatever they do in the others.
  for (const int32_t index : out) {
    if (std::ranges::all_of(distances,
                            [&](const auto& by) { return AscendsIn(program, s, by, index); }))
      return std::vector<int32_t>{index};
  }
  for (const auto& distance : distances) {
    bool ascends = false, backward = false;
    for (size_t d = 0; d < s.subscripts.size(); ++d) {
      const std::optional<Affine> target = AsAffineWithParams(program, s, s.subscripts[d]);
      const std::optional<Var> index = target ? target->AsVar() : std::nullopt;
      if (!index || std::find(out.begin(), out.end(), *index) == out.end()) continue;
      if (!distance[d])
        backward = true;
      else
        ascends = ascends || *distance[d] >= 1;
    }
    if (!ascends || backward) {
      return Invalid(fmt::format("'{}' reads itself at cells that are not strictly earlier in one "
                                 "of its indices",
                                 program[s.target].name))
          .Try("write to another name");
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::vector<Step>> Steps(const Program& program) { return StepFinder(program).Run(); }

}  // namespace weft::tc
