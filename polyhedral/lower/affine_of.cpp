// Expressions of a program as affine functions and affine conditions of dimensions.
#include "polyhedral/lower/plan.h"

namespace weft::polyhedral::lower {

using tc::ExprId;
using tc::ExprKind;

std::optional<Affine> AffineOf(const tc::Program& program, ExprId expr,
                               const std::vector<Affine>& index) {
  const auto e = tc::AsAffineWithParams(program, index.size(), expr);
  if (!e) return std::nullopt;
  const auto indices = static_cast<Var>(index.size());
  return e->Substitute([&](Var v) { return v < indices ? index[v] : Affine::OfVar(v - indices); });
}

std::optional<Affine> SubscriptOf(const tc::Program& program, ExprId expr,
                                  const std::vector<Affine>& index) {
  constexpr int64_t kLargest = int64_t{1} << 30;  // times 2^33 elements, which are 32 GB of floats
  auto e = AffineOf(program, expr, index);
  const auto is_small = [](int64_t x) { return x >= -kLargest && x <= kLargest; };
  if (!e || !is_small(e->constant())) return std::nullopt;
  for (const Affine::Term& t : e->terms())
    if (!is_small(t.coefficient)) return std::nullopt;
  return e;
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
