#include <algorithm>

#include "tc_lang/program.h"

namespace weft::tc {
namespace {

// What the subscripts of a statement's reads look like.
struct Form {
  size_t reads = 0;
  bool gathers = false;  // a subscript is not affine
  bool windows = false;  // a subscript adds an index of the left to a reduction's
};

Form FormOf(const Program& program, const Statement& s) {
  Form shape;
  for (ExprId id : Reads(program, s.value)) {
    const Expr& read = program[id];
    ++shape.reads;
    for (ExprId arg : read.args) {
      const std::optional<Affine> e = AsAffineWithParams(program, s, arg);
      if (!e) {
        shape.gathers = true;
        continue;
      }
      bool left = false, reduction = false;
      for (const Affine::Term& term : e->terms()) {
        if (term.dividend != nullptr || term.var >= static_cast<Var>(s.indices.size())) continue;
        (s.indices[static_cast<size_t>(term.var)].reduction ? reduction : left) = true;
      }
      shape.windows = shape.windows || (left && reduction);
    }
  }
  return shape;
}

// A product of reads, under a guard or not.
bool IsProduct(const Program& program, ExprId id) {
  const Expr& e = program[id];
  if (e.kind != ExprKind::kOp) return false;
  if (e.op == ScalarOp::kSelect) return IsProduct(program, e.args[1]);
  if (e.op == ScalarOp::kCast) return IsProduct(program, e.args[0]);
  return e.op == ScalarOp::kMul && !Reads(program, e.args[0]).empty() &&
         !Reads(program, e.args[1]).empty();
}

}  // namespace

Tag Classify(const Program& program, const Statement& s) {
  const Result<std::vector<int32_t>> recurrence = RecurrenceIndices(program, s);
  if (recurrence.ok() && !recurrence->empty()) return Tag::kRecurrence;
  const Form shape = FormOf(program, s);
  if (shape.gathers) return Tag::kGather;
  if (Reduces(s)) {
    if (s.assign == Assign::kSum && IsProduct(program, s.value)) {
      return shape.windows ? Tag::kConvolution : Tag::kContraction;
    }
    return shape.windows ? Tag::kWindow : Tag::kReduction;
  }
  return program[s.value].kind == ExprKind::kRead && s.assign == Assign::kSet ? Tag::kCopy
                                                                              : Tag::kPointwise;
}

bool Contracts(const Statement& s) {
  return s.tag == Tag::kContraction || s.tag == Tag::kConvolution;
}

bool Reduces(const Statement& s) { return std::ranges::any_of(s.indices, &Index::reduction); }

bool IsBfloatProduct(const Program& program, ExprId value) {
  const auto is = [](const Expr& e, ScalarOp op) {
    return e.kind == ExprKind::kOp && e.op == op && e.dtype == Dtype::kF32;
  };
  const auto factor = [&](ExprId id) {
    const Expr& e = program[id];
    if (!is(e, ScalarOp::kCast)) return false;
    const Expr& read = program[e.args[0]];
    return read.kind == ExprKind::kRead && read.dtype == Dtype::kBF16;
  };
  const Expr& e = program[value];
  return is(e, ScalarOp::kMul) && factor(e.args[0]) && factor(e.args[1]);
}

}  // namespace weft::tc
