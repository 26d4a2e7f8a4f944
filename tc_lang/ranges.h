// Range inference for one statement: see docs/language.md, "Ranges".
//
// Expressions here are over the statement's indices (Var i = index i) and the program's params (Var
// `indices + p`). Boxes and ranges are half open. Every answer over params holds for all their
// values.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/affine.h"
#include "tc_lang/diagnostics.h"
#include "tc_lang/program.h"

namespace weft::tc {

// lo <= x < hi, over params.
struct Box1 {
  Affine lo, hi;
};

// One subscript of one access and the box that it has to stay in.
struct Constraint {
  std::optional<Affine> subscript;  // none: not affine (a gather, a clamp), bounds nothing
  std::optional<Box1> box;          // none: not known yet (a recurrence)
  bool guarded = false;
  std::string tensor;
  int32_t dimension = 0;
  Location at;
};

struct IndexRange {
  std::string name;
  std::optional<Box1> range;
  bool given = false;  // by `where`
};

class RangeInference {
 public:
  RangeInference(std::vector<IndexRange>& indices, const std::vector<Constraint>& constraints,
                 const std::vector<std::string>& params, Diagnostics& diagnostics)
      : indices_(indices), constraints_(constraints), params_(params), diagnostics_(diagnostics) {}

  // Resolves every index, or says which it can't and why; `names` are others that an index may be a
  // misspelling of.
  bool Run(Location statement, const std::function<std::vector<std::string>()>& names);
  // After Run: unguarded subscripts stay in their boxes. What depends on params becomes text in
  // `preconditions`.
  bool CheckAccesses(std::vector<std::string>& preconditions);

 private:
  bool Round(bool guarded, bool& progress);
  bool Solve(const Constraint& c, Var v, std::optional<Box1>& range);
  bool Intersect(const Constraint& c, Var v, std::optional<Box1>& range, const Box1& with);
  std::vector<Var> Unresolved(const Affine& e) const;
  bool ReportUnresolved(Location statement, std::vector<std::string> names);
  void ReportEmpty(const Constraint& c, size_t v, const Box1& range);
  void ReportOutside(const Constraint& c, const Box1& bounds);
  std::string SuggestWhere(const Constraint& c) const;
  std::string Shown(const Constraint& c) const;  // "0 <= i + k < 9 on 'I'"
  bool InsideExactly(const Constraint& c) const;
  std::string Name(Var v) const;
  std::string Text(const Affine& e) const;

  std::vector<IndexRange>& indices_;
  const std::vector<Constraint>& constraints_;
  const std::vector<std::string>& params_;
  Diagnostics& diagnostics_;
};

// The least and the largest value of an affine expression over resolved indices, both included,
// each over params. Exact when no variable occurs twice. An index with an empty range counts as its
// lo.
Box1 ClosedBounds(const Affine& e, const std::vector<IndexRange>& indices);
// e >= 0 for all values of the params: yes, no for all of them, or it depends.
enum class Sign : uint8_t { kNonNegative, kNegative, kDepends };
Sign SignOf(const Affine& e);

}  // namespace weft::tc
