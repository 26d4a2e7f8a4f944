#include "base/affine.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace weft {
namespace {

using Term = Affine::Term;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? kMin : kMax;
  return sum;
}

int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? kMax : kMin;
  return product;
}

int Compare(const Affine& a, const Affine& b);

// Orders what a term multiplies: variables by number, then floors by divisor and dividend.
int CompareAtoms(const Term& a, const Term& b) {
  if (!a.dividend || !b.dividend) {
    if (a.dividend || b.dividend) return a.dividend ? 1 : -1;
    return a.var < b.var ? -1 : a.var > b.var;
  }
  if (a.divisor != b.divisor) return a.divisor < b.divisor ? -1 : 1;
  // Equal expressions often share their dividend, which keeps comparing deep ones cheap.
  return a.dividend == b.dividend ? 0 : Compare(*a.dividend, *b.dividend);
}

int Compare(const Affine& a, const Affine& b) {
  const size_t common = std::min(a.terms().size(), b.terms().size());
  for (size_t i = 0; i < common; ++i) {
    const Term &s = a.terms()[i], &t = b.terms()[i];
    if (const int order = CompareAtoms(s, t)) return order;
    if (s.coefficient != t.coefficient) return s.coefficient < t.coefficient ? -1 : 1;
  }
  if (a.terms().size() != b.terms().size()) return a.terms().size() < b.terms().size() ? -1 : 1;
  return a.constant() < b.constant() ? -1 : a.constant() > b.constant();
}

Affine MustAdd(const Affine& a, const Affine& b, int64_t factor) {
  std::optional<Affine> sum = AddScaled(a, b, factor);
  WEFT_CHECK(sum.has_value(), "a coefficient leaves 64 bits");
  return *std::move(sum);
}

}  // namespace

int64_t FloorDiv(int64_t a, int64_t b) {
  WEFT_CHECK(b != 0, "division by zero");
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));  // -2^63 stays as it is
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t FloorMod(int64_t a, int64_t b) {
  WEFT_CHECK(b != 0, "division by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

bool Affine::Term::operator==(const Term& other) const {
  return coefficient == other.coefficient && CompareAtoms(*this, other) == 0;
}

bool Affine::operator==(const Affine& other) const { return Compare(*this, other) == 0; }
bool Affine::operator<(const Affine& other) const { return Compare(*this, other) < 0; }

Affine Affine::OfVar(Var var, int64_t coefficient) {
  Affine e;
  if (coefficient != 0) e.terms_.push_back({.coefficient = coefficient, .var = var});
  return e;
}

std::optional<Var> Affine::AsVar() const {
  if (constant_ != 0 || terms_.size() != 1) return std::nullopt;
  const Term& t = terms_[0];
  if (t.dividend || t.coefficient != 1) return std::nullopt;
  return t.var;
}

int64_t Affine::CoefficientOf(Var var) const {
  for (const Term& t : terms_) {
    if (!t.dividend && t.var == var) return t.coefficient;
  }
  return 0;
}

bool Affine::Uses(Var var) const {
  return std::ranges::any_of(
      terms_, [var](const Term& t) { return t.dividend ? t.dividend->Uses(var) : t.var == var; });
}

void Affine::CollectVars(std::vector<Var>& out) const {
  for (const Term& t : terms_) {
    if (t.dividend) {
      t.dividend->CollectVars(out);
    } else {
      out.push_back(t.var);
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

// A merge of two sorted lists of terms.
std::optional<Affine> AddScaled(const Affine& a, const Affine& b, int64_t factor) {
  Affine sum;
  if (__builtin_mul_overflow(b.constant_, factor, &sum.constant_)) return std::nullopt;
  if (__builtin_add_overflow(sum.constant_, a.constant_, &sum.constant_)) return std::nullopt;
  if (factor == 0) return sum.terms_ = a.terms_, sum;
  sum.terms_.reserve(a.terms_.size() + b.terms_.size());
  auto s = a.terms_.begin();
  for (const Term& t : b.terms_) {
    while (s != a.terms_.end() && CompareAtoms(*s, t) < 0) sum.terms_.push_back(*s++);
    Term term = t;
    if (__builtin_mul_overflow(t.coefficient, factor, &term.coefficient)) return std::nullopt;
    if (s != a.terms_.end() && CompareAtoms(*s, t) == 0) {
      if (__builtin_add_overflow(term.coefficient, s->coefficient, &term.coefficient)) {
        return std::nullopt;
      }
      term.dividend = s->dividend;  // the longer-lived of two equal ones
      ++s;
    }
    if (term.coefficient != 0) sum.terms_.push_back(std::move(term));
  }
  sum.terms_.insert(sum.terms_.end(), s, a.terms_.end());
  return sum;
}

Affine Affine::operator+(const Affine& other) const { return MustAdd(*this, other, 1); }
Affine Affine::operator-(const Affine& other) const { return MustAdd(*this, other, -1); }
Affine Affine::operator-() const { return MustAdd(0, *this, -1); }
Affine Affine::operator*(int64_t factor) const { return MustAdd(0, *this, factor); }

// Splits e = divisor * whole + rest, with rest's constant in [0, divisor) and its coefficients of
// e's sign and smaller than the divisor, then divides what common factor is left.
Affine FloorDiv(const Affine& e, int64_t divisor) {
  WEFT_CHECK(divisor > 0, "divisor {}", divisor);
  if (divisor == 1) return e;
  Affine whole = FloorDiv(e.constant_, divisor), rest = FloorMod(e.constant_, divisor);
  int64_t common = divisor;
  for (const Term& t : e.terms_) {
    Term quotient = t, remainder = t;
    quotient.coefficient = t.coefficient / divisor;
    remainder.coefficient = t.coefficient % divisor;
    common = std::gcd(common, remainder.coefficient);
    if (quotient.coefficient != 0) whole.terms_.push_back(std::move(quotient));
    if (remainder.coefficient != 0) rest.terms_.push_back(std::move(remainder));
  }
  if (rest.IsConstant()) return whole;

  // floor((g x + c) / (g d)) = floor((x + floor(c / g)) / d)
  for (Term& t : rest.terms_) t.coefficient /= common;
  rest.constant_ /= common;
  divisor /= common;

  // floor((floor(x / a) + y) / d) = floor((x + a y) / (a d)), if that is the only floor.
  const Term last = rest.terms_.back();
  const bool one_floor = last.dividend && last.coefficient == 1 &&
                         (rest.terms_.size() == 1 || !rest.terms_[rest.terms_.size() - 2].dividend);
  int64_t product;
  if (one_floor && !__builtin_mul_overflow(last.divisor, divisor, &product)) {
    Affine y = rest;
    y.terms_.pop_back();
    if (auto dividend = AddScaled(*last.dividend, y, last.divisor)) {
      return whole + FloorDiv(*dividend, product);
    }
  }
  Affine floor;
  floor.terms_.push_back({.coefficient = 1,
                          .dividend = std::make_shared<const Affine>(std::move(rest)),
                          .divisor = divisor});
  return whole + floor;
}

Affine Mod(const Affine& e, int64_t divisor) { return MustAdd(e, FloorDiv(e, divisor), -divisor); }

std::optional<Affine> Affine::TrySubstitute(const std::function<Affine(Var)>& replacement) const {
  std::optional<Affine> result = constant_;
  for (const Term& t : terms_) {
    std::optional<Affine> atom =
        t.dividend ? t.dividend->TrySubstitute(replacement) : replacement(t.var);
    if (!atom) return std::nullopt;
    if (t.dividend) atom = FloorDiv(*atom, t.divisor);
    result = AddScaled(*result, *atom, t.coefficient);
    if (!result) return std::nullopt;
  }
  return result;
}

Affine Affine::Substitute(const std::function<Affine(Var)>& replacement) const {
  std::optional<Affine> result = TrySubstitute(replacement);
  WEFT_CHECK(result.has_value(), "a coefficient leaves 64 bits");
  return *std::move(result);
}

int64_t Affine::Eval(std::span<const int64_t> values) const {
  int64_t sum = constant_;
  for (const Term& t : terms_) {
    const int64_t atom = t.dividend ? FloorDiv(t.dividend->Eval(values), t.divisor) : values[t.var];
    sum = SaturatingAdd(sum, SaturatingMul(t.coefficient, atom));
  }
  return sum;
}

}  // namespace weft
