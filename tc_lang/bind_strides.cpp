// Inputs that are not dense: reads keep their subscripts until all ranges are known and checked,
// and then become reads of the memory, a tensor of rank 1.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tc_lang/bind_def.h"
#include "tc_lang/region.h"

namespace weft::tc {
namespace {

constexpr int64_t kLargest = int64_t{1} << 40;  // of extents

}  // namespace

bool DefBinder::SetStrides(const SyntaxParam& param, const TensorDecl& decl, State& state) {
  bool empty = false;
  int64_t last = 0;  // offset of the last element
  for (size_t d = 0; d < param.strides.size(); ++d) {
    const Location at = param.strides[d]->at;
    const std::optional<Affine> stride = Dim(*param.strides[d]);
    if (!stride) return false;
    if (!stride->IsConstant() || !decl.extents[d].IsConstant()) {
      return Error(Problem::kOpenSize, at,
                   fmt::format("'{}' has strides, and a size that is left open", param.name), "",
                   Code::kUnsupported);
    }
    const int64_t extent = decl.extents[d].constant();
    int64_t reach = 0;
    empty = empty || extent == 0;
    if (stride->constant() < 0)
      return Error(Problem::kStrides, at,
                   fmt::format("found the stride {}, expected 0 or more", stride->constant()));
    const bool overflows =
        __builtin_mul_overflow(stride->constant(), std::max<int64_t>(extent - 1, 0), &reach);
    if (!overflows && reach <= kLargest) last += reach;
    if (overflows || reach > kLargest || last >= kLargest) {
      return Error(Problem::kTooLarge, at,
                   fmt::format("'{}' reaches over more than {} elements", param.name, kLargest), "",
                   Code::kLimit);
    }
    state.strides.push_back(stride->constant());
  }
  state.cells = empty ? 0 : last + 1;
  state.wide = last >= std::numeric_limits<int32_t>::max();  // though nothing may be there to read
  return true;
}

// Whether offsets into its memory leave int32.
bool DefBinder::IsWide(TensorId tensor) const {
  return states_[static_cast<size_t>(tensor.index)].wide;
}

// The sum of strides times subscripts. One that is not shown to stay inside of its axis is checked,
// since the memory may go on there.
ExprId DefBinder::FlatSubscript(const Statement& s, const Expr& read, Dtype index_type) {
  const State& state = states_[static_cast<size_t>(read.tensor.index)];
  const IntBox ranges = RangesOf(program_, s), hull = HullOf(program_, read.tensor);
  const bool runs =
      std::none_of(ranges.begin(), ranges.end(), [](const Interval& i) { return i.empty(); });
  if (!runs) return FromAffine(Affine(0), s, index_type);  // whose subscripts nobody has checked
  Affine fixed;
  std::vector<Typed> checked;
  for (size_t d = 0; d < read.args.size(); ++d) {
    const std::optional<Affine> e = AsAffineWithParams(program_, s, read.args[d]);
    const Interval bounds = e ? TightBounds(*e, ranges, hull[d]) : hull[d];
    if (e && bounds.lo >= hull[d].lo && bounds.hi <= hull[d].hi) {
      fixed += *e * state.strides[d];
    } else {
      checked.push_back(exprs_.Scaled(exprs_.Checked(read.args[d], hull[d].hi + 1, index_type),
                                      state.strides[d]));
    }
  }
  std::optional<Typed> sum;
  if (checked.empty() || fixed != Affine(0))
    sum = Typed{FromAffine(fixed, s, index_type), index_type};
  for (const Typed& term : checked) sum = sum ? exprs_.Sum(*sum, term) : term;
  return sum->id;
}

void DefBinder::Flatten() {
  const auto strided = [this](TensorId t) {
    return !states_[static_cast<size_t>(t.index)].strides.empty();
  };
  for (Statement& s : program_.statements) {
    for (ExprId id : Reads(program_, s)) {
      const Expr read = program_[id];
      if (!strided(read.tensor)) continue;
      const Dtype own = index_types_[static_cast<size_t>(&s - program_.statements.data())];
      const Dtype index_type = IsWide(read.tensor) ? Dtype::kI64 : own;
      const ExprId flat = FlatSubscript(s, read, index_type);
      program_.exprs[static_cast<size_t>(id.index)].args = {flat};
    }
  }
  for (size_t t = 0; t < states_.size(); ++t) {
    if (strided(TensorId(t))) program_.tensors[t].extents = {Affine(states_[t].cells)};
  }
}

}  // namespace weft::tc
