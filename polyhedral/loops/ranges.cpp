#include "polyhedral/loops/ranges.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace weft::loops {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kLargestParam = int64_t{1} << 40;

bool InsideFloor(const Affine& e, Var v) {
  return std::ranges::any_of(
      e.terms(), [&](const Affine::Term& t) { return t.dividend && t.dividend->Uses(v); });
}

std::optional<Affine> Replace(const Affine& e, Var v, const Affine& by) {
  return e.TrySubstitute([&](Var u) { return u == v ? by : Affine::OfVar(u); });
}

// The dividend (negated where the coefficient is negative) whose floor takes a sum from `best` to
// `wanted` if all else stays at its bound, when the dividend is known to be at least `known`.
int64_t DividendFor(int64_t wanted, int64_t best, int64_t known, int64_t divisor,
                    int64_t coefficient) {
  if (best < -kLargestParam || known < -kLargestParam || wanted > kLargestParam) return kMax;
  if (coefficient < -kLargestParam || coefficient > kLargestParam) return kMax;
  const int64_t each = std::abs(coefficient), moves = (wanted - best + each - 1) / each;
  const int64_t floors =
      coefficient > 0 ? FloorDiv(known, divisor) : -FloorDiv(-known, divisor) - 1;
  int64_t multiple = 0;
  if (__builtin_mul_overflow(floors + moves, divisor, &multiple)) return kMax;
  return coefficient > 0 || multiple == kMax ? multiple : multiple + 1;
}

}  // namespace

int64_t ConstantTrip(const Stmt& loop) {
  if (loop.lo.size() != 1 || loop.hi.size() != 1 || loop.step <= 0) return -1;
  const std::optional<Affine> length = AddScaled(loop.hi[0], loop.lo[0], -1);
  if (!length || !length->IsConstant()) return -1;
  const int64_t whole = length->constant();
  return whole <= 0 ? 0 : (whole - 1) / loop.step + 1;
}

void Ranges::Push(const Stmt& binder) {
  Fact fact;
  fact.lo = binder.lo;
  fact.range = {std::numeric_limits<int64_t>::min(), kMax};
  for (const Affine& e : binder.lo) fact.range.lo = std::max(fact.range.lo, Of(e).lo);
  for (const Affine& e : binder.hi) {
    fact.last.push_back(e - 1);
    fact.range.hi = std::min(fact.range.hi, Of(e - 1).hi);
  }
  const int64_t trip = binder.kind == StmtKind::kFor ? ConstantTrip(binder) : -1;
  if (trip > 0) {
    fact.last = {binder.lo[0] + (trip - 1) * binder.step};
    fact.range.hi = std::min(fact.range.hi, Of(fact.last[0]).hi);
  }
  facts_[binder.var] = std::move(fact);
  order_.push_back(binder.var);
}

void Ranges::Pop(const Stmt& binder) {
  facts_.erase(binder.var);
  order_.pop_back();
}

void Ranges::PushConstraints(const std::vector<Affine>& constraints) {
  for (const Affine& c : constraints) {  // of 2 a - 3 >= 0 is known that a - 2 >= 0
    int64_t common = 0;
    for (const Affine::Term& term : c.terms()) common = std::gcd(common, term.coefficient);
    constraints_.push_back(common > 1 ? FloorDiv(c, common) : c);
  }
}

void Ranges::PopConstraints(size_t count) { constraints_.resize(constraints_.size() - count); }

Interval Ranges::RangeOf(Var v) const {
  if (v < nest_.params) return {0, kLargestParam};
  const auto it = facts_.find(v);
  return it == facts_.end() ? Interval{std::numeric_limits<int64_t>::min(), kMax}
                            : it->second.range;
}

Interval Ranges::Of(const Affine& e) const {
  return e.Bounds([this](Var v) { return RangeOf(v); });
}

int64_t Ranges::MostTrips(const Stmt& loop) const {
  if (const int64_t trip = ConstantTrip(loop); trip >= 0) return trip;
  int64_t lo = std::numeric_limits<int64_t>::min() / 4, hi = kMax / 4;
  for (const Affine& e : loop.lo) lo = std::max(lo, Of(e).lo);
  for (const Affine& e : loop.hi) hi = std::min(hi, Of(e).hi);
  return std::max<int64_t>(0, hi - lo) / loop.step + 1;
}

bool Ranges::NonNegative(const Affine& e) const {
  int budget = 4000;
  return LowerBound(e, 0, budget) >= 0;
}

int64_t Ranges::LowerBound(const Affine& e, int64_t wanted, int& budget) const {
  const Interval interval = Of(e);
  if (interval.empty()) return kMax;  // nothing runs here
  int64_t best = interval.lo;
  if (best >= wanted || --budget < 0) return best;
  for (const Affine& c : constraints_) {
    const std::optional<Affine> rest = AddScaled(e, c, -1);
    if (rest && rest->IsConstant()) best = std::max(best, rest->constant());
    for (const Affine::Term& term : e.terms()) {  // the floor of what is not negative
      if (!term.dividend || best >= wanted) continue;
      const auto rest_of_floor = AddScaled(e, FloorDiv(c, term.divisor), -1);
      if (rest_of_floor && rest_of_floor->IsConstant())
        best = std::max(best, rest_of_floor->constant());
    }
  }
  const auto attempt = [&](const std::optional<Affine>& smaller) {
    if (best < wanted && smaller) best = std::max(best, LowerBound(*smaller, wanted, budget));
  };
  // A floor is monotone: what elimination shows of its dividend bounds it too.
  for (const Affine::Term& term : e.terms()) {
    if (!term.dividend || best >= wanted) continue;
    const bool rising = term.coefficient > 0;
    const Affine dividend = rising ? *term.dividend : -*term.dividend;
    const int64_t known = Of(dividend).lo;
    const int64_t d = term.divisor;
    const int64_t least =
        LowerBound(dividend, DividendFor(wanted, best, known, d, term.coefficient), budget);
    if (least <= known || least == kMax) continue;
    const int64_t floor = rising ? FloorDiv(least, d) : FloorDiv(-least, d);
    const auto rest = AddScaled(e, FloorDiv(*term.dividend, term.divisor), -term.coefficient);
    if (rest) attempt(AddScaled(*rest, floor, term.coefficient));
  }
  for (size_t i = order_.size(); i-- > 0;) {
    const Var v = order_[i];
    const int64_t k = e.CoefficientOf(v);
    if (k == 0) continue;
    // Bounds first: a constraint with a floor of v in it leads back to v.
    const bool inside = InsideFloor(e, v);
    if (!inside) {
      const Fact& fact = facts_.at(v);
      for (const Affine& bound : k > 0 ? fact.lo : fact.last) attempt(Replace(e, v, bound));
    }
    for (const Affine& c : constraints_) {
      const int64_t ck = c.CoefficientOf(v);
      if (ck == 0 || k % ck != 0 || k / ck <= 0) continue;
      attempt(AddScaled(e, c, -(k / ck)));
    }
    if (!inside) return best;  // outer variables come up in what was put in its place
  }
  return best;
}

}  // namespace weft::loops
