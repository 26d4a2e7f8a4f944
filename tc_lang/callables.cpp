#include "tc_lang/callables.h"

#include <algorithm>

#include "tc_lang/bind_expr.h"

namespace weft::tc {
namespace {

constexpr int32_t kDeepest = 100;  // of calls in calls

bool Above(const Def& a, const Def& b) {
  return a.at.line != b.at.line ? a.at.line < b.at.line : a.at.column < b.at.column;
}

}  // namespace

Callables::Callables(std::span<const Def> defs) {
  for (const Def& def : defs) {
    if (!IsBuiltin(def.name)) defs_.emplace(def.name, &def);
  }
}

const std::set<std::string, std::less<>>& Callables::OwnNames(const Def& def) {
  const auto [known, added] = own_names_.try_emplace(&def);
  if (added) {
    std::set<std::string, std::less<>>& names = known->second;
    for (const auto* list : {&def.params, &def.outputs, &def.temporaries}) {
      for (const SyntaxParam& param : *list) names.insert(param.name);
    }
    for (const SyntaxConst& c : def.constants) names.insert(c.name);
    for (const SyntaxStatement& s : def.statements) {
      for (const SyntaxTarget& target : s.targets) names.insert(target.name);
    }
  }
  return known->second;
}

const Def* Callables::Find(const Def& in, std::string_view name) {
  const auto def = defs_.find(name);
  if (def == defs_.end() || !Above(*def->second, in) || OwnNames(in).contains(name)) return nullptr;
  return def->second;
}

std::vector<std::string> Callables::Names(const Def& in) {
  std::vector<std::string> names;
  for (const auto& [name, def] : defs_) {
    if (Find(in, name) != nullptr) names.emplace_back(name);
  }
  return names;
}

const Def* Callables::OfStatement(const Def& in, const SyntaxStatement& s) {
  if (s.values.size() != 1 || s.values[0]->kind != SyntaxKind::kApply || s.assign != "=" ||
      s.init || !s.clauses.empty()) {
    return nullptr;
  }
  const bool whole = std::all_of(s.targets.begin(), s.targets.end(),
                                 [](const SyntaxTarget& t) { return t.subscripts.empty(); });
  const Def* callee = whole ? Find(in, s.values[0]->text) : nullptr;
  return callee != nullptr && !IsFunction(*callee) ? callee : nullptr;
}

std::optional<size_t> Callables::RankOfTarget(const Def& in, const SyntaxStatement& s, size_t k,
                                              int32_t depth) {
  const Def* callee = OfStatement(in, s);
  if (callee == nullptr) return s.targets[k].subscripts.size();
  if (depth > kDeepest || k >= callee->outputs.size()) return std::nullopt;
  for (const SyntaxStatement& inner : callee->statements) {
    for (size_t t = 0; t < inner.targets.size(); ++t) {
      if (inner.targets[t].name == callee->outputs[k].name)
        return RankOfTarget(*callee, inner, t, depth + 1);
    }
  }
  return std::nullopt;
}

bool Callables::IsFunction(const Def& def) {
  const auto [known, added] = functions_.try_emplace(&def, false);
  if (!added) return known->second;
  const auto scalar = [](const SyntaxParam& p) { return p.dims.empty() && !p.is_size; };
  std::set<std::string_view> names;
  bool fine = def.outputs.size() == 1 && def.constants.empty() && def.temporaries.empty();
  for (const SyntaxParam& param : def.params)
    fine = fine && scalar(param) && names.insert(param.name).second;
  for (const SyntaxParam& output : def.outputs) fine = fine && scalar(output);
  for (const SyntaxStatement& s : def.statements) {
    fine = fine && s.targets.size() == 1 && s.targets[0].subscripts.empty() && s.assign == "=" &&
           !s.init && s.clauses.empty() && s.values.size() == 1 &&
           names.insert(s.targets[0].name).second;
  }
  fine = fine && names.contains(def.outputs.empty() ? "" : def.outputs[0].name);
  return functions_[&def] = fine;
}

}  // namespace weft::tc
