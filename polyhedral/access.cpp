#include "polyhedral/access.h"

#include <algorithm>
#include <array>

namespace weft::polyhedral {
namespace {

Interval RangeOf(const tc::Statement& s, Var v) {
  const tc::Index& index = s.indices[v];
  if (!index.lo.IsConstant() || !index.hi.IsConstant()) return {0, int64_t{1} << 40};
  return {index.lo.constant(), index.hi.constant() - 1};
}

// Sorted by stride, each index starts where the smaller ones end: 8*i + j with j in 0:8.
bool Tiles(const tc::Statement& s, const Affine& e) {
  std::vector<std::pair<int64_t, int64_t>> strides;  // stride, extent
  for (const Affine::Term& t : e.terms()) {
    if (t.coefficient <= 0) return false;
    const Interval r = RangeOf(s, t.var);
    strides.emplace_back(t.coefficient, r.hi - r.lo + 1);
  }
  std::ranges::sort(strides);
  for (size_t k = 0; k + 1 < strides.size(); ++k) {
    if (strides[k].first * strides[k].second > strides[k + 1].first) return false;
  }
  return true;
}

SubscriptKind KindOf(const tc::Statement& s, const Affine& e) {
  if (e.IsConstant()) return SubscriptKind::kConstant;
  if (e.AsVar()) return SubscriptKind::kIndex;
  const bool floors =
      std::ranges::any_of(e.terms(), [](const Affine::Term& t) { return t.dividend != nullptr; });
  if (floors) {
    std::vector<Var> used;
    e.CollectVars(used);
    return used.size() == 1 ? SubscriptKind::kSplit : SubscriptKind::kOpaque;
  }
  if (e.terms().size() == 1) return SubscriptKind::kSlice;
  return Tiles(s, e) ? SubscriptKind::kMerge : SubscriptKind::kWindow;
}

AccessKind Worst(SubscriptKind kind) {
  switch (kind) {
    case SubscriptKind::kConstant:
    case SubscriptKind::kIndex:
      return AccessKind::kProjection;
    case SubscriptKind::kSlice:
      return AccessKind::kSlice;
    case SubscriptKind::kMerge:
      return AccessKind::kMerge;
    case SubscriptKind::kSplit:
      return AccessKind::kSplit;
    case SubscriptKind::kWindow:
      return AccessKind::kWindow;
    case SubscriptKind::kOpaque:
      return AccessKind::kOpaque;
  }
  return AccessKind::kOpaque;
}

// Plain indices only: in which order, and are all there?
AccessKind PlainKind(const tc::Statement& s, const std::vector<Subscript>& subscripts) {
  std::vector<int32_t> order;
  for (const Subscript& sub : subscripts)
    order.insert(order.end(), sub.indices.begin(), sub.indices.end());
  for (size_t i = 0; i < s.indices.size(); ++i) {
    const bool occurs = std::ranges::count(order, static_cast<int32_t>(i)) > 0;
    if (!occurs && !s.indices[i].reduction) return AccessKind::kBroadcast;
  }
  return std::ranges::is_sorted(order) ? AccessKind::kProjection : AccessKind::kPermutation;
}

}  // namespace

AccessClass Classify(const tc::Program& program, const tc::Statement& statement,
                     const std::vector<tc::ExprId>& subscripts) {
  AccessClass access{.kind = AccessKind::kProjection};
  for (const tc::ExprId id : subscripts) {
    Subscript& sub = access.subscripts.emplace_back();
    if (const auto e = tc::AsAffine(program, id)) {
      sub.e = *e;
      sub.kind = KindOf(statement, *e);
      std::vector<Var> used;
      e->CollectVars(used);
      sub.indices.assign(used.begin(), used.end());
      sub.range = e->Bounds([&](Var v) { return RangeOf(statement, v); });
    }
    access.kind = std::max(access.kind, Worst(sub.kind));
  }
  if (access.kind == AccessKind::kProjection) access.kind = PlainKind(statement, access.subscripts);
  return access;
}

std::string_view AccessKindName(AccessKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {
      "projection", "permutation", "broadcast", "slice", "merge", "split", "window", "opaque"};
  return kNames[static_cast<size_t>(kind)];
}

double WindowRedundancy(const AccessClass& access, const tc::Statement& statement) {
  double redundancy = 1;
  for (const Subscript& sub : access.subscripts) {
    if (sub.kind != SubscriptKind::kWindow) continue;
    double reads = 1;
    for (const int32_t i : sub.indices) {
      const Interval r = RangeOf(statement, i);
      reads *= static_cast<double>(r.hi - r.lo + 1);
    }
    redundancy *= std::max(1.0, reads / static_cast<double>(sub.range.hi - sub.range.lo + 1));
  }
  return redundancy;
}

int64_t Computed(const tc::Program& program, tc::ExprId id) {
  const tc::Expr& e = program[id];
  int64_t count = e.kind != tc::ExprKind::kOp ? 0 : IsMath(e.op) ? 16 : 1;
  if (e.kind == tc::ExprKind::kRead) return count;
  for (const tc::ExprId arg : e.args) count += Computed(program, arg);
  return count;
}

bool SlidesAlong(const tc::Statement& statement, const Subscript& subscript) {
  const auto is_reduced = [&](int32_t i) { return statement.indices[i].reduction; };
  return subscript.kind == SubscriptKind::kWindow &&
         std::ranges::any_of(subscript.indices, is_reduced) &&
         !std::ranges::all_of(subscript.indices, is_reduced);
}

int64_t StepsToMove(const tc::Program& program, tc::ExprId read, int32_t index) {
  int64_t steps = 0;
  for (const tc::ExprId sub : program[read].args) {
    const auto e = tc::AsAffine(program, sub);
    if (!e) continue;
    for (const Affine::Term& t : e->terms()) {
      if (t.dividend ? !t.dividend->Uses(index) : t.var != index) continue;
      if (!t.dividend || t.dividend->AsVar() != index || steps > 0) return 1;
      steps = t.divisor;
    }
  }
  return steps;
}

}  // namespace weft::polyhedral
