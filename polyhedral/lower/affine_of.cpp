// Expressions of a program as affine functions and affine conditions of dimensions.
#include "polyhedral/lower/plan.h"

namespace weft::polyhedral::lower {
namespace {

using tc::ExprId;
using tc::ExprKind;

std::optional<Affine> AffineOfOp(const tc::Program& program, const tc::Expr& e,
                                 const std::vector<Affine>& index) {
  std::vector<Affine> args;
  for (const ExprId arg : e.args) {
    const auto a = AffineOf(program, arg, index);
    if (!a) return std::nullopt;
    args.push_back(*a);
  }
  const bool by_constant = args.size() == 2 && args[1].IsConstant();
  switch (e.op) {
    case ScalarOp::kAdd:
      return args[0] + args[1];
    case ScalarOp::kSub:
      return args[0] - args[1];
    case ScalarOp::kNeg:
      return -args[0];
    case ScalarOp::kCast:
      return args[0];
    case ScalarOp::kMul:
      if (by_constant) return args[0] * args[1].constant();
      if (args[0].IsConstant()) return args[1] * args[0].constant();
      return std::nullopt;
    case ScalarOp::kDiv:
      if (!by_constant || args[1].constant() <= 0) return std::nullopt;
      return FloorDiv(args[0], args[1].constant());
    case ScalarOp::kMod:
      if (!by_constant || args[1].constant() <= 0) return std::nullopt;
      return Mod(args[0], args[1].constant());
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Affine> AffineOf(const tc::Program& program, ExprId expr,
                               const std::vector<Affine>& index) {
  const tc::Expr& e = program[expr];
  if (e.dtype != Dtype::kI32 && e.dtype != Dtype::kI64) return std::nullopt;
  switch (e.kind) {
    case ExprKind::kLiteral:
      return Affine(e.literal.i);
    case ExprKind::kIndex:
      return index[e.position];
    case ExprKind::kParam:
      return Affine::OfVar(e.position);
    case ExprKind::kRead:
    case ExprKind::kCheck:
      return std::nullopt;
    case ExprKind::kOp:
      return AffineOfOp(program, e, index);
  }
  return std::nullopt;
}

std::optional<std::vector<Affine>> ConjunctionOf(const tc::Program& program, ExprId condition,
                                                 const std::vector<Affine>& index) {
  const tc::Expr& e = program[condition];
  if (e.kind == ExprKind::kLiteral && e.literal.i != 0) return std::vector<Affine>{};
  if (e.kind != ExprKind::kOp) return std::nullopt;
  if (e.op == ScalarOp::kAnd) {
    auto a = ConjunctionOf(program, e.args[0], index), b = ConjunctionOf(program, e.args[1], index);
    if (!a || !b) return std::nullopt;
    a->insert(a->end(), b->begin(), b->end());
    return a;
  }
  if (e.op == ScalarOp::kNot) {
    const auto a = ConjunctionOf(program, e.args[0], index);
    if (!a || a->size() != 1) return std::nullopt;
    return std::vector<Affine>{-(*a)[0] - 1};
  }
  if (!IsCompare(e.op)) return std::nullopt;
  const auto a = AffineOf(program, e.args[0], index), b = AffineOf(program, e.args[1], index);
  if (!a || !b) return std::nullopt;
  switch (e.op) {
    case ScalarOp::kLt:
      return std::vector<Affine>{*b - *a - 1};
    case ScalarOp::kLe:
      return std::vector<Affine>{*b - *a};
    case ScalarOp::kGt:
      return std::vector<Affine>{*a - *b - 1};
    case ScalarOp::kGe:
      return std::vector<Affine>{*a - *b};
    case ScalarOp::kEq:
      return std::vector<Affine>{*a - *b, *b - *a};
    default:
      return std::nullopt;
  }
}

void CollectConditions(const tc::Program& program, ExprId expr, const std::vector<Affine>& index,
                       std::vector<Affine>& out) {
  const tc::Expr& e = program[expr];
  if (e.kind == ExprKind::kOp && e.dtype == Dtype::kBool) {
    if (const auto found = ConjunctionOf(program, expr, index)) {
      out.insert(out.end(), found->begin(), found->end());
      return;
    }
  }
  for (const ExprId arg : e.args) CollectConditions(program, arg, index, out);
}

}  // namespace weft::polyhedral::lower
