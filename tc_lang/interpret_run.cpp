// Loops over a statement's instances: who adds up where, and in which order.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tc_lang/interpret_plan.h"

namespace weft::tc {
namespace {

ScalarOp OpOf(Assign assign) {
  switch (assign) {
    case Assign::kProduct:
      return ScalarOp::kMul;
    case Assign::kMin:
      return ScalarOp::kMin;
    case Assign::kMax:
      return ScalarOp::kMax;
    default:
      return ScalarOp::kAdd;
  }
}

Scalar Cast(Dtype from, Dtype to, Scalar value) {
  return from == to ? value : EvalScalar(ScalarOp::kCast, from, to, {&value, 1});
}

class StatementRun {
 public:
  StatementRun(Machine& m, const CompiledStatement& s)
      : m_(m),
        s_(s),
        assign_(s.source->assign),
        target_(m.tensors[static_cast<size_t>(s.source->target.index)]) {}

  bool Run(bool pinned) {
    m_.now = &s_;
    const int64_t pin = pinned ? m_.at[0] : 0;
    m_.at.assign(std::max<size_t>(1, s_.ranges.size()), 0);
    for (size_t i = 0; i < s_.ranges.size(); ++i) m_.at[i] = s_.ranges[i].lo;
    if (pinned) m_.at[0] = pin;
    for (size_t i = 0; i < s_.ranges.size(); ++i) {
      if (s_.ranges[i].empty() && !s_.source->indices[i].reduction) return true;  // writes nothing
    }
    for (size_t k = 0; k < s_.outer.size(); ++k) {
      if (k == s_.first_reduction) left_loops_ = loops_.size();
      if (!pinned || s_.outer[k] != 0) loops_.push_back(s_.outer[k]);
    }
    if (s_.first_reduction == s_.outer.size()) left_loops_ = loops_.size();
    return Left(0);
  }

 private:
  Interval StripRange() const {
    return s_.strip < 0 ? Interval{0, 0} : s_.ranges[static_cast<size_t>(s_.strip)];
  }
  bool StripReduces() const {
    return s_.strip >= 0 && s_.source->indices[static_cast<size_t>(s_.strip)].reduction;
  }
  void SetStrip(int64_t value) {
    if (s_.strip >= 0) m_.at[static_cast<size_t>(s_.strip)] = value;
  }

  int64_t TargetOffset(int64_t lane) const {
    if (s_.target_subscripts.empty()) {
      const int64_t step =
          s_.strip >= 0 ? s_.target.coefficients[static_cast<size_t>(s_.strip)] : 0;
      return s_.target.At(m_.at) + lane * step;
    }
    std::vector<int64_t> values = m_.at;
    if (s_.strip >= 0) values[static_cast<size_t>(s_.strip)] += lane;
    values.resize(s_.ranges.size());
    values.insert(values.end(), m_.params.begin(), m_.params.end());
    int64_t offset = 0;
    for (size_t d = 0; d < s_.target_subscripts.size(); ++d)
      offset += s_.target_subscripts[d].Eval(values) * s_.target_strides[d];
    return offset;
  }

  // Loops over the left, outermost first.
  bool Left(size_t depth) {
    if (depth == left_loops_) return StripReduces() ? OneCell() : Strips();
    const auto i = static_cast<size_t>(loops_[depth]);
    const Interval range = s_.ranges[i];
    for (m_.at[i] = range.lo; m_.at[i] <= range.hi; ++m_.at[i]) {
      if (!Left(depth + 1)) return false;
    }
    m_.at[i] = range.lo;
    return true;
  }

  // The strip runs along the left: one accumulator a lane.
  bool Strips() {
    const Interval range = StripRange();
    for (int64_t at = range.lo; at <= range.hi; at += kStrip) {
      SetStrip(at);
      lanes_ = std::min(kStrip, range.hi - at + 1);
      Begin();
      if (!Reduce(left_loops_)) return false;
      SetStrip(at);
      Finish();
    }
    return true;
  }

  // The strip runs along the innermost reduction: one cell, whose sum adds up lane by lane.
  bool OneCell() {
    lanes_ = 1;
    Begin();
    if (!Reduce(left_loops_)) return false;
    SetStrip(StripRange().lo);
    Finish();
    return true;
  }

  bool Reduce(size_t depth) {
    if (depth == loops_.size()) {
      if (!StripReduces()) return Step(lanes_);
      const Interval range = StripRange();
      for (int64_t at = range.lo; at <= range.hi; at += kStrip) {
        SetStrip(at);
        if (!Step(std::min(kStrip, range.hi - at + 1))) return false;
      }
      return true;
    }
    const auto i = static_cast<size_t>(loops_[depth]);
    const Interval range = s_.ranges[i];
    for (m_.at[i] = range.lo; m_.at[i] <= range.hi; ++m_.at[i]) {
      if (!Reduce(depth + 1)) return false;
    }
    m_.at[i] = range.lo;
    return true;
  }

  void Begin() {
    seen_ = false;
    if (assign_ == Assign::kSet) return;
    const Scalar identity = Identity(assign_, s_.accumulate);
    for (int64_t k = 0; k < lanes_; ++k) {
      Scalar value = identity;
      if (!s_.source->init) {
        value = Cast(target_.dtype(), s_.accumulate,
                     LoadScalar(target_.dtype(), target_.data(), TargetOffset(k)));
      }
      SetLane(sum_, s_.accumulate, k, value);
      if (s_.source->companion.valid())
        SetLane(companion_, s_.companion_dtype, k, ScalarOf(s_.companion_dtype, 0));
    }
  }

  // Where the guard holds, as lanes [first, end).
  void GuardedLanes(int64_t n, int64_t& first, int64_t& end) const {
    first = 0;
    end = n;
    for (const Linear& e : s_.guard) {
      const int64_t base = e.At(m_.at);
      const int64_t step = s_.strip >= 0 ? e.coefficients[static_cast<size_t>(s_.strip)] : 0;
      if (step == 0) {
        if (base < 0) end = 0;
      } else if (step > 0) {
        first = std::max(first, -weft::FloorDiv(base, step));
      } else if (base < 0) {
        end = 0;
      } else {
        end = std::min(end, base / -step + 1);
      }
    }
    first = std::min(first, n);
    end = std::max(end, first);
  }

  // Evaluates n lanes and takes them into the sums (or, on '=', into `sum_` itself).
  bool Step(int64_t n) {
    if (!s_.guarded) {
      if (!RunCode(m_, s_.value, n)) return false;
      if (s_.source->companion.valid()) return StepTuple(n);
      Take(m_.slots[static_cast<size_t>(s_.value.result)], 0, n);
      return true;
    }
    int64_t first = 0, end = 0;
    GuardedLanes(n, first, end);
    Otherwise(0, first);
    if (first < end) {
      SetStrip((s_.strip >= 0 ? m_.at[static_cast<size_t>(s_.strip)] : 0) + first);
      if (!RunCode(m_, s_.value, end - first)) return false;
      SetStrip((s_.strip >= 0 ? m_.at[static_cast<size_t>(s_.strip)] : 0) - first);
      Take(m_.slots[static_cast<size_t>(s_.value.result)], first, end - first);
    }
    Otherwise(end, n - end);
    return true;
  }

  void Otherwise(int64_t first, int64_t count) {
    if (count <= 0) return;
    for (int64_t k = 0; k < count; ++k) SetLane(other_, s_.accumulate, k, s_.otherwise);
    Take(other_, first, count);
  }

  // Lanes [0, count) of `from` are those from `first` on.
  void Take(const Slot& from, int64_t first, int64_t count) {
    const Dtype dtype = s_.accumulate;
    if (StripReduces()) {
      for (int64_t k = 0; k < count; ++k) Combine(sum_, 0, GetLane(from, dtype, k));
      return;
    }
    if (assign_ == Assign::kSet || assign_ == Assign::kSum) {
      const bool add = assign_ == Assign::kSum;
      if (dtype == Dtype::kF32) {
        for (int64_t k = 0; k < count; ++k)
          sum_.f32[first + k] = add ? sum_.f32[first + k] + from.f32[k] : from.f32[k];
        return;
      }
      if (dtype == Dtype::kF64) {
        for (int64_t k = 0; k < count; ++k)
          sum_.f64[first + k] = add ? sum_.f64[first + k] + from.f64[k] : from.f64[k];
        return;
      }
    }
    for (int64_t k = 0; k < count; ++k) {
      if (assign_ == Assign::kSet)
        SetLane(sum_, dtype, first + k, GetLane(from, dtype, k));
      else
        Combine(sum_, first + k, GetLane(from, dtype, k));
    }
  }

  void Combine(Slot& sum, int64_t lane, Scalar value) {
    if (s_.accumulate == Dtype::kF32 && assign_ == Assign::kSum) {
      sum.f32[lane] += value.f32;
      return;
    }
    const Scalar args[2] = {GetLane(sum, s_.accumulate, lane), value};
    SetLane(sum, s_.accumulate, lane,
            EvalScalar(OpOf(assign_), s_.accumulate, s_.accumulate, args));
  }

  // The first value that is extreme wins; the first NaN wins over all.
  bool Wins(Scalar value, Scalar best) const {
    const Dtype dtype = s_.accumulate;
    if (IsFloat(dtype)) {
      const bool old_nan = std::isnan(AsDouble(dtype, best)),
                 new_nan = std::isnan(AsDouble(dtype, value));
      if (old_nan || new_nan) return new_nan && !old_nan;
    }
    const Scalar args[2] = {value, best};
    const ScalarOp op = assign_ == Assign::kMin ? ScalarOp::kLt : ScalarOp::kGt;
    return EvalScalar(op, dtype, Dtype::kBool, args).i != 0;
  }

  bool StepTuple(int64_t n) {
    if (!RunCode(m_, s_.companion, n)) return false;
    const Slot& values = m_.slots[static_cast<size_t>(s_.value.result)];
    const Slot& others = m_.slots[static_cast<size_t>(s_.companion.result)];
    for (int64_t k = 0; k < n; ++k) {
      const int64_t lane = StripReduces() ? 0 : k;
      const Scalar value = GetLane(values, s_.accumulate, k);
      if (!seen_ || Wins(value, GetLane(sum_, s_.accumulate, lane))) {
        SetLane(sum_, s_.accumulate, lane, value);
        SetLane(companion_, s_.companion_dtype, lane, GetLane(others, s_.companion_dtype, k));
      }
      if (StripReduces()) seen_ = true;
    }
    seen_ = true;
    return true;
  }

  void Finish() {
    const TensorId id = s_.source->target;
    void* data = m_.data[static_cast<size_t>(id.index)];
    for (int64_t k = 0; k < lanes_; ++k)
      Put(id, data, TargetOffset(k),
          Cast(s_.accumulate, target_.dtype(), GetLane(sum_, s_.accumulate, k)));
    if (!s_.source->companion.valid()) return;
    const TensorId other = s_.source->companion;
    void* other_data = m_.data[static_cast<size_t>(other.index)];
    for (int64_t k = 0; k < lanes_; ++k)
      Put(other, other_data, TargetOffset(k), GetLane(companion_, s_.companion_dtype, k));
  }

  void Put(TensorId id, void* data, int64_t offset, Scalar value) {
    StoreScalar(m_.tensors[static_cast<size_t>(id.index)].dtype(), data, offset, value);
    std::vector<uint8_t>& written = m_.written[static_cast<size_t>(id.index)];
    if (!written.empty()) written[static_cast<size_t>(offset)] = 1;
  }

  Machine& m_;
  const CompiledStatement& s_;
  const Assign assign_;
  const Tensor& target_;
  std::vector<int32_t> loops_;
  size_t left_loops_ = 0;
  int64_t lanes_ = 1;
  bool seen_ = false;
  Slot sum_, companion_, other_;
};

}  // namespace

bool RunStatement(Machine& machine, const CompiledStatement& s, bool pinned) {
  return StatementRun(machine, s).Run(pinned);
}

}  // namespace weft::tc
