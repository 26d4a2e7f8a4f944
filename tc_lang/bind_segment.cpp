// Bounds that are read: checked integers, and reductions along the segments they delimit.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tc_lang/bind_expr.h"
#include "tc_lang/bind_types.h"

namespace weft::tc {

Typed ExprBinder::IntLiteral(int64_t value, Location at) {
  const Dtype dtype = value <= std::numeric_limits<int32_t>::max() ? Dtype::kI32 : Dtype::kI64;
  return {
      Add({.kind = ExprKind::kLiteral, .dtype = dtype, .literal = ScalarOfInt(dtype, value)}, at),
      dtype};
}

// In int64 as soon as one of the three is, or is none that int32 has all of.
Typed ExprBinder::Within(Typed value, Typed lo, Typed hi, Location at) {
  bool wide = false;
  for (const Typed& x : {value, lo, hi}) {
    wide = wide || JoinTypes(x.type, Dtype::kI32) != Dtype::kI32 || x.type == Dtype::kU32;
  }
  const Dtype type = wide ? Dtype::kI64 : Dtype::kI32;
  std::vector<ExprId> args;
  for (const Typed& x : {value, lo, hi}) args.push_back(Convert(x, type));
  return {Add({.kind = ExprKind::kCheck, .dtype = type, .args = std::move(args)}, at), type};
}

Typed ExprBinder::Checked(ExprId value, int64_t end, Dtype type) {
  const Location at = At(value);
  const Typed typed{value, program_[value].dtype};
  return Within(type == Dtype::kI64 ? Typed{Convert(typed, type), type} : typed, IntLiteral(0, at),
                IntLiteral(end, at), at);
}

Typed ExprBinder::Scaled(Typed value, int64_t factor) {
  if (factor == 1) return value;
  return *Arithmetic(ScalarOp::kMul, {IntLiteral(factor, At(value.id)), value}, At(value.id));
}

Typed ExprBinder::Sum(Typed a, Typed b) { return *Arithmetic(ScalarOp::kAdd, {a, b}, At(b.id)); }

// within(x, lo, hi)
std::optional<Typed> ExprBinder::Check(const SyntaxExpr& e) {
  if (e.args.size() != 3)
    return Error(Problem::kOperands, e.at,
                 fmt::format("found {} operands for 'within', expected 3", e.args.size()));
  std::optional<Typed> args[3];
  const Statement none;
  for (size_t k = 0; k < 3; ++k) {
    args[k] = Bind(*e.args[k], k > 0);
    if (!args[k]) return std::nullopt;
    if (args[k]->open) args[k] = {Convert(*args[k], index_type_), index_type_};
    if (!IsInteger(args[k]->type)) {
      return Error(
          Problem::kWrongType, e.args[k]->at,
          fmt::format("found {} for 'within', expected an integer", TypeWord(args[k]->type)));
    }
    if (k > 0 && !AsAffineWithParams(program_, none, args[k]->id)) {
      return Error(Problem::kBound, e.args[k]->at,
                   "found a bound that is no sum of sizes and integers");
    }
  }
  return Within(*args[0], *args[1], *args[2], e.at);
}

bool ExprBinder::AddSegment(const SyntaxClause& clause) {
  if (segments_.emplace(clause.name, &clause).second) return true;
  Error(Problem::kTwoRanges, clause.at, fmt::format("the index '{}' has two ranges", clause.name));
  return false;
}

// A bound that is read has to be a place: not negative, and less than 2^31 - 1.
std::optional<Typed> ExprBinder::SegmentBound(const SyntaxExpr& e) {
  std::optional<Typed> value = Bind(e);
  if (!value) return std::nullopt;
  if (value->open) value = {Convert(*value, index_type_), index_type_};
  if (!IsInteger(value->type)) {
    return Error(
        Problem::kWrongType, e.at,
        fmt::format("found a bound of type {}, expected an integer", TypeWord(value->type)));
  }
  if (Reads(program_, value->id).empty()) return value;
  return Within(*value, IntLiteral(0, e.at), IntLiteral(std::numeric_limits<int32_t>::max(), e.at),
                e.at);
}

std::optional<Typed> ExprBinder::Segment(const SyntaxExpr& e, Typed offset) {
  const SyntaxClause* clause = segments_.find(e.text)->second;
  if (std::find(open_segments_.begin(), open_segments_.end(), clause) != open_segments_.end())
    return Error(Problem::kSelfReference, e.at,
                 fmt::format("the bounds of '{}' use '{}' itself", e.text, e.text));
  open_segments_.push_back(clause);
  const std::optional<Typed> first = SegmentBound(*clause->a);
  open_segments_.pop_back();
  if (!first) return std::nullopt;
  return Arithmetic(ScalarOp::kAdd, {*first, offset}, e.at);
}

std::optional<Typed> ExprBinder::SegmentGuard(const SyntaxClause& clause) {
  open_segments_.push_back(&clause);
  const std::optional<Typed> first = SegmentBound(*clause.a), end = SegmentBound(*clause.b);
  open_segments_.pop_back();
  if (!first || !end) return std::nullopt;
  const std::optional<Typed> most = Bind(*clause.most, true);
  if (!most) return std::nullopt;
  const auto place = std::find(indices_.begin(), indices_.end(), clause.name) - indices_.begin();
  const Typed offset{
      Add({.kind = ExprKind::kIndex, .dtype = index_type_, .position = static_cast<int32_t>(place)},
          clause.at),
      index_type_};
  // A segment that ends before it begins is empty.
  std::optional<Typed> length = Arithmetic(ScalarOp::kSub, {*end, *first}, clause.at);
  length = Arithmetic(ScalarOp::kMax, {*length, IntLiteral(0, clause.at)}, clause.at);
  if (!Reads(program_, length->id).empty()) {
    const std::optional<Affine> fixed = AsAffine(program_, most->id);
    const std::optional<Typed> past =
        fixed && fixed->IsConstant()
            ? IntLiteral(fixed->constant() + 1, clause.most->at)
            : Arithmetic(ScalarOp::kAdd, {*most, IntLiteral(1, clause.most->at)}, clause.most->at);
    length = Within(*length, IntLiteral(0, clause.at), *past, clause.most->at);
  }
  return Arithmetic(ScalarOp::kLt, {offset, *length}, clause.at);
}

}  // namespace weft::tc
