#include "polyhedral/scop.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

struct Access {
  int32_t statement = 0;
  bool write = false;
  tc::TensorId tensor;
  std::vector<std::optional<Affine>> cell;
};

class Analyzer {
 public:
  explicit Analyzer(const tc::Program& program)
      : program_(program), step_(program.statements.size()) {
    const auto steps = tc::Steps(program);
    for (size_t s = 0; s < step_.size(); ++s) step_[s] = {static_cast<int32_t>(s), false};
    if (!steps.ok()) return;
    for (size_t k = 0; k < steps->size(); ++k) {
      const tc::Step& step = (*steps)[k];
      for (size_t s = step.first; s <= step.last; ++s) {
        step_[s] = {static_cast<int32_t>(k), step.first != step.last};
      }
    }
  }

  Scop Run() {
    for (size_t s = 0; s < program_.statements.size(); ++s)
      CollectAccesses(static_cast<int32_t>(s));
    for (const Access& x : accesses_) {
      for (const Access& y : accesses_) {
        if (x.tensor == y.tensor && (x.write || y.write)) Relate(x, y);
      }
    }
    return {&program_, std::move(dependences_)};
  }

 private:
  struct Place {
    int32_t step = 0;
    bool loop = false;
  };

  void Add(int32_t s, bool write, tc::TensorId tensor, const std::vector<tc::ExprId>& subscripts) {
    if (!write && program_[tensor].role == tc::Role::kInput) return;
    Access access{.statement = s, .write = write, .tensor = tensor};
    for (const tc::ExprId e : subscripts) {
      access.cell.push_back(tc::AsAffineWithParams(program_, program_.statements[s], e));
    }
    const bool again = std::ranges::any_of(accesses_, [&](const Access& a) {
      return a.statement == s && a.write == write && a.tensor == tensor && a.cell == access.cell;
    });
    if (!again) accesses_.push_back(std::move(access));
  }

  void CollectAccesses(int32_t s) {
    const tc::Statement& statement = program_.statements[s];
    Add(s, true, statement.target, statement.subscripts);
    if (statement.companion.valid()) Add(s, true, statement.companion, statement.subscripts);
    for (const tc::ExprId read : tc::Reads(program_, statement))
      Add(s, false, program_[read].tensor, program_[read].args);
  }

  void Push(const Access& x, const Access& y, Dependence::Kind kind,
            std::optional<int64_t> distance) {
    dependences_.push_back({.kind = kind,
                            .from = x.statement,
                            .to = y.statement,
                            .tensor = x.tensor,
                            .source = x.cell,
                            .sink = y.cell,
                            .distance = distance});
  }

  void PushSameCell(const Access& x, const Access& y) {
    const tc::Statement& s = program_.statements[x.statement];
    if (!s.companion.valid()) return Push(x, y, Dependence::Kind::kSameCell, std::nullopt);
    for (size_t i = 0; i < s.indices.size(); ++i) {
      if (!s.indices[i].reduction) continue;
      Push(x, y, Dependence::Kind::kFirst, std::nullopt);
      dependences_.back().level = static_cast<int32_t>(i);
    }
  }

  // No two instances write one cell, so that the one that reads it is the one that writes it.
  bool IsInPlace(const Access& write, const Access& read) const {
    const tc::Statement& s = program_.statements[write.statement];
    return s.assign == tc::Assign::kSet && write.cell == read.cell &&
           std::ranges::all_of(write.cell, [](const auto& e) { return e.has_value(); });
  }

  // x before y, if the program's own order says so for some of their instances.
  void Relate(const Access& x, const Access& y) {
    using Kind = Dependence::Kind;
    const Kind kind = !y.write ? Kind::kFlow : x.write ? Kind::kOutput : Kind::kAnti;
    if (x.statement == y.statement) {
      if (x.write && y.write) PushSameCell(x, y);
      // A recurrence reads what smaller values of its indices wrote, never the other way round;
      // what an instance finds in the cell that it will write is from before the statement.
      if (x.write && !y.write && !IsInPlace(x, y)) Push(x, y, Kind::kFlow, std::nullopt);
      return;
    }
    const Place a = step_[x.statement], b = step_[y.statement];
    if (a.step != b.step) {
      if (a.step < b.step) Push(x, y, kind, std::nullopt);
    } else if (a.loop) {
      Push(x, y, kind, x.statement < y.statement ? 0 : 1);
    }
  }

  const tc::Program& program_;
  std::vector<Place> step_;
  std::vector<Access> accesses_;
  std::vector<Dependence> dependences_;
};

}  // namespace

Scop Analyze(const tc::Program& program) { return Analyzer(program).Run(); }

bool FirstIsLeast(const tc::Program& program, const tc::Statement& s) {
  const auto reduces = [](const tc::Index& index) { return index.reduction; };
  if (!s.companion.valid() || std::ranges::count_if(s.indices, reduces) != 1) return false;
  const auto reduced = std::ranges::find_if(s.indices, reduces) - s.indices.begin();
  const auto e = tc::AsAffineWithParams(program, s, s.companion_value);
  const auto v = static_cast<Var>(reduced);
  const int64_t a = e ? e->CoefficientOf(v) : 0;
  if (a <= 0 || *e - Affine::OfVar(v, a) != Affine(e->constant())) return false;
  const tc::Index& index = s.indices[static_cast<size_t>(reduced)];
  if (!index.lo.IsConstant() || !index.hi.IsConstant()) return false;
  using Small = std::numeric_limits<int32_t>;
  const Interval values =
      e->Bounds([&](Var) { return Interval{index.lo.constant(), index.hi.constant() - 1}; });
  return values.lo > Small::min() && values.hi < Small::max();
}

std::string Print(const tc::Program& program, const Dependence& d) {
  const std::vector<std::string> names = StatementNames(program);
  constexpr std::string_view kKinds[] = {"flow", "anti", "output", "same cell", "first"};
  return fmt::format("{} -> {} on {} ({})", names[d.from], names[d.to], program[d.tensor].name,
                     kKinds[static_cast<size_t>(d.kind)]);
}

}  // namespace weft::polyhedral
