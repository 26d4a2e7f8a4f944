#include <cmath>

#include "tc_lang/program.h"

namespace weft::tc {
namespace {

// By value and sign; any NaN is a NaN.
bool EqualLiteral(Dtype dtype, Scalar a, Scalar b) {
  if (!IsFloat(dtype)) return a.i == b.i;
  const double x = AsDouble(dtype, a), y = AsDouble(dtype, b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return x == y && std::signbit(x) == std::signbit(y);
}

}  // namespace

// Trees, not ids: where a node lies in the pool says nothing.
bool Equal(const Program& a, ExprId ia, const Program& b, ExprId ib) {
  const Expr &x = a[ia], &y = b[ib];
  if (x.kind != y.kind || x.dtype != y.dtype || x.args.size() != y.args.size()) return false;
  switch (x.kind) {
    case ExprKind::kLiteral:
      if (!EqualLiteral(x.dtype, x.literal, y.literal)) return false;
      break;
    case ExprKind::kIndex:
    case ExprKind::kParam:
      if (x.position != y.position) return false;
      break;
    case ExprKind::kRead:
      if (a[x.tensor].name != b[y.tensor].name) return false;
      break;
    case ExprKind::kCheck:
      break;
    case ExprKind::kOp:
      if (x.op != y.op) return false;
  }
  for (size_t k = 0; k < x.args.size(); ++k) {
    if (!Equal(a, x.args[k], b, y.args[k])) return false;
  }
  return true;
}

namespace {

bool EqualOptional(const Program& a, ExprId ia, const Program& b, ExprId ib) {
  if (!ia.valid() || !ib.valid()) return ia.valid() == ib.valid();
  return Equal(a, ia, b, ib);
}

bool EqualStatement(const Program& a, const Statement& x, const Program& b, const Statement& y) {
  if (a[x.target].name != b[y.target].name || x.companion.valid() != y.companion.valid())
    return false;
  if (x.companion.valid() && a[x.companion].name != b[y.companion].name) return false;
  if (x.assign != y.assign || x.init != y.init || x.accumulate != y.accumulate || x.tag != y.tag ||
      x.origin != y.origin || x.subscripts.size() != y.subscripts.size() ||
      x.indices.size() != y.indices.size()) {
    return false;
  }
  for (size_t k = 0; k < x.indices.size(); ++k) {
    const Index &i = x.indices[k], &j = y.indices[k];
    if (i.name != j.name || i.lo != j.lo || i.hi != j.hi || i.reduction != j.reduction)
      return false;
  }
  for (size_t k = 0; k < x.subscripts.size(); ++k) {
    if (!Equal(a, x.subscripts[k], b, y.subscripts[k])) return false;
  }
  return Equal(a, x.value, b, y.value) && EqualOptional(a, x.companion_value, b, y.companion_value);
}

bool EqualTensor(const TensorDecl& x, const TensorDecl& y) {
  return x.name == y.name && x.dtype == y.dtype && x.extents == y.extents && x.role == y.role &&
         (x.role != Role::kLiteral || x.literal == y.literal);
}

// Inputs and outputs in order; the rest by name, since text declares constants before temporaries.
bool EqualTensors(const Program& a, const Program& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  const auto operand = [](const TensorDecl& t) {
    return t.role == Role::kInput || t.role == Role::kOutput;
  };
  for (size_t k = 0; k < a.tensors.size(); ++k) {
    const TensorDecl& x = a.tensors[k];
    if (operand(x)) {
      if (!EqualTensor(x, b.tensors[k])) return false;
      continue;
    }
    bool found = false;
    for (const TensorDecl& y : b.tensors) found = found || EqualTensor(x, y);
    if (!found) return false;
  }
  return true;
}

}  // namespace

bool Equal(const Program& a, const Program& b) {
  if (a.name != b.name || a.params != b.params || !EqualTensors(a, b) ||
      a.statements.size() != b.statements.size()) {
    return false;
  }
  for (size_t k = 0; k < a.statements.size(); ++k) {
    if (!EqualStatement(a, a.statements[k], b, b.statements[k])) return false;
  }
  return true;
}

}  // namespace weft::tc
