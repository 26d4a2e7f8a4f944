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
  const Affine* dividend;
  int64_t divisor;
};

// If `e` contains k * x beside c * floor(x / d), for some k, then
//   k * x + c * floor(x / d) = k * (x mod d) + (c + k * d) * floor(x / d).
// Takes k * (x mod d) out of e and returns it.
std::optional<Remainder> TakeRemainder(Affine& e, const Term& floor) {
  const Term& first = floor.dividend->terms().front();
  const auto t = std::ranges::find_if(e.terms(), [&](const Term& u) { return SameAtom(u, first); });
  if (t == e.terms().end()) return std::nullopt;
  if (t->coefficient == kMin || t->coefficient % first.coefficient != 0) return std::nullopt;
  const int64_t k = t->coefficient / first.coefficient;
  int64_t kd;
  if (__builtin_mul_overflow(k, floor.divisor, &kd)) return std::nullopt;
  std::optional<Affine> rest = AddScaled(e, *floor.dividend, -k);
  // Fewer terms by those of the dividend: all of k * x was there.
  if (!rest || rest->terms().size() + floor.dividend->terms().size() != e.terms().size()) {
    return std::nullopt;
  }
  rest = AddScaled(*rest, FloorDiv(*floor.dividend, floor.divisor), kd);
  if (!rest) return std::nullopt;
  e = *std::move(rest);
  return Remainder{k, floor.dividend.get(), floor.divisor};
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
  // The sum of the terms of `e`, whose atoms all occur in this expression, in the same order.
  const auto sum_of_terms = [&](const Affine& e) {
    Interval sum = {e.constant(), e.constant()};
    size_t i = 0;
    for (const Term& t : e.terms()) {
      while (!SameAtom(terms_[i], t)) ++i;
      const Interval atom = t.dividend ? FloorRange(operands[i], t.divisor) : operands[i];
      sum = Add(sum, Scale(atom, t.coefficient));
    }
    return sum;
  };
  Interval result = sum_of_terms(*this), remainders = {0, 0};
  Affine rest = *this;
  for (size_t i = 0; i < terms_.size(); ++i) {
    if (!terms_[i].dividend) continue;
    if (const std::optional<Remainder> r = TakeRemainder(rest, terms_[i])) {
      remainders = Add(remainders, Scale(ModRange(operands[i], r->divisor), r->factor));
    }
  }
  const Interval other = Add(sum_of_terms(rest), remainders);
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
      if (!t.dividend || t.coefficient == kMin || t.coefficient % t.divisor != 0) continue;
      Affine trial = rest;
      const std::optional<Remainder> r = TakeRemainder(trial, t);
      if (!r || r->factor != -t.coefficient / t.divisor) continue;
      remainders.push_back(*r);
      rest = std::move(trial);
    }
    for (const Term& t : rest.terms()) {
      if (!t.dividend) Append(text, t.coefficient, name_(t.var));
    }
    const bool alone = rest.IsConstant() && rest.constant() == 0 && remainders.size() == 1 &&
                       remainders[0].factor == 1;
    for (const Remainder& r : remainders) {
      const std::string mod = fmt::format("{} mod {}", Operand(*r.dividend), r.divisor);
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
