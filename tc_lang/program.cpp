#include "tc_lang/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"

namespace weft::tc {
namespace {

constexpr std::array<std::string_view, 9> kTags = {"",          "contraction", "convolution",
                                                   "reduction", "pointwise",   "gather",
                                                   "window",    "copy",        "recurrence"};
constexpr std::array<std::string_view, 5> kAssigns = {"=", "+=", "*=", "min=", "max="};

// Numbers stay far below int64, whatever a hostile text multiplies: sums and bounds can't overflow.
// Coefficients are smaller, so that an index times one doesn't either, as long as a loop can count
// to it: what wraps is not affine.
constexpr int64_t kLargest = int64_t{1} << 44, kLargestCoefficient = int64_t{1} << 31;

// Whether |n| is at most `most`; the smallest int64 has no absolute value.
bool IsWithin(int64_t n, int64_t most) { return -most <= n && n <= most; }

bool Small(const Affine& e) {
  if (!IsWithin(e.constant(), kLargest)) return false;
  return std::all_of(e.terms().begin(), e.terms().end(), [](const Affine::Term& term) {
    return IsWithin(term.coefficient, kLargestCoefficient) && term.divisor <= kLargest &&
           (term.dividend == nullptr || Small(*term.dividend));
  });
}

bool SmallTimes(const Affine& e, int64_t factor) {
  // |constant| and coefficients of e are at most 2^44; a factor up to 2^18 can't leave int64 and a
  // larger one only fits beside small ones.
  int64_t largest = std::max<int64_t>(1, std::abs(e.constant()));
  for (const Affine::Term& term : e.terms())
    largest = std::max(largest, std::abs(term.coefficient));
  return IsWithin(factor, kLargest / largest);
}

class AffineBuilder {
 public:
  AffineBuilder(const Program& program, int32_t first_param)
      : program_(program), first_param_(first_param) {}

  std::optional<Affine> Of(ExprId id) const {
    const Expr& e = program_[id];
    if (e.dtype != Dtype::kI32 && e.dtype != Dtype::kI64) return std::nullopt;
    switch (e.kind) {
      case ExprKind::kLiteral:
        return Checked(Affine(e.literal.i));
      case ExprKind::kIndex:
        return Affine::OfVar(e.position);
      case ExprKind::kParam:
        if (first_param_ < 0) return std::nullopt;
        return Affine::OfVar(first_param_ + e.position);
      case ExprKind::kRead:
      case ExprKind::kCheck:
        return std::nullopt;
      case ExprKind::kOp:
        return OfOp(e);
    }
    WEFT_UNREACHABLE();
  }

 private:
  static std::optional<Affine> Checked(Affine e) {
    if (!Small(e)) return std::nullopt;
    return e;
  }

  std::optional<Affine> OfOp(const Expr& e) const {
    if (e.op == ScalarOp::kCast) {
      // Widening keeps the value; anything else may not.
      return e.dtype == Dtype::kI64 || program_[e.args[0]].dtype == Dtype::kI32 ? Of(e.args[0])
                                                                                : std::nullopt;
    }
    if (e.op == ScalarOp::kNeg) {
      const std::optional<Affine> a = Of(e.args[0]);
      return a ? std::optional(-*a) : std::nullopt;
    }
    if (e.args.size() != 2) return std::nullopt;
    if (e.op != ScalarOp::kAdd && e.op != ScalarOp::kSub && e.op != ScalarOp::kMul &&
        e.op != ScalarOp::kDiv && e.op != ScalarOp::kMod) {
      return std::nullopt;
    }
    const std::optional<Affine> a = Of(e.args[0]), b = Of(e.args[1]);
    if (!a || !b) return std::nullopt;
    if (e.op == ScalarOp::kAdd) return Checked(*a + *b);
    if (e.op == ScalarOp::kSub) return Checked(*a - *b);
    if (e.op == ScalarOp::kMul) {
      const Affine& constant = a->IsConstant() ? *a : *b;
      const Affine& other = a->IsConstant() ? *b : *a;
      if (!constant.IsConstant() || !SmallTimes(other, constant.constant())) return std::nullopt;
      return Checked(other * constant.constant());
    }
    if (!b->IsConstant() || b->constant() <= 0) return std::nullopt;
    const int64_t divisor = b->constant();
    if (e.op == ScalarOp::kDiv) return Checked(FloorDiv(*a, divisor));
    if (!SmallTimes(*a, divisor)) return std::nullopt;
    return Checked(Mod(*a, divisor));
  }

  const Program& program_;
  int32_t first_param_;
};

// Adds the constraints of a condition; false if it is not a conjunction of affine comparisons.
bool Conjoin(const Program& program, ExprId id, std::vector<Affine>& out) {
  const Expr& e = program[id];
  if (e.kind != ExprKind::kOp || e.args.size() != 2) return false;
  if (e.op == ScalarOp::kAnd)
    return Conjoin(program, e.args[0], out) && Conjoin(program, e.args[1], out);
  const std::optional<Affine> a = AsAffine(program, e.args[0]), b = AsAffine(program, e.args[1]);
  if (!a || !b) return false;
  switch (e.op) {
    case ScalarOp::kLt:
      out.push_back(*b - *a - 1);
      return true;
    case ScalarOp::kLe:
      out.push_back(*b - *a);
      return true;
    case ScalarOp::kGt:
      out.push_back(*a - *b - 1);
      return true;
    case ScalarOp::kGe:
      out.push_back(*a - *b);
      return true;
    case ScalarOp::kEq:
      out.push_back(*a - *b);
      out.push_back(*b - *a);
      return true;
    default:
      return false;
  }
}

int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t AtOnes(const Program& program, const Affine& e) {
  const std::vector<int64_t> ones(program.params.size(), 1);
  return e.Eval(ones);
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  return a > std::numeric_limits<int64_t>::max() - b ? std::numeric_limits<int64_t>::max() : a + b;
}

int64_t Instances(const Program& program, const Statement& s) {
  int64_t instances = 1;
  for (const Index& index : s.indices)
    instances =
        SaturatingMul(instances, std::max<int64_t>(0, AtOnes(program, index.hi - index.lo)));
  return instances;
}

int64_t ElementsOf(const Program& program, const TensorDecl& tensor) {
  int64_t elems = 1;
  for (const Affine& extent : tensor.extents) elems = SaturatingMul(elems, AtOnes(program, extent));
  return elems;
}

// Elements between the places that a read visits along the last axis, which are in one line if it
// is a step of one; many if no step is known.
int64_t StepAlongLine(const Program& program, const Expr& read) {
  constexpr int64_t kMany = 1 << 20;
  if (read.args.empty()) return 1;
  const auto last = AsAffine(program, read.args.back());
  if (!last || last->IsConstant()) return kMany;
  int64_t step = kMany;
  for (const Affine::Term& t : last->terms())
    step = std::min(step, t.coefficient > 0 ? t.coefficient : std::max(-kMany, t.coefficient) * -1);
  return std::max<int64_t>(1, step);
}

// By tensor how many elements come when all reads come for theirs, again or for the first time,
// with what lies in the same line beside them.
std::vector<int64_t> ElementsAsked(const Program& program) {
  constexpr int64_t kLineBytes = 64;
  std::vector<int64_t> asked(program.tensors.size(), 0);
  for (const Statement& s : program.statements) {
    for (const ExprId read : Reads(program, s)) {
      const Expr& e = program[read];
      const int64_t line = kLineBytes / SizeBytes(program[e.tensor].dtype);
      const int64_t beside = std::clamp<int64_t>(StepAlongLine(program, e), 1, line);
      int64_t& all = asked[static_cast<size_t>(e.tensor.index)];
      all = SaturatingAdd(all, SaturatingMul(Instances(program, s), beside));
    }
  }
  return asked;
}

// Of integers only products count, and those only where they are `summed`: the rest are subscripts,
// conditions and what unpacks small numbers. A guard's places, such as 2 * h + r, are no products.
int64_t FlopsOf(const Program& program, ExprId id, bool summed) {
  const Expr& e = program[id];
  if (e.kind != ExprKind::kOp) return 0;
  summed &= !IsCompare(e.op);
  if (e.op == ScalarOp::kSelect) {  // one of its values is wanted
    return FlopsOf(program, e.args[0], summed) +
           std::max(FlopsOf(program, e.args[1], summed), FlopsOf(program, e.args[2], summed));
  }
  int64_t flops = 0;
  for (ExprId arg : e.args) flops += FlopsOf(program, arg, summed);
  const bool moves = e.op == ScalarOp::kCast || e.op == ScalarOp::kBitcast;
  const bool counts = IsFloat(e.dtype) ? !moves : summed && e.op == ScalarOp::kMul;
  return flops + (!counts ? 0 : e.op == ScalarOp::kFma ? 2 : 1);
}

}  // namespace

std::string_view TagName(Tag tag) { return kTags[static_cast<size_t>(tag)]; }

std::optional<Tag> ParseTag(std::string_view name) {
  for (size_t i = 1; i < kTags.size(); ++i) {
    if (kTags[i] == name) return static_cast<Tag>(i);
  }
  return std::nullopt;
}

std::string_view AssignText(Assign assign) { return kAssigns[static_cast<size_t>(assign)]; }

Scalar Identity(Assign assign, Dtype dtype) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (assign) {
    case Assign::kSet:
    case Assign::kSum:
      return ScalarOf(dtype, 0);
    case Assign::kProduct:
      return ScalarOf(dtype, 1);
    // Casting an infinity to an integer type gives its limit.
    case Assign::kMin:
      return ScalarOf(dtype, infinity);
    case Assign::kMax:
      return ScalarOf(dtype, dtype == Dtype::kBool ? 0 : -infinity);
  }
  WEFT_UNREACHABLE();
}

bool IsIdentity(Assign assign, Dtype dtype, Scalar value) {
  const Scalar identity = Identity(assign, dtype);  // no double holds all integers of 64 bits
  return IsFloat(dtype) ? AsDouble(dtype, identity) == AsDouble(dtype, value)
                        : identity.i == value.i;
}

std::vector<TensorId> Inputs(const Program& program) {
  std::vector<TensorId> out;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].role == Role::kInput) out.push_back(TensorId(i));
  }
  return out;
}

std::vector<TensorId> Outputs(const Program& program) {
  std::vector<TensorId> out;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].role == Role::kOutput) out.push_back(TensorId(i));
  }
  return out;
}

std::optional<Affine> AsAffine(const Program& program, ExprId expr) {
  return AffineBuilder(program, -1).Of(expr);
}

std::optional<Affine> AsAffineWithParams(const Program& program, const Statement& statement,
                                         ExprId expr) {
  return AsAffineWithParams(program, statement.indices.size(), expr);
}
std::optional<Affine> AsAffineWithParams(const Program& program, size_t indices, ExprId expr) {
  return AffineBuilder(program, static_cast<int32_t>(indices)).Of(expr);
}

std::vector<ExprId> Reads(const Program& program, ExprId expr) {
  std::vector<ExprId> out;
  const auto visit = [&](const auto& self, ExprId id) -> void {
    if (program[id].kind == ExprKind::kRead) out.push_back(id);
    for (ExprId arg : program[id].args) self(self, arg);
  };
  visit(visit, expr);
  return out;
}

std::vector<ExprId> Reads(const Program& program, const Statement& s) {
  std::vector<ExprId> reads = Reads(program, s.value);
  if (s.companion_value.valid()) {
    const std::vector<ExprId> more = Reads(program, s.companion_value);
    reads.insert(reads.end(), more.begin(), more.end());
  }
  return reads;
}

std::optional<GuardedValue> AsGuarded(const Program& program, ExprId value) {
  const Expr& e = program[value];
  if (e.kind != ExprKind::kOp || e.op != ScalarOp::kSelect) return std::nullopt;
  const Expr& otherwise = program[e.args[2]];
  GuardedValue out;
  if (otherwise.kind != ExprKind::kLiteral || !Conjoin(program, e.args[0], out.constraints))
    return std::nullopt;
  out.inside = e.args[1];
  out.otherwise = otherwise.literal;
  return out;
}

std::optional<GuardedValue> AsGuardedUpdate(const Program& program, const Statement& s) {
  if (s.assign == Assign::kSet || s.companion.valid()) return std::nullopt;
  auto guarded = AsGuarded(program, s.value);
  if (guarded && !IsIdentity(s.assign, program[s.value].dtype, guarded->otherwise))
    return std::nullopt;
  return guarded;
}

int64_t Flops(const Program& program, const Statement& s) {
  const bool summed = s.assign != Assign::kSet;
  int64_t each = FlopsOf(program, s.value, summed);
  if (s.companion_value.valid()) each += FlopsOf(program, s.companion_value, summed);
  if (summed) ++each;
  return SaturatingMul(Instances(program, s), each);
}

int64_t Flops(const Program& program) {
  int64_t total = 0;
  for (const Statement& s : program.statements) total = SaturatingAdd(total, Flops(program, s));
  return total;
}

int64_t OperandBytes(const Program& program) {
  const std::vector<int64_t> asked = ElementsAsked(program);
  int64_t total = 0;
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const TensorDecl& tensor = program.tensors[t];
    if (tensor.role != Role::kInput && tensor.role != Role::kOutput) continue;
    int64_t elems = ElementsOf(program, tensor);
    if (tensor.role == Role::kInput) elems = std::min(elems, asked[t]);
    total = SaturatingAdd(total, SharesBytes(tensor.dtype)
                                     ? StorageBytes(tensor.dtype, elems)
                                     : SaturatingMul(elems, SizeBytes(tensor.dtype)));
  }
  return total;
}

std::optional<Shape> StaticExtents(const TensorDecl& tensor) {
  Shape shape;
  for (const Affine& extent : tensor.extents) {
    if (!extent.IsConstant()) return std::nullopt;
    shape.push_back(extent.constant());
  }
  return shape;
}

}  // namespace weft::tc
