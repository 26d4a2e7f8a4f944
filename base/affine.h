// Quasi-affine integer expressions: sums of variables and of floor-divisions, with constants.
//
//   e ::= c0 + c1 * a1 + c2 * a2 + ...        a ::= variable | floor(e / d), d > 1
//
// They say which element an instance touches, where a loop ends, and at which offset a logical
// index lies. The remainder is not an atom of its own: e mod d is e - d * floor(e / d). Expressions
// are kept in one normal form (terms sorted by atom, no zero coefficients, floors simplified as far
// as divisibility shows), so that equal text, equal value and `==` mostly coincide.
//
// A variable is an index into the names of whoever owns the expression.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

using Var = int32_t;

// The integers from lo to hi, both included; empty when hi < lo.
struct Interval {
  int64_t lo = 0, hi = -1;
  bool empty() const { return hi < lo; }
  bool operator==(const Interval&) const = default;
};

class Affine {
 public:
  // coefficient * var, or coefficient * floor(*dividend / divisor) when dividend is set.
  struct Term {
    int64_t coefficient = 0;
    Var var = -1;
    std::shared_ptr<const Affine> dividend;
    int64_t divisor = 1;
    bool operator==(const Term& other) const;
  };

  Affine(int64_t constant = 0) : constant_(constant) {}  // NOLINT: integers are expressions
  static Affine OfVar(Var var, int64_t coefficient = 1);

  int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool IsConstant() const { return terms_.empty(); }
  // The variable v when the expression is exactly v.
  std::optional<Var> AsVar() const;
  // The coefficient of `var` among the direct terms (0 if absent); variables inside floors don't
  // count.
  int64_t CoefficientOf(Var var) const;
  // True if `var` occurs anywhere, inside floors too.
  bool Uses(Var var) const;
  void CollectVars(std::vector<Var>& out) const;  // sorted, unique on return

  Affine operator+(const Affine& other) const;
  Affine operator-(const Affine& other) const;
  Affine operator-() const;
  Affine operator*(int64_t factor) const;
  Affine& operator+=(const Affine& other) { return *this = *this + other; }
  bool operator==(const Affine& other) const;
  // A total order for sorted containers; no meaning beyond that.
  bool operator<(const Affine& other) const;

  // Each variable v becomes replacement(v).
  Affine Substitute(const std::function<Affine(Var)>& replacement) const;
  // The same; nullopt if a coefficient or the constant leaves int64.
  std::optional<Affine> TrySubstitute(const std::function<Affine(Var)>& replacement) const;
  // values[v] for each variable v. Saturates.
  int64_t Eval(std::span<const int64_t> values) const;
  // A sound (not always tight) interval, given ranges[v] for each variable v. Saturates.
  Interval Bounds(const std::function<Interval(Var)>& ranges) const;

  // "6*w0 + m + s - 1", "floor((4*a + b)/8)"; name(v) gives a variable's name.
  std::string Print(const std::function<std::string(Var)>& name) const;

 private:
  friend Affine FloorDiv(const Affine& e, int64_t divisor);
  friend std::optional<Affine> AddScaled(const Affine& a, const Affine& b, int64_t factor);
  int64_t constant_ = 0;
  std::vector<Term> terms_;
};

Affine FloorDiv(const Affine& e, int64_t divisor);  // divisor > 0
Affine Mod(const Affine& e, int64_t divisor);       // divisor > 0; result in [0, divisor)
inline Affine CeilDiv(const Affine& e, int64_t divisor) {
  return FloorDiv(e + (divisor - 1), divisor);
}
// a + factor * b; nullopt if a coefficient or the constant leaves int64. The operators take that
// for a defect of ours: what comes from a file is added up with this.
std::optional<Affine> AddScaled(const Affine& a, const Affine& b, int64_t factor);
inline Affine operator*(int64_t factor, const Affine& e) { return e * factor; }

// floor(a / b) and a - b * floor(a / b) on integers; b != 0. FloorDiv(-2^63, -1) is -2^63.
int64_t FloorDiv(int64_t a, int64_t b);
int64_t FloorMod(int64_t a, int64_t b);

}  // namespace weft
