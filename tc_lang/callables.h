// Which def a name calls: those that stand above the calling one, so that no call recurs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tc_lang/syntax.h"

namespace weft::tc {

class Callables {
 public:
  // A def with the name of a builtin is never called: the name is the builtin's.
  explicit Callables(std::span<const Def> defs);

  // The def that `name` calls inside of `in`: none if it is below, or if `in` has a tensor of that
  // name.
  const Def* Find(const Def& in, std::string_view name);
  std::vector<std::string> Names(const Def& in);  // of all that may be called
  // It is a def, but not one above: a call would recur, or might.
  bool Recurs(const Def& in, std::string_view name) {
    return defs_.contains(name) && !OwnNames(in).contains(name) && Find(in, name) == nullptr;
  }
  // The callee of `name(…)` alone on the right of a plain '='.
  const Def* OfStatement(const Def& in, const SyntaxStatement& s);
  // How many subscripts the k-th target of a statement has.
  std::optional<size_t> RankOfTarget(const Def& in, const SyntaxStatement& s, size_t k,
                                     int32_t depth = 0);
  // A function of scalars, whose calls are written out like lets: all it has are scalars, each
  // assigned once by '='.
  bool IsFunction(const Def& def);

 private:
  const std::set<std::string, std::less<>>& OwnNames(const Def& def);

  std::map<std::string_view, const Def*> defs_;
  std::map<const Def*, std::set<std::string, std::less<>>> own_names_;
  std::map<const Def*, bool> functions_;
};

}  // namespace weft::tc
