#include "polyhedral/copies.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::polyhedral {
namespace {

tc::TensorId TensorOf(const tc::Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.tensors, name, &tc::TensorDecl::name);
  return found == program.tensors.end() ? tc::TensorId()
                                        : tc::TensorId(found - program.tensors.begin());
}

std::string FreshName(const tc::Program& program, std::string name) {
  while (TensorOf(program, name).valid()) name += '_';
  return name;
}

// The place of the first reader, or of the loop over several statements that it is in.
size_t FirstReader(const tc::Program& program, tc::TensorId tensor) {
  const auto steps = tc::Steps(program);
  if (!steps.ok()) return 0;
  for (const tc::Step& step : *steps) {
    for (size_t s = step.first; s <= step.last; ++s)
      for (const tc::ExprId read : tc::Reads(program, program.statements[s]))
        if (program[read].tensor == tensor) return step.first;
  }
  return 0;
}

// Returns the name of the copy.
std::string AddCopy(tc::Program& program, tc::TensorId operand) {
  const size_t place = FirstReader(program, operand);
  tc::TensorDecl decl = program[operand];
  decl.name = FreshName(program, decl.name + "_packed");
  decl.role = tc::Role::kTemporary;
  const tc::TensorId copy(program.tensors.size());
  for (tc::Expr& e : program.exprs)
    if (e.kind == tc::ExprKind::kRead && e.tensor == operand) e.tensor = copy;
  const auto add = [&](tc::Expr e) {
    program.exprs.push_back(std::move(e));
    return tc::ExprId(program.exprs.size() - 1);
  };
  tc::Statement s{.target = copy, .accumulate = decl.dtype, .tag = tc::Tag::kCopy};
  for (size_t axis = 0; axis < decl.extents.size(); ++axis) {
    s.indices.push_back({.name = fmt::format("i{}", axis), .lo = 0, .hi = decl.extents[axis]});
    s.subscripts.push_back(add({.kind = tc::ExprKind::kIndex,
                                .dtype = Dtype::kI32,
                                .position = static_cast<int32_t>(axis)}));
  }
  s.value = add(
      {.kind = tc::ExprKind::kRead, .dtype = decl.dtype, .tensor = operand, .args = s.subscripts});
  std::string name = decl.name;
  program.tensors.push_back(std::move(decl));
  program.statements.insert(program.statements.begin() + static_cast<ptrdiff_t>(place),
                            std::move(s));
  return name;
}

}  // namespace

bool IsCopyable(const ScheduleRequest& request, const std::string& operand) {
  const tc::TensorId tensor = TensorOf(*request.program, operand);
  if (!tensor.valid()) return false;
  const tc::TensorDecl& decl = (*request.program)[tensor];
  return decl.role == tc::Role::kInput && tc::StaticExtents(decl) && Bits(decl.dtype) >= 8 &&
         !decl.extents.empty();
}

CopiedRequest WithCopies(const ScheduleRequest& request, std::span<const std::string> operands) {
  CopiedRequest copied{.request = request};
  if (operands.empty()) return copied;
  copied.program = std::make_unique<tc::Program>(*request.program);
  copied.request.program = copied.program.get();
  for (const std::string& operand : operands)
    copied.request.copies[AddCopy(*copied.program, TensorOf(*copied.program, operand))] = operand;
  return copied;
}

Verdict<CopiedRequest> WithCopies(const ScheduleRequest& request, std::span<const Pack> packs) {
  std::vector<std::string> operands;
  std::map<std::string, Layout> layouts;
  for (const Pack& pack : packs) {
    if (std::ranges::count(request.constants, pack.tensor) > 0) continue;
    if (!IsCopyable(request, pack.tensor))
      return Refusal{Reason::kChoiceDoesNotFit,
                     fmt::format("{} is packed and is no input of the group that a copy could be "
                                 "made of",
                                 pack.tensor)};
    const size_t rank = (*request.program)[TensorOf(*request.program, pack.tensor)].extents.size();
    if (pack.layout.rank() != rank)
      return Refusal{Reason::kChoiceDoesNotFit, fmt::format("{} is packed as {}, expected {} axes",
                                                            pack.tensor, Print(pack.layout), rank)};
    if (!layouts.emplace(pack.tensor, pack.layout).second)
      return Refusal{Reason::kChoiceDoesNotFit, fmt::format("{} is packed twice", pack.tensor)};
    operands.push_back(pack.tensor);
  }
  CopiedRequest copied = WithCopies(request, operands);
  for (const auto& [copy, operand] : copied.request.copies)
    copied.request.layouts[copy] = layouts.at(operand);
  return copied;
}

}  // namespace weft::polyhedral
