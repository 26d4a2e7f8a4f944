#include "tc_lang/copies.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tc_lang/bind_types.h"
#include "tc_lang/erase.h"

namespace weft::tc {
namespace {

// Whether each value of an integer type is one of another.
bool Holds(Dtype wide, Dtype narrow) {
  if (!IsInteger(wide) || !IsInteger(narrow)) return wide == narrow;
  if (KindOf(wide) == KindOf(narrow)) return Bits(wide) >= Bits(narrow);
  return KindOf(wide) == DtypeKind::kSigned && Bits(wide) > Bits(narrow);
}

// The read whose elements a value has, unchanged by casts.
const Expr* Copied(const Program& p, const Statement& s) {
  const Dtype dtype = p[s.target].dtype;
  const Expr* e = &p[s.value];
  while (e->kind == ExprKind::kOp && e->op == ScalarOp::kCast && Holds(e->dtype, dtype))
    e = &p[e->args[0]];
  return e->kind == ExprKind::kRead && e->dtype == dtype ? e : nullptr;
}

// By axis the place of the index that it is, which no other axis is; -1 for a constant. Nullopt if
// an axis is anything else.
std::optional<std::vector<int32_t>> IndicesOf(const Program& p, const std::vector<ExprId>& subs) {
  std::vector<int32_t> indices;
  for (const ExprId sub : subs) {
    const auto e = AsAffine(p, sub);
    const auto var = e ? e->AsVar() : std::nullopt;
    if (!var && !(e && e->IsConstant())) return std::nullopt;
    if (var && std::ranges::count(indices, *var) > 0) return std::nullopt;
    indices.push_back(var.value_or(-1));
  }
  return indices;
}

class Dropper {
 public:
  Dropper(Program& program, const std::map<std::string, Layout>& layouts)
      : program_(program), layouts_(layouts) {}

  bool Drop(size_t place) {
    const Statement s = program_.statements[place];
    const Expr* const copied = Copied(program_, s);
    if (s.assign != Assign::kSet || Reduces(s) || copied == nullptr) return false;
    if (program_[s.target].role != Role::kTemporary ||
        program_[copied->tensor].role != Role::kInput ||
        std::ranges::count(program_.statements, s.target, &Statement::target) > 1)
      return false;
    const auto to = IndicesOf(program_, s.subscripts), from = IndicesOf(program_, copied->args);
    if (!to || !from || !InOrder(*copied, *to, *from)) return false;
    Redirect(s.target, *copied, *to, *from);
    program_.statements.erase(program_.statements.begin() + static_cast<std::ptrdiff_t>(place));
    EraseTensor(program_, s.target);
    return true;
  }

 private:
  // Whether the indices move the temporary in the order in which they move the input in memory, all
  // of them from 0 on.
  bool InOrder(const Expr& copied, const std::vector<int32_t>& to,
               const std::vector<int32_t>& from) const {
    const auto it = layouts_.find(program_[copied.tensor].name);
    const Layout layout = it == layouts_.end() ? Layout::Plain(from.size()) : it->second;
    std::vector<int32_t> in_memory, wanted;
    for (const auto& [axis, block] : layout.axes) {
      if (block != 0) return false;
      if (from[static_cast<size_t>(axis)] >= 0)
        in_memory.push_back(from[static_cast<size_t>(axis)]);
    }
    std::ranges::copy_if(to, std::back_inserter(wanted), [](int32_t i) { return i >= 0; });
    // An axis of the temporary that is always the same says nothing of what is read from it.
    return wanted.size() == to.size() && in_memory == wanted;
  }

  // Reads of the temporary become reads of the input.
  void Redirect(TensorId target, const Expr& copied, const std::vector<int32_t>& to,
                const std::vector<int32_t>& from) {
    const TensorId input = copied.tensor;
    const std::vector<ExprId> constant = copied.args;
    for (Expr& e : program_.exprs) {
      if (e.kind != ExprKind::kRead || e.tensor != target) continue;
      std::vector<ExprId> subs = constant;
      for (size_t axis = 0; axis < from.size(); ++axis)
        if (from[axis] >= 0) subs[axis] = e.args[std::ranges::find(to, from[axis]) - to.begin()];
      e.tensor = input;
      e.args = std::move(subs);
    }
  }

  Program& program_;
  const std::map<std::string, Layout>& layouts_;
};

// A read, in whatever integer type: of a statement that computes nothing.
bool Moves(const Program& p, const Statement& s) {
  return s.assign == Assign::kSet && !Reduces(s) && Copied(p, s) != nullptr;
}

class Forwarder {
 public:
  explicit Forwarder(Program& program) : program_(program) {}

  // Makes the readers of what the statement moves move it themselves.
  bool Forward(size_t place) {
    const Statement& s = program_.statements[place];
    const auto axes = AxesOf(s);
    if (!axes || !MayForward(place)) return false;
    source_ = program_[s.value];
    axis_of_ = *axes;
    const TensorId gone = s.target;
    for (size_t reader = place + 1; reader < program_.statements.size(); ++reader) {
      Statement& other = program_.statements[reader];
      if (ReadsOf(other, gone) == 0) continue;
      other.value = Rewritten(other.value, gone);
      other.tag = Classify(program_, other);
    }
    program_.statements.erase(program_.statements.begin() + static_cast<std::ptrdiff_t>(place));
    DropUnused(program_);
    EraseTensor(program_, gone);
    return true;
  }

 private:
  // By index of a statement the axis of its target that is this index, if each axis is one.
  std::optional<std::vector<size_t>> AxesOf(const Statement& s) const {
    const auto indices = IndicesOf(program_, s.subscripts);
    if (!indices || indices->size() != s.indices.size()) return std::nullopt;
    std::vector<size_t> axes(s.indices.size());
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if ((*indices)[axis] < 0) return std::nullopt;
      axes[static_cast<size_t>((*indices)[axis])] = axis;
    }
    return axes;
  }

  int64_t ReadsOf(const Statement& s, TensorId tensor) const {
    return std::ranges::count_if(Reads(program_, s),
                                 [&](ExprId read) { return program_[read].tensor == tensor; });
  }

  bool MayForward(size_t place) const {
    const Statement& s = program_.statements[place];
    const Expr& value = program_[s.value];
    const auto made = [&](TensorId tensor) {
      return std::ranges::count(program_.statements, tensor, &Statement::target);
    };
    if (!Moves(program_, s) || value.kind != ExprKind::kRead) return false;
    if (program_[s.target].role != Role::kTemporary || made(s.target) > 1) return false;
    if (std::ranges::any_of(Reads(program_, s), [&](ExprId r) { return made(program_[r].tensor); }))
      return false;
    const bool looks_up =
        std::ranges::any_of(value.args, [&](ExprId sub) { return !AsAffine(program_, sub); });
    int64_t readers = 0;
    for (const Statement& other : program_.statements) {
      if (ReadsOf(other, s.target) == 0) continue;
      if (!Moves(program_, other) || !MayTake(other, s, looks_up)) return false;
      ++readers;
    }
    return readers > 0 && (readers == 1 || !looks_up);
  }

  // Whether another statement moves all that was looked up, each element once and in the order in
  // which it lies: nothing is looked up again, and no place goes unchecked that was checked. Or
  // what was not looked up is read to look something up by.
  bool MayTake(const Statement& other, const Statement& s, bool looks_up) const {
    const Expr* const value = Copied(program_, other);
    if ((value->tensor == s.target) != looks_up) return false;
    if (looks_up && !TakesAll(other, *value)) return false;
    return std::ranges::all_of(Reads(program_, other), [&](ExprId read) {
      const Expr& e = program_[read];
      return e.tensor != s.target || std::ranges::all_of(e.args, [&](ExprId sub) {
               return AsAffine(program_, sub) && program_[sub].dtype == IndexType(s.value);
             });
    });
  }

  // Whether the indices of a statement, but those that stay where they are, run through a tensor
  // from end to end, axis by axis in their order.
  bool TakesAll(const Statement& s, const Expr& read) const {
    const std::vector<Affine>& extents = program_[read.tensor].extents;
    std::vector<Var> runs;
    for (size_t axis = 0; axis < read.args.size(); ++axis) {
      const auto e = AsAffine(program_, read.args[axis]);
      if (!e) return false;
      if (e->IsConstant() && extents[axis] == Affine(1)) continue;
      if (e->terms().size() != 1 || e->terms()[0].dividend || e->terms()[0].coefficient != 1)
        return false;
      const Var v = e->terms()[0].var;
      const Index& index = s.indices[static_cast<size_t>(v)];
      if (!runs.empty() && v <= runs.back()) return false;
      if (index.lo + e->constant() != Affine(0) || index.hi + e->constant() != extents[axis])
        return false;
      runs.push_back(v);
    }
    for (Var v = 0; v < static_cast<Var>(s.indices.size()); ++v) {
      const Index& index = s.indices[static_cast<size_t>(v)];
      if (index.hi - index.lo != Affine(1) && std::ranges::count(runs, v) == 0) return false;
    }
    return true;
  }

  // Of the indices below an expression, which all have one type.
  Dtype IndexType(ExprId id) const {
    const Expr& e = program_[id];
    if (e.kind == ExprKind::kIndex) return e.dtype;
    for (const ExprId arg : e.args)
      if (const Dtype below = IndexType(arg); below != Dtype::kBool) return below;
    return Dtype::kBool;  // there are none
  }

  // The expression, with what is moved in the place of reads of `gone`.
  ExprId Rewritten(ExprId id, TensorId gone) {
    return CopyWith(program_, id, [&](Expr e) {
      if (e.kind != ExprKind::kRead || e.tensor != gone) return ExprId();
      for (ExprId& place : e.args) place = Rewritten(place, gone);
      Expr moved = source_;
      for (ExprId& sub : moved.args) sub = At(sub, e.args);
      return Append(program_, std::move(moved));
    });
  }

  // An expression over the moving statement's indices, at these places of its target.
  ExprId At(ExprId id, const std::vector<ExprId>& places) {
    return CopyWith(program_, id, [&](const Expr& e) {
      return e.kind == ExprKind::kIndex ? places[axis_of_[static_cast<size_t>(e.position)]]
                                        : ExprId();
    });
  }

  Program& program_;
  Expr source_;                  // what is moved
  std::vector<size_t> axis_of_;  // of what is made, by index of who moves it
};

// Statements whose values are made by who reads them.
class SpreadForwarder {
 public:
  explicit SpreadForwarder(Program& program) : program_(program) {}

  bool Forward(size_t place) {
    const Statement s = program_.statements[place];
    const auto axes = IndicesOf(program_, s.subscripts);
    if (!IsPlain(s) || !axes || !WalksAll(s, s.target, *axes) || !Spreads(s)) return false;
    if (IsHalf(program_[s.target].dtype) || program_[s.target].role != Role::kTemporary)
      return false;
    Statement* const reader = OneReader(place);
    if (reader == nullptr || !IsPlain(*reader) || reader->indices.size() != s.indices.size())
      return false;
    // By index of s the one of its reader.
    std::vector<int32_t> index(s.indices.size(), -1);
    int64_t reads = 0;
    for (const ExprId read : Reads(program_, *reader)) {
      if (program_[read].tensor != s.target) continue;
      const auto at = IndicesOf(program_, program_[read].args);
      if (!at || !WalksAll(*reader, s.target, *at)) return false;
      for (size_t axis = 0; axis < at->size(); ++axis) {
        int32_t& known = index[(*axes)[axis]];
        if (reads > 0 && known != (*at)[axis]) return false;
        known = (*at)[axis];
      }
      ++reads;
    }
    constexpr int64_t kMostNodes = 256;
    if (Nodes(reader->value) + reads * Nodes(s.value) > kMostNodes) return false;
    const ExprId value = CopyWith(program_, s.value, [&](Expr e) {
      if (e.kind != ExprKind::kIndex) return ExprId();
      e.position = index[static_cast<size_t>(e.position)];
      return Append(program_, std::move(e));
    });
    reader->value = CopyWith(program_, reader->value, [&](const Expr& e) {
      return e.kind == ExprKind::kRead && e.tensor == s.target ? value : ExprId();
    });
    reader->tag = Classify(program_, *reader);
    program_.statements.erase(program_.statements.begin() + static_cast<std::ptrdiff_t>(place));
    DropUnused(program_);
    EraseTensor(program_, s.target);
    return true;
  }

 private:
  static bool IsPlain(const Statement& s) {
    return s.assign == Assign::kSet && !Reduces(s) && !s.companion.valid();
  }

  // Whether each axis is an index of its own, from end to end, and each index an axis.
  bool WalksAll(const Statement& s, TensorId tensor, const std::vector<int32_t>& axes) const {
    if (axes.size() != s.indices.size()) return false;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (axes[axis] < 0) return false;
      const Index& index = s.indices[static_cast<size_t>(axes[axis])];
      if (index.lo != Affine(0) || index.hi != program_[tensor].extents[axis]) return false;
    }
    return true;
  }

  // Whether some of what it reads was reduced, or follows from such, and has fewer axes.
  bool Spreads(const Statement& s) const {
    const auto reads = Reads(program_, s);
    return std::ranges::any_of(reads, [&](ExprId read) {
      const TensorId tensor = program_[read].tensor;
      return program_[tensor].extents.size() < s.subscripts.size() && Follows(tensor);
    });
  }

  // A recurrence follows from itself: each tensor is asked for once.
  bool Follows(TensorId tensor) const {
    std::vector<TensorId> todo = {tensor};
    std::set<TensorId> seen = {tensor};
    while (!todo.empty()) {
      const TensorId made = todo.back();
      todo.pop_back();
      for (const Statement& s : program_.statements) {
        if (s.target != made || Contracts(s)) continue;
        if (Reduces(s)) return true;
        for (const ExprId read : Reads(program_, s))
          if (seen.insert(program_[read].tensor).second) todo.push_back(program_[read].tensor);
      }
    }
    return false;
  }

  // The one statement that reads what this one makes, if what this one reads is the same there.
  Statement* OneReader(size_t place) {
    const TensorId target = program_.statements[place].target;
    Statement* reader = nullptr;
    for (size_t k = 0; k < program_.statements.size(); ++k) {
      Statement& other = program_.statements[k];
      if (k != place && (other.target == target || other.companion == target)) return nullptr;
      const bool reads = std::ranges::any_of(
          Reads(program_, other), [&](ExprId read) { return program_[read].tensor == target; });
      if (!reads) continue;
      if (reader != nullptr || k <= place) return nullptr;
      reader = &other;
    }
    if (reader != nullptr && WritesReadsOf(program_, place, *reader)) return nullptr;
    return reader;
  }

  int64_t Nodes(ExprId id) const {
    int64_t nodes = 1;
    for (const ExprId arg : program_[id].args) nodes += Nodes(arg);
    return nodes;
  }

  Program& program_;
};

}  // namespace

std::vector<size_t> ForwardSpreads(Program& program) {
  SpreadForwarder forwarder(program);
  return EraseInTurn(program, [&](size_t place) { return forwarder.Forward(place); });
}

bool MayForward(const Program& program) {
  return program.statements.size() == 1 && Moves(program, program.statements[0]);
}

std::vector<size_t> ForwardLookups(Program& program) {
  Forwarder forwarder(program);
  return EraseInTurn(program, [&](size_t place) { return forwarder.Forward(place); });
}

std::vector<size_t> DropCopies(Program& program, const std::map<std::string, Layout>& layouts) {
  Dropper dropper(program, layouts);
  return EraseInTurn(program, [&](size_t place) { return dropper.Drop(place); });
}

}  // namespace weft::tc
