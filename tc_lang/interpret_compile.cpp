#include <algorithm>

#include "base/check.h"
#include "tc_lang/interpret_plan.h"

namespace weft::tc {
namespace {

class Compiler {
 public:
  Compiler(Machine& machine, CompiledStatement& out)
      : machine_(machine), program_(*machine.program), out_(out) {}

  Code Compile(ExprId root) {
    Code code;
    code_ = &code;
    code.result = Emit(root, -1);
    code.dtype = TypeOf(root);
    return code;
  }

  // With params put in; none if it has divisions.
  std::optional<Linear> LinearOf(const Affine& e) const {
    Linear out;
    out.constant = e.constant();
    out.coefficients.assign(out_.ranges.size(), 0);
    for (const Affine::Term& term : e.terms()) {
      if (term.dividend != nullptr) return std::nullopt;
      const auto v = static_cast<size_t>(term.var);
      if (v < out_.ranges.size())
        out.coefficients[v] += term.coefficient;
      else
        out.constant += term.coefficient * machine_.params[v - out_.ranges.size()];
    }
    return out;
  }

 private:
  Dtype TypeOf(ExprId id) const { return machine_.TypeOf(program_[id].dtype); }

  int32_t NewSlot() {
    machine_.slots.emplace_back();
    return static_cast<int32_t>(machine_.slots.size() - 1);
  }

  int32_t Fill(Dtype dtype, Scalar value) {
    const int32_t slot = NewSlot();
    for (int64_t k = 0; k < kStrip; ++k)
      SetLane(machine_.slots[static_cast<size_t>(slot)], dtype, k, value);
    return slot;
  }

  int32_t Push(Instruction instruction) {
    const int32_t out = NewSlot();
    instruction.out = out;
    code_->instructions.push_back(std::move(instruction));
    return out;
  }

  // Whether anything below may fail when it is evaluated: only reads that need a look.
  bool NeedsMask(ExprId id) const {
    const Expr& e = program_[id];
    if (e.kind == ExprKind::kRead || e.kind == ExprKind::kCheck) return true;
    return std::any_of(e.args.begin(), e.args.end(), [this](ExprId arg) { return NeedsMask(arg); });
  }

  int32_t Emit(ExprId id, int32_t mask) {
    const Expr& e = program_[id];
    const Dtype dtype = TypeOf(id);
    switch (e.kind) {
      case ExprKind::kLiteral: {
        Scalar value = e.literal;
        if (dtype != e.dtype) value = ScalarOf(dtype, AsDouble(e.dtype, value));
        return Fill(dtype, value);
      }
      case ExprKind::kParam:
        return Fill(dtype, ScalarOfInt(dtype, machine_.params[static_cast<size_t>(e.position)]));
      case ExprKind::kIndex:
        return Push({.kind = Instruction::kIndex, .dtype = dtype, .index = e.position});
      case ExprKind::kRead:
        return EmitRead(e, mask);
      case ExprKind::kCheck:
        return EmitCheck(e, dtype, mask);
      case ExprKind::kOp:
        return EmitOp(e, dtype, mask);
    }
    WEFT_UNREACHABLE();
  }

  int32_t EmitRead(const Expr& e, int32_t mask) {
    const Tensor& tensor = machine_.tensors[static_cast<size_t>(e.tensor.index)];
    Instruction read{.kind = Instruction::kRead,
                     .operand = tensor.dtype(),
                     .dtype = tensor.dtype(),
                     .mask = mask};
    read.tensor = e.tensor.index;
    read.checked = !machine_.written[static_cast<size_t>(e.tensor.index)].empty();
    read.offset.coefficients.assign(out_.ranges.size(), 0);
    int64_t stride = 1;
    for (size_t d = e.args.size(); d-- > 0; stride *= tensor.shape()[d]) {
      const std::optional<Affine> affine = AsAffineWithParams(program_, *out_.source, e.args[d]);
      const std::optional<Linear> linear = affine ? LinearOf(*affine) : std::nullopt;
      if (!linear) return EmitGather(e, std::move(read), mask);
      int64_t lo = linear->constant, hi = linear->constant;
      for (size_t i = 0; i < out_.ranges.size(); ++i) {
        const int64_t a = linear->coefficients[i];
        read.offset.coefficients[i] += a * stride;
        lo += a * (a > 0 ? out_.ranges[i].lo : out_.ranges[i].hi);
        hi += a * (a > 0 ? out_.ranges[i].hi : out_.ranges[i].lo);
      }
      read.offset.constant += linear->constant * stride;
      read.checked = read.checked || lo < 0 || hi >= tensor.shape()[d];
      read.subscripts.insert(read.subscripts.begin(), *linear);
    }
    return Push(std::move(read));
  }

  int32_t EmitCheck(const Expr& e, Dtype dtype, int32_t mask) {
    Instruction check{.kind = Instruction::kCheck, .dtype = dtype, .mask = mask};
    const std::vector<ExprId> reads = Reads(program_, e.args[0]);
    check.tensor = reads.empty() ? -1 : program_[reads[0]].tensor.index;
    check.args[0] = Emit(e.args[0], mask);
    check.range = {BoundOf(e.args[1]), BoundOf(e.args[2]) - 1};
    return Push(std::move(check));
  }

  int64_t BoundOf(ExprId id) const {
    std::vector<int64_t> values(out_.ranges.size(), 0);  // it has no indices
    values.insert(values.end(), machine_.params.begin(), machine_.params.end());
    return AsAffineWithParams(program_, *out_.source, id)->Eval(values);
  }

  int32_t EmitGather(const Expr& e, Instruction read, int32_t mask) {
    read.kind = Instruction::kGather;
    read.checked = true;
    for (ExprId arg : e.args) read.gathered.push_back(Emit(arg, mask));
    return Push(std::move(read));
  }

  // The branch under `cond` (or its opposite) and, where it may fail, under a mask.
  int32_t EmitBranch(ExprId id, int32_t cond, bool taken, int32_t mask) {
    if (!NeedsMask(id)) return Emit(id, mask);
    const int32_t inner = Push({.kind = taken ? Instruction::kMask : Instruction::kMaskNot,
                                .dtype = Dtype::kBool,
                                .mask = mask,
                                .args = {cond, -1, -1}});
    const size_t skip = code_->instructions.size();
    code_->instructions.push_back({.kind = Instruction::kSkip, .args = {inner, -1, -1}});
    const int32_t result = Emit(id, inner);
    code_->instructions[skip].skip_to = code_->instructions.size();
    return result;
  }

  int32_t EmitOp(const Expr& e, Dtype dtype, int32_t mask) {
    Instruction op{.kind = Instruction::kOp,
                   .op = e.op,
                   .operand = TypeOf(e.args.back()),
                   .dtype = dtype,
                   .mask = mask};
    op.args[0] = Emit(e.args[0], mask);
    if (e.op == ScalarOp::kSelect) {
      op.args[1] = EmitBranch(e.args[1], op.args[0], true, mask);
      op.args[2] = EmitBranch(e.args[2], op.args[0], false, mask);
    } else if (e.op == ScalarOp::kAnd || e.op == ScalarOp::kOr) {
      op.args[1] = EmitBranch(e.args[1], op.args[0], e.op == ScalarOp::kAnd, mask);
    } else {
      for (size_t k = 1; k < e.args.size(); ++k) op.args[k] = Emit(e.args[k], mask);
    }
    if (machine_.widen && e.op == ScalarOp::kBitcast) return EmitWideBitcast(e, op);
    // A copy would do, but none is needed.
    if (e.op == ScalarOp::kCast && op.operand == dtype) return op.args[0];
    return Push(std::move(op));
  }

  // Bits exist in the narrow type only: down, across, up.
  int32_t EmitWideBitcast(const Expr& e, Instruction op) {
    const Dtype from = program_[e.args[0]].dtype;
    const auto cast = [&](int32_t slot, Dtype a, Dtype b) {
      if (a == b) return slot;
      return Push({.kind = Instruction::kOp,
                   .op = ScalarOp::kCast,
                   .operand = a,
                   .dtype = b,
                   .args = {slot, -1, -1}});
    };
    op.args[0] = cast(op.args[0], machine_.TypeOf(from), from);
    op.operand = from;
    op.dtype = e.dtype;
    return cast(Push(op), e.dtype, machine_.TypeOf(e.dtype));
  }

  Machine& machine_;
  const Program& program_;
  CompiledStatement& out_;
  Code* code_ = nullptr;
};

int64_t Extent(const Interval& i) { return i.empty() ? 0 : i.hi - i.lo + 1; }

// The strip runs along the widest index of the left, or along the innermost reduction: both keep
// the order in which each cell's sum adds up.
void ChooseLoops(CompiledStatement& out) {
  const Statement& s = *out.source;
  const auto recurs = [&](size_t i) {
    return std::find(out.recurrence.begin(), out.recurrence.end(), static_cast<int32_t>(i)) !=
           out.recurrence.end();
  };
  int64_t widest = 1;
  for (size_t i = 0; i < s.indices.size(); ++i) {
    const bool left = !s.indices[i].reduction;
    const bool last = i + 1 == s.indices.size();
    if (left ? recurs(i) : !last) continue;
    // On the right, only if the left has nothing worth it: a running sum is slower than many.
    const int64_t worth = left ? Extent(out.ranges[i]) : Extent(out.ranges[i]) / 4;
    if (worth >= widest) {
      widest = worth;
      out.strip = static_cast<int32_t>(i);
    }
  }
  for (int32_t i : out.recurrence) out.outer.push_back(i);
  for (size_t i = 0; i < s.indices.size(); ++i) {
    if (!s.indices[i].reduction && !recurs(i) && static_cast<int32_t>(i) != out.strip)
      out.outer.push_back(static_cast<int32_t>(i));
  }
  out.first_reduction = out.outer.size();
  for (size_t i = 0; i < s.indices.size(); ++i) {
    if (s.indices[i].reduction && static_cast<int32_t>(i) != out.strip)
      out.outer.push_back(static_cast<int32_t>(i));
  }
}

}  // namespace

CompiledStatement CompileStatement(Machine& machine, size_t statement, bool pinned) {
  const Program& program = *machine.program;
  const Statement& s = program.statements[statement];
  CompiledStatement out;
  out.source = &s;
  out.number = statement + 1;
  for (const Index& index : s.indices)
    out.ranges.push_back({index.lo.Eval(machine.params), index.hi.Eval(machine.params) - 1});
  const Result<std::vector<int32_t>> recurrence = RecurrenceIndices(program, s);
  if (recurrence.ok()) out.recurrence = *recurrence;
  if (pinned && (out.recurrence.empty() || out.recurrence[0] != 0))
    out.recurrence.insert(out.recurrence.begin(), 0);
  out.accumulate = machine.TypeOf(s.accumulate);
  ChooseLoops(out);
  Compiler compiler(machine, out);

  const Tensor& target = machine.tensors[static_cast<size_t>(s.target.index)];
  int64_t stride = 1;
  out.target_strides.resize(s.subscripts.size());
  out.target.coefficients.assign(s.indices.size(), 0);
  bool linear = true;
  for (size_t d = s.subscripts.size(); d-- > 0; stride *= target.shape()[d]) {
    const Affine e = *AsAffineWithParams(program, s, s.subscripts[d]);
    out.target_subscripts.insert(out.target_subscripts.begin(), e);
    out.target_strides[d] = stride;
    const std::optional<Linear> part = compiler.LinearOf(e);
    linear = linear && part;
    if (!part) continue;
    out.target.constant += part->constant * stride;
    for (size_t i = 0; i < part->coefficients.size(); ++i)
      out.target.coefficients[i] += part->coefficients[i] * stride;
  }
  if (linear) out.target_subscripts.clear();

  ExprId value = s.value;
  const std::optional<GuardedValue> guard =
      s.companion.valid() ? std::nullopt : AsGuarded(program, value);
  if (guard) {
    out.guarded = true;
    for (const Affine& e : guard->constraints) {
      const std::optional<Linear> part = compiler.LinearOf(e);
      out.guarded = out.guarded && part;
      if (part) out.guard.push_back(*part);
    }
  }
  if (out.guarded) {
    value = guard->inside;
    const Dtype dtype = program[s.value].dtype;
    out.otherwise = machine.TypeOf(dtype) == dtype
                        ? guard->otherwise
                        : ScalarOf(Dtype::kF64, AsDouble(dtype, guard->otherwise));
  }
  out.value = compiler.Compile(value);
  if (s.companion_value.valid()) {
    out.companion = compiler.Compile(s.companion_value);
    out.companion_dtype = out.companion.dtype;
  }
  return out;
}

}  // namespace weft::tc
