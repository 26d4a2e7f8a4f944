#include "tc_lang/bind_def.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/check.h"
#include "tc_lang/bind_types.h"

namespace weft::tc {
namespace {

constexpr int kMostAttempts = 32;
constexpr int64_t kMostBytes = int64_t{1} << 47;         // of a tensor: what x86-64 can address
constexpr int64_t kMostScratchBytes = int64_t{1} << 40;  // of temporaries, as in a loop nest

// The bytes that offsets into a tensor span, where extents are known. They are computed of empty
// tensors too, so an extent of 0 pays for no others.
int64_t SpannedBytes(const TensorDecl& decl) {
  int64_t bytes = SizeBytes(decl.dtype);
  for (const Affine& extent : decl.extents) {
    if (!extent.IsConstant() || extent.constant() == 0) continue;
    if (__builtin_mul_overflow(bytes, extent.constant(), &bytes)) return INT64_MAX;
  }
  return bytes;
}

bool Mentions(const SyntaxExpr& e, const std::set<std::string>& names) {
  if ((e.kind == SyntaxKind::kName || e.kind == SyntaxKind::kApply) && names.contains(e.text))
    return true;
  return std::any_of(e.args.begin(), e.args.end(),
                     [&](const SyntaxExprPtr& arg) { return Mentions(*arg, names); });
}

bool Mentions(const SyntaxStatement& s, const std::set<std::string>& names) {
  const auto any = [&](const SyntaxExprPtr& e) { return Mentions(*e, names); };
  return std::any_of(s.values.begin(), s.values.end(), any) ||
         std::any_of(s.targets.begin(), s.targets.end(),
                     [&](const SyntaxTarget& t) { return names.contains(t.name); }) ||
         std::any_of(s.clauses.begin(), s.clauses.end(),
                     [&](const SyntaxClause& c) { return (c.a && any(c.a)) || (c.b && any(c.b)); });
}

// Keeps the nodes that statements use, in order.
void Compact(Program& program) {
  std::vector<int32_t> place(program.exprs.size(), -1);
  std::vector<Expr> kept;
  const auto copy = [&](const auto& self, ExprId& id) -> void {
    int32_t& to = place[static_cast<size_t>(id.index)];
    if (to < 0) {
      Expr e = program[id];
      for (ExprId& arg : e.args) self(self, arg);
      to = static_cast<int32_t>(kept.size());
      kept.push_back(std::move(e));
    }
    id.index = to;
  };
  for (Statement& s : program.statements) {
    for (ExprId& id : s.subscripts) copy(copy, id);
    copy(copy, s.value);
    if (s.companion_value.valid()) copy(copy, s.companion_value);
  }
  program.exprs = std::move(kept);
}

}  // namespace

DefBinder::DefBinder(const Def& def, const Sizes& sizes, std::span<const Def> defs)
    : root_(def),
      def_(&def),
      sizes_(sizes),
      callables_(defs),
      diagnostics_(def.source ? std::string_view(*def.source) : std::string_view(), def.file),
      exprs_(program_, scope_, callables_, diagnostics_) {}

Status DefBinder::Run() {
  // A recurrence reads tensors before the statement that settles their type. The first attempt
  // leaves such types open, the next ones begin with what was found: the rules are monotone, so
  // this ends in the least types that agree.
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const std::map<int32_t, Dtype> known = guesses_;
    guessed_wrong_ = false;
    program_ = {.name = def_->name};
    scope_ = {};
    states_.clear();
    ranges_.clear();
    exists_.clear();
    first_expr_.clear();
    at_.clear();
    index_types_.clear();
    rebased_.clear();
    called_ = false;
    segment_guards_.clear();
    names_.clear();
    name_counts_.clear();
    preconditions_.clear();
    exprs_.Clear(*def_);
    if (!Declare()) return diagnostics_.ToStatus();
    const bool fine = BindAll();
    if (!guessed_wrong_ && exprs_.open_reads().empty()) {
      if (fine && Finish()) return {};
      return diagnostics_.ToStatus();
    }
    if (guesses_ == known) {  // nothing says what these are
      for (int32_t tensor : exprs_.open_reads()) guesses_.emplace(tensor, Dtype::kF32);
    }
    diagnostics_ = Diagnostics(root_.source ? std::string_view(*root_.source) : std::string_view(),
                               root_.file);
  }
  return Invalid("the types of a recurrence depend on each other")
      .At(def_->file)
      .Try("declare them: float(…) name");
}

bool DefBinder::BindAll() {
  bool fine = true;
  std::set<std::string>
      broken;  // names whose statement failed: what uses them would only repeat it
  for (const SyntaxStatement& s : def_->statements) {
    if (Mentions(s, broken) || !BindStatement(s)) {
      fine = false;
      for (const SyntaxTarget& target : s.targets) broken.insert(target.name);
    }
    // What a call has added is not there when types are guessed again.
    if (diagnostics_.full() || (guessed_wrong_ && called_)) return false;
  }
  return fine;
}

bool DefBinder::TooLarge(std::string_view what) {
  return Error(Problem::kTooLarge, def_->at,
               fmt::format("{} more elements than can be addressed", what), "", Code::kLimit);
}

// Extents of what statements write, once they have all been bound.
bool DefBinder::FinishTensors(const std::vector<size_t>& tensors) {
  for (size_t t : tensors) {
    TensorDecl& decl = program_.tensors[t];
    if (decl.role != Role::kOutput && decl.role != Role::kTemporary) continue;
    for (size_t d = 0; d < decl.extents.size(); ++d) {
      decl.extents[d] = states_[t].hi[d] - states_[t].lo[d];
      if (!decl.extents[d].IsConstant() && d > 0) {
        return Error(
            Problem::kOpenSize, def_->at,
            fmt::format("extent {} of '{}' depends on a size that is left open, which only the "
                        "outermost may",
                        d, decl.name));
      }
    }
    if (SpannedBytes(decl) > kMostBytes) return TooLarge(fmt::format("'{}' has", decl.name));
    if (!CheckAnnotation(t)) return false;
  }
  return true;
}

// What a kernel computes offsets for, in operands and in scratch.
bool DefBinder::CheckSpans() {
  int64_t scratch_bytes = 0;
  for (const TensorDecl& decl : program_.tensors) {
    const int64_t bytes = SpannedBytes(decl);
    if (bytes > kMostBytes) return TooLarge(fmt::format("'{}' has", decl.name));
    if (decl.role == Role::kTemporary) scratch_bytes += bytes;
    if (scratch_bytes > kMostScratchBytes)
      return TooLarge(fmt::format("temporaries up to '{}' have", decl.name));
  }
  return true;
}

bool DefBinder::Finish() {
  std::vector<size_t> all(program_.tensors.size());
  std::iota(all.begin(), all.end(), 0);
  if (!FinishTensors(all) || !CheckSpans() || !CheckFinal(0)) return false;
  Rebase(0);
  for (size_t k = 0; k < program_.statements.size(); ++k) {
    Statement& s = program_.statements[k];
    const Result<std::vector<int32_t>> recurrence = RecurrenceIndices(program_, s);
    if (!recurrence.ok()) {
      return Error(Problem::kRecurrence, at_[k], recurrence.status().what(),
                   recurrence.status().hint());
    }
    if (s.tag == Tag::kNone)
      s.tag = Classify(program_, s);  // by the axes, which memory may not show
  }
  const Result<std::vector<Step>> steps = Steps(program_);
  if (!steps.ok()) {
    return Error(Problem::kCells, def_->at, steps.status().what(), steps.status().hint(),
                 steps.status().code());
  }
  if (!GatherScatters()) return false;
  Flatten();
  Compact(program_);
  RenameIndices();
  return true;
}

// Now that all hulls are known: no unguarded access leaves its tensor.
bool DefBinder::CheckFinal(size_t first) {
  bool fine = true;
  for (size_t k = first; k < program_.statements.size(); ++k) {
    if (k < rebased_.size() && rebased_[k]) continue;  // of a call, which has checked it
    const std::vector<Constraint> constraints = Constraints(program_.statements[k], true);
    RangeInference inference(ranges_[k], constraints, program_.params, diagnostics_);
    fine = inference.CheckAccesses(preconditions_) && fine;
  }
  return fine;
}

ExprId DefBinder::FromAffine(const Affine& e, const Statement& s, Dtype dtype) {
  const Location at;
  const Dtype index_type = index_types_[static_cast<size_t>(&s - program_.statements.data())];
  const auto variable = [&](ExprKind kind, int32_t position) {
    const ExprId id = exprs_.Add({.kind = kind, .dtype = index_type, .position = position}, at);
    return exprs_.Convert({id, index_type}, dtype);
  };
  const auto literal = [&](int64_t value) {
    return exprs_.Add(
        {.kind = ExprKind::kLiteral, .dtype = dtype, .literal = ScalarOfInt(dtype, value)}, at);
  };
  const auto op = [&](ScalarOp o, ExprId a, ExprId b) {
    return exprs_.Add({.kind = ExprKind::kOp, .dtype = dtype, .op = o, .args = {a, b}}, at);
  };
  std::optional<ExprId> sum;
  for (const Affine::Term& term : e.terms()) {
    const auto count = static_cast<int32_t>(s.indices.size());
    ExprId atom;
    if (term.dividend != nullptr) {
      const ExprId dividend = FromAffine(*term.dividend, s, dtype);
      atom = op(ScalarOp::kDiv, dividend, literal(term.divisor));
    } else {
      atom = term.var < count ? variable(ExprKind::kIndex, term.var)
                              : variable(ExprKind::kParam, term.var - count);
    }
    if (term.coefficient != 1) atom = op(ScalarOp::kMul, literal(term.coefficient), atom);
    sum = sum ? op(ScalarOp::kAdd, *sum, atom) : atom;
  }
  if (!sum) return literal(e.constant());
  if (e.constant() == 0) return *sum;
  const bool minus = e.constant() < 0;
  return op(minus ? ScalarOp::kSub : ScalarOp::kAdd, *sum,
            literal(minus ? -e.constant() : e.constant()));
}

// Index i becomes i + by everywhere, and its range moves down.
void DefBinder::ShiftIndex(Statement& s, size_t index, const Affine& by) {
  s.indices[index].lo = s.indices[index].lo - by;
  s.indices[index].hi = s.indices[index].hi - by;
  const auto position = static_cast<int32_t>(index);
  const auto count = static_cast<Var>(s.indices.size());
  const Affine shifted =
      Affine::OfVar(position) + by.Substitute([&](Var p) { return Affine::OfVar(count + p); });
  const auto replace = [&](const auto& self, ExprId id) -> ExprId {
    const Expr e = program_[id];
    if (e.kind == ExprKind::kIndex)
      return e.position == position ? FromAffine(shifted, s, e.dtype) : id;
    std::vector<ExprId> args;
    for (ExprId arg : e.args) args.push_back(self(self, arg));
    if (args == e.args) return id;
    if (e.kind == ExprKind::kOp && e.op == ScalarOp::kCast &&
        program_[args[0]].kind == ExprKind::kLiteral)
      return exprs_.Convert({args[0], program_[args[0]].dtype}, e.dtype);
    Expr copy = e;
    copy.args = std::move(args);
    const ExprId made = exprs_.Add(std::move(copy), exprs_.At(id));
    // i + 3 - 3 and its like are written as what they are.
    const bool integer = e.dtype == Dtype::kI32 || e.dtype == Dtype::kI64;
    const std::optional<Affine> affine =
        integer ? AsAffineWithParams(program_, s, made) : std::nullopt;
    return affine ? FromAffine(*affine, s, e.dtype) : made;
  };
  for (ExprId& id : s.subscripts) id = replace(replace, id);
  s.value = replace(replace, s.value);
  if (s.companion_value.valid()) s.companion_value = replace(replace, s.companion_value);
}

// Moves tensors whose first element is not at 0 (a `where` that starts later), so that all are
// 0-based.
void DefBinder::Rebase(size_t first) {
  const auto origin = [this](TensorId t) -> const std::vector<Affine>& {
    return states_[static_cast<size_t>(t.index)].lo;
  };
  const auto moved = [&](TensorId t) {
    return std::any_of(origin(t).begin(), origin(t).end(),
                       [](const Affine& lo) { return lo != Affine(0); });
  };
  const size_t before = program_.exprs.size();
  for (size_t k = first; k < program_.statements.size(); ++k) {
    Statement& s = program_.statements[k];
    const auto count = static_cast<Var>(s.indices.size());
    const auto rebased = [&](ExprId id, const Affine& lo) {
      const Dtype dtype = program_[id].dtype;
      const Affine by = lo.Substitute([&](Var p) { return Affine::OfVar(count + p); });
      const std::optional<Affine> e = AsAffineWithParams(program_, s, id);
      if (e) return FromAffine(*e - by, s, dtype);
      const ExprId offset = FromAffine(by, s, dtype);
      return exprs_.Add(
          {.kind = ExprKind::kOp, .dtype = dtype, .op = ScalarOp::kSub, .args = {id, offset}},
          exprs_.At(id));
    };
    for (ExprId id : Reads(program_, s)) {
      const TensorId tensor = program_[id].tensor;
      if (!moved(tensor)) continue;
      for (size_t d = 0; d < origin(tensor).size(); ++d) {
        const ExprId subscript = rebased(program_[id].args[d], origin(tensor)[d]);
        program_.exprs[static_cast<size_t>(id.index)].args[d] = subscript;
      }
    }
    if (!moved(s.target)) continue;
    for (size_t d = 0; d < s.subscripts.size(); ++d) {
      const Affine lo = origin(s.target)[d];
      const std::optional<Var> plain = AsAffineWithParams(program_, s, s.subscripts[d])->AsVar();
      s.subscripts[d] = rebased(s.subscripts[d], lo);
      if (plain && *plain < count) ShiftIndex(s, static_cast<size_t>(*plain), lo);
    }
  }
  WEFT_CHECK(program_.exprs.size() >= before, "expressions were lost");
}

}  // namespace weft::tc
