#include "tc_lang/coalesce.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace weft::tc {
namespace {

// Two axes of a tensor, or two indices of a statement: the outer one stands first.
struct Pair {
  int32_t outer = -1, inner = -1;
  bool valid() const { return outer >= 0; }
  bool operator==(const Pair&) const = default;
};

bool IsConstant(const Affine& e, int64_t value) { return e.IsConstant() && e.constant() == value; }

// Whether and how the layout of an operand can hold both axes as one.
std::optional<Layout> Joined(const Layout& layout, Pair axes) {
  Layout joined{.row_pad_elems = layout.row_pad_elems};
  bool follows = false;
  for (size_t k = 0; k < layout.axes.size(); ++k) {
    const auto& [axis, block] = layout.axes[k];
    if ((axis == axes.outer || axis == axes.inner) && block != 0) return std::nullopt;
    if (axis == axes.inner) {
      follows = k > 0 && layout.axes[k - 1].axis == axes.outer;
      continue;
    }
    joined.axes.push_back({axis > axes.inner ? axis - 1 : axis, block});
  }
  // Padding after each row keeps the outer axis from going on where the inner one ends.
  const bool padded = layout.row_pad_elems != 0 && layout.axes.back().axis == axes.inner;
  if (!follows || padded) return std::nullopt;
  return joined;
}

class Coalescer {
 public:
  Coalescer(Program& program, std::map<std::string, Layout>& layouts,
            std::span<const std::string> whole)
      : program_(program), layouts_(layouts), whole_(whole) {}

  bool JoinAny() {
    for (const Statement& s : program_.statements) {
      const auto rank = static_cast<int32_t>(s.subscripts.size());
      for (int32_t outer = 0; outer < rank; ++outer)
        for (int32_t inner = outer + 1; inner < rank; ++inner)
          if (Try(s.target, {outer, inner})) return true;
    }
    return false;
  }

 private:
  bool Try(TensorId seed, Pair axes) {
    axes_.assign(program_.tensors.size(), {});
    indices_.assign(program_.statements.size(), {});
    todo_.clear();
    joined_.clear();
    if (!Take(seed, axes)) return false;
    while (!todo_.empty()) {
      const TensorId t = todo_.back();
      todo_.pop_back();
      for (size_t s = 0; s < program_.statements.size(); ++s)
        if (!VisitAccesses(s, t)) return false;
    }
    Rewrite();
    return true;
  }

  const Layout LayoutOf(const TensorDecl& decl) const {
    const auto it = layouts_.find(decl.name);
    return it == layouts_.end() ? Layout::Plain(decl.extents.size()) : it->second;
  }

  // The axes of this tensor are to be joined.
  bool Take(TensorId t, Pair axes) {
    Pair& known = axes_[t.index];
    if (known.valid()) return known == axes;
    const TensorDecl& decl = program_[t];
    if (decl.role == Role::kLiteral || std::ranges::count(whole_, decl.name) > 0) return false;
    if (!decl.extents[axes.outer].IsConstant() || !decl.extents[axes.inner].IsConstant())
      return false;
    if (decl.role != Role::kTemporary) {
      auto layout = Joined(LayoutOf(decl), axes);
      if (!layout) return false;
      joined_.emplace(decl.name, *std::move(layout));
    }
    known = axes;
    todo_.push_back(t);
    return true;
  }

  // Every access of statement s to t moves the pair of axes by a pair of indices.
  bool VisitAccesses(size_t s, TensorId t) {
    const Statement& statement = program_.statements[s];
    const auto visit = [&](TensorId tensor, const std::vector<ExprId>& subscripts) {
      return tensor != t || TakeIndices(s, t, subscripts);
    };
    if (!visit(statement.target, statement.subscripts)) return false;
    if (statement.companion.valid() && !visit(statement.companion, statement.subscripts))
      return false;
    return std::ranges::all_of(Reads(program_, statement), [&](ExprId read) {
      return visit(program_[read].tensor, program_[read].args);
    });
  }

  int32_t AsIndex(ExprId e) const {
    return program_[e].kind == ExprKind::kIndex ? program_[e].position : -1;
  }

  bool TakeIndices(size_t s, TensorId t, const std::vector<ExprId>& subscripts) {
    const Pair axes = axes_[t.index];
    const Pair pair{AsIndex(subscripts[axes.outer]), AsIndex(subscripts[axes.inner])};
    if (pair.outer < 0 || pair.inner < 0 || pair.outer == pair.inner) return false;
    const Statement& statement = program_.statements[s];
    const Index &i = statement.indices[pair.outer], &j = statement.indices[pair.inner];
    const auto walks = [&](const Index& index, int32_t axis) {
      return IsConstant(index.lo, 0) && index.hi == program_[t].extents[axis];
    };
    if (i.reduction != j.reduction || !walks(i, axes.outer) || !walks(j, axes.inner)) return false;
    if (i.reduction && !Follows(statement, pair)) return false;
    std::vector<Pair>& known = indices_[s];
    if (std::ranges::count(known, pair)) return true;
    for (const Pair& p : known)
      for (const int32_t taken : {p.outer, p.inner})
        if (taken == pair.outer || taken == pair.inner) return false;
    known.push_back(pair);
    return TakeUses(statement, pair);
  }

  // Instances of a reduction keep their order: which of equal extremes is the first depends on it.
  static bool Follows(const Statement& s, Pair pair) {
    int32_t next = pair.outer + 1;
    while (next < pair.inner && !s.indices[next].reduction) ++next;
    return next == pair.inner;
  }

  // Whatever else the statement does with the two, it does as a pair of plain subscripts.
  bool TakeUses(const Statement& s, Pair pair) {
    if (!TakeAccess(s.target, s.subscripts, pair)) return false;
    if (!TakeExpr(s.value, pair)) return false;
    if (!s.companion.valid()) return true;
    return TakeAccess(s.companion, s.subscripts, pair) && TakeExpr(s.companion_value, pair);
  }

  bool TakeExpr(ExprId id, Pair pair) {
    const Expr& e = program_[id];
    if (e.kind == ExprKind::kIndex) return e.position != pair.outer && e.position != pair.inner;
    if (e.kind == ExprKind::kRead) return TakeAccess(e.tensor, e.args, pair);
    return std::ranges::all_of(e.args, [&](ExprId arg) { return TakeExpr(arg, pair); });
  }

  bool TakeAccess(TensorId tensor, const std::vector<ExprId>& subscripts, Pair pair) {
    Pair found;
    for (size_t a = 0; a < subscripts.size(); ++a) {
      const int32_t index = AsIndex(subscripts[a]);
      int32_t* const place = index < 0             ? nullptr
                             : index == pair.outer ? &found.outer
                             : index == pair.inner ? &found.inner
                                                   : nullptr;
      if (place && *place >= 0) return false;  // a diagonal
      if (place)
        *place = static_cast<int32_t>(a);
      else if (!TakeExpr(subscripts[a], pair))
        return false;
    }
    if (found.outer < 0 && found.inner < 0) return true;
    return found.outer >= 0 && found.outer < found.inner && Take(tensor, found);
  }

  void Rewrite() {
    std::vector<Expr> old;
    std::swap(old, program_.exprs);
    for (size_t s = 0; s < program_.statements.size(); ++s) RewriteStatement(s, old);
    for (size_t t = 0; t < axes_.size(); ++t) {
      if (!axes_[t].valid()) continue;
      auto& extents = program_.tensors[t].extents;
      extents[axes_[t].outer] = extents[axes_[t].outer].constant() * extents[axes_[t].inner];
      extents.erase(extents.begin() + axes_[t].inner);
    }
    for (auto& [name, layout] : joined_) {
      if (layout.IsPlain())
        layouts_.erase(name);
      else
        layouts_[name] = std::move(layout);
    }
  }

  bool IsTaken(const std::string& name, const Statement& s) const {
    const auto is = [&](const auto& named) { return named.name == name; };
    return std::ranges::any_of(program_.tensors, is) || std::ranges::any_of(s.indices, is) ||
           std::ranges::count(program_.params, name) > 0;
  }

  void RewriteStatement(size_t at, const std::vector<Expr>& old) {
    Statement& s = program_.statements[at];
    std::vector<int32_t> place(s.indices.size());  // of each old index; the inner ones have none
    std::vector<bool> gone(s.indices.size(), false);
    for (const Pair& p : indices_[at]) {
      Index& outer = s.indices[p.outer];
      std::string name = outer.name + "_" + s.indices[p.inner].name;
      while (IsTaken(name, s)) name += "_";
      outer.name = std::move(name);
      outer.hi = outer.hi.constant() * s.indices[p.inner].hi;
      gone[p.inner] = true;
    }
    std::vector<Index> left;
    for (size_t i = 0; i < place.size(); ++i) {
      place[i] = static_cast<int32_t>(left.size());
      if (!gone[i]) left.push_back(std::move(s.indices[i]));
    }
    s.indices = std::move(left);
    const auto copy = [&](const auto& self, ExprId id) -> ExprId {
      Expr e = old[id.index];
      if (e.kind == ExprKind::kIndex) e.position = place[e.position];
      if (e.kind == ExprKind::kRead) Drop(e.tensor, e.args);
      for (ExprId& arg : e.args) arg = self(self, arg);
      program_.exprs.push_back(std::move(e));
      return ExprId(program_.exprs.size() - 1);
    };
    Drop(s.target, s.subscripts);
    for (ExprId& sub : s.subscripts) sub = copy(copy, sub);
    s.value = copy(copy, s.value);
    if (s.companion.valid()) s.companion_value = copy(copy, s.companion_value);
  }

  void Drop(TensorId tensor, std::vector<ExprId>& subscripts) const {
    if (const Pair& axes = axes_[tensor.index]; axes.valid())
      subscripts.erase(subscripts.begin() + axes.inner);
  }

  Program& program_;
  std::map<std::string, Layout>& layouts_;
  std::span<const std::string> whole_;
  std::vector<Pair> axes_;                  // by tensor
  std::vector<std::vector<Pair>> indices_;  // by statement
  std::vector<TensorId> todo_;              // tensors whose accesses are to be seen
  std::map<std::string, Layout> joined_;    // of operands
};

}  // namespace

void Coalesce(Program& program, std::map<std::string, Layout>& layouts,
              std::span<const std::string> whole) {
  // Statements of a recurrence step together by their first index, which has to stay.
  const auto steps = Steps(program);
  const auto loops = [](const Step& step) { return step.first != step.last; };
  if (!steps.ok() || std::ranges::any_of(*steps, loops)) return;
  while (Coalescer(program, layouts, whole).JoinAny()) {
  }
}

}  // namespace weft::tc
