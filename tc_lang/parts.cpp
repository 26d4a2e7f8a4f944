#include "tc_lang/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tc_lang/region.h"

namespace weft::tc {
namespace {

// Calls f on every tensor that a statement writes.
template <typename F>
void ForEachTarget(const Statement& s, F&& f) {
  f(s.target);
  if (s.companion.valid()) f(s.companion);
}

// Whole steps, joined while a tensor is written in several, or read before it is written: a
// recurrence of one step is none, and its guarded reads stay.
std::vector<Step> Segments(const Program& program, const std::vector<Step>& steps) {
  std::vector<size_t> first_write(program.tensors.size(), 0), last_write = first_write;
  for (size_t k = program.statements.size(); k-- > 0;)
    ForEachTarget(program.statements[k], [&](TensorId t) {
      first_write[t.index] = k;
      last_write[t.index] = std::max(last_write[t.index], k);
    });
  std::vector<Step> segments;
  size_t reach = 0;  // the last statement that belongs to the segment
  for (const Step& step : steps) {
    if (!segments.empty() && step.first <= reach)
      segments.back().last = step.last;
    else
      segments.push_back(step);
    reach = std::max(reach, step.last);
    for (size_t k = step.first; k <= step.last; ++k) {
      const auto extend = [&](TensorId t) { reach = std::max(reach, last_write[t.index]); };
      ForEachTarget(program.statements[k], extend);
      for (const ExprId id : Reads(program, program.statements[k]))
        if (first_write[program[id].tensor.index] > k) extend(program[id].tensor);
    }
  }
  return segments;
}

// Makes the program of a segment.
class Cutter {
 public:
  Cutter(const Program& whole, const Step& segment) : whole_(whole), segment_(segment) {
    for (size_t k = segment.first; k <= segment.last; ++k) {
      const Statement& s = whole.statements[k];
      ForEachTarget(s, [&](TensorId t) { written_.insert(t); });
      for (const ExprId id : Reads(whole, s)) read_.insert(whole[id].tensor);
    }
  }

  const std::set<TensorId>& written() const { return written_; }
  const std::set<TensorId>& read() const { return read_; }

  // `needed`: tensors that a later part reads.
  Part Run(const std::set<TensorId>& needed) {
    part_.program = {.name = whole_.name, .params = whole_.params};
    place_.resize(whole_.tensors.size());
    const auto declare = [&](Role role, auto belongs) {
      for (size_t t = 0; t < whole_.tensors.size(); ++t)
        if (belongs(TensorId(t), whole_.tensors[t])) Declare(TensorId(t), role);
    };
    const auto is_out = [&](TensorId t) {
      return whole_[t].role == Role::kOutput || needed.contains(t);
    };
    declare(Role::kInput, [&](TensorId t, const TensorDecl& decl) {
      return read_.contains(t) && !written_.contains(t) && decl.role != Role::kLiteral;
    });
    declare(Role::kOutput,
            [&](TensorId t, const TensorDecl&) { return written_.contains(t) && is_out(t); });
    declare(Role::kTemporary,
            [&](TensorId t, const TensorDecl&) { return written_.contains(t) && !is_out(t); });
    declare(Role::kLiteral, [&](TensorId t, const TensorDecl& decl) {
      return read_.contains(t) && decl.role == Role::kLiteral;
    });
    for (size_t k = segment_.first; k <= segment_.last; ++k) Copy(whole_.statements[k]);
    return std::move(part_);
  }

 private:
  void Declare(TensorId t, Role role) {
    place_[t.index] = TensorId(part_.program.tensors.size());
    part_.program.tensors.push_back(whole_[t]);
    part_.program.tensors.back().role = role;
    if (role == Role::kInput) part_.inputs.push_back(t);
    if (role == Role::kOutput) part_.outputs.push_back(t);
  }

  ExprId Copy(ExprId id) {
    if (!id.valid()) return id;
    ExprId& copy = copies_[id];
    if (copy.valid()) return copy;
    Expr e = whole_[id];
    for (ExprId& arg : e.args) arg = Copy(arg);
    if (e.kind == ExprKind::kRead) e.tensor = place_[e.tensor.index];
    part_.program.exprs.push_back(std::move(e));
    return copy = ExprId(part_.program.exprs.size() - 1);
  }

  void Copy(Statement s) {
    s.target = place_[s.target.index];
    if (s.companion.valid()) s.companion = place_[s.companion.index];
    for (ExprId& id : s.subscripts) id = Copy(id);
    s.value = Copy(s.value);
    s.companion_value = Copy(s.companion_value);
    part_.program.statements.push_back(std::move(s));
  }

  const Program& whole_;
  const Step& segment_;
  std::set<TensorId> written_, read_;
  std::vector<TensorId> place_;      // by tensor of the whole
  std::map<ExprId, ExprId> copies_;  // an expression may be used several times
  Part part_;
};

// Finds the statements that begin a version of a tensor, and gives versions their tensors.
class Renamer {
 public:
  Renamer(const Program& program, const std::vector<Step>& steps)
      : program_(program), made_(program), in_loop_(program.statements.size(), false) {
    for (const Step& step : steps)
      for (size_t k = step.first; k <= step.last; ++k) in_loop_[k] = step.first != step.last;
    for (const TensorDecl& decl : program.tensors) taken_.insert(decl.name);
    for (const Statement& s : program.statements)
      for (const Index& index : s.indices) taken_.insert(index.name);
    taken_.insert(program.params.begin(), program.params.end());
  }

  Program Run() {
    std::vector<std::vector<size_t>> writers(program_.tensors.size());
    for (size_t k = 0; k < program_.statements.size(); ++k)
      ForEachTarget(program_.statements[k], [&](TensorId t) { writers[t.index].push_back(k); });
    for (size_t t = 0; t < writers.size(); ++t)
      if (writers[t].size() > 1) FindVersions(TensorId(t), writers[t]);
    if (versions_.empty()) return std::move(made_);
    made_.exprs.clear();
    for (size_t k = 0; k < program_.statements.size(); ++k) Rewrite(k);
    return std::move(made_);
  }

 private:
  struct Versions {
    std::vector<size_t> begins;    // statements; the first version begins before them
    std::vector<TensorId> tensor;  // of each version; the last one keeps the tensor
  };

  bool WritesAll(const Statement& s, const IntBox& hull) {
    if (s.companion.valid() || (s.assign != Assign::kSet && !s.init)) return false;
    const auto recurrence = RecurrenceIndices(program_, s);
    if (!recurrence.ok() || !recurrence->empty()) return false;
    Region region(hull);
    return region.Write(program_, s, work_) && region.Full();
  }

  void FindVersions(TensorId t, const std::vector<size_t>& writers) {
    const IntBox hull = HullOf(program_, t);
    if (std::ranges::any_of(hull, &Interval::empty)) return;  // any piece writes all of nothing
    Versions versions;
    Region region(hull);
    for (const size_t k : writers) {
      const Statement& s = program_.statements[k];
      if (k != writers[0] && !in_loop_[k] && region.Full() && WritesAll(s, hull)) {
        versions.begins.push_back(k);
        region = Region(hull);
      }
      if (!region.Write(program_, s, work_)) return;
    }
    if (versions.begins.empty()) return;
    for (size_t v = 0; v < versions.begins.size(); ++v) {
      TensorDecl decl = program_[t];
      decl.role = Role::kTemporary;
      for (size_t k = v + 1; !taken_.insert(decl.name).second; ++k)
        decl.name = fmt::format("{}_{}", program_[t].name, k);
      versions.tensor.push_back(TensorId(made_.tensors.size()));
      made_.tensors.push_back(std::move(decl));
    }
    versions.tensor.push_back(t);
    versions_.emplace(t, std::move(versions));
  }

  // What the name of the tensor means at a statement, which may begin a version.
  TensorId At(TensorId t, size_t k, bool is_written) const {
    const auto it = versions_.find(t);
    if (it == versions_.end()) return t;
    const std::vector<size_t>& begins = it->second.begins;
    const auto begun =
        is_written ? std::ranges::upper_bound(begins, k) : std::ranges::lower_bound(begins, k);
    return it->second.tensor[static_cast<size_t>(begun - begins.begin())];
  }

  void Rewrite(size_t k) {
    std::map<ExprId, ExprId> copies;
    const auto copy = [&](const auto& self, ExprId id) -> ExprId {
      if (!id.valid()) return id;
      if (const auto it = copies.find(id); it != copies.end()) return it->second;
      Expr e = program_[id];
      for (ExprId& arg : e.args) arg = self(self, arg);
      if (e.kind == ExprKind::kRead) e.tensor = At(e.tensor, k, false);
      made_.exprs.push_back(std::move(e));
      return copies[id] = ExprId(made_.exprs.size() - 1);
    };
    Statement& s = made_.statements[k];
    s.target = At(s.target, k, true);
    if (s.companion.valid()) s.companion = At(s.companion, k, true);
    for (ExprId& id : s.subscripts) id = copy(copy, id);
    s.value = copy(copy, s.value);
    s.companion_value = copy(copy, s.companion_value);
  }

  const Program& program_;
  Program made_;
  std::vector<bool> in_loop_;  // by statement: a recurrence of several
  std::set<std::string> taken_;
  std::map<TensorId, Versions> versions_;
  Work work_;
};

}  // namespace

Program WithVersions(const Program& program) {
  const auto steps = Steps(program);
  return steps.ok() ? Renamer(program, *steps).Run() : program;
}

Result<std::vector<Part>> Parts(const Program& program) {
  WEFT_TRY(const std::vector<Step> steps, Steps(program));
  const std::vector<Step> segments = Segments(program, steps);
  std::vector<Part> parts;
  std::set<TensorId> needed;  // by the parts behind
  for (size_t k = segments.size(); k-- > 0;) {
    Cutter cutter(program, segments[k]);
    if (std::ranges::none_of(cutter.written(), [&](TensorId t) {
          return program[t].role == Role::kOutput || needed.contains(t);
        }))
      continue;
    parts.push_back(cutter.Run(needed));
    needed.insert(parts.back().inputs.begin(), parts.back().inputs.end());
  }
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace weft::tc
