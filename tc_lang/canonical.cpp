#include <fmt/format.h>

#include "tc_lang/program.h"

namespace weft::tc {

Program Canonical(const Program& program) {
  Program p = program;
  p.name = "f";
  for (size_t k = 0; k < p.params.size(); ++k) p.params[k] = fmt::format("n{}", k);
  for (TensorDecl& tensor : p.tensors) tensor.name.clear();
  size_t next = 0;
  const auto name = [&](TensorId id) {
    TensorDecl& tensor = p.tensors[static_cast<size_t>(id.index)];
    if (tensor.name.empty()) tensor.name = fmt::format("t{}", next++);
  };
  for (TensorId id : Inputs(p)) name(id);  // the signature is a use
  for (TensorId id : Outputs(p)) name(id);
  for (Statement& s : p.statements) {
    s.origin.clear();
    s.tag = Classify(p, s);
    for (ExprId id : Reads(p, s)) name(p[id].tensor);
    name(s.target);
    if (s.companion.valid()) name(s.companion);
    for (size_t k = 0; k < s.indices.size(); ++k) s.indices[k].name = fmt::format("i{}", k);
  }
  for (size_t k = 0; k < p.tensors.size(); ++k) name(TensorId(k));  // constants that nothing reads
  return p;
}

std::string CanonicalText(const Program& program) {
  Program p = Canonical(program);
  for (Statement& s : p.statements) s.tag = Tag::kNone;
  return Print(p);
}

}  // namespace weft::tc
