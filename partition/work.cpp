#include "partition/work.h"

#include <algorithm>
#include <vector>

namespace weft::partition {

double MathCalls(const tc::Program& p) {
  double calls = 0;
  for (const tc::Statement& s : p.statements) {
    double instances = 1;
    for (const tc::Index& i : s.indices)
      if (i.lo.IsConstant() && i.hi.IsConstant())
        instances *= static_cast<double>(i.hi.constant() - i.lo.constant());
    int64_t functions = 0;
    std::vector<tc::ExprId> todo{s.value};
    while (!todo.empty()) {
      const tc::Expr& e = p[todo.back()];
      todo.pop_back();
      functions += e.kind == tc::ExprKind::kOp && IsMath(e.op);
      todo.insert(todo.end(), e.args.begin(), e.args.end());
    }
    calls += instances * static_cast<double>(functions);
  }
  return calls;
}

double StagedBytes(const tc::Program& p) {
  const auto is_plain = [&](tc::ExprId sub) {
    const auto e = tc::AsAffine(p, sub);
    return e && e->AsVar();
  };
  double bytes = 0;
  for (const tc::Statement& maker : p.statements) {
    const tc::TensorDecl& decl = p[maker.target];
    if (decl.role != tc::Role::kTemporary) continue;
    bool staged = false;
    for (const tc::Statement& user : p.statements)
      for (const tc::ExprId read : tc::Reads(p, user))
        staged |= p[read].tensor == maker.target &&
                  (tc::Contracts(user) ||
                   (tc::Contracts(maker) && !std::ranges::all_of(p[read].args, is_plain)));
    if (!staged) continue;
    double elems = 1;
    for (const int64_t extent : tc::StaticExtents(decl).value_or(Shape{}))
      elems *= static_cast<double>(extent);
    bytes += 2 * elems * static_cast<double>(Bits(decl.dtype)) / 8;
  }
  return bytes;
}

CallWork WorkOf(const fallback::LibraryCall& call) {
  CallWork work;
  const auto count = [](const fallback::CallOperand& o) {
    double elems = 1;
    for (int64_t e : o.shape) elems *= static_cast<double>(std::max<int64_t>(e, 0));
    return elems;
  };
  for (const auto& o : call.inputs)
    if (!o.value.empty()) work.bytes += count(o) * static_cast<double>(Bits(o.dtype)) / 8;
  for (const auto& o : call.outputs) {
    work.bytes += count(o) * static_cast<double>(Bits(o.dtype)) / 8;
    work.results += count(o);
  }
  const fallback::CallOperand* weights = fallback::FindOperand(call, "weights");
  if (call.op == "convolution" && weights && weights->shape.size() > 1)
    work.depth = count(*weights) / static_cast<double>(std::max<int64_t>(1, weights->shape[0]));
  else if (call.op == "matmul" && weights && weights->shape.size() > 1)
    work.depth = static_cast<double>(weights->shape[weights->shape.size() - 2]);
  work.flops =
      2 * work.results * work.depth + work.results * static_cast<double>(call.post_ops.size());
  return work;
}

}  // namespace weft::partition
