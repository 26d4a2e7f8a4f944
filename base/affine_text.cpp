// What needs to see the remainders in an expression: its bounds and its text.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/affine.h"

namespace weft {
namespace {

using Term = Affine::Term;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

bool SameAtom(const Term& a, const Term& b) {
  Term t = b;
  t.coefficient = a.coefficient;
  return a == t;
}

// factor * (dividend mod divisor), a part of an expression.
struct Remainder {
  int64_t factor;
  Affine dividend;
  int64_t divisor;
};

Affine AtomOf(const Term& t) {
  return t.dividend ? FloorDiv(*t.dividend, t.divisor) : Affine::OfVar(t.var);
}

// If `e` contains k * x beside c * q for some k, where q = floor(x / d), then
//   k * x + c * q = k * (x mod d) + (c + k * d) * q.
// Takes k * (x mod d) out of e and returns it.
std::optional<Remainder> TakeRemainder(Affine& e, const Affine& x, int64_t d, const Affine& q) {
  const Term& first = x.terms().front();
  const auto t = std::ranges::find_if(e.terms(), [&](const Term& u) { return SameAtom(u, first); });
  if (t == e.terms().end()) return std::nullopt;
  if (t->coefficient == kMin || t->coefficient % first.coefficient != 0) return std::nullopt;
  const int64_t k = t->coefficient / first.coefficient;
  int64_t kd;
  if (__builtin_mul_overflow(k, d, &kd)) return std::nullopt;
  std::optional<Affine> rest = AddScaled(e, x, -k);
  // Fewer terms by those of x: all of k * x was there.
  if (!rest || rest->terms().size() + x.terms().size() != e.terms().size()) return std::nullopt;
  rest = AddScaled(*rest, q, kd);
  if (!rest) return std::nullopt;
  e = *std::move(rest);
  return Remainder{k, x, d};
}

// (x - y) / d if d divides all of it.
std::optional<Affine> DivideDifference(const Affine& x, const Affine& y, int64_t d) {
  const std::optional<Affine> difference = AddScaled(x, y, -1);
  if (!difference || difference->constant() % d != 0) return std::nullopt;
  for (const Term& t : difference->terms()) {
    if (t.coefficient % d != 0) return std::nullopt;
  }
  return FloorDiv(*difference, d);
}

// A remainder whose quotient is the floor that `term` holds. Since floor((floor(x / a) + y) / b) is
// kept as floor((x + a * y) / (a * b)), what was divided may be the dividend itself or have a floor
// of its own.
std::optional<Remainder> TakeRemainder(Affine& e, const Term& term) {
  const Affine q = AtomOf(term);
  if (auto r = TakeRemainder(e, *term.dividend, term.divisor, q)) return r;
  for (const Term& inner : e.terms()) {
    if (!inner.dividend || inner.divisor >= term.divisor || term.divisor % inner.divisor != 0)
      continue;
    const auto y = DivideDifference(*term.dividend, *inner.dividend, inner.divisor);
    const auto x = y ? AddScaled(AtomOf(inner), *y, 1) : std::nullopt;
    const int64_t d = term.divisor / inner.divisor;
    if (!x || FloorDiv(*x, d) != q) continue;
    return TakeRemainder(e, *x, d, q);
  }
  return std::nullopt;
}

// A lower end of kMin means minus infinity, and an upper end of kMax infinity; both stay so through
// every sum. A lower end clamped to kMax is merely lower than it could be, which is sound.
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

int64_t AddLo(int64_t a, int64_t b) { return a == kMin || b == kMin ? kMin : SaturatingAdd(a, b); }
int64_t AddHi(int64_t a, int64_t b) { return a == kMax || b == kMax ? kMax : SaturatingAdd(a, b); }
Interval Add(const Interval& a, const Interval& b) {
  return {AddLo(a.lo, b.lo), AddHi(a.hi, b.hi)};
}

Interval Scale(const Interval& range, int64_t factor) {
  const bool down = factor < 0;
  const int64_t lo = range.lo == kMin ? (down ? kMax : kMin) : SaturatingMul(range.lo, factor);
  const int64_t hi = range.hi == kMax ? (down ? kMin : kMax) : SaturatingMul(range.hi, factor);
  return down ? Interval{hi, lo} : Interval{lo, hi};
}

Interval FloorRange(const Interval& range, int64_t divisor) {
  return {range.lo == kMin ? kMin : FloorDiv(range.lo, divisor),
          range.hi == kMax ? kMax : FloorDiv(range.hi, divisor)};
}

Interval ModRange(const Interval& range, int64_t divisor) {
  const bool finite = range.lo != kMin && range.hi != kMax;
  if (finite && FloorDiv(range.lo, divisor) == FloorDiv(range.hi, divisor)) {
    return {FloorMod(range.lo, divisor), FloorMod(range.hi, divisor)};
  }
  return {0, divisor - 1};
}

}  // namespace

// Bounds each term by itself, and again with remainders taken out: m - 8 * floor(m / 8) lies in
// [0, 7], which its terms alone don't show. Both are sound, so their intersection is.
Interval Affine::Bounds(const std::function<Interval(Var)>& ranges) const {
  std::vector<Interval> operands;  // of each term: its variable's or its dividend's range
  for (const Term& t : terms_) {
    operands.push_back(t.dividend ? t.dividend->Bounds(ranges) : ranges(t.var));
    if (operands.back().empty()) return {};
  }
  // The sum of the terms of `e`, whose atoms all occur in this expression.
  const auto bounds_of_parts = [&](const Affine& e) {
    Interval sum = {e.constant(), e.constant()};
    size_t i = 0;
    for (const Term& t : e.terms()) {
      while (!SameAtom(terms_[i], t)) ++i;
      const Interval atom = t.dividend ? FloorRange(operands[i], t.divisor) : operands[i];
      sum = Add(sum, Scale(atom, t.coefficient));
    }
    return sum;
  };
  Interval result = bounds_of_parts(*this), remainders = {0, 0};
  Affine rest = *this;
  // Remainders whose quotient goes with them first: another's dividend may be a part of theirs.
  for (const bool whole : {true, false}) {
    for (size_t i = 0; i < terms_.size(); ++i) {
      if (!terms_[i].dividend) continue;
      Affine without = rest;
      const std::optional<Remainder> r = TakeRemainder(without, terms_[i]);
      if (!r || (whole && std::ranges::any_of(without.terms(), [&](const Term& t) {
                   return SameAtom(t, terms_[i]);
                 })))
        continue;
      const bool direct = r->divisor == terms_[i].divisor;
      const Interval dividend = direct ? operands[i] : bounds_of_parts(r->dividend);
      remainders = Add(remainders, Scale(ModRange(dividend, r->divisor), r->factor));
      rest = std::move(without);
    }
  }
  const Interval other = Add(bounds_of_parts(rest), remainders);
  return {std::max(result.lo, other.lo), std::min(result.hi, other.hi)};
}

namespace {

class Writer {
 public:
  explicit Writer(const std::function<std::string(Var)>& name) : name_(name) {}

  std::string Write(const Affine& e) const {
    std::string text;
    Affine rest = e;
    std::vector<Remainder> remainders;
    for (const Term& t : e.terms()) {
      if (!t.dividend) continue;
      Affine trial = rest;
      const std::optional<Remainder> r = TakeRemainder(trial, t);
      if (!r || !ReadsBetter(*r, CoefficientOf(rest, t), CoefficientOf(trial, t))) continue;
      remainders.push_back(*r);
      rest = std::move(trial);
    }
    for (const Term& t : rest.terms()) {
      if (!t.dividend) Append(text, t.coefficient, name_(t.var));
    }
    const bool alone = rest.IsConstant() && rest.constant() == 0 && remainders.size() == 1 &&
                       remainders[0].factor == 1;
    for (const Remainder& r : remainders) {
      const std::string mod = fmt::format("{} mod {}", Operand(r.dividend), r.divisor);
      Append(text, r.factor, alone ? mod : "(" + mod + ")");
    }
    for (const Term& t : rest.terms()) {
      if (!t.dividend) continue;
      Append(text, t.coefficient, fmt::format("floor({}/{})", Operand(*t.dividend), t.divisor));
    }
    if (rest.constant() != 0 || text.empty()) AppendConstant(text, rest.constant());
    return text;
  }

 private:
  // Taking the remainder out turned k * x + before * floor(x / d) into k * (x mod d) + after *
  // floor(x / d): better if less is left, or if `after` is the size of something made of whole
  // blocks of d. But a + floor(a/2) is not better as 3*floor(a/2) + (a mod 2).
  static bool ReadsBetter(const Remainder& r, int64_t before, int64_t after) {
    return Magnitude(after) < Magnitude(before) || FloorMod(after, r.divisor) == 0;
  }
  static int64_t CoefficientOf(const Affine& e, const Term& atom) {
    for (const Term& t : e.terms()) {
      if (SameAtom(t, atom)) return t.coefficient;
    }
    return 0;
  }
  static void Append(std::string& text, int64_t coefficient, const std::string& atom) {
    text += text.empty() ? (coefficient < 0 ? "-" : "") : (coefficient < 0 ? " - " : " + ");
    const uint64_t size = Magnitude(coefficient);
    if (size != 1) text += fmt::format("{}*", size);
    text += atom;
  }
  static void AppendConstant(std::string& text, int64_t constant) {
    text += text.empty() ? (constant < 0 ? "-" : "") : (constant < 0 ? " - " : " + ");
    text += fmt::format("{}", Magnitude(constant));
  }
  static uint64_t Magnitude(int64_t value) {
    return value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  }
  // In parentheses unless it is a single product, which divides and takes remainders as a whole.
  std::string Operand(const Affine& e) const {
    const bool product = e.constant() == 0 && e.terms().size() == 1;
    return product ? Write(e) : "(" + Write(e) + ")";
  }

  const std::function<std::string(Var)>& name_;
};

}  // namespace

std::string Affine::Print(const std::function<std::string(Var)>& name) const {
  return Writer(name).Write(*this);
}

}  // namespace weft
