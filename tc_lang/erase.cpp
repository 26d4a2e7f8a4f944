#include "tc_lang/erase.h"

#include <algorithm>

namespace weft::tc {

void EraseTensor(Program& program, TensorId gone) {
  const auto shift = [gone](TensorId& id) {
    if (id.valid() && id.index > gone.index) --id.index;
  };
  for (Expr& e : program.exprs) shift(e.tensor);
  for (Statement& s : program.statements) {
    shift(s.target);
    shift(s.companion);
  }
  program.tensors.erase(program.tensors.begin() + gone.index);
}

ExprId Append(Program& program, Expr e) {
  program.exprs.push_back(std::move(e));
  return ExprId(program.exprs.size() - 1);
}

bool WritesReadsOf(const Program& program, size_t place, const Statement& last) {
  const std::vector<ExprId> reads = Reads(program, program.statements[place]);
  const auto is_read = [&](TensorId written) {
    return std::ranges::any_of(reads, [&](ExprId e) { return program[e].tensor == written; });
  };
  for (const Statement* s = &program.statements[place]; s <= &last; ++s)
    if (is_read(s->target) || is_read(s->companion)) return true;
  return false;
}

void DropUnused(Program& program) {
  std::vector<bool> used(program.exprs.size());
  const auto use = [&](ExprId id) {
    if (id.valid()) used[static_cast<size_t>(id.index)] = true;
  };
  for (const Statement& s : program.statements) {
    std::ranges::for_each(s.subscripts, use);
    use(s.value);
    use(s.companion_value);
  }
  for (size_t i = used.size(); i-- > 0;)
    if (used[i]) std::ranges::for_each(program.exprs[i].args, use);
  std::vector<ExprId> place(used.size());
  std::vector<Expr> kept;
  const auto move = [&](ExprId& id) {
    if (id.valid()) id = place[static_cast<size_t>(id.index)];
  };
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    std::ranges::for_each(program.exprs[i].args, move);
    place[i] = ExprId(kept.size());
    kept.push_back(std::move(program.exprs[i]));
  }
  program.exprs = std::move(kept);
  for (Statement& s : program.statements) {
    std::ranges::for_each(s.subscripts, move);
    move(s.value);
    move(s.companion_value);
  }
}

}  // namespace weft::tc
