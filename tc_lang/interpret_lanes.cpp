// One instruction over a strip of lanes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tc_lang/interpret_plan.h"

namespace weft::tc {
namespace {

template <typename T>
T* LanesOf(Slot& slot) {
  if constexpr (std::is_same_v<T, float>)
    return slot.f32;
  else if constexpr (std::is_same_v<T, double>)
    return slot.f64;
  else
    return slot.i;
}

// The usual operations on floats without a call for each lane; false: not one of them.
template <typename T>
bool FastFloat(ScalarOp op, T* out, const T* a, const T* b, int64_t n) {
  const auto each = [&](auto f) {
    for (int64_t k = 0; k < n; ++k) out[k] = f(a[k], b[k]);
    return true;
  };
  switch (op) {
    case ScalarOp::kAdd:
      return each([](T x, T y) { return x + y; });
    case ScalarOp::kSub:
      return each([](T x, T y) { return x - y; });
    case ScalarOp::kMul:
      return each([](T x, T y) { return x * y; });
    case ScalarOp::kDiv:
      return each([](T x, T y) { return x / y; });
    case ScalarOp::kMin:
      return each([](T x, T y) { return y != y || y < x ? y : x; });
    case ScalarOp::kMax:
      return each([](T x, T y) { return y != y || y > x ? y : x; });
    case ScalarOp::kNeg:
      return each([](T x, T) { return -x; });
    case ScalarOp::kAbs:
      return each([](T x, T) { return std::fabs(x); });
    case ScalarOp::kSqrt:
      return each([](T x, T) { return std::sqrt(x); });
    default:
      return false;
  }
}

template <typename T>
bool FastCompare(ScalarOp op, int64_t* out, const T* a, const T* b, int64_t n) {
  const auto each = [&](auto f) {
    for (int64_t k = 0; k < n; ++k) out[k] = f(a[k], b[k]);
    return true;
  };
  switch (op) {
    case ScalarOp::kLt:
      return each([](T x, T y) { return x < y; });
    case ScalarOp::kLe:
      return each([](T x, T y) { return x <= y; });
    case ScalarOp::kGt:
      return each([](T x, T y) { return x > y; });
    case ScalarOp::kGe:
      return each([](T x, T y) { return x >= y; });
    case ScalarOp::kEq:
      return each([](T x, T y) { return x == y; });
    case ScalarOp::kNe:
      return each([](T x, T y) { return x != y; });
    default:
      return false;
  }
}

// Signed 32 and 64 bit arithmetic, and logic.
bool FastInt(ScalarOp op, Dtype dtype, int64_t* out, const int64_t* a, const int64_t* b,
             int64_t n) {
  const bool narrow = dtype == Dtype::kI32;
  if (!narrow && dtype != Dtype::kI64 && dtype != Dtype::kBool) return false;
  const auto each = [&](auto f) {
    if (narrow) {
      for (int64_t k = 0; k < n; ++k) {
        out[k] = static_cast<int32_t>(
            static_cast<uint32_t>(f(static_cast<uint64_t>(a[k]), static_cast<uint64_t>(b[k]))));
      }
    } else {
      for (int64_t k = 0; k < n; ++k) {
        out[k] = static_cast<int64_t>(f(static_cast<uint64_t>(a[k]), static_cast<uint64_t>(b[k])));
      }
    }
    return true;
  };
  switch (op) {
    case ScalarOp::kAdd:
      return each([](uint64_t x, uint64_t y) { return x + y; });
    case ScalarOp::kSub:
      return each([](uint64_t x, uint64_t y) { return x - y; });
    case ScalarOp::kMul:
      return each([](uint64_t x, uint64_t y) { return x * y; });
    case ScalarOp::kAnd:
      return each([](uint64_t x, uint64_t y) { return x & y; });
    case ScalarOp::kOr:
      return each([](uint64_t x, uint64_t y) { return x | y; });
    case ScalarOp::kNot:
      return each([](uint64_t x, uint64_t) { return x ^ 1; });
    default:
      return false;
  }
}

template <typename T>
void Blend(T* out, const int64_t* cond, const T* a, const T* b, int64_t n) {
  for (int64_t k = 0; k < n; ++k) out[k] = cond[k] != 0 ? a[k] : b[k];
}

void RunOp(Machine& m, const Instruction& op, int64_t n) {
  Slot& out = m.slots[static_cast<size_t>(op.out)];
  Slot& a = m.slots[static_cast<size_t>(op.args[0])];
  Slot& b = op.args[1] >= 0 ? m.slots[static_cast<size_t>(op.args[1])] : a;
  Slot& c = op.args[2] >= 0 ? m.slots[static_cast<size_t>(op.args[2])] : a;
  const LaneKind kind = LaneKindOf(op.operand);
  if (op.op == ScalarOp::kSelect) {
    if (kind == LaneKind::kF32) return Blend(out.f32, a.i, b.f32, c.f32, n);
    if (kind == LaneKind::kF64) return Blend(out.f64, a.i, b.f64, c.f64, n);
    return Blend(out.i, a.i, b.i, c.i, n);
  }
  const bool half = op.dtype == Dtype::kF16 || op.dtype == Dtype::kBF16;
  bool done = false;
  if (IsCompare(op.op)) {
    if (kind == LaneKind::kF32)
      done = FastCompare(op.op, out.i, a.f32, b.f32, n);
    else if (kind == LaneKind::kF64)
      done = FastCompare(op.op, out.i, a.f64, b.f64, n);
    else if (op.operand != Dtype::kU64)
      done = FastCompare(op.op, out.i, a.i, b.i, n);
  } else if (op.op != ScalarOp::kCast && op.op != ScalarOp::kBitcast && !half) {
    if (kind == LaneKind::kF32)
      done = FastFloat(op.op, out.f32, a.f32, b.f32, n);
    else if (kind == LaneKind::kF64)
      done = FastFloat(op.op, out.f64, a.f64, b.f64, n);
    else
      done = FastInt(op.op, op.dtype, out.i, a.i, b.i, n);
  }
  if (done) return;
  const auto arity = static_cast<size_t>(ScalarArity(op.op));
  for (int64_t k = 0; k < n; ++k) {
    const Scalar args[3] = {GetLane(a, op.operand, k), GetLane(b, op.operand, k),
                            GetLane(c, op.operand, k)};
    SetLane(out, op.dtype, k, EvalScalar(op.op, op.operand, op.dtype, {args, arity}));
  }
}

bool ReadError(Machine& m, const Instruction& read, const std::vector<int64_t>& subscripts,
               bool outside) {
  const TensorDecl& tensor = (*m.program)[TensorId(static_cast<size_t>(read.tensor))];
  m.error = Invalid(fmt::format(
      "statement {} on '{}' reads '{}' at ({}), which is {}", m.now->number,
      (*m.program)[m.now->source->target].name, tensor.name, fmt::join(subscripts, ", "),
      outside ? "outside of its extents " +
                    weft::Print(m.tensors[static_cast<size_t>(read.tensor)].shape())
              : std::string("not yet written")));
  return false;
}

// The element of one lane, or -1 with an error.
int64_t CheckedOffset(Machine& m, const Instruction& read, std::vector<int64_t>& subscripts) {
  const Tensor& tensor = m.tensors[static_cast<size_t>(read.tensor)];
  int64_t offset = 0;
  for (size_t d = 0; d < subscripts.size(); ++d) {
    if (subscripts[d] < 0 || subscripts[d] >= tensor.shape()[d]) {
      ReadError(m, read, subscripts, true);
      return -1;
    }
    offset = offset * tensor.shape()[d] + subscripts[d];
  }
  const std::vector<uint8_t>& written = m.written[static_cast<size_t>(read.tensor)];
  if (!written.empty() && written[static_cast<size_t>(offset)] == 0) {
    ReadError(m, read, subscripts, false);
    return -1;
  }
  return offset;
}

bool RunChecked(Machine& m, const Instruction& read, int64_t n) {
  Slot& out = m.slots[static_cast<size_t>(read.out)];
  const void* data = m.tensors[static_cast<size_t>(read.tensor)].data();
  const size_t rank = m.tensors[static_cast<size_t>(read.tensor)].shape().size();
  const int64_t* mask = read.mask >= 0 ? m.slots[static_cast<size_t>(read.mask)].i : nullptr;
  std::vector<int64_t> subscripts(rank);
  const bool gather = read.kind == Instruction::kGather;
  std::vector<int64_t> base(rank), step(rank);
  for (size_t d = 0; d < rank && !gather; ++d) {
    base[d] = read.subscripts[d].At(m.at);
    step[d] =
        m.now->strip >= 0 ? read.subscripts[d].coefficients[static_cast<size_t>(m.now->strip)] : 0;
  }
  for (int64_t k = 0; k < n; ++k) {
    if (mask != nullptr && mask[k] == 0) {
      SetLane(out, read.dtype, k, Scalar{});
      continue;
    }
    for (size_t d = 0; d < rank; ++d) {
      subscripts[d] =
          gather ? m.slots[static_cast<size_t>(read.gathered[d])].i[k] : base[d] + k * step[d];
    }
    const int64_t offset = CheckedOffset(m, read, subscripts);
    if (offset < 0) return false;
    SetLane(out, read.dtype, k, LoadScalar(read.dtype, data, offset));
  }
  return true;
}

bool RunCheck(Machine& m, const Instruction& in, int64_t n) {
  const int64_t* values = m.slots[static_cast<size_t>(in.args[0])].i;
  const int64_t* mask = in.mask >= 0 ? m.slots[static_cast<size_t>(in.mask)].i : nullptr;
  int64_t* out = m.slots[static_cast<size_t>(in.out)].i;
  for (int64_t k = 0; k < n; ++k) {
    out[k] = values[k];
    const bool inside = values[k] >= in.range.lo && values[k] <= in.range.hi;
    if (inside || (mask != nullptr && mask[k] == 0)) continue;
    const std::string by =
        in.tensor < 0
            ? ""
            : fmt::format(" by '{}'", (*m.program)[TensorId(static_cast<size_t>(in.tensor))].name);
    m.error = Invalid(fmt::format("statement {} on '{}' finds {}{}, expected {} to {}",
                                  m.now->number, (*m.program)[m.now->source->target].name,
                                  values[k], by, in.range.lo, in.range.hi));
    return false;
  }
  return true;
}

template <typename T>
void Strided(T* out, const void* data, int64_t offset, int64_t step, int64_t n) {
  const T* from = static_cast<const T*>(data) + offset;
  if (step == 1) {
    std::memcpy(out, from, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t k = 0; k < n; ++k) out[k] = from[k * step];
  }
}

void RunRead(Machine& m, const Instruction& read, int64_t n) {
  Slot& out = m.slots[static_cast<size_t>(read.out)];
  const void* data = m.tensors[static_cast<size_t>(read.tensor)].data();
  const int64_t offset = read.offset.At(m.at);
  const int64_t step =
      m.now->strip >= 0 ? read.offset.coefficients[static_cast<size_t>(m.now->strip)] : 0;
  if (read.dtype == Dtype::kF32) return Strided(out.f32, data, offset, step, n);
  if (read.dtype == Dtype::kF64) return Strided(out.f64, data, offset, step, n);
  if (read.dtype == Dtype::kI64) return Strided(out.i, data, offset, step, n);
  for (int64_t k = 0; k < n; ++k)
    SetLane(out, read.dtype, k, LoadScalar(read.dtype, data, offset + k * step));
}

}  // namespace

Scalar GetLane(const Slot& slot, Dtype dtype, int64_t lane) {
  Scalar s;
  switch (LaneKindOf(dtype)) {
    case LaneKind::kF32:
      s.f32 = slot.f32[lane];
      break;
    case LaneKind::kF64:
      s.f64 = slot.f64[lane];
      break;
    case LaneKind::kInt:
      s.i = slot.i[lane];
      break;
  }
  return s;
}

void SetLane(Slot& slot, Dtype dtype, int64_t lane, Scalar value) {
  switch (LaneKindOf(dtype)) {
    case LaneKind::kF32:
      slot.f32[lane] = value.f32;
      break;
    case LaneKind::kF64:
      slot.f64[lane] = value.f64;
      break;
    case LaneKind::kInt:
      slot.i[lane] = value.i;
      break;
  }
}

bool RunCode(Machine& m, const Code& code, int64_t n) {
  for (size_t pc = 0; pc < code.instructions.size(); ++pc) {
    const Instruction& in = code.instructions[pc];
    switch (in.kind) {
      case Instruction::kIndex: {
        int64_t* out = m.slots[static_cast<size_t>(in.out)].i;
        const int64_t base = m.at[static_cast<size_t>(in.index)],
                      step = in.index == m.now->strip ? 1 : 0;
        for (int64_t k = 0; k < n; ++k) out[k] = base + k * step;
        break;
      }
      case Instruction::kRead:
        if (!in.checked) {
          RunRead(m, in, n);
          break;
        }
        [[fallthrough]];
      case Instruction::kGather:
        if (!RunChecked(m, in, n)) return false;
        break;
      case Instruction::kOp:
        RunOp(m, in, n);
        break;
      case Instruction::kCheck:
        if (!RunCheck(m, in, n)) return false;
        break;
      case Instruction::kMask:
      case Instruction::kMaskNot: {
        int64_t* out = m.slots[static_cast<size_t>(in.out)].i;
        const int64_t* cond = m.slots[static_cast<size_t>(in.args[0])].i;
        const int64_t wanted = in.kind == Instruction::kMask ? 1 : 0;
        for (int64_t k = 0; k < n; ++k) out[k] = cond[k] == wanted ? 1 : 0;
        if (in.mask >= 0) {
          const int64_t* outer = m.slots[static_cast<size_t>(in.mask)].i;
          for (int64_t k = 0; k < n; ++k) out[k] &= outer[k];
        }
        break;
      }
      case Instruction::kSkip: {
        const int64_t* set = m.slots[static_cast<size_t>(in.args[0])].i;
        if (std::none_of(set, set + n, [](int64_t x) { return x != 0; })) pc = in.skip_to - 1;
        break;
      }
    }
  }
  return true;
}

}  // namespace weft::tc
