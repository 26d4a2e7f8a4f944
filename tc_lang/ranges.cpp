#include "tc_lang/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tc_lang/region.h"

namespace weft::tc {
namespace {

constexpr int64_t kMostPoints = 1 << 12;  // of an exact check by enumeration

int32_t Count(const std::vector<IndexRange>& indices) {
  return static_cast<int32_t>(indices.size());
}

Affine LastOf(const Box1& range) {
  const Affine last = range.hi - 1;
  return last.IsConstant() && range.lo.IsConstant() ? std::max(last.constant(), range.lo.constant())
                                                    : last;
}

// x mod d hides in x - d * floor(x / d), where intervals lose that both x are the same. Takes one
// `factor * (dividend mod divisor)` out of `e`, if there is one.
struct ModTerm {
  int64_t factor = 0, divisor = 1;
  Affine dividend;
};
std::optional<ModTerm> TakeMod(Affine& e) {
  for (const Affine::Term& term : e.terms()) {
    if (term.dividend == nullptr || term.coefficient % term.divisor != 0) continue;
    ModTerm mod{-term.coefficient / term.divisor, term.divisor, *term.dividend};
    const Affine rest = e - Mod(mod.dividend, mod.divisor) * mod.factor;
    if (rest.terms().size() >= e.terms().size()) continue;  // the dividend is not there
    e = rest;
    return mod;
  }
  return std::nullopt;
}

// The bounds of an expression whose ranges are all numbers, far ones cut off.
std::optional<Interval> FixedBounds(const Affine& e, const std::vector<IndexRange>& indices) {
  std::vector<Var> vars;
  e.CollectVars(vars);
  for (Var v : vars) {
    if (v >= Count(indices)) return std::nullopt;
    const Box1& range = *indices[static_cast<size_t>(v)].range;
    if (!range.lo.IsConstant() || !range.hi.IsConstant()) return std::nullopt;
  }
  const Interval bounds = e.Bounds([&](Var v) {
    const Box1& range = *indices[static_cast<size_t>(v)].range;
    return Interval{range.lo.constant(), LastOf(range).constant()};
  });
  constexpr int64_t kFar = int64_t{1} << 60;
  return Interval{std::clamp(bounds.lo, -kFar, kFar), std::clamp(bounds.hi, -kFar, kFar)};
}

}  // namespace

Box1 ClosedBounds(const Affine& whole, const std::vector<IndexRange>& indices) {
  if (const std::optional<Interval> fixed = FixedBounds(whole, indices))
    return {fixed->lo, fixed->hi};
  Affine e = whole;
  Box1 out{0, 0};
  const auto add = [&](const Box1& atom, int64_t factor) {
    out.lo += (factor >= 0 ? atom.lo : atom.hi) * factor;
    out.hi += (factor >= 0 ? atom.hi : atom.lo) * factor;
  };
  while (const std::optional<ModTerm> mod = TakeMod(e)) {
    const Box1 dividend = ClosedBounds(mod->dividend, indices);
    const bool small = SignOf(dividend.lo) == Sign::kNonNegative &&
                       SignOf(Affine(mod->divisor - 1) - dividend.hi) == Sign::kNonNegative;
    add(small ? dividend : Box1{0, mod->divisor - 1}, mod->factor);
  }
  add({e.constant(), e.constant()}, 1);
  for (const Affine::Term& term : e.terms()) {
    if (term.dividend != nullptr) {
      const Box1 dividend = ClosedBounds(*term.dividend, indices);
      add({FloorDiv(dividend.lo, term.divisor), FloorDiv(dividend.hi, term.divisor)},
          term.coefficient);
    } else if (term.var < Count(indices)) {
      const Box1& range = *indices[static_cast<size_t>(term.var)].range;
      add({range.lo, LastOf(range)}, term.coefficient);
    } else {  // params keep the program's numbers in the answer, not the statement's
      const Affine param = Affine::OfVar(term.var - Count(indices));
      add({param, param}, term.coefficient);
    }
  }
  return out;
}

Sign SignOf(const Affine& e) {
  if (e.IsConstant()) return e.constant() >= 0 ? Sign::kNonNegative : Sign::kNegative;
  const Interval bounds =
      e.Bounds([](Var) { return Interval{0, std::numeric_limits<int32_t>::max()}; });
  if (bounds.lo >= 0) return Sign::kNonNegative;
  return bounds.hi < 0 ? Sign::kNegative : Sign::kDepends;
}

std::string RangeInference::Name(Var v) const {
  return v < Count(indices_) ? indices_[static_cast<size_t>(v)].name
                             : params_[static_cast<size_t>(v - Count(indices_))];
}

std::string RangeInference::Text(const Affine& e) const {
  return e.Print([this](Var v) { return params_[static_cast<size_t>(v)]; });
}

std::vector<Var> RangeInference::Unresolved(const Affine& e) const {
  std::vector<Var> vars, out;
  e.CollectVars(vars);
  for (Var v : vars) {
    if (v < Count(indices_) && !indices_[static_cast<size_t>(v)].range) out.push_back(v);
  }
  return out;
}

bool RangeInference::Intersect(const Constraint& c, Var v, std::optional<Box1>& range,
                               const Box1& with) {
  if (!range) {
    range = with;
    return true;
  }
  const Sign lo = SignOf(range->lo - with.lo), hi = SignOf(with.hi - range->hi);
  const bool same_lo = range->lo == with.lo, same_hi = range->hi == with.hi;
  if ((lo == Sign::kDepends && !same_lo) || (hi == Sign::kDepends && !same_hi)) {
    diagnostics_.Add(
        Problem::kOpenSize, c.at,
        fmt::format("which range of '{}' is the smaller one depends on sizes: {}:{} or {}:{}",
                    Name(v), Text(range->lo), Text(range->hi), Text(with.lo), Text(with.hi)),
        fmt::format("where {} in {}:{}", Name(v), Text(range->lo), Text(range->hi)));
    return false;
  }
  if (lo == Sign::kNegative) range->lo = with.lo;
  if (hi == Sign::kNegative) range->hi = with.hi;
  return true;
}

// a * v + rest in [lo, hi) for all values of the rest.
bool RangeInference::Solve(const Constraint& c, Var v, std::optional<Box1>& range) {
  const int64_t a = c.subscript->CoefficientOf(v);
  const Affine rest = *c.subscript - Affine::OfVar(v, a);
  if (a == 0 || rest.Uses(v)) return true;  // under a division: `where` has to say
  const Box1 bounds = ClosedBounds(rest, indices_);
  Box1 solution;
  if (a > 0) {
    solution = {CeilDiv(c.box->lo - bounds.lo, a), FloorDiv(c.box->hi - 1 - bounds.hi, a) + 1};
  } else {
    solution = {CeilDiv(bounds.hi - c.box->hi + 1, -a), FloorDiv(bounds.lo - c.box->lo, -a) + 1};
  }
  return Intersect(c, v, range, solution);
}

bool RangeInference::Round(bool guarded, bool& progress) {
  std::vector<std::optional<Box1>> found(indices_.size());
  std::vector<const Constraint*> last(indices_.size(), nullptr);
  for (const Constraint& c : constraints_) {
    if (!c.subscript || !c.box || c.guarded != guarded) continue;
    const std::vector<Var> open = Unresolved(*c.subscript);
    if (open.size() != 1) continue;
    std::vector<Var> all;
    c.subscript->CollectVars(all);
    if (guarded && all.size() != 1)
      continue;  // a guard may be there for the sake of the other variable
    const auto v = static_cast<size_t>(open[0]);
    if (!Solve(c, open[0], found[v])) return false;
    if (found[v] && last[v] == nullptr) last[v] = &c;
  }
  for (size_t v = 0; v < found.size(); ++v) {
    if (!found[v]) continue;
    if (SignOf(found[v]->hi - found[v]->lo) == Sign::kNegative) {
      ReportEmpty(*last[v], v, *found[v]);
      return false;
    }
    indices_[v].range = found[v];
    progress = true;
  }
  return true;
}

bool RangeInference::Run(Location statement,
                         const std::function<std::vector<std::string>()>& names) {
  while (true) {
    bool progress = false;
    if (!Round(false, progress)) return false;
    if (progress) continue;
    if (!Round(true, progress)) return false;
    if (!progress) break;
  }
  const bool done =
      std::ranges::all_of(indices_, [](const IndexRange& i) { return i.range.has_value(); });
  return done || ReportUnresolved(statement, names());
}

std::string RangeInference::Shown(const Constraint& c) const {
  return fmt::format("{} <= {} < {} on '{}'", Text(c.box->lo),
                     c.subscript->Print([this](Var v) { return Name(v); }), Text(c.box->hi),
                     c.tensor);
}

// The index comes out of all constraints together; the first of them is named.
void RangeInference::ReportEmpty(const Constraint& c, size_t v, const Box1& range) {
  std::string others;
  std::vector<Var> vars;
  c.subscript->CollectVars(vars);
  for (Var other : vars) {
    if (other >= Count(indices_) || other == static_cast<Var>(v)) continue;
    const Box1& box = *indices_[static_cast<size_t>(other)].range;
    others += fmt::format("{}{} in {}:{}", others.empty() ? " with " : ", ", Name(other),
                          Text(box.lo), Text(box.hi));
  }
  diagnostics_.Add(Problem::kBackwardRange, c.at,
                   fmt::format("the range of '{}' is inferred as {}:{}, which ends before it "
                               "begins, from {}{}",
                               indices_[v].name, Text(range.lo), Text(range.hi), Shown(c), others),
                   fmt::format("where {} in {}:{} if none is meant", indices_[v].name,
                               Text(range.lo), Text(range.lo)));
}

// A range that the constraint allows for the last of its open indices.
std::string RangeInference::SuggestWhere(const Constraint& c) const {
  const Var v = Unresolved(*c.subscript).back();
  const int64_t a = c.subscript->CoefficientOf(v);
  if (a == 0) return fmt::format("where {} in 0:…", Name(v));
  const Affine extent = c.box->hi - c.box->lo;
  return fmt::format("where {} in 0:{}", Name(v), Text(CeilDiv(extent, a > 0 ? a : -a)));
}

bool RangeInference::ReportUnresolved(Location statement, std::vector<std::string> known) {
  std::vector<std::string> names;
  for (const IndexRange& index : indices_) (index.range ? known : names).push_back(index.name);
  const Constraint* ambiguous = nullptr;
  for (const Constraint& c : constraints_) {
    if (c.subscript && c.box && !Unresolved(*c.subscript).empty() && ambiguous == nullptr)
      ambiguous = &c;
  }
  std::string why = "nothing bounds it" + Suggestion(names[0], known);
  if (ambiguous != nullptr) {
    const size_t open = Unresolved(*ambiguous->subscript).size();
    why = open > 1 ? fmt::format("{} has {} open ones", Shown(*ambiguous), open)
          : ambiguous->guarded
              ? fmt::format("its only access, to '{}', is guarded", ambiguous->tensor)
              : fmt::format("it stands under a division on '{}'", ambiguous->tensor);
  }
  diagnostics_.Add(
      Problem::kOpenRange, ambiguous != nullptr ? ambiguous->at : statement,
      fmt::format("the range of '{}' is not determined: {}", fmt::join(names, "', '"), why),
      ambiguous != nullptr ? SuggestWhere(*ambiguous) : fmt::format("where {} in 0:…", names[0]));
  return false;
}

// By trying every value of the few variables that a subscript has.
bool RangeInference::InsideExactly(const Constraint& c) const {
  std::vector<Var> vars;
  c.subscript->CollectVars(vars);
  std::vector<int64_t> values(indices_.size() + params_.size(), 0);
  int64_t points = 1;
  for (Var v : vars) {
    if (v >= Count(indices_)) return false;
    const Box1& range = *indices_[static_cast<size_t>(v)].range;
    if (!range.lo.IsConstant() || !range.hi.IsConstant()) return false;
    const int64_t extent = range.hi.constant() - range.lo.constant();
    if (extent == 0) return true;
    if (extent > kMostPoints) return false;
    points *= extent;
    if (points > kMostPoints) return false;
    values[static_cast<size_t>(v)] = range.lo.constant();
  }
  if (!c.box->lo.IsConstant() || !c.box->hi.IsConstant()) return false;
  while (true) {
    const int64_t at = c.subscript->Eval(values);
    if (at < c.box->lo.constant() || at >= c.box->hi.constant()) return false;
    size_t k = 0;
    for (; k < vars.size(); ++k) {
      const auto v = static_cast<size_t>(vars[k]);
      if (++values[v] < indices_[v].range->hi.constant()) break;
      values[v] = indices_[v].range->lo.constant();
    }
    if (k == vars.size()) return true;
  }
}

// With the range that would do, if one index decides.
void RangeInference::ReportOutside(const Constraint& c, const Box1& bounds) {
  std::vector<Var> vars;
  c.subscript->CollectVars(vars);
  std::optional<Box1> allowed;
  std::string hint;
  if (vars.size() == 1 && vars[0] < Count(indices_) && Solve(c, vars[0], allowed) && allowed &&
      SignOf(allowed->hi - allowed->lo) == Sign::kNonNegative) {
    hint = fmt::format("where {} in {}:{}", Name(vars[0]), Text(allowed->lo), Text(allowed->hi));
  }
  diagnostics_.Add(
      Problem::kOutside, c.at,
      fmt::format("subscript {} of '{}', {}, runs from {} to {}, outside of {}:{}", c.dimension,
                  c.tensor, c.subscript->Print([this](Var v) { return Name(v); }), Text(bounds.lo),
                  Text(bounds.hi), Text(c.box->lo), Text(c.box->hi)),
      hint);
}

bool RangeInference::CheckAccesses(std::vector<std::string>& preconditions) {
  for (const IndexRange& index : indices_) {  // nothing is read
    if (index.range->hi == index.range->lo) return true;
  }
  bool fine = true;
  for (const Constraint& c : constraints_) {
    if (c.guarded || !c.subscript || !c.box) continue;
    const Box1 bounds = ClosedBounds(*c.subscript, indices_);
    const Sign low = SignOf(bounds.lo - c.box->lo), high = SignOf(c.box->hi - 1 - bounds.hi);
    if (low == Sign::kNonNegative && high == Sign::kNonNegative) continue;
    if (bounds.hi == c.box->hi - 1 && low == Sign::kNonNegative) continue;
    if (low != Sign::kNegative && high != Sign::kNegative) {
      preconditions.push_back(fmt::format("{} <= {} and {} < {} (subscript {} of {})",
                                          Text(c.box->lo), Text(bounds.lo), Text(bounds.hi),
                                          Text(c.box->hi), c.dimension, c.tensor));
      continue;
    }
    if (InsideExactly(c)) continue;
    ReportOutside(c, bounds);
    fine = false;
  }
  return fine;
}

}  // namespace weft::tc
