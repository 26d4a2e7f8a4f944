#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "tc_lang/bind_def.h"
#include "tc_lang/bind_types.h"

namespace weft::tc {
namespace {

constexpr size_t kMostStatements = 10000;

Assign AssignOf(std::string_view text) {
  for (Assign a : {Assign::kSum, Assign::kProduct, Assign::kMin, Assign::kMax}) {
    if (AssignText(a) == text) return a;
  }
  return Assign::kSet;
}

// Every bare name below an expression, in order.
void CollectNames(const SyntaxExpr& e, std::vector<const SyntaxExpr*>& out) {
  if (e.kind == SyntaxKind::kName) out.push_back(&e);
  for (const SyntaxExprPtr& arg : e.args) CollectNames(*arg, out);
}

}  // namespace

bool DefBinder::Error(Problem problem, Location at, std::string what, std::string hint, Code code) {
  diagnostics_.Add(problem, at, std::move(what), std::move(hint), code);
  return false;
}

void DefBinder::AddStatement(Statement s, Location at, size_t first_expr, Dtype index_type) {
  program_.statements.push_back(std::move(s));
  const size_t count = program_.statements.size();
  ranges_.resize(count);
  exists_.resize(count);
  first_expr_.resize(count, first_expr);
  at_.resize(count, at);
  index_types_.resize(count, index_type);
  rebased_.resize(count, false);
}

bool DefBinder::BindStatement(const SyntaxStatement& s) {
  const size_t before = program_.statements.size();
  if (before >= kMostStatements) {
    return Error(Problem::kTooMuch, s.at,
                 fmt::format("found more than {} statements, calls written out", kMostStatements),
                 "", Code::kLimit);
  }
  const Def* callee = callables_.OfStatement(*def_, s);
  const bool fine = callee != nullptr ? BindCall(s, *callee) : HoistCalls(s) && BindPlain(s);
  // A statement that failed leaves nothing behind.
  ranges_.resize(program_.statements.size());
  exists_.resize(program_.statements.size());
  first_expr_.resize(program_.statements.size());
  return fine;
}

bool DefBinder::BindPlain(const SyntaxStatement& s) {
  Statement out;
  ranges_.emplace_back();
  exists_.emplace_back();
  first_expr_.push_back(program_.exprs.size());
  Dtype index_type = Dtype::kI32;
  if (!BindParts(s, out, index_type)) return false;
  if (NeedsWideIndices(ranges_.back(), first_expr_.back())) {
    first_expr_.back() = program_.exprs.size();
    ranges_.back().clear();
    exists_.back().clear();
    out = {};
    index_type = Dtype::kI64;
    if (!BindParts(s, out, index_type)) return false;
  }
  AddStatement(std::move(out), s.at, first_expr_.back(), index_type);
  const Statement& bound = program_.statements.back();
  if (!GrowHull(s, bound, bound.target, ranges_.back())) return false;
  return !bound.companion.valid() || GrowHull(s, bound, bound.companion, ranges_.back());
}

bool DefBinder::BindParts(const SyntaxStatement& s, Statement& out, Dtype index_type) {
  const size_t first_expr = program_.exprs.size();
  exprs_.Begin(index_type);
  for (const SyntaxClause& clause : s.clauses) {
    if (clause.kind == SyntaxClause::kLet && !exprs_.AddLet(clause)) return false;
    if (clause.most != nullptr && !exprs_.AddSegment(clause)) return false;
  }
  out.assign = AssignOf(s.assign);
  out.init = s.init;
  out.origin = s.origin;
  if (!s.tag.empty()) {
    const std::optional<Tag> tag = ParseTag(s.tag);
    if (!tag) {
      std::vector<std::string> tags;
      for (int t = 1; t <= static_cast<int>(Tag::kRecurrence); ++t)
        tags.emplace_back(TagName(static_cast<Tag>(t)));
      return Error(Problem::kUnknownTag, s.at,
                   fmt::format("found the unknown tag '@{}'{}", s.tag, Suggestion(s.tag, tags)));
    }
    out.tag = *tag;
  }
  if (!BindTargets(s, out)) return false;
  const bool tuple = s.targets.size() == 2;
  if (s.values.size() != s.targets.size() || s.targets.size() > 2) {
    return Error(Problem::kTuple, s.at,
                 fmt::format("found {} values for {} targets, expected one each, two at the most",
                             s.values.size(), s.targets.size()));
  }
  if (tuple && (!s.init || (out.assign != Assign::kMin && out.assign != Assign::kMax))) {
    return Error(Problem::kTuple, s.at,
                 fmt::format("found '{}{}' in a tuple statement, expected min=! or max=!", s.assign,
                             s.init ? "!" : ""));
  }
  std::vector<Typed> values;
  for (const SyntaxExprPtr& value : s.values) {
    const std::optional<Typed> typed = exprs_.Bind(*value);
    if (!typed) return false;
    values.push_back(*typed);
  }
  std::vector<IndexRange>& indices = ranges_.back();
  std::vector<ExprId> guards;  // of segments
  if (!BindClauses(s, out, indices, guards)) return false;
  OrderReductions(s, out, first_expr, indices);
  if (!MarkReductions(s, out, indices)) return false;
  for (size_t k = 0; k < values.size(); ++k) {
    if (!Store(s, k, values[k], out)) return false;
  }
  for (size_t k = guards.size(); k-- > 0;) {
    out.value = Masked(guards[k], out, exprs_.At(guards[k]));
    segment_guards_.insert(out.value.index);
  }
  const std::vector<Constraint> constraints = Constraints(out, false);
  RangeInference inference(indices, constraints, program_.params, diagnostics_);
  if (!inference.Run(s.at, [&] { return scope_.Names(); })) return false;
  for (size_t i = 0; i < indices.size(); ++i) {
    out.indices[i].lo = indices[i].range->lo;
    out.indices[i].hi = indices[i].range->hi;
  }
  return true;
}

bool DefBinder::BindTargets(const SyntaxStatement& s, Statement& out) {
  for (const SyntaxTarget& target : s.targets) {
    const TensorId id = scope_.tensors.find(target.name)->second;
    const Role role = program_[id].role;
    const bool argument = frame_ != nullptr && frame_->arguments.contains(id.index);
    if (role == Role::kInput || role == Role::kLiteral || argument) {
      const bool constant = role == Role::kLiteral && !argument;
      return Error(Problem::kReadOnly, target.at,
                   fmt::format("'{}' is {}, which is never written", target.name,
                               constant ? "a constant" : "an input"));
    }
    if (target.subscripts.size() != program_[id].extents.size()) {
      return Error(Problem::kRank, target.at,
                   fmt::format("found {} subscripts on '{}', which has rank {}",
                               target.subscripts.size(), target.name, program_[id].extents.size()));
    }
    (&target == s.targets.data() ? out.target : out.companion) = id;
  }
  if (out.companion == out.target)
    return Error(Problem::kTuple, s.targets[1].at, "found the same tensor twice in a tuple");
  std::vector<std::string> plain;
  for (const SyntaxExprPtr& subscript : s.targets[0].subscripts) {
    std::vector<const SyntaxExpr*> names;
    CollectNames(*subscript, names);
    for (const SyntaxExpr* name : names) {
      if (exprs_.IsSegment(name->text)) {
        return Error(Problem::kSegment, name->at,
                     fmt::format("found '{}' on the left, expected an index with bounds "
                                 "that are not read",
                                 name->text));
      }
      const bool known = scope_.sizes.contains(name->text) || scope_.params.contains(name->text);
      const bool let = std::any_of(s.clauses.begin(), s.clauses.end(), [&](const SyntaxClause& c) {
        return c.kind == SyntaxClause::kLet && c.name == name->text;
      });
      if (!known && !let && !exprs_.AddIndex(name->text, name->at)) return false;
    }
    if (subscript->kind != SyntaxKind::kName) continue;
    if (std::find(plain.begin(), plain.end(), subscript->text) != plain.end()) {
      return Error(Problem::kTakenName, subscript->at,
                   fmt::format("the index '{}' stands twice on the left", subscript->text));
    }
    plain.push_back(subscript->text);
  }
  for (size_t k = 0; k < s.targets.size(); ++k) {
    std::vector<ExprId> subscripts;
    for (const SyntaxExprPtr& subscript : s.targets[k].subscripts) {
      const std::optional<Typed> e = exprs_.BindSubscript(*subscript);
      if (!e) return false;
      if (!AffineBound(subscript->at, *e, out)) return false;
      subscripts.push_back(e->id);
    }
    if (k == 0) {
      out.subscripts = std::move(subscripts);
      continue;
    }
    // One place for both: the companion has no subscripts of its own.
    const bool same = std::equal(
        subscripts.begin(), subscripts.end(), out.subscripts.begin(), out.subscripts.end(),
        [this](ExprId a, ExprId b) { return AsAffine(program_, a) == AsAffine(program_, b); });
    if (!same)
      return Error(Problem::kRank, s.targets[1].at,
                   "found other subscripts on the second target of a tuple");
  }
  return true;
}

bool DefBinder::AffineBound(Location at, Typed e, const Statement& out) {
  if (AsAffineWithParams(program_, out, e.id)) return true;
  return Error(Problem::kLeftSubscript, at,
               "found a subscript on the left that is not affine, expected sums, products by and "
               "divisions by numbers");
}

bool DefBinder::BindClauses(const SyntaxStatement& s, Statement& out,
                            std::vector<IndexRange>& indices, std::vector<ExprId>& guards) {
  for (const SyntaxClause& clause : s.clauses) {
    if (clause.kind == SyntaxClause::kExists) {
      const std::optional<Typed> e = exprs_.Bind(*clause.a);
      if (!e) return false;
      exists_.back().push_back(e->id);
    } else if (clause.kind == SyntaxClause::kRange && !exprs_.AddIndex(clause.name, clause.at)) {
      return false;
    }
  }
  if (!BindSegments(s, out, guards)) return false;  // whose bounds may have indices of their own
  for (const std::string& name : exprs_.indices()) indices.push_back({.name = name});
  for (const SyntaxClause& clause : s.clauses) {
    if (clause.kind != SyntaxClause::kRange) continue;
    Affine bounds[2];
    const SyntaxExpr* written[2] = {clause.a.get(), clause.b.get()};
    if (clause.most != nullptr) written[1] = clause.most.get();
    for (int k = clause.most != nullptr ? 1 : 0; k < 2; ++k) {
      const std::optional<Typed> e = exprs_.Bind(*written[k], true);
      if (!e) return false;
      const Statement none;  // no indices here: params count from 0
      const std::optional<Affine> bound = AsAffineWithParams(program_, none, e->id);
      if (!bound)
        return Error(Problem::kBound, written[k]->at,
                     "found a bound that is no sum of sizes and integers");
      bounds[k] = *bound;
    }
    if (SignOf(bounds[1] - bounds[0]) == Sign::kNegative) {
      return Error(Problem::kBackwardRange, clause.at,
                   fmt::format("the range of '{}' ends before it begins", clause.name));
    }
    const auto place = std::find(exprs_.indices().begin(), exprs_.indices().end(), clause.name);
    IndexRange& index = indices[static_cast<size_t>(place - exprs_.indices().begin())];
    if (index.given)
      return Error(Problem::kTwoRanges, clause.at,
                   fmt::format("the index '{}' has two ranges", clause.name));
    index.range = Box1{bounds[0], bounds[1]};
    index.given = true;
  }
  out.indices.resize(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) out.indices[i].name = indices[i].name;
  return true;
}

bool DefBinder::BindSegments(const SyntaxStatement& s, const Statement& out,
                             std::vector<ExprId>& guards) {
  for (const SyntaxClause& clause : s.clauses) {
    if (clause.most == nullptr) continue;
    if (s.targets.size() > 1 || out.assign == Assign::kSet) {
      return Error(Problem::kSegment, clause.at,
                   fmt::format("found a segment in '{}', expected a sum, a product, a "
                               "minimum or a maximum",
                               s.assign));
    }
    const std::optional<Typed> guard = exprs_.SegmentGuard(clause);
    if (!guard) return false;
    guards.push_back(guard->id);
  }
  return true;
}

// The value where `holds` does, elsewhere what changes no reduction: of a sum of floats -0.0, since
// 0.0 would change -0.0.
ExprId DefBinder::Masked(ExprId holds, const Statement& s, Location at) {
  Scalar neutral = Identity(s.assign, s.accumulate);
  if (s.assign == Assign::kSum && IsFloat(s.accumulate)) neutral = ScalarOf(s.accumulate, -0.0);
  const ExprId otherwise =
      exprs_.Add({.kind = ExprKind::kLiteral, .dtype = s.accumulate, .literal = neutral}, at);
  return exprs_.Add({.kind = ExprKind::kOp,
                     .dtype = s.accumulate,
                     .op = ScalarOp::kSelect,
                     .args = {holds, s.value, otherwise}},
                    at);
}

// Indices of the left come first. Reductions run in order of appearance or, where all have a range
// in `where`, in that order.
void DefBinder::OrderReductions(const SyntaxStatement& s, Statement& out, size_t first_expr,
                                std::vector<IndexRange>& indices) {
  size_t left = 0;  // BindTargets added those of the left first
  for (ExprId id : out.subscripts) {
    std::vector<Var> vars;
    AsAffineWithParams(program_, out, id)->CollectVars(vars);
    for (Var v : vars) {
      if (v < static_cast<Var>(indices.size())) left = std::max(left, static_cast<size_t>(v) + 1);
    }
  }
  const bool all_given = std::all_of(indices.begin() + static_cast<int64_t>(left), indices.end(),
                                     [](const IndexRange& i) { return i.given; });
  if (!all_given) return;
  std::vector<size_t> order(left);
  std::iota(order.begin(), order.end(), 0);
  for (const SyntaxClause& clause : s.clauses) {
    for (size_t i = left; i < indices.size(); ++i) {
      if (clause.kind == SyntaxClause::kRange && indices[i].name == clause.name) order.push_back(i);
    }
  }
  std::vector<int32_t> place(order.size());
  std::vector<IndexRange> sorted;
  for (size_t k = 0; k < order.size(); ++k) {
    place[order[k]] = static_cast<int32_t>(k);
    sorted.push_back(indices[order[k]]);
    out.indices[k].name = sorted.back().name;
  }
  indices = std::move(sorted);
  for (size_t e = first_expr; e < program_.exprs.size(); ++e) {
    Expr& expr = program_.exprs[e];
    if (expr.kind == ExprKind::kIndex) expr.position = place[static_cast<size_t>(expr.position)];
  }
}

bool DefBinder::MarkReductions(const SyntaxStatement& s, Statement& out,
                               const std::vector<IndexRange>& indices) {
  std::vector<bool> left(indices.size(), false);
  bool plain = true;
  for (ExprId id : out.subscripts) {
    std::vector<Var> vars;
    const Affine e = *AsAffineWithParams(program_, out, id);
    plain = plain && e.AsVar().has_value();
    e.CollectVars(vars);
    for (Var v : vars) {
      if (v < static_cast<Var>(indices.size())) left[static_cast<size_t>(v)] = true;
    }
  }
  bool reduces = false;
  for (size_t i = 0; i < indices.size(); ++i) {
    out.indices[i].reduction = !left[i];
    reduces = reduces || !left[i];
    if (out.assign == Assign::kSet && !left[i]) {
      std::vector<std::string> others = scope_.Names();
      for (size_t k = 0; k < indices.size(); ++k) {
        if (left[k]) others.push_back(indices[k].name);
      }
      return Error(
          Problem::kNoReduction, s.at,
          fmt::format("the index '{}' does not occur on the left, and '=' is no reduction{}",
                      indices[i].name, Suggestion(indices[i].name, others)),
          "+=!, *=!, min=! or max=!");
    }
  }
  if (out.init && !reduces && plain && !out.companion.valid()) {
    out.assign = Assign::kSet;
    out.init = false;
  }
  if (out.assign != Assign::kSet && !out.init &&
      !states_[static_cast<size_t>(out.target.index)].defined) {
    return Error(Problem::kUndefined, s.at,
                 fmt::format("'{}=' adds to '{}', which nothing has defined",
                             s.assign.substr(0, s.assign.size() - 1), program_[out.target].name),
                 fmt::format("{}!", s.assign));
  }
  return true;
}

// A recurrence may have read the tensor already, as the type it was taken to have.
void DefBinder::SetType(TensorId id, Dtype type) {
  TensorDecl& decl = program_.tensors[static_cast<size_t>(id.index)];
  const bool other = exprs_.IsOpen(id) || decl.dtype != type;
  guessed_wrong_ = guessed_wrong_ || (other && exprs_.HasRead(id));
  guesses_[id.index] = type;
  decl.dtype = type;
  exprs_.Settle(id);
}

bool DefBinder::SettleType(const SyntaxStatement& s, size_t k, Typed value, Statement& out) {
  const TensorId id = k == 0 ? out.target : out.companion;
  const TensorDecl& decl = program_[id];
  State& state = states_[static_cast<size_t>(id.index)];
  if (!state.typed) {
    state.typed = true;
    if (!value.open) SetType(id, value.type);  // otherwise the tensor stays open, too
    return true;
  }
  if (value.open || exprs_.IsOpen(id)) return true;
  // A sum may be kept in a wider float than it is stored in: typed accumulation.
  const bool rounds =
      k == 0 && out.assign != Assign::kSet && IsFloat(decl.dtype) && IsFloat(value.type);
  if (MayStore(decl.dtype, value.type) || rounds) return true;
  return Error(Problem::kNarrowing, s.values[k]->at,
               fmt::format("found a value of type {} for '{}', which is {}", TypeWord(value.type),
                           decl.name, TypeWord(decl.dtype)),
               fmt::format("{}(…)", TypeWord(decl.dtype)));
}

bool DefBinder::Store(const SyntaxStatement& s, size_t k, Typed value, Statement& out) {
  // A sum of four-bit numbers is no four-bit number.
  if (out.assign != Assign::kSet && SharesBytes(value.type))
    value = {exprs_.Convert(value, ComputeType(value.type)), ComputeType(value.type)};
  if (!SettleType(s, k, value, out)) return false;
  const Dtype stored = program_[k == 0 ? out.target : out.companion].dtype;
  if (value.open) value = {exprs_.Convert(value, stored), stored};
  if (k == 1) {
    out.companion_value = exprs_.Convert(value, stored);
    return true;
  }
  if (out.assign == Assign::kSet) {
    out.accumulate = stored;
    out.value = exprs_.Convert(value, stored);
    return true;
  }
  if (value.type == Dtype::kBool)
    return Error(Problem::kTypes, s.values[0]->at, "found bool in a reduction", "int32(…)");
  out.accumulate = ComputeType(*JoinTypes(value.type, stored));
  out.value = exprs_.Convert(value, out.accumulate);
  return true;
}

}  // namespace weft::tc
