#include "tc_lang/groups.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "tc_lang/erase.h"

namespace weft::tc {
namespace {

int32_t AsIndex(const Program& p, ExprId e) {
  return p[e].kind == ExprKind::kIndex ? p[e].position : -1;
}

bool WalksWhole(const Index& index, const Affine& extent) {
  return index.lo == Affine(0) && index.hi == extent;
}

// A name like this one that an index of the statement may have.
std::string Unused(const Program& p, const Statement& s, std::string name) {
  const auto is = [&](const auto& named) { return named.name == name; };
  while (std::ranges::any_of(p.tensors, is) || std::ranges::any_of(s.indices, is) ||
         std::ranges::count(p.params, name) > 0)
    name += "_";
  return name;
}

// ---- sums of sums ----

class Joiner {
 public:
  explicit Joiner(Program& program) : program_(program) {}

  // Has the one reader of a sum add up its terms.
  bool Join(size_t place) {
    const Statement inner = program_.statements[place];
    if (!IsSum(inner) || program_[inner.target].role != Role::kTemporary) return false;
    for (size_t a = 0; a < inner.subscripts.size(); ++a) {
      const int32_t index = AsIndex(program_, inner.subscripts[a]);
      if (index != static_cast<int32_t>(a) ||
          !WalksWhole(inner.indices[a], program_[inner.target].extents[a]))
        return false;
    }
    Statement* const outer = OneReader(inner, place);
    if (outer == nullptr) return false;
    // Its kept indices are the reader's subscripts, the others come behind those of the reader.
    const std::vector<ExprId> at = program_[outer->value].args;
    const auto kept = static_cast<int32_t>(inner.subscripts.size()),
               by = static_cast<int32_t>(outer->indices.size()) - kept;
    for (size_t i = inner.subscripts.size(); i < inner.indices.size(); ++i) {
      Index index = inner.indices[i];
      index.name = Unused(program_, *outer, std::move(index.name));
      outer->indices.push_back(std::move(index));
    }
    outer->value = CopyWith(program_, inner.value, [&](Expr e) {
      if (e.kind != ExprKind::kIndex) return ExprId();
      if (e.position < kept) return at[static_cast<size_t>(e.position)];
      e.position += by;
      return Append(program_, std::move(e));
    });
    outer->tag = Classify(program_, *outer);
    program_.statements.erase(program_.statements.begin() + static_cast<std::ptrdiff_t>(place));
    DropUnused(program_);
    EraseTensor(program_, inner.target);
    return true;
  }

 private:
  static bool IsSum(const Statement& s) {
    return s.assign == Assign::kSum && s.init && Reduces(s) && !s.companion.valid() &&
           !Contracts(s);
  }

  // The sum that adds up this one's results, and nothing else, if nothing else reads them and each
  // is added once.
  Statement* OneReader(const Statement& inner, size_t place) {
    Statement* reader = nullptr;
    for (Statement& s : program_.statements) {
      if (&s != reader && s.target == inner.target && s.value != inner.value) return nullptr;
      for (const ExprId read : Reads(program_, s)) {
        if (program_[read].tensor != inner.target) continue;
        const bool fits = reader == nullptr && IsSum(s) && s.value == read &&
                          s.accumulate == inner.accumulate && ReadsOnce(s, program_[read]);
        if (!fits) return nullptr;
        reader = &s;
      }
    }
    if (reader != nullptr && WritesReadsOf(program_, place, *reader)) return nullptr;
    return reader;
  }

  // No two instances read one element: each index moves a subscript of its own, and by as much as
  // those after it in the same one cover.
  bool ReadsOnce(const Statement& s, const Expr& read) const {
    std::set<Var> moves;
    for (const ExprId sub : read.args) {
      const auto e = AsAffine(program_, sub);
      if (!e) return false;
      std::vector<std::pair<int64_t, int64_t>> terms;  // coefficient, extent
      for (const Affine::Term& t : e->terms()) {
        if (t.dividend || t.coefficient < 1 || !moves.insert(t.var).second) return false;
        const Index& index = s.indices[static_cast<size_t>(t.var)];
        if (!index.lo.IsConstant() || !index.hi.IsConstant()) return false;
        terms.emplace_back(t.coefficient, index.hi.constant() - index.lo.constant());
      }
      std::ranges::sort(terms);
      int64_t covered = 1;
      for (const auto& [by, extent] : terms) {
        if (by < covered) return false;
        covered = by * extent;
      }
    }
    return moves.size() == s.indices.size();
  }

  Program& program_;
};

// ---- axes in groups ----

// How a subscript walks an axis of groups.
enum class Walk : uint8_t {
  kNone,
  kWhole,   // c
  kGroup,   // c / size, where c is walked whole
  kMember,  // c % size
};

class Splitter {
 public:
  Splitter(Program& program, std::map<std::string, Layout>& layouts,
           std::span<const std::string> whole)
      : program_(program), layouts_(layouts), whole_(whole) {}

  bool SplitAny() {
    for (size_t s = 0; s < program_.statements.size(); ++s) {
      const Statement& statement = program_.statements[s];
      for (const ExprId read : Reads(program_, statement)) {
        const Expr& e = program_[read];
        for (size_t axis = 0; axis < e.args.size(); ++axis) {
          size_ = SizeOf(statement, e.args[axis]);
          if (size_ > 1 && !IsConstant(e.tensor) && Try(e.tensor, static_cast<int32_t>(axis)))
            return true;
        }
      }
    }
    return false;
  }

 private:
  // Of groups that a statement sums up by this subscript, size * g + e; else 1.
  int64_t SizeOf(const Statement& s, ExprId sub) const {
    const auto parts = AsParts(s, sub);
    if (!parts) return 1;
    const Index &group = s.indices[parts->first], &member = s.indices[parts->second];
    return member.reduction && !group.reduction ? member.hi.constant() : 1;
  }

  // The places of g and e in size * g + e, where e is 0:size.
  std::optional<std::pair<size_t, size_t>> AsParts(const Statement& s, ExprId sub) const {
    const auto e = AsAffine(program_, sub);
    if (!e || e->constant() != 0 || e->terms().size() != 2) return std::nullopt;
    const Affine::Term &a = e->terms()[0], &b = e->terms()[1];
    if (a.dividend || b.dividend) return std::nullopt;
    const Affine::Term &group = a.coefficient == 1 ? b : a, &member = a.coefficient == 1 ? a : b;
    const Index& index = s.indices[static_cast<size_t>(member.var)];
    const bool fits = member.coefficient == 1 && group.coefficient > 1 &&
                      WalksWhole(index, Affine(group.coefficient)) &&
                      s.indices[static_cast<size_t>(group.var)].lo == Affine(0);
    if (!fits) return std::nullopt;
    return std::pair(static_cast<size_t>(group.var), static_cast<size_t>(member.var));
  }

  bool Try(TensorId seed, int32_t axis) {
    axes_.assign(program_.tensors.size(), -1);
    indices_.assign(program_.statements.size(), {});
    todo_.clear();
    split_.clear();
    spreads_ = false;
    if (!Take(seed, axis)) return false;
    while (!todo_.empty()) {
      const TensorId t = todo_.back();
      todo_.pop_back();
      for (size_t s = 0; s < program_.statements.size(); ++s)
        if (!VisitAccesses(s, t)) return false;
    }
    if (!spreads_) return false;
    Rewrite();
    return true;
  }

  // Their axes stay one, read at size * g + e.
  bool IsConstant(TensorId t) const { return std::ranges::count(whole_, program_[t].name) > 0; }

  // The axis of this tensor is to be two.
  bool Take(TensorId t, int32_t axis) {
    if (axes_[t.index] >= 0) return axes_[t.index] == axis;
    const TensorDecl& decl = program_[t];
    const Affine& extent = decl.extents[static_cast<size_t>(axis)];
    if (decl.role == Role::kLiteral || !extent.IsConstant() || extent.constant() % size_ != 0)
      return false;
    if (decl.role != Role::kTemporary) {
      auto layout = LayoutOf(decl, axis);
      if (!layout) return false;
      split_.emplace(decl.name, *std::move(layout));
    }
    axes_[t.index] = axis;
    todo_.push_back(t);
    return true;
  }

  // The layout with two axes in the place of one; nullopt if that one is in blocks or padded.
  std::optional<Layout> LayoutOf(const TensorDecl& decl, int32_t axis) const {
    const auto it = layouts_.find(decl.name);
    const Layout old = it == layouts_.end() ? Layout::Plain(decl.extents.size()) : it->second;
    if (old.row_pad_elems != 0 && old.axes.back().axis == axis) return std::nullopt;
    Layout split{.row_pad_elems = old.row_pad_elems};
    for (const auto& [a, block] : old.axes) {
      if (a == axis && block != 0) return std::nullopt;
      split.axes.push_back({a > axis ? a + 1 : a, block});
      if (a == axis) split.axes.push_back({a + 1, 0});
    }
    return split;
  }

  // Every access of statement s to t walks its axis in one of the ways there are.
  bool VisitAccesses(size_t s, TensorId t) {
    return EachAccess(program_.statements[s], [&](TensorId tensor, const auto& subscripts) {
      return tensor != t || TakeSubscript(s, t, subscripts[static_cast<size_t>(axes_[t.index])]);
    });
  }

  // Whether something is so of all accesses.
  template <typename Is>
  bool EachAccess(const Statement& s, const Is& is) const {
    if (!is(s.target, s.subscripts)) return false;
    if (s.companion.valid() && !is(s.companion, s.subscripts)) return false;
    return std::ranges::all_of(Reads(program_, s), [&](ExprId read) {
      return is(program_[read].tensor, program_[read].args);
    });
  }

  bool TakeSubscript(size_t s, TensorId t, ExprId sub) {
    const Statement& statement = program_.statements[s];
    const Affine& extent = program_[t].extents[static_cast<size_t>(axes_[t.index])];
    if (const auto parts = AsParts(statement, sub)) {
      const Index &group = statement.indices[parts->first],
                  &member = statement.indices[parts->second];
      spreads_ |= !member.reduction;
      if (member.hi != Affine(size_) || group.hi != Affine(extent.constant() / size_)) return false;
      const auto take = [&](TensorId tensor, const std::vector<ExprId>& subscripts) {
        for (size_t a = 0; a < subscripts.size(); ++a)
          if (AsParts(statement, subscripts[a]) == parts && !IsConstant(tensor) &&
              !Take(tensor, static_cast<int32_t>(a)))
            return false;
        return true;
      };
      return EachAccess(statement, take);
    }
    const int32_t index = AsIndex(program_, sub);
    if (index < 0 || !WalksWhole(statement.indices[static_cast<size_t>(index)], extent))
      return false;
    if (Contracts(statement)) return false;
    if (!indices_[s].insert(index).second) return true;
    return TakeUses(statement.value, index) &&
           (!statement.companion.valid() || TakeUses(statement.companion_value, index)) &&
           TakeAccess(statement.target, statement.subscripts, index);
  }

  // How an expression walks the index, if it does so as a whole.
  Walk WalkOf(ExprId id, int32_t index) const {
    if (AsIndex(program_, id) == index) return Walk::kWhole;
    const auto e = AsAffine(program_, id);
    if (!e) return Walk::kNone;
    const Affine c = Affine::OfVar(index);
    return *e == FloorDiv(c, size_) ? Walk::kGroup
           : *e == Mod(c, size_)    ? Walk::kMember
                                    : Walk::kNone;
  }

  // Whatever the statement does with the index, it does by subscripts that walk it.
  bool TakeUses(ExprId id, int32_t index) {
    const Expr& e = program_[id];
    if (e.kind == ExprKind::kIndex) return e.position != index;
    if (e.kind == ExprKind::kRead) return TakeAccess(e.tensor, e.args, index);
    return std::ranges::all_of(e.args, [&](ExprId arg) { return TakeUses(arg, index); });
  }

  bool TakeAccess(TensorId tensor, const std::vector<ExprId>& subscripts, int32_t index) {
    for (size_t a = 0; a < subscripts.size(); ++a) {
      const Walk walk = WalkOf(subscripts[a], index);
      spreads_ |= walk == Walk::kGroup;
      if (walk == Walk::kWhole && !IsConstant(tensor) && !Take(tensor, static_cast<int32_t>(a)))
        return false;
      if (walk == Walk::kNone && !TakeUses(subscripts[a], index)) return false;
    }
    return true;
  }

  void Rewrite() {
    Program next = program_;
    next.exprs.clear();
    for (size_t s = 0; s < next.statements.size(); ++s) RewriteStatement(s, next);
    for (size_t t = 0; t < axes_.size(); ++t) {
      if (axes_[t] < 0) continue;
      auto& extents = next.tensors[t].extents;
      const auto at = extents.begin() + axes_[t];
      *at = at->constant() / size_;
      extents.insert(at + 1, Affine(size_));
    }
    program_ = std::move(next);
    for (auto& [name, layout] : split_) {
      if (layout.IsPlain())
        layouts_.erase(name);
      else
        layouts_[name] = std::move(layout);
    }
  }

  void RewriteStatement(size_t at, Program& next) const {
    const Statement& old = program_.statements[at];
    Statement& s = next.statements[at];
    s.indices.clear();
    std::vector<int32_t> place;  // of each old index, or of the groups it falls into
    for (size_t i = 0; i < old.indices.size(); ++i) {
      place.push_back(static_cast<int32_t>(s.indices.size()));
      s.indices.push_back(old.indices[i]);
      if (!indices_[at].contains(static_cast<int32_t>(i))) continue;
      Index& group = s.indices.back();
      Index member = group;
      group.hi = group.hi.constant() / size_;
      group.name = Unused(program_, old, group.name + "_group");
      member.hi = size_;
      s.indices.push_back(std::move(member));
    }
    s.subscripts = Subscripts(at, place, old.target, old.subscripts, next);
    s.value = Copy(at, place, old.value, next);
    if (s.companion.valid()) s.companion_value = Copy(at, place, old.companion_value, next);
  }

  static ExprId AddIndex(Program& next, Dtype dtype, int32_t place) {
    return Append(next, {.kind = ExprKind::kIndex, .dtype = dtype, .position = place});
  }

  // size * g + e, of neighbouring indices.
  ExprId AddWhole(Program& next, Dtype dtype, int32_t group) const {
    const ExprId size = Append(next, {.dtype = dtype, .literal = ScalarOfInt(dtype, size_)});
    const ExprId g = AddIndex(next, dtype, group),
                 first = Append(next, {.kind = ExprKind::kOp,
                                       .dtype = dtype,
                                       .op = ScalarOp::kMul,
                                       .args = {size, g}}),
                 e = AddIndex(next, dtype, group + 1);
    return Append(
        next, {.kind = ExprKind::kOp, .dtype = dtype, .op = ScalarOp::kAdd, .args = {first, e}});
  }

  std::vector<ExprId> Subscripts(size_t at, const std::vector<int32_t>& place, TensorId tensor,
                                 const std::vector<ExprId>& old, Program& next) const {
    std::vector<ExprId> result;
    for (size_t a = 0; a < old.size(); ++a) {
      if (axes_[tensor.index] != static_cast<int32_t>(a)) {
        result.push_back(Copy(at, place, old[a], next));
        continue;
      }
      const Dtype dtype = program_[old[a]].dtype;
      const auto parts = AsParts(program_.statements[at], old[a]);
      const int32_t group = place[parts ? parts->first : program_[old[a]].position],
                    member = parts ? place[parts->second] : group + 1;
      result.push_back(AddIndex(next, dtype, group));
      result.push_back(AddIndex(next, dtype, member));
    }
    return result;
  }

  ExprId Copy(size_t at, const std::vector<int32_t>& place, ExprId id, Program& next) const {
    Expr e = program_[id];
    for (const int32_t index : indices_[at]) {
      const Walk walk = WalkOf(id, index);
      const int32_t group = place[static_cast<size_t>(index)];
      if (walk == Walk::kGroup) return AddIndex(next, e.dtype, group);
      if (walk == Walk::kMember) return AddIndex(next, e.dtype, group + 1);
    }
    if (e.kind == ExprKind::kIndex) {
      const int32_t group = place[static_cast<size_t>(e.position)];
      if (indices_[at].contains(e.position)) return AddWhole(next, e.dtype, group);
      e.position = group;
    }
    if (e.kind == ExprKind::kRead) {
      e.args = Subscripts(at, place, e.tensor, e.args, next);
    } else {
      for (ExprId& arg : e.args) arg = Copy(at, place, arg, next);
    }
    return Append(next, std::move(e));
  }

  Program& program_;
  std::map<std::string, Layout>& layouts_;
  std::span<const std::string> whole_;
  int64_t size_ = 1;                        // of a group
  std::vector<int32_t> axes_;               // by tensor: which is split, or -1
  std::vector<std::set<int32_t>> indices_;  // by statement: those that are split
  std::vector<TensorId> todo_;              // tensors whose accesses are to be seen
  std::map<std::string, Layout> split_;     // of operands
  bool spreads_ = false;                    // members of a group are walked without a sum
};

}  // namespace

std::vector<size_t> JoinSums(Program& program) {
  Joiner joiner(program);
  return EraseInTurn(program, [&](size_t place) { return joiner.Join(place); });
}

void SplitGroups(Program& program, std::map<std::string, Layout>& layouts,
                 std::span<const std::string> whole) {
  // Statements of a recurrence step together by their first index, which has to stay.
  const auto steps = Steps(program);
  const auto loops = [](const Step& step) { return step.first != step.last; };
  if (!steps.ok() || std::ranges::any_of(*steps, loops)) return;
  while (Splitter(program, layouts, whole).SplitAny()) {
  }
}

}  // namespace weft::tc
