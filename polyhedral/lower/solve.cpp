// From band members back to indices: the tree gives members as functions of indices, loops need
// indices as functions of members. Members are linear in the indices and in floors of them; taking
// each distinct floor for an unknown of its own makes that a small linear system, solved exactly.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "polyhedral/lower/plan.h"

namespace weft::polyhedral::lower {
namespace {

// sum(coefficient[u] * unknown u) = value, everything times a common integer factor.
struct Row {
  std::vector<int64_t> coefficient;
  Affine value;
};

struct Unknown {
  Var index = -1;  // a statement index, or the floor below
  std::shared_ptr<const Affine> dividend;
  int64_t divisor = 1;
};

// Floors in one form, whoever wrote them: coefficients of a dividend in [0, divisor), by
// floor((x - 2 f)/3) = floor((x + f)/3) - f. Otherwise one floor would be two unknowns.
Affine Canonical(const Affine& e) {
  Affine result = e.constant();
  for (const Affine::Term& t : e.terms()) {
    if (!t.dividend) {
      result += Affine::OfVar(t.var, t.coefficient);
      continue;
    }
    const Affine dividend = Canonical(*t.dividend);
    Affine whole = 0, rest = dividend.constant();
    for (const Affine::Term& u : dividend.terms()) {
      const Affine atom = u.dividend ? FloorDiv(*u.dividend, u.divisor) : Affine::OfVar(u.var);
      whole += atom * FloorDiv(u.coefficient, t.divisor);
      rest += atom * FloorMod(u.coefficient, t.divisor);
    }
    result += (whole + FloorDiv(rest, t.divisor)) * t.coefficient;
  }
  return result;
}

class System {
 public:
  System(const std::vector<Member>& path, size_t indices) {
    for (size_t i = 0; i < indices; ++i) unknowns_.push_back({.index = static_cast<Var>(i)});
    for (const Member& member : path) Collect(member.e);
    for (const Member& member : path) {
      Row row{Coefficients(member.e), Affine::OfVar(member.dim) - member.e.constant()};
      rows_.push_back(std::move(row));
    }
    Eliminate();
  }

  const std::vector<Unknown>& unknowns() const { return unknowns_; }

  // e over dimensions, where the first unknowns have these values: those of floors inside too, lest
  // a floor stays that is known to be something simpler.
  Affine Substitute(const Affine& e, const std::vector<std::optional<Affine>>& values) const {
    Affine result = e.constant();
    for (const Affine::Term& t : e.terms()) {
      const size_t u = Find(t);
      const bool known = u < values.size() && values[u];
      result += (known ? *values[u] : FloorDiv(Substitute(*t.dividend, values), t.divisor)) *
                t.coefficient;
    }
    return result;
  }

  std::optional<Affine> ValueOf(size_t unknown) const {
    const int pivot = pivots_[unknown];
    if (pivot < 0) return std::nullopt;
    const Row& row = rows_[pivot];
    for (size_t u = 0; u < unknowns_.size(); ++u) {
      if (u != unknown && row.coefficient[u] != 0) return std::nullopt;
    }
    const int64_t c = row.coefficient[unknown];
    for (const Affine::Term& t : row.value.terms()) {
      if (t.coefficient % c != 0) return std::nullopt;
    }
    if (row.value.constant() % c != 0) return std::nullopt;
    return c > 0 ? FloorDiv(row.value, c) : FloorDiv(-row.value, -c);
  }

 private:
  void Collect(const Affine& e) {
    for (const Affine::Term& t : e.terms()) {
      if (!t.dividend || Find(t) < unknowns_.size()) continue;
      Collect(*t.dividend);
      unknowns_.push_back({.dividend = t.dividend, .divisor = t.divisor});
    }
  }

  size_t Find(const Affine::Term& t) const {
    const auto same = [&](const Unknown& u) {
      if (!t.dividend) return u.index == t.var;
      return u.dividend && u.divisor == t.divisor && *u.dividend == *t.dividend;
    };
    return std::ranges::find_if(unknowns_, same) - unknowns_.begin();
  }

  std::vector<int64_t> Coefficients(const Affine& e) const {
    std::vector<int64_t> result(unknowns_.size());
    for (const Affine::Term& t : e.terms()) result[Find(t)] += t.coefficient;
    return result;
  }

  // Fraction-free Gauss-Jordan; indices first would lose floors, so floors are eliminated first.
  void Eliminate() {
    pivots_.assign(unknowns_.size(), -1);
    std::vector<bool> used(rows_.size());
    for (size_t u = unknowns_.size(); u-- > 0;) {
      size_t pivot = 0;
      while (pivot < rows_.size() && (used[pivot] || rows_[pivot].coefficient[u] == 0)) ++pivot;
      if (pivot == rows_.size()) continue;
      used[pivot] = true;
      pivots_[u] = static_cast<int>(pivot);
      for (size_t r = 0; r < rows_.size(); ++r) {
        if (r != pivot && rows_[r].coefficient[u] != 0) Subtract(rows_[r], rows_[pivot], u);
      }
    }
  }

  static void Subtract(Row& row, const Row& pivot, size_t u) {
    const int64_t common = std::gcd(row.coefficient[u], pivot.coefficient[u]);
    const int64_t a = pivot.coefficient[u] / common, b = row.coefficient[u] / common;
    for (size_t k = 0; k < row.coefficient.size(); ++k) {
      row.coefficient[k] = row.coefficient[k] * a - pivot.coefficient[k] * b;
    }
    row.value = row.value * a - pivot.value * b;
  }

  std::vector<Unknown> unknowns_;
  std::vector<Row> rows_;
  std::vector<int> pivots_;
};

void Add(Unit& unit, Affine e, Limit limit = Limit::kDomain) {
  if (e.IsConstant() && e.constant() >= 0) return;
  const bool known = std::ranges::any_of(
      unit.constraints, [&](const Constraint& c) { return c.e == e && c.limit == limit; });
  if (!known) unit.constraints.push_back({std::move(e), limit});
}

// The range of a dividend that uses indices which the unit does not have: a block of a reduction,
// around the reduction's inner loops.
std::optional<Interval> RangeWithout(const tc::Statement& statement,
                                     const std::vector<bool>& wanted, const Affine& dividend) {
  std::vector<Var> used;
  dividend.CollectVars(used);
  if (std::ranges::all_of(used, [&](Var v) { return wanted[v]; })) return std::nullopt;
  return dividend.Bounds([&](Var v) {
    const tc::Index& index = statement.indices[v];
    return Interval{index.lo.IsConstant() ? index.lo.constant() : 0,
                    index.hi.IsConstant() ? index.hi.constant() - 1 : kOpen};
  });
}

}  // namespace

Status SolveIndices(const tc::Program& program, const std::vector<Member>& members,
                    const std::vector<bool>& wanted, Unit& unit) {
  std::vector<Member> path = members;
  for (Member& member : path) member.e = Canonical(member.e);
  const tc::Statement& statement = program.statements[unit.statement];
  const size_t n = statement.indices.size();
  const System system(path, n);
  std::vector<std::optional<Affine>> values;  // an index that is not wanted is 0
  for (size_t u = 0; u < system.unknowns().size(); ++u) {
    const std::optional<Affine> value = system.ValueOf(u);
    if (u < n) {
      if (wanted[u] && !value) {
        return Unsupported(fmt::format("the schedule does not determine index {} of {}",
                                       statement.indices[u].name, program[statement.target].name));
      }
      unit.index.push_back(value.value_or(0));
    }
    values.push_back(u < n ? unit.index.back() : value);
    if (!value) continue;
    if (u < n) {
      Add(unit, *value - statement.indices[u].lo);
      Add(unit, statement.indices[u].hi - 1 - *value);
    } else {
      const Unknown& floor = system.unknowns()[u];
      if (auto range = RangeWithout(statement, wanted, *floor.dividend)) {
        if (range->lo > kOpenLo) Add(unit, *value - FloorDiv(range->lo, floor.divisor));
        if (range->hi < kOpen) Add(unit, Affine(FloorDiv(range->hi, floor.divisor)) - *value);
        continue;
      }
      const Affine rest = system.Substitute(*floor.dividend, values) - *value * floor.divisor;
      Add(unit, rest);
      Add(unit, Affine(floor.divisor - 1) - rest);
    }
  }
  // Members that the solution does not reproduce by itself (constants, repetitions) hold by
  // equation.
  for (const Member& member : path) {
    const Affine gap = system.Substitute(member.e, values) - Affine::OfVar(member.dim);
    if (gap == Affine(0)) continue;
    if (auto range = RangeWithout(statement, wanted, member.e)) {
      if (range->lo > kOpenLo) Add(unit, Affine::OfVar(member.dim) - range->lo);
      if (range->hi < kOpen) Add(unit, Affine(range->hi) - Affine::OfVar(member.dim));
      continue;
    }
    Add(unit, gap);
    Add(unit, -gap);
  }
  return {};
}

namespace {

// One constraint's word on one dimension, given ranges of the others.
void Tighten(const Affine& e, const Plan& plan, Var v, Interval& range,
             const std::function<Interval(Var)>& ranges) {
  const int64_t a = e.CoefficientOf(v);
  if (a == 0) return;
  const Affine rest = e - Affine::OfVar(v, a);
  if (rest.Uses(v)) return;
  const int64_t most = rest.Bounds(ranges).hi;
  if (most >= kOpen || !plan.IsDim(v)) return;
  if (a > 0) {
    range.lo = std::max(range.lo, -FloorDiv(most, a));
  } else {
    range.hi = std::min(range.hi, FloorDiv(most, -a));
  }
}

}  // namespace

void InferRanges(Plan& plan) {
  for (Dim& dim : plan.dims) dim.range = {kOpen, kOpenLo};
  for (const Unit& unit : plan.units) {
    std::map<Var, Interval> ranges;
    for (const Var v : unit.dims) ranges[v] = {kOpenLo, kOpen};
    const auto range_of = [&](Var v) { return plan.IsDim(v) ? ranges[v] : Interval{0, kOpen}; };
    for (int round = 0; round < 6; ++round) {
      for (const Constraint& c : unit.constraints) {
        if (c.limit != Limit::kDomain) continue;
        for (const Var v : unit.dims) Tighten(c.e, plan, v, ranges[v], range_of);
      }
    }
    for (const Var v : unit.dims) {
      plan[v].range.lo = std::min(plan[v].range.lo, ranges[v].lo);
      plan[v].range.hi = std::max(plan[v].range.hi, ranges[v].hi);
    }
  }
}

}  // namespace weft::polyhedral::lower
