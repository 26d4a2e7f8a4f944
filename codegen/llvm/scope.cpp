#include "codegen/llvm/scope.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"

namespace weft::codegen {

using llvm::Value;

bool LaneForm::Uniform(int64_t active) const {
  return std::all_of(diffs.begin(), diffs.begin() + active, [](int64_t d) { return d == 0; });
}

bool LaneForm::Contiguous(int64_t active) const {
  for (int64_t lane = 0; lane < active; ++lane) {
    if (diffs[lane] != lane) return false;
  }
  return true;
}

void Scope::OpenLevel() {
  auto* anchor = llvm::cast<llvm::Instruction>(b_.CreateFreeze(b_.getFalse()));
  anchors_.push_back(anchor);
  levels_.push_back({.anchor = anchor});
}

void Scope::CloseLevel() { levels_.pop_back(); }

void Scope::RemoveAnchors() {
  for (llvm::Instruction* anchor : anchors_) anchor->eraseFromParent();
  anchors_.clear();
}

Var Scope::NewVar() {
  bindings_.emplace_back();
  return static_cast<Var>(bindings_.size()) - 1;
}

void Scope::Bind(Var v, Value* value, int64_t multiple) {
  bindings_[v] = {.value = value, .level = levels_.size() - 1, .multiple = multiple};
}

void Scope::Substitute(Var v, const Affine& by) { bindings_[v] = {.by = by}; }

void Scope::OpenLanes(Var v, const Affine& lo, int64_t step) {
  lane_var_ = v;
  lane_lo_ = Resolve(lo);
  lane_step_ = step;
  bindings_[v] = {};
}

void Scope::CloseLanes() { lane_var_ = -1; }

void Scope::BindLanes(Var v, std::vector<Value*> chunks) {
  bindings_[v] = {.lanes = std::move(chunks)};
}

Affine Scope::Resolve(const Affine& e) const {
  return e.Substitute(
      [this](Var v) { return bindings_[v].by ? *bindings_[v].by : Affine::OfVar(v); });
}

bool Scope::LaneDependent(const Affine& e) const {
  std::vector<Var> used;
  Resolve(e).CollectVars(used);
  return std::ranges::any_of(
      used, [this](Var v) { return v == lane_var_ || !bindings_[v].lanes.empty(); });
}

Affine Scope::AtLane(const Affine& resolved, int64_t lane) const {
  return resolved.Substitute(
      [&](Var v) { return v == lane_var_ ? lane_lo_ + lane * lane_step_ : Affine::OfVar(v); });
}

std::optional<LaneForm> Scope::Lanes(const Affine& e, const Chunk& chunk) const {
  const Affine resolved = Resolve(e);
  std::vector<Var> used;
  resolved.CollectVars(used);
  for (Var v : used) {
    if (!bindings_[v].lanes.empty()) return std::nullopt;
  }
  LaneForm form{.base = AtLane(resolved, chunk.first), .diffs = std::vector<int64_t>(chunk.width)};
  if (!resolved.Uses(lane_var_)) return form;
  const bool direct = std::ranges::none_of(resolved.terms(), [&](const Affine::Term& t) {
    return t.dividend && t.dividend->Uses(lane_var_);
  });
  for (int64_t lane = 1; lane < chunk.width; ++lane) {
    if (direct) {
      form.diffs[lane] = lane * lane_step_ * resolved.CoefficientOf(lane_var_);
      continue;
    }
    const Affine diff = AtLane(resolved, chunk.first + lane) - form.base;
    if (!diff.IsConstant()) return std::nullopt;
    form.diffs[lane] = diff.constant();
  }
  return form;
}

size_t Scope::LevelOf(const Affine& e) const {
  std::vector<Var> used;
  e.CollectVars(used);
  size_t level = 0;
  for (Var v : used) level = std::max(level, bindings_[v].level);
  return level;
}

// The terms of an expression, without its constant, by the innermost level that they need.
std::map<size_t, Affine> Scope::ByLevel(const Affine& e) const {
  std::map<size_t, Affine> parts;
  for (const Affine::Term& t : e.terms()) {
    Affine term = t.dividend ? FloorDiv(*t.dividend, t.divisor) * t.coefficient
                             : Affine::OfVar(t.var, t.coefficient);
    const size_t level = t.dividend ? LevelOf(*t.dividend) : bindings_[t.var].level;
    parts[level] += term;
  }
  return parts;
}

Value* Scope::Emit(const Affine& e) { return Sum(e, b_); }

Value* Scope::Sum(const Affine& e, llvm::IRBuilder<>& at) {
  Value* sum = nullptr;
  for (const auto& [level, part] : ByLevel(e)) {
    Value*& known = levels_[level].known[{sum, part}];
    if (known == nullptr) {
      Value* value = Part(level, part);
      known = sum ? llvm::IRBuilder<>(levels_[level].anchor).CreateAdd(sum, value) : value;
    }
    sum = known;
  }
  Value* constant = b_.getInt64(static_cast<uint64_t>(e.constant()));
  if (sum == nullptr) return constant;
  return e.constant() == 0 ? sum : at.CreateAdd(sum, constant);
}

Value* Scope::Pointer(Value* base, const Affine& bytes) {
  for (const auto& [level, part] : ByLevel(bytes)) {
    Value*& known = levels_[level].known[{base, part}];
    if (known == nullptr) {
      Value* offset = Part(level, part);
      known = llvm::IRBuilder<>(levels_[level].anchor).CreateGEP(b_.getInt8Ty(), base, offset);
    }
    base = known;
  }
  if (bytes.constant() == 0) return base;
  return b_.CreateGEP(b_.getInt8Ty(), base, b_.getInt64(static_cast<uint64_t>(bytes.constant())));
}

// Terms of one level, computed at its anchor.
Value* Scope::Part(size_t level, const Affine& part) {
  Value* sum = nullptr;
  for (const Affine::Term& t : part.terms()) {
    llvm::IRBuilder<> at(levels_[level].anchor);
    Value* atom = nullptr;
    if (t.dividend) {
      Value* dividend = Sum(*t.dividend, at);
      atom = Floor(at, dividend, t.divisor, ranges_.Of(*t.dividend).lo >= 0);
    } else {
      atom = bindings_[t.var].value;
      WEFT_CHECK(atom != nullptr, "variable {} has no value here", t.var);
    }
    Value* product = at.CreateMul(atom, at.getInt64(static_cast<uint64_t>(t.coefficient)));
    sum = sum ? at.CreateAdd(sum, product) : product;
  }
  return sum ? sum : b_.getInt64(0);
}

// `dividend` may be a vector.
Value* Scope::Floor(llvm::IRBuilder<>& at, Value* dividend, int64_t divisor,
                    bool non_negative) const {
  const auto lit = [&](int64_t v) {
    return llvm::ConstantInt::get(dividend->getType(), static_cast<uint64_t>(v));
  };
  if (std::has_single_bit(static_cast<uint64_t>(divisor))) {
    return at.CreateAShr(dividend, lit(std::countr_zero(static_cast<uint64_t>(divisor))));
  }
  if (non_negative) return at.CreateUDiv(dividend, lit(divisor));
  Value* q = at.CreateSDiv(dividend, lit(divisor));
  Value* rest = at.CreateSub(dividend, at.CreateMul(q, lit(divisor)));
  Value* below = at.CreateICmpSLT(rest, lit(0));
  return at.CreateAdd(q, at.CreateSExt(below, q->getType()));
}

Value* Scope::EmitLanes(const Affine& e, const Chunk& chunk) {
  const std::optional<LaneForm> form = Lanes(e, chunk);
  if (!form) return LaneSum(Resolve(e), chunk);
  Value* base = Emit(form->base);
  if (chunk.width == 1) return base;
  std::vector<uint64_t> diffs(form->diffs.begin(), form->diffs.end());
  Value* splat = b_.CreateVectorSplat(chunk.width, base);
  return b_.CreateAdd(splat, llvm::ConstantDataVector::get(b_.getContext(), diffs));
}

// What depends on the lanes in any other way, term by term.
Value* Scope::LaneSum(const Affine& resolved, const Chunk& chunk) {
  const auto splat = [&](Value* v) {
    return chunk.width == 1 ? v : b_.CreateVectorSplat(chunk.width, v);
  };
  Affine uniform = resolved.constant();
  Value* sum = nullptr;
  for (const Affine::Term& t : resolved.terms()) {
    const Affine atom_of = t.dividend ? *t.dividend : Affine::OfVar(t.var);
    if (!LaneDependent(atom_of)) {
      uniform +=
          t.dividend ? FloorDiv(atom_of, t.divisor) * t.coefficient : atom_of * t.coefficient;
      continue;
    }
    Value* atom = nullptr;
    if (t.dividend) {
      atom = Floor(b_, EmitLanes(*t.dividend, chunk), t.divisor, false);
    } else {
      atom = t.var == lane_var_ ? EmitLanes(atom_of, chunk) : bindings_[t.var].lanes[chunk.number];
    }
    Value* product = b_.CreateMul(atom, splat(b_.getInt64(static_cast<uint64_t>(t.coefficient))));
    sum = sum ? b_.CreateAdd(sum, product) : product;
  }
  Value* rest = splat(Emit(uniform));
  return sum ? b_.CreateAdd(sum, rest) : rest;
}

int64_t Scope::MultipleOf(const Affine& e) const {
  int64_t divisor = e.constant();
  for (const Affine::Term& t : e.terms()) {
    divisor = std::gcd(divisor, t.coefficient * (t.dividend ? 1 : bindings_[t.var].multiple));
  }
  return divisor;
}

}  // namespace weft::codegen
